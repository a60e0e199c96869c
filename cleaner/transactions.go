package cleaner

import (
	"context"
	"fmt"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// transactions follows the transactions of a log from batch to batch: which data was aborted, and which markers end a
// transaction that has no batch left. Kafka: CleanedTransactionMetadata.
//
// It goes by the transaction index, as readers do, and refuses a log in which an abort marker ends data that no entry covers:
// an index that was lost or damaged makes such data look committed, and it would take the place of what was. Data below the
// log start, which may still lie in the first segment, does not count: a recovery does not look at it, and enters no
// transaction that has data there alone. Nor does a marker without data: compaction may have removed that, and the entry with
// it, or the coordinator ended a transaction that wrote nothing here. Differs from Kafka: it takes such data for committed.
type transactions struct {
	waiting  []storage.AbortedTxn // aborted ones that begin later, by first offset
	aborted  map[int64]bool       // by producer id: begun, and whether a batch of it was met
	decided  map[int64]offsets    // by producer id: the batches that were met of a transaction that commits
	logStart int64                // data below it is not judged; 0 is right where reading begins at or above the log start
	reader   record.Reader
}

// offsets are the first and the last of the data of a transaction at or above the log start; both -1 when all is below.
type offsets struct{ first, last int64 }

// unindexedError says that an abort marker ends data that no aborted transaction in the index covers.
type unindexedError struct {
	producer, marker int64
	data             offsets
}

func (e *unindexedError) Error() string {
	return fmt.Sprintf("producer %d aborted offsets %d to %d with the marker at offset %d, and the transaction index has no such aborted transaction",
		e.producer, e.data.first, e.data.last, e.marker)
}

// newTransactions begins with the aborted transactions of the part of the log that is gone through, by first offset.
func newTransactions(aborted []storage.AbortedTxn) *transactions {
	return &transactions{waiting: aborted, aborted: map[int64]bool{}, decided: map[int64]offsets{}}
}

// begin takes in the aborted transactions that begin at or below offset.
func (t *transactions) begin(offset int64) {
	for len(t.waiting) > 0 && t.waiting[0].FirstOffset <= offset {
		t.aborted[t.waiting[0].ProducerID] = false
		t.waiting = t.waiting[1:]
	}
}

// data takes in a batch of data and reports whether it was aborted.
func (t *transactions) data(b record.Batch) bool {
	t.begin(b.LastOffset())
	if !b.Transactional() {
		return false
	}
	if _, ok := t.aborted[b.ProducerID()]; ok {
		t.aborted[b.ProducerID()] = true
		return true
	}
	o, met := t.decided[b.ProducerID()]
	if !met {
		o = offsets{-1, -1}
	}
	if b.LastOffset() >= t.logStart {
		if o.last = b.LastOffset(); o.first < 0 {
			o.first = b.BaseOffset()
		}
	}
	t.decided[b.ProducerID()] = o
	return false
}

// control takes in a control batch and reports whether nothing is left of what it ended.
func (t *transactions) control(b record.Batch) (bool, error) {
	t.begin(b.LastOffset())
	for r, err := range t.reader.Records(b) {
		if err != nil {
			return false, fmt.Errorf("control batch at offset %d: %w", b.BaseOffset(), err)
		}
		m, ok, err := record.ParseEndTxnMarker(r)
		if err != nil {
			return false, fmt.Errorf("control batch at offset %d: %w", b.BaseOffset(), err)
		}
		if !ok {
			return false, nil
		}
		id := b.ProducerID()
		data, left := t.decided[id]
		if !m.Commit {
			if left && data.first >= 0 {
				return false, &unindexedError{producer: id, marker: b.BaseOffset(), data: data}
			}
			left = t.aborted[id]
			delete(t.aborted, id)
		}
		delete(t.decided, id)
		return !left, nil
	}
	// It was emptied before, once nothing was left of its transaction, and does not say how that ended.
	delete(t.aborted, b.ProducerID())
	delete(t.decided, b.ProducerID())
	return true, nil
}

// awaitMarkers reads on from the offset next, where the map ends, to the markers of the transactions that it has data of as
// committed: an abort marker among them is refused before anything is done.
func (c *compactor) awaitMarkers(ctx context.Context, l *storage.Log, next int64, txns *transactions) error {
	for len(txns.decided) > 0 {
		res, err := l.Read(c.buffer[:0], storage.ReadRequest{Offset: next, MaxBytes: readBytes, MinOneBatch: true, VerifyCRC: true})
		if err != nil {
			return err
		}
		c.buffer = res.Data
		if len(res.Data) == 0 {
			return nil
		}
		if err := c.step(ctx, len(res.Data)); err != nil {
			return err
		}
		for rest := res.Data; len(rest) > 0; {
			b := record.Batch(rest)
			b, rest = b[:b.Size()], rest[b.Size():]
			next = b.NextOffset()
			if _, ok := txns.decided[b.ProducerID()]; !ok || !b.Control() {
				continue
			}
			if _, err := txns.control(b); err != nil {
				return err
			}
		}
	}
	return nil
}
