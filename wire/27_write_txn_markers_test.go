package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
)

// markerOf is a marker of a producer for partitions of one topic.
func markerOf(id int64, epoch int16, commit bool, topic string, partitions ...int32) kmsg.WriteTxnMarkersRequestMarker {
	return kmsg.WriteTxnMarkersRequestMarker{
		ProducerID: id, ProducerEpoch: epoch, Committed: commit, CoordinatorEpoch: 0,
		Topics: []kmsg.WriteTxnMarkersRequestMarkerTopic{{Topic: topic, Partitions: partitions}},
	}
}

// writeMarkers sends markers and returns the answer without what is empty, as text.
func (b *broker) writeMarkers(version int16, markers ...kmsg.WriteTxnMarkersRequestMarker) string {
	b.t.Helper()
	req := kmsg.NewPtrWriteTxnMarkersRequest()
	req.Version, req.Markers = version, markers
	type topic struct {
		Topic string
		Codes map[int32]int16
	}
	type producer struct {
		ID     int64
		Topics []topic
	}
	var out []producer
	for _, m := range ask[*kmsg.WriteTxnMarkersResponse](b, req).Markers {
		p := producer{ID: m.ProducerID}
		for _, t := range m.Topics {
			codes := map[int32]int16{}
			for _, x := range t.Partitions {
				codes[x.Partition] = x.ErrorCode
			}
			if len(codes) != len(t.Partitions) {
				b.t.Errorf("%+v names a partition twice", t)
			}
			p.Topics = append(p.Topics, topic{t.Topic, codes})
		}
		out = append(out, p)
	}
	text, err := json.Marshal(out)
	if err != nil {
		b.t.Fatal(err)
	}
	return string(text)
}

// TestWriteTxnMarkersEndsAHangingTransaction ends a transaction of which no coordinator knows.
func TestWriteTxnMarkersEndsAHangingTransaction(t *testing.T) {
	atVersions(t, "", 27, 1, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		for i, commit := range []bool{false, true} {
			b.inTxn("t", 7, int32(i), "x")
			if o := b.offsets("t", 0); o.LastStable != o.End-1 {
				t.Fatalf("before: %+v, want an open transaction", o)
			}
			if got, want := b.writeMarkers(version, markerOf(7, 0, commit, "t", 0)), `[{"ID":7,"Topics":[{"Topic":"t","Codes":{"0":0}}]}]`; got != want {
				t.Errorf("answer %s, want %s", got, want)
			}
			if o := b.offsets("t", 0); o.LastStable != o.End || o.End != int64(2*i+2) {
				t.Errorf("after: %+v, want no open transaction and end %d", o, 2*i+2)
			}
		}
		req := b.fetchRequest(12, asked{"t", 0, 0})
		req.IsolationLevel = 1
		if from := abortedFrom(b.fetchOne(req)); !slices.Equal(from, []int64{0}) {
			t.Errorf("aborted from %v, want 0", from)
		}
	})
}

func TestWriteTxnMarkersAnswersEachPartition(t *testing.T) {
	atVersions(t, "", 27, 1, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.topic("t", 3)
		b.topic("u", 1)
		late := markerOf(9, 4, true, "t", 2)
		late.CoordinatorEpoch = 5
		several := markerOf(7, 0, true, "t", 0, 8, -1, 1, 0) // one twice
		several.Topics = append(several.Topics, markerOf(7, 0, true, "ghost", 0).Topics...)
		several.Topics = append(several.Topics, markerOf(7, 0, true, "t", 1, 2).Topics...)
		got := b.writeMarkers(version,
			several,
			late,
			markerOf(9, 4, true, "t", 2), // of a coordinator before
			markerOf(7, 0, false, "u", 0),
			kmsg.WriteTxnMarkersRequestMarker{ProducerID: 11}, // without partitions
			markerOf(-1, 0, true, "u", 0),
			markerOf(12, -1, true, "u", 0),
			markerOf(13, -1, true, "u", 3),
		)
		want := `[{"ID":7,"Topics":[{"Topic":"t","Codes":{"-1":3,"0":0,"1":0,"2":0,"8":3}},{"Topic":"ghost","Codes":{"0":3}},{"Topic":"u","Codes":{"0":0}}]},` +
			`{"ID":9,"Topics":[{"Topic":"t","Codes":{"2":52}}]},` +
			`{"ID":-1,"Topics":[{"Topic":"u","Codes":{"0":-1}}]},{"ID":12,"Topics":[{"Topic":"u","Codes":{"0":-1}}]},{"ID":13,"Topics":[{"Topic":"u","Codes":{"3":3}}]}]`
		if got != want {
			t.Errorf("answer\n%s, want\n%s", got, want)
		}
		for partition, end := range []int64{1, 1, 2} {
			if got := b.offsets("t", int32(partition)).End; got != end {
				t.Errorf("t-%d ends at %d, want %d", partition, got, end)
			}
		}
		if got := b.writeMarkers(version); got != "null" {
			t.Errorf("no markers: answer %s, want none", got)
		}
		if got, want := b.writeMarkers(version, markerOf(9, 3, true, "t", 2)), `[{"ID":9,"Topics":[{"Topic":"t","Codes":{"2":47}}]}]`; got != want {
			t.Errorf("an epoch before: answer %s, want %s", got, want)
		}
	})
}

// TestWriteTxnMarkersOfTransactionVersion2 is a marker that must have a later epoch than the data. Kafka: KIP-1228.
func TestWriteTxnMarkersOfTransactionVersion2(t *testing.T) {
	for _, c := range []struct {
		version int16
		of      int8
		epoch   int16
		want    string
	}{
		{1, 2, 0, "0"}, // version 1 cannot say it
		{2, 0, 0, "0"},
		{2, 1, 0, "0"},
		{2, 2, 0, "47"},
		{2, 2, 1, "0"},
		{2, 3, 0, "47"},
		{2, -1, 0, "-1"},
		{2, -2, 0, "0"},
	} {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.inTxn("t", 7, 0, "x")
		m := markerOf(7, c.epoch, true, "t", 0)
		m.TransactionVersion = c.of
		if got, want := b.writeMarkers(c.version, m), `[{"ID":7,"Topics":[{"Topic":"t","Codes":{"0":`+c.want+`}}]}]`; got != want {
			t.Errorf("request version %d, transaction version %d, epoch %d: answer %s, want %s", c.version, c.of, c.epoch, got, want)
		}
	}
}

// TestWriteTxnMarkersToOffsets ends a transaction with offsets: they count, or do not.
func TestWriteTxnMarkersToOffsets(t *testing.T) {
	atVersions(t, "", 27, 1, func(t *testing.T, version int16) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("orders", 1)
			ghost, want := markerOf(7, 0, true, groups.OffsetsTopic, 3), `[{"ID":7,"Topics":[{"Topic":"__consumer_offsets","Codes":{"3":3}}]}]`
			if got := b.writeMarkers(version, ghost); got != want {
				t.Errorf("without __consumer_offsets: answer %s, want %s", got, want)
			}
			partition, err := b.s.groups.PartitionOf("g")
			if err != nil {
				t.Fatal(err)
			}
			for _, commit := range []bool{false, true} {
				p := b.txnProducer(fmt.Sprint("commit ", commit))
				if code := b.txnCommitCode(p.commitRequest(5, "orders", 0)); code != 0 {
					t.Fatalf("commit: error %d", code)
				}
				if b.committed("orders", 0).Found {
					t.Error("the offset counts before the end")
				}
				b.writeMarkers(version, markerOf(p.ID, p.Epoch, commit, groups.OffsetsTopic, partition))
				if got := b.committed("orders", 0).Found; got != commit {
					t.Errorf("commit %t: the offset is there: %t", commit, got)
				}
			}
		})
	})
}

// TestWriteTxnMarkersThatCannotBeWritten looks at logs that are out of service, and at a disk that fails.
func TestWriteTxnMarkersThatCannotBeWritten(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("bad", 1)
	b.topic("good", 1)
	b.mustProduce("bad", 0, b.batch("x"))
	b.damage("bad-0")
	if _, err := b.log("bad", 0).Offsets(); !errors.Is(err, storage.ErrOffline) {
		t.Fatalf("the damaged log answers %v, want %v", err, storage.ErrOffline)
	}
	if got, want := b.writeMarkers(2, markerOf(7, 0, true, "bad", 0)), `[{"ID":7,"Topics":[{"Topic":"bad","Codes":{"0":3}}]}]`; got != want {
		t.Errorf("a log that is offline: answer %s, want %s", got, want)
	}
	b.onSync("good-0", func() error { return errors.New("no medium") })
	if got, want := b.writeMarkers(2, markerOf(7, 0, true, "good", 0)), `[{"ID":7,"Topics":[{"Topic":"good","Codes":{"0":56}}]}]`; got != want {
		t.Errorf("a disk that fails: answer %s, want %s", got, want)
	}
}

func TestWriteTxnMarkersWaitsForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRunningBroker(t, nil)
		b.topic("t", 1)
		for _, c := range []struct {
			sync, took time.Duration
			want       string
		}{{3 * time.Second, 3 * time.Second, "0"}, {time.Minute, 30 * time.Second, "7"}} {
			b.onSync("t-0", func() error { <-time.After(c.sync); return nil })
			began := time.Now()
			got, want := b.writeMarkers(2, markerOf(7, 0, true, "t", 0)), `[{"ID":7,"Topics":[{"Topic":"t","Codes":{"0":`+c.want+`}}]}]`
			if took := time.Since(began); got != want || took != c.took {
				t.Errorf("a sync of %v: answer %s after %v, want %s after %v", c.sync, got, took, want, c.took)
			}
		}
	})
}

// TestWhoMayWriteTxnMarkers lets those who may alter the cluster, or act as brokers.
func TestWhoMayWriteTxnMarkers(t *testing.T) {
	for _, op := range []aclOperation{opAlter, opClusterAction, opDescribe} {
		b := guarded(t)
		b.topic("t", 1)
		b.allow(op, resourceCluster, clusterResource)
		want := `[{"ID":7,"Topics":[{"Topic":"t","Codes":{"0":0}}]}]`
		if op == opDescribe {
			want = `[{"ID":7,"Topics":[{"Topic":"t","Codes":{"0":31}}]}]`
		}
		if got := b.writeMarkers(1, markerOf(7, 0, true, "t", 0)); got != want {
			t.Errorf("with operation %d: answer %s, want %s", op, got, want)
		}
	}
}
