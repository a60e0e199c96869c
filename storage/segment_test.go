package storage

import (
	"slices"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// A closed segment keeps nothing of its indexes in memory, and what was in them is still found.
func TestClosedSegmentsKeepNoIndexInMemory(t *testing.T) {
	r := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	r.configs["internal.segment.bytes"] = "4096"
	r.configs["index.interval.bytes"] = "0"
	l := r.start()
	for range 300 {
		appendDurably(t, l, testBatch("value"))
	}
	if n := len(l.segments); n < 5 {
		t.Fatalf("%d segments, want more", n)
	}
	for _, s := range l.segments[:len(l.segments)-1] {
		if got := cap(s.offsets.tail) + cap(s.times.tail); got != 0 {
			t.Errorf("segment %d keeps %d bytes of index in memory", s.base, got)
		}
		if s.offsets.count() == 0 {
			t.Errorf("segment %d has no index entry", s.base)
		}
	}
	for offset := range int64(300) {
		res, err := l.Read(nil, ReadRequest{Offset: offset, MaxBytes: 1, MinOneBatch: true})
		if err != nil || len(res.Data) == 0 {
			t.Fatalf("read at %d: %d bytes, error %v", offset, len(res.Data), err)
		}
	}
	r.stop(l)
}

// TestSegmentWithoutTimestampsRollsByTheClock writes records without timestamps, so that segment.ms counts from when their
// segment began by the clock of Options, which is neither the machine's nor that of the files.
func TestSegmentWithoutTimestampsRollsByTheClock(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	s, err := Open(testDir, Options{FS: vfs.NewMem(vfs.MemOptions{}), Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	topic := createTopic(t, s, "orders", 1, "segment.ms", "1000")
	began := now
	for _, ms := range []int64{0, 1000, 1001, 2001, 2002, 10_000} {
		now = began.Add(time.Duration(ms) * time.Millisecond)
		mustProduce(t, topic, 0, "value")
	}
	l, _ := topic.Partition(0)
	if got, want := bases(t, l), []int64{0, 2, 4, 5}; !slices.Equal(got, want) {
		t.Errorf("segments begin at %v, want %v", got, want)
	}
	closeStore(t, s)
}
