package runtime

import (
	"sync"
	"sync/atomic"
)

// Parallel calls f for 0 to n-1, for at most so many at a time, and returns when all are
// done.
func Parallel(n, atATime int, f func(i int)) {
	var (
		wg   sync.WaitGroup
		next atomic.Int64
	)
	for range min(atATime, n) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				f(i)
			}
		})
	}
	wg.Wait()
}
