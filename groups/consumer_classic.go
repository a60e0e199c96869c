package groups

import (
	"fmt"
	"slices"
	"time"
)

// Members of the classic protocol in a consumer group: their generation is their
// member epoch, a rebalance is told to each by its heartbeat and is over for each when
// it has joined and synced. Nobody leads. Kafka: the classicGroup…ToConsumerGroup
// methods of GroupMetadataManager.

// joinClassic is a JoinGroup call to a group that has members. Kafka:
// GroupMetadataManager.classicGroupJoinToConsumerGroup.
func (g *consumerGroup) joinClassic(now time.Time, r *JoinRequest, reply func(JoinReply, error)) step {
	id := r.MemberID
	if id == "" {
		id = g.env.newUUID()
	}
	if err := g.checkClassicJoin(r, id); err != nil {
		reply(JoinReply{}, err)
		return step{}
	}
	if r.MemberID == "" && r.InstanceID == nil && r.NeedsMemberID {
		reply(JoinReply{MemberID: id}, ErrMemberIDRequired)
		return step{}
	}
	c := consumerChange{g: g, now: now, epoch: g.epoch}
	m, err := c.joinClassic(r, id)
	if err != nil {
		reply(JoinReply{}, err)
		return step{}
	}
	answer := JoinReply{MemberID: id, Generation: m.epoch, ProtocolType: consumerProtocolType, Protocol: r.Protocols[0].Name}
	return c.step(func(err error) {
		if err != nil {
			answer = JoinReply{}
		}
		reply(answer, err)
	})
}

// checkClassicJoin says why a member may not join with the classic protocol.
func (g *consumerGroup) checkClassicJoin(r *JoinRequest, id string) error {
	if g.env.config.Migration == MigrateDisabled {
		return fmt.Errorf("group %q has the consumer protocol, and does not change: %w", g.id, ErrInconsistentProtocol)
	}
	if err := g.checkRoom(id, r.InstanceID); err != nil {
		return err
	}
	if r.ProtocolType != consumerProtocolType || !g.supportsClassic(r.Protocols) {
		return fmt.Errorf("protocol type %q of a group of consumers, or none of the protocols: %w", r.ProtocolType, ErrInconsistentProtocol)
	}
	return nil
}

// supportsClassic says whether all members of the classic protocol support one of the
// protocols. Kafka: ConsumerGroup.supportsClassicProtocols.
func (g *consumerGroup) supportsClassic(protocols []Protocol) bool {
	return slices.ContainsFunc(protocols, func(p Protocol) bool {
		for _, m := range g.members {
			if m.classic != nil && !slices.ContainsFunc(m.classic.protocols, func(q Protocol) bool { return q.Name == p.Name }) {
				return false
			}
		}
		return true
	})
}

// joinClassic lets a member join, and returns it as it will be.
func (c *consumerChange) joinClassic(r *JoinRequest, id string) (*consumerMember, error) {
	g := c.g
	var holder *consumerMember // of the instance id
	if r.InstanceID != nil {
		holder = g.staticMember(*r.InstanceID)
	}
	old, err := c.find(id, r.InstanceID, r.InstanceID == nil || r.MemberID == "", true)
	if err != nil {
		return nil, err
	}
	s, err := parseSubscription(r.Protocols[0].Metadata, g.env.topics)
	if err != nil {
		return nil, fmt.Errorf("%v: %w", err, ErrInconsistentProtocol)
	}
	m := *old
	r.update(&m.memberMetadata, &s)
	namesChanged := c.setMember(old, &m)
	regexChanged, _, err := c.setRegex(old, &m, nil)
	if err != nil {
		return nil, err
	}
	changed := namesChanged || regexChanged
	c.setSubscription(changed)

	if holder != nil && holder.classic == nil && g.mayDowngrade(c.members()) {
		// It takes the place of the last member of the consumer protocol.
		rebalance := g.targetEpoch < c.epoch
		if !rebalance {
			if err := c.reconcile(&m, g.targetEpoch, c.oldTarget(id), changed, s.owned); err != nil {
				return nil, err
			}
		}
		return &m, c.downgrade(c.members(), holder, rebalance)
	}
	targetEpoch, target, err := c.setTarget(&m)
	if err != nil {
		return nil, err
	}
	if err := c.reconcile(&m, targetEpoch, target, changed, s.owned); err != nil {
		return nil, err
	}
	c.deadline(id, func(d *memberDeadlines, now time.Time) {
		d.session, d.join, d.sync = now.Add(r.SessionTimeout), time.Time{}, now.Add(r.RebalanceTimeout)
	})
	return &m, nil
}

// update takes over what a member says. It has no regular expression.
func (r *JoinRequest) update(m *memberMetadata, s *embeddedSubscription) {
	if r.InstanceID != nil {
		m.instanceID = r.InstanceID
	}
	if s.rackID != nil {
		m.rackID = s.rackID
	}
	m.rebalanceTimeoutMs = int32(r.RebalanceTimeout.Milliseconds())
	m.topics, m.regex = s.topics, ""
	m.clientID, m.clientHost = r.ClientID, r.ClientHost
	m.classic = &classicMetadata{sessionTimeoutMs: int32(r.SessionTimeout.Milliseconds()), protocols: namedOnce(r.Protocols)}
}

// classicMember returns the member of the classic protocol that a call comes from, if
// it knows its generation. Kafka: validateConsumerGroupMember,
// throwIfMemberDoesNotUseClassicProtocol, throwIfGenerationIdUnmatched.
func (g *consumerGroup) classicMember(id string, instanceID *string, generation int32) (*consumerMember, error) {
	c := consumerChange{g: g}
	m, err := c.find(id, instanceID, false, true)
	switch {
	case err != nil:
		return nil, err
	case m.classic == nil:
		return nil, fmt.Errorf("member %q uses the consumer protocol: %w", id, ErrUnknownMemberID)
	case generation != m.epoch:
		return nil, fmt.Errorf("generation %d, want %d: %w", generation, m.epoch, ErrIllegalGeneration)
	}
	return m, nil
}

// syncClassic is a SyncGroup call. Kafka:
// GroupMetadataManager.classicGroupSyncToConsumerGroup.
func (g *consumerGroup) syncClassic(now time.Time, r *SyncRequest) (SyncReply, error) {
	m, err := g.classicMember(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return SyncReply{}, err
	}
	first := m.classic.protocols[0]
	answer := SyncReply{ProtocolType: consumerProtocolType, Protocol: first.Name}
	switch {
	case r.ProtocolType != nil && *r.ProtocolType != consumerProtocolType:
		return SyncReply{}, fmt.Errorf("protocol type %q, want %q: %w", *r.ProtocolType, consumerProtocolType, ErrInconsistentProtocol)
	case r.Protocol != nil && *r.Protocol != first.Name:
		return SyncReply{}, fmt.Errorf("protocol %q, want %q: %w", *r.Protocol, first.Name, ErrInconsistentProtocol)
	case g.targetEpoch > m.epoch && m.state != memberUnrevoked:
		g.mustJoin(now, m)
		return SyncReply{}, ErrRebalanceInProgress
	}
	if answer.Assignment, err = g.embeddedAssignment(m.assigned.partitions(), first.Metadata); err != nil {
		return SyncReply{}, fmt.Errorf("%v: %w", err, ErrInconsistentProtocol)
	}
	d := g.deadlinesOf(m.id)
	d.sync, d.session = time.Time{}, now.Add(m.classic.sessionTimeout())
	return answer, nil
}

// heartbeatClassic is a Heartbeat call: a member has to join again when there is a new
// target, when it has something to give up, and when it can get what it waits for.
// Kafka: GroupMetadataManager.classicGroupHeartbeatToConsumerGroup.
func (g *consumerGroup) heartbeatClassic(now time.Time, r *HeartbeatRequest) error {
	m, err := g.classicMember(r.MemberID, r.InstanceID, r.Generation)
	if err != nil {
		return err
	}
	g.deadlinesOf(m.id).session = now.Add(m.classic.sessionTimeout())
	if m.epoch < g.targetEpoch || m.state == memberUnrevoked || m.state == memberUnreleased && !g.waitsForOthers(m) {
		g.mustJoin(now, m)
		return ErrRebalanceInProgress
	}
	return nil
}

// mustJoin lets the time begin in which a member has to join.
func (g *consumerGroup) mustJoin(now time.Time, m *consumerMember) {
	if d := g.deadlinesOf(m.id); d.join.IsZero() {
		d.join = now.Add(m.rebalanceTimeout())
	}
}

// waitsForOthers says whether somebody has a partition that m is to get. Kafka:
// ConsumerGroup.waitingOnUnreleasedPartition.
func (g *consumerGroup) waitsForOthers(m *consumerMember) bool {
	for topic, list := range g.target[m.id] {
		for _, partition := range list {
			if !m.assigned.has(topic, partition) && g.owned(topic, partition) {
				return true
			}
		}
	}
	return false
}

// leaveClassic is a LeaveGroup call, which may name members of both protocols. Kafka:
// GroupMetadataManager.classicGroupLeaveToConsumerGroup.
func (g *consumerGroup) leaveClassic(now time.Time, r *LeaveRequest, reply func(LeaveReply, error)) step {
	c := consumerChange{g: g, now: now, epoch: g.epoch}
	answers := make(LeaveReply, len(r.Members))
	var gone []*consumerMember
	for i, l := range r.Members {
		id := l.MemberID
		if l.InstanceID != nil && id == "" {
			id = g.static[*l.InstanceID] // an administrator does not know it
		}
		var m *consumerMember
		if m, answers[i] = c.find(id, l.InstanceID, false, true); answers[i] == nil && !slices.Contains(gone, m) {
			gone = append(gone, m)
		}
	}
	if err := c.fence(gone...); err != nil {
		reply(nil, err)
		return step{}
	}
	return c.step(func(err error) {
		if err != nil {
			answers = nil
		}
		reply(answers, err)
	})
}
