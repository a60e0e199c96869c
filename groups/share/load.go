package share

import (
	"fmt"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// loadBytes is how much of the log one step of a load reads.
const loadBytes = 1 << 20

// replay reads the log from its start to its high watermark. A record of a type that
// is not known is left alone; one that cannot be read is left out, with a log line.
func (s *shard) replay() (map[Key]*stored, error) {
	offsets, err := s.log.Offsets()
	if err != nil {
		return nil, err
	}
	found := make(map[Key]*stored)
	var (
		reader record.Reader
		buffer []byte
	)
	for next := offsets.LogStart; next < offsets.HighWatermark; {
		res, err := s.log.Read(buffer[:0], storage.ReadRequest{Offset: next, MaxBytes: loadBytes, MinOneBatch: true})
		if err != nil {
			return nil, fmt.Errorf("read at offset %d: %w", next, err)
		}
		if buffer = res.Data; len(buffer) == 0 {
			break
		}
		for rest := buffer; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				return nil, fmt.Errorf("read at offset %d: %w", next, err)
			}
			next = b.NextOffset()
			if b.Control() {
				continue
			}
			for r, err := range reader.Records(b) {
				if err != nil {
					return nil, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
				}
				if err := replayRecord(found, r); err != nil {
					s.st.o.Logger.Warn("unreadable record left out", "topic", StateTopic, "partition", s.log.Index(), "offset", r.Offset, "error", err)
				}
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
