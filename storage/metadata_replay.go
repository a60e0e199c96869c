package storage

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// metadataReplay is what the files of the metadata log say.
type metadataReplay struct {
	state  *metadataState
	end    int64 // the offset after the last batch that was read
	bytes  int64 // of the batches that were read
	begins int   // the format that the first of them names; 0 for none
	former bool  // one of them names a former format
}

// replayMetadata reads the metadata log in the directory dir from the offset start on. It changes nothing and needs no
// recovered log, so that a format which is not known, and damage, are found before anything is touched. synced is the
// offset below which everything was on disk. Where a crash has left files of a compaction, recovery will settle them by the
// same plan.
//
// A batch is written only when the one before it is durable, so only the last can be torn: it is left out. Bytes that
// are no batch with a batch after them, or below synced, are damage. So is a gap in the offsets, except in a segment that
// was compacted: that has a note which says so, and up to where (see logOrigin.wholeEnds), and every segment ends where the
// next begins. In a segment with a note a batch may have a wrong base offset, which its checksum does not cover, as long as
// the order is right. It means nothing then: the state comes from the order.
//
// The error is a *FormatError, a *CorruptError for damage and for records that are no metadata, or an I/O error.
func replayMetadata(fsys vfs.FS, dir string, start, synced int64) (*metadataReplay, error) {
	if err := checkPartitionTopic(fsys, dir, metadataTopic, metadataTopicID); err != nil && !notExist(err) {
		return nil, err
	}
	segments, err := metadataSegments(fsys, dir, start)
	if err != nil {
		return nil, err
	}
	r := &metadataReplay{state: newMetadataState(), end: start}
	var reader record.Reader
	var end *CorruptError // where the batches end, which is damage if they should not
	var next int64        // where the segment before ends
	for i, p := range segments {
		file := segmentFile(dir, p.base, logSuffix+p.suffix)
		b, err := readFile(fsys, file)
		if err != nil {
			return nil, err
		}
		if end == nil && i > 0 && p.base != next {
			end = &CorruptError{File: file, Reason: fmt.Sprintf("it begins at offset %d, the segment before it ends at %d", p.base, next)}
		}
		position := int64(0)
		if end == nil {
			limit := int64(math.MaxInt64)
			if i+1 < len(segments) {
				limit = segments[i+1].base
			}
			position, next, err = r.replaySegment(&reader, file, p, limit, b)
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
		behind, err := countBatches(bytes.NewReader(b), position, int64(len(b)), p.base)
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
	case r.begins == 0 && !r.former:
		return nil, &CorruptError{File: dir, Position: -1, Reason: "the metadata log does not begin with its format: a segment before is missing"}
	}
	return r, nil
}

// metadataSegments returns the segments in a directory of the metadata log that are not wholly below the offset start, as
// recovery will find them.
func metadataSegments(fsys vfs.FS, dir string, start int64) ([]plannedSegment, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	plan, err := planDirectory(names, func(base int64) (int64, error) {
		b, err := readFile(fsys, segmentFile(dir, base, logSuffix+swapSuffix))
		if err != nil {
			return 0, err
		}
		return scanToEnd(&batchScanner{r: bytes.NewReader(b), end: int64(len(b)), next: base})
	})
	if err != nil {
		return nil, err
	}
	segments := plan.segments
	// What lies wholly below the start may be half removed.
	for len(segments) > 1 && segments[1].base <= start {
		segments = segments[1:]
	}
	return segments, nil
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

// replaySegment applies the batches of one segment, before one that begins at limit. It returns where it stopped: at its
// end, or with a *badBatch where it goes on with something that is no batch; and the offset there.
func (r *metadataReplay) replaySegment(reader *record.Reader, file string, p plannedSegment, limit int64, b []byte) (position, next int64, err error) {
	if p.reach > 0 {
		limit = min(limit, p.reach)
	}
	damage := func(format string, args ...any) error {
		return &CorruptError{File: file, Position: position, Reason: fmt.Sprintf(format, args...)}
	}
	for next = p.base; position < int64(len(b)); {
		batch, _, err := record.Cut(b[position:])
		if err == nil && batch.BaseOffset() < next {
			err = fmt.Errorf("base offset %d, want %d", batch.BaseOffset(), next)
		}
		switch {
		case err != nil && next < p.reach:
			return position, next, damage("%v; the segment was compacted, so it was on disk up to offset %d", err, p.reach)
		case err != nil:
			return position, next, &badBatch{position: position, next: next, reason: err.Error()}
		case batch.BaseOffset() > next && p.reach == 0:
			// Its checksum does not cover the offset, and what a write that is cut short lacks is zeros.
			return position, next, damage("base offset %d, want %d", batch.BaseOffset(), next)
		case batch.LastOffset() >= limit || batch.LastOffset() < next:
			return position, next, damage("offsets %d to %d in a segment that ends at %d", batch.BaseOffset(), batch.LastOffset(), limit)
		}
		next = batch.NextOffset()
		if next > r.end {
			if err := r.replayBatch(reader, file, position, batch); err != nil {
				return position, next, err
			}
		}
		position += int64(batch.Size())
	}
	if p.reach > 0 && next != p.reach {
		return position, next, damage("it ends at offset %d, its note says %d", next, p.reach)
	}
	return position, next, nil
}

// replayBatch applies the records of the batch at position in a file.
func (r *metadataReplay) replayBatch(reader *record.Reader, file string, position int64, batch record.Batch) error {
	for rec, err := range reader.Records(batch) {
		if err != nil {
			return &CorruptError{File: file, Position: position, Reason: err.Error()}
		}
		if err := r.state.apply(rec.Key, rec.Value); err != nil {
			if fault, ok := errors.AsType[*metadataFault](err); ok {
				return &CorruptError{File: file, Position: position, Reason: fault.reason}
			}
			return &FormatError{File: file, Reason: err.Error()}
		}
	}
	if r.bytes == 0 {
		r.begins = r.state.format
	}
	r.former = r.former || r.state.format > 0 && r.state.format < metadataFormat
	r.end = batch.NextOffset()
	r.bytes += int64(batch.Size())
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
	for _, batch := range stateBatches(st, now.UnixMilli()) {
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
		now:   func() int64 { return s.o.Now().UnixMilli() },
		state: replay.state,
	}
	m.idle.L = &m.mu
	m.config.Store(metadataLogConfig(replay.former))
	origin := s.checkpoints.origin(metadataTopic, 0)
	origin.durability = Sync
	origin.wholeEnds = true
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
	if !replay.former {
		return nil
	}
	switch err := m.renew(); {
	case vfs.IsNoSpace(err):
		// It is not compacted before there is room, which deleting topics may make.
		s.o.Logger.Warn("metadata log has no room to be written in its new format; the next start tries again", "err", err)
		return nil
	case err != nil:
		return err
	}
	m.config.Store(metadataLogConfig(false))
	s.o.Logger.Info("metadata log is written in its new format", "format", metadataFormat)
	return nil
}
