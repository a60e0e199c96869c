package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describe asks for topics, from a cursor on if partition is not negative.
func (b *broker) describe(limit int32, cursor string, partition int32, topics ...string) *kmsg.DescribeTopicPartitionsResponse {
	b.t.Helper()
	req := kmsg.NewPtrDescribeTopicPartitionsRequest()
	req.ResponsePartitionLimit = limit
	for _, name := range topics {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = name
		req.Topics = append(req.Topics, t)
	}
	if cursor != "" {
		req.Cursor = &kmsg.DescribeTopicPartitionsRequestCursor{Topic: cursor, Partition: partition}
	}
	return ask[*kmsg.DescribeTopicPartitionsResponse](b, req)
}

// pages follows the cursors and returns what each page says, as "topic/partition".
func (b *broker) pages(limit int32, topics ...string) [][]string {
	b.t.Helper()
	var out [][]string
	cursor, partition := "", int32(0)
	for len(out) < 20 {
		resp := b.describe(limit, cursor, partition, topics...)
		var page []string
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				page = append(page, fmt.Sprintf("%s/%d", deref(t.Topic), p.Partition))
			}
		}
		out = append(out, page)
		if resp.NextCursor == nil {
			return out
		}
		cursor, partition = resp.NextCursor.Topic, resp.NextCursor.Partition
	}
	b.t.Fatalf("no end after %d pages", len(out))
	return nil
}

func TestDescribeTopicPartitionsByPages(t *testing.T) {
	b := newBroker(t, map[string]string{"max.request.partition.size.limit": "4"})
	b.topic("b", 3)
	b.topic("a", 2)
	b.topic("c", 1)
	tests := []struct {
		limit  int32
		topics []string
		want   string
	}{
		{2000, nil, "[[a/0 a/1 b/0 b/1] [b/2 c/0]]"}, // the broker's limit
		{2, nil, "[[a/0 a/1] [b/0 b/1] [b/2 c/0]]"},
		{3, []string{"c", "b", "b"}, "[[b/0 b/1 b/2] [c/0]]"},
		{0, []string{"a"}, "[[a/0] [a/1]]"},
		{-5, []string{"c"}, "[[c/0]]"},
	}
	for _, test := range tests {
		if got := fmt.Sprint(b.pages(test.limit, test.topics...)); got != test.want {
			t.Errorf("limit %d of %v: %s, want %s", test.limit, test.topics, got, test.want)
		}
	}
}

func TestDescribeTopicPartitionsOfOne(t *testing.T) {
	b := newBroker(t, nil)
	made := b.topic("orders", 1)
	resp := b.describe(10, "", 0, "orders", "ghost", "a b")
	names := []string{}
	for _, topic := range resp.Topics {
		names = append(names, fmt.Sprintf("%s %d", deref(topic.Topic), topic.ErrorCode))
	}
	if !slices.Equal(names, []string{"a b 17", "ghost 3", "orders 0"}) {
		t.Fatalf("topics %q, want them sorted, with their codes", names)
	}
	topic := resp.Topics[2]
	if topic.TopicID != made.ID() || topic.IsInternal || topic.AuthorizedOperations != 3576 {
		t.Errorf("topic %+v, want id %s, and operations", topic, made.ID())
	}
	p := topic.Partitions[0]
	if p.ErrorCode != 0 || p.LeaderID != 1 || p.LeaderEpoch != b.store.LeaderEpoch() || len(p.Replicas) != 1 || len(p.ISR) != 1 ||
		p.EligibleLeaderReplicas == nil || len(p.EligibleLeaderReplicas) != 0 || p.LastKnownELR == nil || len(p.OfflineReplicas) != 0 {
		t.Errorf("partition %+v, want leader 1 and nobody else", p)
	}
}

func TestDescribeTopicPartitionsChecksTheCursor(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("orders", 2)
	for _, resp := range []*kmsg.DescribeTopicPartitionsResponse{
		b.describe(10, "users", 0, "orders"),
		b.describe(10, "orders", -1, "orders"),
	} {
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode != 42 || len(resp.Topics[0].Partitions) != 0 {
			t.Errorf("answer %+v, want code 42", resp.Topics)
		}
	}
	if got := fmt.Sprint(b.describe(10, "orders", 1, "orders").Topics[0].Partitions[0].Partition); got != "1" {
		t.Errorf("first partition from the cursor is %s, want 1", got)
	}
}
