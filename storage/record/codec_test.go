package record

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// text is n bytes that compress somewhat.
func text(n int) []byte {
	rnd := rand.New(rand.NewPCG(7, 7))
	b := make([]byte, n)
	for i := range b {
		b[i] = "abcdefgh"[rnd.IntN(8)]
		if i > 100 && rnd.IntN(3) > 0 {
			b[i] = b[i-100]
		}
	}
	return b
}

func TestDecompressesWhatOthersWrite(t *testing.T) {
	plain := text(300_000)
	written := func(w io.WriteCloser, out *bytes.Buffer) []byte {
		t.Helper()
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return out.Bytes()
	}
	lz4Frame := func(o ...lz4.Option) []byte {
		var out bytes.Buffer
		w := lz4.NewWriter(&out)
		if err := w.Apply(o...); err != nil {
			t.Fatal(err)
		}
		return written(w, &out)
	}
	var gz, window bytes.Buffer
	gzipped := written(gzip.NewWriter(&gz), &gz)
	zw, err := zstd.NewWriter(&window, zstd.WithWindowSize(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	// A stream that is flushed does not know its size, so its header claims the whole window.
	zw.Write(plain[:1000])
	zw.Flush()
	zw.Write(plain[1000:])
	zw.Close()
	xerial := AppendCompressed(nil, plain, Snappy, 0)

	for _, c := range []struct {
		name   string
		codec  Codec
		body   []byte
		copies int
	}{
		{"gzip of the standard library", Gzip, gzipped, 1},
		{"two gzip members", Gzip, append(bytes.Clone(gzipped), gzipped...), 2},
		{"gzip with bytes behind it", Gzip, append(bytes.Clone(gzipped), 0xaa, 0xbb, 0xcc), 1},
		{"gzip with many bytes behind it", Gzip, append(bytes.Clone(gzipped), make([]byte, 100)...), 1},
		{"gzip with the start of a member behind it", Gzip, append(bytes.Clone(gzipped), gzipped[:smallestMember-1]...), 1},
		{"raw snappy block", Snappy, s2.EncodeSnappy(nil, plain), 1},
		{"two xerial streams", Snappy, append(bytes.Clone(xerial), xerial...), 2},
		{"lz4 of 64 KiB blocks", LZ4, lz4Frame(lz4.BlockSizeOption(lz4.Block64Kb)), 1},
		{"lz4 of 4 MiB blocks with checksums and size", LZ4, lz4Frame(lz4.BlockSizeOption(lz4.Block4Mb), lz4.BlockChecksumOption(true), lz4.SizeOption(uint64(len(plain)))), 1},
		{"lz4 at the highest level", LZ4, lz4Frame(lz4.CompressionLevelOption(lz4.Level9)), 1},
		{"zstd with a window of 64 MiB", Zstd, window.Bytes(), 1},
	} {
		var r Reader
		for range 2 { // again with what the first left behind
			got, err := r.AppendDecompressed(nil, c.body, c.codec)
			if err != nil {
				t.Errorf("%s: %v", c.name, err)
				continue
			}
			if want := bytes.Repeat(plain, c.copies); !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes that differ, want %d", c.name, len(got), len(want))
			}
		}
	}
}

func TestFranzGoDecompressesWhatIsWritten(t *testing.T) {
	d := kgo.DefaultDecompressor()
	for _, n := range []int{1, 1000, 64 << 10, 300_000} {
		plain := text(n)
		for _, codec := range codecs[1:] {
			for _, level := range []int{0, 1, 4, 17} {
				body := AppendCompressed([]byte("before"), plain, codec, level)
				got, err := d.Decompress(body[len("before"):], kgo.CompressionCodecType(codec))
				if err != nil || !bytes.Equal(got, plain) {
					t.Errorf("%v at level %d: %d bytes come back as %d, error %v", codec, level, n, len(got), err)
				}
			}
		}
	}
}

func TestReadsWhatFranzGoCompresses(t *testing.T) {
	plain := text(200_000)
	for _, c := range []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()} {
		compressor, err := kgo.DefaultCompressor(c)
		if err != nil {
			t.Fatal(err)
		}
		body, codec := compressor.Compress(new(bytes.Buffer), plain)
		var r Reader
		got, err := r.AppendDecompressed(nil, body, Codec(codec))
		if err != nil || !bytes.Equal(got, plain) {
			t.Errorf("codec %d: %d bytes, error %v; want %d", codec, len(got), err, len(plain))
		}
	}
}

func TestFranzGoReadsWhatIsBuilt(t *testing.T) {
	want := someRecords(500, 300)
	for _, codec := range codecs {
		b := build(BuilderOptions{Codec: codec, BaseOffset: 70, HasProducer: true, ProducerID: 5, ProducerEpoch: 2, BaseSequence: 9}, want)
		p, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{Topic: "orders", Offset: 70},
			&kmsg.FetchResponseTopicPartition{RecordBatches: b, HighWatermark: 570}, kgo.DefaultDecompressor(), nil)
		if p.Err != nil || next != 570 || len(p.Records) != len(want) {
			t.Fatalf("%v: %d records to %d, error %v; want %d to 570", codec, len(p.Records), next, p.Err, len(want))
		}
		for i, got := range p.Records {
			w := want[i]
			if !sameBytes(got.Key, w.Key) || !sameBytes(got.Value, w.Value) || got.Timestamp.UnixMilli() != w.Timestamp || got.ProducerID != 5 || len(got.Headers) != len(w.Headers) {
				t.Fatalf("%v: record %d is %v, want %v", codec, i, got, w)
			}
		}
	}
}

func TestDecompressingStopsAtDamage(t *testing.T) {
	plain := text(100_000)
	flip := func(b []byte, i int) []byte { b = bytes.Clone(b); b[i] ^= 0x40; return b }
	frame := AppendCompressed(nil, plain, LZ4, 0)
	linked := flip(frame, 4)
	linked[4] = lz4Version
	linked[6] = byte(xxh32(linked[4:6]) >> 8)
	claims := binary.AppendUvarint(nil, 1<<31) // a snappy block that claims 2 GiB
	huge := append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x98}, make([]byte, 20)...)
	for _, c := range []struct {
		name  string
		codec Codec
		body  []byte
	}{
		{"empty gzip", Gzip, nil}, {"empty zstd", Zstd, nil}, {"empty lz4", LZ4, nil},
		{"a second gzip member cut short", Gzip, append(AppendCompressed(nil, plain, Gzip, 0), AppendCompressed(nil, plain, Gzip, 0)[:2000]...)},
		{"short gzip", Gzip, AppendCompressed(nil, plain, Gzip, 0)[:2000]},
		{"short snappy", Snappy, AppendCompressed(nil, plain, Snappy, 0)[:2000]},
		{"short lz4", LZ4, frame[:len(frame)-4]},
		{"short zstd", Zstd, AppendCompressed(nil, plain, Zstd, 0)[:2000]},
		{"lz4 header checksum", LZ4, flip(frame, 6)},
		{"lz4 of linked blocks", LZ4, linked},
		{"snappy that claims 2 GiB", Snappy, append(claims, make([]byte, 100)...)},
		{"zstd that claims a window of 1 GiB", Zstd, huge},
	} {
		var r Reader
		got, err := r.AppendDecompressed(nil, c.body, c.codec)
		var corrupt *CorruptError
		if !errors.As(err, &corrupt) || !errors.Is(err, errDecompress) || cap(got) > 1<<20 {
			t.Errorf("%s: %d bytes of capacity %d, error %v; want a CorruptError", c.name, len(got), cap(got), err)
		}
	}
	var r Reader
	if _, err := r.AppendDecompressed(nil, plain, 5); !errors.Is(err, ErrUnknownCodec) {
		t.Errorf("codec 5: error %v, want %v", err, ErrUnknownCodec)
	}
}

func TestDecompressedSizeIsBounded(t *testing.T) {
	zeros := make([]byte, 8<<20)
	for _, codec := range codecs[1:] {
		body := AppendCompressed(nil, zeros, codec, 0)
		r := Reader{MaxDecompressed: 1 << 20}
		got, err := r.AppendDecompressed(nil, body, codec)
		if !errors.Is(err, errTooMuch) || len(got) > 1<<20 {
			t.Errorf("%v: %d bytes of 8 MiB of zeros, error %v; want at most 1 MiB and an error", codec, len(got), err)
		}
	}
}

func TestXXH32(t *testing.T) {
	for _, c := range []struct {
		in   string
		want uint32
	}{{"", 0x02cc5d05}, {"a", 0x550d7456}, {"abc", 0x32d153ff}, {"Nobody inspects the spammish repetition", 0xe2293b2f}} {
		if got := xxh32([]byte(c.in)); got != c.want {
			t.Errorf("xxh32 of %q = %#08x, want %#08x", c.in, got, c.want)
		}
	}
}

func TestCodecNames(t *testing.T) {
	for _, c := range codecs {
		if got, err := ParseCodec(c.String()); got != c || err != nil {
			t.Errorf("parse %q = %v, %v; want %d", c.String(), got, err, c)
		}
	}
	if got, err := ParseCodec("uncompressed"); got != None || err != nil {
		t.Errorf("parse uncompressed = %v, %v; want none", got, err)
	}
	if _, err := ParseCodec("brotli"); !errors.Is(err, ErrUnknownCodec) {
		t.Errorf("parse brotli: error %v, want %v", err, ErrUnknownCodec)
	}
}
