package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strings"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// Bytes of an entry of each index.
const (
	offsetEntryBytes = 8
	timeEntryBytes   = 12
	txnEntryBytes    = 34
)

// indexChunk is about how much of an index is decoded at a time.
const indexChunk = 32 << 10

// headersChunk is how much of a log is read at a time when only the headers of its batches are needed.
const headersChunk = 8 << 10

// maxIndexFaults is after how many entries that cannot be an index is given up.
const maxIndexFaults = 20

// indexEntries decodes an index of entries of the given width, piece by piece, and calls each with the place of
// every entry. What cannot be is reported, and the entries after it are read all the same.
func indexEntries[E any](d *dumper, f *dumpFile, width int, decode func([]byte) ([]E, error), each func(position int64, e E) error) error {
	per := indexChunk / width
	w := window{r: f.r, size: f.size, chunk: (per + 1) * width}
	position, known := int64(0), 0 // known entries stand before position in a piece, for the order to be checked
	for faults := 0; position < w.size; {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		start := position - int64(known*width)
		b, err := w.at(start, (per+known)*width)
		if err != nil {
			return err
		}
		if len(b) <= known*width {
			break // the file became shorter
		}
		entries, err := decode(b)
		for i, e := range entries[min(known, len(entries)):] {
			if err := each(position+int64(i*width), e); err != nil {
				return err
			}
		}
		if err == nil {
			position, known = start+int64(len(b)), 1
			continue
		}
		bad, ok := decodeFault(err)
		if !ok {
			return err
		}
		at := start + bad.Position
		if bad.Padding {
			zeros, err := w.zeros(at)
			if err != nil {
				return err
			}
			if zeros {
				d.printf("  %s at the end are room that is not used\n", bytesText(w.size-at))
				return nil
			}
		}
		d.fault(at, "%s", bad.Reason)
		if faults++; faults == maxIndexFaults {
			d.printf("  the rest of the index is not read\n")
			return nil
		}
		position, known = max(at, position)+int64(width), 0
	}
	return nil
}

func decodeFault(err error) (*storage.DecodeError, bool) {
	var bad *storage.DecodeError
	ok := errors.As(err, &bad)
	return bad, ok
}

// baseOrZero is the base offset that the entries of an index count from.
func (d *dumper) baseOrZero(f *dumpFile) int64 {
	if f.kind.base < 0 {
		d.printf("  the name has no base offset, it is taken for 0\n")
		return 0
	}
	return f.kind.base
}

// logBeside opens the log that an index belongs to; nil when there is none.
func (d *dumper) logBeside(f *dumpFile, suffix string) (*logWalk, error) {
	dir, base := path.Split(f.name)
	stem, _, _ := strings.Cut(base, suffix)
	name := stem + ".log" + f.kind.suffix
	log, err := d.open(dir + name)
	if errors.Is(err, fs.ErrNotExist) {
		d.printf("  there is no %s beside it: entries are not held against the log\n", name)
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return &logWalk{name: name, w: window{r: log.r, size: log.size, chunk: headersChunk}, max: record.NoTimestamp, close: log.close}, nil
}

// logWalk goes over the headers of a log beside the entries of an index.
type logWalk struct {
	name   string
	w      window
	close  func()
	at     int64 // position of the batch that header is of
	header record.Batch
	next   int64  // position of the batch after it
	max    int64  // largest timestamp up to this batch
	broken string // why the log cannot be followed beyond next; "" at its end
}

// step goes to the next batch; false at the end, or where the log cannot be followed.
func (l *logWalk) step() (bool, error) {
	if l.next >= l.w.size || l.broken != "" {
		return false, nil
	}
	h, err := l.w.at(l.next, record.HeaderSize)
	if err != nil {
		return false, err
	}
	size, reason := checkDumpHeader(h, l.w.size-l.next)
	if reason != "" {
		l.broken = reason
		return false, nil
	}
	l.header = append(l.header[:0], h...)
	l.at, l.next = l.next, l.next+size
	l.max = max(l.max, l.header.MaxTimestamp())
	return true, nil
}

// rewind goes back to the beginning.
func (l *logWalk) rewind() {
	l.at, l.next, l.header, l.max, l.broken = 0, 0, l.header[:0], record.NoTimestamp, ""
}

// beyond says that an entry points beyond what can be followed. It is no damage of the index when the log is broken.
func (l *logWalk) beyond(d *dumper, position int64, what string) {
	if l.broken != "" {
		d.printf("  position %d: %s is not checked: %s cannot be followed beyond position %d (%s)\n", position, what, l.name, l.next, l.broken)
		return
	}
	d.fault(position, "got %s, want one in the log, which ends at position %d", what, l.w.size)
}

func (d *dumper) offsetIndex(f *dumpFile) error {
	base := d.baseOrZero(f)
	log, err := d.logBeside(f, ".index")
	if err != nil {
		return err
	}
	if log != nil {
		defer log.close()
	}
	n := 0
	decode := func(b []byte) ([]storage.OffsetEntry, error) { return storage.DecodeOffsetIndex(b, base) }
	err = indexEntries(d, f, offsetEntryBytes, decode, func(position int64, e storage.OffsetEntry) error {
		if n++; n == 1 {
			d.printf("  %10s  %14s  %12s\n", "position", "last offset", "log position")
		}
		d.printf("  %10d  %14d  %12d\n", position, e.Offset, e.Position)
		if log == nil {
			return nil
		}
		return log.checkOffset(d, position, e)
	})
	d.printf("  %s\n", plural(n, "entry", "entries"))
	return err
}

// checkOffset reports when an offset entry does not point at the batch it should.
func (l *logWalk) checkOffset(d *dumper, position int64, e storage.OffsetEntry) error {
	if len(l.header) > 0 && e.Position < l.at {
		l.rewind()
	}
	for len(l.header) == 0 || l.at < e.Position {
		more, err := l.step()
		if err != nil {
			return err
		}
		if !more {
			l.beyond(d, position, fmt.Sprintf("an entry for log position %d", e.Position))
			return nil
		}
	}
	if l.at != e.Position {
		d.fault(position, "got log position %d, want one where a batch begins, the next is %d", e.Position, l.at)
		return nil
	}
	last := l.header.LastOffset()
	// Older Kafka (before KAFKA-806) made one entry for all batches that were appended at once: the offset is then that of the
	// last of them.
	ahead := *l
	ahead.w = window{r: l.w.r, size: l.w.size, chunk: headersChunk}
	ahead.header = append(record.Batch(nil), l.header...)
	for n := 0; ahead.header.LastOffset() < e.Offset && n < 1000; n++ {
		if more, err := ahead.step(); err != nil || !more {
			break
		}
	}
	switch got := ahead.header.LastOffset(); {
	case last == e.Offset:
	case last < e.Offset && got == e.Offset:
		d.printf("  %10s  the entry is for several batches, the first ends at offset %d\n", "", last)
	default:
		d.fault(position, "got offset %d for log position %d, want %d, the last of the batch there", e.Offset, e.Position, last)
	}
	return nil
}

func (d *dumper) timeIndex(f *dumpFile) error {
	base := d.baseOrZero(f)
	log, err := d.logBeside(f, ".timeindex")
	if err != nil {
		return err
	}
	if log != nil {
		defer log.close()
	}
	n := 0
	decode := func(b []byte) ([]storage.TimeEntry, error) { return storage.DecodeTimeIndex(b, base) }
	err = indexEntries(d, f, timeEntryBytes, decode, func(position int64, e storage.TimeEntry) error {
		if n++; n == 1 {
			d.printf("  %10s  %13s  %-24s  %14s\n", "position", "timestamp", "(UTC)", "offset")
		}
		d.printf("  %10d  %13d  %-24s  %14d\n", position, e.Timestamp, isoTime(e.Timestamp), e.Offset)
		if log == nil {
			return nil
		}
		return log.checkTime(d, position, e)
	})
	d.printf("  %s\n", plural(n, "entry", "entries"))
	return err
}

// find goes to the batch that holds an offset; false when the log has none.
func (l *logWalk) find(d *dumper, position, offset int64) (bool, error) {
	if len(l.header) > 0 && offset < l.header.BaseOffset() {
		l.rewind()
	}
	for len(l.header) == 0 || l.header.LastOffset() < offset {
		more, err := l.step()
		if err != nil {
			return false, err
		}
		if !more {
			l.beyond(d, position, fmt.Sprintf("an entry for offset %d", offset))
			return false, nil
		}
	}
	return true, nil
}

// checkTime reports when a time entry is not the largest timestamp up to its offset.
func (l *logWalk) checkTime(d *dumper, position int64, e storage.TimeEntry) error {
	found, err := l.find(d, position, e.Offset)
	if err != nil || !found {
		return err
	}
	switch b := l.header; {
	case b.BaseOffset() > e.Offset:
		d.fault(position, "got offset %d, which no batch has, want one from a batch; the next begins at %d", e.Offset, b.BaseOffset())
	case b.MaxTimestamp() != e.Timestamp:
		d.fault(position, "got timestamp %d at offset %d, want %d, the largest of the batch at log position %d", e.Timestamp, e.Offset, b.MaxTimestamp(), l.at)
	case l.max > e.Timestamp:
		d.fault(position, "got timestamp %d at offset %d, want at least %d, which a batch before has", e.Timestamp, e.Offset, l.max)
	}
	return nil
}

func (d *dumper) txnIndex(f *dumpFile) error {
	log, err := d.logBeside(f, ".txnindex")
	if err != nil {
		return err
	}
	if log != nil {
		defer log.close()
	}
	n := 0
	err = indexEntries(d, f, txnEntryBytes, storage.DecodeTxnIndex, func(position int64, e storage.AbortedTxn) error {
		if n++; n == 1 {
			d.printf("  %10s  %10s  %14s  %14s  %18s\n", "position", "producer", "first offset", "last offset", "last stable offset")
		}
		d.printf("  %10d  %10d  %14d  %14d  %18d\n", position, e.ProducerID, e.FirstOffset, e.LastOffset, e.LastStableOffset)
		if log == nil {
			return nil
		}
		return log.checkAborted(d, position, e)
	})
	d.printf("  %s\n", plural(n, "aborted transaction", "aborted transactions"))
	return err
}

// checkAborted reports when the end of an aborted transaction is no marker of its producer. Compaction may have
// taken the marker away.
func (l *logWalk) checkAborted(d *dumper, position int64, e storage.AbortedTxn) error {
	if e.LastOffset == math.MaxInt64 {
		d.fault(position, "got last offset %d, which no record has", e.LastOffset)
		return nil
	}
	found, err := l.find(d, position, e.LastOffset)
	if err != nil || !found || l.header.BaseOffset() > e.LastOffset {
		return err
	}
	if b := l.header; !b.Control() || b.ProducerID() != e.ProducerID {
		d.fault(position, "got last offset %d of producer %d, want a marker of that producer there; the batch is of producer %d, flags %s",
			e.LastOffset, e.ProducerID, b.ProducerID(), batchFlags(b))
	}
	return nil
}
