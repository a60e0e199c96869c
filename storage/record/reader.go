package record

import (
	"fmt"
	"io"
	"iter"
	"strconv"
)

const (
	// windowSize is how much of decompressed records is held at a time, and what the window starts with.
	windowSize = 64 << 10

	// maxEmptyReads is how often a decompressor may give neither a byte nor an error before it counts as broken.
	maxEmptyReads = 100

	// keepWindow is the largest window that a Reader keeps after a batch.
	keepWindow = 1 << 20

	// MostDecompressed bounds the records of one batch, whatever max.decompressed.message.bytes says; Kafka has no such
	// bound.
	MostDecompressed = 1 << 30
)

// Reader reads the records of batches, one batch at a time. It keeps its scratch space and decompressors, so it is
// worth reusing, in a pool too, and is for one goroutine at a time. The zero value is ready. Once it has read zstd it
// holds a channel: a Reader made in a synctest bubble must not leave it.
type Reader struct {
	// MaxDecompressed bounds the decompressed records of one batch in bytes; 0 is 1 GiB. Beyond it the batch counts as
	// corrupt.
	MaxDecompressed int64

	headers []Header
	source  decompressor
	scratch []byte // what buf is while a compressed batch is read
	buf     []byte // buf[start:end] is at hand and not consumed; with codec None it is the whole body
	start   int
	end     int
	total   int64 // bytes that came out of source
}

// Records iterates over the records of b, decompressing as it goes: memory grows with the largest record that really
// came, never with a length that is only claimed. The slices of a record, Headers included, are valid until the next
// step; a second iteration of the same Reader, even a nested one, invalidates the first. An error is yielded once, as
// the last step: *CorruptError, or ErrUnknownCodec. Records that do not fill the body, or overrun it, are an error at
// the end. Whether the CRC holds is not looked at. A batch without records yields nothing.
func (r *Reader) Records(b Batch) iter.Seq2[Record, error] { return r.records(b, false) }

// Stored is Records without Headers, for who does not look at them: a Builder takes them along as they are stored. A header
// takes two bytes, and many times that as a Header.
func (r *Reader) Stored(b Batch) iter.Seq2[Record, error] { return r.records(b, true) }

func (r *Reader) records(b Batch, stored bool) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		if err := r.read(b, stored, yield); err != nil {
			yield(Record{}, err)
		}
	}
}

// read yields the records and returns the error that ended them; nil also when yield has had enough.
func (r *Reader) read(b Batch, stored bool, yield func(Record, error) bool) error {
	count, err := r.begin(b)
	if count == 0 || err != nil {
		return err
	}
	defer r.close()
	baseOffset, baseTimestamp := b.BaseOffset(), b.BaseTimestamp()
	logAppendTime, maxTimestamp := b.LogAppendTime(), b.MaxTimestamp()
	rec, parse := Record{Headers: r.headers}, (*Record).parse
	if stored {
		parse = (*Record).parseStored
	}
	for i := int32(0); i < count; i++ {
		body, err := r.next(i)
		if err != nil {
			return err
		}
		if err := parse(&rec, body); err != nil {
			return atRecord(i, err)
		}
		if !stored {
			r.headers = rec.Headers
		}
		rec.Offset = baseOffset + int64(rec.OffsetDelta)
		rec.Timestamp = baseTimestamp + rec.TimestampDelta
		if logAppendTime {
			rec.Timestamp = maxTimestamp
		}
		if !yield(rec, nil) {
			return nil
		}
	}
	return r.finish(count)
}

// begin is open of a batch that has records, and returns how many it says to have. Without any, or with an error, there is
// nothing to close.
func (r *Reader) begin(b Batch) (count int32, err error) {
	if count = b.Count(); count < 0 {
		return 0, corrupt("record count %d", count)
	}
	if count == 0 {
		return 0, nil
	}
	return count, r.open(b)
}

// open begins with the records of b. Uncompressed ones are all at hand, without a copy.
func (r *Reader) open(b Batch) error {
	if b.Codec() == None {
		r.source.codec = None
		r.buf, r.start, r.end = b.Body(), 0, len(b)-HeaderSize
		return nil
	}
	return r.openBody(b.Codec(), b.Body())
}

// openBody begins with a compressed body.
func (r *Reader) openBody(c Codec, body []byte) error {
	if err := r.source.open(c, body); err != nil {
		return err
	}
	if r.scratch == nil {
		r.scratch = make([]byte, windowSize)
	}
	r.buf, r.start, r.end, r.total = r.scratch, 0, 0, 0
	return nil
}

// close lets go of the batch and of a window that an unusual record has made large.
func (r *Reader) close() {
	if r.source.codec != None {
		r.scratch = r.buf
		if cap(r.scratch) > keepWindow {
			r.scratch = nil
		}
		r.source.close()
	}
	r.buf = nil
}

// next consumes one record, the one of this index, and returns its body: what follows its length.
func (r *Reader) next(index int32) ([]byte, error) {
	size, err := r.length(index)
	if err != nil {
		return nil, err
	}
	return r.body(index, size)
}

// body consumes the body of the record of this index, whose length is size.
func (r *Reader) body(index int32, size int) ([]byte, error) {
	for r.end-r.start < size {
		if err := r.fill(size); err != nil {
			return nil, r.short(index, size, err)
		}
	}
	body := r.buf[r.start : r.start+size : r.start+size]
	r.start += size
	return body, nil
}

// length consumes the length of the record of this index.
func (r *Reader) length(index int32) (int, error) {
	for {
		size, n := Varint32(r.buf[r.start:r.end])
		if n > 0 && size >= 0 {
			r.start += n
			return int(size), nil
		}
		if n != 0 {
			return 0, corrupt("record %d has no valid length", index)
		}
		if err := r.fill(maxVarintLen32); err != nil {
			return 0, r.short(index, 1, err)
		}
	}
}

// short is the error of a record that needs size bytes and gets no more than are at hand.
func (r *Reader) short(index int32, size int, err error) error {
	if err == io.EOF {
		return corrupt("record %d needs %d bytes and %d are left", index, size, r.end-r.start)
	}
	return err
}

// fill brings at least one more byte into the buffer, making room for want bytes by moving what is there to the front
// or, when that does not do, doubling the buffer. The error is io.EOF at the end.
func (r *Reader) fill(want int) error {
	if r.source.codec == None {
		return io.EOF
	}
	if r.start == r.end {
		r.start, r.end = 0, 0
	}
	if r.end == len(r.buf) || len(r.buf)-r.start < min(want, len(r.buf)) {
		copy(r.buf, r.buf[r.start:r.end])
		r.start, r.end = 0, r.end-r.start
	}
	if r.end == len(r.buf) {
		grown := make([]byte, 2*len(r.buf))
		copy(grown, r.buf[:r.end])
		r.buf = grown
	}
	for range maxEmptyReads {
		n, err := r.source.Read(r.buf[r.end:])
		r.end += n
		r.total += int64(n)
		limit := r.MaxDecompressed
		if limit == 0 {
			limit = MostDecompressed
		}
		if r.total > limit {
			r.end -= int(r.total - limit)
			return &CorruptError{Reason: fmt.Sprintf("records decompress to more than %d bytes", limit), Err: errTooMuch}
		}
		if n > 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return r.source.fail(io.ErrNoProgress)
}

// finish checks that the records end after count of them.
func (r *Reader) finish(count int32) error {
	if r.start == r.end {
		switch err := r.fill(1); err {
		case io.EOF:
			return nil
		case nil:
		default:
			return err
		}
	}
	return corrupt("bytes follow the last of %d records", count)
}

func atRecord(index int32, err error) error {
	if c, ok := err.(*CorruptError); ok {
		c.Reason = "record " + strconv.Itoa(int(index)) + ": " + c.Reason
	}
	return err
}
