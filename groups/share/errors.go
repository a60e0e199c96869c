package share

import "errors"

var (
	// ErrRecordState: a record is not acquired, or by another member.
	ErrRecordState = errors.New("record state does not allow it")
	// ErrInvalidRequest: the request makes no sense.
	ErrInvalidRequest = errors.New("invalid share request")
	// ErrNotInitialized: nothing is stored of the share partition.
	ErrNotInitialized = errors.New("share partition is not initialized")
	// ErrNotAvailable: the state cannot be read or written now.
	ErrNotAvailable = errors.New("share state not available")
	// ErrUnknownPartition: nobody has fetched the partition for the group, or it is gone.
	ErrUnknownPartition = errors.New("unknown share partition")
	// ErrNoOffset: no record is as young as the group wants the first to be.
	ErrNoOffset = errors.New("no such offset yet")
	// ErrSessionNotFound: the member has no session.
	ErrSessionNotFound = errors.New("share session not found")
	// ErrSessionEpoch: the request is not the next of its session.
	ErrSessionEpoch = errors.New("invalid share session epoch")
	// ErrSessionLimit: no more sessions may be opened.
	ErrSessionLimit = errors.New("share session limit reached")
)
