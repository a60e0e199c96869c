package txn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// The wait before what ends a transaction is tried again after a failure; it doubles from
// the first to the last.
const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 10 * time.Second
)

// ending is the end of a transaction that is decided. All of it is guarded by the owner's
// mu.
type ending struct {
	left  []Partition // those whose marker is not durable, in order
	at    time.Time   // when it is tried again, while it is among owner.retries
	wait  time.Duration
	cause string // why it is; it is told when it changes
}

// begin begins to write the markers of a transaction that is decided. Caller holds mu.
func (w *owner) begin(e *entry) {
	e.end = &ending{left: e.t.partitions}
	w.try(w.c.o.Now(), e)
}

// try writes the markers that are left, or, when none is, that the transaction is
// complete. Caller holds mu, and settles what is in flight.
func (w *owner) try(now time.Time, e *entry) {
	delete(w.retries, e)
	end := e.end
	if w.ready() != nil {
		return // the next load begins again
	}
	if len(end.left) == 0 {
		w.write(now, e, e.t.complete(now.UnixMilli()), func(err error) {
			if err != nil {
				w.retry(e, err)
			}
		})
		return
	}
	marker := Marker{
		Producer: e.t.Producer, Commit: e.t.state == prepareCommit,
		CoordinatorEpoch: w.log.LeaderEpoch(), V2: e.t.version >= 2,
	}
	left := end.left
	w.c.topic.Waits().Go(func() {
		left, err := w.c.writeMarkers(marker, left, now)
		w.mu.Lock()
		defer w.mu.Unlock()
		end.left = left
		if err != nil {
			w.retry(e, err)
			return
		}
		w.try(w.c.o.Now(), e)
		w.inFlight.Settle()
	})
}

// retry has the end of a transaction tried again after a while. Caller holds mu.
func (w *owner) retry(e *entry, err error) {
	if w.ready() != nil {
		return
	}
	end := e.end
	if cause := err.Error(); cause != end.cause {
		end.cause = cause
		w.c.o.Logger.Warn("the end of a transaction is not written, and is tried again", "transactional id", e.id, "partitions", len(end.left), "error", err)
	}
	end.wait = min(max(2*end.wait, firstRetry), lastRetry)
	end.at = w.c.o.Now().Add(end.wait)
	w.retries[e] = true
	w.c.alarm.Set(end.at)
}

// again tries what is due. Caller holds mu.
func (w *owner) again(now time.Time) {
	var due []*entry
	for e := range w.retries {
		if e.end.at.After(now) {
			w.c.alarm.Set(e.end.at)
			continue
		}
		due = append(due, e)
	}
	slices.SortFunc(due, func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	for _, e := range due {
		w.try(now, e)
	}
}

// writeMarkers writes the marker to partitions and waits until it is durable there. It
// returns those where it is not, with the error of one of them; the coordinator's end ends
// the wait.
//
// Kafka: TransactionMarkerChannelManager, TransactionMarkerRequestCompletionHandler.
//
// Differs from Kafka: a partition that has seen a later epoch of the producer, or of the
// coordinator and has no transaction open, needs no marker any more. Kafka takes that for
// the work of another coordinator, writes none of the markers that are left, and answers
// CONCURRENT_TRANSACTIONS until the partition of __transaction_state is loaded again. Here
// that is answered while a transaction is open that a later coordinator's epoch, which
// only an administrator can have written, keeps from being ended.
func (c *Coordinator) writeMarkers(m Marker, partitions []Partition, now time.Time) ([]Partition, error) {
	errs := make([]error, len(partitions))
	waits := make([]func() error, len(partitions))
	var offsets sync.WaitGroup
	for i, p := range partitions {
		log, ok := c.logOf(p)
		switch {
		case !ok: // deleted
		case p.Topic == offsetsTopic:
			offsets.Go(func() { errs[i] = c.o.EndOffsets(c.topic.Life(), p.Partition, m) })
		default:
			waits[i], errs[i] = appendMarker(c.topic.Life(), log, m, now)
		}
	}
	for i, wait := range waits {
		if wait != nil {
			errs[i] = wait()
		}
	}
	offsets.Wait()
	var left []Partition
	var cause error
	for i, err := range errs {
		switch {
		case err == nil, errors.Is(err, storage.ErrLogDeleted), errors.Is(err, storage.ErrUnknownTopic):
		case errors.Is(err, storage.ErrInvalidProducerEpoch), errors.Is(err, storage.ErrCoordinatorFenced) && !c.hasOpen(partitions[i], m.ID):
			c.o.Logger.Error("a transaction was ended by somebody else", "producer id", m.ID, "epoch", m.Epoch,
				"topic", partitions[i].Topic, "partition", partitions[i].Partition, "error", err)
		default:
			left, cause = append(left, partitions[i]), err
		}
	}
	return left, cause
}

// appendMarker appends a marker and returns how to wait for it to be durable.
func appendMarker(ctx context.Context, log *storage.Log, m Marker, now time.Time) (wait func() error, err error) {
	batch := record.EndTxnMarker(m.ID, m.Epoch, record.Marker{Commit: m.Commit, CoordinatorEpoch: m.CoordinatorEpoch}, now.UnixMilli(), record.NoLeaderEpoch)
	appended, err := log.Append(batch, storage.AppendOptions{Origin: storage.OriginCoordinator, TransactionV2: m.V2})
	if err != nil {
		return nil, err
	}
	return func() error { return log.WaitDurable(ctx, appended) }, nil
}

// hasOpen reports whether a producer has a transaction open in a partition.
func (c *Coordinator) hasOpen(p Partition, producerID int64) bool {
	log, ok := c.logOf(p)
	if !ok {
		return false
	}
	producers, err := log.ActiveProducers()
	return err != nil || slices.ContainsFunc(producers, func(i storage.ProducerInfo) bool {
		return i.ProducerID == producerID && i.TxnFirstOffset >= 0
	})
}

// logOf returns the log of a partition; false when it does not exist.
func (c *Coordinator) logOf(p Partition) (*storage.Log, bool) {
	t, ok := c.o.Store.Topic(p.Topic)
	if !ok {
		return nil, false
	}
	return t.Partition(p.Partition)
}
