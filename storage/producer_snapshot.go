package storage

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// A producer snapshot, 00000000000000012345.snapshot, is the producer state before offset 12345. It keeps the last
// batch of each producer:
//
//	0  int16   version, 1
//	2  uint32  CRC-32C of all that follows
//	6  int32   number of producers, then for each, in 46 bytes:
//	      int64  producer id
//	      int16  epoch
//	      int32  last sequence, -1 for none
//	      int64  last offset, -1 for none
//	      int32  last offset - first offset of that batch
//	      int64  timestamp of its last batch or marker
//	      int32  coordinator epoch, -1 for none
//	      int64  first offset of the open transaction, -1 for none
//
// Kafka: ProducerStateManager.writeSnapshot, ProducerSnapshot.json.
const (
	snapshotSuffix     = ".snapshot"
	snapshotVersion    = 1
	snapshotHeaderSize = 10
	snapshotEntrySize  = 46
)

// ProducerSnapshotEntry is one producer in a snapshot.
type ProducerSnapshotEntry struct {
	ProducerID       int64
	Epoch            int16
	LastSequence     int32 // -1 for none
	LastOffset       int64 // -1 for none
	OffsetDelta      int32 // last offset - first offset of the last batch
	Timestamp        int64 // of the last batch or marker, milliseconds
	CoordinatorEpoch int32 // -1 for none
	TxnFirstOffset   int64 // of the open transaction, -1 for none
}

// snapshot returns the producers by id, as a snapshot at the log's end keeps them.
func (s *producerState) snapshot() []ProducerSnapshotEntry {
	entries := make([]ProducerSnapshotEntry, 0, len(s.producers))
	for id, p := range s.producers {
		e := ProducerSnapshotEntry{
			ProducerID: id, Epoch: p.epoch, LastSequence: p.lastSequence(), LastOffset: -1, Timestamp: p.lastTimestamp,
			CoordinatorEpoch: p.coordinatorEpoch, TxnFirstOffset: p.txnFirst,
		}
		if p.n > 0 {
			e.LastOffset, e.OffsetDelta = p.batches[p.n-1].lastOffset, p.batches[p.n-1].offsetDelta
		}
		entries = append(entries, e)
	}
	slices.SortFunc(entries, func(a, b ProducerSnapshotEntry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	return entries
}

// restoreProducerState returns the state that a snapshot at offset keeps, without the producers that have expired by
// nowMs. Nothing below offset can be undone. The log replays what is after it.
func restoreProducerState(entries []ProducerSnapshotEntry, offset, nowMs, expirationMs int64) producerState {
	s := producerState{settled: offset}
	for _, e := range entries {
		p := &producer{lastTimestamp: e.Timestamp, txnFirst: max(e.TxnFirstOffset, -1), coordinatorEpoch: e.CoordinatorEpoch, epoch: e.Epoch}
		if _, twice := s.producers[e.ProducerID]; twice || p.expired(nowMs, expirationMs) {
			continue
		}
		if e.LastOffset >= 0 {
			p.add(batchMeta{lastOffset: e.LastOffset, timestamp: e.Timestamp, lastSequence: e.LastSequence, offsetDelta: e.OffsetDelta})
		}
		if s.producers == nil {
			s.producers = make(map[int64]*producer, len(entries))
		}
		s.producers[e.ProducerID] = p
		if p.txnFirst >= 0 {
			s.open = insertTxn(s.open, txn{producerID: e.ProducerID, first: p.txnFirst, last: -1})
		}
	}
	return s
}

// encodeProducerSnapshot returns the bytes of a snapshot file.
func encodeProducerSnapshot(entries []ProducerSnapshotEntry) []byte {
	b := make([]byte, 0, snapshotHeaderSize+len(entries)*snapshotEntrySize)
	b = binary.BigEndian.AppendUint16(b, snapshotVersion)
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(len(entries)))
	for _, e := range entries {
		b = binary.BigEndian.AppendUint64(b, uint64(e.ProducerID))
		b = binary.BigEndian.AppendUint16(b, uint16(e.Epoch))
		b = binary.BigEndian.AppendUint32(b, uint32(e.LastSequence))
		b = binary.BigEndian.AppendUint64(b, uint64(e.LastOffset))
		b = binary.BigEndian.AppendUint32(b, uint32(e.OffsetDelta))
		b = binary.BigEndian.AppendUint64(b, uint64(e.Timestamp))
		b = binary.BigEndian.AppendUint32(b, uint32(e.CoordinatorEpoch))
		b = binary.BigEndian.AppendUint64(b, uint64(e.TxnFirstOffset))
	}
	binary.BigEndian.PutUint32(b[2:], record.CRC32C(b[6:]))
	return b
}

// DecodeProducerSnapshot returns the producers in the snapshot file b. When the error is a *DecodeError that came
// after the header was read, the entries are what the bytes say all the same.
func DecodeProducerSnapshot(b []byte) ([]ProducerSnapshotEntry, error) {
	fault := func(position int, format string, args ...any) error {
		return &DecodeError{Format: "producer snapshot", Position: int64(position), Reason: fmt.Sprintf(format, args...)}
	}
	if len(b) < snapshotHeaderSize {
		return nil, fault(len(b), "%d bytes, want at least %d", len(b), snapshotHeaderSize)
	}
	if v := int16(binary.BigEndian.Uint16(b)); v != snapshotVersion {
		return nil, fault(0, "version %d, want %d", v, snapshotVersion)
	}
	n, left := int64(int32(binary.BigEndian.Uint32(b[6:]))), int64(len(b)-snapshotHeaderSize)
	if n < 0 || n*snapshotEntrySize != left {
		return nil, fault(6, "%d producers of %d bytes with %d bytes left", n, snapshotEntrySize, left)
	}
	entries := make([]ProducerSnapshotEntry, n)
	for i := range entries {
		e := b[snapshotHeaderSize+i*snapshotEntrySize:]
		entries[i] = ProducerSnapshotEntry{
			ProducerID:       int64(binary.BigEndian.Uint64(e)),
			Epoch:            int16(binary.BigEndian.Uint16(e[8:])),
			LastSequence:     int32(binary.BigEndian.Uint32(e[10:])),
			LastOffset:       int64(binary.BigEndian.Uint64(e[14:])),
			OffsetDelta:      int32(binary.BigEndian.Uint32(e[22:])),
			Timestamp:        int64(binary.BigEndian.Uint64(e[26:])),
			CoordinatorEpoch: int32(binary.BigEndian.Uint32(e[34:])),
			TxnFirstOffset:   int64(binary.BigEndian.Uint64(e[38:])),
		}
	}
	if got, want := record.CRC32C(b[6:]), binary.BigEndian.Uint32(b[2:]); got != want {
		return entries, fault(2, "crc-32c of %d bytes is %#08x, header says %#08x", len(b)-6, got, want)
	}
	return entries, nil
}

// producerSnapshotName returns the file name of the snapshot at offset.
func producerSnapshotName(offset int64) string { return fmt.Sprintf("%020d%s", offset, snapshotSuffix) }

// producerSnapshotOffset is the inverse; false for the names of other files.
func producerSnapshotOffset(name string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, snapshotSuffix)
	if !ok || len(digits) != 20 {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil && offset >= 0 && digits[0] != '+'
}

// writeProducerSnapshot writes the snapshot at offset into the partition directory dir, replacing one that is there.
// Unless sync is set nothing is synced: a snapshot is a cache, and its checksum tells a torn one.
func writeProducerSnapshot(fsys vfs.FS, dir string, offset int64, entries []ProducerSnapshotEntry, sync bool) error {
	name := filepath.Join(dir, producerSnapshotName(offset))
	b := encodeProducerSnapshot(entries)
	if sync {
		return replaceFile(fsys, name, b)
	}
	return replaceFileUnsynced(fsys, name, b)
}

// loadedSnapshot is a snapshot read from disk.
type loadedSnapshot struct {
	offset  int64
	entries []ProducerSnapshotEntry
	found   bool // false: no usable snapshot; replay from the log start
	// bad are the snapshots that were newer but did not decode, newest first. They are the caller's to log and,
	// where the directory may be written, to remove.
	bad []badSnapshot
}

type badSnapshot struct {
	name string // base name
	err  error
}

// loadProducerSnapshot reads the newest usable snapshot at an offset in (logStart, end] among the files of the
// partition directory dir; names is the list of them. The error is that of reading, not of decoding.
func loadProducerSnapshot(fsys vfs.FS, dir string, names []string, logStart, end int64) (loadedSnapshot, error) {
	var offsets []int64
	for _, name := range names {
		if o, ok := producerSnapshotOffset(name); ok && o > logStart && o <= end {
			offsets = append(offsets, o)
		}
	}
	slices.Sort(offsets)
	var l loadedSnapshot
	for _, offset := range slices.Backward(offsets) {
		name := producerSnapshotName(offset)
		b, err := readFile(fsys, filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return l, err
		}
		entries, err := DecodeProducerSnapshot(b)
		if err != nil {
			l.bad = append(l.bad, badSnapshot{name: name, err: err})
			continue
		}
		l.offset, l.entries, l.found = offset, entries, true
		return l, nil
	}
	return l, nil
}
