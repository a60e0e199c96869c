package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What Kafka's own handlers fail over is answered with the code that they fail with.

func TestIsolationLevelThatDoesNotExist(t *testing.T) {
	b := newBroker(t, nil)
	topic := b.topic("orders", 1)
	for _, version := range []int16{4, 12, 13} {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.IsolationLevel, req.MaxBytes = version, 2, 1000
		rt := kmsg.NewFetchRequestTopic()
		rt.Topic, rt.TopicID = "orders", topic.ID()
		rt.Partitions = append(rt.Partitions, kmsg.NewFetchRequestTopicPartition())
		req.Topics = append(req.Topics, rt)
		resp := ask[*kmsg.FetchResponse](b, req)
		wantTopics := 1
		if version >= 13 {
			wantTopics = 0
		}
		if len(resp.Topics) != wantTopics || version >= 7 && resp.ErrorCode != kerr.UnknownServerError.Code {
			t.Errorf("Fetch v%d: code %d, %d topics; want code -1, %d topics", version, resp.ErrorCode, len(resp.Topics), wantTopics)
		} else if wantTopics == 1 && resp.Topics[0].Partitions[0].ErrorCode != kerr.UnknownServerError.Code {
			t.Errorf("Fetch v%d: %+v, want code -1", version, resp.Topics[0].Partitions[0])
		}
	}
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID, req.IsolationLevel = 7, -1, 2
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = "orders"
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1
	rt.Partitions = append(rt.Partitions, p)
	req.Topics = append(req.Topics, rt)
	got := ask[*kmsg.ListOffsetsResponse](b, req).Topics[0].Partitions[0]
	if got.ErrorCode != kerr.UnknownServerError.Code || got.Offset != -1 || got.LeaderEpoch != -1 {
		t.Errorf("ListOffsets: %+v, want code -1 and offset -1", got)
	}
}
