package storage

import (
	"errors"
	"fmt"
)

// Sentinels of the package. Each that can reach a client is mapped to one Kafka error code in wire/errors.go.
var (
	// ErrTopicExists: a topic of that name exists.
	ErrTopicExists = errors.New("topic exists")
	// ErrUnknownTopic: no topic of that name or id exists.
	ErrUnknownTopic = errors.New("unknown topic")
	// ErrInvalidTopicName: the name is empty, too long, "." or "..", or has a character outside [a-zA-Z0-9._-].
	ErrInvalidTopicName = errors.New("invalid topic name")
	// ErrTopicCollision: the name differs from an existing topic's only in '.' and '_', which metrics cannot tell apart.
	ErrTopicCollision = errors.New("topic name collides with an existing topic")
	// ErrInvalidPartitions: a partition count below one, above the limit, or not above the present one.
	ErrInvalidPartitions = errors.New("invalid partition count")
	// ErrTooManyACLs: one request would change more ACLs than MaxACLChanges.
	ErrTooManyACLs = errors.New("too many ACLs at once")
	// ErrClosed: the store is closed.
	ErrClosed = errors.New("store is closed")

	// ErrOffsetOutOfRange: the offset lies below the log start, above the log end, or (DeleteBefore) above the
	// high watermark.
	ErrOffsetOutOfRange = errors.New("offset out of range")
	// ErrOffline: the partition is out of service because damage was found; see OfflineError.
	ErrOffline = errors.New("partition is offline")
	// ErrLogDeleted: the partition's topic was deleted.
	ErrLogDeleted = errors.New("log is deleted")
	// ErrStorage: the disk failed an append or a sync. What was not durable was cut off again.
	ErrStorage = errors.New("storage failed")

	// ErrNotOneBatch: a client append must carry exactly one record batch.
	ErrNotOneBatch = errors.New("not exactly one record batch")
	// ErrBaseOffset: a client's batch has a base offset other than zero.
	ErrBaseOffset = errors.New("base offset is not zero")
	// ErrBatchTooLarge: the batch exceeds max.message.bytes.
	ErrBatchTooLarge = errors.New("batch too large")
	// ErrSegmentTooSmall: the batch exceeds segment.bytes.
	ErrSegmentTooSmall = errors.New("batch larger than a segment")
	// ErrCorruptBatch: the batch's length or CRC does not fit its bytes.
	ErrCorruptBatch = errors.New("corrupt batch")

	// ErrInvalidProducerEpoch: the producer's epoch is older than the one known.
	ErrInvalidProducerEpoch = errors.New("invalid producer epoch")
	// ErrOutOfOrderSequence: the batch's first sequence does not follow the producer's last.
	ErrOutOfOrderSequence = errors.New("out of order sequence")
	// ErrInvalidTxnState: the batch is outside the producer's open transaction, or would begin one that the transaction
	// coordinator was not asked about.
	ErrInvalidTxnState = errors.New("invalid transaction state")
	// ErrCoordinatorFenced: a transaction marker from a coordinator older than the last one seen.
	ErrCoordinatorFenced = errors.New("transaction coordinator fenced")
)

// OfflineError says why a partition is offline. It is an ErrOffline.
type OfflineError struct {
	Topic     string
	Partition int32
	Cause     error // usually a *CorruptError; an I/O error when recovery could not read
}

func (e *OfflineError) Error() string {
	return fmt.Sprintf("partition %s-%d is offline: %v", e.Topic, e.Partition, e.Cause)
}

// Unwrap returns the cause.
func (e *OfflineError) Unwrap() error { return e.Cause }

// Is reports whether target is ErrOffline.
func (e *OfflineError) Is(target error) bool { return target == ErrOffline }

// CorruptError names damage in a file: bytes that are not what they must be, at a place that was synced.
type CorruptError struct {
	File     string // path within the file system
	Position int64  // byte position in File where the damage starts; -1 when it is not at one place
	Reason   string // what was found there and what was expected
}

func (e *CorruptError) Error() string {
	if e.Position < 0 {
		return fmt.Sprintf("%s is damaged: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("%s is damaged at position %d: %s", e.File, e.Position, e.Reason)
}

// storageError is an I/O failure of an append or a sync. It is an ErrStorage and keeps its cause, so that
// vfs.IsNoSpace still tells a full disk.
type storageError struct {
	topic     string
	partition int32
	doing     string
	cause     error
}

func (e *storageError) Error() string {
	return fmt.Sprintf("%s %s-%d: %v", e.doing, e.topic, e.partition, e.cause)
}

func (e *storageError) Unwrap() error        { return e.cause }
func (e *storageError) Is(target error) bool { return target == ErrStorage }
