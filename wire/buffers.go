package wire

import (
	"context"
	"math/bits"
	"runtime/debug"
	"sync"
	"time"
)

// buffer is a pooled byte slice. B may be resliced and appended to; when an append outgrows it, what lies in the pool
// is simply lost to it.
type buffer struct {
	B []byte

	class   int          // size class of the pooled slice; -1 when it is not pooled
	pooled  []byte       // the slice that goes back to the pool
	large   *bufferStock // where it goes back to; nil for small ones
	budget  *budget      // nil when nothing was charged
	charged int64

	overdrawn bool // the budget was overdrawn for it
}

// Size classes are four per doubling, 512 bytes to 64 MiB, so that a buffer is at most a quarter larger than asked for.
const (
	smallestBuffer = 512
	bufferClasses  = 4*17 + 1
	// smallClasses are those up to 64 KiB. The garbage collector clears their pools; a large buffer would stay for
	// long in them, since it takes many requests that reuse it to bring the next collection about.
	smallClasses = 4*7 + 1
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

// smallBuffers pools by class. Buffers hold no channel, so that sharing them among synctest bubbles is harmless.
var smallBuffers [smallClasses]sync.Pool

// bufferStock keeps large buffers that are not in use, bounded in bytes, and lets go of those that nobody needed for a
// while, as long as run runs. The zero value is ready to use. It is safe for concurrent use.
type bufferStock struct {
	mu    sync.Mutex
	free  [bufferClasses][]*buffer // guarded by mu; the last one that came is the first to go
	least [bufferClasses]int       // guarded by mu; the fewest that were free since the last look
	bytes int64                    // guarded by mu; of the free ones
	busy  bool                     // guarded by mu; one was taken since the last look
	used  bool                     // guarded by mu; one was taken since memory was last given back
}

const (
	// stockBytes is the most that is kept.
	stockBytes = 128 << 20
	// stockInterval is how long a buffer is kept that nobody needs.
	stockInterval = 15 * time.Second
)

// newBuffer returns a buffer with len(B) = 0 and room for n bytes. It is not charged to a budget. A large one is not
// pooled: see Server.buffers for those.
func newBuffer(n int) *buffer {
	class := classOf(n)
	if class >= smallClasses {
		return &buffer{B: make([]byte, 0, n), class: -1}
	}
	b, _ := smallBuffers[class].Get().(*buffer)
	if b == nil {
		b = &buffer{class: class, pooled: make([]byte, 0, classSize(class))}
	}
	b.B = b.pooled
	return b
}

// get is newBuffer, with large buffers out of the stock.
func (s *bufferStock) get(n int) *buffer {
	class := classOf(n)
	if class < smallClasses || class >= bufferClasses {
		return newBuffer(n)
	}
	s.mu.Lock()
	s.busy, s.used = true, true
	free := s.free[class]
	if len(free) == 0 {
		s.mu.Unlock()
		b := &buffer{class: class, pooled: make([]byte, 0, classSize(class)), large: s}
		b.B = b.pooled
		return b
	}
	last := len(free) - 1
	b := free[last]
	free[last] = nil
	s.free[class] = free[:last]
	s.least[class] = min(s.least[class], last)
	s.bytes -= int64(cap(b.pooled))
	s.mu.Unlock()
	b.B = b.pooled
	return b
}

// put takes a large buffer back, or leaves it to the garbage collector.
func (s *bufferStock) put(b *buffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := int64(cap(b.pooled))
	if s.bytes+n > stockBytes {
		return
	}
	s.bytes += n
	s.free[b.class] = append(s.free[b.class], b)
}

// run looks after the stock until ctx ends.
func (s *bufferStock) run(ctx context.Context) {
	ticker := time.NewTicker(stockInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			s.look()
		}
	}
}

// look lets go of the buffers that were free all the time since the last look. When that was all of them, the load is
// over, and what it left behind is given back to the system: with nothing to do the process would keep it for minutes,
// until the garbage collector comes of itself.
func (s *bufferStock) look() {
	s.mu.Lock()
	for class := smallClasses; class < bufferClasses; class++ {
		free := s.free[class]
		if drop := s.least[class]; drop > 0 {
			s.bytes -= int64(drop) * int64(classSize(class))
			clear(free[copy(free, free[drop:]):])
			free = free[:len(free)-drop]
		}
		if len(free) == 0 {
			free = nil
		}
		s.free[class], s.least[class] = free, len(free)
	}
	over := s.bytes == 0 && !s.busy && s.used
	s.busy = false
	if over {
		s.used = false
	}
	s.mu.Unlock()
	if over {
		debug.FreeOSMemory()
	}
}

// kept returns the bytes that are kept for later.
func (s *bufferStock) kept() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bytes
}

// release gives the buffer back to its pool and its charge back to the budget. B must not be used afterwards.
func (b *buffer) release() {
	if b.budget != nil {
		b.budget.release(b.charged)
		if b.overdrawn {
			b.budget.repay()
		}
		b.budget, b.charged, b.overdrawn = nil, 0, false
	}
	b.B = nil
	switch {
	case b.class < 0:
	case b.large != nil:
		b.large.put(b)
	default:
		smallBuffers[b.class].Put(b)
	}
}

// answerBuffer returns a buffer with room for n bytes of an answer, or fewer, but at least least, when there is little
// memory for answers; it is charged to that. It waits for room until ctx ends. An *encoded that names the buffer
// releases it when it is written; until then the caller must.
func (s *Server) answerBuffer(ctx context.Context, n, least int) (*buffer, error) {
	for {
		if b := s.tryAnswerBuffer(n); b != nil {
			return b, nil
		}
		if n <= least {
			break
		}
		n = max(n/2, least)
	}
	from, err := s.answers.acquire(ctx, int64(n))
	if err != nil {
		return nil, err
	}
	b := s.buffers.get(n)
	b.budget, b.charged = from, int64(n)
	return b, nil
}

// chargeAnswer charges a large buffer that was not. It is there already; what is charged keeps others from adding to it.
func (s *Server) chargeAnswer(b *buffer) {
	if n := int64(len(b.B)); n > keptAnswer && b.budget == nil {
		b.budget, b.charged = &s.answers.large, n
		b.budget.force(n)
	}
}

// tryAnswerBuffer returns a buffer with room for n bytes of an answer, nil when there is no memory for it.
func (s *Server) tryAnswerBuffer(n int) *buffer {
	from := s.answers.tryAcquire(int64(n))
	if from == nil {
		return nil
	}
	b := s.buffers.get(n)
	b.budget, b.charged = from, int64(n)
	return b
}
