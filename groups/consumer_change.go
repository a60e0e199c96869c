package groups

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// consumerChange is what one call makes of a group, while that is put together: the
// group itself stays as it is until the records are durable.
type consumerChange struct {
	g   *consumerGroup
	now time.Time

	records []modernRecord
	effects []func(now time.Time) // on what a restart may forget, once the records count
	// classic is the record of the classic group that the group becomes; see downgrade.
	classic *logRecord
	// follows is what the change makes necessary at once; nil for nothing.
	follows func(now time.Time) step

	// epoch is the group's as it will be; member is who has changed, with what it says of
	// itself, and replaced the id of the static member whose place it takes.
	epoch    int32
	member   *consumerMember
	replaced string
	// summed is what the members will want, once it was asked for.
	summed *subscriptions
}

// step returns the change as a step; done is told when it counts.
func (c *consumerChange) step(done func(err error)) step {
	after := func(now time.Time, err error) step {
		if err != nil {
			done(err)
			return step{}
		}
		for _, r := range c.records {
			c.g.apply(r)
		}
		for _, f := range c.effects {
			f(now)
		}
		done(nil)
		if c.follows == nil {
			return step{}
		}
		return c.follows(now)
	}
	if len(c.records) == 0 {
		return after(c.now, nil)
	}
	out := step{then: after, records: make([]logRecord, len(c.records))}
	for i, r := range c.records {
		out.records[i] = r.encode(c.g.id)
	}
	if c.classic != nil {
		out.records = append(out.records, *c.classic)
	}
	return out
}

// add has the log say something of a member, or a regular expression, by name.
func (c *consumerChange) add(kind int16, name string, body recordBody) {
	c.records = append(c.records, modernRecord{kind: kind, name: name, body: body})
}

// later notes an effect.
func (c *consumerChange) later(f func(now time.Time)) { c.effects = append(c.effects, f) }

// deadline sets deadlines of a member, unless it is gone by then.
func (c *consumerChange) deadline(id string, set func(d *memberDeadlines, now time.Time)) {
	c.later(func(now time.Time) {
		if c.g.members[id] == nil {
			return
		}
		set(c.g.deadlinesOf(id), now)
	})
}

// find returns the member that a call comes from; a new one, or one that takes the
// place of a static member, for a call that joins. Kafka:
// GroupMetadataManager.getOrMaybeSubscribeDynamicConsumerGroupMember and
// getOrMaybeSubscribeStaticConsumerGroupMember.
func (c *consumerChange) find(id string, instanceID *string, joins, classic bool) (*consumerMember, error) {
	g := c.g
	if instanceID == nil {
		if joins {
			return g.orNew(id), nil
		}
		return g.member(id)
	}
	known := g.staticMember(*instanceID)
	switch {
	case !joins:
		return known, g.checkStatic(known, id, *instanceID)
	case known == nil:
		return g.orNew(id), nil
	case !classic && known.classic == nil && known.epoch != staticAwayEpoch:
		return nil, fmt.Errorf("instance id %q is that of member %q, which has not left: %w", *instanceID, known.id, ErrUnreleasedInstanceID)
	}
	return c.replace(known, id), nil
}

// checkStatic says whether known, which may be nil, is the member of that id. Kafka:
// throwIfStaticMemberIsUnknown, throwIfInstanceIdIsFenced.
func (g *consumerGroup) checkStatic(known *consumerMember, id, instanceID string) error {
	switch {
	case known == nil:
		return fmt.Errorf("instance id %q is not in group %q: %w", instanceID, g.id, ErrUnknownMemberID)
	case known.id != id:
		return fmt.Errorf("instance id %q is that of member %q, not of %q: %w", instanceID, known.id, id, ErrFencedInstanceID)
	}
	return nil
}

// replace gives a static member a new id, with all it has. Kafka:
// GroupMetadataManager.replaceMember.
func (c *consumerChange) replace(known *consumerMember, id string) *consumerMember {
	m := *known
	m.id, m.epoch, m.previousEpoch = id, 0, 0
	c.remove(known.id)
	c.add(typeConsumerMember, id, &m.memberMetadata)
	c.add(typeConsumerTarget, id, targetBody{c.g.target[known.id]})
	c.add(typeConsumerCurrent, id, &m.currentAssignment)
	if known.id != id {
		c.replaced = known.id
	}
	return &m
}

// remove takes a member out of the log. The order matters to Kafka when it reads that.
func (c *consumerChange) remove(id string) {
	c.add(typeConsumerCurrent, id, nil)
	c.add(typeConsumerTarget, id, nil)
	c.add(typeConsumerMember, id, nil)
}

// setMember notes what a member says of itself, and returns whether it names other
// topics than before. Kafka: GroupMetadataManager.hasMemberSubscriptionChanged.
func (c *consumerChange) setMember(old, m *consumerMember) (namesChanged bool) {
	c.member = m
	if m.memberMetadata.equal(&old.memberMetadata) {
		return false
	}
	said := m.memberMetadata
	c.add(typeConsumerMember, m.id, &said)
	return !slices.Equal(m.topics, old.topics)
}

// members are the members as they will be.
func (c *consumerChange) members() map[string]*consumerMember {
	if c.member == nil {
		return c.g.members
	}
	out := maps.Clone(c.g.members)
	delete(out, c.replaced)
	out[c.member.id] = c.member
	return out
}

// subscriptions sums up what the members will want.
func (c *consumerChange) subscriptions() *subscriptions {
	if c.summed == nil {
		c.summed = c.g.subscriptionsOf(c.members())
	}
	return c.summed
}

// assignorChanges says whether the members will ask for another assignor. Kafka:
// GroupMetadataManager.hasPreferredServerAssignorChanged.
func (c *consumerChange) assignorChanges(old, m *consumerMember) bool {
	if c.g.members[old.id] != nil && equalStrings(old.assignor, m.assignor) {
		return false
	}
	first := c.g.env.config.ConsumerAssignors[0]
	return c.g.subscriptionsOf(c.g.members).assignor(first) != c.subscriptions().assignor(first)
}

// setSubscription gives the group a new epoch when bump says so, or when the topics
// that its members consume are not what they were. Kafka:
// GroupMetadataManager.updateSubscriptionMetadata.
func (c *consumerChange) setSubscription(bump bool) {
	g := c.g
	version := g.env.topics.version()
	if !bump && g.hashedAt.is(version) {
		return
	}
	hash := c.subscriptions().hashTopics(g.env.topics)
	if bump || hash != g.metadataHash {
		c.bump(hash)
	}
	c.later(func(time.Time) { g.hashedAt = topicsVersion{true, version} })
	if g.oldTopics {
		c.add(typeConsumerTopics, "", nil)
	}
}

// bump gives the group its next epoch.
func (c *consumerChange) bump(hash uint64) {
	c.epoch++
	c.add(typeConsumerEpoch, "", epochBody{epoch: c.epoch, hash: hash})
}

// setTarget makes a new target when the group's epoch is beyond that of the present
// one and that is old enough. It returns what m is to have, and of which epoch that is.
// Kafka: GroupMetadataManager.maybeUpdateTargetAssignment.
func (c *consumerChange) setTarget(m *consumerMember) (int32, assignor.Partitions, error) {
	g := c.g
	if g.targetEpoch >= c.epoch || !g.mayAssign(c.now, g.config().ConsumerAssignmentInterval) {
		return g.targetEpoch, c.oldTarget(m.id), nil
	}
	name := c.subscriptions().assignor(g.env.config.ConsumerAssignors[0])
	assign, ok := assignor.ByName(name)
	if !ok {
		return 0, nil, fmt.Errorf("assignor %q: %w", name, ErrUnsupportedAssignor)
	}
	ids, group := c.assignorGroup()
	var own assignor.Partitions
	for i, partitions := range assign(group) {
		old, had := g.target[ids[i]]
		if ids[i] == m.id {
			own = partitions
			if c.replaced != "" {
				old, had = g.target[c.replaced], true // which replace has noted
			}
		}
		if !had || !partitions.Equal(old) {
			c.add(typeConsumerTarget, ids[i], targetBody{partitions})
		}
	}
	c.add(typeConsumerTargetEpoch, "", targetEpochBody{epoch: c.epoch, timeMs: c.now.UnixMilli()})
	return c.epoch, own, nil
}

// oldTarget is what a member is to have by the present target.
func (c *consumerChange) oldTarget(id string) assignor.Partitions {
	if c.replaced != "" && id == c.member.id {
		id = c.replaced
	}
	return c.g.target[id]
}

// assignorGroup is the group as an assignor sees it, with the ids of its members.
func (c *consumerChange) assignorGroup() ([]string, *assignor.Group) {
	members := c.members()
	ids := slices.Sorted(maps.Keys(members))
	out := &assignor.Group{
		Members: make([]assignor.Member, len(ids)), SameTopics: c.subscriptions().alike(),
		Partitions: map[storage.TopicID]int32{},
	}
	for i, id := range ids {
		m := members[id]
		out.Members[i] = assignor.Member{ID: id, InstanceID: m.instance(), Topics: c.g.topicIDs(&m.memberMetadata), Assigned: c.oldTarget(id)}
		for _, topic := range out.Members[i].Topics {
			if _, ok := out.Partitions[topic]; !ok {
				t, _ := c.g.env.topics.byID(topic)
				out.Partitions[topic] = t.partitions
			}
		}
	}
	return ids, out
}
