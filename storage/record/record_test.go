package record

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"testing"
)

const demoNow int64 = 1700000000000

// demoBatch is the batch that `gateway demo record` walks through.
func demoBatch() Batch {
	b := NewBuilder(BuilderOptions{LeaderEpoch: NoLeaderEpoch})
	b.Append(Record{Timestamp: demoNow, Key: []byte("ORD-1042"),
		Value: []byte(`{"event":"OrderPlaced","order_id":"ORD-1042","total":129900}`)})
	return b.Bytes()
}

// collect reads all records of b, copied.
func collect(t testing.TB, b Batch) []Record {
	t.Helper()
	var r Reader
	out, err := readAll(&r, b)
	if err != nil {
		t.Fatalf("records of %s batch: %v", b.Codec(), err)
	}
	return out
}

func readAll(r *Reader, b Batch) ([]Record, error) {
	var out []Record
	for rec, err := range r.Records(b) {
		if err != nil {
			return out, err
		}
		out = append(out, cloneRecord(rec))
	}
	return out, nil
}

func cloneRecord(r Record) Record {
	r.Key, r.Value = bytes.Clone(r.Key), bytes.Clone(r.Value)
	var headers []Header
	for _, h := range r.Headers {
		headers = append(headers, Header{bytes.Clone(h.Key), bytes.Clone(h.Value)})
	}
	r.Headers = headers
	return r
}

func TestDemoBatchHasItsBytes(t *testing.T) {
	b := demoBatch()
	if got, want := len(b), 137; got != want {
		t.Errorf("size = %d, want %d", got, want)
	}
	for _, f := range []struct {
		name      string
		got, want int64
	}{
		{"base offset", b.BaseOffset(), 0}, {"size", int64(b.Size()), 137}, {"leader epoch", int64(b.LeaderEpoch()), -1},
		{"magic", int64(b.Magic()), 2}, {"crc", int64(b.CRC()), 0x98867f12}, {"attributes", int64(b.Attributes()), 0},
		{"last offset delta", int64(b.LastOffsetDelta()), 0}, {"base timestamp", b.BaseTimestamp(), demoNow},
		{"max timestamp", b.MaxTimestamp(), demoNow}, {"producer id", b.ProducerID(), -1},
		{"producer epoch", int64(b.ProducerEpoch()), -1}, {"base sequence", int64(b.BaseSequence()), -1},
		{"last sequence", int64(b.LastSequence()), -1}, {"count", int64(b.Count()), 1},
	} {
		if f.got != f.want {
			t.Errorf("%s = %d, want %d", f.name, f.got, f.want)
		}
	}
	if got, want := hex.EncodeToString(b.Body()[:6]), "940100000010"; got != want {
		t.Errorf("record begins % s, want %s", got, want)
	}
}

func TestStampingOffsetAndEpochKeepsTheCRC(t *testing.T) {
	b := demoBatch()
	b.SetBaseOffset(41)
	b.SetLeaderEpoch(0)
	if b.BaseOffset() != 41 || b.LastOffset() != 41 || b.NextOffset() != 42 || b.LeaderEpoch() != 0 {
		t.Errorf("offsets %d to %d, next %d, epoch %d; want 41, 41, 42, 0", b.BaseOffset(), b.LastOffset(), b.NextOffset(), b.LeaderEpoch())
	}
	if b.CRC() != 0x98867f12 {
		t.Errorf("crc = %#x, want 0x98867f12", b.CRC())
	}
	if _, rest, err := Cut(b); err != nil || len(rest) != 0 {
		t.Errorf("cut: %d bytes left, error %v; want none", len(rest), err)
	}
}

func TestTombstoneIsNotAnEmptyValue(t *testing.T) {
	build := func(value []byte) Batch {
		b := NewBuilder(BuilderOptions{LeaderEpoch: NoLeaderEpoch})
		b.Append(Record{Timestamp: demoNow, Key: []byte("ORD-1042"), Value: value})
		return b.Bytes()
	}
	null, empty := build(nil), build([]byte{})
	if len(null) != 76 || len(empty) != 76 {
		t.Errorf("sizes %d and %d, want 76", len(null), len(empty))
	}
	if v := collect(t, null)[0].Value; v != nil {
		t.Errorf("value of the tombstone = %q, want nil", v)
	}
	var r Reader
	for rec, err := range r.Records(empty) {
		if err != nil || rec.Value == nil || len(rec.Value) != 0 {
			t.Errorf("empty value = %v, error %v; want zero bytes, not nil", rec.Value, err)
		}
	}
}

func TestCRC32CIsCastagnoli(t *testing.T) {
	if got := CRC32C([]byte("123456789")); got != 0xe3069283 {
		t.Errorf("crc = %#x, want 0xe3069283", got)
	}
}

func TestVarintsHaveKafkasBytes(t *testing.T) {
	for _, c := range []struct {
		v    int64
		want string
	}{
		{0, "00"}, {-1, "01"}, {1, "02"}, {-2, "03"}, {63, "7e"}, {64, "8001"}, {-64, "7f"}, {-65, "8101"},
		{129900, "d8ed0f"}, {1<<31 - 1, "feffffff0f"}, {-1 << 31, "ffffffff0f"},
		{1<<63 - 1, "feffffffffffffffff01"}, {-1 << 63, "ffffffffffffffffff01"},
	} {
		b := AppendVarint(nil, c.v)
		if got := hex.EncodeToString(b); got != c.want {
			t.Errorf("varint of %d = %s, want %s", c.v, got, c.want)
		}
		if VarintLen(c.v) != len(b) {
			t.Errorf("length of %d = %d, want %d", c.v, VarintLen(c.v), len(b))
		}
		if v, n := Varint(b); v != c.v || n != len(b) {
			t.Errorf("decode %s = %d, %d; want %d, %d", c.want, v, n, c.v, len(b))
		}
		if v, n := Varint32(b); int64(int32(c.v)) == c.v && (int64(v) != c.v || n != len(b)) {
			t.Errorf("decode 32 bits of %s = %d, %d; want %d, %d", c.want, v, n, c.v, len(b))
		}
		for i := range b {
			if _, n := Varint(b[:i]); n != 0 {
				t.Errorf("decode %x of %s took %d, want 0", b[:i], c.want, n)
			}
		}
	}
	if _, n := Varint32(bytes.Repeat([]byte{0x80}, 6)); n >= 0 {
		t.Errorf("32-bit varint of 6 bytes took %d, want a negative number", n)
	}
	if _, n := Varint(bytes.Repeat([]byte{0x80}, 11)); n >= 0 {
		t.Errorf("64-bit varint of 11 bytes took %d, want a negative number", n)
	}
}

func TestCutTakesOneBatchAfterAnother(t *testing.T) {
	one := bytes.Clone(demoBatch())
	b := append(bytes.Clone(one), one...)
	b = append(b, one[:100]...)
	for i := range 2 {
		first, rest, err := Cut(b)
		if err != nil || !bytes.Equal(first, one) {
			t.Fatalf("cut %d: %d bytes, error %v; want the batch", i, len(first), err)
		}
		b = rest
	}
	if _, rest, err := Cut(b); !errors.Is(err, ErrShort) || len(rest) != 100 {
		t.Errorf("cut of 100 bytes: %v with %d left, want %v with 100", err, len(rest), ErrShort)
	}
}

func TestCutSaysWhatIsWrong(t *testing.T) {
	one := demoBatch()
	change := func(pos int, with ...byte) []byte {
		b := bytes.Clone(one)
		copy(b[pos:], with)
		return b
	}
	var corrupt *CorruptError
	for _, c := range []struct {
		name string
		b    []byte
		is   func(error) bool
	}{
		{"empty", nil, func(err error) bool { return errors.Is(err, ErrShort) }},
		{"16 bytes", one[:16], func(err error) bool { return errors.Is(err, ErrShort) }},
		{"one byte short", one[:136], func(err error) bool { return errors.Is(err, ErrShort) }},
		{"magic 1", change(MagicPos, 1), func(err error) bool { return errors.Is(err, ErrMagic) }},
		{"magic 3", change(MagicPos, 3), func(err error) bool { return errors.Is(err, ErrMagic) }},
		{"length 48", change(LengthPos, 0, 0, 0, 48), func(err error) bool { return errors.As(err, &corrupt) }},
		{"length -1", change(LengthPos, 255, 255, 255, 255), func(err error) bool { return errors.As(err, &corrupt) }},
		{"length 2147483647", change(LengthPos, 127, 255, 255, 255), func(err error) bool { return errors.As(err, &corrupt) }},
		{"crc", change(CRCPos, 0), func(err error) bool { return errors.As(err, &corrupt) }},
		{"last byte", change(136, 7), func(err error) bool { return errors.As(err, &corrupt) }},
	} {
		if _, _, err := Cut(c.b); err == nil || !c.is(err) {
			t.Errorf("%s: error %v", c.name, err)
		}
	}
}

var codecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

// someRecords are n records of all shapes: null and empty fields, headers, sizes up to the given.
func someRecords(n, size int) []Record {
	var out []Record
	for i := range n {
		r := Record{Timestamp: demoNow + int64(i%7), Key: fmt.Appendf(nil, "key-%d", i), Value: bytes.Repeat([]byte{byte('a' + i%26)}, size*i/n)}
		switch i % 5 {
		case 1:
			r.Key = nil
		case 2:
			r.Value = nil
		case 3:
			r.Headers = []Header{{Key: []byte("trace"), Value: []byte("abc")}, {Key: []byte(""), Value: nil}}
		}
		out = append(out, r)
	}
	return out
}

func build(o BuilderOptions, records []Record) Batch {
	b := NewBuilder(o)
	for _, r := range records {
		b.Append(r)
	}
	return b.Bytes()
}

func TestEveryCodecReadsWhatItWrote(t *testing.T) {
	var r Reader
	for _, shape := range []struct{ n, size int }{{1, 0}, {3, 100}, {1000, 200}, {20, 300_000}} {
		want := someRecords(shape.n, shape.size)
		for _, codec := range codecs {
			b := build(BuilderOptions{Codec: codec, BaseOffset: 1000}, want)
			if _, _, err := Cut(b); err != nil {
				t.Fatalf("%v, %d records: cut: %v", codec, shape.n, err)
			}
			got, err := readAll(&r, b)
			if err != nil {
				t.Fatalf("%v, %d records to %d bytes: %v", codec, shape.n, shape.size, err)
			}
			if diff := compareRecords(got, want, 1000); diff != "" {
				t.Errorf("%v, %d records to %d bytes: %s", codec, shape.n, shape.size, diff)
			}
		}
	}
}

// compareRecords says the first difference between records read from a batch and what was appended to it.
func compareRecords(got, want []Record, baseOffset int64) string {
	if len(got) != len(want) {
		return fmt.Sprintf("%d records, want %d", len(got), len(want))
	}
	for i, g := range got {
		w := want[i]
		if g.Timestamp != w.Timestamp || g.Offset != baseOffset+int64(i) {
			return fmt.Sprintf("record %d: offset %d, timestamp %d; want %d, %d", i, g.Offset, g.Timestamp, baseOffset+int64(i), w.Timestamp)
		}
		if !sameBytes(g.Key, w.Key) || !sameBytes(g.Value, w.Value) {
			return fmt.Sprintf("record %d: key %q and %d bytes, want %q and %d bytes", i, g.Key, len(g.Value), w.Key, len(w.Value))
		}
		if len(g.Headers) != len(w.Headers) {
			return fmt.Sprintf("record %d: %d headers, want %d", i, len(g.Headers), len(w.Headers))
		}
		for j, h := range g.Headers {
			if !sameBytes(h.Key, w.Headers[j].Key) || !sameBytes(h.Value, w.Headers[j].Value) {
				return fmt.Sprintf("record %d: header %d is %q=%q, want %q=%q", i, j, h.Key, h.Value, w.Headers[j].Key, w.Headers[j].Value)
			}
		}
	}
	return ""
}

// sameBytes tells null from empty.
func sameBytes(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
