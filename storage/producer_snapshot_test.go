package storage

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestProducerSnapshotWritesKafkasBytes(t *testing.T) {
	entries := []ProducerSnapshotEntry{
		{ProducerID: 4000, Epoch: 1, LastSequence: 9, LastOffset: 41, OffsetDelta: 2, Timestamp: 1700000000000, CoordinatorEpoch: -1, TxnFirstOffset: -1},
		{ProducerID: 4001, Epoch: 0, LastSequence: -1, LastOffset: -1, OffsetDelta: 0, Timestamp: 1700000000001, CoordinatorEpoch: 3, TxnFirstOffset: 30},
	}
	b := encodeProducerSnapshot(entries)
	body := "00000002" +
		"0000000000000fa0" + "0001" + "00000009" + "0000000000000029" + "00000002" + "0000018bcfe56800" + "ffffffff" + "ffffffffffffffff" +
		"0000000000000fa1" + "0000" + "ffffffff" + "ffffffffffffffff" + "00000000" + "0000018bcfe56801" + "00000003" + "000000000000001e"
	raw, err := hex.DecodeString(body)
	if err != nil {
		t.Fatal(err)
	}
	crc := record.CRC32C(raw)
	want := append([]byte{0, 1, byte(crc >> 24), byte(crc >> 16), byte(crc >> 8), byte(crc)}, raw...)
	if !bytes.Equal(b, want) {
		t.Errorf("encoded\n%x, want\n%x", b, want)
	}
	if got, err := DecodeProducerSnapshot(b); err != nil || !slices.Equal(got, entries) {
		t.Errorf("decoded %+v, %v, want %+v", got, err, entries)
	}
	if got := hex.EncodeToString(encodeProducerSnapshot(nil)); got != "0001"+"48674bc7"+"00000000" {
		t.Errorf("no producers encode to %s", got)
	}
}

func TestDecodeProducerSnapshotFindsDamage(t *testing.T) {
	good := encodeProducerSnapshot([]ProducerSnapshotEntry{{ProducerID: 1}, {ProducerID: 2}})
	for i := range good {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		if _, err := DecodeProducerSnapshot(bad); err == nil {
			t.Errorf("a flipped bit in byte %d was not found", i)
		}
		if _, err := DecodeProducerSnapshot(good[:i]); err == nil {
			t.Errorf("a snapshot cut to %d bytes was not found", i)
		}
	}
	for name, c := range map[string]struct {
		b    []byte
		want string
	}{
		"empty":    {nil, "position 0: 0 bytes, want at least 10"},
		"version":  {append([]byte{0, 2}, good[2:]...), "position 0: version 2, want 1"},
		"longer":   {append(bytes.Clone(good), 0), "position 6: 2 producers of 46 bytes with 93 bytes left"},
		"negative": {slices.Concat(good[:6], []byte{0xff, 0xff, 0xff, 0xff}), "position 6: -1 producers"},
		"huge":     {slices.Concat(good[:6], []byte{0x7f, 0xff, 0xff, 0xff}), "position 6: 2147483647 producers"},
	} {
		if _, err := DecodeProducerSnapshot(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}

func TestNewestUsableSnapshotWins(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := mem.MkdirAll("orders-0"); err != nil {
		t.Fatal(err)
	}
	for _, offset := range []int64{10, 20, 30, 40} {
		if err := writeProducerSnapshot(mem, "orders-0", offset, []ProducerSnapshotEntry{{ProducerID: offset}}, offset%20 == 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, b := range map[string]string{"00000000000000000030.snapshot": "torn", "00000000000000000025.snapshot.deleted": "", "25.snapshot": "", "x.snapshot": ""} {
		if err := replaceFile(mem, "orders-0/"+name, []byte(b)); err != nil {
			t.Fatal(err)
		}
	}
	names, err := mem.List("orders-0")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		start, end int64
		offset     int64 // -1 for none
		bad        int
	}{
		{0, 100, 40, 0}, {0, 40, 40, 0}, {0, 39, 20, 1}, {0, 30, 20, 1}, {0, 29, 20, 0}, {0, 9, -1, 0}, {10, 15, -1, 0}, {20, 35, -1, 1},
	} {
		l, err := loadProducerSnapshot(mem, "orders-0", names, c.start, c.end)
		if err != nil || l.found != (c.offset >= 0) || l.found && (l.offset != c.offset || l.entries[0].ProducerID != c.offset) || len(l.bad) != c.bad {
			t.Errorf("(%d, %d]: %+v, %v, want offset %d and %d bad", c.start, c.end, l, err, c.offset, c.bad)
		}
	}
}

func TestSnapshotNames(t *testing.T) {
	for name, want := range map[string]int64{
		"00000000000000000000.snapshot": 0, "00000000000000012345.snapshot": 12345, "09223372036854775807.snapshot": math.MaxInt64,
		"12345.snapshot": -1, "0000000000000000000x.snapshot": -1, "-0000000000000000001.snapshot": -1, "+0000000000000000001.snapshot": -1,
		"99999999999999999999.snapshot": -1, "00000000000000000000.snapshot.tmp": -1, "00000000000000000000.log": -1,
	} {
		got, ok := producerSnapshotOffset(name)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("producerSnapshotOffset(%q) = %d, %t, want %d", name, got, ok, want)
		}
		if ok && producerSnapshotName(got) != name {
			t.Errorf("producerSnapshotName(%d) = %q, want %q", got, producerSnapshotName(got), name)
		}
	}
}

func TestSnapshotSkipsExpiredProducers(t *testing.T) {
	entries := []ProducerSnapshotEntry{
		{ProducerID: 1, LastOffset: -1, LastSequence: -1, Timestamp: 1000, TxnFirstOffset: -1},
		{ProducerID: 2, LastOffset: 9, LastSequence: 4, Timestamp: 1001, TxnFirstOffset: -1},
		{ProducerID: 3, LastOffset: 8, LastSequence: 4, Timestamp: 5, TxnFirstOffset: 8},
		{ProducerID: 3, LastOffset: 7, LastSequence: 4, Timestamp: 5, TxnFirstOffset: 7},
	}
	s := restoreProducerState(entries, 10, 2000, 1000)
	if got := s.snapshot(); !reflect.DeepEqual(got, entries[1:3]) {
		t.Errorf("restored %+v, want %+v", got, entries[1:3])
	}
	if got, ok := s.firstUnstable(); !ok || got != 8 {
		t.Errorf("first unstable offset %d, %t, want 8", got, ok)
	}
	if _, dup, err := s.check(batchHeader{producer: 2, sequence: 4}.batch(), AppendOptions{}); !dup || err != nil {
		t.Errorf("the last batch before the snapshot sent again: duplicate %t, %v", dup, err)
	}
	if _, ok := s.endTxn(batchHeader{producer: 3, offset: 10}.batch(), abort, 5); !ok {
		t.Error("the marker of a transaction from the snapshot ended nothing")
	}
}

func FuzzProducerSnapshot(f *testing.F) {
	f.Add(encodeProducerSnapshot(nil), false)
	f.Add(encodeProducerSnapshot([]ProducerSnapshotEntry{{ProducerID: 1, TxnFirstOffset: 5}, {ProducerID: 1, TxnFirstOffset: 5}}), true)
	f.Fuzz(func(t *testing.T, b []byte, fix bool) {
		if fix && len(b) > 6 {
			// So that the fuzzer gets past the checksum.
			crc := record.CRC32C(b[6:])
			b = slices.Concat(b[:2], []byte{byte(crc >> 24), byte(crc >> 16), byte(crc >> 8), byte(crc)}, b[6:])
		}
		entries, err := DecodeProducerSnapshot(b)
		if err != nil {
			var d *DecodeError
			if !errors.As(err, &d) || d.Position > int64(len(b)) {
				t.Fatalf("error %v for %d bytes", err, len(b))
			}
			return
		}
		if again := encodeProducerSnapshot(entries); !bytes.Equal(again, b) {
			t.Fatalf("%x encodes to %x", b, again)
		}
		// Whatever it says, the state it gives must work.
		s := restoreProducerState(entries, 100, 0, math.MaxInt64)
		for _, e := range entries {
			h := batchHeader{producer: e.ProducerID, epoch: e.Epoch, offset: 100, transactional: true}
			s.check(h.batch(), AppendOptions{})
			s.update(h.batch())
			if e.ProducerID >= 0 {
				s.endTxn(h.batch(), abort, 0)
			}
		}
		s.snapshot()
		s.cut(100)
	})
}
