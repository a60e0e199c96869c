package wire

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// reassigned makes the rows of a request: partitions in turn from first on, one for each list of replicas.
func reassigned(topic string, first int32, replicas ...[]int32) kmsg.AlterPartitionAssignmentsRequestTopic {
	t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
	t.Topic = topic
	for i, r := range replicas {
		t.Partitions = append(t.Partitions, kmsg.AlterPartitionAssignmentsRequestTopicPartition{Partition: first + int32(i), Replicas: r})
	}
	return t
}

// reassign returns the answer and its rows, each a codeRow.
func (b *broker) reassign(req *kmsg.AlterPartitionAssignmentsRequest) (*kmsg.AlterPartitionAssignmentsResponse, []string) {
	b.t.Helper()
	resp := ask[*kmsg.AlterPartitionAssignmentsResponse](b, req)
	var rows []string
	for _, topic := range resp.Topics {
		if len(topic.Partitions) == 0 {
			rows = append(rows, topic.Topic)
		}
		for _, p := range topic.Partitions {
			rows = append(rows, codeRow(topic.Topic, p.Partition, p.ErrorCode, p.ErrorMessage))
		}
	}
	return resp, rows
}

func TestAlterPartitionReassignments(t *testing.T) {
	type topics = []kmsg.AlterPartitionAssignmentsRequestTopic
	here, null := []int32{1}, []int32(nil)
	for version := range int16(2) {
		b := newBroker(t, nil)
		b.topic("t", 3)
		b.topic("u", 1)
		for _, c := range []struct {
			what      string
			config    string // of gateway.replication.factor
			from      int16
			timeoutMs int32
			fixed     bool // the number of replicas may not change
			topics    topics
			code      int16
			words     string // of the whole answer: null, empty or text
			rows      []string
		}{
			{"to where it is", "", 0, 100, false, topics{reassigned("t", 0, here)}, 0, "null", []string{"t-0 0."}},
			{"to another broker, twice, to none, to two", "", 0, 100, false, topics{reassigned("t", 0, []int32{2}, []int32{1, 1}, []int32{}), reassigned("u", 0, []int32{1, 2})}, 0, "null", []string{"t-0 39", "t-1 39", "t-2 39", "u-0 39"}},
			{"cancelled", "", 0, 100, false, topics{reassigned("t", 0, null)}, 0, "null", []string{"t-0 85."}},
			{"good and bad", "", 0, 100, false, topics{reassigned("t", 2, here, null, []int32{}), reassigned("ghost", 0, here, null), reassigned("t", -1, here, here), reassigned("u", 0, here)}, 0, "null",
				[]string{"t-2 0.", "t-3 3", "t-4 3", "ghost-0 3", "ghost-1 3", "t--1 3", "t-0 0.", "u-0 0."}},
			{"one twice", "", 0, 100, false, topics{reassigned("t", 0, here), reassigned("t", 0, null)}, 0, "null", []string{"t-0 0.", "t-0 85."}},
			{"no partitions", "", 0, 100, false, topics{reassigned("t", 0), reassigned("ghost", 0)}, 0, "null", []string{"t", "ghost"}},
			{"no topics", "", 0, 100, false, topics{}, 0, "empty", nil},
			{"no topics, fixed", "", 1, 100, true, topics{}, 0, "empty", nil},
			{"fixed", "", 1, 100, true, topics{reassigned("t", 0, here, []int32{1, 2}, null)}, 0, "null", []string{"t-0 0.", "t-1 39", "t-2 85."}},
			{"no time", "", 0, 0, false, topics{reassigned("t", 0, here), reassigned("ghost", 7, null), reassigned("u", 0)}, 7, "null", []string{"t-0 7.", "ghost-7 7.", "u"}},
			{"less than no time, fixed", "", 1, -1, true, topics{reassigned("t", 0, here)}, 7, "null", []string{"t-0 7."}},
			{"no time, no topics", "", 0, 0, false, topics{}, 0, "empty", nil},
			{"clamped", "clamp", 0, 100, false, topics{reassigned("t", 0, []int32{1, 2, 3}, []int32{})}, 0, "null", []string{"t-0 0.", "t-1 39"}},
			{"clamped, fixed", "clamp", 1, 100, true, topics{reassigned("t", 0, here, []int32{1, 2, 3})}, 0, "null", []string{"t-0 0.", "t-1 38"}},
		} {
			if version < c.from {
				continue
			}
			t.Run(fmt.Sprintf("%s/v%d", c.what, version), func(t *testing.T) {
				to := b
				if c.config != "" {
					to = newBroker(t, map[string]string{"gateway.replication.factor": c.config})
					to.topic("t", 2)
				}
				req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
				req.Version, req.TimeoutMillis, req.AllowReplicationFactorChange, req.Topics = version, c.timeoutMs, !c.fixed, c.topics
				resp, rows := to.reassign(req)
				said := "null"
				if m := resp.ErrorMessage; m != nil && *m == "" {
					said = "empty"
				} else if m != nil {
					said = "text"
				}
				// Only an answer of the partitions repeats whether the number may change.
				repeats := !c.fixed || len(c.topics) == 0 || c.code != 0
				if resp.ErrorCode != c.code || said != c.words || resp.AllowReplicationFactorChange != repeats || !slices.Equal(rows, c.rows) {
					t.Errorf("got code %d, words %s, may change %t, %q; want %d, %s, %t, %q",
						resp.ErrorCode, said, resp.AllowReplicationFactorChange, rows, c.code, c.words, repeats, c.rows)
				}
			})
		}
	}
}
