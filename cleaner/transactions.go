package cleaner

import (
	"fmt"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// transactions follows the transactions of a log from batch to batch: which data was aborted, and which markers end a
// transaction that has no batch left. Kafka: CleanedTransactionMetadata.
type transactions struct {
	waiting []storage.AbortedTxn // aborted ones that begin later, by first offset
	aborted map[int64]bool       // by producer id: begun, and whether a batch of it was met
	decided map[int64]bool       // producer ids with batches of a transaction that commits
	reader  record.Reader
}

// newTransactions begins with the aborted transactions of the part of the log that is gone through, by first offset.
func newTransactions(aborted []storage.AbortedTxn) *transactions {
	return &transactions{waiting: aborted, aborted: map[int64]bool{}, decided: map[int64]bool{}}
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
	t.decided[b.ProducerID()] = true
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
		ended := t.decided
		if !m.Commit {
			ended = t.aborted
		}
		left := ended[b.ProducerID()]
		delete(ended, b.ProducerID())
		return !left, nil
	}
	// It was emptied before, once nothing was left of its transaction, and does not say how that ended.
	delete(t.aborted, b.ProducerID())
	delete(t.decided, b.ProducerID())
	return true, nil
}
