package storage

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// metadataReplay is what the files of the metadata log say.
type metadataReplay struct {
	state *metadataState
	// snapshot is what the records since the beginning of a snapshot add up to; nil before and after one.
	snapshot *metadataState
	end      int64 // the offset after the last batch that was read
	bytes    int64 // of the batches that were read
	records  int64 // in them
}

// replayMetadata reads the metadata log in the directory dir from the offset start on. It changes nothing and needs no
// recovered log, so that a format which is not known, and damage, are found before anything is touched. synced is the
// offset below which everything was on disk.
//
// A batch is written only when the one before it is durable, so only the last can be torn: it is left out. Bytes that
// are no batch with a batch after them, or below synced, are damage. The error is a *FormatError, a *CorruptError for
// damage and for records that are no metadata, or an I/O error.
func replayMetadata(fsys vfs.FS, dir string, start, synced int64) (*metadataReplay, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	r := &metadataReplay{state: newMetadataState(), end: start}
	var bases []int64
	for _, name := range names {
		if base, ok := parseLogFileName(name); ok {
			bases = append(bases, base)
		}
	}
	// What lies wholly below the start may be half removed.
	for len(bases) > 1 && bases[1] <= start {
		bases = bases[1:]
	}
	var reader record.Reader
	var end *CorruptError // where the batches end, which is damage if they should not
	for _, base := range bases {
		file := segmentFile(dir, base, logSuffix)
		b, err := readFile(fsys, file)
		if err != nil {
			return nil, err
		}
		if end == nil && r.bytes > 0 && base != r.end {
			end = &CorruptError{File: file, Reason: fmt.Sprintf("it begins at offset %d, the segment before it ends at %d", base, r.end)}
		}
		position := int64(0)
		if end == nil {
			position, err = r.replaySegment(&reader, file, base, b)
			if bad, ok := errors.AsType[*badBatch](err); ok {
				end = &CorruptError{File: file, Position: position, Reason: bad.reason}
				position++
			} else if err != nil {
				return nil, err
			}
		}
		if end == nil {
			continue
		}
		behind, err := countBatches(bytes.NewReader(b), position, int64(len(b)), base)
		if err != nil {
			return nil, err
		}
		if behind > 0 {
			end.Reason += "; whole batches follow, so it is not the end of a write that was cut short"
			return nil, end
		}
	}
	switch {
	case r.end < synced && end != nil:
		end.Reason += fmt.Sprintf("; everything below offset %d was on disk", synced)
		return nil, end
	case r.bytes == 0 && end != nil:
		return nil, end
	case r.bytes == 0:
		return nil, &CorruptError{File: dir, Position: -1, Reason: "the metadata log holds no batch"}
	case r.end < synced:
		return nil, &CorruptError{File: dir, Position: -1, Reason: fmt.Sprintf("the metadata log ends at offset %d, everything below %d was on disk", r.end, synced)}
	case r.state.format == 0:
		return nil, &FormatError{File: dir, Reason: "no format record"}
	}
	return r, nil
}

// parseLogFileName returns the base offset of a segment's file.
func parseLogFileName(name string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, ".log")
	if !ok || len(digits) != 20 {
		return 0, false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	return base, err == nil && base >= 0
}

// replaySegment applies the batches of one segment and returns where it stopped: at its end, or with a *badBatch where
// it goes on with something that is no batch. The offsets of this log have no gaps.
func (r *metadataReplay) replaySegment(reader *record.Reader, file string, base int64, b []byte) (position int64, err error) {
	for next := base; position < int64(len(b)); {
		batch, _, err := record.Cut(b[position:])
		if err != nil {
			return position, &badBatch{position: position, next: next, reason: err.Error()}
		}
		if batch.BaseOffset() < next {
			return position, &badBatch{position: position, next: next, reason: fmt.Sprintf("base offset %d, want %d", batch.BaseOffset(), next)}
		}
		if batch.BaseOffset() > next {
			// Its checksum does not cover the offset, and what a write that is cut short lacks is zeros.
			return position, &CorruptError{File: file, Position: position, Reason: fmt.Sprintf("base offset %d, want %d", batch.BaseOffset(), next)}
		}
		next = batch.NextOffset()
		if next > r.end {
			if err := r.replayBatch(reader, file, position, batch); err != nil {
				return position, err
			}
		}
		position += int64(batch.Size())
	}
	return position, nil
}

// replayBatch applies the records of the batch at position in a file.
func (r *metadataReplay) replayBatch(reader *record.Reader, file string, position int64, batch record.Batch) error {
	for rec, err := range reader.Records(batch) {
		if err != nil {
			return &CorruptError{File: file, Position: position, Reason: err.Error()}
		}
		if err := r.apply(rec.Key, rec.Value); err != nil {
			if fault, ok := errors.AsType[*metadataFault](err); ok {
				return &CorruptError{File: file, Position: position, Reason: fault.reason}
			}
			return &FormatError{File: file, Reason: err.Error()}
		}
	}
	r.end = batch.NextOffset()
	r.bytes += int64(batch.Size())
	return nil
}

// apply adds a record to the state.
func (r *metadataReplay) apply(key, value []byte) error {
	if err := r.state.apply(key, value); err != nil {
		return err
	}
	r.records++
	if key[0] == metadataSnapshotKey {
		switch end := value[1] == 1; {
		case end && r.snapshot != nil:
			r.state, r.snapshot = r.snapshot, nil
		case !end && r.records > 1: // else the state has nothing else in it
			r.snapshot = newMetadataState()
		}
		return nil
	}
	if r.snapshot != nil {
		return r.snapshot.apply(key, value)
	}
	return nil
}

// newMetadataSuffix ends the name of the directory in which a metadata log is made.
const newMetadataSuffix = ".new"

// createMetadataLog makes the metadata log of a state in the data directory dir. After a crash it is there as a whole
// or not at all.
func createMetadataLog(fsys vfs.FS, dir string, st *metadataState, now time.Time) error {
	final := filepath.Join(dir, partitionDirName(metadataTopic, 0))
	temp := final + newMetadataSuffix
	if err := fsys.RemoveAll(temp); err != nil {
		return err
	}
	if err := fsys.MkdirAll(temp); err != nil {
		return err
	}
	var b []byte
	next := int64(0)
	for _, batch := range snapshotBatches(st, now.UnixMilli()) {
		batch.SetBaseOffset(next)
		batch.SetLeaderEpoch(max(st.epoch, 0))
		next = batch.NextOffset()
		b = append(b, batch...)
	}
	if err := writeSynced(fsys, segmentFile(temp, 0, logSuffix), b); err != nil {
		return err
	}
	if err := writeSynced(fsys, filepath.Join(temp, partitionMetadataFile), encodePartitionMetadata(metadataTopicID)); err != nil {
		return err
	}
	if err := fsys.SyncDir(temp); err != nil {
		return err
	}
	if err := fsys.Rename(temp, final); err != nil {
		return err
	}
	return fsys.SyncDir(dir)
}

// writeSynced makes a file with content b; its name is not yet durable.
func writeSynced(fsys vfs.FS, name string, b []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(b, 0)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// openMetadataLog recovers the metadata log and leaves it ready for changes. One that was just made is as after a stop
// in order.
func (s *Store) openMetadataLog(replay *metadataReplay, made bool) error {
	m := &metadataLog{
		now:     func() int64 { return s.o.Now().UnixMilli() },
		state:   replay.state,
		written: replay.bytes,
	}
	m.idle.L = &m.mu
	m.config.Store(metadataLogConfig())
	if m.written > metadataSlack {
		for _, batch := range snapshotBatches(m.state, 0) {
			m.live += int64(len(batch))
		}
	}
	origin := s.checkpoints.origin(metadataTopic, 0)
	origin.durability = Sync
	origin.clean = s.started.clean
	if made {
		origin.clean, origin.recoveryPoint = true, replay.end
	}
	m.log = newLog(s.logs, metadataTopic, 0, metadataTopicID, filepath.Join(s.dir, partitionDirName(metadataTopic, 0)), &m.config, origin)
	s.metadata = m
	if err := m.log.recover(); err != nil {
		return err
	}
	o, err := m.log.Offsets()
	if err != nil {
		return err
	}
	if o.End != replay.end {
		return &CorruptError{
			File: m.log.dir, Position: -1,
			Reason: fmt.Sprintf("its batches end at offset %d, recovery found %d", replay.end, o.End),
		}
	}
	return nil
}
