package groups

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// load reads the partition and makes the shard answer. It blocks until the log has
// recovered and is read; calls meanwhile get ErrLoading. A load that fails is told
// in the log and leaves the groups of the partition unavailable until the next start.
// Kafka: CoordinatorRuntime.scheduleLoadOperation.
func (w *owner) load() {
	w.mu.Lock()
	if w.state != notLoaded {
		w.mu.Unlock()
		return
	}
	w.state = loading
	w.mu.Unlock()

	s := newShard(w.c.env)
	err := s.replay(w.log, func(offset int64, err error) {
		w.o.Logger.Warn("unreadable record left out", "topic", OffsetsTopic, "partition", w.log.Index(), "offset", offset, "error", err)
	})

	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.count()
	if err != nil {
		w.state, w.loadErr = notLoaded, err
		w.o.Logger.Error("offsets were not loaded", "topic", OffsetsTopic, "partition", w.log.Index(), "error", err)
		return
	}
	w.shard, w.state, w.loadErr = s, loaded, nil
	now := w.o.Now()
	for _, id := range slices.Sorted(maps.Keys(s.entries)) {
		if e := s.entries[id]; e.machine != nil {
			w.advance(now, e, e.machine.loaded(now))
			w.after(now, e)
		}
	}
	w.inFlight.Settle()
}

// replay reads a partition from its start to its high watermark. A record of a type
// that is not known is left alone; one that cannot be read is given to skipped.
// Control batches end transactions.
func (s *shard) replay(log *storage.Log, skipped func(offset int64, err error)) error {
	var reader record.Reader
	for b, err := range runtime.Batches(log) {
		if err != nil {
			return err
		}
		if err := s.replayBatch(&reader, b, skipped); err != nil {
			return err
		}
	}
	return nil
}

// replayBatch applies the records of one batch.
func (s *shard) replayBatch(reader *record.Reader, b record.Batch, skipped func(offset int64, err error)) error {
	for r, err := range reader.Stored(b) {
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
		if err := s.replayRecord(b, r); err != nil {
			skipped(r.Offset, err)
		}
	}
	return nil
}

// replayRecord applies one record. What it keeps of r it copies. Kafka:
// CoordinatorRecordType, GroupCoordinatorShard.replay.
func (s *shard) replayRecord(b record.Batch, r record.Record) error {
	if len(r.Key) < 2 {
		return fmt.Errorf("key of %d bytes, want at least 2", len(r.Key))
	}
	switch int16(binary.BigEndian.Uint16(r.Key)) {
	case typeOffsetCommitOld, typeOffsetCommit:
		group, key, offset, err := parseOffsetRecord(r.Key, r.Value)
		if err != nil {
			return err
		}
		c := change{group: group, key: key, offset: offset, recordOffset: r.Offset}
		if b.Transactional() && offset != nil {
			s.stage(b.ProducerID(), c)
		} else {
			s.apply(c)
		}
	case typeGroupMetadata:
		s.hasMembership(r.Key)
		return s.replayClassic(r.Key, r.Value)
	case typeConsumerEpoch, typeConsumerTopics, typeConsumerMember, typeConsumerTargetEpoch, typeConsumerTarget, typeConsumerCurrent, typeConsumerResolvedRegex:
		s.hasMembership(r.Key)
		return s.replayConsumer(r.Key, r.Value)
	case typeShareMember, typeShareEpoch, typeShareTargetEpoch, typeShareTarget, typeShareCurrent, typeShareStates:
		s.hasMembership(r.Key)
		return s.replayShare(r.Key, r.Value)
	}
	return nil
}

// hasMembership notes that a group is no simple group, by the key of a record of its
// membership, each of which begins with its type and the group.
func (s *shard) hasMembership(key []byte) {
	if len(key) < 4 {
		return
	}
	if n := int(binary.BigEndian.Uint16(key[2:])); n <= len(key)-4 {
		if e := s.entries[string(key[4:4+n])]; e != nil {
			e.simple = false
			s.dropEmpty(e)
		}
	}
}
