package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestTimeIndexWritesKafkasBytes(t *testing.T) {
	x := newTimeIndex(1000, testIndexBytes)
	x.append(1700000000000, 1041, false)
	x.append(1700000000001, 1041, true)
	b, at := x.unwritten()
	if got, want := hex.EncodeToString(b), "0000018bcfe5680000000029"+"0000018bcfe5680100000029"; got != want || at != 0 {
		t.Errorf("unwritten() = %s at %d, want %s at 0", got, at, want)
	}
	entries, err := DecodeTimeIndex(b, 1000)
	if err != nil || len(entries) != 2 || entries[1] != (TimeEntry{1700000000001, 1041}) {
		t.Errorf("DecodeTimeIndex = %+v, %v", entries, err)
	}
}

func TestTimeIndexKeepsASlotForTheLastTimestamp(t *testing.T) {
	x := newTimeIndex(1000, 3*12+5)
	for _, c := range []struct {
		timestamp, offset int64
		final, want       bool
		why               string
	}{
		{noTimestamp, 1001, false, false, "no timestamp"},
		{5, 999, false, false, "below the base"},
		{5, 1000 + math.MaxInt32 + 1, false, false, "relative offset above 2147483647"},
		{5, 1003, false, true, ""},
		{5, 1004, false, false, "same timestamp"},
		{6, 1002, false, false, "offset goes back"},
		{6, 1003, false, true, "same offset"},
		{7, 1005, false, false, "only the slot of the final entry is left"},
		{7, 1005, true, true, ""},
		{8, 1006, true, false, "full"},
	} {
		if got := x.append(c.timestamp, c.offset, c.final); got != c.want {
			t.Errorf("append(%d, %d, %t) = %t, want %t: %s", c.timestamp, c.offset, c.final, got, c.want, c.why)
		}
	}
	if !x.full() || x.last != (TimeEntry{7, 1005}) {
		t.Errorf("full %t, last %+v", x.full(), x.last)
	}
}

func TestTimeIndexEqualsASlice(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	x := newTimeIndex(7_000_000_000, testIndexBytes)
	var file indexFile
	var entries []TimeEntry
	for step := range 2000 {
		switch n := rng.IntN(100); {
		case n < 80:
			for range rng.IntN(40) {
				e := TimeEntry{x.last.Timestamp + 1 + rng.Int64N(1+int64(1)<<(rng.IntN(20))), x.last.Offset + rng.Int64N(9)}
				if x.append(e.Timestamp, e.Offset, false) {
					entries = append(entries, e)
				}
			}
		case n < 94:
			file.save(&x.sparseIndex)
		case n < 96:
			x.forget()
		case n < 98 && len(entries) > 0:
			o := entries[rng.IntN(len(entries))].Offset + rng.Int64N(3) - 1
			if err := x.truncate(&file, o); err != nil {
				t.Fatalf("seed %d step %d: truncate(%d): %v", seed, step, o, err)
			}
			entries = slices.DeleteFunc(entries, func(e TimeEntry) bool { return e.Offset >= o })
			file.b = file.b[:x.storedSize()]
		case n < 99:
			file.save(&x.sparseIndex)
			o, err := openTimeIndex(&file, int64(len(file.b)), x.base, testIndexBytes, x.last.Offset+1)
			if err != nil {
				t.Fatalf("seed %d step %d: open: %v", seed, step, err)
			}
			x = o
		}
		if x.count() != len(entries) {
			t.Fatalf("seed %d step %d: count %d, want %d", seed, step, x.count(), len(entries))
		}
		for range 20 {
			target := rng.Int64N(x.last.Timestamp+20) - 10
			want := TimeEntry{noTimestamp, x.base}
			for _, e := range entries {
				if e.Timestamp <= target {
					want = e
				}
			}
			if got, err := x.lookup(&file, target); err != nil || got != want {
				t.Fatalf("seed %d step %d: lookup(%d) = %+v, %v, want %+v", seed, step, target, got, err, want)
			}
		}
	}
	file.save(&x.sparseIndex)
	if got, err := DecodeTimeIndex(file.b, x.base); err != nil || !slices.Equal(got, entries) {
		t.Errorf("seed %d: the file decodes to %d entries, %v, want %d", seed, len(got), err, len(entries))
	}
}

func TestOpenTimeIndexSaysWhatToRebuild(t *testing.T) {
	entry := func(timestamp uint64, rel uint32) string { return fmt.Sprintf("%016x%08x", timestamp, rel) }
	good := entry(1000, 10) + entry(2000, 20)
	for _, c := range []struct {
		name, hex string
		want      string // part of the error, "" for none
	}{
		{"good", good, ""},
		{"empty", "", ""},
		{"timestamp 0 of the first record", entry(0, 0), ""},
		{"same offset twice", entry(1000, 10) + entry(2000, 10), ""},
		{"odd length", good + "00", "25 bytes, not a multiple of 12"},
		{"preallocated", good + strings.Repeat("00", 1200), "last entry is zero"},
		{"only zeros", strings.Repeat("00", 120), "last entry is zero"},
		{"0xff", strings.Repeat("ff", 120), "first entry is timestamp -1 at offset 99"},
		{"0xff at the end", good + strings.Repeat("ff", 12), "last entry is timestamp -1 at offset 99"},
		{"beyond the segment", good + entry(3000, 100), "segment is offsets 100 to 200"},
		{"time goes back", entry(2000, 10) + entry(1000, 20), "do not ascend"},
		{"offset goes back", entry(1000, 20) + entry(2000, 10), "do not ascend"},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		x, err := openTimeIndex(bytes.NewReader(b), int64(len(b)), 100, testIndexBytes, 200)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "" && x.size() != int64(len(b)):
			t.Errorf("%s: size %d, want %d", c.name, x.size(), len(b))
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) || !isIndexDamage(err)):
			t.Errorf("%s: error %v, want a DecodeError with %q", c.name, err, c.want)
		}
	}
}

func TestDecodeTimeIndexTellsPaddingFromDamage(t *testing.T) {
	good := []byte{0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 0, 9}
	for _, c := range []struct {
		name    string
		b       []byte
		entries int
		padding bool
	}{
		{"preallocated", append(slices.Clip(good), make([]byte, 24)...), 1, true},
		{"never written", make([]byte, 24), 0, true},
		{"odd padding", append(slices.Clip(good), make([]byte, 7)...), 1, true},
		{"damage", append(slices.Clip(good), good...), 1, false},
		{"0xff", append(slices.Clip(good), bytes.Repeat([]byte{0xff}, 12)...), 1, false},
	} {
		entries, err := DecodeTimeIndex(c.b, 0)
		var d *DecodeError
		if !errors.As(err, &d) || d.Position != int64(12*c.entries) || d.Padding != c.padding || len(entries) != c.entries {
			t.Errorf("%s: %d entries, error %+v, want %d entries, padding %t", c.name, len(entries), d, c.entries, c.padding)
		}
	}
}

func FuzzTimeIndex(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0, 0, 3, 232, 0, 0, 0, 9}, int64(5), int64(12))
	f.Add(make([]byte, 84), int64(0), int64(0))
	f.Add(bytes.Repeat([]byte{0xff}, 37), int64(100), int64(99))
	f.Fuzz(func(t *testing.T, b []byte, base, target int64) {
		base &= math.MaxInt64 >> 1
		entries, err := DecodeTimeIndex(b, base)
		x := newTimeIndex(base, math.MaxInt32)
		for _, e := range entries {
			if !x.append(e.Timestamp, e.Offset, true) {
				t.Fatalf("decoded entry %+v does not append after %+v", e, x.last)
			}
		}
		if d := (*DecodeError)(nil); errors.As(err, &d) && d.Position != int64(12*len(entries)) {
			t.Fatalf("error at %d after %d entries: %v", d.Position, len(entries), err)
		}
		if own, _ := x.unwritten(); !bytes.Equal(b[:12*len(entries)], own) {
			t.Fatalf("%x encodes to %x", b[:12*len(entries)], own)
		}
		o, err := openTimeIndex(bytes.NewReader(b), int64(len(b)), base, math.MaxInt32, math.MaxInt64)
		if err != nil {
			return
		}
		if e, err := o.lookup(bytes.NewReader(b), target); err == nil && e.Timestamp > max(target, noTimestamp) {
			t.Fatalf("lookup(%d) = %+v", target, e)
		}
		if err := o.truncate(bytes.NewReader(b), target&(math.MaxInt64>>1)); err != nil && !isIndexDamage(err) {
			t.Fatal(err)
		}
	})
}

func BenchmarkTimeIndexLookup(b *testing.B) {
	const entries = 1 << 18
	x := newTimeIndex(0, 10<<20)
	var file indexFile
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range int64(entries) {
		x.append(1_700_000_000_000+i*20+rng.Int64N(15), i*5, false)
	}
	file.save(&x.sparseIndex)
	x.forget()
	reads, n := 0, 0
	c := &countingReader{bytes.NewReader(file.b), &reads}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := x.lookup(c, 1_700_000_000_000+rng.Int64N(entries*20)); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(reads)/float64(n), "reads/op")
}
