package txn

import (
	"context"
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
// call, ErrConcurrentTransactions, ErrProducerFenced.
//
// Kafka: TransactionCoordinator.handleInitProducerId, for ids that are not null.
func (c *Coordinator) Init(ctx context.Context, r InitRequest) (Producer, error) {
	return Producer{}, ErrNotCoordinator
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
// The errors, in the order of the checks: ErrInvalidRequest, those of call,
// ErrInvalidProducerIDMapping when the id is unknown, ErrConcurrentTransactions,
// ErrInvalidProducerIDMapping, ErrProducerFenced.
//
// Kafka: TransactionCoordinator.handleAddPartitionsToTransaction.
func (c *Coordinator) Add(ctx context.Context, r AddRequest) error { return ErrNotCoordinator }

// Verify says of each partition whether it is in the transaction of a producer: nil or
// ErrNotInTransaction. The error that concerns them all is as Add's, but what is on its
// way to the disk is left out of account: the log has the last word.
//
// Kafka: TransactionCoordinator.handleVerifyPartitionsInTransaction.
func (c *Coordinator) Verify(ctx context.Context, r AddRequest) ([]error, error) {
	return nil, ErrNotCoordinator
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
// The errors, in the order of the checks: ErrInvalidRequest, those of call,
// ErrInvalidProducerIDMapping when the id is unknown; then ErrInvalidProducerIDMapping,
// ErrProducerFenced, ErrConcurrentTransactions, which with V2 comes first of these; then
// ErrInvalidTxnState.
//
// Kafka: TransactionCoordinator.handleEndTransaction.
func (c *Coordinator) End(ctx context.Context, r EndRequest) (Producer, error) {
	return NoProducer, ErrNotCoordinator
}
