package wire

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// newTopic makes an element of a CreateTopics request; configs are pairs of name and value.
func newTopic(name string, partitions int32, factor int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, factor
	for i := 0; i < len(configs); i += 2 {
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = configs[i], &configs[i+1]
		t.Configs = append(t.Configs, c)
	}
	return t
}

// create sends a CreateTopics request.
func (b *broker) create(version int16, validateOnly bool, topics ...kmsg.CreateTopicsRequestTopic) []kmsg.CreateTopicsResponseTopic {
	b.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.ValidateOnly, req.Topics = version, validateOnly, topics
	return ask[*kmsg.CreateTopicsResponse](b, req).Topics
}

func TestCreateTopics(t *testing.T) {
	for version := int16(2); version <= 7; version++ {
		b := newBroker(t, map[string]string{"num.partitions": "4", "log.roll.hours": "2"})
		got := b.create(version, false, newTopic("orders", 3, 1, "retention.ms", "1000"), newTopic("users", -1, -1))
		for i, want := range []struct {
			name       string
			partitions int32
		}{{"orders", 3}, {"users", 4}} {
			topic, ok := b.store.Topic(want.name)
			if !ok || topic.Partitions() != want.partitions || got[i].ErrorCode != 0 || got[i].ErrorMessage != nil || got[i].Topic != want.name {
				t.Fatalf("version %d: answer %+v, created %v, want %s with %d partitions", version, got[i], ok, want.name, want.partitions)
			}
			if version >= 5 && (got[i].NumPartitions != want.partitions || got[i].ReplicationFactor != 1 || len(got[i].Configs) == 0) {
				t.Errorf("version %d: answer %+v, want %d partitions, 1 replica and configs", version, got[i], want.partitions)
			}
			if version >= 7 && got[i].TopicID != topic.ID() {
				t.Errorf("version %d: id %x, want %x", version, got[i].TopicID, topic.ID())
			}
		}
		if version >= 5 {
			configs := got[0].Configs
			if !slices.IsSortedFunc(configs, func(a, b kmsg.CreateTopicsResponseTopicConfig) int { return strings.Compare(a.Name, b.Name) }) {
				t.Errorf("version %d: configs are not sorted", version)
			}
			at := func(name string) kmsg.CreateTopicsResponseTopicConfig {
				i := slices.IndexFunc(configs, func(c kmsg.CreateTopicsResponseTopicConfig) bool { return c.Name == name })
				if i < 0 {
					t.Fatalf("version %d: no config %s", version, name)
				}
				return configs[i]
			}
			if c := at("retention.ms"); deref(c.Value) != "1000" || c.Source != 1 || c.ReadOnly || c.IsSensitive {
				t.Errorf("version %d: %+v, want 1000 of the topic's own", version, c)
			}
			if c := at("segment.ms"); deref(c.Value) != "7200000" || c.Source != 4 {
				t.Errorf("version %d: %+v, want two hours as set at the start", version, c)
			}
			if c := at("cleanup.policy"); deref(c.Value) != "delete" || c.Source != 5 {
				t.Errorf("version %d: %+v, want delete by default", version, c)
			}
		}
	}
}

func TestCreateTopicsOnlyValidates(t *testing.T) { // ADM-01
	for _, version := range []int16{2, 7} {
		b := newBroker(t, nil)
		b.topic("existing", 1)
		got := b.create(version, true, newTopic("new", 2, 1), newTopic("existing", 1, 1), newTopic("bad", 1, 1, "retention.ms", "x"))
		if got[0].ErrorCode != 0 || got[1].ErrorCode != 36 || got[2].ErrorCode != 40 {
			t.Errorf("version %d: codes %d, %d, %d, want 0, 36, 40", version, got[0].ErrorCode, got[1].ErrorCode, got[2].ErrorCode)
		}
		if version >= 5 && (got[0].NumPartitions != 2 || got[0].ReplicationFactor != 1 || len(got[0].Configs) == 0) {
			t.Errorf("version %d: %+v, want 2 partitions, 1 replica and configs", version, got[0])
		}
		if n := len(b.store.Topics()); n != 1 {
			t.Errorf("version %d: %d topics, want the existing one", version, n)
		}
	}
}

func TestCreateTopicsRefusals(t *testing.T) { // ADM-02, ADM-05
	assigned := func(name string, partitions int32, factor int16, replicas ...[]int32) kmsg.CreateTopicsRequestTopic {
		t := newTopic(name, partitions, factor)
		for i, r := range replicas {
			a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
			a.Partition, a.Replicas = int32(i), r
			t.ReplicaAssignment = append(t.ReplicaAssignment, a)
		}
		return t
	}
	gap := assigned("x", -1, -1, []int32{1}, []int32{1})
	gap.ReplicaAssignment[1].Partition = 2
	twice := assigned("x", -1, -1, []int32{1}, []int32{1})
	twice.ReplicaAssignment[1].Partition = 0
	null := newTopic("x", 1, 1)
	null.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "retention.ms"}}
	tests := []struct {
		name string
		spec kmsg.CreateTopicsRequestTopic
		code int16
		says string
	}{
		{"zero partitions", newTopic("x", 0, 1), 37, "partitions"},
		{"negative partitions", newTopic("x", -2, 1), 37, "partitions"},
		{"no replicas", newTopic("x", 1, 0), 38, "replication factor 0"},
		{"negative replicas", newTopic("x", 1, -2), 38, "replication factor"},
		{"nine replicas", newTopic("x", 1, 9), 38, "replication factor 9"},
		{"replicas before partitions", newTopic("x", 0, 0), 38, ""},
		{"no partitions before too many replicas", newTopic("x", 0, 9), 37, "partitions"},
		{"unknown config", newTopic("x", 1, 1, "nope", "1"), 40, "nope"},
		{"bad policy", newTopic("x", 1, 1, "cleanup.policy", "shred"), 40, "cleanup.policy"},
		{"bad number", newTopic("x", 1, 1, "retention.ms", "x"), 40, "retention.ms"},
		{"null config", null, 40, "retention.ms"},
		{"config before partitions", newTopic("x", 0, 1, "nope", "1"), 40, "nope"},
		{"illegal name", newTopic("a b", 1, 1), 17, ""},
		{"empty name", newTopic("", 1, 1), 17, ""},
		{"dots", newTopic("..", 1, 1), 17, ""},
		{"too long", newTopic(strings.Repeat("x", 250), 1, 1), 17, ""},
		{"existing", newTopic("my.topic", 1, 1), 36, ""},
		{"existing before config", newTopic("my.topic", 1, 1, "nope", "1"), 36, ""},
		{"colliding", newTopic("my_topic", 1, 1), 17, ""},
		{"Kafka's metadata", newTopic("__cluster_metadata", 1, 1), 42, ""},
		{"the store's metadata", newTopic("__gateway_metadata", 1, 1), 17, ""},
		{"assignment and partitions", assigned("x", 1, -1, []int32{1}), 42, ""},
		{"assignment and replicas", assigned("x", -1, 1, []int32{1}), 42, ""},
		{"assignment to nobody", assigned("x", -1, -1, []int32{}), 39, ""},
		{"assignment to another broker", assigned("x", -1, -1, []int32{2}), 39, ""},
		{"assignment to one broker twice", assigned("x", -1, -1, []int32{1, 1}), 39, ""},
		{"assignment with a gap", gap, 39, ""},
		{"assignment of one partition twice", twice, 39, ""},
	}
	b := newBroker(t, nil)
	b.topic("my.topic", 1)
	for _, version := range []int16{2, 7} {
		for _, test := range tests {
			got := b.create(version, false, test.spec)
			if len(got) != 1 || got[0].ErrorCode != test.code || got[0].ErrorMessage == nil || !strings.Contains(*got[0].ErrorMessage, test.says) {
				t.Errorf("version %d, %s: %+v (%s), want code %d and a message with %q", version, test.name, got, deref(got[0].ErrorMessage), test.code, test.says)
			}
			if version >= 5 && (got[0].NumPartitions != -1 || got[0].ReplicationFactor != -1 || got[0].Configs == nil) {
				t.Errorf("version %d, %s: %+v, want counts of -1 and an empty list of configs", version, test.name, got[0])
			}
		}
		good := b.create(version, true, assigned("assigned", -1, -1, []int32{1}, []int32{1}))[0]
		if good.ErrorCode != 0 || version >= 5 && good.NumPartitions != 2 {
			t.Errorf("version %d: assignment of two partitions: %+v", version, good)
		}
	}
	if n := len(b.store.Topics()); n != 1 {
		t.Errorf("%d topics, want 1", n)
	}
}

func TestCreateTopicsTellsDuplicatesLast(t *testing.T) {
	b := newBroker(t, nil)
	got := b.create(7, false, newTopic("twice", 1, 1), newTopic("once", 1, 1), newTopic("twice", 2, 1))
	if len(got) != 2 || got[0].Topic != "once" || got[0].ErrorCode != 0 || got[1].Topic != "twice" || got[1].ErrorCode != 42 {
		t.Errorf("answers %+v, want once made and then twice with code 42", got)
	}
	if _, ok := b.store.Topic("twice"); ok {
		t.Error("the topic that is twice in the request was made")
	}
}

func TestCreateTopicsLimitsPartitions(t *testing.T) {
	b := newBroker(t, nil)
	got := b.create(7, true, newTopic("a", 9999, 1), newTopic("b", -1, 1), newTopic("c", 1, 1))
	for _, topic := range got {
		if topic.ErrorCode != 44 {
			t.Errorf("%s: code %d, want 44", topic.Topic, topic.ErrorCode)
		}
	}
	if got := b.create(7, true, newTopic("a", 9999, 1), newTopic("b", -1, 1)); got[0].ErrorCode != 0 || got[1].ErrorCode != 0 {
		t.Errorf("10000 partitions: codes %d and %d, want 0", got[0].ErrorCode, got[1].ErrorCode)
	}
}

func TestReplicationFactorIsClamped(t *testing.T) {
	b := newBroker(t, map[string]string{"gateway.replication.factor": "clamp", "default.replication.factor": "3"})
	assigned := newTopic("assigned", -1, -1)
	assigned.ReplicaAssignment = []kmsg.CreateTopicsRequestTopicReplicaAssignment{{Partition: 0, Replicas: []int32{1, 2, 3}}}
	for _, topic := range b.create(7, false, newTopic("three", 1, 3), newTopic("default", 1, -1), assigned) {
		if topic.ErrorCode != 0 || topic.ReplicationFactor != 1 {
			t.Errorf("%s: code %d and %d replicas, want 0 and 1", topic.Topic, topic.ErrorCode, topic.ReplicationFactor)
		}
	}
	if got := b.create(7, false, newTopic("none", 1, 0)); got[0].ErrorCode != 38 {
		t.Errorf("replication factor 0: code %d, want 38", got[0].ErrorCode)
	}
	req := metadataOf(13, "asked-for")
	req.AllowAutoTopicCreation = true
	ask[*kmsg.MetadataResponse](b, req)
	p := topicOf(t, ask[*kmsg.MetadataResponse](b, req)).Partitions
	if len(p) != 1 || len(p[0].Replicas) != 1 || len(p[0].ISR) != 1 {
		t.Errorf("partitions %+v, want one with one replica", p)
	}
}

func TestDefaultReplicationFactorIsStrict(t *testing.T) {
	b := newBroker(t, map[string]string{"default.replication.factor": "3"})
	if got := b.create(7, false, newTopic("x", 1, -1)); got[0].ErrorCode != 38 {
		t.Errorf("code %d, want 38", got[0].ErrorCode)
	}
	req := metadataOf(13, "asked-for")
	req.AllowAutoTopicCreation = true
	ask[*kmsg.MetadataResponse](b, req)
	if topic := topicOf(t, ask[*kmsg.MetadataResponse](b, req)); topic.ErrorCode != 3 {
		t.Errorf("auto-creation with three replicas: code %d, want 3", topic.ErrorCode)
	}
}

// TestNoTimeChangesNoTopics asks with a timeout of 0 and below, which leave Kafka's controller no time.
func TestNoTimeChangesNoTopics(t *testing.T) {
	for _, timeout := range []int32{0, -1, -2147483648} {
		b := newBroker(t, nil)
		b.topic("orders", 1)
		create := kmsg.NewPtrCreateTopicsRequest()
		create.Version, create.TimeoutMillis = 7, timeout
		create.Topics = append(create.Topics, newTopic("events", 1, 1), newTopic("bad name", 1, 1))
		for i, topic := range ask[*kmsg.CreateTopicsResponse](b, create).Topics {
			if topic.ErrorCode != 7 || topic.ErrorMessage != nil || topic.Topic != create.Topics[i].Topic {
				t.Errorf("timeout %d: created %+v, want code 7 without words", timeout, topic)
			}
		}
		more := kmsg.NewPtrCreatePartitionsRequest()
		more.Version, more.TimeoutMillis = 3, timeout
		more.Topics = append(more.Topics, kmsg.CreatePartitionsRequestTopic{Topic: "orders", Count: 5})
		if got := ask[*kmsg.CreatePartitionsResponse](b, more).Topics; len(got) != 1 || got[0].ErrorCode != 7 || got[0].ErrorMessage != nil {
			t.Errorf("timeout %d: partitions added %+v, want code 7 without words", timeout, got)
		}
		remove := kmsg.NewPtrDeleteTopicsRequest()
		remove.Version, remove.TimeoutMillis, remove.TopicNames = 5, timeout, []string{"orders", "ghost"}
		if got := ask[*kmsg.DeleteTopicsResponse](b, remove).Topics; len(got) != 2 || got[0].ErrorCode != 7 || got[1].ErrorCode != 7 || got[1].ErrorMessage != nil {
			t.Errorf("timeout %d: deleted %+v, want code 7 twice without words", timeout, got)
		}
		orders, there := b.store.Topic("orders")
		if _, made := b.store.Topic("events"); made || !there || orders.Partitions() != 1 {
			t.Errorf("timeout %d: topic made %v, topic left %v, want only orders with its partition", timeout, made, there)
		}
	}
}
