package groups

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// consumerMember is a member of a consumer group. It is not changed: one that differs
// takes its place. Kafka: ConsumerGroupMember.
type consumerMember struct {
	id string
	memberMetadata
	currentAssignment
}

// memberMetadata is what a member says of itself. Topics are sorted, each once.
type memberMetadata struct {
	instanceID, rackID   *string
	clientID, clientHost string
	topics               []string
	regex                string // "" for none
	rebalanceTimeoutMs   int32
	assignor             *string // nil leaves it to the others
	// classic is there for a member of the classic protocol.
	classic *classicMetadata
}

// classicMetadata is what a consumer group keeps of a member of the classic protocol.
type classicMetadata struct {
	sessionTimeoutMs int32
	protocols        []Protocol
}

// currentAssignment is how far a member got towards its target. Kafka:
// ConsumerGroupCurrentMemberAssignmentValue.
type currentAssignment struct {
	epoch, previousEpoch int32
	state                memberState
	assigned             partitionEpochs // what it may consume
	revoking             partitionEpochs // what it still has to give up
}

// Member epochs with a meaning of their own.
const (
	joiningEpoch    = 0
	leavingEpoch    = -1 // leaves for good
	staticAwayEpoch = -2 // a static member that will be back
	noPreviousEpoch = -1
)

// memberState is where a member stands in its reconciliation, by its number in the
// log. Kafka: MemberState.
type memberState int8

const (
	// memberStable: it has the whole target of its epoch.
	memberStable memberState = 0
	// memberUnrevoked: it has been told to give partitions up, and has not yet.
	memberUnrevoked memberState = 1
	// memberUnreleased: others have not given up yet what it is to get.
	memberUnreleased memberState = 2
	// memberUnknown: a state that a later version has written.
	memberUnknown memberState = 127
)

func (s memberState) String() string {
	switch s {
	case memberStable:
		return "stable"
	case memberUnrevoked:
		return "unrevoked"
	case memberUnreleased:
		return "unreleased"
	}
	return "unknown"
}

// newConsumerMember is a member that nothing is known of.
func newConsumerMember(id string) *consumerMember {
	return &consumerMember{
		id:                id,
		memberMetadata:    memberMetadata{rebalanceTimeoutMs: -1},
		currentAssignment: currentAssignment{previousEpoch: noPreviousEpoch},
	}
}

// rebalanceTimeout is how long the member may take to give partitions up.
func (m *consumerMember) rebalanceTimeout() time.Duration {
	return time.Duration(m.rebalanceTimeoutMs) * time.Millisecond
}

// instance is the member's instance id, "" for a dynamic member.
func (m *consumerMember) instance() string {
	if m.instanceID == nil {
		return ""
	}
	return *m.instanceID
}

// reconciledTo says whether the member has its whole target of an epoch.
func (m *consumerMember) reconciledTo(epoch int32) bool {
	return m.state == memberStable && m.epoch == epoch
}

func (m *memberMetadata) equal(o *memberMetadata) bool {
	return equalStrings(m.instanceID, o.instanceID) && equalStrings(m.rackID, o.rackID) &&
		m.clientID == o.clientID && m.clientHost == o.clientHost &&
		slices.Equal(m.topics, o.topics) && m.regex == o.regex &&
		m.rebalanceTimeoutMs == o.rebalanceTimeoutMs && equalStrings(m.assignor, o.assignor) &&
		m.classic.equal(o.classic)
}

func (c *classicMetadata) equal(o *classicMetadata) bool {
	if c == nil || o == nil {
		return c == o
	}
	return c.sessionTimeoutMs == o.sessionTimeoutMs && slices.EqualFunc(c.protocols, o.protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata)
	})
}

func (c *classicMetadata) sessionTimeout() time.Duration {
	return time.Duration(c.sessionTimeoutMs) * time.Millisecond
}

func equalStrings(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (c *currentAssignment) equal(o *currentAssignment) bool {
	return c.epoch == o.epoch && c.previousEpoch == o.previousEpoch && c.state == o.state &&
		c.assigned.equal(o.assigned) && c.revoking.equal(o.revoking)
}

// partitionEpochs are partitions by topic, each with the epoch it was assigned at.
// They are not changed once a member has them, and hold no topic without partitions.
type partitionEpochs map[storage.TopicID]map[int32]int32

func (p partitionEpochs) equal(o partitionEpochs) bool {
	return maps.EqualFunc(p, o, maps.Equal[map[int32]int32, map[int32]int32])
}

func (p partitionEpochs) has(topic storage.TopicID, partition int32) bool {
	_, ok := p[topic][partition]
	return ok
}

// set notes a partition; the map of its topic must not be shared.
func (p partitionEpochs) set(topic storage.TopicID, partition, epoch int32) {
	if p[topic] == nil {
		p[topic] = map[int32]int32{}
	}
	p[topic][partition] = epoch
}

// topics returns the topics in order.
func (p partitionEpochs) topics() []storage.TopicID {
	return sortedIDs(p)
}

// partitions returns the partitions without their epochs.
func (p partitionEpochs) partitions() assignor.Partitions {
	out := make(assignor.Partitions, len(p))
	for topic, epochs := range p {
		out[topic] = slices.Sorted(maps.Keys(epochs))
	}
	return out
}

// withEpoch gives every partition the same epoch.
func withEpoch(p assignor.Partitions, epoch int32) partitionEpochs {
	out := make(partitionEpochs, len(p))
	for topic, list := range p {
		for _, partition := range list {
			out.set(topic, partition, epoch)
		}
	}
	return out
}
