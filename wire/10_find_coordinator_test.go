package wire

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestFindCoordinator(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	tests := []struct {
		what string
		kind int8
		code int16
	}{
		{"group", coordinatorOfGroup, 0},
		{"transaction", coordinatorOfTransaction, 0},
		{"share group", coordinatorOfShare, 42},
		{"unknown type", 9, 42},
	}
	for version := range int16(7) {
		for _, test := range tests {
			if version == 0 && test.kind != 0 {
				continue // cannot say
			}
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.Version, req.CoordinatorType, req.CoordinatorKey, req.CoordinatorKeys = version, test.kind, "a", []string{"a", "b"}
			got := ask[*kmsg.FindCoordinatorResponse](b, req)
			id, host, port := int32(1), "gateway.example", int32(9092)
			if test.code != 0 {
				id, host, port = -1, "", -1
			}
			if version < 4 {
				if got.ErrorCode != test.code || got.NodeID != id || got.Host != host || got.Port != port || version > 0 && got.ErrorMessage == nil {
					t.Errorf("version %d, %s: %+v, want code %d and node %d", version, test.what, got, test.code, id)
				}
				continue
			}
			if len(got.Coordinators) != 2 {
				t.Fatalf("version %d, %s: %d answers, want 2", version, test.what, len(got.Coordinators))
			}
			for i, key := range req.CoordinatorKeys {
				if c := got.Coordinators[i]; c.Key != key || c.ErrorCode != test.code || c.NodeID != id || c.Host != host || c.Port != port {
					t.Errorf("version %d, %s %s: %+v, want code %d and node %d", version, test.what, key, c, test.code, id)
				}
			}
		}
	}
	for _, name := range []string{"__consumer_offsets", "__transaction_state"} {
		if topic, ok := b.store.Topic(name); !ok || topic.Partitions() != 50 {
			t.Errorf("%s was not made with 50 partitions", name)
		}
	}
}

// TestTransactionStateIsMadeWithItsConfigs has the topic made by each request that makes it.
func TestTransactionStateIsMadeWithItsConfigs(t *testing.T) {
	metadata := metadataOf(13, "__transaction_state")
	metadata.AllowAutoTopicCreation = true
	find := coordinatorOf(coordinatorOfTransaction, "tx").(*kmsg.FindCoordinatorRequest)
	find.Version = 6
	for what, req := range map[string]kmsg.Request{"Metadata": metadata, "FindCoordinator": find} {
		b := withGroups(newBroker(t, map[string]string{
			"transaction.state.log.num.partitions": "3", "transaction.state.log.replication.factor": "1",
			"transaction.state.log.segment.bytes": "2097152", "transaction.state.log.min.isr": "2",
		}))
		if _, err := b.dispatch(req); err != nil {
			t.Fatal(err)
		}
		topic, ok := b.store.Topic("__transaction_state")
		if !ok || topic.Partitions() != 3 {
			t.Fatalf("%s did not make __transaction_state with 3 partitions", what)
		}
		describe := describeConfigsOf(kindTopic, "__transaction_state")
		describe.SetVersion(4)
		got := map[string]string{}
		for _, c := range ask[*kmsg.DescribeConfigsResponse](b, describe).Resources[0].Configs {
			if c.Source == kmsg.ConfigSourceDynamicTopicConfig {
				got[c.Name] = deref(c.Value)
			}
		}
		want := map[string]string{
			"cleanup.policy": "compact", "compression.type": "uncompressed", "min.insync.replicas": "2",
			"segment.bytes": "2097152", "unclean.leader.election.enable": "false",
		}
		if !maps.Equal(got, want) {
			t.Errorf("%s makes it with %v, want %v", what, got, want)
		}
	}
}
