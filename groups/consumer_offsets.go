package groups

import (
	"fmt"
	"time"
)

// checkCommit says whether a member may commit: at its epoch, or, when it has not
// heard of that yet, at an earlier one for partitions that it had then and still has, but
// for those that are refused already. Who is no member may commit while there are none,
// and in a transaction at any time.
// Kafka: ConsumerGroup.validateOffsetCommit.
func (g *consumerGroup) checkCommit(_ time.Time, r *CommitRequest, refused []error) error {
	if r.Generation < 0 && len(g.members) == 0 {
		return nil
	}
	if r.transactional && r.Generation == -1 && r.MemberID == "" && r.InstanceID == nil {
		return nil
	}
	m, err := g.member(r.MemberID)
	switch {
	case err != nil:
		return err
	case m.classic == nil && !r.Epochs && !r.transactional:
		return fmt.Errorf("version of before member epochs from member %q: %w", m.id, ErrUnsupportedVersion)
	case r.Generation == m.epoch:
		return nil
	case r.Generation > m.epoch:
		return m.stale(fmt.Sprintf("member epoch %d, want at most %d", r.Generation, m.epoch))
	}
	for i, k := range r.Commits {
		if refused[i] != nil {
			continue
		}
		since, ok := m.assigned[k.TopicID][k.Partition]
		if !ok {
			since, ok = m.revoking[k.TopicID][k.Partition]
		}
		switch {
		case !ok:
			return m.stale(fmt.Sprintf("member epoch %d, want %d for %s-%d, which the member does not have", r.Generation, m.epoch, k.Topic, k.Partition))
		case r.Generation < since:
			return m.stale(fmt.Sprintf("member epoch %d, want at least %d for %s-%d", r.Generation, since, k.Topic, k.Partition))
		}
	}
	return nil
}

// checkFetch says whether a member may fetch offsets: at its epoch. Who does not say
// that it is a member may. Kafka: ConsumerGroup.validateOffsetFetch.
//
// Differs from Kafka: an epoch without a member is one of a member that nobody knows. Kafka fails over it.
func (g *consumerGroup) checkFetch(memberID *string, memberEpoch int32) error {
	var id string
	switch {
	case memberID != nil:
		id = *memberID
	case memberEpoch < 0:
		return nil
	}
	m, err := g.member(id)
	if err != nil {
		return err
	}
	if memberEpoch != m.epoch {
		return m.stale(fmt.Sprintf("member epoch %d, want %d", memberEpoch, m.epoch))
	}
	return nil
}

// stale is the error for a member that does not know its epoch, by the name that its
// protocol has for it.
func (m *consumerMember) stale(text string) error {
	if m.classic != nil {
		return fmt.Errorf("%s: %w", text, ErrIllegalGeneration)
	}
	return fmt.Errorf("%s: %w", text, ErrStaleMemberEpoch)
}
