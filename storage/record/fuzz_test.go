package record

import (
	"bytes"
	"errors"
	"io"
	"math"
	"reflect"
	"testing"

	"github.com/pierrec/lz4/v4"
)

// FuzzCut: what Cut takes is exactly one batch, is followed by the rest, and cuts the same again.
func FuzzCut(f *testing.F) {
	one := []byte(demoBatch())
	f.Add(one)
	f.Add(append(bytes.Clone(one), one[:70]...))
	f.Add(AppendEmpty(nil, demoBatch()))
	f.Add([]byte(EndTxnMarker(1, 0, Marker{Commit: true}, 5, 0)))
	f.Fuzz(func(t *testing.T, b []byte) {
		first, rest, err := Cut(b)
		if err != nil {
			var corrupt *CorruptError
			if !errors.Is(err, ErrShort) && !errors.Is(err, ErrMagic) && !errors.As(err, &corrupt) {
				t.Fatalf("cut of %x: error %v of no known kind", b, err)
			}
			if len(rest) != len(b) {
				t.Fatalf("cut of %x: %d bytes left after error %v, want all", b, len(rest), err)
			}
			return
		}
		if first.Size() != len(first) || len(first)+len(rest) != len(b) || first.Magic() != Magic {
			t.Fatalf("cut of %x: size %d, %d bytes and %d left", b, first.Size(), len(first), len(rest))
		}
		again, none, err := Cut(first)
		if err != nil || len(none) != 0 || !bytes.Equal(again, first) {
			t.Fatalf("cut again of %x: %d bytes, %d left, error %v", first, len(again), len(none), err)
		}
	})
}

// FuzzRecords: any body in any codec is either refused or read; what is read is the same after being built anew; Keys
// reads the same; and the validator agrees with the iterator on what is well formed.
func FuzzRecords(f *testing.F) {
	for _, codec := range codecs {
		for _, n := range []int{1, 3, 20} {
			b := build(BuilderOptions{Codec: codec}, someRecords(n, 60))
			f.Add(byte(codec), int32(n), []byte(b.Body()))
		}
		b := build(BuilderOptions{Codec: codec}, []Record{{Value: make([]byte, windowSize+100), Headers: []Header{{Key: []byte("k")}}}})
		f.Add(byte(codec), int32(1), []byte(b.Body()))
	}
	f.Fuzz(func(t *testing.T, codec byte, count int32, body []byte) {
		b := Batch(append(make([]byte, HeaderSize), body...))
		putHeader(b, header{attributes: uint16(codec & codecMask), lastOffsetDelta: math.MaxInt32, count: count})

		r := Reader{MaxDecompressed: 1 << 20}
		records, readErr := readAll(&r, b)
		if len(records) > int(max(count, 0)) {
			t.Fatalf("%d records, want at most %d", len(records), count)
		}

		keys, keysErr := keysOf(&r, b)
		if want := withoutValues(records); (keysErr == nil) != (readErr == nil) || !reflect.DeepEqual(keys, want) {
			t.Fatalf("keys: got %+v, error %v; want %+v, error %v", keys, keysErr, want, readErr)
		}

		stored := 0
		var storedErr error
		for rec, err := range r.Stored(b) {
			if storedErr = err; err == nil && rec.Offset != records[stored].Offset {
				t.Fatalf("stored: record %d has offset %d, want %d", stored, rec.Offset, records[stored].Offset)
			}
			if err == nil {
				stored++
			}
		}
		if stored != len(records) || (storedErr == nil) != (readErr == nil) {
			t.Fatalf("stored: %d records, error %v; want %d, error %v", stored, storedErr, len(records), readErr)
		}

		v := Validator{reader: Reader{MaxDecompressed: 1 << 20}}
		c := checker{maxTimestamp: NoTimestamp, after: math.MaxInt64, before: math.MaxInt64}
		scanErr := v.scan(b, &c, 1<<30)
		if (readErr == nil) != (scanErr == nil) {
			t.Fatalf("iterator says %v, validator says %v", readErr, scanErr)
		}
		if readErr != nil || len(records) == 0 {
			return
		}
		again := NewBuilder(BuilderOptions{Codec: Codec(codec&codecMask+1) % 5})
		for _, rec := range records {
			again.Append(rec)
		}
		got, err := readAll(new(Reader), again.Bytes())
		if err != nil {
			t.Fatalf("built anew: %v", err)
		}
		if diff := compareRecords(got, records, 0); diff != "" {
			t.Fatalf("built anew: %s", diff)
		}
	})
}

// FuzzRecord: the quick scan of a record and the parser agree.
func FuzzRecord(f *testing.F) {
	for _, r := range someRecords(10, 40) {
		b := appendRecord(nil, &r, r.Timestamp, 1)
		_, n := Varint32(b)
		f.Add(b[n:])
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var r Record
		err := r.parse(body)
		got, ok := scanRecord(body)
		if ok != (err == nil) {
			t.Fatalf("scan of %x: %v, parse: %v", body, ok, err)
		}
		if want := (scanned{r.TimestampDelta, r.OffsetDelta, r.Key != nil}); ok && got != want {
			t.Fatalf("scan of %x: %+v, parse: %+v", body, got, want)
		}
	})
}

// FuzzBuild: records made of any bytes come back from every codec.
func FuzzBuild(f *testing.F) {
	f.Add(byte(1), uint16(3), int64(demoNow), []byte("key value header"))
	f.Add(byte(4), uint16(300), int64(-1), []byte{})
	f.Fuzz(func(t *testing.T, codec byte, n uint16, timestamp int64, data []byte) {
		var want []Record
		for i := range int(n % 500) {
			at := len(data) * (i % 8) / 8
			r := Record{Timestamp: timestamp + int64(i), Key: data[at:], Value: data[:at]}
			switch i % 4 {
			case 1:
				r.Key, r.Headers = nil, []Header{{Key: data[at:], Value: data}}
			case 2:
				r.Value, r.Headers = nil, []Header{{Key: data, Value: nil}, {Key: nil, Value: data[at:]}}
			}
			want = append(want, r)
		}
		if len(want) == 0 {
			return
		}
		b := build(BuilderOptions{Codec: Codec(codec % 5)}, want)
		if _, rest, err := Cut(b); err != nil || len(rest) != 0 {
			t.Fatalf("cut: %d bytes left, error %v", len(rest), err)
		}
		got, err := readAll(new(Reader), b)
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			want[i] = cloneRecord(want[i])
			for j := range want[i].Headers {
				if want[i].Headers[j].Key == nil {
					want[i].Headers[j].Key = []byte{} // a header's key is never null
				}
			}
		}
		for i := range got { // a clone of no bytes is not null
			if got[i].Key == nil && want[i].Key != nil && len(want[i].Key) == 0 {
				t.Fatalf("record %d: key is null, want empty", i)
			}
		}
		if diff := compareRecords(got, want, 0); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzValidate: a batch that passes is whole, passes again unchanged, and has dense offsets and a true maximum.
func FuzzValidate(f *testing.F) {
	for _, codec := range codecs {
		f.Add([]byte(build(BuilderOptions{Codec: codec}, someRecords(5, 30))), byte(codec+1), true)
	}
	f.Add([]byte(demoBatch()), byte(0), false)
	claim := build(BuilderOptions{}, someRecords(5, 30))
	claim.SetMaxTimestamp(claim.BaseTimestamp(), true)
	f.Add([]byte(claim), byte(0), false)
	f.Fuzz(func(t *testing.T, b []byte, target byte, appendTime bool) {
		size, err := PeekSize(b)
		if err != nil || size > len(b) {
			return
		}
		batch := Batch(bytes.Clone(b[:size])) // Validate changes it
		batch.setCRC()
		// A client that claims LogAppendTime has the claim taken off, as by Kafka; its records then have their own times.
		claims := batch.LogAppendTime()
		rules := Rules{NowMs: demoNow, LogAppendTime: appendTime, BeforeMaxMs: math.MaxInt64, AfterMaxMs: 1 << 50, FromClient: true,
			Target: Codec(target % 5), TargetProducer: target > 100, MaxBytes: 1 << 20}
		v := Validator{reader: Reader{MaxDecompressed: 1 << 20}}
		got, err := v.Validate(batch, rules)
		if err != nil {
			return
		}
		stored, rest, err := Cut(bytes.Clone(got.Batch))
		if err != nil || len(rest) != 0 {
			t.Fatalf("cut of what passed: %d bytes left, error %v", len(rest), err)
		}
		records, err := readAll(&Reader{MaxDecompressed: 1 << 20}, stored)
		if err != nil || len(records) != int(stored.LastOffsetDelta())+1 {
			t.Fatalf("%d records, last offset delta %d, error %v", len(records), stored.LastOffsetDelta(), err)
		}
		maximum := NoTimestamp
		for i, r := range records {
			if r.OffsetDelta != int32(i) {
				t.Fatalf("record %d has offset delta %d", i, r.OffsetDelta)
			}
			maximum = max(maximum, r.Timestamp)
		}
		if !claims && !batch.LogAppendTime() && stored.MaxTimestamp() != maximum && !got.Rebuilt {
			t.Fatalf("max timestamp %d, records have %d", stored.MaxTimestamp(), maximum)
		}
		if claims || stored.LogAppendTime() {
			return // only a broker may say so: it does not pass a second time
		}
		before := bytes.Clone(stored)
		again, err := v.Validate(stored, rules)
		if err != nil || again.Rebuilt || !bytes.Equal(again.Batch, before) && records[0].Timestamp >= NoTimestamp {
			t.Fatalf("again: rebuilt %v, error %v; want the same bytes", again.Rebuilt, err)
		}
	})
}

// FuzzVarint: what decodes is at most as long when it is encoded anew, and both widths agree.
func FuzzVarint(f *testing.F) {
	f.Add([]byte{0})
	f.Add([]byte{0xd8, 0xed, 0x0f})
	f.Add(bytes.Repeat([]byte{0xff}, 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		v, n := Varint(b)
		v32, n32 := Varint32(b)
		if n > 0 {
			again, m := Varint(AppendVarint(nil, v))
			if again != v || m > n || n > len(b) {
				t.Fatalf("varint %x = %d in %d bytes, again %d in %d", b, v, n, again, m)
			}
		}
		if n32 > 0 && (n32 != n || n32 < maxVarintLen32 && int64(v32) != v) {
			t.Fatalf("varint %x = %d in %d bytes, as 32 bits %d in %d", b, v, n, v32, n32)
		}
		at, next := varint32At(b, 0)
		slow, slowNext := varint32Slow(b, 0)
		if n32 > 0 && (at != v32 || next != n32) || n32 <= 0 && next != -1 || slow != at || slowNext != next {
			t.Fatalf("varint32 %x = %d in %d bytes, at a position %d to %d, slowly %d to %d", b, v32, n32, at, next, slow, slowNext)
		}
	})
}

// FuzzLZ4: a frame that this package reads and the lz4 package reads too gives the same bytes.
func FuzzLZ4(f *testing.F) {
	f.Add(AppendCompressed(nil, text(1000), LZ4, 0))
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	w.Write(text(500))
	w.Close()
	f.Add(out.Bytes())
	f.Fuzz(func(t *testing.T, frame []byte) {
		r := Reader{MaxDecompressed: 1 << 20}
		got, err := r.AppendDecompressed(nil, frame, LZ4)
		if err != nil {
			return
		}
		want, err := io.ReadAll(io.LimitReader(lz4.NewReader(bytes.NewReader(frame)), 1<<20))
		if err == nil && !bytes.HasPrefix(want, got) {
			t.Fatalf("frame %x: %d bytes, want %d", frame, len(got), len(want))
		}
	})
}
