package runtime

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kaen-log/gateway/storage"
)

// Coordinators' records are Kafka messages, most of which kmsg does not have. Keys are
// an int16, the type of the record, and then plain fields, where a string is an int16
// and the bytes. Values are an int16, the version, and then flexible fields:
//
//	compact string   unsigned varint of length+1, 0 for null; the bytes
//	compact array    unsigned varint of length+1, 0 for null; the elements
//	uuid             16 bytes
//	tags             unsigned varint of their number; each: tag, size, the bytes
//
// A structure ends with its tags, also within an array.

// errShort is what a decoder makes of bytes that end too early.
var errShort = errors.New("record ends too early")

// Decoder reads fields off the front of a key or value. After the first fault it reads
// zeros; nothing is allocated that the bytes left could not fill. What it returns it has
// copied.
type Decoder struct {
	b   []byte
	err error
}

// NewDecoder returns a decoder of b.
func NewDecoder(b []byte) *Decoder { return &Decoder{b: b} }

// Err returns the first fault, nil without one.
func (d *Decoder) Err() error { return d.err }

// take returns the next n bytes, which belong to the record; nil after a fault.
func (d *Decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.Fail(errShort)
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// Fail notes a fault, if it is the first.
func (d *Decoder) Fail(err error) {
	if d.err == nil {
		d.err, d.b = err, nil
	}
}

// Int8 reads one byte.
func (d *Decoder) Int8() int8 {
	if b := d.take(1); b != nil {
		return int8(b[0])
	}
	return 0
}

// Int16 reads two bytes.
func (d *Decoder) Int16() int16 {
	if b := d.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

// Int32 reads four bytes.
func (d *Decoder) Int32() int32 {
	if b := d.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

// Int64 reads eight bytes.
func (d *Decoder) Int64() int64 {
	if b := d.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// UUID reads 16 bytes.
func (d *Decoder) UUID() (id storage.TopicID) {
	copy(id[:], d.take(len(id)))
	return id
}

// PlainString reads a string of a key: an int16 and the bytes.
func (d *Decoder) PlainString() string { return string(d.take(int(d.Int16()))) }

// uvarint reads an unsigned varint of at most 32 bits.
func (d *Decoder) uvarint() uint32 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 || v > 1<<32-1 {
		d.Fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return uint32(v)
}

// Length reads the length of a string or an array whose elements have at least size
// bytes; -1 for null.
func (d *Decoder) Length(size int) int {
	n := int64(d.uvarint()) - 1
	if n*int64(size) > int64(len(d.b)) {
		d.Fail(errShort)
	}
	if d.err != nil {
		return 0
	}
	return int(n)
}

// CompactBytes reads bytes; null is nil.
func (d *Decoder) CompactBytes() []byte {
	n := d.Length(1)
	if n < 0 {
		return nil
	}
	return append([]byte{}, d.take(n)...)
}

// CompactString reads a string that must not be null.
func (d *Decoder) CompactString() string {
	s := d.CompactNullable()
	if s == nil {
		d.Fail(errors.New("null where a string must be"))
		return ""
	}
	return *s
}

// CompactNullable reads a string; nil for null.
func (d *Decoder) CompactNullable() *string {
	n := d.Length(1)
	if n < 0 {
		return nil
	}
	s := string(d.take(n))
	return &s
}

// CompactStrings reads an array of strings; null is as empty.
func (d *Decoder) CompactStrings() []string {
	n := d.Length(1)
	out := make([]string, 0, max(n, 0))
	for range n {
		out = append(out, d.CompactString())
	}
	return out
}

// CompactInt32s reads an array of numbers; nil for null.
func (d *Decoder) CompactInt32s() []int32 {
	n := d.Length(4)
	if n < 0 {
		return nil
	}
	out := make([]int32, n)
	for i := range out {
		out[i] = d.Int32()
	}
	return out
}

// Tags reads the tags of a structure: known is given those it asks for, by number,
// and reads them from its own decoder; nil skips them all.
func (d *Decoder) Tags(known func(tag uint32, d *Decoder)) {
	for range d.uvarint() {
		tag := d.uvarint()
		field := Decoder{b: d.take(int(d.uvarint())), err: d.err}
		if d.err != nil {
			return
		}
		if known != nil {
			known(tag, &field)
			if field.err != nil {
				d.Fail(fmt.Errorf("tag %d: %w", tag, field.err))
				return
			}
		}
	}
}

// Version reads the version that a value begins with; only 0 is known.
func (d *Decoder) Version() {
	if v := d.Int16(); v != 0 {
		d.Fail(fmt.Errorf("version %d, want 0", v))
	}
}

// AppendPlainString appends a string of a key.
func AppendPlainString(dst []byte, s string) []byte {
	return append(binary.BigEndian.AppendUint16(dst, uint16(len(s))), s...)
}

// AppendUUID appends 16 bytes.
func AppendUUID(dst []byte, id storage.TopicID) []byte { return append(dst, id[:]...) }

// AppendInt16 appends two bytes.
func AppendInt16(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }

// AppendInt32 appends four bytes.
func AppendInt32(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }

// AppendInt64 appends eight bytes.
func AppendInt64(dst []byte, v int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(v)) }

// AppendLength appends the length of what is not null.
func AppendLength(dst []byte, n int) []byte { return binary.AppendUvarint(dst, uint64(n)+1) }

// AppendCompactString appends a string that is not null.
func AppendCompactString(dst []byte, s string) []byte { return append(AppendLength(dst, len(s)), s...) }

// AppendCompactNullable appends a string, null for nil.
func AppendCompactNullable(dst []byte, s *string) []byte {
	if s == nil {
		return append(dst, 0)
	}
	return AppendCompactString(dst, *s)
}

// AppendCompactBytes appends bytes that are not null.
func AppendCompactBytes(dst, b []byte) []byte { return append(AppendLength(dst, len(b)), b...) }

// AppendCompactStrings appends an array of strings.
func AppendCompactStrings(dst []byte, list []string) []byte {
	dst = AppendLength(dst, len(list))
	for _, s := range list {
		dst = AppendCompactString(dst, s)
	}
	return dst
}

// AppendCompactInt32s appends an array of numbers.
func AppendCompactInt32s(dst []byte, list []int32) []byte {
	dst = AppendLength(dst, len(list))
	for _, v := range list {
		dst = AppendInt32(dst, v)
	}
	return dst
}

// AppendNoTags ends a structure without tags.
func AppendNoTags(dst []byte) []byte { return append(dst, 0) }

// AppendTag0 ends a structure whose one tag is number 0.
func AppendTag0(dst, field []byte) []byte {
	dst = append(dst, 1, 0)
	dst = binary.AppendUvarint(dst, uint64(len(field)))
	return append(dst, field...)
}
