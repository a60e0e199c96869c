package wire

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
)

// codes maps each error that a domain package exports to the one code that Kafka gives for it. The first row that
// errors.Is matches wins, so that a more particular error stands above the one it wraps.
var codes = []struct {
	err  error
	code *kerr.Error
}{
	// What groups says wraps what storage said.
	{groups.ErrLoading, kerr.CoordinatorLoadInProgress},
	{groups.ErrNotAvailable, kerr.CoordinatorNotAvailable},
	{groups.ErrNotCoordinator, kerr.NotCoordinator},
	{groups.ErrCommitTooLarge, kerr.UnknownServerError},
	{groups.ErrMetadataTooLarge, kerr.OffsetMetadataTooLarge},
	{groups.ErrInvalidGroupID, kerr.InvalidGroupID},
	{groups.ErrGroupIDNotFound, kerr.GroupIDNotFound},
	{groups.ErrNonEmptyGroup, kerr.NonEmptyGroup},
	{groups.ErrSubscribed, kerr.GroupSubscribedToTopic},
	{groups.ErrGroupMaxSize, kerr.GroupMaxSizeReached},
	{groups.ErrUnknownMemberID, kerr.UnknownMemberID},
	{groups.ErrFencedInstanceID, kerr.FencedInstanceID},
	{groups.ErrInvalidRequest, kerr.InvalidRequest},
	{groups.ErrUnsupportedVersion, kerr.UnsupportedVersion},
	{groups.ErrInvalidSessionTimeout, kerr.InvalidSessionTimeout},
	{groups.ErrInconsistentProtocol, kerr.InconsistentGroupProtocol},
	{groups.ErrMemberIDRequired, kerr.MemberIDRequired},
	{groups.ErrIllegalGeneration, kerr.IllegalGeneration},
	{groups.ErrRebalanceInProgress, kerr.RebalanceInProgress},
	{groups.ErrFencedMemberEpoch, kerr.FencedMemberEpoch},
	{groups.ErrStaleMemberEpoch, kerr.StaleMemberEpoch},
	{groups.ErrUnreleasedInstanceID, kerr.UnreleasedInstanceID},
	{groups.ErrUnsupportedAssignor, kerr.UnsupportedAssignor},
	{groups.ErrInvalidRegex, kerr.InvalidRegularExpression},

	{txn.ErrLoading, kerr.CoordinatorLoadInProgress},
	{txn.ErrNotAvailable, kerr.CoordinatorNotAvailable},
	{txn.ErrNotCoordinator, kerr.NotCoordinator},
	{txn.ErrTooLarge, kerr.UnknownServerError},
	{txn.ErrInvalidRequest, kerr.InvalidRequest},
	{txn.ErrInvalidTimeout, kerr.InvalidTransactionTimeout},
	{txn.ErrInvalidProducerIDMapping, kerr.InvalidProducerIDMapping},
	{txn.ErrProducerFenced, kerr.ProducerFenced}, // but see fencedCode
	{txn.ErrConcurrentTransactions, kerr.ConcurrentTransactions},
	{txn.ErrInvalidTxnState, kerr.InvalidTxnState},
	{txn.ErrNotInTransaction, kerr.TransactionAbortable},
	{txn.ErrTransactionalIDNotFound, kerr.TransactionalIDNotFound},
	{txn.ErrInvalidRegex, kerr.InvalidRegularExpression},

	{share.ErrRecordState, kerr.InvalidRecordState},
	{share.ErrInvalidRequest, kerr.InvalidRequest},
	{share.ErrNotInitialized, kerr.UnknownServerError}, // Kafka: SharePartition.fetchPersisterError
	{share.ErrNotAvailable, kerr.CoordinatorNotAvailable},
	{share.ErrUnknownPartition, kerr.UnknownTopicOrPartition},
	{share.ErrNoOffset, kerr.OffsetNotAvailable},
	{share.ErrSessionNotFound, kerr.ShareSessionNotFound},
	{share.ErrSessionEpoch, kerr.InvalidShareSessionEpoch},
	{share.ErrSessionLimit, kerr.ShareSessionLimitReached},

	{storage.ErrTopicExists, kerr.TopicAlreadyExists},
	{storage.ErrUnknownTopic, kerr.UnknownTopicOrPartition},
	{storage.ErrInvalidTopicName, kerr.InvalidTopicException},
	{storage.ErrTopicCollision, kerr.InvalidTopicException},
	{storage.ErrInvalidPartitions, kerr.InvalidPartitions},
	{storage.ErrTooManyACLs, kerr.PolicyViolation},
	{storage.ErrClosed, kerr.KafkaStorageError},

	{storage.ErrOffsetOutOfRange, kerr.OffsetOutOfRange},
	{storage.ErrOffline, kerr.KafkaStorageError},
	{storage.ErrLogDeleted, kerr.UnknownTopicOrPartition},
	{storage.ErrStorage, kerr.KafkaStorageError},

	{storage.ErrNotOneBatch, kerr.InvalidRecord},
	{storage.ErrBaseOffset, kerr.InvalidRecord},
	{storage.ErrBatchTooLarge, kerr.MessageTooLarge},
	{storage.ErrSegmentTooSmall, kerr.RecordListTooLarge},
	{storage.ErrCorruptBatch, kerr.CorruptMessage},

	{storage.ErrInvalidProducerEpoch, kerr.InvalidProducerEpoch},
	{storage.ErrOutOfOrderSequence, kerr.OutOfOrderSequenceNumber},
	{storage.ErrInvalidTxnState, kerr.InvalidTxnState},
	{storage.ErrCoordinatorFenced, kerr.TransactionCoordinatorFenced},

	{record.ErrTooLarge, kerr.MessageTooLarge},
	{record.ErrMagic, kerr.InvalidRecord},
	{record.ErrShort, kerr.InvalidRecord},
	// Kafka: CompressionType.forId throws inside the append, which nobody expects there.
	{record.ErrUnknownCodec, kerr.UnknownServerError},

	{vfs.ErrNoSpace, kerr.KafkaStorageError},

	{context.DeadlineExceeded, kerr.RequestTimedOut},
	{context.Canceled, kerr.RequestTimedOut},
}

// neverSent lists the exported errors that no client can cause and no answer carries: they end the start of the
// process or stay inside a package.
var neverSent = []error{
	vfs.ErrLocked,
	storage.ErrNotRewritable,
}

// errorCode returns Kafka's code for err: 0 for nil, -1 (UNKNOWN_SERVER_ERROR) for an error that is not in the table.
func errorCode(err error) int16 {
	if err == nil {
		return 0
	}
	return kafkaError(err).Code
}

// kafkaError returns Kafka's error for err, which is not nil.
func kafkaError(err error) *kerr.Error {
	if e, ok := errors.AsType[*kerr.Error](err); ok {
		return e
	}
	if _, ok := errors.AsType[*storage.ConfigError](err); ok {
		return kerr.InvalidConfig
	}
	if e, ok := errors.AsType[*record.InvalidError](err); ok {
		switch e.Kind {
		case record.InvalidTimestamp:
			return kerr.InvalidTimestamp
		case record.Undecodable:
			return kerr.UnknownServerError
		}
		return kerr.InvalidRecord
	}
	for i := range codes {
		if errors.Is(err, codes[i].err) {
			return codes[i].code
		}
	}
	if _, ok := errors.AsType[*record.CorruptError](err); ok {
		return kerr.CorruptMessage
	}
	if _, ok := errors.AsType[*storage.CorruptError](err); ok {
		return kerr.KafkaStorageError
	}
	return kerr.UnknownServerError
}

// errorMessage returns the text that goes with err's code where a response has room for one: nil for nil, and for one
// of which Kafka has no more to say than its code. An error that is not in the table is told by its code alone, since
// its text was not written for strangers.
func errorMessage(err error) *string {
	if err == nil || err == error(kerr.ThrottlingQuotaExceeded) { // Kafka: ApiError.fromThrowable
		return nil
	}
	text := err.Error()
	if e, ok := errors.AsType[*detailError](err); ok {
		text = e.text
	} else if e := kafkaError(err); e == kerr.UnknownServerError {
		text = e.Description
	}
	return &text
}

// detailError is one of Kafka's errors with a text of our own for the caller.
type detailError struct {
	err  *kerr.Error
	text string
}

// detail returns a Kafka error that errorCode and errorMessage tell with the given text.
func detail(err *kerr.Error, text string) error { return &detailError{err: err, text: text} }

func (e *detailError) Error() string { return e.err.Message + ": " + e.text }
func (e *detailError) Unwrap() error { return e.err }
