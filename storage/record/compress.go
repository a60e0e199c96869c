package record

import (
	"fmt"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// zstdWriteWindow is how far back written zstd refers, as the reference library at its default level.
const zstdWriteWindow = 2 << 20

// compressor turns the bytes of records into the body of a batch, a piece at a time. Its methods take the output so
// far and return it extended.
type compressor struct {
	codec     Codec
	level     int
	sink      sliceWriter
	pending   []byte // snappy and lz4: bytes that do not fill a block yet
	lz4       lz4Writer
	gzip      *gzip.Writer
	gzipLevel int
	zstd      *zstd.Encoder
	zstdLevel zstd.EncoderLevel
}

// sliceWriter is an io.Writer that never fails.
type sliceWriter struct{ b []byte }

func (w *sliceWriter) Write(p []byte) (int, error) {
	w.b = append(w.b, p...)
	return len(p), nil
}

// begin starts a body with a codec that is not None. level is Kafka's for that codec, 0 its default.
func (c *compressor) begin(codec Codec, level int, dst []byte) []byte {
	c.codec, c.level, c.pending = codec, level, c.pending[:0]
	switch codec {
	case Gzip:
		c.beginGzip()
	case Snappy:
		dst = appendXerialHeader(dst)
	case LZ4:
		dst = appendLZ4Header(dst)
	case Zstd:
		c.beginZstd()
	}
	return dst
}

func (c *compressor) beginGzip() {
	level := c.level
	if level < gzip.BestSpeed || level > gzip.BestCompression {
		level = gzip.DefaultCompression
	}
	if c.gzip == nil || c.gzipLevel != level {
		w, err := gzip.NewWriterLevel(&c.sink, level)
		mustCompress(err)
		c.gzip, c.gzipLevel = w, level
		return
	}
	c.gzip.Reset(&c.sink)
}

func (c *compressor) beginZstd() {
	level := zstd.SpeedDefault
	if c.level != 0 {
		level = zstd.EncoderLevelFromZstd(c.level)
	}
	if c.zstd == nil || c.zstdLevel != level {
		w, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(zstdWriteWindow), zstd.WithEncoderCRC(false))
		mustCompress(err)
		c.zstd, c.zstdLevel = w, level
	}
	c.zstd.Reset(&c.sink)
}

// write adds p.
func (c *compressor) write(dst, p []byte) []byte {
	var err error
	switch c.codec {
	case Gzip:
		c.sink.b = dst
		_, err = c.gzip.Write(p)
		dst, c.sink.b = c.sink.b, nil
	case Zstd:
		c.sink.b = dst
		_, err = c.zstd.Write(p)
		dst, c.sink.b = c.sink.b, nil
	default:
		size := c.blockSize()
		for len(c.pending)+len(p) >= size {
			n := size - len(c.pending)
			if len(c.pending) == 0 {
				dst = c.appendBlock(dst, p[:n])
			} else {
				c.pending = append(c.pending, p[:n]...)
				dst = c.appendBlock(dst, c.pending)
				c.pending = c.pending[:0]
			}
			p = p[n:]
		}
		c.pending = append(c.pending, p...)
	}
	mustCompress(err)
	return dst
}

// finish adds p and ends the body.
func (c *compressor) finish(dst, p []byte) []byte {
	dst = c.write(dst, p)
	var err error
	switch c.codec {
	case Gzip:
		c.sink.b = dst
		err = c.gzip.Close()
		dst, c.sink.b = c.sink.b, nil
	case Zstd:
		c.sink.b = dst
		err = c.zstd.Close()
		dst, c.sink.b = c.sink.b, nil
	default:
		if len(c.pending) > 0 {
			dst = c.appendBlock(dst, c.pending)
			c.pending = c.pending[:0]
		}
		if c.codec == LZ4 {
			dst = append(dst, 0, 0, 0, 0)
		}
	}
	mustCompress(err)
	return dst
}

func (c *compressor) blockSize() int {
	if c.codec == LZ4 {
		return lz4WriteBlock
	}
	return xerialBlock
}

func (c *compressor) appendBlock(dst, p []byte) []byte {
	if c.codec == LZ4 {
		return c.lz4.appendBlock(dst, p, c.level)
	}
	return appendXerialBlock(dst, p)
}

// mustCompress ends the process on an error that only a bug can make: options are ours and the sink never fails.
func mustCompress(err error) {
	if err != nil {
		panic(fmt.Sprintf("record: compress: %v", err))
	}
}

// AppendCompressed appends p, the bytes of records, to dst as a body in the codec; level as in BuilderOptions.
func AppendCompressed(dst, p []byte, codec Codec, level int) []byte {
	if codec == None {
		return append(dst, p...)
	}
	var c compressor
	dst = c.begin(codec, level, dst)
	return c.finish(dst, p)
}
