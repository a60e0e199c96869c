package record

import (
	"errors"
	"fmt"
)

// Codec is how the records of a batch are compressed; the numbers are those in the attributes.
type Codec int8

// The codecs of Kafka.
const (
	None   Codec = 0
	Gzip   Codec = 1
	Snappy Codec = 2 // raw blocks or xerial framing are read, xerial is written
	LZ4    Codec = 3 // frames of independent blocks
	Zstd   Codec = 4
)

// ErrUnknownCodec means attributes with a codec number above 4.
var ErrUnknownCodec = errors.New("unknown compression codec")

// String returns the name as in compression.type of a producer: none, gzip, snappy, lz4, zstd.
func (c Codec) String() string {
	switch c {
	case None:
		return "none"
	case Gzip:
		return "gzip"
	case Snappy:
		return "snappy"
	case LZ4:
		return "lz4"
	case Zstd:
		return "zstd"
	}
	return fmt.Sprintf("codec %d", int8(c))
}

// ParseCodec returns the codec of a name as String gives it; "uncompressed", the topic config's word, is None.
func ParseCodec(name string) (Codec, error) {
	if name == "uncompressed" {
		return None, nil
	}
	for c := None; c <= Zstd; c++ {
		if c.String() == name {
			return c, nil
		}
	}
	return 0, fmt.Errorf("%w %q", ErrUnknownCodec, name)
}
