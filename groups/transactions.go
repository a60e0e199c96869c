package groups

import (
	"context"

	"github.com/kaen-log/gateway/storage/record"
)

// TransactionalCommit names the transaction that offsets are committed in.
type TransactionalCommit struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	// V2 says that the commit itself adds the group's partition of __consumer_offsets to the transaction
	// (TxnOffsetCommit version 5 and later).
	V2 bool
}

// TransactionalCommitRequest is what a producer commits for a group of consumers within a transaction.
// Epochs says that the client knows the errors of member epochs (TxnOffsetCommit version 6 and later); Retention is not
// looked at.
type TransactionalCommitRequest struct {
	CommitRequest
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	V2              bool // as in TransactionalCommit
}

// CommitTransactionalOffsets stores what a producer commits within a transaction. It counts once EndTransaction commits;
// until then OffsetFetch finds the offsets unstable. The error of each commit is at its index in the result, as in
// CommitOffsets. An error that concerns them all is err: ErrInvalidGroupID, what Options.Verify answers,
// storage.ErrInvalidProducerEpoch, storage.ErrInvalidTxnState, ErrLoading, ErrNotAvailable, ErrNotCoordinator,
// ErrCommitTooLarge, or what the group refuses the member with.
// It blocks until the commits are durable, the commit timeout, or the end of ctx.
func (c *Coordinator) CommitTransactionalOffsets(context.Context, *TransactionalCommitRequest) ([]error, error) {
	return nil, ErrNotAvailable
}

// EndTransaction appends the marker that ends a producer's transaction in a partition of __consumer_offsets, waits until
// it is durable, and lets the offsets that were committed in it count, or drops them. It does no harm to end a
// transaction again, or one that is not there. Errors: storage.ErrUnknownTopic when there is no such partition (any
// more); ErrLoading, ErrNotAvailable and ErrNotCoordinator, after which it is to be tried again; and
// storage.ErrInvalidProducerEpoch and storage.ErrCoordinatorFenced, after which it is not.
// It blocks until the marker is durable or the end of ctx; then it may yet become so.
func (c *Coordinator) EndTransaction(ctx context.Context, partition int32, producerID int64, producerEpoch int16, marker record.Marker, v2 bool) error {
	return ErrNotAvailable
}

// PartitionOf returns the partition of __consumer_offsets that a group's offsets are kept in, which is made when it does
// not exist. Errors: ErrInvalidGroupID and ErrNotAvailable.
func (c *Coordinator) PartitionOf(group string) (int32, error) {
	return 0, ErrNotAvailable
}
