package wire

import (
	"context"
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
func TestShareOffsetsOfAPartitionThatRecoversKeepNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := newRunningBroker(t, nil)
		before.topic("slow", 1)
		before.mustProduce("slow", 0, before.batch("a", "b", "c"))
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
		started := func(p groups.SharePartition) (int64, int32, bool) { return 1, 1, p.Partition == 0 }
		s.withCoordinators(groups.Options{ShareState: groups.ShareState{
			Initialize: func(context.Context, groups.SharePartition, int64) error { return nil },
			SetStart:   func(context.Context, groups.SharePartition, int64) error { return nil },
			Delete:     func(context.Context, groups.SharePartition) error { return nil },
			Summary:    started,
		}})

		req := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
		req.Version = 1
		for _, topic := range []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{
			{Topic: "missing", Partitions: make([]int32, 50_000)}, {Topic: "slow", Partitions: []int32{0}},
		} {
			req.Groups = append(req.Groups, kmsg.DescribeShareGroupOffsetsRequestGroup{GroupID: topic.Topic, Topics: []kmsg.DescribeShareGroupOffsetsRequestGroupTopic{topic}})
		}
		var waiting []*client
		var ids []int32
		for range mostTurns { // others find no turn then
			c := s.dial(t)
			waiting, ids = append(waiting, c), append(ids, c.send(req))
		}
		synctest.Wait()
		if log, ok := s.store.Topic("slow"); !ok || statusOf(t, log) != storage.StatusRecovering {
			t.Fatalf("the partition does not recover")
		}
		if n, m := s.s.requestTurns.taken, s.s.answerTurns.taken; n != 0 || m != 0 {
			t.Errorf("%d turns of requests and %d of answers are taken while a partition recovers, want none", n, m)
		}
		close(recovers)
		for i, c := range waiting {
			got := c.receive(req, ids[i]).(*kmsg.DescribeShareGroupOffsetsResponse).Groups
			if len(got) != 2 || len(got[0].Topics) != 1 || len(got[0].Topics[0].Partitions) != 50_000 {
				t.Fatalf("answer %d is not of what was asked", i)
			}
			if p := got[1].Topics[0].Partitions[0]; p.ErrorCode != 0 || p.StartOffset != 1 || p.Lag != 1 {
				t.Errorf("answer %d: got %+v, want to start at 1 with a lag of 1", i, p)
			}
		}
		synctest.Wait()
		if n, m := s.s.requestTurns.taken, s.s.answerTurns.taken; n != 0 || m != 0 {
			t.Errorf("%d turns of requests and %d of answers are taken at the end, want none", n, m)
		}
	})
}

func statusOf(t *testing.T, topic *storage.Topic) storage.Status {
	t.Helper()
	log, ok := topic.Partition(0)
	if !ok {
		t.Fatal("no partition")
	}
	return log.Status()
}
