package record

import (
	"fmt"
	"iter"
)

// Keyed is a record without its value and headers.
type Keyed struct {
	Offset    int64
	Timestamp int64  // as in Record
	Key       []byte // nil is null
	NoValue   bool   // the value is null
	Size      int    // bytes that all of the record takes, decompressed, without its length
}

// MaxKey bounds the keys that Keys reads of compressed batches, in bytes.
const MaxKey = 16 << 20

// Keys iterates over the records of b as Records does, and checks as much, but passes over values and headers: a small
// batch may decompress to a record of a gigabyte. Memory grows with the largest key; one of more than MaxKey bytes in a
// compressed batch is ErrTooLarge. A Keyed, with its Key, is valid until the next step.
func (r *Reader) Keys(b Batch) iter.Seq2[Keyed, error] { return r.heads(b, true) }

// Times is Keys without the keys, which are all null: it takes every batch that Records takes.
func (r *Reader) Times(b Batch) iter.Seq2[Keyed, error] { return r.heads(b, false) }

func (r *Reader) heads(b Batch, keys bool) iter.Seq2[Keyed, error] {
	return func(yield func(Keyed, error) bool) {
		if err := r.readHeads(b, keys, yield); err != nil {
			yield(Keyed{}, err)
		}
	}
}

// readHeads yields the records and returns the error that ended them; nil also when yield has had enough.
func (r *Reader) readHeads(b Batch, keys bool, yield func(Keyed, error) bool) error {
	count, err := r.begin(b)
	if count == 0 || err != nil {
		return err
	}
	defer r.close()
	baseOffset, baseTimestamp := b.BaseOffset(), b.BaseTimestamp()
	logAppendTime, maxTimestamp := b.LogAppendTime(), b.MaxTimestamp()
	var rec Record
	for i := range count {
		size, err := r.length(i)
		if err != nil {
			return err
		}
		k := Keyed{Size: size}
		if size > len(r.buf) && r.source.codec != None {
			if k.Key, k.NoValue, err = r.largeHead(&rec, i, size, keys); err != nil {
				return err
			}
		} else {
			body, err := r.body(i, size)
			if err != nil {
				return err
			}
			if err := rec.parseStored(body); err != nil {
				return atRecord(i, err)
			}
			k.Key, k.NoValue = rec.Key, rec.Value == nil
		}
		if !keys {
			k.Key = nil
		}
		k.Offset = baseOffset + int64(rec.OffsetDelta)
		k.Timestamp = baseTimestamp + rec.TimestampDelta
		if logAppendTime {
			k.Timestamp = maxTimestamp
		}
		if !yield(k, nil) {
			return nil
		}
	}
	return r.finish(count)
}

// largeHead passes over a record of size bytes, whose length has been consumed, and returns its key when that is wanted.
// The deltas go to rec.
func (r *Reader) largeHead(rec *Record, index int32, size int, wanted bool) (key []byte, noValue bool, err error) {
	l := largeRecord{r: r, index: index, size: size, left: size}
	l.head(rec)
	switch n := l.length(); {
	case !wanted:
		l.skip(n)
	case n > MaxKey:
		return nil, false, fmt.Errorf("%w: record %d has a key of %d bytes, at most %d are taken", ErrTooLarge, index, n, MaxKey)
	case n >= 0:
		key = l.take(n)
	}
	noValue = l.skipBytes() < 0
	return key, noValue, l.tail()
}
