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

// testIndexBytes is a segment.index.bytes that no test fills by accident.
const testIndexBytes = 10 << 20

func TestOffsetIndexWritesKafkasBytes(t *testing.T) {
	x := newOffsetIndex(1000, testIndexBytes)
	for _, e := range []OffsetEntry{{1041, 4200}, {1100, 8400}, {1000 + math.MaxInt32, math.MaxInt32}} {
		if !x.append(e.Offset, e.Position) {
			t.Fatalf("append(%d, %d) refused, last %+v", e.Offset, e.Position, x.last)
		}
	}
	b, at := x.unwritten()
	if got, want := hex.EncodeToString(b), "0000002900001068"+"00000064000020d0"+"7fffffff7fffffff"; got != want || at != 0 {
		t.Errorf("unwritten() = %s at %d, want %s at 0", got, at, want)
	}
	entries, err := DecodeOffsetIndex(b, 1000)
	if err != nil || len(entries) != 3 || entries[1] != (OffsetEntry{1100, 8400}) {
		t.Errorf("DecodeOffsetIndex = %+v, %v", entries, err)
	}
}

func TestOffsetIndexRefusesWhatItCannotHold(t *testing.T) {
	x := newOffsetIndex(1000, 27)
	for _, c := range []struct {
		offset, position int64
		want             bool
		why              string
	}{
		{1005, 0, false, "the first batch needs no entry"},
		{999, 4096, false, "below the base"},
		{1000 + math.MaxInt32 + 1, 4096, false, "relative offset above 2147483647"},
		{1010, math.MaxInt32 + 1, false, "position above 2147483647"},
		{1010, 4096, true, ""},
		{1010, 8192, false, "same offset"},
		{1011, 4096, false, "same position"},
		{1011, 8192, true, ""},
		{1012, 9000, true, "27 bytes hold three entries"},
		{1013, 9999, false, "full"},
	} {
		if got := x.append(c.offset, c.position); got != c.want {
			t.Errorf("append(%d, %d) = %t, want %t: %s", c.offset, c.position, got, c.want, c.why)
		}
	}
	if !x.full() || x.count() != 3 || x.last != (OffsetEntry{1012, 9000}) {
		t.Errorf("full %t, count %d, last %+v", x.full(), x.count(), x.last)
	}
}

func TestOffsetIndexLookup(t *testing.T) {
	x := newOffsetIndex(100, testIndexBytes)
	x.append(110, 4100)
	x.append(120, 8200)
	for _, c := range []struct {
		target, offset, position int64
	}{
		{50, 100, 0}, {100, 100, 0}, {109, 100, 0}, {110, 110, 4100}, {119, 110, 4100}, {120, 120, 8200}, {math.MaxInt64, 120, 8200},
	} {
		got, err := x.lookup(nil, c.target)
		if want := (OffsetEntry{c.offset, c.position}); err != nil || got != want {
			t.Errorf("lookup(%d) = %+v, %v, want %+v", c.target, got, err, want)
		}
	}
	for _, c := range []struct {
		position, offset int64
		found            bool
	}{
		{0, 110, true}, {4100, 110, true}, {4101, 120, true}, {8200, 120, true}, {8201, 0, false},
	} {
		got, found, err := x.after(nil, c.position)
		if err != nil || found != c.found || got.Offset != c.offset {
			t.Errorf("after(%d) = %+v, %t, %v, want offset %d, %t", c.position, got, found, err, c.offset, c.found)
		}
	}
}

// indexFile is an index file in memory.
type indexFile struct{ b []byte }

func (f *indexFile) ReadAt(p []byte, at int64) (int, error) {
	return bytes.NewReader(f.b).ReadAt(p, at)
}

// save writes what an index has not written, as the log does.
func (f *indexFile) save(x *sparseIndex) {
	b, at := x.unwritten()
	f.b = append(f.b[:at], b...)
	x.wrote(len(b))
}

// offsetModel is an offsetIndex beside the plain slice that it must equal.
type offsetModel struct {
	x       offsetIndex
	file    indexFile
	entries []OffsetEntry
}

func (m *offsetModel) check(rng *rand.Rand) error {
	base := m.x.base
	for range 20 {
		target := base + rng.Int64N(m.x.last.Offset-base+5)
		want := OffsetEntry{Offset: base}
		wantAfter, wantFound := OffsetEntry{}, false
		position := rng.Int64N(m.x.last.Position + 5)
		for _, e := range m.entries {
			if e.Offset <= target {
				want = e
			}
			if e.Position >= position && !wantFound {
				wantAfter, wantFound = e, true
			}
		}
		if got, err := m.x.lookup(&m.file, target); err != nil || got != want {
			return fmt.Errorf("lookup(%d) = %+v, %v, want %+v of %d entries, %d stored, %d in memory", target, got, err, want, len(m.entries), m.x.stored, len(m.x.tail)/8)
		}
		if got, found, err := m.x.after(&m.file, position); err != nil || found != wantFound || got != wantAfter {
			return fmt.Errorf("after(%d) = %+v, %t, %v, want %+v, %t", position, got, found, err, wantAfter, wantFound)
		}
	}
	return nil
}

func TestOffsetIndexEqualsASlice(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	m := offsetModel{x: newOffsetIndex(7_000_000_000, testIndexBytes)}
	for step := range 3000 {
		switch n := rng.IntN(100); {
		case n < 80:
			for range rng.IntN(60) {
				// Offsets that jump make guesses by proportion miss.
				o := m.x.last.Offset + 1 + rng.Int64N(1+int64(1)<<(rng.IntN(10)))
				p := m.x.last.Position + 1 + rng.Int64N(9000)
				if m.x.append(o, p) {
					m.entries = append(m.entries, OffsetEntry{o, p})
				}
			}
		case n < 94:
			m.file.save(&m.x.sparseIndex)
		case n < 96:
			m.x.forget()
		case n < 98 && len(m.entries) > 0:
			o := m.entries[rng.IntN(len(m.entries))].Offset + rng.Int64N(3) - 1
			if err := m.x.truncate(&m.file, o); err != nil {
				t.Fatalf("seed %d step %d: truncate(%d): %v", seed, step, o, err)
			}
			m.entries = slices.DeleteFunc(m.entries, func(e OffsetEntry) bool { return e.Offset >= o })
			m.file.b = m.file.b[:m.x.storedSize()]
		case n < 99:
			m.file.save(&m.x.sparseIndex)
			last := m.x.last
			x, err := openOffsetIndex(&m.file, int64(len(m.file.b)), m.x.base, testIndexBytes, last.Offset+1, last.Position+1, 0)
			if err != nil {
				t.Fatalf("seed %d step %d: open: %v", seed, step, err)
			}
			m.x = x
		}
		if m.x.count() != len(m.entries) || m.x.size() != int64(8*len(m.entries)) {
			t.Fatalf("seed %d step %d: count %d, size %d, want %d entries", seed, step, m.x.count(), m.x.size(), len(m.entries))
		}
		if err := m.check(rng); err != nil {
			t.Fatalf("seed %d step %d: %v", seed, step, err)
		}
	}
	m.file.save(&m.x.sparseIndex)
	if cap(m.x.tail) > 3*tailBytes {
		t.Errorf("%d bytes in memory after everything is in the file, want at most %d", cap(m.x.tail), 3*tailBytes)
	}
	m.x.forget()
	if cap(m.x.tail) != 0 {
		t.Errorf("%d bytes in memory after forget, want 0", cap(m.x.tail))
	}
	entries, err := DecodeOffsetIndex(m.file.b, m.x.base)
	if err != nil || !slices.Equal(entries, m.entries) {
		t.Errorf("seed %d: the file decodes to %d entries, %v, want %d", seed, len(entries), err, len(m.entries))
	}
}

func TestOffsetIndexCopyOutlivesAppendsAndCuts(t *testing.T) {
	x := newOffsetIndex(0, testIndexBytes)
	var file indexFile
	for i := int64(1); i <= 2000; i++ {
		x.append(i*10, i*4096)
		if i == 900 {
			file.save(&x.sparseIndex)
		}
	}
	snapshot := x
	if err := x.truncate(&file, 5000); err != nil {
		t.Fatal(err)
	}
	file.b = file.b[:x.storedSize()]
	for i := int64(500); i < 3000; i++ {
		x.append(i*10, i*4096+1)
	}
	file.save(&x.sparseIndex)
	// Below the cut the copy must be right; above it, it may miss entries but never point elsewhere.
	for target := int64(0); target < 21000; target += 7 {
		got, err := snapshot.lookup(&file, target)
		if err != nil {
			t.Fatalf("lookup(%d): %v", target, err)
		}
		if target < 5000 && got != (OffsetEntry{target / 10 * 10, target / 10 * 4096}) {
			t.Fatalf("lookup(%d) = %+v below the cut", target, got)
		}
		if got.Offset > target {
			t.Fatalf("lookup(%d) = %+v, above the target", target, got)
		}
	}
	// A file that became shorter than the copy knows.
	file.b = file.b[:300*8]
	snapshot.tail, snapshot.first = nil, snapshot.stored
	for target := int64(0); target < 21000; target += 7 {
		got, err := snapshot.lookup(&file, target)
		if want := min(target/10, 300) * 10; target < int64(snapshot.last.Offset) && (err != nil || got.Offset != want) {
			t.Fatalf("lookup(%d) = %+v, %v in a cut file, want offset %d", target, got, err, want)
		}
	}
}

func TestOpenOffsetIndexSaysWhatToRebuild(t *testing.T) {
	entry := func(rel, position uint32) string { return fmt.Sprintf("%08x%08x", rel, position) }
	good := entry(10, 4096) + entry(20, 8192) + entry(30, 12288)
	for _, c := range []struct {
		name, hex string
		maxGap    int64
		want      string // part of the error, "" for none
	}{
		{"good", good, 0, ""},
		{"empty", "", 0, ""},
		{"one entry", entry(10, 4096), 0, ""},
		{"odd length", good + "0000", 0, "26 bytes, not a multiple of 8"},
		{"preallocated", good + strings.Repeat("00", 800), 0, "last entry is zero"},
		{"only zeros", strings.Repeat("00", 64), 0, "first entry is offset 100 at position 0"},
		{"0xff", strings.Repeat("ff", 64), 0, "first entry is offset 99"},
		{"0xff at the end", good + strings.Repeat("ff", 8), 0, "do not ascend"},
		{"beyond the segment's offsets", good + entry(100, 16384), 0, "segment ends at offset 200"},
		{"beyond the segment's bytes", good + entry(50, 20000), 0, "segment ends at offset 200 and position 20000"},
		{"descends", entry(30, 4096) + entry(20, 8192), 0, "do not ascend"},
		{"too many entries for the offsets", entry(10, 1) + entry(11, 2) + entry(11, 3), 0, "do not ascend"},
		{"short", good, 5000, "at most 5000 expected after it"},
		{"empty and short", "", 5000, "at most 5000 expected after it"},
		{"long enough", good, 8000, ""},
	} {
		b, err := hex.DecodeString(c.hex)
		if err != nil {
			t.Fatal(err)
		}
		x, err := openOffsetIndex(bytes.NewReader(b), int64(len(b)), 100, testIndexBytes, 200, 20000, c.maxGap)
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

func TestDecodeOffsetIndexTellsPaddingFromDamage(t *testing.T) {
	good := []byte{0, 0, 0, 9, 0, 0, 16, 0}
	for _, c := range []struct {
		name    string
		tail    []byte
		padding bool
	}{
		{"preallocated", make([]byte, 24), true},
		{"odd padding", make([]byte, 5), true},
		{"damage", []byte{0, 0, 0, 9, 0, 0, 32, 0}, false},
		{"0xff", bytes.Repeat([]byte{0xff}, 8), false},
	} {
		entries, err := DecodeOffsetIndex(append(slices.Clip(good), c.tail...), 0)
		var d *DecodeError
		if !errors.As(err, &d) || d.Position != 8 || d.Padding != c.padding || len(entries) != 1 {
			t.Errorf("%s: %d entries, error %+v, want 1 entry, an error at 8, padding %t", c.name, len(entries), d, c.padding)
		}
	}
}

func FuzzOffsetIndex(f *testing.F) {
	f.Add([]byte{0, 0, 0, 9, 0, 0, 16, 0, 0, 0, 0, 20, 0, 0, 32, 0}, int64(5), int64(12))
	f.Add(make([]byte, 80), int64(0), int64(0))
	f.Add(bytes.Repeat([]byte{0xff}, 33), int64(100), int64(99))
	f.Fuzz(func(t *testing.T, b []byte, base, target int64) {
		base &= math.MaxInt64 >> 1
		target &= math.MaxInt64 >> 1
		entries, err := DecodeOffsetIndex(b, base)
		x := newOffsetIndex(base, math.MaxInt32)
		for _, e := range entries {
			// The first entry may be at position 0 in bytes that we did not write.
			if e.Position > 0 && !x.append(e.Offset, e.Position) {
				t.Fatalf("decoded entry %+v does not append after %+v", e, x.last)
			}
		}
		if d := (*DecodeError)(nil); errors.As(err, &d) && d.Position != int64(8*len(entries)) {
			t.Fatalf("error at %d after %d entries: %v", d.Position, len(entries), err)
		}
		if own, _ := x.unwritten(); !bytes.HasSuffix(b[:8*len(entries)], own) {
			t.Fatalf("%x encodes to %x", b[:8*len(entries)], own)
		}
		o, err := openOffsetIndex(bytes.NewReader(b), int64(len(b)), base, math.MaxInt32, math.MaxInt64, math.MaxInt64, 0)
		if err != nil {
			return
		}
		e, err := o.lookup(bytes.NewReader(b), target)
		if err == nil && (e.Offset > max(target, base) || e.Offset < base) {
			t.Fatalf("lookup(%d) = %+v", target, e)
		}
		o.after(bytes.NewReader(b), target)
		if err := o.truncate(bytes.NewReader(b), target); err != nil && !isIndexDamage(err) {
			t.Fatal(err)
		}
	})
}

func BenchmarkOffsetIndexLookup(b *testing.B) {
	const entries = 1 << 18 // 1 GiB at the default index.interval.bytes
	x := newOffsetIndex(0, 10<<20)
	var file indexFile
	rng := rand.New(rand.NewPCG(1, 2))
	for i := int64(1); i <= entries; i++ {
		x.append(x.last.Offset+1+rng.Int64N(8), x.last.Position+4000+rng.Int64N(90))
		if i%100 == 0 {
			file.save(&x.sparseIndex)
		}
	}
	file.save(&x.sparseIndex)
	r := bytes.NewReader(file.b)
	b.Run("where=tail", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := x.lookup(r, x.last.Offset-100); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("where=file", func(b *testing.B) {
		b.ReportAllocs()
		reads := 0
		c := &countingReader{r, &reads}
		n := 0
		for b.Loop() {
			if _, err := x.lookup(c, rng.Int64N(x.last.Offset)); err != nil {
				b.Fatal(err)
			}
			n++
		}
		b.ReportMetric(float64(reads)/float64(n), "reads/op")
	})
}

// countingReader counts the reads of an index file.
type countingReader struct {
	r *bytes.Reader
	n *int
}

func (c *countingReader) ReadAt(p []byte, at int64) (int, error) { *c.n++; return c.r.ReadAt(p, at) }
