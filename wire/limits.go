package wire

import "encoding/binary"

// Limits on a frame's length by key. Kafka has one limit for all, socket.request.max.bytes. Differs from Kafka: only
// Produce gets that one, because decoding other requests can need many times their length in memory, and none of them
// has a use for a large frame.
const (
	produceKey      = 0
	groupFrameLimit = 32 << 20
	otherFrameLimit = 2 << 20
)

// frameLimit returns the length that a frame of the given key may have.
func (s *Server) frameLimit(key int16) int32 {
	limit := int32(otherFrameLimit)
	switch key {
	case produceKey:
		return s.maxFrame
	case 8, 11, 14, 19, 28: // OffsetCommit, JoinGroup, SyncGroup, CreateTopics, TxnOffsetCommit
		limit = groupFrameLimit
	}
	return min(limit, s.maxFrame)
}

// maxElements is how many array elements a request may hold in all when its frame is larger than otherFrameLimit.
const maxElements = 1 << 20

// A shape is the layout of a request body, as far as is needed to find its arrays. The codec checks that an array's
// elements can lie in the bytes that are left, but an element may take two bytes there and a hundred in memory, so that
// a frame of the larger limits, full of empty elements, could make it allocate gigabytes. checkShape walks the body of
// such a frame first and counts.
type shape []field

// field is one field of a shape.
type field struct {
	// from and to are the versions that have the field; a to of 0 means all from from on.
	from, to int16
	// Exactly one of these is set.
	fixed int     // so many bytes
	text  bool    // a string, nullable or not: int16 or compact length
	bytes bool    // bytes or records: int32 or compact length
	array []field // int32 or compact count of elements with these fields
	plain int     // int32 or compact count of elements of so many bytes
}

func (f *field) in(version int16) bool {
	return version >= f.from && (f.to == 0 || version <= f.to)
}

// shapes of the requests with a frame limit above otherFrameLimit, by key.
var shapes = map[int16]shape{
	0: { // Produce
		{from: 3, text: true}, {fixed: 2}, {fixed: 4},
		{array: []field{
			{to: 12, text: true}, {from: 13, fixed: 16},
			{array: []field{{fixed: 4}, {bytes: true}}},
		}},
	},
	8: { // OffsetCommit
		{text: true}, {fixed: 4}, {text: true}, {from: 7, text: true}, {from: 2, to: 4, fixed: 8},
		{array: []field{
			{to: 9, text: true}, {from: 10, fixed: 16},
			{array: []field{{fixed: 4}, {fixed: 8}, {from: 6, fixed: 4}, {text: true}}},
		}},
	},
	11: { // JoinGroup
		{text: true}, {fixed: 4}, {from: 1, fixed: 4}, {text: true}, {from: 5, text: true}, {text: true},
		{array: []field{{text: true}, {bytes: true}}}, {from: 8, text: true},
	},
	14: { // SyncGroup
		{text: true}, {fixed: 4}, {text: true}, {from: 3, text: true}, {from: 5, text: true}, {from: 5, text: true},
		{array: []field{{text: true}, {bytes: true}}},
	},
	19: { // CreateTopics
		{array: []field{
			{text: true}, {fixed: 4}, {fixed: 2},
			{array: []field{{fixed: 4}, {plain: 4}}},
			{array: []field{{text: true}, {text: true}}},
		}},
		{fixed: 4}, {from: 1, fixed: 1},
	},
	28: { // TxnOffsetCommit
		{text: true}, {text: true}, {fixed: 8}, {fixed: 2},
		{from: 3, fixed: 4}, {from: 3, text: true}, {from: 3, text: true},
		{array: []field{
			{to: 5, text: true}, {from: 6, fixed: 16},
			{array: []field{{fixed: 4}, {fixed: 8}, {from: 2, fixed: 4}, {text: true}}},
		}},
	},
}

// checkShape walks a body and reports a length or a count that the bytes cannot hold, or more elements than allowed.
func checkShape(s shape, version int16, flexible bool, body []byte) error {
	w := shapeWalk{version: version, flexible: flexible, rest: body, elements: maxElements}
	return w.fields(s)
}

// shapeWalk is the state of one walk.
type shapeWalk struct {
	version  int16
	flexible bool
	rest     []byte
	elements int // that may still come
}

// fields walks one struct with its tags.
func (w *shapeWalk) fields(fields []field) error {
	for i := range fields {
		f := &fields[i]
		if !f.in(w.version) {
			continue
		}
		var err error
		switch {
		case f.fixed > 0:
			err = w.skip(f.fixed)
		case f.text:
			err = w.blob(2)
		case f.bytes:
			err = w.blob(4)
		case f.plain > 0:
			var n int
			if n, err = w.count(f.plain); err == nil {
				err = w.skip(n * f.plain)
			}
		default:
			err = w.array(f.array)
		}
		if err != nil {
			return err
		}
	}
	if !w.flexible {
		return nil
	}
	rest, err := skipTags(w.rest)
	if err != nil {
		return &frameError{reason: err.Error()}
	}
	w.rest = rest
	return nil
}

func (w *shapeWalk) array(fields []field) error {
	n, err := w.count(w.least(fields))
	for range n {
		if err = w.fields(fields); err != nil {
			return err
		}
	}
	return err
}

// least returns the smallest number of bytes that a struct takes.
func (w *shapeWalk) least(fields []field) int {
	n := 0
	length := func(wide int) int {
		if w.flexible {
			return 1
		}
		return wide
	}
	for i := range fields {
		f := &fields[i]
		switch {
		case !f.in(w.version):
		case f.fixed > 0:
			n += f.fixed
		case f.text:
			n += length(2)
		default:
			n += length(4)
		}
	}
	if w.flexible {
		n++
	}
	return n
}

// count reads the length of an array whose elements take at least so many bytes. A null array has none.
func (w *shapeWalk) count(least int) (int, error) {
	n, err := w.length(4)
	if err != nil {
		return 0, err
	}
	if n < 0 {
		return 0, nil
	}
	if int64(n)*int64(least) > int64(len(w.rest)) {
		return 0, frameErrorf("array of %d elements with %d bytes left", n, len(w.rest))
	}
	if w.elements -= n; w.elements < 0 {
		return 0, frameErrorf("more than %d array elements", maxElements)
	}
	return n, nil
}

// blob skips a string or bytes whose length is so wide in inflexible versions.
func (w *shapeWalk) blob(wide int) error {
	n, err := w.length(wide)
	if err != nil {
		return err
	}
	return w.skip(max(n, 0))
}

// length reads a length: compact in flexible versions, else of so many bytes. -1 is null.
func (w *shapeWalk) length(wide int) (int, error) {
	if w.flexible {
		v, rest, ok := cutUvarint(w.rest)
		if !ok {
			return 0, frameErrorf("length runs over the end")
		}
		w.rest = rest
		return int(v) - 1, nil
	}
	if len(w.rest) < wide {
		return 0, frameErrorf("length runs over the end")
	}
	b := w.rest
	w.rest = b[wide:]
	if wide == 2 {
		return int(int16(binary.BigEndian.Uint16(b))), nil
	}
	return int(int32(binary.BigEndian.Uint32(b))), nil
}

func (w *shapeWalk) skip(n int) error {
	if n > len(w.rest) {
		return frameErrorf("%d bytes with %d bytes left", n, len(w.rest))
	}
	w.rest = w.rest[n:]
	return nil
}
