package groups

import (
	"maps"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// shareChange is what one call makes of a share group, while that is put together: the
// group itself stays as it is until the records are durable.
type shareChange struct {
	g   *shareGroup
	now time.Time

	records []modernRecord
	effects []func(now time.Time) // on what a restart may forget, once the records count

	epoch  int32        // the group's as it will be
	member *shareMember // who has changed, with what it says of itself
	summed *subscriptions
}

// step returns the change as a step; done is told when it counts.
func (c *shareChange) step(done func(err error)) step {
	after := func(now time.Time, err error) step {
		if err == nil {
			for _, r := range c.records {
				c.g.apply(now, r)
			}
			for _, f := range c.effects {
				f(now)
			}
		}
		done(err)
		return step{}
	}
	if len(c.records) == 0 {
		return step{then: after}
	}
	out := step{then: after, records: make([]logRecord, len(c.records))}
	for i, r := range c.records {
		out.records[i] = r.encode(c.g.id)
	}
	return out
}

// add has the log say something of a member, or of the group.
func (c *shareChange) add(kind int16, name string, body recordBody) {
	c.records = append(c.records, modernRecord{kind: kind, name: name, body: body})
}

// later notes an effect.
func (c *shareChange) later(f func(now time.Time)) { c.effects = append(c.effects, f) }

// setMember notes what a member says of itself, and returns whether it names other
// topics than before. Kafka: GroupMetadataManager.hasMemberSubscriptionChanged.
func (c *shareChange) setMember(old, m *shareMember) (namesChanged bool) {
	c.member, c.epoch = m, c.g.epoch
	if m.shareMetadata.equal(&old.shareMetadata) {
		return false
	}
	said := m.shareMetadata
	c.add(typeShareMember, m.id, &said)
	return !slices.Equal(m.topics, old.topics)
}

// members are the members as they will be.
func (c *shareChange) members() map[string]*shareMember {
	out := maps.Clone(c.g.members)
	out[c.member.id] = c.member
	return out
}

// subscriptions sums up what the members will want.
func (c *shareChange) subscriptions() *subscriptions {
	if c.summed == nil {
		c.summed = sumShare(c.members())
	}
	return c.summed
}

func sumShare(members map[string]*shareMember) *subscriptions {
	s := newSubscriptions(len(members))
	for _, m := range members {
		s.addNames(m.topics)
	}
	return s
}

// setSubscription gives the group a new epoch when bump says so, or when the topics that
// its members consume are not what they were; it says whether it did. Kafka:
// GroupMetadataManager.shareGroupHeartbeat.
func (c *shareChange) setSubscription(bump bool) bool {
	g := c.g
	version := g.env.topics.version()
	if !bump && g.hashedAt.is(version) {
		return false
	}
	hash := c.subscriptions().hashTopics(g.env.topics)
	c.later(func(time.Time) { g.hashedAt = topicsVersion{true, version} })
	if !bump && hash == g.metadataHash {
		return false
	}
	c.bump(hash)
	return true
}

// bump gives the group its next epoch.
func (c *shareChange) bump(hash uint64) {
	c.epoch = c.g.epoch + 1
	c.add(typeShareEpoch, "", shareEpochBody{epoch: c.epoch, hash: hash})
}

// setTarget makes a new target when the group's epoch is beyond that of the present one
// and that is old enough. It returns what m is to have, and of which epoch that is.
// Kafka: GroupMetadataManager.maybeUpdateTargetAssignment.
func (c *shareChange) setTarget(m *shareMember) (int32, assignor.Partitions) {
	g := c.g
	if g.targetEpoch >= c.epoch || !g.mayAssign(c.now, g.config().ShareAssignmentInterval) {
		return g.targetEpoch, g.target[m.id]
	}
	ids, group := c.assignorGroup()
	var own assignor.Partitions
	for i, partitions := range assignor.Simple(group) {
		if ids[i] == m.id {
			own = partitions
		}
		if old, had := g.target[ids[i]]; !had || !partitions.Equal(old) {
			c.add(typeShareTarget, ids[i], targetBody{partitions})
		}
	}
	c.add(typeShareTargetEpoch, "", targetEpochBody{epoch: c.epoch, timeMs: c.now.UnixMilli()})
	return c.epoch, own
}

// assignorGroup is the group as an assignor sees it, with the ids of its members. Only
// partitions whose state is made may be assigned.
func (c *shareChange) assignorGroup() ([]string, *assignor.Group) {
	members := c.members()
	ids := slices.Sorted(maps.Keys(members))
	out := &assignor.Group{
		Members: make([]assignor.Member, len(ids)), SameTopics: c.subscriptions().alike(),
		Partitions: map[storage.TopicID]int32{}, Assignable: c.g.has().initialized.partitions(),
	}
	for i, id := range ids {
		out.Members[i] = assignor.Member{ID: id, Topics: c.g.env.topics.ids(members[id].topics), Assigned: c.g.target[id]}
		for _, topic := range out.Members[i].Topics {
			t, _ := c.g.env.topics.byID(topic)
			out.Partitions[topic] = t.partitions
		}
	}
	return ids, out
}

// reconcile gives m its target, less the topics that it is not subscribed to. Kafka:
// ShareGroupAssignmentBuilder.
func (c *shareChange) reconcile(m *shareMember, targetEpoch int32, target assignor.Partitions, subscriptionChanged bool) {
	if m.epoch == targetEpoch && !subscriptionChanged {
		return
	}
	wanted := c.g.env.topics.ids(m.topics)
	next := m.shareAssignment
	next.assigned = maps.Clone(target)
	maps.DeleteFunc(next.assigned, func(topic storage.TopicID, _ []int32) bool { return !slices.Contains(wanted, topic) })
	if m.epoch != targetEpoch {
		next.epoch, next.previousEpoch, next.state = targetEpoch, m.epoch, memberStable
	}
	if next.assigned == nil {
		next.assigned = assignor.Partitions{}
	}
	if next.equal(&m.shareAssignment) {
		return
	}
	m.shareAssignment = next
	c.add(typeShareCurrent, m.id, &next)
}

// initialize asks for the states of partitions that have none, once that is noted.
// Kafka: GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest.
func (c *shareChange) initialize() {
	g := c.g
	asked := g.missing(c.now, c.subscriptions().topics())
	if len(asked) == 0 {
		return
	}
	starts := g.starts(asked)
	c.add(typeShareStates, "", g.initializing(asked))
	c.later(func(time.Time) { g.env.initialize(g.id, asked, starts) })
}

// fence removes a member. Kafka: GroupMetadataManager.shareGroupFenceMember.
func (c *shareChange) fence(m *shareMember) {
	g := c.g
	left := maps.Clone(g.members)
	delete(left, m.id)
	c.add(typeShareCurrent, m.id, nil)
	c.add(typeShareTarget, m.id, nil)
	c.add(typeShareMember, m.id, nil)
	version := g.env.topics.version()
	c.bump(sumShare(left).hashTopics(g.env.topics))
	c.later(func(time.Time) { g.hashedAt = topicsVersion{true, version} })
	if len(left) == 0 {
		// As of a new group: the next target need not wait.
		c.add(typeShareTargetEpoch, "", targetEpochBody{epoch: c.epoch})
	}
}
