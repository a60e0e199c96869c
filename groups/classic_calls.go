package groups

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// JoinGroup lets a member join, and waits until the rebalance that follows from it is
// over, or ctx ends; a join that is parked stays so. With an error, the reply may
// hold a member id. Errors: ErrInvalidGroupID, ErrInvalidSessionTimeout,
// ErrInvalidRequest, ErrInconsistentProtocol, ErrGroupMaxSize, ErrMemberIDRequired, ErrUnknownMemberID,
// ErrFencedInstanceID, ErrRebalanceInProgress, and those that every call has:
// ErrLoading, ErrNotAvailable, ErrNotCoordinator.
//
// Kafka: GroupCoordinatorService.joinGroup.
func (c *Coordinator) JoinGroup(ctx context.Context, r *JoinRequest) (JoinReply, error) {
	config := &c.o.Config
	switch {
	case r.Group == "":
		return JoinReply{MemberID: r.MemberID}, ErrInvalidGroupID
	case r.SessionTimeout < config.MinSessionTimeout, r.SessionTimeout > config.MaxSessionTimeout:
		return JoinReply{MemberID: r.MemberID}, fmt.Errorf("session timeout %v, want %v to %v: %w",
			r.SessionTimeout, config.MinSessionTimeout, config.MaxSessionTimeout, ErrInvalidSessionTimeout)
	}
	if err := r.tooLong(); err != nil {
		return JoinReply{MemberID: r.MemberID}, fmt.Errorf("text of %w: %w", err, ErrInvalidRequest)
	}
	return call(ctx, c, r.Group, func(now time.Time, s *shard, e *entry, reply func(JoinReply, error)) step {
		return s.join(now, e, r, reply)
	})
}

// tooLong says what of a join no record has room for. An id that the member is given is
// longer than what it begins with by a dash and a UUID.
func (r *JoinRequest) tooLong() error {
	const given = "-00000000-0000-0000-0000-000000000000"
	texts := []string{r.ProtocolType, r.ClientID + given}
	if r.InstanceID != nil {
		texts = append(texts, *r.InstanceID+given)
	}
	for _, p := range r.Protocols {
		texts = append(texts, p.Name)
	}
	return tooLong(texts...)
}

// join dispatches a join to the group, made when a new member comes. An empty
// consumer group becomes a classic one. Kafka: GroupMetadataManager.classicGroupJoin.
func (s *shard) join(now time.Time, e *entry, r *JoinRequest, reply func(JoinReply, error)) step {
	var before []logRecord
	if e != nil && e.machine != nil {
		switch m := e.machine; {
		case m.kind() == KindClassic:
			return e.classic().join(now, r, reply)
		case m.kind() == KindConsumer && m.state() == consumerEmpty:
			before = m.tombstones()
		case m.kind() == KindConsumer:
			return e.consumer().joinClassic(now, r, reply)
		default:
			reply(JoinReply{}, fmt.Errorf("group of type %s: %w", m.kind(), ErrInconsistentProtocol))
			return step{}
		}
	}
	if r.MemberID != "" {
		reply(JoinReply{MemberID: r.MemberID}, fmt.Errorf("group without members: %w", ErrUnknownMemberID))
		return step{}
	}
	g := newClassicGroup(r.Group, s.env, now)
	if e != nil && before == nil { // a simple group: it is in the log by its offsets
		e.machine = g
		return g.join(now, r, reply)
	}
	return step{records: append(before, g.record().encode()), then: func(now time.Time, err error) step {
		if err != nil {
			reply(JoinReply{}, err)
			return step{}
		}
		s.ensure(r.Group).machine = g
		return g.join(now, r, reply)
	}}
}

// SyncGroup brings a member its assignment, and waits until the leader has brought
// them, or ctx ends; a sync that is parked stays so. Errors: ErrInvalidGroupID,
// ErrUnknownMemberID, ErrFencedInstanceID, ErrIllegalGeneration,
// ErrInconsistentProtocol, ErrRebalanceInProgress, and those that every call has.
//
// Kafka: GroupCoordinatorService.syncGroup.
func (c *Coordinator) SyncGroup(ctx context.Context, r *SyncRequest) (SyncReply, error) {
	if r.Group == "" {
		return SyncReply{}, ErrInvalidGroupID
	}
	return call(ctx, c, r.Group, func(now time.Time, _ *shard, e *entry, reply func(SyncReply, error)) step {
		if g := e.classic(); g != nil {
			return g.sync(now, r, reply)
		}
		if g := e.consumer(); g != nil {
			reply(g.syncClassic(now, r))
			return step{}
		}
		reply(SyncReply{}, fmt.Errorf("group %q: %w", r.Group, ErrUnknownMemberID))
		return step{}
	})
}

// Heartbeat keeps a member's session; it waits for the disk only where a step of the
// group does, and not longer than a commit. While the group is loading every member is
// alive. Errors: ErrInvalidGroupID, ErrUnknownMemberID, ErrFencedInstanceID,
// ErrIllegalGeneration, ErrRebalanceInProgress, ErrNotAvailable, ErrNotCoordinator.
//
// Kafka: GroupCoordinatorService.heartbeat.
func (c *Coordinator) Heartbeat(ctx context.Context, r *HeartbeatRequest) error {
	if r.Group == "" {
		return ErrInvalidGroupID
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.CommitTimeout)
	defer cancel()
	_, err := call(ctx, c, r.Group, func(now time.Time, _ *shard, e *entry, reply func(struct{}, error)) step {
		if g := e.classic(); g != nil {
			reply(struct{}{}, g.heartbeat(now, r))
			return step{}
		}
		if g := e.consumer(); g != nil {
			reply(struct{}{}, g.heartbeatClassic(now, r))
			return step{}
		}
		reply(struct{}{}, fmt.Errorf("group %q: %w", r.Group, ErrUnknownMemberID))
		return step{}
	})
	if errors.Is(err, ErrLoading) {
		return nil
	}
	return err
}

// LeaveGroup removes members, and waits until it is stored when that leaves none, not
// longer than for a commit. Errors of single ones, ErrUnknownMemberID and
// ErrFencedInstanceID, are in the reply. Errors of all: ErrInvalidGroupID and those
// that every call has.
//
// Kafka: GroupCoordinatorService.leaveGroup.
func (c *Coordinator) LeaveGroup(ctx context.Context, r *LeaveRequest) (LeaveReply, error) {
	if r.Group == "" {
		return nil, ErrInvalidGroupID
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.CommitTimeout)
	defer cancel()
	return call(ctx, c, r.Group, func(now time.Time, _ *shard, e *entry, reply func(LeaveReply, error)) step {
		if g := e.classic(); g != nil {
			return g.leave(now, r, reply)
		}
		if g := e.consumer(); g != nil {
			return g.leaveClassic(now, r, reply)
		}
		answers := make(LeaveReply, len(r.Members))
		for i := range answers {
			answers[i] = fmt.Errorf("group %q: %w", r.Group, ErrUnknownMemberID)
		}
		reply(answers, nil)
		return step{}
	})
}

// GroupDescription is a classic group as it is.
type GroupDescription struct {
	State        string
	ProtocolType string
	Protocol     string // "" unless the group is stable
	Members      []GroupMember
}

// GroupMember is a member of a classic group.
type GroupMember struct {
	MemberID   string
	InstanceID *string
	ClientID   string
	ClientHost string
	Metadata   []byte // for the group's protocol; nil unless the group is stable
	Assignment []byte
}

// DescribeGroup tells of one classic group. ErrGroupIDNotFound comes with the
// description of a dead group, which is what older clients get for it. Other errors:
// ErrLoading, ErrNotAvailable, ErrNotCoordinator.
//
// Kafka: GroupMetadataManager.describeGroups.
func (c *Coordinator) DescribeGroup(group string) (GroupDescription, error) {
	return look(c, group, func(_ time.Time, _ *shard, e *entry) (GroupDescription, error) {
		switch {
		case e == nil:
			return GroupDescription{State: string(classicDead)}, fmt.Errorf("group %s: %w", group, ErrGroupIDNotFound)
		case e.machine == nil:
			return GroupDescription{State: string(classicEmpty)}, nil
		}
		g := e.classic()
		if g == nil {
			return GroupDescription{State: string(classicDead)}, fmt.Errorf("group %s of type %s: %w", group, e.machine.kind(), ErrGroupIDNotFound)
		}
		return g.describe(), nil
	})
}

// describe tells of the group as it is.
func (g *classicGroup) describe() GroupDescription {
	d := GroupDescription{State: string(g.current), ProtocolType: g.groupType, Members: make([]GroupMember, len(g.members))}
	stable := g.current == classicStable
	if stable {
		d.Protocol = g.protocol
	}
	for i, m := range g.members {
		d.Members[i] = GroupMember{MemberID: m.id, InstanceID: m.instanceID, ClientID: m.clientID, ClientHost: m.clientHost, Assignment: m.assignment}
		if stable {
			d.Members[i].Metadata = metadataFor(m.protocols, g.protocol)
		}
	}
	return d
}
