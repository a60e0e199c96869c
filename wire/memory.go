package wire

import (
	"context"
	"math/bits"
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

// buffer is a pooled byte slice. B may be resliced and appended to; when an append outgrows it, what lies in the pool
// is simply lost to it.
type buffer struct {
	B []byte

	class   int     // size class of the pooled slice; -1 when it is too large to be pooled
	pooled  []byte  // the slice that goes back to the pool
	budget  *budget // nil when nothing was charged
	charged int64
}

// Size classes are four per doubling, 512 bytes to 64 MiB, so that a buffer is at most a quarter larger than asked for.
const (
	smallestBuffer = 512
	bufferClasses  = 4*17 + 1
)

// classSize returns the size in bytes of a class.
func classSize(class int) int {
	return smallestBuffer / 4 * (4 + class%4) << (class / 4)
}

// classOf returns the smallest class that holds n bytes, which may be bufferClasses or more.
func classOf(n int) int {
	if n <= smallestBuffer {
		return 0
	}
	// The doubling that n lies in, and how many quarters of it n reaches into, rounded up.
	doubling := bits.Len(uint(n-1)) - bits.Len(smallestBuffer)
	base := smallestBuffer << doubling
	return doubling*4 + (n-base+base/4-1)/(base/4)
}

// buffers pools by class. Buffers hold no channel, so that sharing them among synctest bubbles is harmless.
var buffers [bufferClasses]sync.Pool

// newBuffer returns a buffer with len(B) = 0 and room for n bytes. It is not charged to a budget.
func newBuffer(n int) *buffer {
	class := classOf(n)
	if class >= bufferClasses {
		return &buffer{B: make([]byte, 0, n), class: -1}
	}
	b, _ := buffers[class].Get().(*buffer)
	if b == nil {
		b = &buffer{class: class, pooled: make([]byte, 0, classSize(class))}
	}
	b.B = b.pooled
	return b
}

// release gives the buffer back to its pool and its charge back to the budget. B must not be used afterwards.
func (b *buffer) release() {
	if b.budget != nil {
		b.budget.release(b.charged)
		b.budget, b.charged = nil, 0
	}
	b.B = nil
	if b.class >= 0 {
		buffers[b.class].Put(b)
	}
}

// answerBuffer returns a buffer with room for n bytes of an answer, charged to the memory for answers in flight. It
// waits for room until ctx ends. An *encoded that names the buffer releases it when it is written; until then the
// caller must.
func (s *Server) answerBuffer(ctx context.Context, n int) (*buffer, error) {
	if err := s.answers.acquire(ctx, int64(n)); err != nil {
		return nil, err
	}
	b := newBuffer(n)
	b.budget, b.charged = &s.answers, int64(n)
	return b, nil
}
