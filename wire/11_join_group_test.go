package wire

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// newGroupServer is newServer with a coordinator that keeps time.
func newGroupServer(t *testing.T, config map[string]string) *server {
	t.Helper()
	s := newServer(t, config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.s.groups.Run(ctx) }()
	stop := s.stop
	s.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("groups: %v", err)
		}
		stop()
	})
	return s
}

// groupVersions are versions of the requests of a group's member that were made at a time.
type groupVersions struct{ join, heartbeat, leave, sync, describe int16 }

// everyGroupVersion steps through the versions of all five requests.
func everyGroupVersion() (all []groupVersions) {
	for v := range int16(10) {
		all = append(all, groupVersions{v, min(v, 4), min(v, 5), min(v, 5), min(v, 6)})
	}
	return all
}

// member is a client that takes part in the group "kitchen".
type member struct {
	*client
	v          groupVersions
	id         string
	instance   *string
	generation int32
}

func (s *server) member(t *testing.T, v groupVersions) *member {
	return &member{client: s.dial(t), v: v}
}

// joinRequest makes a request to join as a consumer by the range protocol.
func (m *member) joinRequest() *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.MemberID, req.InstanceID = m.v.join, "kitchen", m.id, m.instance
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 10_000, 60_000, "consumer"
	req.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{0, 0, 0, 0, 0, 0, 255, 255, 255, 255}}}
	return req
}

// joined takes over what the answer to a join says.
func (m *member) joined(resp *kmsg.JoinGroupResponse) {
	m.t.Helper()
	if resp.ErrorCode != 0 {
		m.t.Fatalf("join version %d: code %d", m.v.join, resp.ErrorCode)
	}
	m.id, m.generation = resp.MemberID, resp.Generation
}

// join joins, twice when the broker gives an id first.
func (m *member) join() *kmsg.JoinGroupResponse {
	m.t.Helper()
	resp := m.call(m.joinRequest()).(*kmsg.JoinGroupResponse)
	if m.v.join >= 4 && m.instance == nil && m.id == "" {
		if resp.ErrorCode != 79 || resp.MemberID == "" {
			m.t.Fatalf("first join version %d: code %d and member id %q, want 79 and one", m.v.join, resp.ErrorCode, resp.MemberID)
		}
		m.id = resp.MemberID
		resp = m.call(m.joinRequest()).(*kmsg.JoinGroupResponse)
	}
	m.joined(resp)
	return resp
}

// syncRequest makes a request to sync, with what the leader assigns.
func (m *member) syncRequest(assign map[string]string) *kmsg.SyncGroupRequest {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = m.v.sync, "kitchen", m.generation, m.id, m.instance
	req.ProtocolType, req.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	for id, part := range assign {
		req.GroupAssignment = append(req.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: id, MemberAssignment: []byte(part)})
	}
	return req
}

func (m *member) heartbeat() int16 {
	m.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.Generation, req.MemberID, req.InstanceID = m.v.heartbeat, "kitchen", m.generation, m.id, m.instance
	return m.call(req).(*kmsg.HeartbeatResponse).ErrorCode
}

// leave names the member as its version does.
func (m *member) leave() *kmsg.LeaveGroupResponse {
	m.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group, req.MemberID = m.v.leave, "kitchen", m.id
	req.Members = []kmsg.LeaveGroupRequestMember{{MemberID: m.id, InstanceID: m.instance}}
	return m.call(req).(*kmsg.LeaveGroupResponse)
}

func (m *member) describe() kmsg.DescribeGroupsResponseGroup {
	m.t.Helper()
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups, req.IncludeAuthorizedOperations = m.v.describe, []string{"kitchen"}, true
	resp := m.call(req).(*kmsg.DescribeGroupsResponse)
	if len(resp.Groups) != 1 || resp.Groups[0].Group != "kitchen" {
		m.t.Fatalf("described %+v, want kitchen", resp.Groups)
	}
	return resp.Groups[0]
}

// pair makes a stable group of two members, the first of which leads.
func (s *server) pair(t *testing.T, v groupVersions) (leader, follower *member) {
	t.Helper()
	leader, follower = s.member(t, v), s.member(t, v)
	leader.join()
	if r := leader.call(leader.syncRequest(map[string]string{leader.id: "ab"})).(*kmsg.SyncGroupResponse); r.ErrorCode != 0 {
		t.Fatalf("sync: code %d", r.ErrorCode)
	}
	first := follower.joinRequest()
	if v.join >= 4 {
		follower.id = follower.call(first).(*kmsg.JoinGroupResponse).MemberID
		first.MemberID = follower.id
	}
	id := follower.send(first)
	synctest.Wait()
	leader.join()
	follower.joined(follower.receive(first, id).(*kmsg.JoinGroupResponse))
	sync := follower.syncRequest(nil)
	id = follower.send(sync)
	leader.call(leader.syncRequest(map[string]string{leader.id: "a", follower.id: "b"}))
	if r := follower.receive(sync, id).(*kmsg.SyncGroupResponse); string(r.MemberAssignment) != "b" {
		t.Fatalf("the follower got %q, want b", r.MemberAssignment)
	}
	return leader, follower
}

func TestGroupWorksAtEveryVersion(t *testing.T) {
	for _, v := range everyGroupVersion() {
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
				m := s.member(t, v)
				if m.id = "ghost"; m.heartbeat() != 25 {
					t.Error("heartbeat to no group is not answered by 25")
				}
				m.id = ""
				resp := m.join()
				if !strings.HasPrefix(resp.MemberID, "test-") || resp.LeaderID != resp.MemberID || resp.Generation != 1 || deref(resp.Protocol) != "range" ||
					len(resp.Members) != 1 || resp.Members[0].MemberID != resp.MemberID || len(resp.Members[0].ProtocolMetadata) != 10 || resp.SkipAssignment {
					t.Errorf("join answers %+v", resp)
				}
				if want := v.join >= 7; (resp.ProtocolType != nil) != want || want && *resp.ProtocolType != "consumer" {
					t.Errorf("join answers protocol type %q, want one from version 7 on", deref(resp.ProtocolType))
				}
				sync := m.call(m.syncRequest(map[string]string{m.id: "all"})).(*kmsg.SyncGroupResponse)
				if sync.ErrorCode != 0 || string(sync.MemberAssignment) != "all" || (sync.Protocol != nil) != (v.sync >= 5) {
					t.Errorf("sync answers %+v", sync)
				}
				if code := m.heartbeat(); code != 0 {
					t.Errorf("heartbeat answers %d", code)
				}
				d := m.describe()
				if d.ErrorCode != 0 || d.State != "Stable" || d.ProtocolType != "consumer" || d.Protocol != "range" || len(d.Members) != 1 {
					t.Fatalf("describe answers %+v", d)
				}
				if dm := d.Members[0]; dm.MemberID != m.id || dm.ClientID != "test" || dm.ClientHost != "/pipe" || string(dm.MemberAssignment) != "all" || len(dm.ProtocolMetadata) != 10 {
					t.Errorf("described member %+v", dm)
				}
				if want := v.describe >= 3; (d.AuthorizedOperations != noOperations) != want {
					t.Errorf("authorized operations %d, asked for from version 3 on", d.AuthorizedOperations)
				}
				left := m.leave()
				if left.ErrorCode != 0 || v.leave >= 3 && (len(left.Members) != 1 || left.Members[0].MemberID != m.id || left.Members[0].ErrorCode != 0) {
					t.Errorf("leave answers %+v", left)
				}
				if d := m.describe(); d.State != "Empty" || len(d.Members) != 0 {
					t.Errorf("described after the leave: %+v", d)
				}
			})
		})
	}
}

func TestFollowerAndLeaderMeetAtEveryVersion(t *testing.T) {
	for _, v := range everyGroupVersion() {
		t.Run(fmt.Sprintf("%+v", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
				leader, follower := s.pair(t, v)
				if leader.generation != 2 || follower.generation != 2 {
					t.Errorf("generations %d and %d, want 2", leader.generation, follower.generation)
				}
				leader.leave()
				if code := follower.heartbeat(); code != 27 {
					t.Errorf("heartbeat after the leader left: %d, want 27", code)
				}
			})
		})
	}
}

func TestInitialRebalanceDelayIsThreeSeconds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, nil)
		began := time.Now()
		s.member(t, groupVersions{join: 3}).join()
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("joined after %v, want 3s", d)
		}
	})
}

func TestJoinGroupFieldCases(t *testing.T) {
	latest := groupVersions{9, 4, 5, 5, 6}
	noDelay := map[string]string{"group.initial.rebalance.delay.ms": "0"}
	t.Run("GRP-01 member id is required", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, noDelay)
			for _, v := range []int16{4, 9} {
				m := s.member(t, groupVersions{join: v})
				first := m.call(m.joinRequest()).(*kmsg.JoinGroupResponse)
				if first.ErrorCode != 79 || !strings.HasPrefix(first.MemberID, "test-") || first.Generation != -1 || deref(first.Protocol) != "" || first.LeaderID != "" {
					t.Errorf("version %d without an id: %+v, want 79, an id and nothing else", v, first)
				}
			}
			s = newGroupServer(t, noDelay)
			s.member(t, groupVersions{join: 3}).join()
			static := s.member(t, groupVersions{join: 5})
			static.instance = kmsg.StringPtr("i1")
			req := static.joinRequest()
			id := static.send(req)
			static.idle("static member joins at once, and waits for the other")
			wait(time.Minute)
			if r := static.receive(req, id).(*kmsg.JoinGroupResponse); r.ErrorCode != 0 || !strings.HasPrefix(r.MemberID, "i1-") {
				t.Errorf("static member: %+v, want 0 and an id by its instance", r)
			}
		})
	})
	t.Run("GRP-02 session timeout bounds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, noDelay)
			m := s.member(t, latest)
			for _, ms := range []int32{1000, 5999, 1_800_001, 7_200_000, -1} {
				req := m.joinRequest()
				req.SessionTimeoutMillis, req.MemberID = ms, "mine"
				if r := m.call(req).(*kmsg.JoinGroupResponse); r.ErrorCode != 26 || r.MemberID != "mine" {
					t.Errorf("session timeout %d: code %d and id %q, want 26 and the id", ms, r.ErrorCode, r.MemberID)
				}
			}
			for _, ms := range []int32{6000, 1_800_000} {
				req := m.joinRequest()
				req.SessionTimeoutMillis = ms
				if r := m.call(req).(*kmsg.JoinGroupResponse); r.ErrorCode != 79 {
					t.Errorf("session timeout %d: code %d, want 79", ms, r.ErrorCode)
				}
			}
		})
	})
	t.Run("GRP-03 protocol mismatch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, noDelay)
			leader, follower := s.pair(t, latest)
			for _, c := range []struct{ kind, protocol string }{{"connect", "range"}, {"consumer", "sticky"}, {"", "range"}, {"consumer", ""}} {
				m := s.member(t, latest)
				req := m.joinRequest()
				req.ProtocolType, req.Protocols[0].Name = c.kind, c.protocol
				if c.protocol == "" {
					req.Protocols = nil
				}
				if r := m.call(req).(*kmsg.JoinGroupResponse); r.ErrorCode != 23 || r.MemberID != "" {
					t.Errorf("join %+v: code %d and id %q, want 23", c, r.ErrorCode, r.MemberID)
				}
			}
			if a, b := leader.heartbeat(), follower.heartbeat(); a != 0 || b != 0 {
				t.Errorf("heartbeats of the members: %d and %d, want 0", a, b)
			}
			m := s.member(t, latest)
			req := m.joinRequest()
			req.Group, req.Protocols = "new", nil
			if r := m.call(req).(*kmsg.JoinGroupResponse); r.ErrorCode != 23 {
				t.Errorf("new group without a protocol: code %d, want 23", r.ErrorCode)
			}
		})
	})
	t.Run("GRP-05 static restart without rebalance", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, noDelay)
			leader := s.member(t, latest)
			leader.instance = kmsg.StringPtr("i1")
			leader.join()
			leader.call(leader.syncRequest(map[string]string{leader.id: "all"}))
			for _, v := range []int16{9, 8} {
				again := s.member(t, latest)
				again.instance, again.v.join = leader.instance, v
				r := again.join()
				if r.Generation != 1 || r.MemberID == leader.id || r.SkipAssignment != (v >= 9) {
					t.Errorf("version %d: %+v, want generation 1 and a new id; to skip the assignment from version 9 on", v, r)
				}
				if v >= 9 && (r.LeaderID != r.MemberID || len(r.Members) != 1) || v < 9 && (r.LeaderID != leader.id || len(r.Members) != 0) {
					t.Errorf("version %d: leader %q and %d members", v, r.LeaderID, len(r.Members))
				}
				if a, b := leader.heartbeat(), again.heartbeat(); a != 82 || b != 0 {
					t.Errorf("version %d: heartbeats %d by the old id, %d by the new, want 82 and 0", v, a, b)
				}
				leader = again
			}
		})
	})
	t.Run("GRP-07 leader vanishes between join and sync", func(t *testing.T) {
		for _, alive := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := newGroupServer(t, noDelay)
				leader, follower := s.pair(t, latest)
				again := follower.joinRequest()
				again.Protocols[0].Metadata = []byte{0, 1, 0, 0, 0, 0, 255, 255, 255, 255}
				id := follower.send(again)
				synctest.Wait()
				leader.join()
				follower.joined(follower.receive(again, id).(*kmsg.JoinGroupResponse))
				began := time.Now()
				sync := follower.syncRequest(nil)
				id = follower.send(sync)
				for range 11 {
					wait(5 * time.Second)
					if alive {
						if code := leader.heartbeat(); code != 0 {
							t.Errorf("leader's heartbeat: %d", code)
						}
					}
				}
				r := follower.receive(sync, id).(*kmsg.SyncGroupResponse)
				if r.ErrorCode != 27 {
					t.Errorf("leader alive %v: sync answers %d, want 27", alive, r.ErrorCode)
				}
				if d := time.Since(began); alive && d != time.Minute {
					t.Errorf("sync was answered after %v, want the rebalance timeout", d)
				}
				req := follower.joinRequest()
				if r := follower.call(req).(*kmsg.JoinGroupResponse); alive && (r.ErrorCode != 0 || r.LeaderID != follower.id) || !alive && r.ErrorCode != 25 && r.ErrorCode != 0 {
					t.Errorf("leader alive %v: the next join answers %+v", alive, r)
				}
			})
		}
	})
	t.Run("GRP-08 heartbeat codes by state", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, noDelay)
			leader, follower := s.pair(t, latest)
			expect := func(state string, want int16) {
				t.Helper()
				if d := leader.describe(); d.State != state {
					t.Errorf("state %s, want %s", d.State, state)
				}
				if code := follower.heartbeat(); code != want {
					t.Errorf("heartbeat in %s: %d, want %d", state, code, want)
				}
				follower.generation--
				if code := follower.heartbeat(); code != 22 {
					t.Errorf("heartbeat of an old generation in %s: %d, want 22", state, code)
				}
				follower.generation++
			}
			expect("Stable", 0)
			joining := s.dial(t)
			rejoin := leader.joinRequest()
			id := joining.send(rejoin)
			synctest.Wait()
			expect("PreparingRebalance", 27)
			follower.join()
			joining.receive(rejoin, id)
			expect("CompletingRebalance", 0)
			follower.id = "ghost"
			if code := follower.heartbeat(); code != 25 {
				t.Errorf("heartbeat of a stranger: %d, want 25", code)
			}
		})
	})
	t.Run("GRP-18 new metadata or the leader's rejoin brings a rebalance", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, noDelay)
			leader, follower := s.pair(t, latest)
			if r := follower.join(); r.Generation != 2 {
				t.Errorf("follower with the same metadata: generation %d, want 2", r.Generation)
			}
			req := follower.joinRequest()
			req.Protocols[0].Metadata = []byte{0, 1, 0, 0, 0, 0, 255, 255, 255, 255}
			id := follower.send(req)
			synctest.Wait()
			if r := leader.join(); r.Generation != 3 {
				t.Errorf("new metadata: generation %d, want 3", r.Generation)
			}
			follower.joined(follower.receive(req, id).(*kmsg.JoinGroupResponse))
			leader.call(leader.syncRequest(nil))
			lead := leader.joinRequest()
			id = leader.send(lead)
			synctest.Wait()
			if code := follower.heartbeat(); code != 27 {
				t.Errorf("heartbeat after the leader's rejoin: %d, want 27", code)
			}
			if r := follower.call(req).(*kmsg.JoinGroupResponse); r.Generation != 4 {
				t.Errorf("leader's rejoin: generation %d, want 4", r.Generation)
			}
			leader.receive(lead, id)
		})
	})
}

func TestGroupIDMustNotBeEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, nil)
		c := s.dial(t)
		join := kmsg.NewPtrJoinGroupRequest()
		join.Version, join.MemberID = 9, "mine"
		if r := c.call(join).(*kmsg.JoinGroupResponse); r.ErrorCode != 24 || r.MemberID != "mine" {
			t.Errorf("join: code %d and id %q, want 24 and the id", r.ErrorCode, r.MemberID)
		}
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version = 4
		heartbeat := kmsg.NewPtrHeartbeatRequest()
		heartbeat.Version = 4
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Version = 5
		if a, b, d := c.call(sync).(*kmsg.SyncGroupResponse).ErrorCode, c.call(heartbeat).(*kmsg.HeartbeatResponse).ErrorCode, c.call(leave).(*kmsg.LeaveGroupResponse).ErrorCode; a != 24 || b != 24 || d != 24 {
			t.Errorf("sync, heartbeat and leave: codes %d, %d and %d, want 24", a, b, d)
		}
	})
}

func TestParkedJoinHoldsNoFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, map[string]string{"gateway.request.memory.bytes": "1048576"})
		m := s.member(t, groupVersions{join: 3})
		req := m.joinRequest()
		req.Protocols[0].Metadata = bytes.Repeat([]byte("x"), 500_000)
		id := m.send(req)
		synctest.Wait()
		if held := s.s.Stats().RequestBytes; held != 0 {
			t.Errorf("a parked join holds %d bytes, want none", held)
		}
		r := m.receive(req, id).(*kmsg.JoinGroupResponse)
		if len(r.Members) != 1 || !bytes.Equal(r.Members[0].ProtocolMetadata, req.Protocols[0].Metadata) {
			t.Error("the leader did not get the metadata that was sent")
		}
	})
}

// TestParkedJoinGivesWayToOthersForWhatIsBehindIt lets a parked join end when others wait for the memory of a request
// that its connection has sent behind it.
func TestParkedJoinGivesWayToOthersForWhatIsBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, map[string]string{"gateway.request.memory.bytes": "1048576", "group.initial.rebalance.delay.ms": "60000"})
		s.topic("orders", 1)
		m, other := s.member(t, groupVersions{join: 3}), s.dial(t)
		produce := s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("x", 800_000))})
		join := m.joinRequest()
		m.pipeline(join, produce)
		synctest.Wait()
		other.pipeline(produce)
		if r := m.receive(join, 1).(*kmsg.JoinGroupResponse); r.ErrorCode != 15 {
			t.Errorf("the join is answered by %d, want 15", r.ErrorCode)
		}
		m.receive(produce, 2)
		other.receive(produce, 1)
	})
}

func TestClientHostIsWrittenAsJavaDoes(t *testing.T) {
	for _, c := range []struct {
		addr net.Addr
		want string
	}{
		{&net.TCPAddr{IP: net.IPv4(10, 0, 0, 7), Port: 40000}, "/10.0.0.7"},
		{&net.TCPAddr{IP: net.ParseIP("::ffff:10.0.0.7"), Port: 40000}, "/10.0.0.7"},
		{&net.TCPAddr{IP: net.ParseIP("::1"), Port: 40000}, "/0:0:0:0:0:0:0:1"},
		{&net.TCPAddr{IP: net.ParseIP("2001:db8::a:0:b"), Port: 40000}, "/2001:db8:0:0:0:a:0:b"},
		{&net.TCPAddr{IP: net.ParseIP("fe80::1"), Zone: "eth0", Port: 40000}, "/fe80:0:0:0:0:0:0:1%eth0"},
		{pipeAddr{}, "/pipe"},
	} {
		if got := clientHost(c.addr); got != c.want {
			t.Errorf("%v: got %s, want %s", c.addr, got, c.want)
		}
	}
}
