package wire

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// checkRepeats checks the answer to a request that names a group of some 50 KB again and again: as often as it is named
// while there is room, and never without bound.
func checkRepeats[G any](t *testing.T, named func(n int) (kmsg.Response, []G), code func(G) int16) {
	t.Helper()
	_, few := named(3)
	for i, g := range few {
		if code(g) != 0 || !reflect.DeepEqual(g, few[0]) {
			t.Errorf("the %d. of 3 is not the first, with error %d", i+1, code(g))
		}
	}
	const n = 500
	resp, many := named(n)
	if len(many) != n || code(many[0]) != 0 || code(many[n-1]) != 42 {
		t.Errorf("got %d answers, the first with error %d, the last %d; want %d, 0, 42", len(many), code(many[0]), code(many[n-1]), n)
	}
	if size, most := len(resp.AppendTo(nil)), mostRepeated+1<<20; size > most {
		t.Errorf("the answer is %d bytes, want no more than %d", size, most)
	}
}

// manyTopics are the names of topics, 50 KB in all.
func manyTopics() []string {
	names := make([]string, 500)
	for i := range names {
		names[i] = fmt.Sprintf("%0100d", i)
	}
	return names
}

func again(name string, n int) []string {
	return strings.Split(strings.Repeat(name+" ", n-1)+name, " ")
}

func TestGroupsNamedOftenAreDescribedWithinBounds(t *testing.T) {
	b := withGroups(newBroker(t, map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 3, "g", 10000, 10000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 50<<10)}}
	joined := ask[*kmsg.JoinGroupResponse](b, join)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.Generation, sync.MemberID = 1, "g", joined.Generation, joined.MemberID
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID}}
	if resp := ask[*kmsg.SyncGroupResponse](b, sync); joined.ErrorCode != 0 || resp.ErrorCode != 0 {
		t.Fatalf("join: error %d, sync: error %d", joined.ErrorCode, resp.ErrorCode)
	}
	for _, v := range []int16{0, 4, 6} {
		checkRepeats(t, func(n int) (kmsg.Response, []kmsg.DescribeGroupsResponseGroup) {
			req := kmsg.NewPtrDescribeGroupsRequest()
			req.Version, req.Groups = v, again("g", n)
			resp := ask[*kmsg.DescribeGroupsResponse](b, req)
			return resp, resp.Groups
		}, func(g kmsg.DescribeGroupsResponseGroup) int16 { return g.ErrorCode })
	}
}

func TestConsumerGroupsNamedOftenAreDescribedWithinBounds(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Version, beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = 1, "g", "m", 10000
	beat.SubscribedTopicNames, beat.Topics = manyTopics(), []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](b, beat); resp.ErrorCode != 0 {
		t.Fatalf("heartbeat: error %d, %s", resp.ErrorCode, deref(resp.ErrorMessage))
	}
	checkRepeats(t, func(n int) (kmsg.Response, []kmsg.ConsumerGroupDescribeResponseGroup) {
		req := kmsg.NewPtrConsumerGroupDescribeRequest()
		req.Version, req.Groups = 1, again("g", n)
		resp := ask[*kmsg.ConsumerGroupDescribeResponse](b, req)
		return resp, resp.Groups
	}, func(g kmsg.ConsumerGroupDescribeResponseGroup) int16 { return g.ErrorCode })
}

func TestShareGroupsNamedOftenAreDescribedWithinBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withShareGroups(newBroker(t, nil))
		b.topic("orders", 2000)
		b.shareBeat(shareHeartbeat("m", 0, append(manyTopics(), "orders")...))
		checkRepeats(t, func(n int) (kmsg.Response, []kmsg.ShareGroupDescribeResponseGroup) {
			req := kmsg.NewPtrShareGroupDescribeRequest()
			req.Version, req.GroupIDs = 1, again("g", n)
			resp := ask[*kmsg.ShareGroupDescribeResponse](b, req)
			return resp, resp.Groups
		}, func(g kmsg.ShareGroupDescribeResponseGroup) int16 { return g.ErrorCode })
		checkRepeats(t, func(n int) (kmsg.Response, []kmsg.DescribeShareGroupOffsetsResponseGroup) {
			req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
			req.Version = 1
			for range n {
				req.Groups = append(req.Groups, kmsg.DescribeShareGroupOffsetsRequestGroup{GroupID: "g"})
			}
			resp := ask[*kmsg.DescribeShareGroupOffsetsResponse](b, req)
			return resp, resp.Groups
		}, func(g kmsg.DescribeShareGroupOffsetsResponseGroup) int16 { return g.ErrorCode })
	})
}

// An offset with metadata may be asked for as often as it is a number of four bytes.
func TestOffsetsNamedOftenAreFetchedWithinBounds(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 1)
	commit := b.commitRequest(8, "orders", 0)
	commit.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("m", 4096))
	b.commitCode(commit)
	for _, v := range []int16{1, 7, 8, 9} {
		fetch := func(n int) (size int, lines []string) {
			code, lines := b.fetchOffsets(v, "g", map[string][]int32{"orders": make([]int32, n)})
			if code != 0 {
				t.Fatalf("version %d: error %d", v, code)
			}
			for _, l := range lines {
				size += len(l)
			}
			return size, lines
		}
		if _, lines := fetch(3); lines[0] != lines[2] || !strings.HasSuffix(lines[2], `" error 0`) {
			t.Errorf("version %d: three times named, at last answered %.30q", v, lines[2])
		}
		const n = 4000
		size, lines := fetch(n)
		if want := `orders-0: -1 epoch -1 "" error 42`; len(lines) != n || lines[n-1] != want {
			t.Errorf("version %d: %d answers, the last %.40q; want %d, %q", v, len(lines), lines[n-1], n, want)
		}
		if most := mostRepeated + n*40; size > most {
			t.Errorf("version %d: the answer is %d bytes, want no more than %d", v, size, most)
		}
	}
}

// What is small is said as often as it is named, also when there is no room for anything larger.
func TestSmallAnswersAreSaidAsOftenAsTheyAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100_000
		b := withShareGroups(newBroker(t, nil))
		names := again("ghost", n)
		check := func(what string, got int, code func(i int) int16) {
			t.Helper()
			for i := range got {
				if code(i) != 69 {
					t.Errorf("%s: the %d. answer of %d is error %d, want 69", what, i+1, got, code(i))
					return
				}
			}
			if got != n {
				t.Errorf("%s: %d answers, want %d", what, got, n)
			}
		}
		classic := kmsg.NewPtrDescribeGroupsRequest()
		classic.Version, classic.Groups = 6, names
		groups := ask[*kmsg.DescribeGroupsResponse](b, classic).Groups
		check("DescribeGroups", len(groups), func(i int) int16 { return groups[i].ErrorCode })
		consumer := kmsg.NewPtrConsumerGroupDescribeRequest()
		consumer.Version, consumer.Groups = 1, names
		consumers := ask[*kmsg.ConsumerGroupDescribeResponse](b, consumer).Groups
		check("ConsumerGroupDescribe", len(consumers), func(i int) int16 { return consumers[i].ErrorCode })
		shared := kmsg.NewPtrShareGroupDescribeRequest()
		shared.Version, shared.GroupIDs = 1, names
		shares := ask[*kmsg.ShareGroupDescribeResponse](b, shared).Groups
		check("ShareGroupDescribe", len(shares), func(i int) int16 { return shares[i].ErrorCode })
	})
	left := newRepeats()
	if left.take(&answered{size: mostRepeated + 1}, "large") || left.take(&answered{size: 1000}, "ghost") {
		t.Error("there is room behind what had none")
	}
	if !left.take(&answered{size: 100}, "ghost") || !left.take(&answered{size: 60_000}, strings.Repeat("g", 30_000)) {
		t.Error("there is no room for what is in proportion to its name")
	}
}
