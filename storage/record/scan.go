package record

// scan walks over the records of b, checks that they are well formed and hands each to c. It looks at lengths and
// skips over keys and values, so an uncompressed batch costs a few nanoseconds a record, whatever its size, and a
// compressed one never needs more than the window. A record of a compressed batch that says to have more than mostRecord
// bytes ends it with ErrTooLarge, before they are looked at; any other error is a *CorruptError.
func (v *Validator) scan(b Batch, c *checker, mostRecord int) error {
	r := &v.reader
	count, err := r.begin(b)
	if count == 0 || err != nil {
		return err
	}
	defer r.close()
	if r.source.codec == None {
		if err := scanBody(r.buf, count, c); err != nil {
			return err
		}
		return nil
	}
	for i := int32(0); i < count; i++ {
		size, err := r.length(i)
		if err != nil {
			return err
		}
		if size > mostRecord {
			return tooLarge("record %d of %d bytes, at most %d are taken", i, size, mostRecord)
		}
		if size > len(r.buf) {
			if err := r.scanLarge(i, size, c); err != nil {
				return err
			}
			continue
		}
		for r.end-r.start < size {
			if err := r.fill(size); err != nil {
				return r.short(i, size, err)
			}
		}
		f, ok := scanRecord(r.buf[r.start : r.start+size])
		if !ok {
			return explain(i, r.buf[r.start:r.start+size])
		}
		r.start += size
		c.record(i, f.timestampDelta, f.offsetDelta, f.hasKey)
	}
	return r.finish(count)
}

// scanBody walks over the records of an uncompressed body.
func scanBody(p []byte, count int32, c *checker) error {
	pos := 0
	for i := int32(0); i < count; i++ {
		var size int32
		next := pos + 2
		if next <= len(p) && p[pos] >= 0x80 && p[pos+1] < 0x80 { // two bytes are usual
			size = twoBytes(p[pos], p[pos+1])
		} else if size, next = varint32At(p, pos); next < 0 {
			return corrupt("record %d has no valid length in the %d bytes left", i, len(p)-pos)
		}
		if size < 0 {
			return corrupt("record %d has length %d", i, size)
		}
		pos = next
		if int(size) > len(p)-pos {
			return corrupt("record %d needs %d bytes and %d are left", i, size, len(p)-pos)
		}
		body := p[pos : pos+int(size)]
		f, ok := scanRecord(body)
		if !ok {
			return explain(i, body)
		}
		pos += int(size)
		c.record(i, f.timestampDelta, f.offsetDelta, f.hasKey)
	}
	if pos != len(p) {
		return corrupt("%d bytes follow the last of %d records", len(p)-pos, count)
	}
	return nil
}

// scanned is what a validator needs of a record.
type scanned struct {
	timestampDelta int64
	offsetDelta    int32
	hasKey         bool
}

// scanRecord checks the body of one record, as Record.parse does, without taking it apart. It is the hot path of a
// produce, so varints of one and two bytes, by far the commonest, are read in place.
func scanRecord(p []byte) (f scanned, ok bool) {
	if len(p) < 6 {
		return f, false // attributes, two deltas, two lengths and a count
	}
	i := 2
	if c := p[1]; c < 0x80 {
		f.timestampDelta = int64(c>>1) ^ -int64(c&1)
	} else if p[2] < 0x80 {
		f.timestampDelta = int64(twoBytes(c, p[2]))
		i = 3
	} else {
		v, n := Varint(p[1:])
		if n <= 0 {
			return f, false
		}
		f.timestampDelta = v
		i = 1 + n
	}
	if i < len(p) && p[i] < 0x80 {
		f.offsetDelta = int32(p[i]>>1) ^ -int32(p[i]&1)
		i++
	} else if i+1 < len(p) && p[i+1] < 0x80 {
		f.offsetDelta = twoBytes(p[i], p[i+1])
		i += 2
	} else if f.offsetDelta, i = varint32Slow(p, i); i < 0 {
		return f, false
	}
	var size int32
	if i < len(p) && p[i] < 0x80 {
		size = int32(p[i]>>1) ^ -int32(p[i]&1)
		i++
	} else if size, i = varint32Slow(p, i); i < 0 {
		return f, false
	}
	if size >= 0 {
		f.hasKey = true
		if int(size) > len(p)-i {
			return f, false
		}
		i += int(size)
	}
	if i < len(p) && p[i] < 0x80 {
		size = int32(p[i]>>1) ^ -int32(p[i]&1)
		i++
	} else if i+1 < len(p) && p[i+1] < 0x80 {
		size = twoBytes(p[i], p[i+1])
		i += 2
	} else if size, i = varint32Slow(p, i); i < 0 {
		return f, false
	}
	if size > 0 {
		if int(size) > len(p)-i {
			return f, false
		}
		i += int(size)
	}
	if i == len(p)-1 && p[i] == 0 {
		return f, true // no headers
	}
	return f, scanHeaders(p, i)
}

// scanHeaders checks the headers of a record, which begin with their count at p[i:] and end with p.
func scanHeaders(p []byte, i int) bool {
	var headers, size int32
	if headers, i = varint32At(p, i); i < 0 || headers < 0 || int(headers) > len(p)-i {
		return false
	}
	for range headers {
		if size, i = varint32At(p, i); i < 0 || size < 0 || int(size) > len(p)-i {
			return false
		}
		if i = skipBytes(p, i+int(size)); i < 0 {
			return false
		}
	}
	return i == len(p)
}

// varint32At reads a varint at p[i:] and returns the position after it, -1 when there is none.
func varint32At(p []byte, i int) (int32, int) {
	if i < len(p) && p[i] < 0x80 {
		return int32(p[i]>>1) ^ -int32(p[i]&1), i + 1
	}
	return varint32Slow(p, i)
}

// twoBytes is the value of a varint of two bytes.
func twoBytes(c, d byte) int32 {
	u := uint32(c&0x7f) | uint32(d)<<7
	return int32(u>>1) ^ -int32(u&1)
}

func varint32Slow(p []byte, i int) (int32, int) {
	v, n := Varint32(p[i:])
	if n <= 0 {
		return 0, -1
	}
	return v, i + n
}

// skipBytes passes over a length and as many bytes at p[i:]; -1 when they are not there.
func skipBytes(p []byte, i int) int {
	size, i := varint32At(p, i)
	if i < 0 || size < 0 {
		return i
	}
	if int(size) > len(p)-i {
		return -1
	}
	return i + int(size)
}

// explain returns the error of a record that scanRecord has refused.
func explain(index int32, body []byte) error {
	var r Record
	if err := r.parse(body); err != nil {
		return atRecord(index, err)
	}
	panic("record: scanRecord refuses what parse takes")
}

// scanLarge checks a record of size bytes that is larger than the window, whose length has been consumed.
func (r *Reader) scanLarge(index int32, size int, c *checker) error {
	l := largeRecord{r: r, index: index, size: size, left: size}
	var rec Record
	l.head(&rec)
	key := l.skipBytes()
	l.skipBytes() // value
	if err := l.tail(); err != nil {
		return err
	}
	c.record(index, rec.TimestampDelta, rec.OffsetDelta, key >= 0)
	return nil
}

// largeRecord consumes the body of one record. After an error its methods do nothing.
type largeRecord struct {
	r     *Reader
	index int32
	size  int
	left  int // bytes of the body that are not consumed
	err   error
}

func (l *largeRecord) fail(field string) {
	if l.err == nil {
		l.err = atRecord(l.index, badField(l.size, field))
	}
}

// varint consumes a varint of at most width bytes.
func (l *largeRecord) varint(width int) int64 {
	for l.err == nil {
		r := l.r
		p := r.buf[r.start:min(r.end, r.start+l.left)]
		var v int64
		var n int
		if width == maxVarintLen32 {
			var v32 int32
			v32, n = Varint32(p)
			v = int64(v32)
		} else {
			v, n = Varint(p)
		}
		if n > 0 {
			r.start += n
			l.left -= n
			return v
		}
		if n < 0 || len(p) == l.left {
			l.fail("field")
		} else {
			l.fill()
		}
	}
	return 0
}

// head consumes what comes before the key.
func (l *largeRecord) head(rec *Record) {
	l.skip(1) // attributes
	rec.TimestampDelta = l.varint(maxVarintLen64)
	rec.OffsetDelta = int32(l.varint(maxVarintLen32))
}

// tail consumes the headers, and returns the error that the record has.
func (l *largeRecord) tail() error {
	headers := l.varint(maxVarintLen32)
	if headers < 0 || headers > int64(l.left) {
		l.fail("header count")
	}
	for range headers {
		if l.skipBytes() < 0 {
			l.fail("header key")
		}
		l.skipBytes()
		if l.err != nil {
			break
		}
	}
	if l.err == nil && l.left != 0 {
		l.err = corrupt("record %d: record of %d bytes has %d bytes after its last header", l.index, l.size, l.left)
	}
	return l.err
}

// length consumes the length of a field, which is not more than is left; below 0 for null.
func (l *largeRecord) length() int {
	size := int(l.varint(maxVarintLen32))
	if size > l.left {
		l.fail("length")
	}
	if l.err != nil {
		return -1
	}
	return size
}

// skipBytes consumes a length and as many bytes and returns the length.
func (l *largeRecord) skipBytes() int {
	size := l.length()
	l.skip(size)
	return size
}

// take consumes n bytes and returns a copy of them. Memory grows with what really came.
func (l *largeRecord) take(n int) []byte {
	out := []byte{}
	for n > 0 && l.err == nil {
		r := l.r
		step := min(n, r.end-r.start)
		out = append(out, r.buf[r.start:r.start+step]...)
		l.skip(step)
		if n -= step; n > 0 {
			l.fill()
		}
	}
	return out
}

func (l *largeRecord) skip(n int) {
	for n > 0 && l.err == nil {
		r := l.r
		step := min(n, r.end-r.start)
		r.start += step
		l.left -= step
		n -= step
		if n > 0 {
			l.fill()
		}
	}
}

func (l *largeRecord) fill() {
	if err := l.r.fill(maxVarintLen64); err != nil {
		l.err = l.r.short(l.index, l.left, err)
	}
}
