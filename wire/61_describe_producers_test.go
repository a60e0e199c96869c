package wire

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// describeProducersOf asks for partitions of one topic.
func describeProducersOf(topic string, partitions ...int32) *kmsg.DescribeProducersRequest {
	req := kmsg.NewPtrDescribeProducersRequest()
	req.Topics = []kmsg.DescribeProducersRequestTopic{{Topic: topic, Partitions: partitions}}
	return req
}

func TestDescribeProducers(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 2)
	b.mustProduce("t", 0, b.batch("plain"))
	o := record.BuilderOptions{HasProducer: true, ProducerID: 5, ProducerEpoch: 2}
	b.mustProduce("t", 0, newBatch(o, b.nowMs()-10, "a", "b"))
	b.inTxn("t", 7, 0, "c")
	b.inTxn("t", 9, 0, "d")
	b.appendAs("t", 0, record.EndTxnMarker(9, 1, record.Marker{Commit: true, CoordinatorEpoch: 4}, b.nowMs(), -1))

	answer := ask[*kmsg.DescribeProducersResponse](b, describeProducersOf("t", 0, 1))
	got := answer.Topics[0].Partitions
	want := []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
		{ProducerID: 5, ProducerEpoch: 2, LastSequence: 1, LastTimestamp: b.nowMs() - 10, CoordinatorEpoch: -1, CurrentTxnStartOffset: -1},
		{ProducerID: 7, ProducerEpoch: 0, LastSequence: 0, LastTimestamp: b.nowMs(), CoordinatorEpoch: -1, CurrentTxnStartOffset: 3},
		{ProducerID: 9, ProducerEpoch: 1, LastSequence: -1, LastTimestamp: b.nowMs(), CoordinatorEpoch: 4, CurrentTxnStartOffset: -1},
	}
	if got[0].ErrorCode != 0 || got[0].ErrorMessage != nil || len(got[0].ActiveProducers) != len(want) {
		t.Fatalf("error %d, %d producers; want 0, %d", got[0].ErrorCode, len(got[0].ActiveProducers), len(want))
	}
	for i, p := range got[0].ActiveProducers {
		if !reflect.DeepEqual(p, want[i]) {
			t.Errorf("producer %d: %+v, want %+v", i, p, want[i])
		}
	}
	if got[1].Partition != 1 || got[1].ErrorCode != 0 || len(got[1].ActiveProducers) != 0 {
		t.Errorf("a partition without producers: %+v", got[1])
	}
}

func TestDescribeProducersErrors(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("bad", 1)
	b.mustProduce("bad", 0, b.batch("x"))
	b.damage("bad-0")
	for _, c := range []struct {
		topic     string
		partition int32
		code      int16
		text      bool
	}{
		{"no topic's name", 0, 17, true},
		{"", 0, 17, true},
		{"ghost", 0, 3, true},
		{"bad", 1, 3, false},
		{"bad", -1, 3, false},
		{"bad", 0, 56, false},
	} {
		got := ask[*kmsg.DescribeProducersResponse](b, describeProducersOf(c.topic, c.partition)).Topics[0]
		p := got.Partitions[0]
		if got.Topic != c.topic || p.Partition != c.partition || p.ErrorCode != c.code || (p.ErrorMessage != nil) != c.text || len(p.ActiveProducers) != 0 {
			t.Errorf("%q-%d: %+v, want error %d, with a text: %t", c.topic, c.partition, p, c.code, c.text)
		}
	}
}

// TestDescribeProducersOftenNamed names a partition with many producers more often than an answer has room for.
func TestDescribeProducersOftenNamed(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 2)
	for id := range int64(1000) {
		b.appendAs("t", 0, record.EndTxnMarker(id, 0, record.Marker{}, b.nowMs(), -1))
	}
	req := describeProducersOf("t")
	for range 400 {
		req.Topics[0].Partitions = append(req.Topics[0].Partitions, 0, 1)
	}
	said, refused := 0, 0
	for _, p := range ask[*kmsg.DescribeProducersResponse](b, req).Topics[0].Partitions {
		switch {
		case p.Partition == 1 && p.ErrorCode == 0: // nothing is said of it
		case p.ErrorCode == 0 && len(p.ActiveProducers) == 1000:
			said++
		case p.ErrorCode == 42 && len(p.ActiveProducers) == 0:
			refused++
		default:
			t.Fatalf("partition %d: error %d, %d producers", p.Partition, p.ErrorCode, len(p.ActiveProducers))
		}
	}
	if most := 1 + mostRepeated/(1000*producerSize); said != most || said > most || said+refused != 400 {
		t.Errorf("said %d times, refused %d times; want %d said, 400 in all", said, refused, most)
	}
}

func TestDescribeProducersNeedsToRead(t *testing.T) {
	b := guarded(t)
	b.topic("t", 1)
	b.allow(opDescribe, resourceTopic, "t")
	if p := ask[*kmsg.DescribeProducersResponse](b, describeProducersOf("t", 0)).Topics[0].Partitions[0]; p.ErrorCode != 29 || p.ErrorMessage == nil {
		t.Errorf("with DESCRIBE: %+v, want error 29 and its text", p)
	}
	b.allow(opRead, resourceTopic, "t")
	if p := ask[*kmsg.DescribeProducersResponse](b, describeProducersOf("t", 0)).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.ErrorMessage != nil {
		t.Errorf("with READ: %+v, want no error", p)
	}
}
