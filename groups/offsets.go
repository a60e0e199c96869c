package groups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

// Commit is one offset to be committed.
type Commit struct {
	Topic       string
	TopicID     storage.TopicID
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// CommitRequest is what a consumer commits for its group.
type CommitRequest struct {
	Group      string
	MemberID   string  // "" for a consumer that is no member
	InstanceID *string // nil for a dynamic member
	// Generation is the generation of a classic group's member, or the member epoch of
	// a consumer group's; negative for a consumer that is no member.
	Generation int32
	// Epochs says that the client knows member epochs and ErrGroupIDNotFound (OffsetCommit
	// version 9 and later, TxnOffsetCommit version 6 and later).
	Epochs  bool
	Commits []Commit
	// Retention is the client's explicit retention; negative for the broker's.
	Retention time.Duration

	transactional bool // part of a TransactionalCommitRequest
}

// CommitOffsets stores what a consumer commits. The error of each commit is at its
// index in the result: ErrMetadataTooLarge, what the group refuses one commit with,
// or nil once it is durable. An error that concerns them all is err: ErrLoading,
// ErrNotAvailable, ErrNotCoordinator, ErrCommitTooLarge, or what the group refuses
// the member with; then nothing is stored, or after a timeout it may yet be.
// It blocks until the commits are durable, the commit timeout, or the end of ctx.
//
// Kafka: OffsetMetadataManager.commitOffset.
func (c *Coordinator) CommitOffsets(ctx context.Context, r *CommitRequest) ([]error, error) {
	ctx, cancel := context.WithTimeout(ctx, c.o.CommitTimeout)
	defer cancel()
	return call(ctx, c, r.Group, func(now time.Time, s *shard, e *entry, reply func([]error, error)) step {
		errs := c.checkMetadata(r.Commits)
		if err := checkCommit(now, e, r, errs); err != nil {
			reply(nil, err)
			return step{}
		}
		return c.storeCommits(now, s, r, nil, errs, reply)
	})
}

// leastCommit is the size of the smallest record that a commit can be: with an empty group id and a topic of one letter.
const leastCommit = 42

// MostCommits is how many commits can fit into one batch of __consumer_offsets; a request with more of them is refused
// with ErrCommitTooLarge in any case, and need not be looked at.
func (c *Coordinator) MostCommits() int {
	if t, ok := c.o.Store.Topic(OffsetsTopic); ok {
		return int(t.Config().MaxMessageBytes) / leastCommit
	}
	return 1 << 16
}

// checkMetadata returns, for each commit, an error when its metadata is too long.
func (c *Coordinator) checkMetadata(commits []Commit) []error {
	errs := make([]error, len(commits))
	for i := range commits {
		if n := runtime.JavaLength(commits[i].Metadata); n > c.o.MaxMetadataLength {
			errs[i] = fmt.Errorf("metadata of %d characters, want at most %d: %w", n, c.o.MaxMetadataLength, ErrMetadataTooLarge)
		}
	}
	return errs
}

// checkCommit says whether a commit may be stored in a group that may not exist, but for
// those of its commits that are refused.
// Kafka: OffsetMetadataManager.validateOffsetCommit.
func checkCommit(now time.Time, e *entry, r *CommitRequest, refused []error) error {
	switch {
	case e != nil && e.machine != nil:
		return e.machine.checkCommit(now, r, refused)
	case r.Generation < 0:
		return nil
	case e != nil: // a simple group has no members
		return fmt.Errorf("member %q of a group without members: %w", r.MemberID, ErrUnknownMemberID)
	case r.Epochs:
		return fmt.Errorf("group %q: %w", r.Group, ErrGroupIDNotFound)
	}
	return fmt.Errorf("generation %d of a group that does not exist: %w", r.Generation, ErrIllegalGeneration)
}

// storeCommits is the step that stores the commits without an error in errs, as part of a
// transaction if there is one.
func (c *Coordinator) storeCommits(now time.Time, s *shard, r *CommitRequest, txn *transaction, errs []error, reply func([]error, error)) step {
	nowMs := now.UnixMilli()
	changes := make([]change, 0, len(r.Commits))
	records := make([]logRecord, 0, len(r.Commits))
	for i := range r.Commits {
		if errs[i] != nil {
			continue
		}
		k := &r.Commits[i]
		o := &Offset{Offset: k.Offset, LeaderEpoch: k.LeaderEpoch, Metadata: k.Metadata, CommitMs: nowMs, ExpireMs: -1, TopicID: k.TopicID}
		if r.Retention >= 0 {
			o.ExpireMs = nowMs + r.Retention.Milliseconds()
		}
		ch := change{group: r.Group, key: offsetKey{k.Topic, k.Partition}, offset: o}
		changes = append(changes, ch)
		records = append(records, ch.record())
	}
	if len(changes) == 0 {
		reply(errs, nil)
		return step{}
	}
	return step{records: records, commit: true, txn: txn, then: func(_ time.Time, err error) step {
		if err != nil {
			reply(nil, err)
			return step{}
		}
		for i := range changes {
			changes[i].recordOffset = s.base + int64(i)
			if txn != nil {
				s.stage(txn.producerID, changes[i])
			} else {
				s.apply(changes[i])
			}
		}
		reply(errs, nil)
		return step{}
	}}
}

// record is what the log says of a change.
func (c *change) record() logRecord {
	r := logRecord{key: appendOffsetKey(nil, c.group, c.key)}
	if c.offset != nil {
		r.value = appendOffsetValue(nil, c.offset)
	}
	return r
}

// FetchedOffset is the answer for one partition.
type FetchedOffset struct {
	Topic     string
	Partition int32
	Offset    Offset
	Found     bool // false: nothing is committed
	Unstable  bool // an open transaction would change it
}

// OffsetQuery asks for one partition's offset; a zero TopicID accepts any.
type OffsetQuery struct {
	Topic     string
	TopicID   storage.TopicID
	Partition int32
}

// FetchRequest asks for what a group has committed.
type FetchRequest struct {
	Group string
	// MemberID and MemberEpoch name the member that asks; nil and -1 for nobody.
	MemberID    *string
	MemberEpoch int32
	// Stable waits for commits, and ends of transactions, that are on their way to the
	// disk.
	Stable  bool
	Queries []OffsetQuery // nil asks for all
}

// FetchOffsets returns committed offsets in the order asked; all of the group's, by
// topic and partition, without queries. A group that is unknown has committed
// nothing. An offset counts for the topic it was committed for: one of a topic that
// was deleted and made anew is not found, also when it is asked for by name.
// Errors: ErrLoading, ErrNotCoordinator, or what the group refuses the member with.
// It waits for the disk only when Stable is set, until the commit timeout or the end
// of ctx.
//
// Kafka: OffsetMetadataManager.fetchOffsets, GroupCoordinatorService.fetchOffsets.
func (c *Coordinator) FetchOffsets(ctx context.Context, r *FetchRequest) ([]FetchedOffset, error) {
	if !r.Stable || c.ownerOf(r.Group) == nil {
		return look(c, r.Group, func(_ time.Time, s *shard, e *entry) ([]FetchedOffset, error) { return fetch(s, e, r) })
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.CommitTimeout)
	defer cancel()
	fetched, err := callAlone(ctx, c, r.Group, func(_ time.Time, s *shard, e *entry, reply func([]FetchedOffset, error)) step {
		if e != nil && len(e.unstable) > 0 && s.ending != nil {
			s.ending.after = append(s.ending.after, func() { reply(fetch(s, s.entries[r.Group].known(), r)) })
			return step{}
		}
		reply(fetch(s, e, r))
		return step{}
	})
	if errors.Is(err, ErrNotAvailable) && ctx.Err() != nil {
		// Consumers of before 3.9 do not know that one. Kafka: handleOffsetFetchException.
		err = fmt.Errorf("fetch of %q: %w: %w", r.Group, ErrNotCoordinator, ctx.Err())
	}
	return fetched, err
}

// fetch answers a request from what a group, which may not exist, has committed.
func fetch(s *shard, e *entry, r *FetchRequest) ([]FetchedOffset, error) {
	if e != nil && e.machine != nil {
		err := e.machine.checkFetch(r.MemberID, r.MemberEpoch)
		switch {
		case errors.Is(err, ErrGroupIDNotFound):
			e = nil
		case err != nil:
			return nil, err
		}
	}
	queries, all := r.Queries, r.Queries == nil
	if all && e != nil {
		for _, k := range e.keys() {
			queries = append(queries, OffsetQuery{Topic: k.topic, Partition: k.partition})
		}
	}
	out := make([]FetchedOffset, 0, len(queries))
	for _, q := range queries {
		if q.TopicID.IsZero() {
			if t, ok := s.env.topics.byName(q.Topic); ok {
				q.TopicID = t.id
			}
		}
		f := FetchedOffset{Topic: q.Topic, Partition: q.Partition}
		f.Offset, f.Unstable, f.Found = e.lookup(offsetKey{q.Topic, q.Partition}, q.TopicID)
		if f.Found || !all {
			out = append(out, f)
		}
	}
	return out, nil
}
