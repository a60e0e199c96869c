package compat_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// rawMember takes part in a group by raw requests of the latest versions of the classic protocol.
type rawMember struct {
	*conn
	group      string
	id         string
	instance   *string
	protocols  string // names, the best first, separated by commas
	generation int32
}

func (s *server) rawMember(t testing.TB, group, protocols string) *rawMember {
	t.Helper()
	m := &rawMember{conn: s.dial(t), group: group, protocols: protocols}
	s.makeCoordinator(m.conn, group)
	return m
}

func (m *rawMember) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = m.group, m.id, m.instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 10_000, 10_000
	for _, name := range strings.Split(m.protocols, ",") {
		if name != "" {
			p := kmsg.NewJoinGroupRequestProtocol()
			p.Name, p.Metadata = name, []byte{0, 0, 0, 0, 0, 0, 255, 255, 255, 255}
			req.Protocols = append(req.Protocols, p)
		}
	}
	return req
}

// joinOnce is one request, repeated while the coordinator loads.
func (m *rawMember) joinOnce(v int16, req *kmsg.JoinGroupRequest) *kmsg.JoinGroupResponse {
	m.t.Helper()
	ctx := within(m.t)
	for {
		r := ask[*kmsg.JoinGroupResponse](m.conn, v, req)
		if !isLoading(r.ErrorCode) || ctx.Err() != nil {
			return r
		}
	}
}

// register gets a member id, as the first join of a dynamic member does.
func (m *rawMember) register() {
	m.t.Helper()
	r := m.joinOnce(9, m.joinRequest())
	wantCode(m.t, "first join", r.ErrorCode, memberIDRequired)
	m.id = r.MemberID
}

func (m *rawMember) joined(r *kmsg.JoinGroupResponse) *kmsg.JoinGroupResponse {
	m.t.Helper()
	wantCode(m.t, "join", r.ErrorCode, noError)
	m.id, m.generation = r.MemberID, r.Generation
	return r
}

func (m *rawMember) sync(assign ...*rawMember) *kmsg.SyncGroupResponse {
	m.t.Helper()
	req := kmsg.NewPtrSyncGroupRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = m.group, m.generation, m.id, m.instance
	for _, other := range assign {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = other.id, []byte(other.id)
		req.GroupAssignment = append(req.GroupAssignment, a)
	}
	return ask[*kmsg.SyncGroupResponse](m.conn, 4, req)
}

func (m *rawMember) heartbeat() int16 {
	m.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Group, req.Generation, req.MemberID, req.InstanceID = m.group, m.generation, m.id, m.instance
	return ask[*kmsg.HeartbeatResponse](m.conn, 4, req).ErrorCode
}

func (m *rawMember) leave(members ...kmsg.LeaveGroupRequestMember) *kmsg.LeaveGroupResponse {
	m.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.Members = m.group, members
	return ask[*kmsg.LeaveGroupResponse](m.conn, 5, req)
}

func (m *rawMember) describe(v int16) kmsg.DescribeGroupsResponseGroup {
	m.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Groups = []string{m.group}
	ctx := within(m.t)
	for {
		r := ask[*kmsg.DescribeGroupsResponse](m.conn, v, req)
		if len(r.Groups) != 1 {
			m.t.Fatalf("DescribeGroups v%d answers %d groups, want 1", v, len(r.Groups))
		}
		if !isLoading(r.Groups[0].ErrorCode) || ctx.Err() != nil {
			return r.Groups[0]
		}
	}
}

// together has the first member begin a rebalance and the others, who are members already, follow. It returns the
// answers to their joins.
func together(first *rawMember, others ...*rawMember) []*kmsg.JoinGroupResponse {
	first.t.Helper()
	members := append([]*rawMember{first}, others...)
	reqs, ids := make([]*kmsg.JoinGroupRequest, len(members)), make([]int32, len(members))
	for i, m := range members {
		if i == 1 {
			m.awaitRebalance()
		}
		reqs[i] = m.joinRequest()
		ids[i] = m.send(9, reqs[i])
	}
	answers := make([]*kmsg.JoinGroupResponse, len(members))
	for i, m := range members {
		answers[i] = m.joined(receive[*kmsg.JoinGroupResponse](m.conn, ids[i], reqs[i]))
	}
	return answers
}

// awaitRebalance heartbeats until the member is told of a rebalance.
func (m *rawMember) awaitRebalance() {
	m.t.Helper()
	code := int16(noError)
	for ctx := within(m.t); code == noError && ctx.Err() == nil; {
		code = m.heartbeat()
	}
	wantCode(m.t, "heartbeat in a rebalance", code, rebalanceInProgress)
}

// pair makes a stable group of two members, of which the first leads.
func (s *server) pair(t testing.TB, first, second string) (a, b *rawMember) {
	t.Helper()
	a = s.rawMember(t, fresh("group"), first)
	a.register()
	together(a)
	wantCode(t, "sync", a.sync(a).ErrorCode, noError)
	b = s.rawMember(t, a.group, second)
	b.register()
	together(b, a)
	wantCode(t, "sync", a.sync(a, b).ErrorCode, noError)
	return a, b
}

func TestClassicGroupRequests(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	t.Run("GRP-01 a member id is required", func(t *testing.T) {
		m := s.rawMember(t, fresh("group"), "range")
		for _, v := range []int16{4, 6, 7, 9} {
			r := m.joinOnce(v, m.joinRequest())
			wantCode(t, "join without an id", r.ErrorCode, memberIDRequired)
			if !strings.HasPrefix(r.MemberID, "compat-") || len(r.MemberID) != len("compat-")+36 || r.Generation != -1 || r.LeaderID != "" {
				t.Errorf("v%d answers %+v, want an id and nothing else", v, r)
			}
			if null := r.Protocol == nil; null != (v >= 7) || r.ProtocolType != nil {
				t.Errorf("v%d answers protocol %v and type %v; want no type, and null for the protocol from version 7 on", v, r.Protocol, r.ProtocolType)
			}
		}
		direct := s.rawMember(t, fresh("group"), "range")
		wantCode(t, "join v3", direct.joinOnce(3, direct.joinRequest()).ErrorCode, noError)
		static := s.rawMember(t, fresh("group"), "range")
		static.instance = kmsg.StringPtr("i1")
		if r := static.joined(static.joinOnce(5, static.joinRequest())); !strings.HasPrefix(r.MemberID, "i1-") {
			t.Errorf("static member is %s, want its instance and a number", r.MemberID)
		}
	})
	t.Run("GRP-02 session timeout bounds", func(t *testing.T) {
		m := s.rawMember(t, fresh("group"), "range")
		for ms, code := range map[int32]int16{1000: invalidSessionTimeout, 5999: invalidSessionTimeout, 6000: memberIDRequired, 1_800_000: memberIDRequired, 1_800_001: invalidSessionTimeout, 7_200_000: invalidSessionTimeout} {
			req := m.joinRequest()
			req.SessionTimeoutMillis = ms
			wantCode(t, fmt.Sprintf("session timeout of %d ms", ms), m.joinOnce(9, req).ErrorCode, code)
		}
	})
	t.Run("GRP-03 protocol mismatch", func(t *testing.T) {
		a := s.rawMember(t, fresh("group"), "range")
		a.register()
		together(a)
		wantCode(t, "sync", a.sync(a).ErrorCode, noError)
		for _, c := range []struct{ kind, protocols string }{{"connect", "range"}, {"consumer", "sticky"}, {"consumer", ""}} {
			b := s.rawMember(t, a.group, c.protocols)
			req := b.joinRequest()
			req.ProtocolType = c.kind
			wantCode(t, fmt.Sprintf("join %+v", c), b.joinOnce(9, req).ErrorCode, inconsistentProtocol)
		}
		wantCode(t, "the member's heartbeat", a.heartbeat(), noError)
		empty := s.rawMember(t, fresh("group"), "")
		wantCode(t, "new group without a protocol", empty.joinOnce(9, empty.joinRequest()).ErrorCode, inconsistentProtocol)
		if d := empty.describe(5); d.State != "Empty" || d.ProtocolType != "" {
			t.Errorf("it is %s of type %q, want an empty group: it was made all the same", d.State, d.ProtocolType)
		}
	})
	t.Run("GRP-05 static restart without rebalance", func(t *testing.T) {
		a := s.rawMember(t, fresh("group"), "range")
		a.instance = kmsg.StringPtr("i1")
		a.joined(a.joinOnce(9, a.joinRequest()))
		wantCode(t, "sync", a.sync(a).ErrorCode, noError)
		again := s.rawMember(t, a.group, "range")
		again.instance = a.instance
		r := again.joined(again.joinOnce(9, again.joinRequest()))
		if r.Generation != 1 || r.MemberID == a.id || !r.SkipAssignment || r.LeaderID != r.MemberID || len(r.Members) != 1 {
			t.Errorf("the restarted leader is answered %+v, want the same generation, the lead, and to skip the assignment", r)
		}
		wantCode(t, "heartbeat by the old id", a.heartbeat(), fencedInstanceID)
		wantCode(t, "heartbeat by the new id", again.heartbeat(), noError)
		if sync := again.sync(); string(sync.MemberAssignment) != a.id {
			t.Errorf("it is assigned %q, want what it had, %q", sync.MemberAssignment, a.id)
		}
		older := s.rawMember(t, a.group, "range")
		older.instance = a.instance
		r = older.joined(older.joinOnce(8, older.joinRequest()))
		if r.Generation != 1 || r.LeaderID != again.id || len(r.Members) != 0 {
			t.Errorf("an older client is answered %+v, want the lead to be the old id's, %s", r, again.id)
		}
	})
	t.Run("GRP-08 heartbeat codes by state", func(t *testing.T) {
		a := s.rawMember(t, fresh("group"), "range")
		a.register()
		wantCode(t, "heartbeat of a pending member", a.heartbeat(), unknownMemberID)
		together(a)
		wantCode(t, "CompletingRebalance", a.heartbeat(), noError)
		wantCode(t, "sync", a.sync(a).ErrorCode, noError)
		wantCode(t, "Stable", a.heartbeat(), noError)
		b := s.rawMember(t, a.group, "range")
		b.register()
		req := b.joinRequest()
		b.send(9, req)
		a.awaitRebalance()
		a.generation--
		wantCode(t, "PreparingRebalance, old generation", a.heartbeat(), illegalGeneration)
		ghost := s.rawMember(t, a.group, "range")
		ghost.id, ghost.generation = "ghost", a.generation
		wantCode(t, "a stranger", ghost.heartbeat(), unknownMemberID)
		ghost.group = fresh("ghosts")
		wantCode(t, "unknown group", ghost.heartbeat(), unknownMemberID)
	})
	t.Run("GRP-10 batch leave", func(t *testing.T) {
		a := s.rawMember(t, fresh("group"), "range")
		a.register()
		together(a)
		b := s.rawMember(t, a.group, "range")
		b.instance = kmsg.StringPtr("i1")
		together(b, a)
		r := a.leave(kmsg.LeaveGroupRequestMember{MemberID: a.id}, kmsg.LeaveGroupRequestMember{MemberID: "ghost"}, kmsg.LeaveGroupRequestMember{InstanceID: b.instance})
		want(t, "top-level code", r.ErrorCode, 0)
		if len(r.Members) != 3 || r.Members[0].ErrorCode != 0 || r.Members[1].ErrorCode != unknownMemberID || r.Members[2].ErrorCode != 0 {
			t.Errorf("answers %+v, want 0, %d, 0", r.Members, unknownMemberID)
		}
		want(t, "state", a.describe(6).State, "Empty")
		a.group = fresh("ghosts")
		r = a.leave(kmsg.LeaveGroupRequestMember{MemberID: a.id}, kmsg.LeaveGroupRequestMember{MemberID: "ghost"})
		want(t, "top-level code for an unknown group", r.ErrorCode, 0)
		if len(r.Members) != 2 || r.Members[0].ErrorCode != unknownMemberID || r.Members[1].ErrorCode != unknownMemberID {
			t.Errorf("unknown group answers %+v, want %d for each", r.Members, unknownMemberID)
		}
	})
	t.Run("GRP-12 describe of an unknown group", func(t *testing.T) {
		m := s.rawMember(t, fresh("ghosts"), "range")
		for v, code := range map[int16]int16{0: noError, 5: noError, 6: groupIDNotFound} {
			d := m.describe(v)
			wantCode(t, fmt.Sprintf("v%d", v), d.ErrorCode, code)
			if d.State != "Dead" || len(d.Members) != 0 || (d.ErrorMessage != nil) != (v >= 6) {
				t.Errorf("v%d answers %+v, want state Dead, and a text from version 6 on", v, d)
			}
		}
	})
	t.Run("GRP-18 new metadata or the leader's rejoin brings a rebalance", func(t *testing.T) {
		a, b := s.pair(t, "range", "range")
		want(t, "generation of a follower that says the same", together(b)[0].Generation, a.generation)
		b.protocols = "range,sticky"
		want(t, "generation after new metadata", together(b, a)[0].Generation, 3)
		wantCode(t, "sync", a.sync(a, b).ErrorCode, noError)
		want(t, "generation after the leader's rejoin", together(a, b)[0].Generation, 4)
	})
	t.Run("as many votes for two protocols", func(t *testing.T) {
		for _, names := range [][2]string{{"range", "sticky"}, {"sticky", "range"}} {
			a, _ := s.pair(t, names[0]+","+names[1], names[1]+","+names[0])
			want(t, "protocol", a.describe(6).Protocol, "sticky")
		}
	})
	t.Run("a pending id that leaves brings a rebalance", func(t *testing.T) {
		a := s.rawMember(t, fresh("group"), "range")
		a.register()
		together(a)
		wantCode(t, "sync", a.sync(a).ErrorCode, noError)
		b := s.rawMember(t, a.group, "range")
		b.register()
		wantCode(t, "heartbeat before", a.heartbeat(), noError)
		if r := b.leave(kmsg.LeaveGroupRequestMember{MemberID: b.id}); len(r.Members) != 1 || r.Members[0].ErrorCode != 0 {
			t.Errorf("leave of a pending id answers %+v", r)
		}
		wantCode(t, "heartbeat after", a.heartbeat(), rebalanceInProgress)
	})
	t.Run("sync names the group's protocol", func(t *testing.T) {
		a := s.rawMember(t, fresh("group"), "range")
		a.register()
		together(a)
		for _, c := range []struct {
			kind, protocol *string
			code           int16
		}{
			{nil, nil, inconsistentProtocol}, {kmsg.StringPtr("connect"), kmsg.StringPtr("range"), inconsistentProtocol},
			{kmsg.StringPtr("consumer"), kmsg.StringPtr("sticky"), inconsistentProtocol}, {kmsg.StringPtr("consumer"), kmsg.StringPtr("range"), noError},
		} {
			req := kmsg.NewPtrSyncGroupRequest()
			req.Group, req.Generation, req.MemberID, req.ProtocolType, req.Protocol = a.group, a.generation, a.id, c.kind, c.protocol
			r := ask[*kmsg.SyncGroupResponse](a.conn, 5, req)
			wantCode(t, "sync", r.ErrorCode, c.code)
			if (r.ProtocolType != nil) != (c.code == noError) || (r.Protocol != nil) != (c.code == noError) {
				t.Errorf("code %d comes with protocol type %v and protocol %v, want them with code 0 only", c.code, r.ProtocolType, r.Protocol)
			}
		}
		d := a.describe(6)
		if d.State != "Stable" || len(d.Members) != 1 || d.Members[0].ClientID != "compat" || !strings.HasPrefix(d.Members[0].ClientHost, "/127.") {
			t.Errorf("described %+v", d)
		}
	})
}
