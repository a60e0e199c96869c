package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// owner keeps the transactional ids of one partition of __transaction_state: it adds to
// the transactions their log, a lock and the wait for the disk.
type owner struct {
	c   *Coordinator
	log *storage.Log
	// gone is closed when the partition is deleted: nobody answers then.
	gone chan struct{}

	mu       sync.Mutex
	is       loadState                  // guarded by mu
	loadErr  error                      // why the load failed; guarded by mu
	entries  map[string]*entry          // guarded by mu; by transactional id
	inFlight *runtime.InFlight[written] // guarded by mu
	stopped  bool                       // guarded by mu; no call is taken any more
	retries  map[*entry]bool            // guarded by mu; whose end is to be tried again
	// unreadable is how many ids, or what should be one, the load found whose last record it could not read. Guarded by mu.
	unreadable int

	counted atomic.Pointer[ownerStats] // what count found last
}

type loadState int8

const (
	notLoaded loadState = iota
	loading
	loaded
)

// entry is one transactional id. All of it is guarded by the owner's mu.
type entry struct {
	id string
	// t is what is durable; nil while the first record is on its way.
	t    *transaction
	busy bool    // a record is on its way to the disk
	end  *ending // how far the end of a transaction is that is decided; else nil
}

// pending reports whether nothing else may be asked of the id now.
func (e *entry) pending() bool { return e != nil && (e.busy || e.end != nil) }

// known returns what is durable, nil for nothing.
func (e *entry) known() *transaction {
	if e == nil {
		return nil
	}
	return e.t
}

// written is a batch that was appended: what it makes of each id, nil for nothing.
type written struct {
	entries []*entry
	next    []*transaction
	done    func(error)
}

// ready says why no call can be answered. Caller holds mu.
func (w *owner) ready() error {
	select {
	case <-w.gone:
		return fmt.Errorf("%s was deleted: %w", StateTopic, ErrNotAvailable)
	default:
	}
	switch {
	case w.stopped:
		return fmt.Errorf("the coordinator stops: %w", ErrNotAvailable)
	case w.is == loaded:
		return nil
	case w.loadErr != nil:
		return fmt.Errorf("partition %s-%d: %w: %w", StateTopic, w.log.Index(), ErrNotCoordinator, w.loadErr)
	}
	return ErrLoading
}

// stop has the owner take no more calls.
func (w *owner) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
}

// ensure returns the entry of an id, made when missing. Caller holds mu.
func (w *owner) ensure(id string) *entry {
	e := w.entries[id]
	if e == nil {
		e = &entry{id: id}
		w.entries[id] = e
	}
	return e
}

// write begins a step of an id, which takes effect when its record is durable; done is told
// then, or why it did not, under mu. Caller holds mu, and settles what is in flight before
// giving it back.
func (w *owner) write(now time.Time, e *entry, next *transaction, done func(error)) {
	w.append(now, written{[]*entry{e}, []*transaction{next}, done})
}

// endRoom is how many bytes of a batch an open transaction leaves free, at least what the
// records of its end have besides: a version, a next producer id, and longer lengths. One
// that could not be aborted would keep readers of its partitions waiting for ever.
//
// Differs from Kafka: it has no such room.
const endRoom = 32

// append writes one batch. Caller holds mu.
func (w *owner) append(now time.Time, f written) {
	batch := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	for i, e := range f.entries {
		r := record.Record{Timestamp: now.UnixMilli(), Key: appendKey(nil, e.id)}
		if f.next[i] != nil {
			r.Value = appendValue(nil, f.next[i])
		}
		batch.Append(r)
	}
	appended, err := w.appendBatch(batch.Bytes(), f)
	for _, e := range f.entries {
		e.busy = err == nil
		w.forget(e)
	}
	if err != nil {
		f.done(w.failure(err))
		return
	}
	w.inFlight.Add(appended, f)
}

// appendBatch appends the batch of f, if that leaves room for what must follow. Caller
// holds mu.
func (w *owner) appendBatch(batch []byte, f written) (storage.Appended, error) {
	opens := func(t *transaction) bool { return t != nil && t.state == ongoing }
	if most := int(w.log.Config().MaxMessageBytes) - endRoom; len(batch) > most && slices.ContainsFunc(f.next, opens) {
		return storage.Appended{}, fmt.Errorf("%w: %d bytes of an open transaction, want at most %d", storage.ErrBatchTooLarge, len(batch), most)
	}
	return w.log.Append(batch, storage.AppendOptions{Origin: storage.OriginCoordinator})
}

// failure says what the log's error means for those who wait. Kafka:
// TransactionStateManager.appendTransactionToLog.
func (w *owner) failure(err error) error {
	kind := ErrNotCoordinator
	switch {
	case errors.Is(err, storage.ErrBatchTooLarge), errors.Is(err, storage.ErrSegmentTooSmall):
		kind = ErrTooLarge
	case errors.Is(err, storage.ErrLogDeleted), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		kind = ErrNotAvailable
	}
	return fmt.Errorf("write to %s-%d: %w: %w", StateTopic, w.log.Index(), kind, err)
}

// settled makes a batch take effect that has become durable; one that was cut off again
// has changed nothing. Caller holds mu.
func (w *owner) settled(_ storage.Appended, f written, err error) {
	if err != nil {
		err = w.failure(err)
	}
	for i, e := range f.entries {
		e.busy = false
		if err == nil {
			e.t, e.end = f.next[i], nil
			if e.t != nil && e.t.state.prepared() {
				w.begin(e)
			}
		}
		w.forget(e)
	}
	f.done(err)
}

// forget drops an entry of which nothing is known. Caller holds mu.
func (w *owner) forget(e *entry) {
	if e.t == nil && !e.busy {
		delete(w.entries, e.id)
	}
}
