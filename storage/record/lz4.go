package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"slices"

	"github.com/pierrec/lz4/v4"
)

// LZ4 is the frame format, of which Kafka reads a part, and so does this:
//
//	04 22 4d 18 | FLG | BD | content size (8, if FLG says so) | header checksum |
//	{ uint32 size, high bit: stored | block | xxh32 (4, if FLG says so) }… | 00 00 00 00 | content checksum (4, if …)
//
// Integers are little-endian. Blocks must be independent. The content checksum is not verified; bytes after the frame
// are passed over. Kafka: Lz4BlockInputStream.

const (
	lz4Magic         = 0x184d2204
	lz4Version       = 1 << 6
	lz4Independent   = 1 << 5
	lz4BlockChecksum = 1 << 4
	lz4ContentSize   = 1 << 3
	lz4ContentSum    = 1 << 2
	lz4Reserved      = 1 << 1 // and bit 0 is for dictionaries, which Kafka does not have
	lz4Dictionary    = 1 << 0
	lz4Stored        = 1 << 31
	lz4WriteBlock    = 64 << 10 // bytes of records in a block that is written
	lz4WriteBD       = 4 << 4   // and its code
	lz4Expansion     = 255      // a block cannot decode to more than this times its size
)

var errLZ4Frame = errors.New("not a frame of independent blocks")

// lz4Reader decodes block by block.
type lz4Reader struct {
	body     []byte // what is left of the frame
	flags    byte
	maxBlock int
	ended    bool
	block    []byte // scratch
	rest     []byte // of the block, not read yet
}

// open reads the frame's header.
func (l *lz4Reader) open(body []byte) error {
	l.rest, l.ended = nil, false
	if len(body) < 7 {
		return io.ErrUnexpectedEOF
	}
	if m := binary.LittleEndian.Uint32(body); m != lz4Magic {
		return fmt.Errorf("%w: magic %#08x", errLZ4Frame, m)
	}
	flags, descriptor := body[4], body[5]
	if flags>>6 != 1 || flags&lz4Independent == 0 || flags&(lz4Reserved|lz4Dictionary) != 0 {
		return fmt.Errorf("%w: flags %#02x", errLZ4Frame, flags)
	}
	code := descriptor >> 4
	if code < 4 || code > 7 || descriptor&0x0f != 0 {
		return fmt.Errorf("%w: block descriptor %#02x", errLZ4Frame, descriptor)
	}
	l.flags, l.maxBlock = flags, 1<<(8+2*code)
	end := 6
	if flags&lz4ContentSize != 0 {
		end += 8
	}
	if len(body) <= end {
		return io.ErrUnexpectedEOF
	}
	if got, want := byte(xxh32(body[4:end])>>8), body[end]; got != want {
		return fmt.Errorf("header checksum is %#02x, frame says %#02x", got, want)
	}
	l.body = body[end+1:]
	return nil
}

func (l *lz4Reader) Read(p []byte) (int, error) {
	for len(l.rest) == 0 {
		if l.ended {
			return 0, io.EOF
		}
		if err := l.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// next decodes the block at the front of body, or takes the end mark.
func (l *lz4Reader) next() error {
	if len(l.body) < 4 {
		return io.ErrUnexpectedEOF
	}
	word := binary.LittleEndian.Uint32(l.body)
	size := int(word &^ lz4Stored)
	l.body = l.body[4:]
	if size == 0 {
		l.ended = true
		if l.flags&lz4ContentSum != 0 && len(l.body) < 4 {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	if size > l.maxBlock {
		return fmt.Errorf("block of %d bytes, frame allows %d", size, l.maxBlock)
	}
	after := size
	if l.flags&lz4BlockChecksum != 0 {
		after += 4
	}
	if after > len(l.body) {
		return io.ErrUnexpectedEOF
	}
	src := l.body[:size]
	if l.flags&lz4BlockChecksum != 0 {
		if got, want := xxh32(src), binary.LittleEndian.Uint32(l.body[size:]); got != want {
			return fmt.Errorf("block checksum is %#08x, frame says %#08x", got, want)
		}
	}
	l.body = l.body[after:]
	if word&lz4Stored != 0 {
		l.rest = src
		return nil
	}
	most := min(l.maxBlock, size*lz4Expansion)
	if cap(l.block) < most {
		l.block = make([]byte, most)
	}
	n, err := lz4.UncompressBlock(src, l.block[:most])
	if err != nil {
		return err
	}
	l.rest = l.block[:n]
	return nil
}

func (l *lz4Reader) close() {
	l.body, l.rest = nil, nil
	if cap(l.block) > keepWindow {
		l.block = nil
	}
}

// lz4Writer compresses blocks. level is Kafka's, 1 to 17; 0 and 9, Kafka's default, mean the fast compressor.
type lz4Writer struct {
	fast *lz4.Compressor
	high *lz4.CompressorHC
}

// lz4Depth is the search depth for a level of the thorough compressor, which has nine of them.
func lz4Depth(level int) lz4.CompressionLevel {
	return lz4.CompressionLevel(1) << (8 + min(max(level, 1), 9))
}

// appendLZ4Header appends what a frame of 64 KiB independent blocks without checksums begins with.
func appendLZ4Header(dst []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, lz4Magic)
	dst = append(dst, lz4Version|lz4Independent, lz4WriteBD)
	return append(dst, byte(xxh32(dst[len(dst)-2:])>>8))
}

// appendBlock appends p, at most lz4WriteBlock bytes, as one block with its size, stored when it does not shrink.
func (l *lz4Writer) appendBlock(dst, p []byte, level int) []byte {
	start := len(dst) + 4
	dst = slices.Grow(dst, 4+lz4.CompressBlockBound(len(p)))
	room := dst[start:cap(dst)]
	var n int
	var err error
	if level == 0 || level == 9 {
		if l.fast == nil {
			l.fast = new(lz4.Compressor)
		}
		n, err = l.fast.CompressBlock(p, room)
	} else {
		if l.high == nil {
			l.high = new(lz4.CompressorHC)
		}
		l.high.Level = lz4Depth(level)
		n, err = l.high.CompressBlock(p, room)
	}
	word := uint32(n)
	if err != nil || n == 0 || n >= len(p) {
		n = copy(room, p)
		word = uint32(n) | lz4Stored
	}
	binary.LittleEndian.PutUint32(dst[start-4:start], word)
	return dst[:start+n]
}

const (
	xxhPrime1 uint32 = 2654435761
	xxhPrime2 uint32 = 2246822519
	xxhPrime3 uint32 = 3266489917
	xxhPrime4 uint32 = 668265263
	xxhPrime5 uint32 = 374761393
)

// xxh32 is the 32-bit xxHash of b with seed 0, which LZ4 frames use for their checksums.
func xxh32(b []byte) uint32 {
	h := uint32(len(b))
	if len(b) >= 16 {
		p1, p2 := xxhPrime1, xxhPrime2 // variables, as the sums wrap around
		v1, v2, v3, v4 := p1+p2, p2, uint32(0), -p1
		for len(b) >= 16 {
			v1 = xxhRound(v1, b)
			v2 = xxhRound(v2, b[4:])
			v3 = xxhRound(v3, b[8:])
			v4 = xxhRound(v4, b[12:])
			b = b[16:]
		}
		h += bits.RotateLeft32(v1, 1) + bits.RotateLeft32(v2, 7) + bits.RotateLeft32(v3, 12) + bits.RotateLeft32(v4, 18)
	} else {
		h += xxhPrime5
	}
	for ; len(b) >= 4; b = b[4:] {
		h = bits.RotateLeft32(h+binary.LittleEndian.Uint32(b)*xxhPrime3, 17) * xxhPrime4
	}
	for _, c := range b {
		h = bits.RotateLeft32(h+uint32(c)*xxhPrime5, 11) * xxhPrime1
	}
	h = (h ^ h>>15) * xxhPrime2
	h = (h ^ h>>13) * xxhPrime3
	return h ^ h>>16
}

func xxhRound(v uint32, b []byte) uint32 {
	return bits.RotateLeft32(v+binary.LittleEndian.Uint32(b)*xxhPrime2, 13) * xxhPrime1
}
