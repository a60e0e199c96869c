package wire

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// withShareGroups is withGroups with states of share partitions, which are forgotten at the end.
func withShareGroups(b *broker) *broker {
	var (
		mu     sync.Mutex
		starts = map[groups.SharePartition]int64{}
	)
	set := func(_ context.Context, p groups.SharePartition, start int64) error {
		mu.Lock()
		defer mu.Unlock()
		starts[p] = start
		return nil
	}
	return b.withCoordinators(groups.Options{ShareState: groups.ShareState{
		Initialize: set, SetStart: set,
		Delete: func(_ context.Context, p groups.SharePartition) error {
			mu.Lock()
			defer mu.Unlock()
			delete(starts, p)
			return nil
		},
		Summary: func(p groups.SharePartition) (int64, int32, bool) {
			mu.Lock()
			defer mu.Unlock()
			start, ok := starts[p]
			return start, 1, ok
		},
	}})
}

func shareHeartbeat(memberID string, epoch int32, topics ...string) *kmsg.ShareGroupHeartbeatRequest {
	req := kmsg.NewPtrShareGroupHeartbeatRequest()
	req.Version, req.GroupID, req.MemberID, req.MemberEpoch, req.SubscribedTopicNames = 1, "g", memberID, epoch, topics
	return req
}

// shareBeat sends a heartbeat and returns the epoch and the number of partitions, -1 for as before.
func (b *broker) shareBeat(req *kmsg.ShareGroupHeartbeatRequest) (epoch int32, partitions int) {
	b.t.Helper()
	resp := ask[*kmsg.ShareGroupHeartbeatResponse](b, req)
	if resp.ErrorCode != 0 {
		b.t.Fatalf("heartbeat of %s in epoch %d: code %d, %s", req.MemberID, req.MemberEpoch, resp.ErrorCode, deref(resp.ErrorMessage))
	}
	synctest.Wait() // for states to be made
	if resp.Assignment == nil {
		return resp.MemberEpoch, -1
	}
	for _, t := range resp.Assignment.TopicPartitions {
		partitions += len(t.Partitions)
	}
	return resp.MemberEpoch, partitions
}

func shareDescription(b *broker, names ...string) string {
	b.t.Helper()
	req := kmsg.NewPtrShareGroupDescribeRequest()
	req.Version, req.GroupIDs, req.IncludeAuthorizedOperations = 1, names, true
	var out []string
	for _, g := range ask[*kmsg.ShareGroupDescribeResponse](b, req).Groups {
		text := fmt.Sprintf("%q %d", g.GroupID, g.ErrorCode)
		if g.ErrorCode == 0 {
			text += fmt.Sprintf(" %s %d/%d %s %t", g.GroupState, g.GroupEpoch, g.AssignmentEpoch, g.Assignor, g.AuthorizedOperations > 0)
		}
		for _, m := range g.Members {
			text += fmt.Sprintf(" %s@%d %s %v", m.MemberID, m.MemberEpoch, m.ClientHost, m.SubscribedTopicNames)
			for _, p := range m.Assignment.TopicPartitions {
				text += fmt.Sprintf(" %s%v", p.Topic, p.Partitions)
			}
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

func TestShareGroupHeartbeatAndDescribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withShareGroups(newBroker(t, nil))
		b.topic("orders", 2)
		for what, c := range map[string]struct {
			req  *kmsg.ShareGroupHeartbeatRequest
			want int16
		}{
			"no member id":           {shareHeartbeat("", 0, "orders"), 42},
			"a member id too long":   {shareHeartbeat(strings.Repeat("m", 37), 0, "orders"), 42},
			"no topics":              {shareHeartbeat("m", 0), 42},
			"an unknown group":       {shareHeartbeat("m", 3), 69},
			"an epoch that is none":  {shareHeartbeat("m", -2), 42},
			"leave of unknown group": {shareHeartbeat("m", -1), 69},
		} {
			if got := ask[*kmsg.ShareGroupHeartbeatResponse](b, c.req).ErrorCode; got != c.want {
				t.Errorf("heartbeat with %s: code %d, want %d", what, got, c.want)
			}
		}
		epoch, n := b.shareBeat(shareHeartbeat("m", 0, "orders"))
		if epoch != 2 || n != 0 {
			t.Errorf("join: epoch %d, %d partitions; want 2, none", epoch, n)
		}
		b.shareBeat(shareHeartbeat("m", epoch))
		b.now = b.now.Add(1e9)
		if epoch, n = b.shareBeat(shareHeartbeat("m", epoch)); epoch != 3 || n != 2 {
			t.Errorf("once states are made: epoch %d, %d partitions; want 3, 2", epoch, n)
		}
		if epoch, n = b.shareBeat(shareHeartbeat("m", epoch)); epoch != 3 || n != -1 {
			t.Errorf("nothing new: epoch %d, %d partitions; want 3, as before", epoch, n)
		}
		got := shareDescription(b, "g", "ghost", "")
		if want := `"g" 0 Stable 3/3 simple true m@3 / [orders] orders[0 1]; "ghost" 69; "" 24`; got != want {
			t.Errorf("described as %s, want %s", got, want)
		}
		if got := b.listed(5, nil, []string{"share"}); len(got) != 1 || got[0] != `g "share" Stable share` {
			t.Errorf("listed as %v", got)
		}
		if got := ask[*kmsg.ConsumerGroupDescribeResponse](b, func() kmsg.Request {
			req := kmsg.NewPtrConsumerGroupDescribeRequest()
			req.Groups = []string{"g"}
			return req
		}()).Groups[0].ErrorCode; got != 69 {
			t.Errorf("described as a consumer group: code %d, want 69", got)
		}
		if got, want := deleteLines(ask[*kmsg.DeleteGroupsResponse](b, deleteRequest(3, "g"))), `"g" 68;`; got != want {
			t.Errorf("deletion with a member: got %s, want %s", got, want)
		}
		b.shareBeat(shareHeartbeat("m", -1))
		if got, want := deleteLines(ask[*kmsg.DeleteGroupsResponse](b, deleteRequest(3, "g"))), `"g" 0;`; got != want {
			t.Errorf("deletion: got %s, want %s", got, want)
		}
	})
}

// shareOffsets describes where g stands in a topic at a version; no partitions ask for all.
func shareOffsets(b *broker, version int16, group, topic string, partitions ...int32) string {
	b.t.Helper()
	req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	req.Version = version
	g := kmsg.NewDescribeShareGroupOffsetsRequestGroup()
	g.GroupID = group
	if partitions != nil {
		t := kmsg.NewDescribeShareGroupOffsetsRequestGroupTopic()
		t.Topic, t.Partitions = topic, partitions
		g.Topics = append(g.Topics, t)
	}
	req.Groups = append(req.Groups, g)
	resp := ask[*kmsg.DescribeShareGroupOffsetsResponse](b, req).Groups[0]
	text := fmt.Sprintf("%s %d", resp.GroupID, resp.ErrorCode)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			text += fmt.Sprintf(" %s-%d %d lag %d code %d", t.Topic, p.Partition, p.StartOffset, p.Lag, p.ErrorCode)
		}
	}
	return text
}

func TestShareGroupOffsetsAtEveryVersion(t *testing.T) {
	for v := range int16(2) {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := withShareGroups(newBroker(t, nil))
				b.topic("orders", 2)
				want := func(what, got, want string) {
					t.Helper()
					if v == 0 {
						want = strings.ReplaceAll(want, "lag 3", "lag -1") // which has no lag
						want = strings.ReplaceAll(want, "lag -6", "lag -1")
					}
					if got != want {
						t.Errorf("%s: got %s, want %s", what, got, want)
					}
				}
				alter := func(group, topic string, offsets ...int64) string {
					req := kmsg.NewPtrAlterShareGroupOffsetsRequest()
					req.GroupID = group
					rt := kmsg.NewAlterShareGroupOffsetsRequestTopic()
					rt.Topic = topic
					for p, offset := range offsets {
						partition := kmsg.NewAlterShareGroupOffsetsRequestTopicPartition()
						partition.Partition, partition.StartOffset = int32(p), offset
						rt.Partitions = append(rt.Partitions, partition)
					}
					req.Topics = append(req.Topics, rt)
					resp := ask[*kmsg.AlterShareGroupOffsetsResponse](b, req)
					text := fmt.Sprint(resp.ErrorCode)
					for _, t := range resp.Topics {
						for _, p := range t.Partitions {
							text += fmt.Sprintf(" %s-%d %d", t.Topic, p.Partition, p.ErrorCode)
						}
					}
					return text
				}
				remove := func(group string, topics ...string) string {
					req := kmsg.NewPtrDeleteShareGroupOffsetsRequest()
					req.GroupID = group
					for _, name := range topics {
						rt := kmsg.NewDeleteShareGroupOffsetsRequestTopic()
						rt.Topic = name
						req.Topics = append(req.Topics, rt)
					}
					resp := ask[*kmsg.DeleteShareGroupOffsetsResponse](b, req)
					text := fmt.Sprint(resp.ErrorCode)
					for _, t := range resp.Topics {
						text += fmt.Sprintf(" %s %d", t.Topic, t.ErrorCode)
					}
					return text
				}
				want("no group", shareOffsets(b, v, "g", ""), "g 0")
				want("no state", shareOffsets(b, v, "g", "orders", 0), "g 0 orders-0 -1 lag -1 code 0")
				want("no topic", shareOffsets(b, v, "g", "ghosts", 4), "g 0 ghosts-4 -1 lag -1 code 0")
				want("alteration without a group", alter("", "orders", 1), "24")
				want("alteration of an unknown topic", alter("g", "ghosts", 1), "0 ghosts-0 3")
				want("alteration", alter("g", "orders", 5, 0, 9), "0 orders-0 0 orders-1 0 orders-2 3")
				want("offsets", shareOffsets(b, v, "g", ""), "g 0 orders-0 5 lag -6 code 0 orders-1 0 lag -1 code 0")
				b.shareBeat(shareHeartbeat("m", 0, "orders"))
				want("alteration with a member", alter("g", "orders", 5), "68")
				want("deletion with a member", remove("g", "orders"), "68")
				b.shareBeat(shareHeartbeat("m", -1))
				want("deletion of no group", remove("ghost", "orders"), "69")
				want("deletion without a group", remove("", "orders"), "24")
				want("deletion", remove("g", "ghosts", "orders"), "0 orders 0 ghosts 3")
				want("deletion again", remove("g", "orders"), "0 orders 3")
				want("offsets", shareOffsets(b, v, "g", ""), "g 0")
			})
		})
	}
}

// TestShareGroupsThatAreNotServed: without states there are no share groups. Kafka: share.version 0.
func TestShareGroupsThatAreNotServed(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	if got := ask[*kmsg.ShareGroupHeartbeatResponse](b, shareHeartbeat("m", 0, "orders")).ErrorCode; got != 35 {
		t.Errorf("heartbeat: code %d, want 35", got)
	}
	if got, want := shareDescription(b, "g"), `"g" 35`; got != want {
		t.Errorf("described as %s, want %s", got, want)
	}
	if got, want := shareOffsets(b, 1, "g", ""), "g 35"; got != want {
		t.Errorf("offsets: %s, want %s", got, want)
	}
	if got := ask[*kmsg.AlterShareGroupOffsetsResponse](b, kmsg.NewPtrAlterShareGroupOffsetsRequest()).ErrorCode; got != 35 {
		t.Errorf("alteration: code %d, want 35", got)
	}
	if got := ask[*kmsg.DeleteShareGroupOffsetsResponse](b, kmsg.NewPtrDeleteShareGroupOffsetsRequest()).ErrorCode; got != 35 {
		t.Errorf("deletion: code %d, want 35", got)
	}
}
