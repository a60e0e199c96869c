package groups

import (
	"fmt"
	"time"
)

// JoinRequest is what a member says when it joins.
type JoinRequest struct {
	Group      string
	MemberID   string  // "" for a member that has none yet
	InstanceID *string // nil for a dynamic member
	ClientID   string
	ClientHost string // "/" and the address

	SessionTimeout   time.Duration
	RebalanceTimeout time.Duration

	ProtocolType string
	// Protocols are what the member supports, the best first. The group keeps them, each
	// name once.
	Protocols []Protocol

	// NeedsMemberID says that the client joins again when it is given an id (version 4
	// and later). SkipsAssignment says that a leader can be told not to assign (version
	// 9 and later).
	NeedsMemberID   bool
	SkipsAssignment bool
}

// JoinReply is the answer to a join. With an error it holds the member id only.
type JoinReply struct {
	MemberID     string
	Generation   int32
	ProtocolType string
	Protocol     string
	Leader       string
	// SkipAssignment tells a leader that the group keeps its assignment.
	SkipAssignment bool
	// Members are there for the leader only.
	Members []JoinedMember
}

// JoinedMember is what the leader learns of a member.
type JoinedMember struct {
	MemberID   string
	InstanceID *string
	Metadata   []byte
}

// join is a JoinGroup call. Kafka: GroupMetadataManager.classicGroupJoinToClassicGroup.
func (g *classicGroup) join(now time.Time, r *JoinRequest, reply func(JoinReply, error)) step {
	r.Protocols = namedOnce(r.Protocols)
	if !g.accepts(r.MemberID) {
		g.remove(r.MemberID)
		reply(JoinReply{}, fmt.Errorf("%d members: %w", len(g.members), ErrGroupMaxSize))
		return step{}
	}
	if !g.supports(r.ProtocolType, r.Protocols) {
		reply(JoinReply{MemberID: r.MemberID}, fmt.Errorf("protocol type %q of a group of type %q, or none of the protocols: %w", r.ProtocolType, g.groupType, ErrInconsistentProtocol))
		return step{}
	}
	if r.MemberID == "" {
		return g.joinNew(now, r, reply)
	}
	if g.pending.has(r.MemberID) {
		if r.InstanceID != nil {
			// Differs from Kafka: there this is an unexpected error. Pending members are dynamic.
			reply(JoinReply{MemberID: r.MemberID}, ErrUnknownMemberID)
			return step{}
		}
		return g.joinAdded(now, r, r.MemberID, reply)
	}
	if err := g.check(r.MemberID, r.InstanceID); err != nil {
		reply(JoinReply{MemberID: r.MemberID}, err)
		return step{}
	}
	return g.rejoin(now, r, g.byID[r.MemberID], reply)
}

// accepts says whether the group has room for a member. In a rebalance those that
// come first have it. Kafka: GroupMetadataManager.acceptJoiningMember.
func (g *classicGroup) accepts(memberID string) bool {
	m := g.byID[memberID]
	switch g.current {
	case classicPreparing:
		return m != nil && m.join != nil || g.awaiting < g.env.config.MaxSize
	case classicCompleting, classicStable:
		return m != nil || len(g.members) < g.env.config.MaxSize
	}
	return true
}

// joinNew is the join of a client without a member id. Kafka:
// GroupMetadataManager.classicGroupJoinNewMember.
func (g *classicGroup) joinNew(now time.Time, r *JoinRequest, reply func(JoinReply, error)) step {
	if r.InstanceID != nil {
		id := *r.InstanceID + "-" + g.env.newID()
		if m := g.static[*r.InstanceID]; m != nil {
			return g.joinReplacing(now, r, m, id, reply)
		}
		return g.joinAdded(now, r, id, reply)
	}
	id := r.ClientID + "-" + g.env.newID()
	if !r.NeedsMemberID {
		return g.joinAdded(now, r, id, reply)
	}
	g.pending.add(id, now.Add(r.SessionTimeout))
	reply(JoinReply{MemberID: id}, ErrMemberIDRequired)
	return step{}
}

// joinAdded makes a new member and parks its join. Kafka:
// GroupMetadataManager.addMemberThenRebalanceOrCompleteJoin.
func (g *classicGroup) joinAdded(now time.Time, r *JoinRequest, id string, reply func(JoinReply, error)) step {
	if g.current == classicPreparing && g.previous == classicEmpty {
		g.newMember = true
	}
	if len(g.members) == 0 {
		g.groupType = r.ProtocolType
	}
	g.add(&classicMember{
		id: id, instanceID: r.InstanceID, clientID: r.ClientID, clientHost: r.ClientHost,
		rebalanceTimeout: r.RebalanceTimeout, sessionTimeout: r.SessionTimeout,
		protocols: r.Protocols, isNew: true, join: reply, expires: now.Add(newMemberJoinTimeout),
	})
	return g.rebalance(now)
}

// rejoin is the join of a member. Who brings nothing new, and does not lead a stable
// group, is told of the present generation. Kafka:
// GroupMetadataManager.classicGroupJoinExistingMember.
func (g *classicGroup) rejoin(now time.Time, r *JoinRequest, m *classicMember, reply func(JoinReply, error)) step {
	same := m.matches(r.Protocols)
	if same && (g.current == classicCompleting || g.current == classicStable && g.leader != m.id) {
		reply(g.joined(m), nil)
		return step{}
	}
	g.update(m, r)
	g.park(m, reply)
	return g.rebalance(now)
}

// joined is the answer for a member of the present generation.
func (g *classicGroup) joined(m *classicMember) JoinReply {
	r := JoinReply{
		MemberID: m.id, Generation: g.generation,
		ProtocolType: g.groupType, Protocol: g.protocol, Leader: g.leader,
	}
	if g.leader == m.id {
		r.Members = make([]JoinedMember, len(g.members))
		for i, m := range g.members {
			r.Members[i] = JoinedMember{MemberID: m.id, InstanceID: m.instanceID, Metadata: metadataFor(m.protocols, g.protocol)}
		}
	}
	return r
}

// joinReplacing is the join of a static member that was restarted: m gets a new id. A
// stable group whose choice of protocol stays goes on as it is, and the new id is
// stored; any other has a rebalance. Kafka:
// GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin.
func (g *classicGroup) joinReplacing(now time.Time, r *JoinRequest, m *classicMember, id string, reply func(JoinReply, error)) step {
	if g.current == classicStable {
		before := m.protocols
		g.setProtocols(m, r.Protocols)
		chosen := g.selectProtocol()
		g.setProtocols(m, before)
		if chosen == g.protocol {
			return g.storeReplaced(r, m, id, reply)
		}
	}
	g.replace(m, id)
	m.renew(now)
	g.update(m, r)
	g.park(m, reply)
	return g.rebalance(now)
}

// storeReplaced writes the new id of a static member, and what it says of itself.
// Clients of before version 9 are told that the leader is still who it was, so that a
// new id of the leader's does not assign anew, which nobody would see.
func (g *classicGroup) storeReplaced(r *JoinRequest, m *classicMember, id string, reply func(JoinReply, error)) step {
	rec := g.record()
	if rec.leader == m.id {
		rec.leader = id
	}
	for i := range rec.members {
		if s := &rec.members[i]; s.id == m.id {
			s.id, s.sessionTimeout, s.rebalanceTimeout = id, r.SessionTimeout, r.RebalanceTimeout
			s.subscription = metadataFor(r.Protocols, g.protocol)
		}
	}
	return step{records: []logRecord{rec.encode()}, then: func(now time.Time, err error) step {
		if err != nil {
			reply(JoinReply{}, err)
			return step{}
		}
		before := g.leader
		g.replace(m, id)
		m.renew(now)
		g.update(m, r)
		answer := g.joined(m)
		if r.SkipsAssignment {
			answer.SkipAssignment = g.leader == id
		} else {
			answer.Leader, answer.Members = before, nil
		}
		reply(answer, nil)
		return step{}
	}}
}
