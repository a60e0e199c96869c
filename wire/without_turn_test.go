package wire

import (
	"path"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// Large requests about a partition that recovers, which may take long, keep no turn from others.
func TestRequestsOfAPartitionThatRecoversKeepNoTurn(t *testing.T) {
	many := make([]int32, 50_000) // of a topic that does not exist
	for i := range many {
		many[i] = int32(i)
	}
	offsets, records := kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrDeleteRecordsRequest()
	offsets.Version, offsets.ReplicaID = 11, -1
	records.Version = 2
	for _, topic := range []struct {
		name       string
		partitions []int32
	}{{"missing", many}, {"slow", []int32{0}}} {
		o, d := kmsg.ListOffsetsRequestTopic{Topic: topic.name}, kmsg.DeleteRecordsRequestTopic{Topic: topic.name}
		for _, p := range topic.partitions {
			o.Partitions = append(o.Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: p, CurrentLeaderEpoch: -1, Timestamp: timestampLatest})
			d.Partitions = append(d.Partitions, kmsg.DeleteRecordsRequestTopicPartition{Partition: p, Offset: 1})
		}
		offsets.Topics, records.Topics = append(offsets.Topics, o), append(records.Topics, d)
	}
	dirs, producers := kmsg.NewPtrDescribeLogDirsRequest(), describeProducersOf("missing", many...)
	dirs.Version = 4
	dirs.Topics = []kmsg.DescribeLogDirsRequestTopic{{Topic: "missing", Partitions: many}, {Topic: "slow", Partitions: []int32{0}}}
	producers.Topics = append(producers.Topics, describeProducersOf("slow", 0).Topics...)

	for _, c := range []struct {
		req  kmsg.Request
		said func(kmsg.Response) bool // whether the answer is that of the partition when it is recovered
	}{
		{offsets, func(resp kmsg.Response) bool {
			got := resp.(*kmsg.ListOffsetsResponse).Topics
			return len(got) == 2 && len(got[0].Partitions) == len(many) && got[1].Partitions[0].Offset == 3
		}},
		{records, func(resp kmsg.Response) bool {
			got := resp.(*kmsg.DeleteRecordsResponse).Topics
			return len(got) == 2 && len(got[0].Partitions) == len(many) && got[1].Partitions[0].LowWatermark == 1
		}},
		{dirs, func(resp kmsg.Response) bool {
			got := resp.(*kmsg.DescribeLogDirsResponse).Dirs[0].Topics
			return len(got) == 1 && got[0].Topic == "slow" && got[0].Partitions[0].Size > 0
		}},
		{producers, func(resp kmsg.Response) bool {
			got := resp.(*kmsg.DescribeProducersResponse).Topics
			return len(got) == 2 && len(got[0].Partitions) == len(many) && len(got[1].Partitions[0].ActiveProducers) == 1
		}},
	} {
		t.Run(keyName(c.req.Key()), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { answersOfARecoveringPartition(t, groups.Options{}, c.req, c.said) })
		})
	}
}

// answersOfARecoveringPartition sends a large request more than there are turns while partition 0 of slow, which has three
// records, recovers, and fails unless they keep no turn and are answered with what said looks for afterwards.
func answersOfARecoveringPartition(t *testing.T, o groups.Options, req kmsg.Request, said func(kmsg.Response) bool) {
	before := newRunningBroker(t, nil)
	before.topic("slow", 1)
	before.mustProduce("slow", 0, before.batch("a", "b"))
	before.inTxn("slow", 7, 0, "c")
	before.stop()
	recovers := make(chan struct{})
	hook := func(o vfs.Op) error {
		if strings.HasSuffix(o.Name, ".log") && path.Base(path.Dir(o.Name)) == "slow-0" {
			<-recovers
		}
		return nil
	}
	before.onOp.Store(&hook)
	before.open(nil)
	s := serveBroker(t, before)
	s.withCoordinators(o)

	var waiting []*client
	var ids []int32
	for range mostTurns { // others find no turn then
		k := s.dial(t)
		waiting, ids = append(waiting, k), append(ids, k.send(req))
	}
	synctest.Wait()
	if topic, ok := s.store.Topic("slow"); !ok || statusOf(t, topic) != storage.StatusRecovering {
		t.Fatalf("the partition does not recover")
	}
	if n, m := s.s.requestTurns.taken, s.s.answerTurns.taken; n != 0 || m != 0 {
		t.Errorf("%d turns of requests and %d of answers are taken while a partition recovers, want none", n, m)
	}
	close(recovers)
	for i, k := range waiting {
		if resp := k.receive(req, ids[i]); !said(resp) {
			t.Errorf("answer %d is not of what was asked", i)
		}
	}
	synctest.Wait()
	if n, m := s.s.requestTurns.taken, s.s.answerTurns.taken; n != 0 || m != 0 {
		t.Errorf("%d turns of requests and %d of answers are taken at the end, want none", n, m)
	}
}

func statusOf(t *testing.T, topic *storage.Topic) storage.Status {
	t.Helper()
	log, ok := topic.Partition(0)
	if !ok {
		t.Fatal("no partition")
	}
	return log.Status()
}
