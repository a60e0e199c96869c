package groups

import (
	"fmt"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// loadBytes is how much of the log one step of a load reads.
const loadBytes = 1 << 20

// load reads the partition and makes the shard answer. It blocks until the log has
// recovered and is read; calls meanwhile get ErrLoading. A load that fails is told
// in the log and leaves the groups of the partition unavailable until the next.
func (w *owner) load() {
	w.mu.Lock()
	if w.state != notLoaded {
		w.mu.Unlock()
		return
	}
	w.state = loading
	w.mu.Unlock()

	s, err := replay(w.log, func(offset int64, err error) {
		w.o.Logger.Warn("unreadable record left out", "topic", OffsetsTopic, "partition", w.log.Index(), "offset", offset, "error", err)
	})

	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil {
		w.state, w.loadErr = notLoaded, err
		w.o.Logger.Error("offsets were not loaded", "topic", OffsetsTopic, "partition", w.log.Index(), "error", err)
		return
	}
	w.shard, w.state, w.loadErr = s, loaded, nil
}

// replay reads a partition from its start to its high watermark. A record that is
// no offset is left alone; one that cannot be read is given to skipped. Control
// batches end transactions. Kafka: CoordinatorLoaderImpl.
func replay(log *storage.Log, skipped func(offset int64, err error)) (*shard, error) {
	s := newShard()
	offsets, err := log.Offsets()
	if err != nil {
		return nil, err
	}
	var (
		reader record.Reader
		buffer []byte
	)
	for next := offsets.LogStart; next < offsets.HighWatermark; {
		res, err := log.Read(buffer[:0], storage.ReadRequest{Offset: next, MaxBytes: loadBytes, MinOneBatch: true})
		if err != nil {
			return nil, fmt.Errorf("read at offset %d: %w", next, err)
		}
		buffer = res.Data
		if len(res.Data) == 0 {
			return s, nil // only compacted-away offsets are left
		}
		for rest := res.Data; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				return nil, fmt.Errorf("read at offset %d: %w", next, err)
			}
			if err := s.replayBatch(&reader, b, skipped); err != nil {
				return nil, err
			}
			next = b.NextOffset()
		}
	}
	return s, nil
}

// replayBatch applies the records of one batch.
func (s *shard) replayBatch(reader *record.Reader, b record.Batch, skipped func(offset int64, err error)) error {
	for r, err := range reader.Records(b) {
		if err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		if b.Control() {
			marker, ok, err := record.ParseEndTxnMarker(r)
			if err != nil {
				return fmt.Errorf("marker at offset %d: %w", r.Offset, err)
			}
			if ok {
				s.end(b.ProducerID(), marker.Commit)
			}
			continue
		}
		group, key, offset, ok, err := parseOffsetRecord(r.Key, r.Value)
		if err != nil {
			skipped(r.Offset, err)
			continue
		}
		if !ok {
			continue
		}
		c := change{group: group, key: key, offset: offset, recordOffset: r.Offset}
		if b.Transactional() {
			s.stage(b.ProducerID(), c)
		} else {
			s.apply(c)
		}
	}
	return nil
}
