package record

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// errDecompress marks the errors of decompressors, so that a validator can tell them from records that do not parse.
var errDecompress = errors.New("decompress")

// errTooMuch is the cause when a batch decompresses to more than a Reader allows.
var errTooMuch = fmt.Errorf("%w: limit reached", errDecompress)

const (
	// zstdWindow is the largest zstd window for which decoders are kept, and zstdMaxWindow the largest that is read at
	// all, which is the limit of the reference library and so of Kafka's clients.
	zstdWindow    = 8 << 20
	zstdMaxWindow = 128 << 20
)

// decompressor turns the body of a batch into the bytes of its records, a piece at a time, by the codec it was opened
// with. It holds no more than the codec's window or block.
type decompressor struct {
	codec  Codec
	body   bytes.Reader
	gzip   *gzip.Reader
	ended  bool // gzip has no more members
	zstd   *zstd.Decoder
	big    *zstd.Decoder // for the current batch, whose window is above zstdWindow
	snappy snappyReader
	lz4    lz4Reader
}

// open begins with a body.
func (d *decompressor) open(c Codec, body []byte) error {
	d.codec, d.ended = c, false
	var err error
	switch c {
	case Gzip:
		d.body.Reset(body)
		if d.gzip == nil {
			d.gzip = new(gzip.Reader)
		}
		if err = d.gzip.Reset(&d.body); err == nil {
			d.gzip.Multistream(false)
		}
	case Snappy:
		d.snappy.open(body)
	case LZ4:
		err = d.lz4.open(body)
	case Zstd:
		err = d.openZstd(body)
	default:
		d.codec = None
		return fmt.Errorf("%w %d", ErrUnknownCodec, int8(c))
	}
	if err != nil {
		err = d.fail(err)
		d.close()
	}
	return err
}

// smallestMember is the fewest bytes that are taken for another gzip member. Kafka: java.util.zip.GZIPInputStream looks no
// further when so few are left behind a member.
const smallestMember = 19

// readGzip reads on in the next member when there is one. What is behind a member and does not begin as another is
// passed over, as Kafka does.
func (d *decompressor) readGzip(p []byte) (int, error) {
	for !d.ended {
		n, err := d.gzip.Read(p)
		if err != io.EOF {
			return n, err
		}
		if d.ended = d.body.Len() < smallestMember || d.gzip.Reset(&d.body) != nil; !d.ended {
			d.gzip.Multistream(false)
		}
		if n > 0 {
			return n, nil
		}
	}
	return 0, io.EOF
}

func (d *decompressor) openZstd(body []byte) error {
	d.body.Reset(body)
	var h zstd.Header
	if err := h.Decode(body); err != nil {
		return err
	}
	if h.WindowSize > zstdWindow {
		var err error
		d.big, err = newZstdDecoder(zstdMaxWindow)
		if err != nil {
			return err
		}
		return d.big.Reset(&d.body)
	}
	if d.zstd == nil {
		var err error
		if d.zstd, err = newZstdDecoder(zstdWindow); err != nil {
			return err
		}
	}
	return d.zstd.Reset(&d.body)
}

// zstdWindowSize returns how large a window the body asks for, 0 when it is none.
func zstdWindowSize(body []byte) uint64 {
	var h zstd.Header
	if err := h.Decode(body); err != nil {
		return 0
	}
	return h.WindowSize
}

// newZstdDecoder returns a decoder that works in its caller's goroutine.
func newZstdDecoder(window uint64) (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(window))
}

// Read is io.Reader's. Every error but io.EOF is a *CorruptError.
func (d *decompressor) Read(p []byte) (n int, err error) {
	switch d.codec {
	case Gzip:
		n, err = d.readGzip(p)
	case Snappy:
		n, err = d.snappy.Read(p)
	case LZ4:
		n, err = d.lz4.Read(p)
	case Zstd:
		if d.big != nil {
			n, err = d.big.Read(p)
		} else {
			n, err = d.zstd.Read(p)
		}
	default:
		return 0, io.EOF
	}
	if err != nil && err != io.EOF {
		err = d.fail(err)
	}
	return n, err
}

// fail wraps what a decompressor reports. An end inside its format is not the end of the records.
func (d *decompressor) fail(err error) error {
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return &CorruptError{Reason: "records do not decompress as " + d.codec.String(), Err: fmt.Errorf("%w: %w", errDecompress, err)}
}

// close lets go of the body and of what is not worth keeping.
func (d *decompressor) close() {
	d.body.Reset(nil)
	d.snappy.close()
	d.lz4.close()
	if d.big != nil {
		d.big.Close()
		d.big = nil
	}
	if d.codec == Zstd && d.zstd != nil {
		d.zstd.Reset(nil)
	}
	d.codec = None
}

// AppendDecompressed appends to dst what body, in the codec, decompresses to, at most MaxDecompressed bytes. The error
// is a *CorruptError or ErrUnknownCodec; dst then holds what came before it.
func (r *Reader) AppendDecompressed(dst, body []byte, codec Codec) ([]byte, error) {
	if codec == None {
		return append(dst, body...), nil
	}
	if err := r.openBody(codec, body); err != nil {
		return dst, err
	}
	defer r.close()
	for {
		err := r.fill(windowSize)
		dst = append(dst, r.buf[r.start:r.end]...)
		r.start = r.end
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}
