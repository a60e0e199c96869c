package cleaner

import (
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

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
	txns.control(marker)
	if over, err := txns.control(record.EndTxnMarker(7, 1, record.Marker{Commit: true}, 1500, 4)); err != nil || !over {
		t.Errorf("a commit marker with no data since the emptied one: over %v, %v, want true", over, err)
	}
}

func TestOtherControlRecordsStay(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{Control: true})
	b.Append(record.Record{Key: []byte{0, 0, 0, 2}}) // Kafka: ControlRecordType.LEADER_CHANGE
	f := filterFor(100, nil)
	got, err := f.batch(b.Bytes())
	if err != nil || got.HasDeleteHorizon() || got.Count() != 1 {
		t.Errorf("got %s, %v, want the batch as it is", show(t, got), err)
	}
}
