package groups

import (
	"errors"
	"slices"
	"time"
)

// The part of the model test whose clients speak the consumer protocol: between those
// whose session has not ended, a partition has one owner at any time.

// consumerSession is how long a client may believe in what it was given: what the
// broker gives a member by default.
var consumerSession = DefaultGroupConfig().ConsumerSessionTimeout

// stepConsumer commits, or sends a heartbeat.
func (m *model) stepConsumer(c *stormClient) {
	if len(c.owned) > 0 && c.generation > 0 && m.rand.IntN(3) == 0 {
		m.commitSome(c, c.owned[m.rand.IntN(len(c.owned))], m.commitConsumer)
		return
	}
	r := &ConsumerHeartbeatRequest{Group: c.group, MemberID: c.id, MemberEpoch: c.generation, InstanceID: c.instance, RebalanceTimeoutMs: -1,
		ClientID: c.name, ClientHost: "/127.0.0.1", OwnMemberID: true}
	if c.generation == 0 || m.rand.IntN(2) == 0 {
		r.RebalanceTimeoutMs, r.Topics = 60_000, []string{"orders"}
	}
	if c.generation == 0 {
		c.owned = nil
	}
	r.Owned = []TopicPartitions{}
	if len(c.owned) > 0 {
		r.Owned = []TopicPartitions{{TopicID: m.topic.ID(), Partitions: slices.Clone(c.owned)}}
	}
	sent := time.Now()
	modelCall(m, c, func(k *Coordinator) (ConsumerHeartbeat, error) { return k.ConsumerGroupHeartbeat(m.t.Context(), r) }, func(h ConsumerHeartbeat, err error) {
		if err != nil {
			m.failedConsumer(c, "heartbeat", err)
			return
		}
		c.generation, c.heard = h.MemberEpoch, sent
		if h.Assigned != nil {
			m.assigned(c, h.Assigned)
		}
	})
}

// assigned lets a client give up and take over what it is told.
func (m *model) assigned(c *stormClient, topics []TopicPartitions) {
	before := c.owned
	c.owned = []int32{}
	for _, t := range topics {
		c.owned = append(c.owned, t.Partitions...)
	}
	slices.Sort(c.owned)
	if !slices.Equal(before, c.owned) {
		m.note("%s owns %v of %s in epoch %d", c.name, c.owned, c.group, c.generation)
	}
	var taken []int32
	for _, p := range c.owned {
		for _, other := range m.clients {
			if other != c && other.group == c.group && time.Since(other.heard) < consumerSession && slices.Contains(other.owned, p) {
				m.failf("partition %d of %s is of %s and of %s, in epochs %d and %d", p, c.group, other.name, c.name, other.generation, c.generation)
			}
		}
		if !slices.Contains(before, p) {
			taken = append(taken, p)
		}
	}
	m.read(c, taken)
}

// commitConsumer commits for a partition that the client has.
func (m *model) commitConsumer(c *stormClient, p int32) {
	offset := c.next[p] + 1 + m.rand.Int64N(5)
	r := &CommitRequest{Group: c.group, MemberID: c.id, InstanceID: c.instance, Generation: c.generation, Epochs: true, Retention: -1,
		Commits: []Commit{{Topic: "orders", TopicID: m.topic.ID(), Partition: p, Offset: offset}}}
	modelCall(m, c, func(k *Coordinator) ([]error, error) { return k.CommitOffsets(m.t.Context(), r) }, func(errs []error, err error) {
		if err == nil {
			err = errs[0]
		}
		if err != nil {
			m.failedConsumer(c, "commit", err)
			return
		}
		if was := m.committed[c.group][p]; offset < was {
			m.failf("%s committed %d for %s-%d in epoch %d, below %d", c.name, offset, c.group, p, c.generation, was)
		}
		m.committed[c.group][p], c.next[p] = offset, offset
		m.commits++
	})
}

// failedConsumer does what a client does about an error.
func (m *model) failedConsumer(c *stormClient, what string, err error) {
	m.note("%s %s: %v", c.name, what, err)
	switch {
	case errors.Is(err, ErrUnknownMemberID), errors.Is(err, ErrFencedMemberEpoch), errors.Is(err, ErrGroupIDNotFound):
		c.generation, c.owned = 0, nil
	case errors.Is(err, ErrStaleMemberEpoch), errors.Is(err, ErrNotAvailable), errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrLoading):
	default:
		m.failf("%s %s: unexpected %v", c.name, what, err)
	}
}

// leaveConsumer lets a client say that it goes; it has given up what it had.
func (m *model) leaveConsumer(c *stormClient) {
	modelCall(m, c, func(k *Coordinator) (ConsumerHeartbeat, error) {
		return k.ConsumerGroupHeartbeat(m.t.Context(), &ConsumerHeartbeatRequest{Group: c.group, MemberID: c.id, MemberEpoch: -1, InstanceID: c.instance,
			RebalanceTimeoutMs: -1, OwnMemberID: true})
	}, func(ConsumerHeartbeat, error) {})
}
