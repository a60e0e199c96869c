package wire

import (
	"context"
	"slices"
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
	line []*budgetWaiter // guarded by mu; first come, first served, those that hold memory already before the others
	// overdrawn says that somebody who holds memory has got more beyond the limit. Guarded by mu. One may at a time:
	// otherwise those who hold a part of what they need could all wait for each other.
	overdrawn bool
}

const budgetPatience = time.Second / 2

type budgetWaiter struct {
	n         int64
	holds     bool          // it holds memory already
	granted   chan struct{} // closed when n was taken for the waiter
	overdrawn bool          // n was taken beyond the limit; set before granted is closed
}

// acquire takes n bytes, waiting for room until ctx ends. A demand above the limit is met when nothing else is held,
// so that the largest allowed frame passes under any limit. What was taken goes back by release.
func (b *budget) acquire(ctx context.Context, n int64) error {
	if b.tryAcquire(n) {
		return nil
	}
	return b.wait(ctx, &budgetWaiter{n: n, granted: make(chan struct{})})
}

// acquireMore is acquire for somebody who holds memory of the budget. It goes before those who hold none, and when there
// is no room at all, one at a time may have what it asks for all the same. That is said by overdrawn: it may then force
// what else it needs, and when all of its memory is given back, repay must follow.
func (b *budget) acquireMore(ctx context.Context, n int64, overdrawn *bool) error {
	if b.take(n) {
		return nil
	}
	w := &budgetWaiter{n: n, holds: true, granted: make(chan struct{})}
	err := b.wait(ctx, w)
	*overdrawn = w.overdrawn
	return err
}

// repay lets the next one overdraw the budget.
func (b *budget) repay() {
	b.mu.Lock()
	b.overdrawn = false
	b.grant()
	b.mu.Unlock()
}

// wait stands in line until w is granted or ctx ends; then nothing was taken.
func (b *budget) wait(ctx context.Context, w *budgetWaiter) error {
	b.mu.Lock()
	at := len(b.line)
	if w.holds {
		at = 0
		for at < len(b.line) && b.line[at].holds {
			at++
		}
	}
	b.line = slices.Insert(b.line, at, w)
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
	for len(b.line) > 0 {
		w := b.line[0]
		if !b.take(w.n) {
			if !w.holds || b.overdrawn {
				return
			}
			b.overdrawn, w.overdrawn = true, true
			b.force(w.n)
		}
		close(w.granted)
		b.line = slices.Delete(b.line, 0, 1)
		b.waiting.Add(-1)
	}
}

// memory is a bound for the bytes that requests, or answers, in flight may hold together, an eighth of it kept for small
// ones: these never stand in line behind large ones. The zero value gives nothing without waiting; see setLimit.
type memory struct{ large, small budget }

// smallDemand is up to where a demand is small.
const smallDemand = 64 << 10

// setLimit sets the bound. It is called before anything is acquired.
func (m *memory) setLimit(n int64) {
	m.small.limit = n / 8
	m.large.limit = n - m.small.limit
}

// onWait sets what is called while somebody waits; see budget.
func (m *memory) onWait(f func()) { m.large.onWait, m.small.onWait = f, f }

// acquire takes n bytes, waiting for room until ctx ends, and returns where they are to be released.
func (m *memory) acquire(ctx context.Context, n int64) (*budget, error) {
	b := m.tryAcquire(n)
	if b != nil {
		return b, nil
	}
	if b = &m.large; n <= smallDemand {
		b = &m.small
	}
	return b, b.acquire(ctx, n)
}

// tryAcquire is acquire without the wait: nil when there is no room.
func (m *memory) tryAcquire(n int64) *budget {
	if n <= smallDemand && m.small.tryAcquire(n) {
		return &m.small
	}
	if m.large.tryAcquire(n) {
		return &m.large
	}
	return nil
}

// used returns the bytes that are held.
func (m *memory) used() int64 { return m.large.used.Load() + m.small.used.Load() }

// room returns how many bytes a large demand could get now, 0 or less when none.
func (m *memory) room() int64 { return m.large.limit - m.large.used.Load() }

// waits returns how often somebody had to wait.
func (m *memory) waits() int64 { return m.large.waits.Load() + m.small.waits.Load() }
