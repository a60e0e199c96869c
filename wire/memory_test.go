package wire

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestBudgetIsFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget{limit: 100}
		var asked atomic.Int32
		b.onWait = func() { asked.Add(1) }
		take := func(n int64) {
			t.Helper()
			if err := b.acquire(t.Context(), n); err != nil {
				t.Fatal(err)
			}
		}
		take(60)
		var mu sync.Mutex
		var order []string
		wait := func(name string, n int64) {
			go func() {
				take(n)
				mu.Lock()
				defer mu.Unlock()
				order = append(order, name)
			}()
			synctest.Wait()
		}
		wait("large", 95)
		wait("small", 10) // fits, but came later
		if len(order) != 0 || b.tryAcquire(1) {
			t.Errorf("%v got memory before the one that waits", order)
		}
		<-time.After(2*budgetPatience + budgetPatience/2)
		b.release(60)
		synctest.Wait()
		if len(order) != 1 || order[0] != "large" || b.used.Load() != 95 {
			t.Errorf("order %v with %d bytes used, want large and 95", order, b.used.Load())
		}
		b.release(95)
		synctest.Wait()
		if len(order) != 2 || b.used.Load() != 10 {
			t.Errorf("order %v with %d bytes used, want large, small and 10", order, b.used.Load())
		}
		if n := asked.Load(); n != 2*3 { // at once, and then twice, each
			t.Errorf("onWait was called %d times by two who waited two and a half times as long as they are patient, want 6", n)
		}
	})
}

func TestBudgetGivesALoneDemandAboveTheLimit(t *testing.T) {
	b := budget{limit: 100}
	if err := b.acquire(t.Context(), 1000); err != nil {
		t.Fatal(err)
	}
	if b.tryAcquire(1) {
		t.Error("a byte was given beside 1000 of 100")
	}
	b.release(1000)
	if !b.tryAcquire(100) || b.tryAcquire(1) {
		t.Error("want exactly 100 bytes given")
	}
}

func TestBudgetWaitEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget{limit: 100}
		_ = b.acquire(t.Context(), 100)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		behind := make(chan error, 1)
		if err := func() error {
			go func() {
				<-time.After(time.Millisecond)
				behind <- b.acquire(t.Context(), 10)
			}()
			return b.acquire(ctx, 50)
		}(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("acquire: %v, want the context's error", err)
		}
		b.release(100)
		if err := <-behind; err != nil || b.used.Load() != 10 || b.waiting.Load() != 0 {
			t.Errorf("the one behind: %v, with %d used and %d waiting, want nil, 10 and 0", err, b.used.Load(), b.waiting.Load())
		}
	})
}

func TestBudgetLetsOneOfItsHoldersOverdraw(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := budget{limit: 100}
		got := map[string]bool{} // overdrawn
		var mu sync.Mutex
		more := func(name string, n int64) {
			go func() {
				var overdrawn bool
				if err := b.acquireMore(t.Context(), n, &overdrawn); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				got[name] = overdrawn
			}()
			synctest.Wait()
		}
		want := func(when, want string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if s := fmt.Sprint(got); s != "map["+want+"]" {
				t.Errorf("%s: got %s, want %s", when, s, want)
			}
		}
		_ = b.acquire(t.Context(), 50) // a's
		_ = b.acquire(t.Context(), 50) // b's
		go func() {
			_ = b.acquire(t.Context(), 10)
			mu.Lock()
			defer mu.Unlock()
			got["new"] = false
		}()
		synctest.Wait()
		more("a", 60)
		more("b", 70)
		want("both hold memory and want more", "a:true")
		b.release(110)
		b.repay()
		want("a has given all back", "a:true b:true")
		b.release(120)
		b.repay()
		want("b has given all back", "a:true b:true new:false")
		if b.used.Load() != 10 || b.overdrawn {
			t.Errorf("%d bytes used, overdrawn %v, want 10 and false", b.used.Load(), b.overdrawn)
		}
	})
}

func TestSmallDemandsNeverWaitBehindLargeOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m memory
		m.setLimit(8 << 20)
		take := func(n int64) *budget {
			t.Helper()
			from, err := m.acquire(t.Context(), n)
			if err != nil {
				t.Fatal(err)
			}
			return from
		}
		large := take(7 << 20)
		through := make(chan *budget)
		go func() { through <- take(1 << 20) }()
		synctest.Wait()
		for range 16 { // the eighth that is kept
			take(smallDemand)
		}
		if got := m.tryAcquire(1); got != nil || m.waits() != 1 {
			t.Errorf("a byte beyond the limit is given: %v, with %d waits, want none and 1", got != nil, m.waits())
		}
		large.release(7 << 20)
		if got := <-through; got != &m.large || m.used() != 2<<20 {
			t.Errorf("%d bytes used, want 2 MiB", m.used())
		}
	})
}

func BenchmarkBudget(b *testing.B) {
	m := budget{limit: 1 << 30}
	b.ReportAllocs()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			_ = m.acquire(context.Background(), 100)
			m.release(100)
		}
	})
}

func BenchmarkBuffer(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		newBuffer(1000).release()
	}
}
