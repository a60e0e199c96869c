package groups

import (
	"fmt"
	"time"
)

// What a classic group says of the offsets that are committed for it: a rebalance
// closes writing for those who have joined, never reading.

// checkCommit says whether a commit may be stored. Who is no member may commit while
// the group is empty, and in a transaction at any time: old producers do not know for
// whom they commit. A transaction minds no rebalance, and is no sign of life. Kafka:
// ClassicGroup.validateOffsetCommit and OffsetMetadataManager.validateOffsetCommit.
func (g *classicGroup) checkCommit(now time.Time, r *CommitRequest, _ []error) error {
	if r.Generation < 0 && g.current == classicEmpty {
		return nil
	}
	if r.Generation < 0 && r.MemberID == "" && r.InstanceID == nil {
		if r.transactional {
			return nil
		}
		return fmt.Errorf("no member of a group that has some: %w", ErrUnknownMemberID)
	}
	if err := g.check(r.MemberID, r.InstanceID); err != nil {
		return err
	}
	switch {
	case r.Generation != g.generation:
		return fmt.Errorf("generation %d, want %d: %w", r.Generation, g.generation, ErrIllegalGeneration)
	case r.transactional:
		return nil
	case g.current == classicCompleting:
		return ErrRebalanceInProgress
	}
	g.byID[r.MemberID].renew(now)
	return nil
}

// checkFetch lets everybody read. Kafka: ClassicGroup.validateOffsetFetch.
func (g *classicGroup) checkFetch(*string, int32) error { return nil }

// checkOffsetDelete lets offsets of consumers be deleted topic by topic, and those of
// other groups when they are empty. Kafka: ClassicGroup.validateOffsetDelete.
func (g *classicGroup) checkOffsetDelete() error {
	if g.current != classicEmpty && g.groupType != consumerProtocolType {
		return fmt.Errorf("group of type %q in state %s: %w", g.groupType, g.current, ErrNonEmptyGroup)
	}
	return nil
}

// subscribed says whether a member consumes the topic, as a group of consumers may
// that has not said what it consumes. Kafka: ClassicGroup.isSubscribedToTopic.
func (g *classicGroup) subscribed(topic string) bool {
	if g.topics == nil {
		return g.groupType == consumerProtocolType
	}
	return g.topics[topic]
}

// checkDelete lets an empty group be deleted. Kafka: ClassicGroup.validateDeleteGroup.
func (g *classicGroup) checkDelete() error {
	if g.current != classicEmpty {
		return fmt.Errorf("group in state %s: %w", g.current, ErrNonEmptyGroup)
	}
	return nil
}

// expires says when an offset expires: counted from when the group became empty, and
// from its commit where nobody consumes the topic in a stable group of consumers, or
// the group never had members. Kafka: ClassicGroup.offsetExpirationCondition.
func (g *classicGroup) expires(topic string, commitMs int64, retention time.Duration) (time.Time, bool) {
	base := time.UnixMilli(commitMs)
	switch {
	case g.groupType == "":
	case g.current == classicEmpty:
		if !g.since.IsZero() {
			base = g.since
		}
	case g.current != classicStable, g.topics == nil:
		return time.Time{}, false
	}
	if g.subscribed(topic) {
		return time.Time{}, false
	}
	return base.Add(retention), true
}
