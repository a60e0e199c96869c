package groups

import "errors"

// Errors of the package. wire/errors.go maps each to a Kafka code; what wraps them
// says what was got and what was wanted.
var (
	// ErrLoading: the group's partition of __consumer_offsets is still being read.
	ErrLoading = errors.New("group coordinator is loading")
	// ErrNotAvailable: __consumer_offsets cannot be made, a write was not durable in
	// time, or the coordinator stops.
	ErrNotAvailable = errors.New("group coordinator is not available")
	// ErrNotCoordinator: the group's partition of __consumer_offsets cannot be read or
	// written, as when it is offline or the disk fails.
	ErrNotCoordinator = errors.New("not the coordinator of the group")
	// ErrCommitTooLarge: what is to be written does not fit into one batch of __consumer_offsets.
	ErrCommitTooLarge = errors.New("commit too large")
	// ErrMetadataTooLarge: the text committed with an offset is too long.
	ErrMetadataTooLarge = errors.New("offset metadata too large")

	// ErrInvalidGroupID: the group id is empty where it must not be.
	ErrInvalidGroupID = errors.New("invalid group id")
	// ErrGroupIDNotFound: there is no such group, or it is of another type.
	ErrGroupIDNotFound = errors.New("group id not found")
	// ErrNonEmptyGroup: the group has members where it must have none.
	ErrNonEmptyGroup = errors.New("group is not empty")
	// ErrSubscribed: a member is subscribed to the topic.
	ErrSubscribed = errors.New("group is subscribed to the topic")
	// ErrGroupMaxSize: the group is full.
	ErrGroupMaxSize = errors.New("group has as many members as it may")
	// ErrUnknownMemberID: the group has no such member.
	ErrUnknownMemberID = errors.New("unknown member id")
	// ErrFencedInstanceID: the instance id belongs to another member.
	ErrFencedInstanceID = errors.New("instance id of another member")
	// ErrInvalidRequest: the request contradicts itself.
	ErrInvalidRequest = errors.New("invalid request")
	// ErrUnsupportedVersion: the request is too old for the group's protocol, or the protocol is not enabled.
	ErrUnsupportedVersion = errors.New("unsupported version")

	// ErrInvalidSessionTimeout: the session timeout is out of its bounds.
	ErrInvalidSessionTimeout = errors.New("invalid session timeout")
	// ErrInconsistentProtocol: the member's protocols do not go with the group's.
	ErrInconsistentProtocol = errors.New("inconsistent group protocol")
	// ErrMemberIDRequired: the member must join again, with the id it is given.
	ErrMemberIDRequired = errors.New("member id required")
	// ErrIllegalGeneration: the generation is not the group's.
	ErrIllegalGeneration = errors.New("illegal generation")
	// ErrRebalanceInProgress: the member must join again.
	ErrRebalanceInProgress = errors.New("rebalance in progress")

	// ErrFencedMemberEpoch: the member must join again, with epoch 0.
	ErrFencedMemberEpoch = errors.New("fenced member epoch")
	// ErrStaleMemberEpoch: the member must learn its epoch and try again.
	ErrStaleMemberEpoch = errors.New("stale member epoch")
	// ErrUnreleasedInstanceID: a live member has the instance id.
	ErrUnreleasedInstanceID = errors.New("instance id is not released")
	// ErrUnsupportedAssignor: there is no such assignor.
	ErrUnsupportedAssignor = errors.New("unsupported assignor")
	// ErrInvalidRegex: the regular expression of a subscription does not compile.
	ErrInvalidRegex = errors.New("invalid regular expression")
)
