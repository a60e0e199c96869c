package groups

import "time"

// LeaveRequest names members that leave. An administrator names static ones by their
// instance id alone.
type LeaveRequest struct {
	Group   string
	Members []LeavingMember
}

// LeavingMember is one member that leaves.
type LeavingMember struct {
	MemberID   string
	InstanceID *string
}

// LeaveReply has an error, or nil, for each member of the request, in its order.
type LeaveReply []error

// leave is a LeaveGroup call. When it leaves the group empty, it is answered when
// that is stored. Kafka: GroupMetadataManager.classicGroupLeaveToClassicGroup.
func (g *classicGroup) leave(now time.Time, r *LeaveRequest, reply func(LeaveReply, error)) step {
	answers := make(LeaveReply, len(r.Members))
	left := false
	for i, l := range r.Members {
		var id string
		if id, answers[i] = g.leaving(l); answers[i] == nil {
			g.remove(id)
			left = true
		}
	}
	st := step{}
	switch {
	case !left:
	case g.current == classicStable, g.current == classicCompleting:
		st = g.prepareRebalance(now)
	case g.current == classicPreparing:
		st = g.maybeCompleteJoin(now)
	}
	if len(st.records) == 0 {
		reply(answers, nil)
		return st
	}
	empty := st.then
	st.then = func(now time.Time, err error) step {
		next := empty(now, err)
		if err != nil {
			answers = nil
		}
		reply(answers, err)
		return next
	}
	return st
}

// leaving returns the id of a member, or the pending id, that leaves.
func (g *classicGroup) leaving(l LeavingMember) (string, error) {
	if l.MemberID == "" {
		if l.InstanceID != nil && g.static[*l.InstanceID] != nil {
			return g.static[*l.InstanceID].id, nil
		}
		return "", ErrUnknownMemberID
	}
	if g.pending.has(l.MemberID) {
		return l.MemberID, nil
	}
	return l.MemberID, g.check(l.MemberID, l.InstanceID)
}
