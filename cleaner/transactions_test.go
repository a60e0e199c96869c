package cleaner

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// transaction appends a record of a producer and the marker that ends its transaction, which has the next epoch as with
// transactions of version 2.
func (r *rig) transaction(l *storage.Log, producer int64, epoch int16, key string, commit bool) {
	r.t.Helper()
	r.data(l, producer, epoch, key)
	r.end(l, producer, epoch+1, commit)
}

// data appends a record of a transaction.
func (r *rig) data(l *storage.Log, producer int64, epoch int16, key string) {
	r.t.Helper()
	b := record.NewBuilder(record.BuilderOptions{
		LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: producer, ProducerEpoch: epoch, Transactional: true,
	})
	b.Append(record.Record{Key: []byte(key), Value: []byte("value"), Timestamp: r.now.UnixMilli()})
	r.append(l, b.Bytes())
}

// end appends a marker.
func (r *rig) end(l *storage.Log, producer int64, epoch int16, commit bool) {
	r.t.Helper()
	r.append(l, record.EndTxnMarker(producer, epoch, record.Marker{Commit: commit}, r.now.UnixMilli(), 0))
}

// append appends a batch as a coordinator does and waits until it is durable.
func (r *rig) append(l *storage.Log, b record.Batch) {
	r.t.Helper()
	a, err := l.Append(b, storage.AppendOptions{Origin: storage.OriginCoordinator})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// force makes a pass over all but the open segment, which it rolls.
func (r *rig) force(l *storage.Log) PassStats {
	r.t.Helper()
	if err := l.Roll(); err != nil {
		r.t.Fatal(err)
	}
	st, err := r.c.Force(context.Background(), l)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// TestEmptiedMarkerAbortsNothingLater lets the marker of an aborted transaction lose its record while it is still the last
// that is known of its producer, which then commits another transaction.
func TestEmptiedMarkerAbortsNothingLater(t *testing.T) {
	r := newRig(t)
	l := r.log(small("delete.retention.ms", "1000"))
	r.transaction(l, 7, 0, "a", false)
	r.put(l, "k", []byte("v"), r.now)
	r.force(l) // the data goes
	r.force(l) // the marker gets its horizon
	r.now = r.now.Add(time.Minute)
	r.force(l) // and loses its record
	res, err := l.Read(nil, storage.ReadRequest{MaxBytes: 1 << 20, MinOneBatch: true, Isolation: storage.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	if b, _, err := record.Cut(res.Data); err != nil || !b.Control() || b.Count() != 0 || b.BaseOffset() != 1 {
		t.Fatalf("the log begins with %v, %v, want the marker without its record", b, err)
	}
	if len(res.Aborted) != 0 {
		t.Errorf("a reader is told of %+v, and nothing would tell it where that ends", res.Aborted)
	}
	r.transaction(l, 7, 1, "b", true)
	r.force(l)
	r.force(l)
	if got, want := r.read(l, 0), "2:k 3:b"; !strings.HasPrefix(got, want) {
		t.Errorf("records: got %s, want %s and the marker", got, want)
	}
}

// TestEmptiedMarkerEndsWhatBegan is the same where the transaction index still names the transaction, as that of another
// broker may.
func TestEmptiedMarkerEndsWhatBegan(t *testing.T) {
	marker := record.Batch(record.AppendEmpty(nil, record.EndTxnMarker(7, 1, record.Marker{}, 1500, 4)))
	marker.SetBaseOffset(5)
	txns := newTransactions([]storage.AbortedTxn{{ProducerID: 7, FirstOffset: 2, LastOffset: 5}})
	if over, err := txns.control(marker); err != nil || !over {
		t.Errorf("an emptied marker: over %v, %v, want true", over, err)
	}
	later := batchOf(record.BuilderOptions{HasProducer: true, ProducerID: 7, ProducerEpoch: 1, Transactional: true}, "a=1")
	if txns.data(later) {
		t.Error("data after the emptied marker counts as aborted")
	}
}
