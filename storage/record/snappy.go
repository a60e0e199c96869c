package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/klauspost/compress/s2"
)

// Snappy comes in two forms. Java's clients and librdkafka write xerial framing:
//
//	82 'S' 'N' 'A' 'P' 'P' 'Y' 00 | int32 version | int32 compatible version | { int32 size | block of size bytes }…
//
// Others write one raw block. What does not begin with the eight bytes is a raw block, as snappy-java takes it.

const (
	xerialHeaderSize = 16
	xerialBlock      = 32 << 10 // bytes of records in a block that is written
	snappyExpansion  = 22       // a block cannot decode to more than this times its size: 3 bytes copy at most 64
)

var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

var errSnappyLength = errors.New("block claims more bytes than it can hold")

// snappyReader decodes block by block.
type snappyReader struct {
	body   []byte // what is left
	xerial bool
	block  []byte // scratch; the block that is being read
	rest   []byte // of block, not read yet
}

func (s *snappyReader) open(body []byte) {
	s.body, s.rest = body, nil
	s.xerial = len(body) >= xerialHeaderSize && bytes.HasPrefix(body, xerialMagic)
	if s.xerial {
		s.body = body[xerialHeaderSize:]
	}
}

func (s *snappyReader) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if len(s.body) == 0 {
			return 0, io.EOF
		}
		if err := s.next(); err != nil {
			return 0, err
		}
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// next decodes the block at the front of body.
func (s *snappyReader) next() error {
	src := s.body
	if s.xerial {
		// Streams may follow each other, each with its header.
		if len(src) >= xerialHeaderSize && bytes.HasPrefix(src, xerialMagic) {
			s.body = src[xerialHeaderSize:]
			return nil
		}
		if len(src) < 4 {
			return io.ErrUnexpectedEOF
		}
		size := binary.BigEndian.Uint32(src)
		if uint64(size) > uint64(len(src)-4) {
			return fmt.Errorf("block of %d bytes with %d bytes left", size, len(src)-4)
		}
		src, s.body = src[4:4+size], src[4+size:]
	} else {
		s.body = nil
	}
	n, err := s2.DecodedLen(src)
	if err != nil {
		return err
	}
	if n > (len(src)+1)*snappyExpansion {
		return errSnappyLength
	}
	if cap(s.block) < n {
		s.block = make([]byte, n)
	}
	s.block, err = s2.Decode(s.block[:cap(s.block)], src)
	s.rest = s.block
	return err
}

func (s *snappyReader) close() {
	s.body, s.rest = nil, nil
	if cap(s.block) > keepWindow {
		s.block = nil
	}
}

// appendXerialHeader appends what a framed stream begins with.
func appendXerialHeader(dst []byte) []byte {
	dst = append(dst, xerialMagic...)
	return append(dst, 0, 0, 0, 1, 0, 0, 0, 1)
}

// appendXerialBlock appends p, at most xerialBlock bytes, as one block with its size.
func appendXerialBlock(dst, p []byte) []byte {
	start := len(dst) + 4
	dst = slices.Grow(dst, 4+s2.MaxEncodedLen(len(p)))
	block := s2.EncodeSnappy(dst[start:cap(dst)], p)
	binary.BigEndian.PutUint32(dst[start-4:start], uint32(len(block)))
	return dst[:start+len(block)]
}
