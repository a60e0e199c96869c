package compat_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// batch describes a record batch to send. Zero is one CreateTime batch without a
// producer id; the fields that a broken client gets wrong can be set.
type batch struct {
	Records    []rec
	Codec      kgo.CompressionCodecType
	Attributes int16 // more bits
	Idempotent bool  // has the producer id, epoch and sequence that follow
	PID        int64
	Epoch      int16
	Sequence   int32

	Base        int64 // base offset in the header
	LeaderEpoch int32
	MaxTime     *int64 // the header's, when it lies
	Count       *int32 // the header's record count, when it lies
	LastDelta   *int32 // the header's last offset delta, when it lies
	Deltas      []int32
	Body        []byte // the records section as it is, in place of Records
}

// rec is one record; a nil key or value is null.
type rec struct {
	Key, Value []byte
	Time       int64 // milliseconds; 0 means now
	Headers    []kmsg.Header
}

// Attribute bits of a batch.
const (
	bitLogAppendTime = 0x08
	bitTransactional = 0x10
	bitControl       = 0x20
)

// one is a batch of one record for each value, without keys.
func one(values ...string) batch {
	var b batch
	for _, v := range values {
		b.Records = append(b.Records, rec{Value: []byte(v)})
	}
	return b
}

// keyed is a batch of one record with a key.
func keyed(key, value string) batch {
	return batch{Records: []rec{{Key: []byte(key), Value: []byte(value)}}}
}

// idempotent is b with a producer.
func (b batch) idempotent(pid int64, epoch int16, sequence int32) batch {
	b.Idempotent, b.PID, b.Epoch, b.Sequence = true, pid, epoch, sequence
	return b
}

// bytes encodes the batch with a right CRC.
func (b batch) bytes(t testing.TB) []byte {
	t.Helper()
	k := kmsg.NewRecordBatch()
	k.FirstOffset, k.PartitionLeaderEpoch, k.Magic = b.Base, b.LeaderEpoch, 2
	k.Attributes = b.Attributes | int16(b.Codec)
	k.ProducerID, k.ProducerEpoch, k.FirstSequence = -1, -1, -1
	if b.Idempotent {
		k.ProducerID, k.ProducerEpoch, k.FirstSequence = b.PID, b.Epoch, b.Sequence
	}
	k.NumRecords = int32(len(b.Records))
	k.LastOffsetDelta = k.NumRecords - 1
	body, first, last := b.encodeRecords()
	k.FirstTimestamp, k.MaxTimestamp = first, last
	if b.MaxTime != nil {
		k.MaxTimestamp = *b.MaxTime
	}
	if b.Count != nil {
		k.NumRecords = *b.Count
	}
	if b.LastDelta != nil {
		k.LastOffsetDelta = *b.LastDelta
	}
	if b.Body != nil {
		body = b.Body
	} else if b.Codec != kgo.CodecNone {
		body = compress(t, b.Codec, body)
	}
	k.Records = body
	k.Length = int32(49 + len(body))
	return sealed(k.AppendTo(nil))
}

// encodeRecords returns the records section, uncompressed, and the first and the
// greatest timestamp.
func (b batch) encodeRecords() (body []byte, first, last int64) {
	now := time.Now().UnixMilli()
	for i, r := range b.Records {
		ms := r.Time
		if ms == 0 {
			ms = now
		}
		if i == 0 {
			first, last = ms, ms
		}
		last = max(last, ms)
		k := kmsg.NewRecord()
		k.TimestampDelta64 = ms - first
		k.OffsetDelta = int32(i)
		if b.Deltas != nil {
			k.OffsetDelta = b.Deltas[i]
		}
		k.Key, k.Value, k.Headers = r.Key, r.Value, r.Headers
		encoded := k.AppendTo(nil) // with a length of 0, one byte, in front
		k.Length = int32(len(encoded) - 1)
		body = k.AppendTo(body)
	}
	return body, first, last
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed sets the CRC of an encoded batch.
func sealed(raw []byte) []byte {
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], castagnoli))
	return raw
}

// compress compresses with one codec, as franz-go does.
func compress(t testing.TB, codec kgo.CompressionCodecType, body []byte) []byte {
	t.Helper()
	var c kgo.CompressionCodec
	switch codec {
	case kgo.CodecGzip:
		c = kgo.GzipCompression()
	case kgo.CodecSnappy:
		c = kgo.SnappyCompression()
	case kgo.CodecLz4:
		c = kgo.Lz4Compression()
	case kgo.CodecZstd:
		c = kgo.ZstdCompression()
	default:
		t.Fatalf("codec %d", codec)
	}
	k, err := kgo.DefaultCompressor(c)
	if err != nil {
		t.Fatal(err)
	}
	out, used := k.Compress(new(bytes.Buffer), body)
	if used != codec {
		t.Fatalf("compressed with codec %d, want %d", used, codec)
	}
	return bytes.Clone(out)
}

// xerial frames a raw snappy block as Java clients do.
func xerial(block []byte) []byte {
	b := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	b = binary.BigEndian.AppendUint32(b, uint32(len(block)))
	return append(b, block...)
}

// stored is a batch as it was fetched.
type stored struct {
	kmsg.RecordBatch
	Raw     []byte // the whole batch
	Records []storedRecord
}

// storedRecord is a record of a stored batch with its offset and time worked out.
type storedRecord struct {
	kmsg.Record
	Offset int64
	Time   int64
}

// batches splits fetched bytes into batches, checks each CRC and decodes the
// records. A cut batch at the end fails the test.
func batches(t testing.TB, raw []byte) []stored {
	t.Helper()
	var all []stored
	for len(raw) > 0 {
		if len(raw) < 61 {
			t.Fatalf("%d bytes of a batch at the end of the records", len(raw))
		}
		size := 12 + int(int32(binary.BigEndian.Uint32(raw[8:])))
		if size < 61 || size > len(raw) {
			t.Fatalf("a batch of %d bytes with %d left", size, len(raw))
		}
		s := stored{Raw: raw[:size]}
		if err := s.RecordBatch.ReadFrom(s.Raw); err != nil {
			t.Fatalf("decode a batch of %d bytes: %v", size, err)
		}
		if got := crc32.Checksum(s.Raw[21:], castagnoli); got != uint32(s.CRC) {
			t.Fatalf("batch at offset %d: CRC is %#x, the header says %#x", s.FirstOffset, got, uint32(s.CRC))
		}
		s.Records = decodeRecords(t, &s.RecordBatch)
		all = append(all, s)
		raw = raw[size:]
	}
	return all
}

func decodeRecords(t testing.TB, b *kmsg.RecordBatch) []storedRecord {
	t.Helper()
	body, err := kgo.DefaultDecompressor().Decompress(b.Records, kgo.CompressionCodecType(b.Attributes&7))
	if err != nil {
		t.Fatalf("batch at offset %d: decompress: %v", b.FirstOffset, err)
	}
	var records []storedRecord
	for range b.NumRecords {
		length, n := binary.Varint(body)
		if n <= 0 || int(length) > len(body)-n {
			t.Fatalf("batch at offset %d: record length %d with %d bytes left", b.FirstOffset, length, len(body))
		}
		var r storedRecord
		if err := r.Record.ReadFrom(body[:n+int(length)]); err != nil {
			t.Fatalf("batch at offset %d: decode a record: %v", b.FirstOffset, err)
		}
		r.Offset = b.FirstOffset + int64(r.OffsetDelta)
		r.Time = b.FirstTimestamp + r.TimestampDelta64
		if b.Attributes&bitLogAppendTime != 0 {
			r.Time = b.MaxTimestamp
		}
		records = append(records, r)
		body = body[n+int(length):]
	}
	if len(body) > 0 {
		t.Fatalf("batch at offset %d: %d bytes after the last record", b.FirstOffset, len(body))
	}
	return records
}

func ptr[T any](v T) *T { return &v }
