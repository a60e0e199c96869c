package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"

	"github.com/kaen-log/gateway/storage/record"
)

const (
	// dumpWindow is how much of a log is read at a time; batches that are larger are not held in memory.
	dumpWindow = 64 << 10
	// maxDeepBatch is the largest batch whose records are printed: it is loaded for that.
	maxDeepBatch = 256 << 20
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	ieee       = crc32.IEEETable
)

// window reads a file in pieces.
type window struct {
	r     io.ReaderAt
	size  int64
	chunk int // bytes read at a time
	buf   []byte
	start int64
	n     int
}

// at returns n bytes from position on, or fewer when the file ends; n is at most the chunk. They are valid until the
// next call.
func (w *window) at(position int64, n int) ([]byte, error) {
	n = int(min(int64(n), w.size-position))
	if n <= 0 {
		return nil, nil
	}
	if off := position - w.start; off >= 0 && off+int64(n) <= int64(w.n) {
		return w.buf[off : int(off)+n], nil
	}
	if w.buf == nil {
		w.buf = make([]byte, w.chunk)
	}
	m, err := w.r.ReadAt(w.buf[:min(int64(w.chunk), w.size-position)], position)
	w.start, w.n = position, m
	if m < n {
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		w.size = position + int64(m) // the file became shorter
		n = m
	}
	return w.buf[:n], nil
}

// rest returns what is at hand from position on: at least n bytes unless the file ends, else as much as was read.
func (w *window) rest(position int64, n int) ([]byte, error) {
	b, err := w.at(position, n)
	if err != nil || len(b) == 0 {
		return nil, err
	}
	return w.buf[position-w.start : w.n], nil
}

// crc computes a checksum of the bytes in [from, to).
func (w *window) crc(table *crc32.Table, from, to int64) (uint32, error) {
	sum := uint32(0)
	for from < to {
		b, err := w.at(from, int(min(int64(w.chunk), to-from)))
		if err != nil {
			return 0, err
		}
		if len(b) == 0 {
			return 0, io.ErrUnexpectedEOF
		}
		sum = crc32.Update(sum, table, b)
		from += int64(len(b))
	}
	return sum, nil
}

// zeros reports whether every byte in [from, size) is zero.
func (w *window) zeros(from int64) (bool, error) {
	for from < w.size {
		b, err := w.rest(from, 1)
		if err != nil {
			return false, err
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
		from += int64(len(b))
	}
	return true, nil
}

// checkDumpHeader looks at the header h of a batch with left bytes to the end of the file. A reason means that
// there is no telling where the batch ends.
func checkDumpHeader(h []byte, left int64) (size int64, reason string) {
	if len(h) < record.HeaderSize {
		return 0, fmt.Sprintf("%d bytes are too few for a batch of at least %d", left, record.HeaderSize)
	}
	n, err := record.PeekSize(h)
	if err != nil {
		return 0, err.Error()
	}
	if int64(n) > left {
		return 0, fmt.Sprintf("batch of %d bytes with %d bytes left", n, left)
	}
	return int64(n), ""
}

// logDump is the walk over the batches of one file.
type logDump struct {
	*dumper
	w       window
	ahead   window       // of the search for batches; w moves with checksums
	header  record.Batch // at hand
	next    int64        // the least base offset that the next batch may have
	effort  int64        // bytes that may still be looked at in search of batches
	head    bool         // the table has its header
	batches int64
	records int64
	first   int64
	last    int64
}

// log prints the batches of a .log file, or of one in the same format.
func (d *dumper) log(f *dumpFile) error {
	w := window{r: f.r, size: f.size, chunk: dumpWindow}
	l := logDump{dumper: d, w: w, ahead: w, next: max(f.kind.base, 0), effort: 8*f.size + 1<<20}
	position := int64(0)
	for position < l.w.size {
		if err := d.ctx.Err(); err != nil {
			return err
		}
		after, err := l.step(position)
		if err != nil {
			return err
		}
		position = after
	}
	if l.batches == 0 {
		d.printf("  no batches\n")
		return nil
	}
	d.printf("  %s, %s, offsets %d to %d\n", plural(int(l.batches), "batch", "batches"), plural(int(l.records), "record", "records"), l.first, l.last)
	return nil
}

// step prints what is at position and returns where to go on.
func (l *logDump) step(position int64) (int64, error) {
	h, err := l.w.at(position, record.HeaderSize)
	if err != nil {
		return 0, err
	}
	left := l.w.size - position
	size, reason := checkDumpHeader(h, left)
	if reason != "" {
		if n, ok, err := l.old(position, h, left); err != nil || ok {
			return position + n, err
		}
		return l.skip(position, reason)
	}
	l.header = append(l.header[:0], h...) // the window moves on
	b := l.header
	sum, err := l.w.crc(castagnoli, position+record.AttributesPos, position+size)
	if err != nil {
		return 0, err
	}
	if sum == b.CRC() {
		return position + size, l.batch(position, size, b, sum)
	}
	// The length may be what is wrong. It is believed when a batch or the end of the file follows.
	reason = fmt.Sprintf("got crc-32c %#08x of the batch's bytes, want %#08x as its header says", sum, b.CRC())
	after := position + size
	if after < l.w.size {
		follows, err := l.w.at(after, record.HeaderSize)
		if err != nil {
			return 0, err
		}
		if _, wrong := checkDumpHeader(follows, l.w.size-after); wrong != "" {
			return l.skip(position, reason)
		}
	} else {
		reason += "; it is the last batch, so this may be a torn tail"
	}
	err = l.batch(position, size, b, sum)
	l.fault(position, "%s", reason)
	return after, err
}

// skip reports bytes that are no batch and returns where the next batch begins, or the end.
func (l *logDump) skip(position int64, reason string) (int64, error) {
	zeros, err := l.w.zeros(position)
	if err != nil {
		return 0, err
	}
	end := l.w.size
	if zeros {
		l.fault(position, "torn tail: %s of zeros after the last batch", bytesText(end-position))
		return end, nil
	}
	after, err := l.search(position + 1)
	switch {
	case err != nil:
		return 0, err
	case after < end:
		l.fault(position, "%s; %s are no batch, then batches follow at position %d", reason, bytesText(after-position), after)
	case l.effort <= 0:
		l.fault(position, "%s; looking for more batches in the %s that follow was given up", reason, bytesText(end-position))
	default:
		l.fault(position, "torn tail: %s; %s after the last batch, and no batch in them", reason, bytesText(end-position))
	}
	return after, nil
}

// search returns the first position from which a whole batch begins, its checksum right, or the end.
func (l *logDump) search(position int64) (int64, error) {
	for position+record.HeaderSize <= l.w.size {
		if err := l.ctx.Err(); err != nil {
			return 0, err
		}
		b, err := l.ahead.rest(position, record.HeaderSize)
		if err != nil {
			return 0, err
		}
		if len(b) < record.HeaderSize {
			break
		}
		for at := 0; at+record.HeaderSize <= len(b); at++ {
			if b[at+record.MagicPos] != record.Magic {
				continue
			}
			h := record.Batch(b[at : at+record.HeaderSize])
			p := position + int64(at)
			size, reason := checkDumpHeader(h, l.w.size-p)
			if reason != "" || h.BaseOffset() < l.next || !likely(h) {
				continue
			}
			if l.effort -= size; l.effort <= 0 {
				return l.w.size, nil
			}
			sum, err := l.w.crc(castagnoli, p+record.AttributesPos, p+size)
			if err != nil {
				return 0, err
			}
			if sum == h.CRC() {
				return p, nil
			}
		}
		position += int64(len(b) - record.HeaderSize + 1)
	}
	return l.w.size, nil
}

// likely reports whether the fields of a header go together, so that few other bytes have their checksum computed.
func likely(h record.Batch) bool {
	delta, count := h.LastOffsetDelta(), h.Count()
	return delta >= 0 && count >= 0 && int64(count) <= int64(delta)+1 && h.Attributes()>>7 == 0 && h.Codec() <= record.Zstd &&
		h.LeaderEpoch() >= record.NoLeaderEpoch && h.ProducerID() >= record.NoProducerID && h.ProducerEpoch() >= record.NoProducerEpoch
}

// old prints a message of a format before 2, if that is what is there: its own checksum tells it from damage.
func (l *logDump) old(position int64, h []byte, left int64) (size int64, ok bool, err error) {
	const crcPos, magicPos, least = 12, 16, 26
	if len(h) < least || h[magicPos] > 1 {
		return 0, false, nil
	}
	size = int64(int32(binary.BigEndian.Uint32(h[record.LengthPos:]))) + record.LogOverhead
	if size < least || size > left {
		return 0, false, nil
	}
	magic, want, offset := h[magicPos], binary.BigEndian.Uint32(h[crcPos:]), int64(binary.BigEndian.Uint64(h))
	sum, err := l.w.crc(ieee, position+magicPos, position+size)
	if err != nil || sum != want {
		return 0, false, err
	}
	l.printf("  position %d: message of the old format %d at offset %d, %s, not decoded: Kafka up to 0.10 wrote it\n",
		position, magic, offset, bytesText(size))
	return size, true, nil
}

// batch prints a batch whose header is b, and with --deep its records.
func (l *logDump) batch(position, size int64, b record.Batch, sum uint32) error {
	l.row(position, b, sum)
	l.checkOffsets(position, b)
	if l.batches++; l.batches == 1 {
		l.first = b.BaseOffset()
	}
	l.last = b.LastOffset()
	l.records += int64(max(b.Count(), 0))
	if l.flags.hex {
		end := position + size
		if limit := int64(l.flags.limit); limit > 0 {
			end = min(end, position+limit)
		}
		l.hexRange(position, end)
		if more := position + size - end; more > 0 {
			l.printf("    … %s more\n", bytesText(more))
		}
	}
	if !l.flags.deep {
		return nil
	}
	if size > maxDeepBatch {
		l.printf("    records not printed: the batch is larger than %s\n", bytesText(maxDeepBatch))
		return nil
	}
	whole, err := l.load(position, int(size))
	if err != nil {
		return err
	}
	l.batchRecords(position, whole, sum == b.CRC())
	return nil
}

// checkOffsets checks what a sound checksum does not say: the offset is not covered by it.
func (l *logDump) checkOffsets(position int64, b record.Batch) {
	base, delta, count := b.BaseOffset(), b.LastOffsetDelta(), b.Count()
	switch {
	case base < l.next:
		l.fault(position, "got base offset %d, want at least %d", base, l.next)
	case delta < 0 || count < 0 || int64(count) > int64(delta)+1:
		l.fault(position, "got %d records and a last offset delta of %d, want no more records than offsets", count, delta)
	case base > math.MaxInt64-int64(delta)-1:
		l.fault(position, "got base offset %d and a last offset delta of %d, which is more than an offset can be", base, delta)
	case b.Codec() > record.Zstd:
		l.fault(position, "got codec %d, want 0 to %d", b.Codec(), record.Zstd)
	}
	l.next = max(b.NextOffset(), 0)
}

// batchColumns are the columns of a row for one batch.
const batchColumns = "  %10s %9s %12s %12s %7s %5s  %-6s  %-6s  %13s  %-24s  %-3s  %10s %7s %-15s  %s\n"

func (l *logDump) row(position int64, b record.Batch, sum uint32) {
	if !l.head {
		l.head = true
		l.printf(batchColumns, "position", "size", "base offset", "last offset", "records", "epoch", "codec", "time", "max timestamp", "(UTC)",
			"crc", "producer", "p.epoch", "sequence", "flags")
	}
	kind, crc := "create", "ok"
	if b.LogAppendTime() {
		kind = "append"
	}
	if sum != b.CRC() {
		crc = "BAD"
	}
	sequence := "-"
	if b.BaseSequence() != record.NoSequence {
		sequence = fmt.Sprintf("%d-%d", b.BaseSequence(), b.LastSequence())
	}
	codec := b.Codec().String()
	l.printf(batchColumns, fmt.Sprint(position), fmt.Sprint(b.Size()), fmt.Sprint(b.BaseOffset()), fmt.Sprint(b.LastOffset()), fmt.Sprint(b.Count()),
		fmt.Sprint(b.LeaderEpoch()), codec, kind, fmt.Sprint(b.MaxTimestamp()), isoTime(b.MaxTimestamp()), crc,
		orNone(b.ProducerID()), orNone(b.ProducerEpoch()), sequence, batchFlags(b))
}

// batchFlags names the bits that are set.
func batchFlags(b record.Batch) string {
	flags := ""
	add := func(s string) {
		if flags != "" {
			flags += ","
		}
		flags += s
	}
	if b.Transactional() {
		add("transactional")
	}
	if b.Control() {
		add("control")
	}
	if b.HasDeleteHorizon() {
		add(fmt.Sprintf("delete-horizon=%d(%s)", b.BaseTimestamp(), isoTime(b.BaseTimestamp())))
	}
	if flags == "" {
		return "-"
	}
	return flags
}

// load reads a whole batch; the bytes are valid until the next call.
func (l *logDump) load(position int64, size int) (record.Batch, error) {
	if cap(l.scratch) < size {
		l.scratch = make([]byte, size)
	}
	b := l.scratch[:size]
	if n, err := l.w.r.ReadAt(b, position); n < size {
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	return b, nil
}
