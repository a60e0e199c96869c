package txn

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
)

// InitRequest asks for the producer of a transactional id. Kafka: InitProducerId.
type InitRequest struct {
	TransactionalID string
	Timeout         time.Duration // a multiple of a millisecond
	// Expected is the producer that the client has been until now; nil for none.
	Expected *Producer
}

// Init returns the producer that the id's next transactions are of, and fences whoever had
// the id before, whose open transaction is aborted: then the error is
// ErrConcurrentTransactions, and the client asks again.
//
// The errors, in the order of the checks: ErrInvalidRequest, ErrInvalidTimeout, those of
// change, ErrConcurrentTransactions, ErrProducerFenced.
//
// Kafka: TransactionCoordinator.handleInitProducerId, for ids that are not null.
func (c *Coordinator) Init(ctx context.Context, r InitRequest) (Producer, error) {
	if err := checkID(r.TransactionalID); err != nil {
		return NoProducer, err
	}
	if r.Timeout <= 0 || r.Timeout > c.o.Config.MaxTimeout || r.Timeout.Milliseconds() > math.MaxInt32 {
		return NoProducer, fmt.Errorf("timeout of %v, want at most %v: %w", r.Timeout, c.o.Config.MaxTimeout, ErrInvalidTimeout)
	}
	t, err := c.change(ctx, r.TransactionalID, initStep(r.TransactionalID, int32(r.Timeout.Milliseconds()), r.Expected))
	switch {
	case err != nil:
		return NoProducer, err
	case t.state == prepareAbort:
		return NoProducer, fmt.Errorf("transactional id %q: its open transaction is being aborted: %w", r.TransactionalID, ErrConcurrentTransactions)
	}
	return t.Producer, nil
}

func initStep(id string, timeoutMs int32, expected *Producer) step {
	return func(nowMs int64, t *transaction, pending bool, newID int64) (*transaction, error) {
		if pending {
			return nil, ErrConcurrentTransactions
		}
		if t == nil {
			if newID < 0 {
				return nil, needsID{}
			}
			t, newID = newTransaction(id, newID), -1
		}
		return t.initialize(nowMs, timeoutMs, expected, newID)
	}
}

// AddRequest names partitions of a transaction. Kafka: AddPartitionsToTxn.
type AddRequest struct {
	TransactionalID string
	Producer
	Partitions []Partition
	V2         bool // the client knows transaction version 2: versions 4 and up
}

// Add takes partitions into the transaction of a producer, and begins it with the first.
//
// The errors, in the order of the checks: ErrInvalidRequest, those of change,
// ErrConcurrentTransactions, ErrInvalidProducerIDMapping, ErrProducerFenced.
//
// Kafka: TransactionCoordinator.handleAddPartitionsToTransaction.
func (c *Coordinator) Add(ctx context.Context, r AddRequest) error {
	if err := checkID(r.TransactionalID); err != nil {
		return err
	}
	for _, p := range r.Partitions {
		if len(p.Topic) > math.MaxInt16 {
			return fmt.Errorf("topic name of %d bytes, want at most %d: %w", len(p.Topic), math.MaxInt16, ErrInvalidRequest)
		}
	}
	_, err := c.change(ctx, r.TransactionalID, addStep(r))
	return err
}

func addStep(r AddRequest) step {
	return func(nowMs int64, t *transaction, pending bool, _ int64) (*transaction, error) {
		if pending {
			// Before the other checks: the producer may know a new id already.
			return nil, ErrConcurrentTransactions
		}
		return t.add(nowMs, r.Producer, r.Partitions, clientVersion(r.V2))
	}
}

// clientVersion is the transaction version of a client. Kafka:
// TransactionVersion.transactionVersionForAddPartitionsToTxn.
func clientVersion(v2 bool) int16 {
	if v2 {
		return 2
	}
	return 0
}

// Verify says of each partition whether it is in the transaction of a producer: nil or
// ErrNotInTransaction. The error that concerns them all is as Add's, but what is on its
// way to the disk is left out of account: the log has the last word.
//
// Kafka: TransactionCoordinator.handleVerifyPartitionsInTransaction.
func (c *Coordinator) Verify(_ context.Context, r AddRequest) ([]error, error) {
	if err := checkID(r.TransactionalID); err != nil {
		return nil, err
	}
	var errs []error
	err := c.look(r.TransactionalID, func(e *entry) (err error) {
		errs, err = e.known().verify(r.Producer, r.Partitions)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("transactional id %q: %w", r.TransactionalID, err)
	}
	return errs, nil
}

// EndRequest asks for the end of a transaction. Kafka: EndTxn.
type EndRequest struct {
	TransactionalID string
	Producer
	Commit bool // false is abort
	V2     bool // the client knows transaction version 2: versions 5 and up
}

// End ends the transaction of a producer. It returns when the decision is durable; the
// markers follow. With V2 the result is the producer to go on with, else NoProducer.
//
// The errors, in the order of the checks: ErrInvalidRequest, those of change,
// ErrConcurrentTransactions with V2, ErrInvalidProducerIDMapping, ErrProducerFenced,
// ErrConcurrentTransactions without V2, ErrInvalidTxnState.
//
// Kafka: TransactionCoordinator.handleEndTransaction.
func (c *Coordinator) End(ctx context.Context, r EndRequest) (Producer, error) {
	if err := checkID(r.TransactionalID); err != nil {
		return NoProducer, err
	}
	t, err := c.change(ctx, r.TransactionalID, endStep(r))
	if err != nil || !r.V2 {
		return NoProducer, err
	}
	return t.following(), nil
}

func endStep(r EndRequest) step {
	return func(nowMs int64, t *transaction, pending bool, newID int64) (*transaction, error) {
		if r.V2 {
			return t.endV2(nowMs, r.Producer, r.Commit, pending, newID)
		}
		return t.endV1(nowMs, r.Producer, r.Commit, pending)
	}
}

// checkID says whether a transactional id may be one.
func checkID(id string) error {
	switch {
	case id == "":
		return fmt.Errorf("empty transactional id: %w", ErrInvalidRequest)
	case len(id) > math.MaxInt16:
		return fmt.Errorf("transactional id of %d bytes, want at most %d: %w", len(id), math.MaxInt16, ErrInvalidRequest)
	}
	return nil
}

// step is what a call makes of an id: it gets what is durable, nil for an id that is not
// known, and whether a step is pending, and returns the next transaction, or the same when
// there is nothing to do. When it needs a new producer id it is called again with one:
// newID is -1 without.
type step func(nowMs int64, t *transaction, pending bool, newID int64) (*transaction, error)

// change makes a step of an id and waits until it is durable.
//
// The errors besides those of step: ErrNotCoordinator when there is no __transaction_state,
// or it cannot be read or written, ErrLoading, ErrTooLarge, and ErrNotAvailable when it is
// deleted meanwhile, when ctx ends, after which the step goes on, when the coordinator
// stops, or when there is no producer id to be had.
func (c *Coordinator) change(ctx context.Context, id string, f step) (*transaction, error) {
	newID := int64(-1)
	for {
		w := c.ownerOf(id)
		if w == nil {
			return nil, fmt.Errorf("%s does not exist: %w", StateTopic, ErrNotCoordinator)
		}
		answer := make(chan error, 1)
		next, err := w.step(id, newID, f, answer)
		switch {
		case errors.Is(err, needsID{}):
			// Not under the owner's lock: it may wait for the disk.
			if newID, err = c.o.Store.NextProducerID(); err != nil {
				return nil, fmt.Errorf("transactional id %q: no producer id: %w: %w", id, ErrNotAvailable, err)
			}
			continue
		case err == nil:
			err = w.wait(ctx, answer)
		}
		if err != nil {
			return nil, fmt.Errorf("transactional id %q: %w", id, err)
		}
		return next, nil
	}
}

// step makes a step under the lock. Whether it has become durable is told to answer, unless
// there is an error.
func (w *owner) step(id string, newID int64, f step, answer chan<- error) (*transaction, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(); err != nil {
		return nil, err
	}
	now, e := w.c.o.Now(), w.entries[id]
	t := e.known()
	next, err := f(now.UnixMilli(), t, e.pending(), newID)
	switch {
	case err != nil:
		return nil, err
	case next == t:
		answer <- nil
		return t, nil
	}
	w.write(now, w.ensure(id), next, func(err error) { answer <- err })
	w.inFlight.Settle()
	return next, nil
}

// wait waits for an answer.
func (w *owner) wait(ctx context.Context, answer <-chan error) error {
	select {
	case err := <-answer:
		return err
	default:
	}
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrNotAvailable, ctx.Err())
	case <-w.gone:
		return fmt.Errorf("%s was deleted: %w", StateTopic, ErrNotAvailable)
	case <-w.c.topic.Life().Done():
		return fmt.Errorf("the coordinator stops: %w", ErrNotAvailable)
	}
}

// look runs f for an id under the lock, for reads: what it sees is durable. e is nil when
// the id is not known. f must change nothing.
func (c *Coordinator) look(id string, f func(e *entry) error) error {
	w := c.ownerOf(id)
	if w == nil {
		return fmt.Errorf("%s does not exist: %w", StateTopic, ErrNotCoordinator)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.ready(); err != nil {
		return err
	}
	return f(w.entries[id])
}
