package record

// Record is one record of a batch.
type Record struct {
	Attributes     int8  // no bit has a meaning yet; written as 0
	TimestampDelta int64 // as stored: milliseconds since the batch's base timestamp
	OffsetDelta    int32 // as stored: counted from the batch's base offset
	Timestamp      int64 // milliseconds; -1 is none; with LogAppendTime the batch's MaxTimestamp
	Offset         int64 // BaseOffset and OffsetDelta
	Key            []byte
	Value          []byte // nil is null (a tombstone), which is not the same as empty
	Headers        []Header

	stored []byte // the headers as they are stored, their count included, where they stand for Headers; else nil
}

// Header is one header of a record. Keys may repeat.
type Header struct {
	Key   []byte // UTF-8, never null
	Value []byte // nil is null
}

// bodySize is the size of all that follows the length.
func (r *Record) bodySize(timestampDelta int64, offsetDelta int32) int {
	n := 1 + VarintLen(timestampDelta) + VarintLen(int64(offsetDelta)) + bytesLen(r.Key) + bytesLen(r.Value)
	if r.stored != nil {
		return n + len(r.stored)
	}
	n += VarintLen(int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		n += VarintLen(int64(len(h.Key))) + len(h.Key) + bytesLen(h.Value)
	}
	return n
}

func bytesLen(b []byte) int {
	if b == nil {
		return 1
	}
	return VarintLen(int64(len(b))) + len(b)
}

// appendRecord appends r as it stands in a batch, with the given deltas and no attributes.
func appendRecord(dst []byte, r *Record, timestampDelta int64, offsetDelta int32) []byte {
	dst = AppendVarint(dst, int64(r.bodySize(timestampDelta, offsetDelta)))
	dst = append(dst, 0)
	dst = AppendVarint(dst, timestampDelta)
	dst = AppendVarint(dst, int64(offsetDelta))
	dst = appendBytes(dst, r.Key)
	dst = appendBytes(dst, r.Value)
	if r.stored != nil {
		return append(dst, r.stored...)
	}
	dst = AppendVarint(dst, int64(len(r.Headers)))
	for i := range r.Headers {
		h := &r.Headers[i]
		dst = AppendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	dst = AppendVarint(dst, int64(len(b)))
	return append(dst, b...)
}

// parse decodes the body of one record (what follows its length) into r, all but Timestamp and Offset. Slices alias
// body; headers go to the space of r.Headers. A null is any negative length, as in Kafka.
func (r *Record) parse(body []byte) error {
	size := len(body)
	p, err := r.parseHead(body)
	if err != nil {
		return err
	}
	count, n := Varint32(p)
	if n <= 0 {
		return badField(size, "header count")
	}
	p = p[n:]
	if count < 0 || int(count) > len(p) {
		return corrupt("header count %d with %d bytes left in the record", count, len(p))
	}
	r.Headers = r.Headers[:0]
	for range count {
		var h Header
		keySize, n := Varint32(p)
		if n <= 0 || keySize < 0 || int(keySize) > len(p)-n {
			return badField(size, "header key")
		}
		h.Key = p[n : n+int(keySize) : n+int(keySize)]
		p = p[n+int(keySize):]
		var ok bool
		if h.Value, p, ok = cutBytes(p); !ok {
			return badField(size, "header value")
		}
		r.Headers = append(r.Headers, h)
	}
	if len(p) != 0 {
		return corrupt("record of %d bytes has %d bytes after its last header", size, len(p))
	}
	return nil
}

// parseStored is parse with the headers left as they are stored. They are checked all the same: a header takes 2 bytes and
// many times that as a Header.
func (r *Record) parseStored(body []byte) error {
	p, err := r.parseHead(body)
	if err != nil {
		return err
	}
	if !scanHeaders(p, 0) {
		var whole Record
		if err := whole.parse(body); err != nil {
			return err
		}
		panic("record: scanHeaders refuses what parse takes")
	}
	r.Headers, r.stored = nil, p
	return nil
}

// parseHead is parse of what stands before the headers, and returns what they begin with.
func (r *Record) parseHead(body []byte) (headers []byte, err error) {
	size := len(body)
	if size == 0 {
		return nil, corrupt("record of 0 bytes")
	}
	r.Attributes = int8(body[0])
	p := body[1:]
	var n int
	if r.TimestampDelta, n = Varint(p); n <= 0 {
		return nil, badField(size, "timestamp delta")
	}
	p = p[n:]
	if r.OffsetDelta, n = Varint32(p); n <= 0 {
		return nil, badField(size, "offset delta")
	}
	p = p[n:]
	var ok bool
	if r.Key, p, ok = cutBytes(p); !ok {
		return nil, badField(size, "key")
	}
	if r.Value, p, ok = cutBytes(p); !ok {
		return nil, badField(size, "value")
	}
	return p, nil
}

func badField(size int, field string) error {
	return corrupt("record of %d bytes has no valid %s", size, field)
}

// cutBytes takes a length and as many bytes off the front of p.
func cutBytes(p []byte) (field, rest []byte, ok bool) {
	size, n := Varint32(p)
	if n <= 0 {
		return nil, nil, false
	}
	if size < 0 {
		return nil, p[n:], true
	}
	if int(size) > len(p)-n {
		return nil, nil, false
	}
	end := n + int(size)
	return p[n:end:end], p[end:], true
}
