package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestTxnIndexWritesKafkasBytes(t *testing.T) {
	var x txnIndex
	x.append(AbortedTxn{ProducerID: 4000, FirstOffset: 11, LastOffset: 20, LastStableOffset: 21})
	b, at := x.unwritten()
	want := "0000" + "0000000000000fa0" + "000000000000000b" + "0000000000000014" + "0000000000000015"
	if got := hex.EncodeToString(b); got != want || at != 0 || len(b) != txnEntrySize {
		t.Errorf("unwritten() = %s at %d, want %s at 0", got, at, want)
	}
	x.wrote(len(b))
	x.append(AbortedTxn{ProducerID: 1, FirstOffset: 15, LastOffset: 30, LastStableOffset: 31})
	if b, at := x.unwritten(); len(b) != 34 || at != 34 {
		t.Errorf("unwritten() = %d bytes at %d, want 34 at 34", len(b), at)
	}
}

func TestTxnIndexCollectsWhatOverlapsARange(t *testing.T) {
	var x txnIndex
	a := []AbortedTxn{
		{ProducerID: 1, FirstOffset: 0, LastOffset: 10, LastStableOffset: 2},
		{ProducerID: 2, FirstOffset: 5, LastOffset: 15, LastStableOffset: 2},
		{ProducerID: 3, FirstOffset: 2, LastOffset: 35, LastStableOffset: 36},
		{ProducerID: 4, FirstOffset: 40, LastOffset: 50, LastStableOffset: 51},
	}
	for _, t := range a {
		x.append(t)
	}
	for _, c := range []struct {
		from, to int64
		want     []AbortedTxn // by first offset
		more     bool
	}{
		{0, 100, []AbortedTxn{a[0], a[2], a[1], a[3]}, true},
		{0, 32, []AbortedTxn{a[0], a[2], a[1]}, false},
		{0, 36, []AbortedTxn{a[0], a[2], a[1]}, false},
		{0, 37, []AbortedTxn{a[0], a[2], a[1]}, false},
		{10, 11, []AbortedTxn{a[0], a[2], a[1]}, false},
		{11, 12, []AbortedTxn{a[2], a[1]}, false},
		{16, 37, []AbortedTxn{a[2]}, false},
		{36, 40, nil, false},
		{36, 41, []AbortedTxn{a[3]}, false},
		{51, 52, nil, true},
	} {
		got, more := x.collect(nil, c.from, c.to)
		sortAborted(got)
		if !slices.Equal(got, c.want) || more != c.more {
			t.Errorf("collect(%d, %d) = %+v, %t, want %+v, %t", c.from, c.to, got, more, c.want, c.more)
		}
	}
}

func TestTxnIndexTruncates(t *testing.T) {
	var x txnIndex
	for i := int64(1); i <= 5; i++ {
		x.append(AbortedTxn{ProducerID: i, FirstOffset: 1, LastOffset: i * 10, LastStableOffset: i*10 + 1})
	}
	b, _ := x.unwritten()
	x.wrote(4 * txnEntrySize)
	before := x
	x.truncate(30)
	if len(x.entries) != 2 || x.storedSize() != 2*txnEntrySize {
		t.Errorf("%d entries, %d bytes stored after truncate(30), want 2, 68", len(x.entries), x.storedSize())
	}
	x.append(AbortedTxn{ProducerID: 9, FirstOffset: 1, LastOffset: 30, LastStableOffset: 31})
	if got := before.entries[2].ProducerID; got != 3 {
		t.Errorf("a copy from before the cut sees producer %d, want 3", got)
	}
	x.truncate(100)
	if len(x.entries) != 3 {
		t.Errorf("%d entries after truncate(100), want 3", len(x.entries))
	}
	if got, err := DecodeTxnIndex(b); err != nil || !slices.Equal(got, before.entries) {
		t.Errorf("DecodeTxnIndex = %+v, %v, want %+v", got, err, before.entries)
	}
}

func TestDecodeTxnIndexFindsDamage(t *testing.T) {
	good := appendTxnEntry(nil, AbortedTxn{ProducerID: 1, FirstOffset: 50, LastOffset: 110, LastStableOffset: 111})
	next := appendTxnEntry(nil, AbortedTxn{ProducerID: 1, FirstOffset: 115, LastOffset: 120, LastStableOffset: 121})
	version := append([]byte{0, 1}, good[2:]...)
	for _, c := range []struct {
		name string
		b    []byte
		want string
	}{
		{"empty", nil, ""},
		{"good", slices.Concat(good, next), ""},
		{"odd length", slices.Concat(good, next[:20]), "position 34: entry of 34 bytes with 20 bytes left"},
		{"version", version, "version 1, want 0"},
		{"descends", slices.Concat(next, good), "after a marker at 120"},
		{"twice", slices.Concat(good, good), "after a marker at 110"},
		{"zeros", slices.Concat(good, make([]byte, 34)), "after a marker at 110"},
		{"zeros alone", make([]byte, 34), "producer 0 aborted offsets 0 to 0"},
		{"ends where it begins", appendTxnEntry(nil, AbortedTxn{ProducerID: 1, FirstOffset: 5, LastOffset: 5, LastStableOffset: 6}), "aborted offsets 5 to 5"},
		{"0xff", bytes.Repeat([]byte{0xff}, 34), "version -1"},
	} {
		_, err := DecodeTxnIndex(c.b)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
	}
}

func FuzzTxnIndex(f *testing.F) {
	f.Add(appendTxnEntry(nil, AbortedTxn{ProducerID: 1, FirstOffset: 50, LastOffset: 110, LastStableOffset: 111}), int64(60), int64(70))
	f.Add(make([]byte, 68), int64(0), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, from, to int64) {
		entries, err := DecodeTxnIndex(b)
		if d := (*DecodeError)(nil); errors.As(err, &d) && d.Position != int64(txnEntrySize*len(entries)) {
			t.Fatalf("error at %d after %d entries: %v", d.Position, len(entries), err)
		}
		var x txnIndex
		for _, a := range entries {
			x.append(a)
		}
		if own, _ := x.unwritten(); !bytes.Equal(own, b[:len(own)]) {
			t.Fatalf("%x encodes to %x", b, own)
		}
		got, _ := x.collect(nil, from, to)
		for _, a := range got {
			if a.LastOffset < from || a.FirstOffset >= to {
				t.Fatalf("collect(%d, %d) has %+v", from, to, a)
			}
		}
	})
}
