package wire

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsetDeleteRequest names partitions by topic, in order.
func offsetDeleteRequest(group string, topics ...kmsg.OffsetDeleteRequestTopic) *kmsg.OffsetDeleteRequest {
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group, req.Topics = group, topics
	return req
}

func offsetDeleteTopic(name string, partitions ...int32) kmsg.OffsetDeleteRequestTopic {
	t := kmsg.OffsetDeleteRequestTopic{Topic: name}
	for _, p := range partitions {
		t.Partitions = append(t.Partitions, kmsg.OffsetDeleteRequestTopicPartition{Partition: p})
	}
	return t
}

func offsetDeleteLines(resp *kmsg.OffsetDeleteResponse) string {
	text := fmt.Sprintf("%d:", resp.ErrorCode)
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			text += fmt.Sprintf(" %s-%d %d", t.Topic, p.Partition, p.ErrorCode)
		}
	}
	return text
}

func TestOffsetDelete(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 3)
	for p := range int32(2) {
		b.commitCode(b.commitRequest(8, "orders", p))
	}
	for _, c := range []struct {
		what string
		req  *kmsg.OffsetDeleteRequest
		want string
	}{
		{"no group", offsetDeleteRequest("", offsetDeleteTopic("orders", 0)), "24:"},
		{"an unknown group", offsetDeleteRequest("ghost", offsetDeleteTopic("orders", 0), offsetDeleteTopic("ghost", 0)), "69:"},
		{"one offset, one that is not committed, some that are not there",
			offsetDeleteRequest("g", offsetDeleteTopic("ghost", 0), offsetDeleteTopic("orders", 0, 2, 3, -1)),
			"0: ghost-0 3 orders-0 0 orders-2 0 orders-3 3 orders--1 3"},
		{"the same again", offsetDeleteRequest("g", offsetDeleteTopic("orders", 0)), "0: orders-0 0"},
		{"nothing", offsetDeleteRequest("g"), "0:"},
	} {
		if got := offsetDeleteLines(ask[*kmsg.OffsetDeleteResponse](b, c.req)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	if b.committed("orders", 0).Found || !b.committed("orders", 1).Found {
		t.Error("want orders-0 without an offset and orders-1 with one")
	}
	ask[*kmsg.OffsetDeleteResponse](b, offsetDeleteRequest("g", offsetDeleteTopic("orders", 1, 1)))
	if got := offsetDeleteLines(ask[*kmsg.OffsetDeleteResponse](b, offsetDeleteRequest("g", offsetDeleteTopic("orders", 1)))); got != "0: orders-1 0" {
		t.Errorf("a group that has lost its last offset: got %s, want it to be known still", got)
	}
}

// Offsets of a topic that members of a consumer group read are kept; another kind of group must be empty.
func TestOffsetDeleteOfAnActiveGroup(t *testing.T) {
	for _, x := range []struct {
		protocolType, want string
	}{
		{"consumer", "0: orders-0 86 other-0 0"},
		{"connect", "68:"},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
			s.topic("orders", 1)
			s.topic("other", 1)
			m := s.member(t, groupVersions{join: 3})
			req := m.joinRequest()
			req.ProtocolType = x.protocolType
			// A subscription to orders. Kafka: ConsumerProtocolSubscription version 0.
			req.Protocols[0].Metadata = append(append([]byte{0, 0, 0, 0, 0, 1, 0, 6}, "orders"...), 255, 255, 255, 255)
			m.joined(m.call(req).(*kmsg.JoinGroupResponse))
			sync := m.syncRequest(map[string]string{m.id: "all"})
			sync.Version = 4
			m.call(sync)
			got := offsetDeleteLines(m.call(offsetDeleteRequest("kitchen", offsetDeleteTopic("orders", 0), offsetDeleteTopic("other", 0))).(*kmsg.OffsetDeleteResponse))
			if got != x.want {
				t.Errorf("protocol type %s: got %s, want %s", x.protocolType, got, x.want)
			}
		})
	}
}
