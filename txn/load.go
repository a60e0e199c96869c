package txn

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage/record"
)

// load reads the partition, and takes up the transactions that were about to end. It blocks
// until the log has recovered and is read; calls meanwhile get ErrLoading. A load that
// fails is told in the log and leaves the ids of the partition unavailable until the next
// start. Kafka: TransactionStateManager.loadTransactionsForTxnTopicPartition.
//
// Differs from Kafka: there the ids that were read before the failure answer, and all
// others of the partition are as new.
func (w *owner) load() {
	w.mu.Lock()
	if w.is != notLoaded {
		w.mu.Unlock()
		return
	}
	w.is = loading
	w.mu.Unlock()

	entries, unreadable, err := w.replay()

	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.count()
	if err != nil {
		w.is, w.loadErr = notLoaded, err
		w.c.o.Logger.Error("transactions were not loaded", "topic", StateTopic, "partition", w.log.Index(), "error", err)
		return
	}
	w.entries, w.unreadable, w.is, w.loadErr = entries, unreadable, loaded, nil
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		if e := entries[id]; e.t.state.prepared() {
			w.begin(e)
		}
	}
	w.inFlight.Settle()
}

// replay reads the log from its start to its high watermark. A record of a type that is not
// known is left alone; one that cannot be read is left out, with a log line. unreadable is how
// many keys have one last.
func (w *owner) replay() (entries map[string]*entry, unreadable int, err error) {
	entries = map[string]*entry{}
	bad := map[string]bool{} // by key
	var reader record.Reader
	for b, err := range runtime.Batches(w.log) {
		if err != nil {
			return nil, 0, err
		}
		if b.Control() {
			continue
		}
		for r, err := range reader.Stored(b) {
			if err != nil {
				return nil, 0, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
			}
			err := replayRecord(entries, r)
			delete(bad, string(r.Key))
			if err != nil {
				bad[string(r.Key)] = true
				w.c.o.Logger.Warn("unreadable record left out", "topic", StateTopic, "partition", w.log.Index(), "offset", r.Offset, "error", err)
			}
		}
	}
	return entries, len(bad), nil
}

// replayRecord applies one record.
func replayRecord(entries map[string]*entry, r record.Record) error {
	id, known, err := parseKey(r.Key)
	if err != nil || !known {
		return err
	}
	if r.Value == nil {
		delete(entries, id)
		return nil
	}
	t, err := parseValue(id, r.Value)
	if err != nil {
		return fmt.Errorf("transactional id %q: %w", id, err)
	}
	if t.ID < 0 || t.Epoch < 0 {
		return errors.New("no producer")
	}
	entries[id] = &entry{id: id, t: t}
	return nil
}
