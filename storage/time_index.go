package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// A time index says how late the records of a segment are up to some of its offsets. The file is entries back to
// back; timestamps ascend strictly, offsets do not descend:
//
//	0  int64  timestamp in milliseconds: no record up to the offset has a later one
//	8  int32  offset of the record that has it - base offset of the segment
//
// So a record later than the timestamp lies after the offset. The last entry of a closed segment is its largest
// timestamp, for which append's final keeps one slot free. Kafka: TimeIndex.
const timeEntrySize = 12

var (
	timeField       = indexField{at: 0, wide: true}
	timeOffsetField = indexField{at: 8}
)

// noTimestamp is the timestamp of a record that has none.
const noTimestamp = -1

// TimeEntry is an entry of a time index.
type TimeEntry struct {
	Timestamp int64 // milliseconds
	Offset    int64
}

// timeIndex is the time index of one segment, a value as sparseIndex is. See newTimeIndex and openTimeIndex.
type timeIndex struct {
	sparseIndex
	base int64
	// last is the last entry, or {noTimestamp, base}. For a segment that was closed in order it is the largest
	// timestamp and where it is.
	last TimeEntry
	max  int32 // entries by segment.index.bytes
}

// newTimeIndex returns the index of an empty segment, or of one whose index is to be rebuilt by append in memory.
// indexBytes is segment.index.bytes; the final entry has room however small that is, as without it an index is one to be
// rebuilt.
func newTimeIndex(base int64, indexBytes int32) timeIndex {
	return timeIndex{
		sparseIndex: sparseIndex{width: timeEntrySize},
		base:        base, last: TimeEntry{Timestamp: noTimestamp, Offset: base}, max: max(1, indexBytes/timeEntrySize),
	}
}

// openTimeIndex returns the index of an existing segment whose time index file r has size bytes, reading only its
// two ends. nextOffset is where the segment ends. A *DecodeError means: rebuild the index from the segment.
func openTimeIndex(r io.ReaderAt, size, base int64, indexBytes int32, nextOffset int64) (timeIndex, error) {
	x := newTimeIndex(base, indexBytes)
	fault := func(position int64, format string, args ...any) (timeIndex, error) {
		return timeIndex{}, &DecodeError{Format: "time index", Position: position, Reason: fmt.Sprintf(format, args...)}
	}
	if size%timeEntrySize != 0 || size/timeEntrySize > math.MaxInt32 {
		return fault(size-size%timeEntrySize, "%d bytes, not a multiple of %d", size, timeEntrySize)
	}
	if size == 0 {
		return x, nil
	}
	n := int(size / timeEntrySize)
	x.stored, x.first = int32(n), int32(n)
	var e [12]byte
	if err := x.entry(r, 0, &e); err != nil {
		return timeIndex{}, err
	}
	first := x.parse(e[:])
	if err := x.entry(r, n-1, &e); err != nil {
		return timeIndex{}, err
	}
	x.last = x.parse(e[:])
	at := size - timeEntrySize
	switch {
	case first.Offset < base || first.Timestamp < 0:
		return fault(0, "first entry is timestamp %d at offset %d in the segment of base %d", first.Timestamp, first.Offset, base)
	case n > 1 && allZero(e[:timeEntrySize]):
		return fault(at, "last entry is zero: unused room or never written")
	case x.last.Offset < base || x.last.Offset >= nextOffset:
		return fault(at, "last entry is timestamp %d at offset %d, segment is offsets %d to %d", x.last.Timestamp, x.last.Offset, base, nextOffset)
	case n > 1 && (x.last.Timestamp <= first.Timestamp || x.last.Offset < first.Offset):
		return fault(at, "%d entries from timestamp %d at offset %d to %d at %d do not ascend", n, first.Timestamp, first.Offset, x.last.Timestamp, x.last.Offset)
	}
	return x, nil
}

// append adds the largest timestamp so far and the offset of the record that has it, when the timestamp is above
// that of the last entry. It returns whether an entry was added; an index may leave out any. final says that the
// segment is being closed, and uses the slot that is kept for it.
func (x *timeIndex) append(timestamp, offset int64, final bool) bool {
	rel := offset - x.base
	if timestamp <= x.last.Timestamp || offset < x.last.Offset || rel < 0 || rel > math.MaxInt32 {
		return false
	}
	if x.count() >= int(x.max) || !final && x.full() {
		return false
	}
	x.tail = binary.BigEndian.AppendUint64(x.tail, uint64(timestamp))
	x.tail = binary.BigEndian.AppendUint32(x.tail, uint32(rel))
	x.last = TimeEntry{Timestamp: timestamp, Offset: offset}
	return true
}

// full reports whether only the slot of the final entry is left; the segment is rolled then.
func (x *timeIndex) full() bool { return x.count() >= int(x.max)-1 }

// lookup returns the last entry whose timestamp is at most target, or {noTimestamp, base}: the first record at or
// after target is not before its Offset. A *DecodeError means that the index is to be rebuilt.
func (x *timeIndex) lookup(r io.ReaderAt, target int64) (TimeEntry, error) {
	if x.count() == 0 || target >= x.last.Timestamp {
		return x.last, nil
	}
	none := TimeEntry{Timestamp: noTimestamp, Offset: x.base}
	var e [12]byte
	n, err := x.search(r, timeField, target, x.last.Timestamp, x.last.Timestamp, &e)
	if err != nil || n < 0 {
		return none, err
	}
	t := x.parse(e[:])
	if t.Offset < x.base || t.Timestamp < 0 {
		return none, &DecodeError{Format: "time index", Position: int64(n) * timeEntrySize,
			Reason: fmt.Sprintf("entry is timestamp %d at offset %d in the segment of base %d", t.Timestamp, t.Offset, x.base)}
	}
	return t, nil
}

// truncate removes the entries at or above offset. The caller then cuts the file to storedSize.
func (x *timeIndex) truncate(r io.ReaderAt, offset int64) error {
	if x.count() == 0 || offset > x.last.Offset {
		return nil
	}
	var e [12]byte
	n := -1
	if offset > x.base {
		var err error
		if n, err = x.search(r, timeOffsetField, offset-x.base-1, 0, x.last.Offset-x.base, &e); err != nil {
			return err
		}
	}
	x.keep(n + 1)
	x.last = TimeEntry{Timestamp: noTimestamp, Offset: x.base}
	if n >= 0 {
		x.last = x.parse(e[:])
	}
	return nil
}

func (x *timeIndex) parse(e []byte) TimeEntry {
	return TimeEntry{Timestamp: timeField.of(e), Offset: x.base + timeOffsetField.of(e)}
}

// DecodeTimeIndex returns the entries of the time index file b of the segment with the given base offset. At the
// first entry that does not ascend, or that a length cuts off, it returns those before and a *DecodeError, whose
// Padding is set when only zero bytes follow.
func DecodeTimeIndex(b []byte, base int64) ([]TimeEntry, error) {
	entries := make([]TimeEntry, 0, len(b)/timeEntrySize)
	x := timeIndex{base: base}
	prev := TimeEntry{Timestamp: noTimestamp, Offset: base}
	for at := 0; at < len(b); at += timeEntrySize {
		e := &DecodeError{Format: "time index", Position: int64(at)}
		if len(b)-at < timeEntrySize {
			e.Reason = fmt.Sprintf("entry of %d bytes with %d bytes left", timeEntrySize, len(b)-at)
			e.Padding = allZero(b[at:])
			return entries, e
		}
		t := x.parse(b[at:])
		// A first entry of zeros is timestamp 0 at the first offset when it stands alone, and unused room otherwise.
		unused := allZero(b[at:min(at+2*timeEntrySize, len(b))]) && (at > 0 || len(b) > timeEntrySize)
		if unused || t.Timestamp <= prev.Timestamp || t.Offset < prev.Offset {
			e.Padding = allZero(b[at:])
			e.Reason = fmt.Sprintf("entry is timestamp %d at offset %d after %d at %d", t.Timestamp, t.Offset, prev.Timestamp, prev.Offset)
			if e.Padding {
				e.Reason = fmt.Sprintf("%d unused bytes", len(b)-at)
			}
			return entries, e
		}
		entries = append(entries, t)
		prev = t
	}
	return entries, nil
}

// isIndexDamage reports whether err says that an index is to be rebuilt, rather than that reading it failed.
func isIndexDamage(err error) bool {
	var d *DecodeError
	return errors.As(err, &d) || errors.Is(err, io.ErrUnexpectedEOF)
}
