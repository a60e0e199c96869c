package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func (b *broker) addPartitions(version int16, validateOnly bool, topic string, count int32, replicas ...[]int32) kmsg.CreatePartitionsResponseTopic {
	b.t.Helper()
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.ValidateOnly = version, validateOnly
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = topic, count
	for _, r := range replicas {
		t.Assignment = append(t.Assignment, kmsg.CreatePartitionsRequestTopicAssignment{Replicas: r})
	}
	req.Topics = append(req.Topics, t)
	resp := ask[*kmsg.CreatePartitionsResponse](b, req)
	if len(resp.Topics) != 1 || resp.Topics[0].Topic != topic {
		b.t.Fatalf("answer %+v, want one for %s", resp.Topics, topic)
	}
	return resp.Topics[0]
}

func TestCreatePartitions(t *testing.T) { // ADM-12
	for version := range int16(4) {
		b := newBroker(t, nil)
		b.topic("orders", 3)
		check := func(what string, got kmsg.CreatePartitionsResponseTopic, code int16, partitions int32) {
			t.Helper()
			topic, _ := b.store.Topic("orders")
			if got.ErrorCode != code || (got.ErrorMessage == nil) != (code == 0 || code == 3) || topic.Partitions() != partitions {
				t.Errorf("version %d, %s: %+v and %d partitions, want code %d and %d", version, what, got, topic.Partitions(), code, partitions)
			}
		}
		check("three to six, validated", b.addPartitions(version, true, "orders", 6), 0, 3)
		check("three to six", b.addPartitions(version, false, "orders", 6), 0, 6)
		check("six to six", b.addPartitions(version, false, "orders", 6), 37, 6)
		check("six to two", b.addPartitions(version, false, "orders", 2), 37, 6)
		check("six to zero", b.addPartitions(version, false, "orders", 0), 37, 6)
		check("ghost", b.addPartitions(version, false, "ghost", 6), 3, 6)
		check("too many at a time", b.addPartitions(version, false, "orders", 20_000), 44, 6)
		check("too few assignments", b.addPartitions(version, false, "orders", 8, []int32{1}), 39, 6)
		check("another broker", b.addPartitions(version, false, "orders", 7, []int32{2}), 39, 6)
		check("two replicas", b.addPartitions(version, false, "orders", 7, []int32{1, 1}), 39, 6)
		check("validated", b.addPartitions(version, true, "orders", 9), 0, 6)
		check("assigned", b.addPartitions(version, false, "orders", 7, []int32{1}), 0, 7)
		for i := range int32(7) {
			if got := b.mustProduce("orders", i, b.batch("a")); got != 0 {
				t.Errorf("version %d: first offset of partition %d is %d, want 0", version, i, got)
			}
		}
	}
}

func TestCreatePartitionsTellsDuplicatesOnce(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("orders", 1)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version = 3
	for _, n := range []int32{2, 3} {
		topic := kmsg.NewCreatePartitionsRequestTopic()
		topic.Topic, topic.Count = "orders", n
		req.Topics = append(req.Topics, topic)
	}
	got := ask[*kmsg.CreatePartitionsResponse](b, req).Topics
	if topic, _ := b.store.Topic("orders"); len(got) != 1 || got[0].ErrorCode != 42 || topic.Partitions() != 1 {
		t.Errorf("answers %+v and %d partitions, want one answer with code 42 and 1", got, topic.Partitions())
	}
}

// TestCreatePartitionsRefusesTooManyAltogether asks for more in one request than Kafka makes: every row is refused,
// also that of a topic which would not get many, and nothing is made.
func TestCreatePartitionsRefusesTooManyAltogether(t *testing.T) {
	for _, c := range []struct {
		what    string
		counts  []int32
		refused bool
	}{
		{"the most", []int32{maxNewPartitions, 2}, false},
		{"one more", []int32{maxNewPartitions, 3}, true},
		{"many and few", []int32{20_000, 2}, true},
	} {
		b := newBroker(t, nil)
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.ValidateOnly = 3, !c.refused
		for i, name := range []string{"orders", "events", "ghost"} {
			topic := kmsg.NewCreatePartitionsRequestTopic()
			topic.Topic, topic.Count = name, 5
			if i < len(c.counts) {
				b.topic(name, 1)
				topic.Count = c.counts[i]
			}
			req.Topics = append(req.Topics, topic)
		}
		got := ask[*kmsg.CreatePartitionsResponse](b, req).Topics
		want := []int16{0, 0, 3}
		if c.refused {
			want = []int16{44, 44, 44}
		}
		for i := range want {
			if len(got) != len(want) || got[i].ErrorCode != want[i] {
				t.Errorf("%s, counts %v: got %+v, want codes %v", c.what, c.counts, got, want)
				break
			}
		}
		if topic, _ := b.store.Topic("events"); topic.Partitions() != 1 {
			t.Errorf("%s: events has %d partitions, want 1", c.what, topic.Partitions())
		}
	}
}
