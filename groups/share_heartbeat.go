package groups

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// ShareHeartbeatRequest is what a member of a share group says. What is nil is as the
// member said last.
type ShareHeartbeatRequest struct {
	Group    string
	MemberID string // the client makes it
	// MemberEpoch is what the last answer said; 0 to join, -1 to leave.
	MemberEpoch int32
	RackID      *string
	Topics      []string // the group sorts them

	ClientID   string
	ClientHost string // "/" and the address
}

// ShareHeartbeat is the answer to a member.
type ShareHeartbeat struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration // 0 for a member that leaves
	// Assigned is what the member may read, in the order of the topics' ids; nil when
	// that is as the member knows it.
	Assigned []TopicPartitions
}

// ServesShareGroups says whether share groups are served: Options.ShareState is set.
func (c *Coordinator) ServesShareGroups() bool { return c.o.ShareState.Initialize != nil }

// ShareGroupHeartbeat is how a member joins a share group, stays in it and leaves. It
// blocks until what it changes is durable, or the end of ctx. Partitions that nobody of
// the group has read yet are assigned by a later heartbeat, once their state is made.
//
// Kafka: GroupCoordinatorService.shareGroupHeartbeat.
func (c *Coordinator) ShareGroupHeartbeat(ctx context.Context, r *ShareHeartbeatRequest) (ShareHeartbeat, error) {
	if err := r.check(); err != nil {
		return ShareHeartbeat{}, err
	}
	return call(ctx, c, r.Group, func(now time.Time, s *shard, e *entry, reply func(ShareHeartbeat, error)) step {
		return s.shareHeartbeat(now, e, r, reply)
	})
}

// check says what is wrong with a request by itself. Kafka:
// GroupCoordinatorService.throwIfShareGroupHeartbeatRequestIsInvalid.
func (r *ShareHeartbeatRequest) check() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf(format+": %w", append(args, ErrInvalidRequest)...)
	}
	switch {
	case blank(r.MemberID):
		return invalid("member id is empty")
	case blank(r.Group):
		return invalid("group id is empty")
	case r.RackID != nil && blank(*r.RackID):
		return invalid("rack id is empty")
	case r.MemberEpoch == joiningEpoch && len(r.Topics) == 0:
		return invalid("no topics from a member that joins")
	case r.MemberEpoch < leavingEpoch:
		return invalid("member epoch %d, want at least -1", r.MemberEpoch)
	}
	if err := tooLong(r.MemberID); err != nil {
		return invalid("member id of %v", err)
	}
	return nil
}

// shareHeartbeat finds the group of a heartbeat, and makes it for a member that joins.
// Differs from consumer groups: no group of another type becomes one. Kafka:
// GroupMetadataManager.getOrMaybeCreateShareGroup.
func (s *shard) shareHeartbeat(now time.Time, e *entry, r *ShareHeartbeatRequest, reply func(ShareHeartbeat, error)) step {
	g, err := findShare(e, r.Group)
	if e == nil && r.MemberEpoch == joiningEpoch {
		g, err = newShareGroup(r.Group, s.env), nil
	}
	var answer ShareHeartbeat
	c := shareChange{g: g, now: now}
	switch {
	case err != nil:
	case r.MemberEpoch == leavingEpoch:
		answer, err = c.leave(r)
	default:
		answer, err = c.beat(r)
	}
	if err != nil {
		reply(ShareHeartbeat{}, err)
		return step{}
	}
	st := c.step(func(err error) {
		if err != nil {
			answer = ShareHeartbeat{}
		}
		reply(answer, err)
	})
	return s.making(g, st)
}

// making lets a step that is a new group's first make the group.
func (s *shard) making(g *shareGroup, st step) step {
	if len(st.records) == 0 || s.entries[g.id].share() == g {
		return st
	}
	then := st.then
	st.then = func(now time.Time, err error) step {
		if err == nil {
			s.ensure(g.id).machine = g
		}
		return then(now, err)
	}
	return st
}

// leave is the heartbeat of a member that leaves. Kafka: GroupMetadataManager.shareGroupLeave.
func (c *shareChange) leave(r *ShareHeartbeatRequest) (ShareHeartbeat, error) {
	m, err := c.g.member(r.MemberID)
	if err != nil {
		return ShareHeartbeat{}, err
	}
	c.fence(m)
	return ShareHeartbeat{MemberID: r.MemberID, MemberEpoch: r.MemberEpoch}, nil
}

// beat is the heartbeat of a member that stays or joins. Kafka:
// GroupMetadataManager.shareGroupHeartbeat.
func (c *shareChange) beat(r *ShareHeartbeatRequest) (ShareHeartbeat, error) {
	g := c.g
	joins := r.MemberEpoch == joiningEpoch
	old, err := g.admit(r.MemberID, joins)
	if err == nil && !joins {
		err = old.checkEpoch(r.MemberEpoch)
	}
	if err != nil {
		return ShareHeartbeat{}, err
	}
	m := *old
	r.update(&m.shareMetadata)
	bump := c.setMember(old, &m)
	if g.targetEpoch >= g.epoch {
		bump = g.unassigned() || bump
	}
	bump = c.setSubscription(bump)
	targetEpoch, target := c.setTarget(&m)
	c.reconcile(&m, targetEpoch, target, bump)
	config := g.config()
	c.later(func(now time.Time) {
		if g.members[m.id] != nil {
			g.sessions[m.id] = now.Add(config.ShareSessionTimeout)
		}
	})
	c.initialize()

	answer := ShareHeartbeat{MemberID: m.id, MemberEpoch: m.epoch, HeartbeatInterval: config.ShareHeartbeatInterval}
	if joins || r.Topics != nil || !old.assigned.Equal(m.assigned) {
		answer.Assigned = listed(m.assigned)
	}
	return answer, nil
}

// admit returns the member of an id: for one that joins, a new one when there is room.
// Kafka: throwIfShareGroupIsFull, getOrMaybeSubscribeShareGroupMember.
func (g *shareGroup) admit(id string, joins bool) (*shareMember, error) {
	if most := g.env.config.ShareMaxSize; len(g.members) >= most && g.members[id] == nil {
		return nil, fmt.Errorf("%d members, want at most %d: %w", len(g.members), most, ErrGroupMaxSize)
	}
	if joins {
		return g.orNew(id), nil
	}
	return g.member(id)
}

// checkEpoch fences a member that does not know its epoch; one that did not hear that
// its epoch rose may say the previous. Kafka:
// GroupMetadataManager.throwIfShareGroupMemberEpochIsInvalid.
func (m *shareMember) checkEpoch(epoch int32) error {
	if epoch == m.epoch || epoch < m.epoch && epoch == m.previousEpoch {
		return nil
	}
	return fmt.Errorf("member epoch %d, want %d: %w", epoch, m.epoch, ErrFencedMemberEpoch)
}

// update takes over what a member says.
func (r *ShareHeartbeatRequest) update(m *shareMetadata) {
	if r.RackID != nil {
		m.rackID = r.RackID
	}
	if r.Topics != nil {
		m.topics = sortedSet(slices.Clone(r.Topics))
	}
	m.clientID, m.clientHost = r.ClientID, r.ClientHost
}
