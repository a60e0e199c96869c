package share

import (
	"fmt"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage/record"
)

// retryAfter is how long a log that could not be read is not read again.
const retryAfter = time.Second

// load is replay, unless that failed a moment ago. What is wrong with the log is said
// when it is something else than before. Caller holds loading.
func (s *shard) load() (map[Key]*stored, error) {
	now := s.st.o.Now()
	if age := now.Sub(s.failedAt); s.failed != nil && 0 <= age && age < retryAfter {
		return nil, s.failed
	}
	found, err := s.replay()
	if err != nil && (s.failed == nil || s.failed.Error() != err.Error()) {
		s.st.o.Logger.Error("share state was not loaded", "partition", s.log.Index(), "error", err)
	}
	s.failed, s.failedAt = err, now
	return found, err
}

// replay reads the log from its start to its high watermark. A record of a type that
// is not known is left alone; one that cannot be read is left out, with a log line.
func (s *shard) replay() (map[Key]*stored, error) {
	found := make(map[Key]*stored)
	var reader record.Reader
	for b, err := range runtime.Batches(s.log) {
		if err != nil {
			return nil, err
		}
		if b.Control() {
			continue
		}
		for r, err := range reader.Stored(b) {
			if err != nil {
				return nil, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
			}
			if err := replayRecord(found, r); err != nil {
				s.st.o.Logger.Warn("unreadable record left out", "topic", StateTopic, "partition", s.log.Index(), "offset", r.Offset, "error", err)
			}
		}
	}
	return found, nil
}

// replayRecord applies one record. Kafka: ShareCoordinatorShard.replay.
func replayRecord(found map[Key]*stored, r record.Record) error {
	kind, k, known, err := parseKey(r.Key)
	if err != nil || !known {
		return err
	}
	switch {
	case r.Value == nil && kind == typeSnapshot:
		delete(found, k)
	case r.Value == nil:
	case kind == typeSnapshot:
		is, err := parseSnapshot(r.Value)
		if err != nil {
			return err
		}
		is.snapshot = r.Offset
		found[k] = is
	default:
		u, err := parseUpdate(r.Value)
		if err != nil {
			return err
		}
		before := found[k]
		if before == nil { // its snapshot could not be read
			before = &stored{snapshotEpoch: u.snapshotEpoch, start: -1, complete: -1, snapshot: r.Offset}
		}
		found[k] = before.updated(u)
	}
	return nil
}
