package record

// Varints are Kafka's: zigzag (0, -1, 1, -2 … are 0, 1, 2, 3 …) in groups of seven bits, the lowest first, the high
// bit of a byte set when another follows. A 32-bit value takes at most five bytes and a 64-bit value ten; bits beyond
// the width are dropped, a longer encoding than needed is accepted. Kafka: ByteUtils.

const (
	maxVarintLen32 = 5
	maxVarintLen64 = 10
)

// AppendVarint appends v as a zigzag varint. The bytes are the same for 32-bit and 64-bit fields.
func AppendVarint(dst []byte, v int64) []byte {
	return AppendUvarint(dst, uint64(v<<1)^uint64(v>>63))
}

// AppendUvarint appends u in groups of seven bits without zigzag, as Kafka's compact lengths have it.
func AppendUvarint(dst []byte, u uint64) []byte {
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}

// VarintLen returns how many bytes AppendVarint appends for v, 1 to 10.
func VarintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for u >= 0x80 {
		u >>= 7
		n++
	}
	return n
}

// Varint decodes a 64-bit zigzag varint from the front of b and returns how many bytes it took. n is 0 when b ends
// inside the varint and negative when ten bytes do not end it.
func Varint(b []byte) (v int64, n int) {
	u, n := Uvarint(b)
	return int64(u>>1) ^ -int64(u&1), n
}

// Uvarint decodes a varint without zigzag; n as in Varint.
func Uvarint(b []byte) (u uint64, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	var shift uint
	for i := 0; i < maxVarintLen64; i++ {
		if i == len(b) {
			return 0, 0
		}
		c := b[i]
		u |= uint64(c&0x7f) << shift
		if c < 0x80 {
			return u, i + 1
		}
		shift += 7
	}
	return 0, -maxVarintLen64
}

// Varint32 decodes a 32-bit zigzag varint from the front of b. n is 0 when b ends inside the varint and negative when
// five bytes do not end it.
func Varint32(b []byte) (v int32, n int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int32(b[0]>>1) ^ -int32(b[0]&1), 1
	}
	var u uint32
	var shift uint
	for i := 0; i < maxVarintLen32; i++ {
		if i == len(b) {
			return 0, 0
		}
		c := b[i]
		u |= uint32(c&0x7f) << shift
		if c < 0x80 {
			return int32(u>>1) ^ -int32(u&1), i + 1
		}
		shift += 7
	}
	return 0, -maxVarintLen32
}
