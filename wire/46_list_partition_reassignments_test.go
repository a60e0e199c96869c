package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestListPartitionReassignments(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 2)
	if _, rows := b.reassign(&kmsg.AlterPartitionAssignmentsRequest{TimeoutMillis: 100, Topics: []kmsg.AlterPartitionAssignmentsRequestTopic{reassigned("t", 0, []int32{1})}}); len(rows) != 1 || rows[0] != "t-0 0." {
		t.Fatalf("reassign: got %q, want it done", rows)
	}
	for _, c := range []struct {
		what      string
		timeoutMs int32
		topics    []kmsg.ListPartitionReassignmentsRequestTopic
	}{
		{"all", 100, nil},
		{"none", 100, []kmsg.ListPartitionReassignmentsRequestTopic{}},
		{"some, and what is not there", 100, []kmsg.ListPartitionReassignmentsRequestTopic{
			{Topic: "t", Partitions: []int32{0, 7, -1, 0}}, {Topic: "ghost", Partitions: []int32{0}}, {Topic: "t"}}},
		{"in no time", 0, nil},
	} {
		req := kmsg.NewPtrListPartitionReassignmentsRequest()
		req.TimeoutMillis, req.Topics = c.timeoutMs, c.topics
		if resp := ask[*kmsg.ListPartitionReassignmentsResponse](b, req); resp.ErrorCode != 0 || resp.ErrorMessage != nil || len(resp.Topics) != 0 {
			t.Errorf("%s: got %+v, want no error and no topics", c.what, resp)
		}
	}
}
