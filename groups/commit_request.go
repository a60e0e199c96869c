package groups

import "time"

// CommitRequest is what a consumer commits for its group.
type CommitRequest struct {
	Group      string
	MemberID   string  // "" for a consumer that is no member
	InstanceID *string // nil for a dynamic member
	// Generation is the generation of a classic group's member, or the member epoch of
	// a consumer group's; negative for a consumer that is no member.
	Generation int32
	// Epochs says that the client knows member epochs and ErrGroupIDNotFound (OffsetCommit version 9 and later).
	Epochs  bool
	Commits []Commit
	// Retention is the client's explicit retention; negative for the broker's.
	Retention time.Duration
}
