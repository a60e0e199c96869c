package groups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// TransactionalCommit names the transaction that offsets are committed in.
type TransactionalCommit struct {
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	// V2 says that the commit itself adds the group's partition of __consumer_offsets to the
	// transaction (TxnOffsetCommit version 5 and later).
	V2 bool
}

// TransactionalCommitRequest is what a producer commits within a transaction, for the
// consumer that its CommitRequest names. Retention is not looked at.
type TransactionalCommitRequest struct {
	CommitRequest
	TransactionalID string
	ProducerID      int64
	ProducerEpoch   int16
	V2              bool // as in TransactionalCommit
}

// CommitTransactionalOffsets stores what a producer commits within a transaction. It
// counts once EndTransaction commits; until then the offsets are unstable. The error of
// each commit is at its index in the result, as in CommitOffsets. An error that concerns
// them all is err: ErrInvalidGroupID for an empty or too long group id, what
// Options.Verify answers, ErrInvalidRequest for a producer that nobody can be,
// storage.ErrInvalidProducerEpoch, storage.ErrInvalidTxnState, ErrLoading,
// ErrNotAvailable, ErrNotCoordinator, ErrCommitTooLarge, or what the group refuses the
// member with; then nothing is stored, or after a timeout it may yet be.
// It blocks until the commits are durable, the commit timeout, or the end of ctx.
//
// Kafka: GroupCoordinatorService.commitTransactionalOffsets,
// OffsetMetadataManager.commitTransactionalOffset.
func (c *Coordinator) CommitTransactionalOffsets(ctx context.Context, r *TransactionalCommitRequest) ([]error, error) {
	if r.Group == "" {
		return nil, fmt.Errorf("transactional commit: %w", ErrInvalidGroupID)
	}
	txn, err := c.verify(ctx, r)
	switch {
	case err != nil:
		return nil, err
	case r.ProducerID < 0 || r.ProducerEpoch < 0: // nobody's transaction, which nobody was asked about
		return nil, fmt.Errorf("transactional commit of producer %d, epoch %d: %w", r.ProducerID, r.ProducerEpoch, ErrInvalidRequest)
	}
	commits := r.CommitRequest
	commits.transactional, commits.Retention = true, -1
	ctx, cancel := context.WithTimeout(ctx, c.o.CommitTimeout)
	defer cancel()
	return call(ctx, c, r.Group, func(now time.Time, s *shard, e *entry, reply func([]error, error)) step {
		errs := c.checkMetadata(commits.Commits)
		if err := checkTransactionalCommit(now, e, &commits, errs); err != nil {
			reply(nil, err)
			return step{}
		}
		return c.storeCommits(now, s, &commits, txn, errs, reply)
	})
}

// verify asks the transaction coordinator about the transaction of a commit, unless it
// is known to be open. Kafka: ReplicaManager.maybeSendPartitionToTransactionCoordinator.
func (c *Coordinator) verify(ctx context.Context, r *TransactionalCommitRequest) (*transaction, error) {
	w, err := c.makeOwner(r.Group)
	if err != nil {
		return nil, err
	}
	t := &transaction{producerID: r.ProducerID, epoch: r.ProducerEpoch}
	t.unverified = c.o.Verify == nil || c.o.Unverified != nil && c.o.Unverified()
	if c.o.Verify == nil || t.unverified && !r.V2 {
		return t, nil
	}
	t.verification, err = w.log.StartVerification(r.ProducerID, r.ProducerEpoch, record.NoSequence, r.V2)
	switch {
	case err != nil:
		return nil, w.failure(err)
	case t.verification == nil:
		return t, nil
	}
	named := TransactionalCommit{TransactionalID: r.TransactionalID, ProducerID: r.ProducerID, ProducerEpoch: r.ProducerEpoch, V2: r.V2}
	return t, c.o.Verify(ctx, named, w.log.Index())
}

// checkTransactionalCommit says whether a commit may be stored in a group that may not
// exist. Who does not know the errors of member epochs is told that its generation is
// over. Kafka: OffsetMetadataManager.validateTransactionalOffsetCommit.
func checkTransactionalCommit(now time.Time, e *entry, r *CommitRequest, refused []error) error {
	err := checkCommit(now, e, r, refused)
	if errors.Is(err, ErrStaleMemberEpoch) && !r.Epochs {
		err = fmt.Errorf("%w: %v", ErrIllegalGeneration, err)
	}
	return err
}

// EndTransaction appends the marker that ends a producer's transaction in a partition of
// __consumer_offsets, waits until it is durable, and lets what was committed in it count,
// or forgets it. It does no harm to end a transaction again, or one that is not there.
// Errors: storage.ErrUnknownTopic when there is no such partition; ErrLoading,
// ErrNotAvailable and ErrNotCoordinator, after which it is to be tried again;
// storage.ErrInvalidProducerEpoch and storage.ErrCoordinatorFenced, after which it is not.
// It blocks until the marker is durable or the end of ctx; then it may yet become so.
//
// Kafka: GroupCoordinatorService.completeTransaction, CoordinatorRuntime.completeTransaction.
func (c *Coordinator) EndTransaction(ctx context.Context, partition int32, producerID int64, producerEpoch int16, marker record.Marker, v2 bool) error {
	owners := c.all()
	if partition < 0 || int(partition) >= len(owners) {
		return fmt.Errorf("%s-%d: %w", OffsetsTopic, partition, storage.ErrUnknownTopic)
	}
	w := owners[partition]
	answers := make(chan answer[struct{}], 1)
	err := w.end(producerID, producerEpoch, marker, v2, func(err error) { answers <- answer[struct{}]{err: err} })
	if err != nil {
		return err
	}
	a, err := await(ctx, w, answers)
	if err != nil {
		return fmt.Errorf("end of the transaction of producer %d: %w", producerID, err)
	}
	return a.err
}

// end appends a marker behind everything that is on its way to the disk, and tells done
// when it has taken effect or was lost.
func (w *owner) end(producerID int64, epoch int16, marker record.Marker, v2 bool, done func(error)) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.ready()
	if err != nil {
		return err
	}
	b := record.EndTxnMarker(producerID, epoch, marker, w.o.Now().UnixMilli(), record.NoLeaderEpoch)
	appended, err := w.log.Append(b, storage.AppendOptions{Origin: storage.OriginCoordinator, TransactionV2: v2})
	if err != nil {
		return w.failure(err)
	}
	ends := &ending{}
	s.ending = ends
	w.inFlight.Add(appended, groupStep{step: step{then: func(_ time.Time, err error) step {
		if err == nil {
			s.end(producerID, marker.Commit)
		}
		if s.ending == ends {
			s.ending = nil
		}
		done(err)
		for _, f := range ends.after {
			f()
		}
		return step{}
	}}})
	w.inFlight.Settle()
	return nil
}

// PartitionOf returns the partition of __consumer_offsets that a group's offsets are
// kept in; the topic is made when it does not exist. Errors: ErrInvalidGroupID and
// ErrNotAvailable.
func (c *Coordinator) PartitionOf(group string) (int32, error) {
	w, err := c.makeOwner(group)
	if err != nil {
		return 0, err
	}
	return w.log.Index(), nil
}
