package runtime

import (
	"context"
	"errors"
	"sync"

	"github.com/kaen-log/gateway/storage"
)

// InFlight is what was appended to one log and is not known to be durable, in log
// order: each with a step of the coordinator, which takes effect when its records are
// durable and is told when they were cut off again. All methods are called under the
// lock that the queue was made with, that of the log's shard.
type InFlight[S any] struct {
	log     *storage.Log
	mu      *sync.Mutex
	waits   *sync.WaitGroup
	settled func(appended storage.Appended, step S, err error)

	queue   []inFlight[S] // guarded by mu
	waiting bool          // guarded by mu; a goroutine waits for queue
}

type inFlight[S any] struct {
	appended storage.Appended
	step     S
}

// NewInFlight returns an empty queue for a log, which mu guards. What becomes of each
// step is told to settled, under mu and in log order: err is the log's, nil when the step
// is durable. settled may add further steps. The goroutine that waits for the disk, there
// is at most one, belongs to waits; it ends when the queue is empty.
func NewInFlight[S any](log *storage.Log, mu *sync.Mutex, waits *sync.WaitGroup, settled func(appended storage.Appended, step S, err error)) *InFlight[S] {
	return &InFlight[S]{log: log, mu: mu, waits: waits, settled: settled}
}

// Len returns how many steps are on their way to the disk.
func (q *InFlight[S]) Len() int { return len(q.queue) }

// Add takes a step whose records were appended. Settle must be called before the lock
// is given back.
func (q *InFlight[S]) Add(appended storage.Appended, step S) {
	q.queue = append(q.queue, inFlight[S]{appended, step})
}

// Settle lets every step whose batch has become durable take effect, tells those that
// were cut off again, and has a goroutine wait for the rest. Where one waits already, all
// is left to it. It does not wait for the disk.
func (q *InFlight[S]) Settle() {
	if q.waiting {
		return
	}
	q.settle()
	if len(q.queue) > 0 {
		q.waiting = true
		q.waits.Go(q.wait)
	}
}

func (q *InFlight[S]) settle() {
	for len(q.queue) > 0 {
		f := q.queue[0]
		err := q.log.WaitDurable(ended, f.appended)
		if errors.Is(err, context.Canceled) {
			return
		}
		q.queue[0] = inFlight[S]{}
		q.queue = q.queue[1:]
		q.settled(f.appended, f.step, err)
	}
	q.queue = nil
}

// wait waits for what is in flight, until there is nothing. The lock is not held
// meanwhile.
func (q *InFlight[S]) wait() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.queue) > 0 {
		first := q.queue[0].appended
		q.mu.Unlock()
		_ = q.log.WaitDurable(context.Background(), first) // settle asks again
		q.mu.Lock()
		q.settle()
	}
	q.waiting = false
}

// ended is a context that is over: a wait under it only looks.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()
