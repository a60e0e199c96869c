package storage

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// An offset index maps some of a segment's offsets to positions in its .log file, about one for every
// index.interval.bytes. The file is entries back to back, ascending in both fields:
//
//	0  int32  offset - base offset of the segment
//	4  int32  position in the .log file of the batch that the offset is the last of
//
// The first batch of a segment never has an entry, so an entry of eight zero bytes is room that was not used.
// Kafka: OffsetIndex, AbstractIndex.
const offsetEntrySize = 8

var (
	offsetField   = indexField{at: 0}
	positionField = indexField{at: 4}
)

// OffsetEntry is an entry of an offset index.
type OffsetEntry struct {
	Offset   int64 // last offset of the batch
	Position int64 // where the batch starts in the .log file
}

// offsetIndex is the offset index of one segment. It is a value like sparseIndex: a copy serves readers while the
// original is appended to. The zero value is not usable; see newOffsetIndex and openOffsetIndex.
type offsetIndex struct {
	sparseIndex
	base int64
	// last is the last entry, or {base, 0}.
	last OffsetEntry
	max  int32 // entries by segment.index.bytes
}

// newOffsetIndex returns the index of an empty segment, or of one whose index is to be rebuilt by append in memory
// (wrote is then never called until the file may be written). indexBytes is segment.index.bytes.
func newOffsetIndex(base int64, indexBytes int32) offsetIndex {
	return offsetIndex{
		sparseIndex: sparseIndex{width: offsetEntrySize},
		base:        base, last: OffsetEntry{Offset: base}, max: indexBytes / offsetEntrySize,
	}
}

// openOffsetIndex returns the index of an existing segment whose index file r has size bytes, reading only its two
// ends. nextOffset and logSize are where the segment ends. A *DecodeError means: rebuild the index from the segment.
// It is returned for a file of odd length, zero padding, entries outside the segment, and, when maxGap > 0, for one
// that leaves more than maxGap bytes at the end of the segment without an entry (a sensible value is
// index.interval.bytes plus twice the largest batch).
func openOffsetIndex(r io.ReaderAt, size, base int64, indexBytes int32, nextOffset, logSize, maxGap int64) (offsetIndex, error) {
	x := newOffsetIndex(base, indexBytes)
	fault := func(position int64, format string, args ...any) (offsetIndex, error) {
		return offsetIndex{}, &DecodeError{Format: "offset index", Position: position, Reason: fmt.Sprintf(format, args...)}
	}
	if size%offsetEntrySize != 0 || size/offsetEntrySize > math.MaxInt32 {
		return fault(size-size%offsetEntrySize, "%d bytes, not a multiple of %d", size, offsetEntrySize)
	}
	if size > 0 {
		n := int(size / offsetEntrySize)
		x.stored, x.first = int32(n), int32(n)
		var e [12]byte
		if err := x.entry(r, 0, &e); err != nil {
			return offsetIndex{}, err
		}
		first := x.parse(e[:])
		if err := x.entry(r, n-1, &e); err != nil {
			return offsetIndex{}, err
		}
		x.last = x.parse(e[:])
		at := size - offsetEntrySize
		switch {
		case first.Position <= 0 || first.Offset < base:
			return fault(0, "first entry is offset %d at position %d in the segment of base %d", first.Offset, first.Position, base)
		case allZero(e[:offsetEntrySize]):
			return fault(at, "last entry is zero: unused room or never written")
		case x.last.Offset >= nextOffset || x.last.Position >= logSize:
			return fault(at, "last entry is offset %d at position %d, segment ends at offset %d and position %d", x.last.Offset, x.last.Position, nextOffset, logSize)
		case n > 1 && (x.last.Offset-first.Offset < int64(n-1) || x.last.Position <= first.Position):
			return fault(at, "%d entries from offset %d at position %d to offset %d at position %d do not ascend", n, first.Offset, first.Position, x.last.Offset, x.last.Position)
		}
	}
	if gap := logSize - x.last.Position; maxGap > 0 && gap > maxGap {
		return fault(size, "last entry is at position %d of a segment of %d bytes, at most %d expected after it", x.last.Position, logSize, maxGap)
	}
	return x, nil
}

// append adds the entry of the batch at position whose last offset is given. It returns false, and the index stays
// as it is, when the index is full, the offset is not above the last one, or a field does not fit; an index may
// leave out any batch.
func (x *offsetIndex) append(lastOffset, position int64) bool {
	rel := lastOffset - x.base
	if x.full() || rel < 0 || rel > math.MaxInt32 || position <= x.last.Position || position > math.MaxInt32 {
		return false
	}
	if x.count() > 0 && lastOffset <= x.last.Offset {
		return false
	}
	x.tail = binary.BigEndian.AppendUint32(x.tail, uint32(rel))
	x.tail = binary.BigEndian.AppendUint32(x.tail, uint32(position))
	x.last = OffsetEntry{Offset: lastOffset, Position: position}
	return true
}

// full reports whether the index has no room for another entry; the segment is rolled then.
func (x *offsetIndex) full() bool { return x.count() >= int(x.max) }

// lookup returns the last entry at or below target, or {base, 0}: reading from its Position on meets the batch that
// holds target, or the first one after it. r is the index file, or nil when nothing was written to it.
//
// The index is a cache: the caller must expect that the position is not the start of a batch, and treat that as
// damage to the index before it suspects the log. A *DecodeError means the same.
func (x *offsetIndex) lookup(r io.ReaderAt, target int64) (OffsetEntry, error) {
	if target >= x.last.Offset {
		return x.last, nil
	}
	if target < x.base {
		return OffsetEntry{Offset: x.base}, nil
	}
	var e [12]byte
	n, err := x.search(r, offsetField, target-x.base, 0, x.last.Offset-x.base, &e)
	if err != nil || n < 0 {
		return OffsetEntry{Offset: x.base}, err
	}
	return x.checked(n, &e)
}

// after returns the first entry at or above position, for an upper bound of the offsets in a range of bytes; false
// when the index has none.
func (x *offsetIndex) after(r io.ReaderAt, position int64) (OffsetEntry, bool, error) {
	if position > x.last.Position || x.count() == 0 {
		return OffsetEntry{}, false, nil
	}
	var e [12]byte
	n, err := x.search(r, positionField, position-1, 0, x.last.Position, &e)
	if err == nil {
		err = x.entry(r, n+1, &e)
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		// The file was cut since this copy was made: nothing is left above.
		return OffsetEntry{}, false, nil
	case err != nil:
		return OffsetEntry{}, false, err
	}
	o, err := x.checked(n+1, &e)
	return o, err == nil, err
}

// truncate removes the entries at or above offset. The caller then cuts the file to storedSize.
func (x *offsetIndex) truncate(r io.ReaderAt, offset int64) error {
	if x.count() == 0 || offset > x.last.Offset {
		return nil
	}
	var e [12]byte
	n := -1
	if offset > x.base {
		var err error
		if n, err = x.search(r, offsetField, offset-x.base-1, 0, x.last.Offset-x.base, &e); err != nil {
			return err
		}
	}
	x.keep(n + 1)
	x.last = OffsetEntry{Offset: x.base}
	if n >= 0 {
		x.last = x.parse(e[:])
	}
	return nil
}

// checked parses entry n and refuses what no segment of this base can have.
func (x *offsetIndex) checked(n int, e *[12]byte) (OffsetEntry, error) {
	o := x.parse(e[:])
	if o.Offset < x.base || o.Position <= 0 {
		return OffsetEntry{}, &DecodeError{Format: "offset index", Position: int64(n) * offsetEntrySize,
			Reason: fmt.Sprintf("entry is offset %d at position %d in the segment of base %d", o.Offset, o.Position, x.base)}
	}
	return o, nil
}

func (x *offsetIndex) parse(e []byte) OffsetEntry {
	return OffsetEntry{Offset: x.base + offsetField.of(e), Position: positionField.of(e)}
}

// DecodeOffsetIndex returns the entries of the offset index file b of the segment with the given base offset. At the
// first entry that does not ascend, or that a length cuts off, it returns those before and a *DecodeError, whose
// Padding is set when only zero bytes follow.
func DecodeOffsetIndex(b []byte, base int64) ([]OffsetEntry, error) {
	entries := make([]OffsetEntry, 0, len(b)/offsetEntrySize)
	x := offsetIndex{base: base}
	prev := OffsetEntry{Offset: base - 1}
	for at := 0; at < len(b); at += offsetEntrySize {
		e := &DecodeError{Format: "offset index", Position: int64(at)}
		if len(b)-at < offsetEntrySize {
			e.Reason = fmt.Sprintf("entry of %d bytes with %d bytes left", offsetEntrySize, len(b)-at)
			e.Padding = allZero(b[at:])
			return entries, e
		}
		o := x.parse(b[at:])
		if o.Offset <= prev.Offset || o.Position <= prev.Position {
			e.Padding = allZero(b[at:])
			e.Reason = fmt.Sprintf("entry is offset %d at position %d after offset %d at position %d", o.Offset, o.Position, prev.Offset, prev.Position)
			if e.Padding {
				e.Reason = fmt.Sprintf("%d unused bytes", len(b)-at)
			}
			return entries, e
		}
		entries = append(entries, o)
		prev = o
	}
	return entries, nil
}
