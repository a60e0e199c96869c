package runtime

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func TestParallelCallsEachOnceAndSoManyAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, n := range []int{0, 1, 3, 10} {
			gate := make(chan struct{})
			var under, done atomic.Int64
			calls := make([]int, n)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				Parallel(n, 3, func(i int) {
					under.Add(1)
					<-gate
					calls[i]++
					under.Add(-1)
					done.Add(1)
				})
			}()
			for done.Load() < int64(n) {
				synctest.Wait()
				if got, want := under.Load(), min(3, int64(n)-done.Load()); got != want {
					t.Errorf("%d of %d are done and %d under way, want %d", done.Load(), n, got, want)
				}
				gate <- struct{}{}
				synctest.Wait()
			}
			<-ended
			for i, c := range calls {
				if c != 1 {
					t.Errorf("call %d of %d was made %d times", i, n, c)
				}
			}
		}
	})
}
