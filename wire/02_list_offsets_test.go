package wire

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// listOffsetsRequest asks for one partition of a topic at each of the timestamps.
func listOffsetsRequest(version int16, topic string, timestamps ...int64) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = version, -1
	for _, ms := range timestamps {
		x := kmsg.NewListOffsetsRequestTopic()
		x.Topic = topic
		p := kmsg.NewListOffsetsRequestTopicPartition()
		p.Timestamp, p.CurrentLeaderEpoch = ms, -1
		x.Partitions = append(x.Partitions, p)
		req.Topics = append(req.Topics, x)
	}
	return req
}

// checkOffset looks one timestamp up.
func checkOffset(t *testing.T, b *broker, req *kmsg.ListOffsetsRequest, code int16, offset, timestamp int64) {
	t.Helper()
	resp := ask[*kmsg.ListOffsetsResponse](b, req)
	p := resp.Topics[0].Partitions[0]
	if p.ErrorCode != code || p.Offset != offset || p.Timestamp != timestamp {
		t.Errorf("version %d, timestamp %d, isolation %d: got error %d, offset %d, timestamp %d; want %d, %d, %d",
			req.Version, req.Topics[0].Partitions[0].Timestamp, req.IsolationLevel, p.ErrorCode, p.Offset, p.Timestamp, code, offset, timestamp)
	}
	known := offset >= 0 && req.Version >= 4
	if want := b.log(req.Topics[0].Topic, 0).LeaderEpoch(); known && p.LeaderEpoch != want || !known && p.LeaderEpoch != -1 {
		t.Errorf("version %d, timestamp %d: leader epoch %d", req.Version, req.Topics[0].Partitions[0].Timestamp, p.LeaderEpoch)
	}
}

// atTimes is a batch of one record for each timestamp.
func atTimes(timestamps ...int64) []byte {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	for _, ms := range timestamps {
		b.Append(record.Record{Timestamp: ms, Value: []byte("v")})
	}
	return append([]byte(nil), b.Bytes()...)
}

func TestListOffsetsAnswersATopicOnce(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 2)
	b.topic("u", 1)
	req := listOffsetsRequest(7, "t", -1, -1)
	req.Topics[1].Partitions[0].Partition = 1
	req.Topics = append(req.Topics[:1:1], listOffsetsRequest(7, "u", -1).Topics[0], req.Topics[1])
	resp := ask[*kmsg.ListOffsetsResponse](b, req)
	if len(resp.Topics) != 2 || resp.Topics[0].Topic != "t" || len(resp.Topics[0].Partitions) != 2 || len(resp.Topics[1].Partitions) != 1 {
		t.Errorf("t, u and t again: got %+v, want t with two partitions and u with one", resp.Topics)
	}
}

func TestListOffsetsFieldCases(t *testing.T) {
	atVersions(t, "LOFF-01", 2, 1, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, b.batch("0", "1", "2"))
		b.inTxn("t", 7, 0, "3", "4")
		if _, err := b.log("t", 0).DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
		checkOffset(t, b, listOffsetsRequest(v, "t", -1), 0, 5, -1)
		checkOffset(t, b, listOffsetsRequest(v, "t", -2), 0, 1, -1)
		if v >= 2 {
			req := listOffsetsRequest(v, "t", -1)
			req.IsolationLevel = 1
			checkOffset(t, b, req, 0, 3, -1)
		}
	})
	atVersions(t, "LOFF-02", 2, 1, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, atTimes(2, 4, 6, 8))
		for _, c := range []struct{ asked, offset, timestamp int64 }{{0, 0, 2}, {3, 1, 4}, {4, 1, 4}, {5, 2, 6}, {8, 3, 8}, {9, -1, -1}} {
			checkOffset(t, b, listOffsetsRequest(v, "t", c.asked), 0, c.offset, c.timestamp)
		}
		b.topic("empty", 1)
		checkOffset(t, b, listOffsetsRequest(v, "empty", 5), 0, -1, -1)
	})
	atVersions(t, "LOFF-05", 2, 7, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, atTimes(10, 50, 20))
		b.mustProduce("t", 0, atTimes(50, 40))
		checkOffset(t, b, listOffsetsRequest(v, "t", -3), 0, 1, 50)
		checkOffset(t, b, listOffsetsRequest(6, "t", -3), 35, -1, -1)
		b.topic("empty", 1)
		checkOffset(t, b, listOffsetsRequest(v, "empty", -3), 0, -1, -1)
		b.topic("append", 1, "message.timestamp.type", "LogAppendTime")
		b.mustProduce("append", 0, atTimes(10, 50))
		b.advance(time.Second)
		b.mustProduce("append", 0, atTimes(20, 30))
		checkOffset(t, b, listOffsetsRequest(v, "append", -3), 0, 2, b.nowMs())
	})
	t.Run("LOFF-06", func(t *testing.T) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, atTimes(1, 2, 3))
		if _, err := b.log("t", 0).DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			version   int16
			timestamp int64
			code      int16
			offset    int64
		}{
			{8, -4, 0, 1}, {11, -4, 0, 1}, {7, -4, 35, -1}, {1, -4, 35, -1},
			{9, -5, 0, -1}, {11, -5, 0, -1}, {8, -5, 35, -1},
			{11, -6, 0, -1}, {10, -6, 35, -1}, {11, -7, 35, -1}, {11, -1 << 63, 35, -1},
		} {
			checkOffset(t, b, listOffsetsRequest(c.version, "t", c.timestamp), c.code, c.offset, -1)
		}
	})
	atVersions(t, "LOFF-07", 2, 1, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.topic("other", 1)
		req := listOffsetsRequest(v, "t", -1, -2)
		req.Topics = append(req.Topics, listOffsetsRequest(v, "other", -1).Topics...)
		resp := ask[*kmsg.ListOffsetsResponse](b, req)
		if len(resp.Topics) != 2 || len(resp.Topics[0].Partitions) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 42 ||
			resp.Topics[1].Topic != "other" || resp.Topics[1].Partitions[0].ErrorCode != 0 {
			t.Errorf("got %+v, want t once with error 42 and other without", resp.Topics)
		}
	})
	atVersions(t, "LOFF-08", 2, 1, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1, "message.timestamp.type", "LogAppendTime")
		first := b.nowMs()
		b.mustProduce("t", 0, atTimes(0))
		b.advance(10 * time.Second)
		b.mustProduce("t", 0, atTimes(0, 0))
		checkOffset(t, b, listOffsetsRequest(v, "t", first+1), 0, 1, b.nowMs())
		checkOffset(t, b, listOffsetsRequest(v, "t", first), 0, 0, first)
	})
	atVersions(t, "LOFF-10", 2, 2, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.mustProduce("t", 0, atTimes(1, 2, 3))
		o := record.BuilderOptions{HasProducer: true, ProducerID: 7, Transactional: true}
		b.appendAs("t", 0, newBatch(o, 100, "x"))
		req := listOffsetsRequest(v, "t", 100)
		checkOffset(t, b, req, 0, 3, 100)
		req.IsolationLevel = 1
		checkOffset(t, b, req, 0, -1, -1)
		b.endTxn("t", 7, true)
		checkOffset(t, b, req, 0, 3, 100)
	})
}

func TestListOffsetsErrors(t *testing.T) {
	atVersions(t, "codes", 2, 1, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		req := listOffsetsRequest(v, "t", -1)
		req.Topics[0].Partitions[0].Partition = 5
		if p := ask[*kmsg.ListOffsetsResponse](b, req).Topics[0].Partitions[0]; p.ErrorCode != 3 || p.Offset != -1 {
			t.Errorf("missing partition: got error %d, offset %d; want 3, -1", p.ErrorCode, p.Offset)
		}
		if v < 4 {
			return
		}
		req = listOffsetsRequest(v, "t", -1)
		req.Topics[0].Partitions[0].CurrentLeaderEpoch = b.log("t", 0).LeaderEpoch() + 1
		checkOffset(t, b, req, 75, -1, -1)
	})
}

func TestDeleteRecordsFieldCases(t *testing.T) {
	atVersions(t, "ADM-13", 21, 0, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for range 2 {
			b.mustProduce("t", 0, b.batch("0", "1", "2", "3", "4", "5", "6", "7", "8", "9"))
		}
		ask1 := func(topic string, partition int32, offset int64) (int16, int64) {
			t.Helper()
			req := kmsg.NewPtrDeleteRecordsRequest()
			req.Version, req.TimeoutMillis = v, 1000
			x := kmsg.NewDeleteRecordsRequestTopic()
			x.Topic = topic
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Partition, p.Offset = partition, offset
			x.Partitions = append(x.Partitions, p)
			req.Topics = append(req.Topics, x)
			a := ask[*kmsg.DeleteRecordsResponse](b, req).Topics[0].Partitions[0]
			return a.ErrorCode, a.LowWatermark
		}
		b.topic("compacted", 1, "cleanup.policy", "compact")
		b.topic("both", 1, "cleanup.policy", "compact,delete")
		b.topic("__consumer_offsets", 1)
		for _, c := range []struct {
			topic     string
			partition int32
			offset    int64
			code      int16
			low       int64
		}{
			{"t", 0, 10, 0, 10}, {"t", 0, 5, 0, 10}, {"t", 0, 10, 0, 10}, {"t", 0, 15, 0, 15}, {"t", 0, 21, 1, -1}, {"t", 0, -2, 1, -1},
			{"t", 0, -1, 0, 20}, {"t", 4, 0, 3, -1}, {"ghost", 0, 0, 3, -1},
			{"compacted", 0, 0, 44, -1}, {"both", 0, 0, 0, 0}, {"__consumer_offsets", 0, 0, 17, -1},
		} {
			if code, low := ask1(c.topic, c.partition, c.offset); code != c.code || low != c.low {
				t.Errorf("%s-%d offset %d: got error %d, low watermark %d; want %d, %d", c.topic, c.partition, c.offset, code, low, c.code, c.low)
			}
		}
		for _, when := range []string{"now", "after a restart"} {
			p := ask[*kmsg.ListOffsetsResponse](b, listOffsetsRequest(11, "t", -2)).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.Offset != 20 {
				t.Errorf("earliest %s: got error %d, offset %d; want 0, 20", when, p.ErrorCode, p.Offset)
			}
			b.stop()
			b.open(nil)
		}
		if base := b.mustProduce("t", 0, b.batch("x")); base != 20 {
			t.Errorf("next base offset %d, want 20", base)
		}
	})
}
