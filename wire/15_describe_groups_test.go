package wire

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeOfAnUnknownGroup(t *testing.T) {
	t.Run("GRP-12 is Dead, and not found from version 6 on", func(t *testing.T) {
		for v := range int16(7) {
			b := withGroups(newBroker(t, nil))
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Version, req.Groups = v, []string{"ghost", "ghost"}
			r := ask[*kmsg.DescribeGroupsResponse](b, req)
			if len(r.Groups) != 2 {
				t.Fatalf("version %d: %d groups, want one for each asked", v, len(r.Groups))
			}
			want := int16(0)
			if v >= 6 {
				want = 69
			}
			if g := r.Groups[1]; g.ErrorCode != want || g.State != "Dead" || len(g.Members) != 0 || g.Group != "ghost" || (g.ErrorMessage != nil) != (v >= 6) || g.AuthorizedOperations != noOperations {
				t.Errorf("version %d: got %+v, want code %d and state Dead", v, g, want)
			}
		}
	})
}

func TestDescribeOfASimpleGroup(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 1)
	b.commitCode(b.commitRequest(8, "orders", 0))
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 6, []string{"g"}
	if g := ask[*kmsg.DescribeGroupsResponse](b, req).Groups[0]; g.ErrorCode != 0 || g.State != "Empty" || g.ProtocolType != "" {
		t.Errorf("got %+v, want an empty group without a type", g)
	}
}

// TestCommitsAndFetchesInEachState holds a member's offsets against the state of its group: a rebalance closes writing
// for those who have joined, never reading.
func TestCommitsAndFetchesInEachState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
		s.topic("orders", 1)
		leader, follower := s.pair(t, groupVersions{9, 4, 5, 5, 6})
		expect := func(state string, want int16) {
			t.Helper()
			if d := leader.describe(); d.State != state {
				t.Errorf("state %s, want %s", d.State, state)
			}
			commit := s.commitRequest(9, "orders", 0)
			commit.Group, commit.MemberID, commit.Generation = "kitchen", follower.id, follower.generation
			if code := leader.call(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != want {
				t.Errorf("commit in %s: %d, want %d", state, code, want)
			}
			commit.Generation--
			if code := leader.call(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 22 {
				t.Errorf("commit of an old generation in %s: %d, want 22", state, code)
			}
			commit.MemberID, commit.Generation = "", -1
			if code := leader.call(commit).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; code != 25 {
				t.Errorf("commit of nobody in %s: %d, want 25", state, code)
			}
			fetch := kmsg.NewPtrOffsetFetchRequest()
			fetch.Version, fetch.Group = 7, "kitchen"
			if r := leader.call(fetch).(*kmsg.OffsetFetchResponse); r.ErrorCode != 0 || fmt.Sprint(len(r.Topics)) != "1" {
				t.Errorf("fetch in %s: %+v, want what is committed", state, r)
			}
		}
		expect("Stable", 0)
		joining := s.dial(t)
		rejoin := leader.joinRequest()
		id := joining.send(rejoin)
		synctest.Wait()
		expect("PreparingRebalance", 0)
		follower.join()
		joining.receive(rejoin, id)
		expect("CompletingRebalance", 27)
	})
}
