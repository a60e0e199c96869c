package record

import (
	"bytes"
	"encoding/hex"
	"math"
	"testing"
)

func TestMarkerHasKafkasBytes(t *testing.T) {
	for _, m := range []Marker{{true, 12}, {false, 0}} {
		b := EndTxnMarker(7, 3, m, demoNow, 4)
		if !b.Control() || !b.Transactional() || b.ProducerID() != 7 || b.ProducerEpoch() != 3 || b.BaseSequence() != -1 || b.LastSequence() != -1 || b.LeaderEpoch() != 4 || b.Count() != 1 || b.MaxTimestamp() != demoNow {
			t.Errorf("%+v: header %x", m, b[:HeaderSize])
		}
		rec := collect(t, b)[0]
		key, value := "00000001", "00000000000c"
		if !m.Commit {
			key, value = "00000000", "000000000000"
		}
		if hex.EncodeToString(rec.Key) != key || hex.EncodeToString(rec.Value) != value {
			t.Errorf("%+v: key %x, value %x; want %s, %s", m, rec.Key, rec.Value, key, value)
		}
		if got, ok, err := ParseEndTxnMarker(rec); got != m || !ok || err != nil {
			t.Errorf("parse %+v = %+v, %v, %v", m, got, ok, err)
		}
	}
}

func TestControlRecordsThatAreNoMarker(t *testing.T) {
	for _, c := range []struct {
		name       string
		key, value []byte
		bad        bool
	}{
		{"leader change", []byte{0, 0, 0, 2}, nil, false},
		{"short key", []byte{0, 0, 0}, nil, true},
		{"null key", nil, nil, true},
		{"negative version", []byte{255, 255, 0, 1}, make([]byte, 6), true},
		{"short value", []byte{0, 0, 0, 1}, make([]byte, 5), true},
		{"negative value version", []byte{0, 0, 0, 1}, []byte{255, 255, 0, 0, 0, 0}, true},
	} {
		if _, ok, err := ParseEndTxnMarker(Record{Key: c.key, Value: c.value}); ok || (err != nil) != c.bad {
			t.Errorf("%s: ok %v, error %v; want false and error %v", c.name, ok, err, c.bad)
		}
	}
	if m, ok, err := ParseEndTxnMarker(Record{Key: []byte{0, 9, 0, 1, 5}, Value: []byte{0, 1, 0, 0, 0, 6, 9}}); m != (Marker{true, 6}) || !ok || err != nil {
		t.Errorf("marker of a newer version = %+v, %v, %v; want it read as version 0", m, ok, err)
	}
}

func TestEmptyBatchKeepsOffsetsAndSequences(t *testing.T) {
	src := build(BuilderOptions{Codec: Zstd, BaseOffset: 90, LeaderEpoch: 2, HasProducer: true, ProducerID: 8, ProducerEpoch: 1, BaseSequence: 40, Transactional: true, DeleteHorizonMs: 5}, someRecords(10, 10))
	b, rest, err := Cut(AppendEmpty(nil, src))
	if err != nil || len(rest) != 0 || len(b) != HeaderSize {
		t.Fatalf("cut: %d bytes, %d left, error %v", len(b), len(rest), err)
	}
	if b.BaseOffset() != 90 || b.LastOffset() != 99 || b.Count() != 0 || b.ProducerID() != 8 || b.ProducerEpoch() != 1 || b.BaseSequence() != 40 || b.LastSequence() != 49 ||
		b.BaseTimestamp() != -1 || b.MaxTimestamp() != demoNow+6 || b.Codec() != None || !b.Transactional() || b.HasDeleteHorizon() || b.LeaderEpoch() != 2 {
		t.Errorf("header %x", []byte(b))
	}
	if got := collect(t, b); len(got) != 0 {
		t.Errorf("%d records, want none", len(got))
	}
}

func TestCompactedBatchKeepsItsOffsets(t *testing.T) {
	for _, codec := range codecs {
		b := NewBuilder(BuilderOptions{Codec: codec, BaseOffset: 10, DeleteHorizonMs: demoNow + 1000})
		b.AppendAt(12, Record{Timestamp: demoNow, Key: []byte("a")})
		b.AppendAt(17, Record{Timestamp: demoNow - 9, Key: []byte("b")})
		b.SetLastOffset(19)
		batch := b.Bytes()
		if batch.BaseOffset() != 10 || batch.LastOffset() != 19 || batch.Count() != 2 || !batch.HasDeleteHorizon() || batch.BaseTimestamp() != demoNow+1000 || batch.MaxTimestamp() != demoNow {
			t.Errorf("%v: header %x", codec, batch[:HeaderSize])
		}
		got := collect(t, batch)
		if got[0].Offset != 12 || got[0].Timestamp != demoNow || got[1].Offset != 17 || got[1].Timestamp != demoNow-9 {
			t.Errorf("%v: records %+v", codec, got)
		}
	}
}

func TestSequencesContinueAtZero(t *testing.T) {
	for _, c := range []struct{ seq, n, want int32 }{
		{0, 0, 0}, {5, 3, 8}, {math.MaxInt32, 0, math.MaxInt32}, {math.MaxInt32, 1, 0}, {math.MaxInt32 - 1, 4, 2},
	} {
		if got := AddSequence(c.seq, c.n); got != c.want {
			t.Errorf("%d after %d = %d, want %d", c.n, c.seq, got, c.want)
		}
	}
}

func TestBuilderIsReusable(t *testing.T) {
	b := new(Builder)
	for _, codec := range []Codec{Zstd, None, LZ4, LZ4, Gzip, Snappy, Zstd} {
		b.Reset(BuilderOptions{Codec: codec})
		want := someRecords(40, 5000)
		for _, r := range want {
			b.Append(r)
		}
		if diff := compareRecords(collect(t, b.Bytes()), want, 0); diff != "" {
			t.Errorf("%v: %s", codec, diff)
		}
		if again := b.Bytes(); b.Count() != 40 || !bytes.Equal(again, b.Bytes()) {
			t.Errorf("%v: %d records and other bytes the second time, want 40 and the same", codec, b.Count())
		}
	}
}

func TestIterationMayStopEarly(t *testing.T) {
	var r Reader
	for _, codec := range codecs {
		b := build(BuilderOptions{Codec: codec}, someRecords(100, 5000))
		for range 2 {
			n := 0
			for _, err := range r.Records(b) {
				if n++; err != nil || n == 7 {
					break
				}
			}
			if n != 7 {
				t.Errorf("%v: stopped at record %d, want 7", codec, n)
			}
		}
		if got, err := readAll(&r, b); len(got) != 100 || err != nil {
			t.Errorf("%v: %d records after a stop, error %v; want 100", codec, len(got), err)
		}
	}
}
