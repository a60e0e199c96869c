package cleaner

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// TestRecordThatDecompressesToMuch has small batches of which some hold a record that is too large to be made anew. A pass
// takes little memory for them; what is replaced as a whole goes, and a batch of which a record is needed stays as it is.
func TestRecordThatDecompressesToMuch(t *testing.T) {
	r := newRig(t)
	l := r.log(small("internal.segment.bytes", "1000000"))
	zeros := make([]byte, record.MaxRebuild)
	put := func(keys ...string) {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, Codec: record.Zstd})
		for i, key := range keys {
			value := zeros
			if i > 0 {
				value = nil
			}
			b.Append(record.Record{Key: []byte(key), Value: value, Timestamp: r.now.UnixMilli()})
		}
		appendDurably(t, l, b.Bytes(), storage.OriginClient)
	}
	put("replaced")               // 0
	put("kept")                   // 1
	put("replaced", "tombstone")  // 2, 3: a tombstone is needed, which has no horizon then
	put("replaced", "tombstone2") // 4, 5: the record is needed
	r.put(l, "replaced2", []byte("v"), r.now)
	zeros = nil
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	st := r.force(l)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<20 {
		t.Errorf("%d bytes were allocated for a pass over %d, want at most %d", n, st.SizeBefore, 64<<20)
	}
	var got []string
	var reader record.Reader
	batches(t, l, 0, func(b record.Batch) {
		for k, err := range reader.Keys(b) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, fmt.Sprintf("%d:%s", k.Offset, k.Key))
		}
	})
	if want := "[1:kept 2:replaced 3:tombstone 4:replaced 5:tombstone2 6:replaced2]"; fmt.Sprint(got) != want {
		t.Errorf("left: %v, want %s", got, want)
	}
}

// TestTombstoneOfARecordThatCannotGo has a batch that stays whole, though one of its records is deleted: the tombstone
// stays as long, and goes with it.
func TestTombstoneOfARecordThatCannotGo(t *testing.T) {
	r := newRig(t)
	l := r.log(small("internal.segment.bytes", "1000000", "delete.retention.ms", "1000"))
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, Codec: record.Zstd})
	b.Append(record.Record{Key: []byte("x"), Value: make([]byte, record.MaxRebuild), Timestamp: r.now.UnixMilli()})
	b.Append(record.Record{Key: []byte("y"), Value: []byte("v"), Timestamp: r.now.UnixMilli()})
	appendDurably(t, l, b.Bytes(), storage.OriginClient)
	b = nil
	r.put(l, "x", nil, r.now)
	r.put(l, "z", []byte("v"), r.now)
	keys := func() string {
		var out []string
		var reader record.Reader
		batches(t, l, 0, func(b record.Batch) {
			for k, err := range reader.Keys(b) {
				if err != nil {
					t.Fatal(err)
				}
				out = append(out, fmt.Sprintf("%d:%s", k.Offset, k.Key))
			}
		})
		return strings.Join(out, " ")
	}
	for i := range 3 {
		r.force(l)
		if got, want := keys(), "0:x 1:y 2:x 3:z"; got != want {
			t.Errorf("after pass %d: %s, want %s", i+1, got, want)
		}
		r.now = r.now.Add(time.Hour)
	}
	r.put(l, "y", []byte("v"), r.now)
	r.put(l, "end", []byte("v"), r.now)
	for range 3 {
		r.force(l)
		r.now = r.now.Add(time.Hour)
	}
	if got, want := keys(), "3:z 4:y 5:end"; got != want {
		t.Errorf("when all of the batch may go: %s, want %s", got, want)
	}
}

// TestKeyThatIsTooLong is not compacted, and its log stays in service, also for a search by time.
func TestKeyThatIsTooLong(t *testing.T) {
	r := newRig(t)
	l := r.log(small("internal.segment.bytes", "1000000"))
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, Codec: record.Zstd})
	b.Append(record.Record{Key: make([]byte, record.MaxKey+1), Value: []byte("v"), Timestamp: r.now.UnixMilli()})
	appendDurably(t, l, b.Bytes(), storage.OriginClient)
	fill(t, l, 5, 1, r.now)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	r.c.Compact(t.Context())
	if st := r.c.Stats(); len(st.SetAside) != 1 || !errors.Is(st.SetAside[0].Cause, record.ErrTooLarge) {
		t.Errorf("stats %+v, want the log set aside for its key", st)
	}
	at, ok, err := l.OffsetForTime(r.now.UnixMilli(), storage.ReadUncommitted)
	if err != nil || !ok || at.Offset != 0 || l.Status() != storage.StatusOnline {
		t.Errorf("by time: %+v, %v, %v, the log is %v; want offset 0 of one that is online", at, ok, err, l.Status())
	}
}
