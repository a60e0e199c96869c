package wire

import (
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
