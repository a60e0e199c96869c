package groups

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// reconcile takes m one step towards its target. First it has to give up what is not
// its any more: until it says, by what it owns, that it did, it stays at its epoch.
// Then it enters the target's epoch and gets what nobody else has; the rest follows as
// the others give it up. So no partition ever has two owners. Kafka:
// GroupMetadataManager.maybeReconcile and CurrentAssignmentBuilder.
func (c *consumerChange) reconcile(m *consumerMember, targetEpoch int32, target assignor.Partitions, subscriptionChanged bool, owned []TopicPartitions) error {
	if !subscriptionChanged && m.reconciledTo(targetEpoch) {
		return nil
	}
	r := reconciliation{g: c.g, m: m, targetEpoch: targetEpoch, target: target, owned: owned}
	next, err := r.next(subscriptionChanged)
	if err != nil || next.equal(&m.currentAssignment) {
		return err
	}
	m.currentAssignment = *next
	c.add(typeConsumerCurrent, m.id, next)
	if m.classic != nil {
		return nil // it has to join and to sync in time instead
	}
	unrevoked, epoch, timeout := next.state == memberUnrevoked, next.epoch, m.rebalanceTimeout()
	c.deadline(m.id, func(d *memberDeadlines, now time.Time) {
		d.revoke = time.Time{}
		if unrevoked {
			d.revoke, d.revokeEpoch = now.Add(timeout), epoch
		}
	})
	return nil
}

// reconciliation is the present of a member, and where it is to go.
type reconciliation struct {
	g           *consumerGroup
	m           *consumerMember
	targetEpoch int32
	target      assignor.Partitions
	owned       []TopicPartitions // nil when the member does not say
}

// next is the member's next assignment.
func (r *reconciliation) next(subscriptionChanged bool) (*currentAssignment, error) {
	m := r.m
	switch m.state {
	case memberStable:
		switch {
		case m.epoch != r.targetEpoch:
			return r.advance(m.epoch), nil
		case subscriptionChanged:
			return r.drop(), nil
		}
		return &m.currentAssignment, nil
	case memberUnrevoked:
		if r.owns(m.revoking) {
			if subscriptionChanged {
				return r.drop(), nil
			}
			return &m.currentAssignment, nil
		}
		return r.advance(m.epoch), nil
	case memberUnreleased:
		return r.advance(m.epoch), nil
	}
	// A state that a later version has written: the member begins from nothing.
	if len(r.owned) > 0 || r.owned == nil {
		return nil, fmt.Errorf("state of member %q is not known: %w", m.id, ErrFencedMemberEpoch)
	}
	return r.advance(r.targetEpoch), nil
}

// owns says whether the member has any of p still, as far as it says.
func (r *reconciliation) owns(p partitionEpochs) bool {
	if r.owned == nil {
		return true
	}
	for _, t := range r.owned {
		for _, partition := range t.Partitions {
			if p.has(t.TopicID, partition) {
				return true
			}
		}
	}
	return false
}

// wanted are the topics that the member is subscribed to.
func (r *reconciliation) wanted() map[storage.TopicID]bool {
	out := map[storage.TopicID]bool{}
	for _, id := range r.g.topicIDs(&r.m.memberMetadata) {
		out[id] = true
	}
	return out
}

// drop takes from the member the topics that it is not subscribed to any more, without
// waiting for a new target.
func (r *reconciliation) drop() *currentAssignment {
	wanted := r.wanted()
	next := r.m.currentAssignment
	next.previousEpoch = next.epoch
	next.assigned, next.revoking = partitionEpochs{}, maps.Clone(next.revoking)
	if next.revoking == nil {
		next.revoking = partitionEpochs{}
	}
	for topic, epochs := range r.m.assigned {
		if wanted[topic] {
			next.assigned[topic] = epochs
			continue
		}
		all := map[int32]int32{}
		maps.Copy(all, next.revoking[topic])
		maps.Copy(all, epochs)
		next.revoking[topic] = all
	}
	switch {
	case len(next.assigned) == len(r.m.assigned):
		return &r.m.currentAssignment
	case r.owns(next.revoking):
		next.state = memberUnrevoked
	default: // it has given them up already
		next.revoking = r.m.revoking
	}
	return &next
}

// advance takes the member towards the target. epoch is where it stands.
func (r *reconciliation) advance(epoch int32) *currentAssignment {
	wanted := r.wanted()
	target := func(topic storage.TopicID) []int32 {
		if !wanted[topic] {
			return nil
		}
		return r.target[topic]
	}
	kept, revoking := partitionEpochs{}, partitionEpochs{}
	for topic, epochs := range r.m.assigned {
		list := target(topic)
		for partition, at := range epochs {
			if _, ok := slices.BinarySearch(list, partition); ok {
				kept.set(topic, partition, at)
			} else {
				revoking.set(topic, partition, at)
			}
		}
	}
	next := &currentAssignment{epoch: epoch, previousEpoch: r.m.epoch, state: memberUnrevoked, assigned: kept, revoking: revoking}
	if len(revoking) > 0 && r.owns(revoking) {
		return next
	}
	next.epoch, next.state, next.revoking = r.targetEpoch, memberStable, partitionEpochs{}
	for topic := range r.target {
		for _, partition := range target(topic) {
			switch {
			case kept.has(topic, partition):
			case r.g.owned(topic, partition) && !r.m.revoking.has(topic, partition):
				next.state = memberUnreleased // somebody else has it yet
			default:
				next.assigned.set(topic, partition, r.targetEpoch)
			}
		}
	}
	return next
}
