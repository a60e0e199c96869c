package wire

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// budget bounds the bytes that requests, or answers, in flight may hold together. Taking is an atomic add as long as
// there is room; who finds none waits in line. It is safe for concurrent use.
type budget struct {
	limit   int64
	used    atomic.Int64
	waiting atomic.Int32 // length of line; read without mu by release
	waits   atomic.Int64 // how often somebody had to wait

	// onWait is called, if set, when somebody begins to wait and every budgetPatience while it does, without mu.
	onWait func()

	mu   sync.Mutex
	line []*budgetWaiter // guarded by mu; first come, first served
}

const budgetPatience = 5 * time.Second

type budgetWaiter struct {
	n       int64
	granted chan struct{} // closed when n was taken for the waiter
}

// acquire takes n bytes, waiting for room until ctx ends. A demand above the limit is met when nothing else is held,
// so that the largest allowed frame passes under any limit. What was taken goes back by release.
func (b *budget) acquire(ctx context.Context, n int64) error {
	if b.tryAcquire(n) {
		return nil
	}
	w := &budgetWaiter{n: n, granted: make(chan struct{})}
	b.mu.Lock()
	b.line = append(b.line, w)
	b.waiting.Add(1)
	b.grant() // a release may have come between the try and the line
	b.mu.Unlock()
	b.waits.Add(1)
	again := time.NewTicker(budgetPatience)
	defer again.Stop()
	for ctx.Err() == nil {
		if b.onWait != nil {
			b.onWait()
		}
		select {
		case <-w.granted:
			return nil
		case <-ctx.Done():
		case <-again.C:
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, other := range b.line {
		if other == w {
			b.line = append(b.line[:i], b.line[i+1:]...)
			b.waiting.Add(-1)
			b.grant() // whoever stood behind may fit
			return ctx.Err()
		}
	}
	return nil // granted meanwhile
}

// tryAcquire takes n bytes if there is room and nobody waits.
func (b *budget) tryAcquire(n int64) bool {
	if b.waiting.Load() > 0 {
		return false
	}
	if b.take(n) {
		return true
	}
	b.grantWaiting() // somebody may have found no room because of the n that this try took for a moment
	return false
}

func (b *budget) take(n int64) bool {
	now := b.used.Add(n)
	if now <= b.limit || now == n {
		return true
	}
	b.give(n)
	return false
}

// force takes n bytes without asking, for memory that is there already.
func (b *budget) force(n int64) { b.used.Add(n) }

func (b *budget) give(n int64) {
	if b.used.Add(-n) < 0 {
		panic("wire: more memory released than acquired")
	}
}

// release gives n bytes back.
func (b *budget) release(n int64) {
	b.give(n)
	b.grantWaiting()
}

// grantWaiting serves the line, if there is one, after bytes were given back.
func (b *budget) grantWaiting() {
	if b.waiting.Load() == 0 {
		return
	}
	b.mu.Lock()
	b.grant()
	b.mu.Unlock()
}

// grant serves the line from its head while there is room. mu is held.
func (b *budget) grant() {
	for len(b.line) > 0 && b.take(b.line[0].n) {
		close(b.line[0].granted)
		b.line = b.line[1:]
		b.waiting.Add(-1)
	}
}
