package share

import "errors"

var (
	// ErrRecordState: a record is not acquired, or by another member.
	ErrRecordState = errors.New("record state does not allow it")
	// ErrInvalidRequest: the request makes no sense.
	ErrInvalidRequest = errors.New("invalid request")
)
