package wire

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestTXN13ControlMarkersTakeAnOffset commits a transaction of two records.
func TestTXN13ControlMarkersTakeAnOffset(t *testing.T) {
	atVersions(t, "TXN-13", 2, 2, func(t *testing.T, version int16) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("t", 1)
			p := b.txnProducer("tx")
			p.mustProduce("t", 0, "a", "b")
			p.end(true)
			latest := listOffsetsRequest(version, "t", -1)
			checkOffset(t, b, latest, 0, 3, -1)
			latest.IsolationLevel = 1
			checkOffset(t, b, latest, 0, 3, -1)
			got := b.fetchOne(b.fetchRequest(18, asked{"t", 0, 0}))
			batches := b.batches(got.RecordBatches)
			if last := batches[len(batches)-1]; !last.Control() || last.BaseOffset() != 2 || last.NextOffset() != 3 {
				t.Errorf("a consumer's last batch is %d to %d, control %t; want the marker at 2", last.BaseOffset(), last.NextOffset(), last.Control())
			}
			if offset := b.mustProduce("t", 0, b.batch("c")); offset != 3 {
				t.Errorf("the next base offset is %d, want 3", offset)
			}
		})
	})
}

// TestReadCommittedOfManyTransactions reads and looks offsets up while transactions come and go, that overlap each other
// and plain records.
func TestReadCommittedOfManyTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("t", 1)
		check := func(what string, stable int64, aborted ...int64) {
			t.Helper()
			end := b.offsets("t", 0).End
			req := b.fetchRequest(18, asked{"t", 0, 0})
			req.IsolationLevel = 1
			got := b.fetchOne(req)
			next := int64(0)
			for _, batch := range b.batches(got.RecordBatches) {
				next = batch.NextOffset()
			}
			if got.LastStableOffset != stable || got.HighWatermark != end || next != stable {
				t.Errorf("%s: last stable %d, high watermark %d, read up to %d; want %d, %d, %d", what, got.LastStableOffset, got.HighWatermark, next, stable, end, stable)
			}
			if from := abortedFrom(got); !slices.Equal(from, aborted) && len(from)+len(aborted) > 0 {
				t.Errorf("%s: aborted from %v, want %v", what, from, aborted)
			}
			latest := listOffsetsRequest(11, "t", -1)
			checkOffset(t, b, latest, 0, end, -1)
			latest.IsolationLevel = 1
			checkOffset(t, b, latest, 0, stable, -1)
		}
		p, q := b.txnProducer("p"), b.txnProducer("q")
		b.mustProduce("t", 0, b.batch("0"))
		check("plain", 1)
		p.mustProduce("t", 0, "1", "2")
		check("p is open", 1)
		q.mustProduce("t", 0, "3")
		b.mustProduce("t", 0, b.batch("4"))
		check("q too", 1)
		p.end(false)
		check("p is aborted", 3, 1)
		p.mustProduce("t", 0, "6")
		q.end(true)
		check("q is committed, p open again", 6, 1)
		p.end(false)
		check("p is aborted again", 9, 1, 6)
		q.mustProduce("t", 0, "9")
		q.end(true)
		check("all are over", 11, 1, 6)
	})
}

// TestParkedFetchSeesTheEndOfATransaction parks a read_committed fetch behind an open transaction.
func TestParkedFetchSeesTheEndOfATransaction(t *testing.T) {
	for _, commit := range []bool{true, false} {
		t.Run(fmt.Sprintf("commit=%t", commit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := withTransactions(newRunningBroker(t, nil))
				b.topic("t", 1)
				p := b.txnProducer("tx")
				p.mustProduce("t", 0, "a")
				req := b.fetchRequest(18, asked{"t", 0, 0})
				req.MaxWaitMillis, req.IsolationLevel = 60_000, 1
				answer := b.parkedFetch(req)
				<-time.After(time.Second)
				p.mustProduce("t", 0, "b")
				<-time.After(time.Second)
				p.end(commit)
				checkAnswered(t, b, answer, 2*time.Second, 3)
			})
		})
	}
}
