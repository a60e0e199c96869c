package groups

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// owner adds to a shard its log, a lock, the wait for the disk and the deadlines.
type owner struct {
	c   *Coordinator
	o   *Options
	log *storage.Log
	// gone is closed when the partition is deleted: nobody answers then.
	gone chan struct{}

	mu       sync.Mutex
	state    loadState                    // guarded by mu
	loadErr  error                        // why the load failed; guarded by mu
	shard    *shard                       // guarded by mu; nil until loaded
	inFlight *runtime.InFlight[groupStep] // guarded by mu
	stopped  bool                         // guarded by mu; no call is taken any more
	wakes    wakes                        // guarded by mu; the groups that have a deadline

	counted atomic.Pointer[shardStats] // what count found last
}

type loadState int8

const (
	notLoaded loadState = iota
	loading
	loaded
)

// groupStep is a step with the group that it is of; nil for one of the whole shard.
type groupStep struct {
	e    *entry
	step step
}

// ready returns the shard, or why there is none yet. Caller holds mu.
func (w *owner) ready() (*shard, error) {
	switch {
	case w.stopped:
		return nil, fmt.Errorf("the coordinator stops: %w", ErrNotAvailable)
	case w.state == loaded:
		return w.shard, nil
	case w.loadErr != nil:
		return nil, fmt.Errorf("partition %s-%d: %w: %w", OffsetsTopic, w.log.Index(), ErrNotCoordinator, w.loadErr)
	}
	return nil, ErrLoading
}

// stop has the owner take no more calls.
func (w *owner) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

// enter runs a call for a group, or lets it wait in the group's queue.
func (w *owner) enter(group string, c waiting) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.ready()
	if err != nil {
		return err
	}
	w.run(w.o.Now(), s.ensure(group), c)
	w.inFlight.Settle()
	return nil
}

// run runs a call for a group, or lets it wait in the group's queue. Caller holds mu.
func (w *owner) run(now time.Time, e *entry, c waiting) {
	if len(e.queue) > 0 || !e.may(c) {
		e.queue = append(e.queue, c)
		return
	}
	w.advance(now, e, c.run(now, w.shard, e.known()))
	w.after(now, e)
}

// advance carries a step on until it waits for the disk or is over. Caller holds mu.
func (w *owner) advance(now time.Time, e *entry, st step) {
	for {
		switch {
		case len(st.records) > 0:
			appended, err := w.append(now, st)
			if err == nil {
				if st.commit {
					e.commits++
				} else {
					e.busy = true
				}
				w.inFlight.Add(appended, groupStep{e, st})
				return
			}
			st = st.finish(now, err)
		case st.then != nil:
			st = st.then(now, nil)
		default:
			return
		}
	}
}

// after runs what waits for a group once it may, meets a deadline that is due at
// once, sees to the next one, and forgets the group when it holds nothing. Caller
// holds mu.
func (w *owner) after(now time.Time, e *entry) {
	for len(e.queue) > 0 && e.may(e.queue[0]) {
		c := e.queue[0]
		e.queue[0] = waiting{}
		if e.queue = e.queue[1:]; len(e.queue) == 0 {
			e.queue = nil
		}
		w.advance(now, e, c.run(now, w.shard, e.known()))
	}
	if e.machine != nil {
		e.simple = false
	}
	if len(e.queue) == 0 && !e.busy {
		w.advance(now, e, e.tick(now))
	}
	if !e.busy {
		w.schedule(e)
	}
	w.shard.dropEmpty(e)
}

// append writes the records of a step as one batch. The error is one of failure.
func (w *owner) append(now time.Time, st step) (storage.Appended, error) {
	batch, o := runtime.NewBatch(), storage.AppendOptions{Origin: storage.OriginCoordinator}
	if t := st.txn; t != nil {
		batch = runtime.NewTransactionalBatch(t.producerID, t.epoch)
		o.Verification, o.Unverified = t.verification, t.unverified
	}
	nowMs := now.UnixMilli()
	for i := range st.records {
		batch.Append(record.Record{Timestamp: nowMs, Key: st.records[i].key, Value: st.records[i].value})
	}
	appended, err := w.log.Append(batch.Bytes(), o)
	if err != nil {
		return appended, w.failure(err)
	}
	return appended, nil
}

// failure says what the log's error means for those who wait. What it has against a producer is told as it is. Kafka:
// CoordinatorOperationExceptionHelper.
func (w *owner) failure(err error) error {
	kind := ErrNotCoordinator
	switch {
	case errors.Is(err, storage.ErrInvalidProducerEpoch), errors.Is(err, storage.ErrInvalidTxnState), errors.Is(err, storage.ErrCoordinatorFenced):
		return fmt.Errorf("write to %s-%d: %w", OffsetsTopic, w.log.Index(), err)
	case errors.Is(err, storage.ErrBatchTooLarge), errors.Is(err, storage.ErrSegmentTooSmall):
		kind = ErrCommitTooLarge
	case errors.Is(err, storage.ErrLogDeleted), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		kind = ErrNotAvailable
	}
	return fmt.Errorf("write to %s-%d: %w: %w", OffsetsTopic, w.log.Index(), kind, err)
}

// settled tells a step what became of its batch, and goes on with its group. Caller
// holds mu.
func (w *owner) settled(appended storage.Appended, f groupStep, err error) {
	if err != nil {
		err = w.failure(err)
	}
	now := w.o.Now()
	w.shard.base = appended.BaseOffset
	if f.e == nil {
		f.step.finish(now, err)
		return
	}
	if f.step.commit {
		f.e.commits--
	} else {
		f.e.busy = false
	}
	w.advance(now, f.e, f.step.finish(now, err))
	w.after(now, f.e)
}
