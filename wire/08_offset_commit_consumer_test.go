package wire

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerHeartbeat sends a heartbeat of a member that reads orders, and returns its epoch.
func (b *broker) consumerHeartbeat(memberID string, epoch int32) int32 {
	b.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, "g", memberID, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 60_000, []string{"orders"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](b, req)
	if resp.ErrorCode != 0 {
		b.t.Fatalf("heartbeat of %s in epoch %d: code %d, %s", memberID, epoch, resp.ErrorCode, deref(resp.ErrorMessage))
	}
	return resp.MemberEpoch
}

// TestOffsetsOfAConsumerGroupAtEveryVersion holds who may commit, fetch and delete against a group by KIP-848.
func TestOffsetsOfAConsumerGroupAtEveryVersion(t *testing.T) {
	for v := int16(2); v <= 10; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := withGroups(newBroker(t, nil))
				b.topic("orders", 1)
				b.topic("other", 1)
				epoch := b.consumerHeartbeat("m", 0)
				commit := func(what, memberID string, epoch int32, want int16) {
					t.Helper()
					req := b.commitRequest(v, "orders", 0)
					req.MemberID, req.Generation = memberID, epoch
					if got := b.commitCode(req); got != want {
						t.Errorf("commit of %s: %d, want %d", what, got, want)
					}
				}
				current, other := int16(0), int16(113)
				if v < 9 {
					current, other = 35, 35
				}
				commit("the member", "m", epoch, current)
				commit("the member in an epoch to come", "m", epoch+1, other)
				commit("the member before it had the partition", "m", epoch-1, other)
				commit("an unknown member", "ghost", epoch, 25)
				commit("nobody", "", -1, 25)

				fetch := func(what string, memberID *string, epoch int32, want int16) {
					t.Helper()
					req := kmsg.NewPtrOffsetFetchRequest()
					req.Version = max(v, 8)
					group := kmsg.NewOffsetFetchRequestGroup()
					group.Group, group.MemberID, group.MemberEpoch = "g", memberID, epoch
					req.Groups = append(req.Groups, group)
					if req.Version < 9 {
						want = 0 // which does not say who asks
					}
					if got := ask[*kmsg.OffsetFetchResponse](b, req).Groups[0].ErrorCode; got != want {
						t.Errorf("fetch of %s: %d, want %d", what, got, want)
					}
				}
				fetch("the member", kmsg.StringPtr("m"), epoch, 0)
				fetch("nobody", nil, -1, 0)
				fetch("an unknown member", kmsg.StringPtr("ghost"), epoch, 25)
				fetch("the member in another epoch", kmsg.StringPtr("m"), epoch+1, 113)

				remove := offsetDeleteRequest("g", offsetDeleteTopic("orders", 0), offsetDeleteTopic("other", 0))
				if got, want := offsetDeleteLines(ask[*kmsg.OffsetDeleteResponse](b, remove)), "0: orders-0 86 other-0 0"; got != want {
					t.Errorf("deletion of offsets: got %s, want %s", got, want)
				}
				if got, want := deleteLines(ask[*kmsg.DeleteGroupsResponse](b, deleteRequest(3, "g"))), `"g" 68;`; got != want {
					t.Errorf("deletion with a member: got %s, want %s", got, want)
				}
				if got := b.listed(5, nil, []string{"Consumer"}); len(got) != 1 || got[0] != `g "consumer" Stable consumer` {
					t.Errorf("listed %q, want g as a consumer group", got)
				}
				b.consumerHeartbeat("m", -1)
				commit("nobody in the emptied group", "", -1, 0)
				if got, want := deleteLines(ask[*kmsg.DeleteGroupsResponse](b, deleteRequest(0, "g"))), `"g" 0;`; got != want {
					t.Errorf("deletion of the emptied group: got %s, want %s", got, want)
				}
				if got := b.listed(5, nil, nil); len(got) != 0 {
					t.Errorf("listed %q after the deletion, want none", got)
				}
			})
		})
	}
}
