package txn

import (
	"errors"
	"slices"
	"strings"
	"time"
)

// Tick does all that is due at Options.Now: it need not be called, but lets those who move
// the clock see what comes of it. It does not wait for the disk.
func (c *Coordinator) Tick() {
	now := c.o.Now()
	timeouts, expiry := c.timeouts.Due(now), c.expiry.Due(now)
	for _, w := range c.all() {
		w.mu.Lock()
		if w.ready() == nil {
			if timeouts {
				w.abortTimedOut(now)
			}
			if expiry {
				w.expire(now)
			}
			w.again(now)
			w.inFlight.Settle()
		}
		w.mu.Unlock()
	}
}

// abortTimedOut aborts the transactions whose time is over; who began them is fenced.
// Kafka: TransactionCoordinator.abortTimedOutTransactions. Caller holds mu.
func (w *owner) abortTimedOut(now time.Time) {
	for _, e := range w.those(func(t *transaction) bool { return t.timedOut(now.UnixMilli()) }) {
		w.abort(now, e, -1)
	}
}

// those returns the ids, in order, that may be asked for something and of whose transaction
// something is true. Caller holds mu.
func (w *owner) those(is func(t *transaction) bool) (out []*entry) {
	for _, e := range w.entries {
		if !e.pending() && is(e.t) {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b *entry) int { return strings.Compare(a.id, b.id) })
	return out
}

// abort aborts an open transaction; newID is a producer id that may be taken, -1 for none.
// Caller holds mu, and settles what is in flight.
func (w *owner) abort(now time.Time, e *entry, newID int64) {
	logger, t := w.c.o.Logger.With("transactional id", e.id, "producer id", e.t.ID), e.t
	next, err := t.fence(now.UnixMilli(), newID)
	if errors.Is(err, needsID{}) {
		w.c.topic.Waits().Go(func() {
			newID, err := w.c.o.Store.NextProducerID()
			if err != nil {
				logger.Warn("a transaction whose time is over was not aborted: no producer id", "error", err)
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.ready() == nil && !e.pending() && e.t == t {
				w.abort(now, e, newID)
				w.inFlight.Settle()
			}
		})
		return
	}
	w.write(now, e, next, func(err error) {
		if err != nil {
			logger.Warn("a transaction whose time is over was not aborted", "error", err)
			return
		}
		logger.Info("a transaction was aborted: its time is over", "timeout ms", t.timeoutMs)
	})
}

// tombstones bounds the bytes of one batch of tombstones. Kafka:
// TransactionStateManager.removeExpiredTransactionalIds, which goes up to the topic's
// max.message.bytes.
const tombstones = 16 << 10

// expire forgets the ids that nobody has used for long. What cannot be written is tried
// again the next time. Caller holds mu.
func (w *owner) expire(now time.Time) {
	var batch written
	size := 0
	flush := func() {
		if len(batch.entries) == 0 {
			return
		}
		batch.next = make([]*transaction, len(batch.entries))
		batch.done = func(err error) {
			if err != nil {
				w.c.o.Logger.Warn("expired transactional ids were not removed", "topic", StateTopic, "partition", w.log.Index(), "error", err)
			}
		}
		w.append(now, batch)
		batch, size = written{}, 0
	}
	most := min(tombstones, int(w.log.Config().MaxMessageBytes))
	after := w.c.o.Config.IDExpiration.Milliseconds()
	for _, e := range w.those(func(t *transaction) bool { return t.expired(now.UnixMilli(), after) }) {
		const overhead = 64 // more than a record has besides its key, and the batch besides its records
		n := len(e.id) + overhead
		if size+n > most-overhead {
			flush()
		}
		batch.entries = append(batch.entries, e)
		size += n
	}
	flush()
}
