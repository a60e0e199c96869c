package groups

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/groups/runtime"
)

// The messages that consumers of the classic protocol embed in its calls: what a
// member subscribes to, and what it is assigned. Kafka: ConsumerProtocol.

// embeddedVersion is the highest version of the embedded messages; what is of a later
// one is read as of this.
const embeddedVersion = 3

// versionOf returns the version of an embedded message.
func versionOf(message []byte) (int16, error) {
	if len(message) < 2 {
		return 0, fmt.Errorf("embedded message of %d bytes, want at least 2", len(message))
	}
	v := int16(binary.BigEndian.Uint16(message))
	if v < 0 {
		return 0, fmt.Errorf("embedded message of version %d, want 0 to %d", v, embeddedVersion)
	}
	return min(v, embeddedVersion), nil
}

// ofKnownVersion returns a message as of the highest version at most.
func ofKnownVersion(message []byte) ([]byte, error) {
	v, err := versionOf(message)
	if err != nil {
		return nil, err
	}
	return append(runtime.AppendInt16(make([]byte, 0, len(message)), v), message[2:]...), nil
}

// embeddedSubscription is what a member subscribes to.
type embeddedSubscription struct {
	topics []string // sorted
	rackID *string
	owned  []TopicPartitions // of topics that exist
}

// parseSubscription reads what a member says for its protocol.
func parseSubscription(message []byte, topics topicView) (embeddedSubscription, error) {
	known, err := ofKnownVersion(message)
	if err != nil {
		return embeddedSubscription{}, err
	}
	m := kmsg.NewConsumerMemberMetadata()
	if err := m.ReadFrom(known); err != nil {
		return embeddedSubscription{}, fmt.Errorf("subscription of %d bytes: %w", len(message), err)
	}
	s := embeddedSubscription{topics: sortedSet(m.Topics), owned: []TopicPartitions{}}
	if m.Rack != nil && *m.Rack != "" {
		s.rackID = m.Rack
	}
	for _, o := range m.OwnedPartitions {
		if t, ok := topics.byName(o.Topic); ok {
			s.owned = append(s.owned, TopicPartitions{TopicID: t.id, Partitions: o.Partitions})
		}
	}
	return s, nil
}

// parseAssignment reads what a member is assigned, of topics that exist, and whether
// its assignor has added data of its own.
func parseAssignment(message []byte, topics topicView) (p assignor.Partitions, userData bool, err error) {
	known, err := ofKnownVersion(message)
	if err != nil {
		return nil, false, err
	}
	m := kmsg.NewConsumerMemberAssignment()
	if err := m.ReadFrom(known); err != nil {
		return nil, false, fmt.Errorf("assignment of %d bytes: %w", len(message), err)
	}
	p = assignor.Partitions{}
	for _, a := range m.Topics {
		if t, ok := topics.byName(a.Topic); ok && len(a.Partitions) > 0 {
			list := slices.Concat(p[t.id], a.Partitions)
			slices.Sort(list)
			p[t.id] = slices.Compact(list)
		}
	}
	return p, len(m.UserData) > 0, nil
}

// embeddedAssignment writes what a member is assigned, as of the version that it
// subscribed with.
func (g *consumerGroup) embeddedAssignment(p assignor.Partitions, subscription []byte) ([]byte, error) {
	v, err := versionOf(subscription)
	if err != nil {
		return nil, err
	}
	m := kmsg.NewConsumerMemberAssignment()
	m.Version = v
	for _, t := range g.named(p) {
		o := kmsg.NewConsumerMemberAssignmentTopic()
		o.Topic, o.Partitions = t.Topic, t.Partitions
		m.Topics = append(m.Topics, o)
	}
	return m.AppendTo(nil), nil
}
