package groups

import (
	"fmt"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
)

// ConsumerGroupDescription is a consumer group as it is.
type ConsumerGroupDescription struct {
	State       string
	Epoch       int32
	TargetEpoch int32
	Assignor    string
	Members     []ConsumerGroupMember // by id
}

// ConsumerGroupMember is a member of a consumer group.
type ConsumerGroupMember struct {
	MemberID   string
	InstanceID *string
	RackID     *string
	Epoch      int32
	ClientID   string
	ClientHost string
	Topics     []string
	Regex      string
	// Assigned are the partitions that the member may have, with those it has yet to give
	// up; Target, those it is to have. Topics that do not exist any more are left out.
	Assigned []NamedPartitions
	Target   []NamedPartitions
	Classic  bool // uses the classic protocol
}

// ConsumerGroupDescribe tells of one consumer group. Errors: ErrInvalidGroupID,
// ErrGroupIDNotFound also for a group of another type, ErrLoading, ErrNotAvailable,
// ErrNotCoordinator.
//
// Kafka: GroupMetadataManager.consumerGroupDescribe.
func (c *Coordinator) ConsumerGroupDescribe(group string) (ConsumerGroupDescription, error) {
	if group == "" {
		return ConsumerGroupDescription{}, ErrInvalidGroupID
	}
	return look(c, group, func(_ time.Time, _ *shard, e *entry) (ConsumerGroupDescription, error) {
		switch g := e.consumer(); {
		case g != nil:
			return g.describe(), nil
		case e != nil:
			return ConsumerGroupDescription{}, fmt.Errorf("group %s is not a consumer group: %w", group, ErrGroupIDNotFound)
		}
		return ConsumerGroupDescription{}, fmt.Errorf("group %s not found: %w", group, ErrGroupIDNotFound)
	})
}

// describe tells of the group as it is. Kafka: ConsumerGroup.asDescribedGroup.
func (g *consumerGroup) describe() ConsumerGroupDescription {
	d := ConsumerGroupDescription{
		State: g.state(), Epoch: g.epoch, TargetEpoch: g.targetEpoch,
		Assignor: g.subscriptionsOf(g.members).assignor(g.env.config.ConsumerAssignors[0]),
		Members:  make([]ConsumerGroupMember, 0, len(g.members)),
	}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		d.Members = append(d.Members, ConsumerGroupMember{
			MemberID: m.id, InstanceID: m.instanceID, RackID: m.rackID, Epoch: m.epoch, ClientID: m.clientID, ClientHost: m.clientHost,
			Topics: m.topics, Regex: m.regex, Classic: m.classic != nil,
			Assigned: g.named(m.has()), Target: g.named(g.target[id]),
		})
	}
	return d
}

// has is what the member consumes, or has not given up yet.
func (m *consumerMember) has() assignor.Partitions {
	all := partitionEpochs{}
	for _, p := range []partitionEpochs{m.assigned, m.revoking} {
		for topic, epochs := range p {
			for partition, epoch := range epochs {
				all.set(topic, partition, epoch)
			}
		}
	}
	return all.partitions()
}
