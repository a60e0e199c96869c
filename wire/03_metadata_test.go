package wire

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// topicOf returns the only topic of an answer.
func topicOf(t *testing.T, resp *kmsg.MetadataResponse) kmsg.MetadataResponseTopic {
	t.Helper()
	if len(resp.Topics) != 1 {
		t.Fatalf("%d topics in the answer, want 1", len(resp.Topics))
	}
	return resp.Topics[0]
}

func TestMetadataOfAllAndOfNone(t *testing.T) { // META-01, META-06
	b := newBroker(t, nil)
	b.topic("orders", 3)
	b.topic("users", 1)
	for version := range int16(14) {
		for _, topics := range [][]kmsg.MetadataRequestTopic{nil, {}} {
			req := kmsg.NewPtrMetadataRequest()
			req.Version, req.Topics = version, topics
			resp := ask[*kmsg.MetadataResponse](b, req)
			want := 2
			if topics != nil && version > 0 {
				want = 0
			}
			if len(resp.Topics) != want || resp.ErrorCode != 0 {
				t.Errorf("version %d, topics null %v: %d topics and code %d, want %d and 0", version, topics == nil, len(resp.Topics), resp.ErrorCode, want)
			}
			if len(resp.Brokers) != 1 || resp.Brokers[0].NodeID != 1 || resp.Brokers[0].Host != "gateway.example" ||
				resp.Brokers[0].Port != 9092 || resp.Brokers[0].Rack != nil {
				t.Errorf("version %d: brokers %+v, want 1 at gateway.example:9092 without a rack", version, resp.Brokers)
			}
			if version >= 1 && resp.ControllerID != 1 {
				t.Errorf("version %d: controller %d, want 1", version, resp.ControllerID)
			}
			if version >= 2 && deref(resp.ClusterID) != b.store.ClusterID() {
				t.Errorf("version %d: cluster %q, want %q", version, deref(resp.ClusterID), b.store.ClusterID())
			}
		}
	}
}

func TestMetadataOfATopic(t *testing.T) { // META-08
	b := newBroker(t, map[string]string{"broker.rack": "r1"})
	made := b.topic("orders", 3)
	for version := range int16(14) {
		resp := ask[*kmsg.MetadataResponse](b, metadataOf(version, "orders"))
		topic := topicOf(t, resp)
		if topic.ErrorCode != 0 || deref(topic.Topic) != "orders" || topic.IsInternal || len(topic.Partitions) != 3 {
			t.Errorf("version %d: topic %+v, want orders with 3 partitions", version, topic)
		}
		if version >= 10 && topic.TopicID != made.ID() {
			t.Errorf("version %d: id %x, want %x", version, topic.TopicID, made.ID())
		}
		if version >= 1 && deref(resp.Brokers[0].Rack) != "r1" {
			t.Errorf("version %d: rack %q, want r1", version, deref(resp.Brokers[0].Rack))
		}
		for i, p := range topic.Partitions {
			if p.Partition != int32(i) || p.ErrorCode != 0 || p.Leader != 1 || len(p.Replicas) != 1 || p.Replicas[0] != 1 ||
				len(p.ISR) != 1 || p.ISR[0] != 1 || len(p.OfflineReplicas) != 0 {
				t.Errorf("version %d: partition %+v, want %d with leader, replica and ISR 1", version, p, i)
			}
			if version >= 7 && p.LeaderEpoch != b.store.LeaderEpoch() {
				t.Errorf("version %d: leader epoch %d, want %d", version, p.LeaderEpoch, b.store.LeaderEpoch())
			}
		}
	}
}

func TestMetadataCreatesOnlyWhenAllowed(t *testing.T) { // META-02
	tests := []struct {
		name    string
		version int16
		allow   bool
		enabled string
		want    bool
	}{
		{"allowed", 4, true, "true", true},
		{"allowed, latest", 13, true, "true", true},
		{"versions that cannot say", 3, false, "true", true},
		{"not allowed", 4, false, "true", false},
		{"not allowed, latest", 13, false, "true", false},
		{"disabled", 13, true, "false", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := newBroker(t, map[string]string{"auto.create.topics.enable": test.enabled, "num.partitions": "3"})
			req := metadataOf(test.version, "ghost")
			req.AllowAutoTopicCreation = test.allow
			first := topicOf(t, ask[*kmsg.MetadataResponse](b, req))
			if first.ErrorCode != 3 || len(first.Partitions) != 0 || deref(first.Topic) != "ghost" || first.TopicID != [16]byte{} {
				t.Errorf("first answer %+v, want code 3 and no partitions", first)
			}
			topic, made := b.store.Topic("ghost")
			if made != test.want {
				t.Fatalf("created %v, want %v", made, test.want)
			}
			if made {
				if again := topicOf(t, ask[*kmsg.MetadataResponse](b, req)); again.ErrorCode != 0 || len(again.Partitions) != 3 || topic.Partitions() != 3 {
					t.Errorf("second answer %+v, want code 0 and 3 partitions", again)
				}
			}
		})
	}
}

func TestMetadataCreatesItsTopicsTogether(t *testing.T) {
	b := newBroker(t, map[string]string{"num.partitions": "5"})
	var syncs atomic.Int32
	count := func(o vfs.Op) error {
		if o.Kind == vfs.OpSync {
			syncs.Add(1)
		}
		return nil
	}
	b.onOp.Store(&count)
	ask := func(prefix string, n int) {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprint(prefix, i)
		}
		req := metadataOf(13, names...)
		req.AllowAutoTopicCreation = true
		if resp := ask[*kmsg.MetadataResponse](b, req); len(resp.Topics) != n || resp.Topics[n-1].ErrorCode != 3 {
			t.Errorf("%d topics: %d in the answer, the last %+v, want all with code 3", n, len(resp.Topics), resp.Topics[n-1])
		}
	}
	ask("few-", 100)
	if n := len(b.store.Topics()); n != 100 || syncs.Load() > 10 {
		t.Errorf("%d topics were made with %d syncs, want 100 and a few", n, syncs.Load())
	}
	ask("many-", maxNewPartitions/5+1)
	if n := len(b.store.Topics()); n != 100 {
		t.Errorf("%d topics, want none of those that have too many partitions together", n-100)
	}
}

func TestMetadataForAllCreatesNothing(t *testing.T) {
	b := newBroker(t, nil)
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.AllowAutoTopicCreation = 9, true
	ask[*kmsg.MetadataResponse](b, req)
	if n := len(b.store.Topics()); n != 0 {
		t.Errorf("%d topics, want none", n)
	}
}

func TestMetadataTellsAnIllegalName(t *testing.T) { // META-05
	b := newBroker(t, nil)
	for _, name := range []string{"a b", ".", "..", "", strings.Repeat("x", 250), "ä"} {
		for _, version := range []int16{0, 13} {
			req := metadataOf(version, name)
			req.AllowAutoTopicCreation = true
			if topic := topicOf(t, ask[*kmsg.MetadataResponse](b, req)); topic.ErrorCode != 17 || len(topic.Partitions) != 0 {
				t.Errorf("version %d, name %q: %+v, want code 17", version, name, topic)
			}
		}
	}
	if n := len(b.store.Topics()); n != 0 {
		t.Errorf("%d topics were created, want none", n)
	}
}

func TestMetadataByID(t *testing.T) {
	b := newBroker(t, nil)
	made := b.topic("orders", 1)
	byID := func(version int16, ids ...storage.TopicID) *kmsg.MetadataRequest {
		req := kmsg.NewPtrMetadataRequest()
		req.Version = version
		for _, id := range ids {
			topic := kmsg.NewMetadataRequestTopic()
			topic.TopicID = id
			req.Topics = append(req.Topics, topic)
		}
		return req
	}
	for _, version := range []int16{12, 13} {
		topic := topicOf(t, ask[*kmsg.MetadataResponse](b, byID(version, made.ID())))
		if topic.ErrorCode != 0 || deref(topic.Topic) != "orders" || len(topic.Partitions) != 1 {
			t.Errorf("version %d: %+v, want orders", version, topic)
		}
		unknown := storage.TopicID{1, 2, 3}
		topic = topicOf(t, ask[*kmsg.MetadataResponse](b, byID(version, unknown)))
		if topic.ErrorCode != 100 || topic.Topic != nil || topic.TopicID != unknown {
			t.Errorf("version %d: %+v, want code 100, no name and the id", version, topic)
		}
		// Names are passed over when there is an id, and nothing is created for them.
		mixed := byID(version, made.ID())
		named := kmsg.NewMetadataRequestTopic()
		named.Topic = kmsg.StringPtr("other")
		mixed.Topics = append(mixed.Topics, named)
		if topic := topicOf(t, ask[*kmsg.MetadataResponse](b, mixed)); deref(topic.Topic) != "orders" {
			t.Errorf("version %d: %+v, want orders", version, topic)
		}
	}
	for _, version := range []int16{10, 11} {
		resp := ask[*kmsg.MetadataResponse](b, byID(version, made.ID()))
		if topic := topicOf(t, resp); topic.ErrorCode != 42 {
			t.Errorf("version %d: %+v, want code 42", version, topic)
		}
	}
	if n := len(b.store.Topics()); n != 1 {
		t.Errorf("%d topics, want 1", n)
	}
}

func TestMetadataOperations(t *testing.T) { // META-09
	b := newBroker(t, nil)
	b.topic("orders", 1)
	const topicOps = 3576
	for version := int16(8); version <= 13; version++ {
		req := metadataOf(version, "orders", "ghost")
		req.AllowAutoTopicCreation = false
		resp := ask[*kmsg.MetadataResponse](b, req)
		if resp.AuthorizedOperations != noOperations || resp.Topics[0].AuthorizedOperations != noOperations {
			t.Errorf("version %d: operations %d and %d without asking, want %d", version, resp.AuthorizedOperations, resp.Topics[0].AuthorizedOperations, noOperations)
		}
		req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
		resp = ask[*kmsg.MetadataResponse](b, req)
		for _, topic := range resp.Topics {
			if topic.AuthorizedOperations != topicOps {
				t.Errorf("version %d: topic %s has operations %d, want %d", version, deref(topic.Topic), topic.AuthorizedOperations, topicOps)
			}
		}
		want := noOperations
		if version <= 10 {
			want = b.s.authorizedOperations(&b.r, resourceCluster, clusterResource)
		}
		if resp.AuthorizedOperations != want {
			t.Errorf("version %d: cluster operations %d, want %d", version, resp.AuthorizedOperations, want)
		}
	}
}

func TestOperationBits(t *testing.T) {
	b := newBroker(t, nil)
	// Read, write, create, delete, alter, describe, describe configs, alter configs.
	if got, want := b.s.authorizedOperations(&b.r, resourceTopic, "x"), int32(1<<3|1<<4|1<<5|1<<6|1<<7|1<<8|1<<10|1<<11); got != want {
		t.Errorf("topic operations %b, want %b", got, want)
	}
	if got, want := b.s.authorizedOperations(&b.r, resourceCluster, clusterResource), int32(1<<5|1<<7|1<<8|1<<9|1<<10|1<<11|1<<12); got != want {
		t.Errorf("cluster operations %b, want %b", got, want)
	}
	if got, want := b.s.authorizedOperations(&b.r, resourceGroup, "x"), int32(1<<3|1<<6|1<<8|1<<10|1<<11); got != want {
		t.Errorf("group operations %b, want %b", got, want)
	}
}

func TestMetadataMakesInternalTopicsWithTheirConfigs(t *testing.T) {
	b := withGroups(newBroker(t, map[string]string{"transaction.state.log.num.partitions": "7", "transaction.state.log.replication.factor": "1", "offsets.topic.replication.factor": "1"}))
	req := metadataOf(13, "__consumer_offsets", "__transaction_state")
	req.AllowAutoTopicCreation = true
	for _, topic := range ask[*kmsg.MetadataResponse](b, req).Topics {
		if topic.ErrorCode != 3 || !topic.IsInternal {
			t.Errorf("first answer %+v, want code 3 and internal", topic)
		}
	}
	want := map[string]int32{"__consumer_offsets": 50, "__transaction_state": 7}
	for _, topic := range ask[*kmsg.MetadataResponse](b, req).Topics {
		if name := deref(topic.Topic); topic.ErrorCode != 0 || !topic.IsInternal || len(topic.Partitions) != int(want[name]) {
			t.Errorf("%s: code %d, internal %v, %d partitions, want 0, true, %d", name, topic.ErrorCode, topic.IsInternal, len(topic.Partitions), want[name])
		}
		if made, ok := b.store.Topic(deref(topic.Topic)); !ok || !made.Config().Compact {
			t.Errorf("%s is not compacted", deref(topic.Topic))
		}
	}
}
