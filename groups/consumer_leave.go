package groups

import (
	"maps"
	"slices"
	"time"
)

// leave is the heartbeat of a member that leaves: for good, or as a static member for
// a while. Kafka: GroupMetadataManager.consumerGroupLeave.
func (c *consumerChange) leave(r *ConsumerHeartbeatRequest) (ConsumerHeartbeat, error) {
	m, err := c.find(r.MemberID, r.InstanceID, false, false)
	if err != nil {
		return ConsumerHeartbeat{}, err
	}
	answer := ConsumerHeartbeat{MemberID: r.MemberID, MemberEpoch: r.MemberEpoch}
	if r.MemberEpoch == staticAwayEpoch && r.InstanceID != nil {
		away := m.currentAssignment
		away.epoch, away.revoking = staticAwayEpoch, partitionEpochs{}
		away.assigned = withEpoch(away.assigned.partitions(), 0) // from when on the next member of the instance has them
		c.add(typeConsumerCurrent, m.id, &away)
		return answer, nil
	}
	return answer, c.fence(m)
}

// fence removes members. When only members of the classic protocol are left, the
// group becomes a classic one. Kafka: GroupMetadataManager.consumerGroupFenceMembers.
func (c *consumerChange) fence(gone ...*consumerMember) error {
	g := c.g
	if len(gone) == 0 {
		return nil
	}
	left := maps.Clone(g.members)
	for _, m := range gone {
		delete(left, m.id)
	}
	if g.mayDowngrade(left) {
		return c.downgrade(left, nil, true)
	}
	c.summed = g.subscriptionsOf(left)
	for _, m := range gone {
		c.remove(m.id)
	}
	for _, regex := range slices.Sorted(maps.Keys(g.regexMembers)) {
		if c.summed.regexes[regex] == 0 {
			c.add(typeConsumerResolvedRegex, regex, nil)
		}
	}
	version := g.env.topics.version()
	c.bump(c.summed.hashTopics(g.env.topics))
	c.later(func(time.Time) { g.hashedAt = topicsVersion{true, version} })
	if len(left) == 0 {
		// As of a new group: the next target need not wait.
		c.add(typeConsumerTargetEpoch, "", targetEpochBody{epoch: c.epoch})
	}
	return nil
}
