package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
)

// commitRequest makes a request that commits offset 7 for a partition of a topic in the producer's transaction, for the
// group g.
func (p *txnProducer) commitRequest(version int16, topic string, partition int32) *kmsg.TxnOffsetCommitRequest {
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = version, p.id, p.ID, p.Epoch
	req.Group, req.Generation = "g", -1
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic = topic
	if known, ok := p.b.store.Topic(topic); ok {
		t.TopicID = known.ID()
	} else {
		t.TopicID = [16]byte{1}
	}
	x := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	x.Partition, x.Offset, x.LeaderEpoch, x.Metadata = partition, 7, 3, kmsg.StringPtr("text")
	t.Partitions = append(t.Partitions, x)
	req.Topics = append(req.Topics, t)
	return req
}

// txnCommitCode sends a commit of one partition and returns its code.
func (b *broker) txnCommitCode(req *kmsg.TxnOffsetCommitRequest) int16 {
	b.t.Helper()
	resp := ask[*kmsg.TxnOffsetCommitResponse](b, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		b.t.Fatalf("commit answers %+v, want one partition", resp.Topics)
	}
	if at := resp.Topics[0]; req.Version < 6 && at.Topic != req.Topics[0].Topic || req.Version >= 6 && at.TopicID != req.Topics[0].TopicID {
		b.t.Errorf("version %d answers for topic %q, %x", req.Version, at.Topic, at.TopicID)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

// addOffsets adds the partition of the group g to the transaction, as clients up to version 4 do.
func (p *txnProducer) addOffsets() {
	p.b.t.Helper()
	partition, err := p.b.s.groups.PartitionOf("g")
	if err != nil {
		p.b.t.Fatal(err)
	}
	p.add(groups.OffsetsTopic, partition)
}

// everyVersion runs a test at every version of a key, each in a bubble of its own.
func everyVersion(t *testing.T, key int16, f func(t *testing.T, version int16)) {
	t.Helper()
	a := apis.find(key)
	for v := a.min; v <= a.max; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) { synctest.Test(t, func(t *testing.T) { f(t, v) }) })
	}
}

func TestTxnOffsetCommitCountsWithTheTransaction(t *testing.T) {
	everyVersion(t, 28, func(t *testing.T, v int16) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		for _, commit := range []bool{false, true} {
			if v < 5 {
				p.addOffsets()
			}
			if code := b.txnCommitCode(p.commitRequest(v, "orders", 0)); code != 0 {
				t.Fatalf("error %d, want 0", code)
			}
			if b.committed("orders", 0).Found {
				t.Error("the offset counts before the end of the transaction")
			}
			if got := b.fetchOrders(7, true, false); got.ErrorCode != 88 {
				t.Errorf("who wants a stable offset is told %d, want 88", got.ErrorCode)
			}
			p.end(commit)
			if got := b.committed("orders", 0).Found; got != commit {
				t.Errorf("after commit %t the offset is there: %t", commit, got)
			}
			if got := b.fetchOrders(7, true, false); got.ErrorCode != 0 {
				t.Errorf("then who wants a stable offset is told %d, want 0", got.ErrorCode)
			}
		}
		epoch := int32(3)
		if v < 2 {
			epoch = -1
		}
		if o := b.committed("orders", 0).Offset; o.Offset != 7 || o.LeaderEpoch != epoch || o.Metadata != "text" || o.CommitMs != b.nowMs() || o.ExpireMs != -1 {
			t.Errorf("committed %+v, want 7 with epoch %d and no expiry", o, epoch)
		}
	})
}

func TestTxnOffsetCommitErrors(t *testing.T) {
	everyVersion(t, 28, func(t *testing.T, v int16) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		unknown, missing, member := int16(3), int16(48), int16(22)
		switch {
		case v >= 6:
			unknown, missing, member = 100, 0, 69
		case v >= 5:
			missing = 0
		case v >= 4:
			missing = 120
		}
		if got := b.txnCommitCode(p.commitRequest(v, "orders", 0)); got != missing {
			t.Errorf("a transaction that has no offsets: error %d, want %d", got, missing)
		}
		if v >= 5 {
			partition, _ := b.s.groups.PartitionOf("g")
			if in := p.partitions(); !slices.Equal(in, []txn.Partition{{Topic: groups.OffsetsTopic, Partition: partition}}) {
				t.Errorf("in the transaction are %v, want the group's partition of __consumer_offsets", in)
			}
			p.end(false)
		}
		fenced, stranger, long, nameless := *p, *p, p.commitRequest(v, "orders", 0), p.commitRequest(v, "orders", 0)
		p = b.txnProducer("tx") // with a later epoch
		stranger.ID += 1000
		long.ProducerEpoch, nameless.ProducerEpoch = p.Epoch, p.Epoch
		long.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
		nameless.Group = ""
		p.addOffsets()
		for _, c := range []struct {
			what string
			req  *kmsg.TxnOffsetCommitRequest
			want int16
		}{
			{"a topic that is not there", p.commitRequest(v, "ghost", 0), unknown},
			{"a partition that is not there", p.commitRequest(v, "orders", 1), 3},
			{"a negative partition", p.commitRequest(v, "orders", -1), 3},
			{"a text that is too long", long, 12},
			{"no group", nameless, 24},
			{"an epoch before", fenced.commitRequest(v, "orders", 0), 47},
			{"a producer id that is not the transactional id's", stranger.commitRequest(v, "orders", 0), 49},
		} {
			if got := b.txnCommitCode(c.req); got != c.want {
				t.Errorf("%s: error %d, want %d", c.what, got, c.want)
			}
		}
		if v >= 3 {
			req := p.commitRequest(v, "orders", 0)
			req.Generation, req.MemberID, req.Group = 0, "m", "other"
			partition, err := b.s.groups.PartitionOf("other")
			if err != nil {
				t.Fatal(err)
			}
			p.add(groups.OffsetsTopic, partition)
			if got := b.txnCommitCode(req); got != member {
				t.Errorf("a member of a group that is not there: error %d, want %d", got, member)
			}
		}
		p.end(true)
		if b.committed("orders", 0).Found {
			t.Error("an offset is committed, want none")
		}
	})
}

// TestTxnOffsetCommitOfMembers holds who may commit against a group by KIP-848.
func TestTxnOffsetCommitOfMembers(t *testing.T) {
	for v := int16(3); v <= 6; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := withTransactions(newRunningBroker(t, nil))
				b.topic("orders", 1)
				epoch := b.consumerHeartbeat("m", 0)
				p := b.txnProducer("tx")
				p.addOffsets()
				stale := int16(22)
				if v >= 6 {
					stale = 113
				}
				for _, c := range []struct {
					what, member string
					epoch        int32
					want         int16
				}{
					{"the member", "m", epoch, 0},
					{"the member in an epoch to come", "m", epoch + 1, stale},
					{"the member before it had the partition", "m", epoch - 1, stale},
					{"an unknown member", "ghost", epoch, 25},
					{"nobody", "", -1, 0},
				} {
					req := p.commitRequest(v, "orders", 0)
					req.MemberID, req.Generation = c.member, c.epoch
					if got := b.txnCommitCode(req); got != c.want {
						t.Errorf("commit of %s: %d, want %d", c.what, got, c.want)
					}
				}
			})
		})
	}
}

// TestTxnOffsetCommitAsksTheCoordinatorFirst commits for a member that is not there, in a transaction that has no offsets.
func TestTxnOffsetCommitAsksTheCoordinatorFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		req := p.commitRequest(4, "orders", 0)
		req.MemberID, req.Generation = "m", 3
		if got := b.txnCommitCode(req); got != 120 {
			t.Errorf("error %d, want 120", got)
		}
		p.addOffsets()
		if got := b.txnCommitCode(req); got != 22 {
			t.Errorf("with the offsets in the transaction: error %d, want 22", got)
		}
	})
}

func TestTxnOffsetCommitCodes(t *testing.T) {
	for _, c := range []struct {
		err  error
		want [7]int16 // by version
	}{
		{nil, [7]int16{}},
		{groups.ErrLoading, [7]int16{15, 15, 14, 14, 14, 14, 14}},
		{txn.ErrLoading, [7]int16{15, 15, 14, 14, 14, 14, 14}},
		{txn.ErrConcurrentTransactions, [7]int16{51, 51, 51, 51, 51, 51, 51}},
		{txn.ErrNotInTransaction, [7]int16{48, 48, 48, 48, 120, 120, 120}},
		{txn.ErrProducerFenced, [7]int16{47, 47, 47, 47, 47, 47, 47}},
	} {
		for version, want := range c.want {
			if got := txnCommitCode(c.err, int16(version)); got != want {
				t.Errorf("%v at version %d: %d, want %d", c.err, version, got, want)
			}
		}
	}
}

func TestTxnOffsetCommitFailsPartitionsOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 2)
		p := b.txnProducer("tx")
		req := p.commitRequest(5, "ghost", 0)
		req.Topics = append(req.Topics, p.commitRequest(5, "orders", 7).Topics[0], p.commitRequest(5, "orders", 1).Topics[0])
		resp := ask[*kmsg.TxnOffsetCommitResponse](b, req)
		for i, want := range []int16{3, 3, 0} {
			if got := resp.Topics[i].Partitions[0].ErrorCode; got != want {
				t.Errorf("topic %d: error %d, want %d", i, got, want)
			}
		}
		p.end(true)
		if !b.committed("orders", 1).Found {
			t.Error("nothing is committed for the partition that is there")
		}
	})
}

func TestTxnOffsetCommitThatCannotBeWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		p.addOffsets()
		large := p.commitRequest(4, "orders", 0)
		for range b.s.groups.MostCommits() {
			large.Topics[0].Partitions = append(large.Topics[0].Partitions, large.Topics[0].Partitions[0])
		}
		for _, x := range ask[*kmsg.TxnOffsetCommitResponse](b, large).Topics[0].Partitions {
			if x.ErrorCode != -1 {
				t.Fatalf("a commit larger than a batch: error %d, want -1, which nobody tries again", x.ErrorCode)
			}
		}
		broken := func(o vfs.Op) error {
			if o.Kind == vfs.OpSync && strings.Contains(o.Name, groups.OffsetsTopic) {
				return errors.New("no medium")
			}
			return nil
		}
		b.onOp.Store(&broken)
		if code := b.txnCommitCode(p.commitRequest(4, "orders", 0)); code != 16 {
			t.Errorf("a disk that fails: error %d, want 16", code)
		}
		b.onOp.Store(nil)
		if code := b.txnCommitCode(p.commitRequest(4, "orders", 0)); code != 0 {
			t.Errorf("when the disk is back: error %d, want 0", code)
		}
	})
}

// TestWhoMayCommitInTransactions grants one after the other what a commit needs.
func TestWhoMayCommitInTransactions(t *testing.T) {
	everyVersion(t, 28, func(t *testing.T, v int16) {
		b := newRunningBroker(t, withAuthorizer())
		b.r.principal = "User:low"
		withTransactions(b)
		b.topic("orders", 1)
		b.topic("denied", 1)
		p := b.txnProducer("tx")
		p.addOffsets()
		req := p.commitRequest(v, "denied", 0)
		req.Topics = append(req.Topics, p.commitRequest(v, "orders", 0).Topics[0], p.commitRequest(v, "ghost", 0).Topics[0])
		ghost := int16(29) // who may not see it learns nothing, but by an id
		if v >= 6 {
			ghost = 100
		}
		check := func(what string, want ...int16) {
			t.Helper()
			var got []int16
			for _, at := range ask[*kmsg.TxnOffsetCommitResponse](b, req).Topics {
				got = append(got, at.Partitions[0].ErrorCode)
			}
			if !slices.Equal(got, want) {
				t.Errorf("%s: errors %v, want %v", what, got, want)
			}
		}
		check("nothing", 53, 53, 53)
		b.allow(opRead, resourceGroup, "g")
		check("READ on the group", 53, 53, 53)
		b.allow(opWrite, resourceTransactionalID, "tx")
		check("WRITE on the transactional id besides", 29, 29, ghost)
		b.allow(opRead, resourceTopic, "orders")
		check("READ on a topic besides", 29, 0, ghost)
	})
}

func TestCommitInTransactionsNeedsTheGroup(t *testing.T) {
	everyVersion(t, 28, func(t *testing.T, v int16) {
		b := newRunningBroker(t, withAuthorizer())
		b.r.principal = "User:low"
		withTransactions(b)
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		b.allow(opWrite, resourceTransactionalID, "tx")
		b.allow(opRead, resourceTopic, "orders")
		if got := b.txnCommitCode(p.commitRequest(v, "orders", 0)); got != 30 {
			t.Errorf("error %d, want 30", got)
		}
	})
}
