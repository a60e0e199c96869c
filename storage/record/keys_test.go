package record

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
)

// keysOf returns copies of what Keys yields, and the error.
func keysOf(r *Reader, b Batch) (keys []Keyed, err error) {
	for k, err := range r.Keys(b) {
		if err != nil {
			return keys, err
		}
		k.Key = bytes.Clone(k.Key)
		keys = append(keys, k)
	}
	return keys, nil
}

// withoutValues are records as Keys yields them.
func withoutValues(records []Record) (keys []Keyed) {
	for i := range records {
		r := &records[i]
		keys = append(keys, Keyed{
			Offset: r.Offset, Timestamp: r.Timestamp, Key: r.Key, NoValue: r.Value == nil, Size: r.bodySize(r.TimestampDelta, r.OffsetDelta),
		})
	}
	return keys
}

// TestKeysAreThoseOfTheRecords has records on both sides of the window, in every codec.
func TestKeysAreThoseOfTheRecords(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	noise := make([]byte, 3*windowSize)
	for i := range noise {
		noise[i] = byte(random.Uint32())
	}
	for _, codec := range codecs {
		records := []Record{
			{Key: []byte("a"), Value: []byte("small"), Timestamp: 5},
			{Key: []byte("b"), Value: noise[:windowSize-40], Timestamp: 6},
			{Key: []byte("c"), Value: noise, Timestamp: 7, Headers: []Header{{Key: []byte("h"), Value: noise[:100]}, {Key: []byte("null")}}},
			{Value: noise, Timestamp: 8},
			{Key: []byte{}, Headers: []Header{{Key: []byte("h"), Value: noise}}, Timestamp: 9},
			{Key: noise, Timestamp: 10},
			{Key: noise[:windowSize+1], Value: []byte{}, Timestamp: 11},
			{Key: []byte("last"), Value: []byte("small"), Timestamp: 4},
		}
		for _, appendTime := range []bool{false, true} {
			b := build(BuilderOptions{Codec: codec, BaseOffset: 100, LogAppendTime: appendTime, AppendTimeMs: 77}, records)
			var r Reader
			whole, err := readAll(&r, b)
			if err != nil {
				t.Fatal(err)
			}
			got, err := keysOf(&r, b)
			if err != nil || !reflect.DeepEqual(got, withoutValues(whole)) {
				t.Errorf("codec %v: keys of %d records differ from those of %d, error %v", codec, len(got), len(whole), err)
			}
			i := 0
			for k, err := range r.Times(b) {
				want := withoutValues(whole)[i]
				if want.Key = nil; err != nil || !reflect.DeepEqual(k, want) {
					t.Errorf("codec %v: times have %+v, error %v, want %+v", codec, k, err, want)
				}
				i++
			}
			for _, cut := range []int{1, len(b.Body()) / 2, len(b.Body()) - 1} {
				short := bytes.Clone(b[:len(b)-cut])
				if got, err := keysOf(&r, short); err == nil {
					t.Errorf("codec %v: %d bytes too few, and %d keys without an error", codec, cut, len(got))
				}
			}
		}
	}
}

// TestKeysOfARecordThatDecompressesToMuch takes little memory.
func TestKeysOfARecordThatDecompressesToMuch(t *testing.T) {
	for _, codec := range codecs {
		if codec == None {
			continue
		}
		b := build(BuilderOptions{Codec: codec}, []Record{{Key: []byte("k"), Value: make([]byte, 100<<20)}})
		var r Reader
		_, _ = keysOf(&r, b) // makes the decompressor
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got, err := keysOf(&r, b)
		runtime.ReadMemStats(&after)
		if err != nil || len(got) != 1 || string(got[0].Key) != "k" || got[0].Size < 100<<20 {
			t.Errorf("codec %v: got %+v, error %v", codec, got, err)
		}
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("codec %v: %d bytes were allocated for a batch of %d, want at most %d", codec, n, len(b), 16<<20)
		}
	}
}

func TestKeyThatDecompressesToMuchIsRefused(t *testing.T) {
	var r Reader
	for size, want := range map[int]error{MaxKey: nil, MaxKey + 1: ErrTooLarge} {
		b := build(BuilderOptions{Codec: Zstd}, []Record{{Key: make([]byte, size), Timestamp: 7}})
		if _, err := keysOf(&r, b); !errors.Is(err, want) {
			t.Errorf("a key of %d bytes: error %v, want %v", size, err, want)
		}
		n := 0
		for k, err := range r.Times(b) {
			if n++; err != nil || k.Timestamp != 7 || k.Key != nil {
				t.Errorf("a key of %d bytes: time %d, error %v", size, k.Timestamp, err)
			}
		}
		if n != 1 {
			t.Errorf("a key of %d bytes: %d times, want 1", size, n)
		}
	}
}
