package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// deleteRecordsRequest names partition 0 of t, then u, then t with partition 0 again and partition 1.
func deleteRecordsRequest(version int16, first, second int64) *kmsg.DeleteRecordsRequest {
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version = version
	add := func(topic string, partition int32, offset int64) {
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = topic
		p := kmsg.NewDeleteRecordsRequestTopicPartition()
		p.Partition, p.Offset = partition, offset
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	add("t", 0, first)
	add("u", 0, 0)
	add("t", 0, second)
	add("t", 1, 0)
	empty := kmsg.NewDeleteRecordsRequestTopic()
	empty.Topic = "u"
	req.Topics = append(req.Topics, empty)
	return req
}

func TestDeleteRecordsTakesLastMentionOfPartition(t *testing.T) {
	for version := int16(0); version <= 2; version++ {
		b := newBroker(t, nil)
		b.topic("t", 2)
		b.topic("u", 1)
		b.mustProduce("t", 0, b.batch("0", "1", "2"))
		resp := ask[*kmsg.DeleteRecordsResponse](b, deleteRecordsRequest(version, 3, 1))
		if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 2 || len(resp.Topics[1].Partitions) != 1 {
			t.Fatalf("version %d: got %+v, want t with two partitions and u with one", version, resp.Topics)
		}
		if p := resp.Topics[0].Partitions[0]; p.ErrorCode != 0 || p.LowWatermark != 1 {
			t.Errorf("version %d: offset 3, then 1: got error %d, low watermark %d; want 0, 1", version, p.ErrorCode, p.LowWatermark)
		}
		if start := b.offsets("t", 0).LogStart; start != 1 {
			t.Errorf("version %d: log starts at %d, want 1", version, start)
		}
	}
}
