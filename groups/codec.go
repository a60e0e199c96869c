package groups

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kaen-log/gateway/storage"
)

// The records of consumer and share groups are Kafka messages that kmsg does not
// have. Keys are an int16, the type of the record, and then plain fields. Values are
// an int16, the version, and then flexible fields:
//
//	compact string   unsigned varint of length+1, 0 for null; the bytes
//	compact array    unsigned varint of length+1, 0 for null; the elements
//	uuid             16 bytes
//	tags             unsigned varint of their number; each: tag, size, the bytes
//
// A structure ends with its tags, also within an array.

// errShort is what a decoder makes of bytes that end too early.
var errShort = errors.New("record ends too early")

// decoder reads fields off the front of b. After the first fault it reads zeros, and
// err says what it was; nothing is allocated that the bytes left could not fill.
type decoder struct {
	b   []byte
	err error
}

// take returns the next n bytes, which belong to the record; nil after a fault.
func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.fail(errShort)
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// fail notes the first fault.
func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err, d.b = err, nil
	}
}

func (d *decoder) int8() int8 {
	if b := d.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (d *decoder) int16() int16 {
	if b := d.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (d *decoder) int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (d *decoder) int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (d *decoder) uuid() (id storage.TopicID) {
	copy(id[:], d.take(len(id)))
	return id
}

// string reads a string of a key: an int16 and the bytes.
func (d *decoder) string() string { return string(d.take(int(d.int16()))) }

// uvarint reads an unsigned varint of at most 32 bits.
func (d *decoder) uvarint() uint32 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 || v > 1<<32-1 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return uint32(v)
}

// length reads the length of a string or an array whose elements have at least size
// bytes; -1 for null.
func (d *decoder) length(size int) int {
	n := int64(d.uvarint()) - 1
	if n*int64(size) > int64(len(d.b)) {
		d.fail(errShort)
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// compactBytes reads bytes; null is nil. They are copied.
func (d *decoder) compactBytes() []byte {
	n := d.length(1)
	if n < 0 {
		return nil
	}
	return append([]byte{}, d.take(n)...)
}

// compactString reads a string that must not be null.
func (d *decoder) compactString() string {
	s := d.compactNullable()
	if s == nil {
		d.fail(errors.New("null where a string must be"))
		return ""
	}
	return *s
}

// compactNullable reads a string; nil for null.
func (d *decoder) compactNullable() *string {
	n := d.length(1)
	if n < 0 {
		return nil
	}
	s := string(d.take(n))
	return &s
}

// compactStrings reads an array of strings; null is as empty.
func (d *decoder) compactStrings() []string {
	n := d.length(1)
	out := make([]string, 0, max(n, 0))
	for range n {
		out = append(out, d.compactString())
	}
	return out
}

// compactInt32s reads an array of numbers; nil for null.
func (d *decoder) compactInt32s() []int32 {
	n := d.length(4)
	if n < 0 {
		return nil
	}
	out := make([]int32, n)
	for i := range out {
		out[i] = d.int32()
	}
	return out
}

// tags reads the tags of a structure: known is given those it asks for, by number,
// and reads them from its own decoder; nil skips them all.
func (d *decoder) tags(known func(tag uint32, d *decoder)) {
	for range d.uvarint() {
		tag := d.uvarint()
		field := decoder{b: d.take(int(d.uvarint())), err: d.err}
		if d.err != nil {
			return
		}
		if known != nil {
			known(tag, &field)
			if field.err != nil {
				d.fail(fmt.Errorf("tag %d: %w", tag, field.err))
				return
			}
		}
	}
}

// version reads the version that a value begins with; only 0 is known.
func (d *decoder) version() {
	if v := d.int16(); v != 0 {
		d.fail(fmt.Errorf("version %d, want 0", v))
	}
}

// appendString appends a string of a key.
func appendString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

func appendUUID(dst []byte, id storage.TopicID) []byte { return append(dst, id[:]...) }

func appendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }
func appendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }
func appendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// appendLength appends the length of what is not null.
func appendLength(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)+1) }

func appendCompactString(dst []byte, s string) []byte { return append(appendLength(dst, len(s)), s...) }

// appendCompactNullable appends a string, null for nil.
func appendCompactNullable(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return appendCompactString(dst, *s)
}

func appendCompactBytes(dst, b []byte) []byte { return append(appendLength(dst, len(b)), b...) }

func appendCompactStrings(dst []byte, list []string) []byte {
	dst = appendLength(dst, len(list))
	for _, s := range list {
		dst = appendCompactString(dst, s)
	}
	return dst
}

func appendCompactInt32s(dst []byte, list []int32) []byte {
	dst = appendLength(dst, len(list))
	for _, v := range list {
		dst = appendInt32(dst, v)
	}
	return dst
}

// appendNoTags ends a structure without tags.
func appendNoTags(dst []byte) []byte { return append(dst, 0) }

// appendTag0 ends a structure whose one tag is number 0.
func appendTag0(dst, field []byte) []byte {
	dst = append(dst, 1, 0)
	dst = binary.AppendUvarint(dst, uint64(len(field)))
	return append(dst, field...)
}
