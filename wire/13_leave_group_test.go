package wire

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestLeaveGroupOfSeveral(t *testing.T) {
	t.Run("GRP-10 each has its own answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
			latest := groupVersions{9, 4, 5, 5, 6}
			dynamic := s.member(t, latest)
			dynamic.join()
			dynamic.call(dynamic.syncRequest(nil))
			static := s.member(t, latest)
			static.instance = kmsg.StringPtr("i1")
			join := static.joinRequest()
			id := static.send(join)
			synctest.Wait()
			dynamic.join()
			static.receive(join, id)
			leave := kmsg.NewPtrLeaveGroupRequest()
			leave.Version, leave.Group = 4, "kitchen"
			leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: dynamic.id}, {MemberID: "ghost"}, {InstanceID: kmsg.StringPtr("i1")}}
			r := dynamic.call(leave).(*kmsg.LeaveGroupResponse)
			if r.ErrorCode != 0 || len(r.Members) != 3 || r.Members[0].ErrorCode != 0 || r.Members[1].ErrorCode != 25 || r.Members[2].ErrorCode != 0 {
				t.Errorf("got %+v, want 0 and for each member 0, 25, 0", r)
			}
			if m := r.Members[2]; m.MemberID != "" || deref(m.InstanceID) != "i1" {
				t.Errorf("the third is %q %q, want it as it was asked", m.MemberID, deref(m.InstanceID))
			}
			if d := dynamic.describe(); d.State != "Empty" {
				t.Errorf("the group is %s, want Empty", d.State)
			}
			leave.Group = "ghosts"
			r = dynamic.call(leave).(*kmsg.LeaveGroupResponse)
			if r.ErrorCode != 0 || len(r.Members) != 3 || r.Members[0].ErrorCode != 25 || r.Members[2].ErrorCode != 25 {
				t.Errorf("unknown group: got %+v, want 0 and 25 for each member", r)
			}
		})
	})
	t.Run("older versions have one answer", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, nil)
			for v := range int16(3) {
				m := s.member(t, groupVersions{leave: v})
				m.id = "ghost"
				if r := m.leave(); r.ErrorCode != 25 || len(r.Members) != 0 {
					t.Errorf("version %d: got %+v, want 25", v, r)
				}
			}
		})
	})
}

func TestSessionEndsWithoutHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
		m := s.member(t, groupVersions{9, 4, 5, 5, 6})
		m.join()
		m.call(m.syncRequest(nil))
		for range 3 {
			wait(9 * time.Second)
			if code := m.heartbeat(); code != 0 {
				t.Errorf("heartbeat within the session: %d", code)
			}
		}
		wait(10*time.Second + 2*time.Millisecond)
		if code := m.heartbeat(); code != 25 {
			t.Errorf("heartbeat after the session: %d, want 25", code)
		}
	})
}
