package groups

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// A classic group of consumers becomes a consumer group when a member of the consumer
// protocol joins it, and a consumer group a classic one when the last of these leaves,
// both with all the others in it.

// takeOver fills g, which is new, with the members of a classic group: each has what it
// was assigned last, at the group's generation. It returns the records of that. Kafka:
// GroupMetadataManager.validateOnlineUpgrade, ConsumerGroup.fromClassicGroup.
func (g *consumerGroup) takeOver(classic *classicGroup) ([]logRecord, error) {
	refuse := func(format string, args ...any) error {
		return fmt.Errorf("classic group %q becomes no consumer group: %w", g.id, fmt.Errorf(format+": %w", append(args, ErrGroupIDNotFound)...))
	}
	config := g.env.config
	switch {
	case config.Migration != MigrateBidirectional && config.Migration != MigrateUpgrade:
		return nil, refuse("the migration policy is %s", config.Migration)
	case classic.groupType != consumerProtocolType:
		return nil, refuse("its members are of type %q", classic.groupType)
	case len(classic.members) > config.ConsumerMaxSize:
		return nil, refuse("%d members, want at most %d", len(classic.members), config.ConsumerMaxSize)
	}
	protocol := classic.protocol
	if protocol == "" {
		// Nobody has got a generation yet. Differs from Kafka: there this is an unexpected error.
		protocol = classic.selectProtocol()
	}
	members := map[string]*consumerMember{}
	owners := map[storage.TopicID]map[int32]string{}
	for _, m := range classic.members {
		made, err := upgraded(m, protocol, classic.generation, g.env.topics)
		if err != nil {
			return nil, refuse("member %q: %v", m.id, err)
		}
		for topic, epochs := range made.assigned {
			if owners[topic] == nil {
				owners[topic] = map[int32]string{}
			}
			for partition := range epochs {
				if other, taken := owners[topic][partition]; taken {
					return nil, refuse("partition %d of topic %v is assigned to %q and to %q", partition, topic, other, m.id)
				}
				owners[topic][partition] = m.id
			}
		}
		members[m.id] = made
	}
	var records []modernRecord
	ids := slices.Sorted(maps.Keys(members))
	each := func(kind int16, body func(m *consumerMember) recordBody) {
		for _, id := range ids {
			records = append(records, modernRecord{kind: kind, name: id, body: body(members[id])})
		}
	}
	each(typeConsumerMember, func(m *consumerMember) recordBody { return &m.memberMetadata })
	records = append(records, modernRecord{kind: typeConsumerEpoch, body: epochBody{
		epoch: classic.generation, hash: g.subscriptionsOf(members).hashTopics(g.env.topics),
	}})
	each(typeConsumerTarget, func(m *consumerMember) recordBody { return targetBody{m.assigned.partitions()} })
	records = append(records, modernRecord{kind: typeConsumerTargetEpoch, body: targetEpochBody{epoch: classic.generation}})
	each(typeConsumerCurrent, func(m *consumerMember) recordBody { return &m.currentAssignment })

	out := make([]logRecord, len(records))
	for i, r := range records {
		g.apply(r)
		out[i] = r.encode(g.id)
	}
	return out, nil
}

// upgraded is a member of a classic group as one of a consumer group.
func upgraded(m *classicMember, protocol string, generation int32, topics topicView) (*consumerMember, error) {
	assigned := assignor.Partitions{}
	if len(m.assignment) > 0 {
		var userData bool
		var err error
		if assigned, userData, err = parseAssignment(m.assignment, topics); err != nil {
			return nil, err
		}
		if userData {
			return nil, errors.New("its assignor keeps data of its own in the assignment")
		}
	}
	s, err := parseSubscription(metadataFor(m.protocols, protocol), topics)
	if err != nil {
		return nil, err
	}
	return &consumerMember{
		id: m.id,
		memberMetadata: memberMetadata{
			instanceID: m.instanceID, rackID: s.rackID, clientID: m.clientID, clientHost: m.clientHost, topics: s.topics,
			rebalanceTimeoutMs: int32(m.rebalanceTimeout.Milliseconds()),
			classic:            &classicMetadata{sessionTimeoutMs: int32(m.sessionTimeout.Milliseconds()), protocols: m.protocols},
		},
		currentAssignment: currentAssignment{epoch: generation, previousEpoch: generation, assigned: withEpoch(assigned, generation)},
	}, nil
}

// startClassicSessions begins the sessions of members that have come over.
func (g *consumerGroup) startClassicSessions(now time.Time) {
	for id, m := range g.members {
		if m.classic != nil {
			g.deadlinesOf(id).session = now.Add(m.classic.sessionTimeout())
		}
	}
}

// abandon answers whoever is parked in a group that is one no more: they join again.
func (g *classicGroup) abandon() {
	for _, m := range g.members {
		g.answerJoin(m, JoinReply{MemberID: m.id}, ErrRebalanceInProgress)
		g.answerSync(m, SyncReply{}, ErrRebalanceInProgress)
	}
}

// mayDowngrade says whether the group becomes a classic one with the members that are
// left. Kafka: validateOnlineDowngradeWithFencedMembers and
// validateOnlineDowngradeWithReplacedMember.
func (g *consumerGroup) mayDowngrade(left map[string]*consumerMember) bool {
	for _, m := range left {
		if m.classic == nil {
			return false
		}
	}
	config := g.env.config
	return len(left) > 0 && len(left) <= config.MaxSize && (config.Migration == MigrateBidirectional || config.Migration == MigrateDowngrade)
}

// downgrade makes a classic group of the members that are left, each with its target
// for an assignment; they have a rebalance unless they need none. A member that has
// joined in the place of holder has the target of that. Kafka:
// GroupMetadataManager.convertToClassicGroup, ClassicGroup.fromConsumerGroup.
func (c *consumerChange) downgrade(left map[string]*consumerMember, holder *consumerMember, rebalance bool) error {
	g := c.g
	classic := newClassicGroup(g.id, g.env, c.now)
	classic.generation, classic.groupType = g.epoch, consumerProtocolType
	for _, id := range slices.Sorted(maps.Keys(left)) {
		if holder == nil || id != c.member.id {
			classic.add(downgraded(left[id]))
		}
	}
	if holder != nil {
		classic.add(downgraded(c.member))
	}
	classic.protocol = classic.selectProtocol()
	classic.transition(c.now, classicStable)
	classic.topics = classic.subscriptions()
	for _, m := range classic.members {
		target := g.target[m.id]
		if holder != nil && m.id == c.member.id {
			target = g.target[holder.id]
		}
		var err error
		if m.assignment, err = g.embeddedAssignment(target, metadataFor(m.protocols, classic.protocol)); err != nil {
			return fmt.Errorf("consumer group %q becomes no classic group: member %q: %v: %w", g.id, m.id, err, ErrGroupIDNotFound)
		}
	}
	c.records = append(c.records, g.removal(func(id string) string {
		if holder != nil && id == holder.id {
			return c.member.id // by which the log knows it already
		}
		return id
	})...)
	record := classic.record().encode()
	c.classic = &record
	c.later(func(now time.Time) {
		for _, m := range classic.members {
			m.renew(now)
		}
		g.become(classic)
	})
	if rebalance {
		c.follows = classic.prepareRebalance
	}
	return nil
}

// downgraded is a member of the classic protocol as one of a classic group.
func downgraded(m *consumerMember) *classicMember {
	return &classicMember{
		id: m.id, instanceID: m.instanceID, clientID: m.clientID, clientHost: m.clientHost,
		rebalanceTimeout: m.rebalanceTimeout(), sessionTimeout: m.classic.sessionTimeout(), protocols: m.classic.protocols,
	}
}
