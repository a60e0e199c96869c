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

// keys goes through the records of a log without their values.
func keys(t *testing.T, l *storage.Log, do func(record.Batch, record.Keyed)) {
	t.Helper()
	var reader record.Reader
	batches(t, l, 0, func(b record.Batch) {
		for k, err := range reader.Keys(b) {
			if err != nil {
				t.Fatal(err)
			}
			do(b, k)
		}
	})
}

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
	keys(t, l, func(_ record.Batch, k record.Keyed) { got = append(got, fmt.Sprintf("%d:%s", k.Offset, k.Key)) })
	if want := "[1:kept 2:replaced 3:tombstone 4:replaced 5:tombstone2 6:replaced2]"; fmt.Sprint(got) != want {
		t.Errorf("left: %v, want %s", got, want)
	}
}

// TestTombstoneOfARecordThatCannotGo has a batch that stays whole, though one of its records is deleted: the tombstone
// stays as long, also in passes whose map does not know of it any more, and for delete.retention.ms after that.
func TestTombstoneOfARecordThatCannotGo(t *testing.T) {
	r := newRig(t)
	l := r.log(small("internal.segment.bytes", "1000000", "delete.retention.ms", "1000", "min.cleanable.dirty.ratio", "0"))
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, Codec: record.Zstd})
	b.Append(record.Record{Key: []byte("x"), Value: make([]byte, record.MaxRebuild), Timestamp: r.now.UnixMilli()})
	b.Append(record.Record{Key: []byte("y"), Value: []byte("v"), Timestamp: r.now.UnixMilli()})
	appendDurably(t, l, b.Bytes(), storage.OriginClient)
	b = nil
	turn := func(want string) {
		t.Helper()
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		r.c.Compact(t.Context())
		r.now = r.now.Add(time.Hour)
		var got []string
		keys(t, l, func(b record.Batch, k record.Keyed) {
			got = append(got, fmt.Sprintf("%d:%s", k.Offset, k.Key))
			if k.NoValue {
				got[len(got)-1] += fmt.Sprintf("(null, horizon %v)", b.HasDeleteHorizon())
			}
		})
		if got := strings.Join(got, " "); got != want {
			t.Errorf("after %d passes: %s, want %s", r.c.Stats().Passes, got, want)
		}
	}
	r.put(l, "x", nil, r.now) // 2
	r.put(l, "z", []byte("v"), r.now)
	turn("0:x 1:y 2:x(null, horizon false) 3:z")
	r.put(l, "z", []byte("v"), r.now)
	turn("0:x 1:y 2:x(null, horizon false) 4:z")
	r.put(l, "y", []byte("v"), r.now)
	r.put(l, "x", nil, r.now) // 6
	turn("4:z 5:y 6:x(null, horizon true)")
	r.put(l, "z", []byte("v"), r.now)
	turn("5:y 7:z")
}

// TestHeadersThatAreMany has a small batch with very many headers, which a pass takes along as they are.
func TestHeadersThatAreMany(t *testing.T) {
	r := newRig(t)
	l := r.log(small("internal.segment.bytes", "1000000"))
	headers := make([]record.Header, 4<<20)
	for i := range headers {
		headers[i].Key = []byte{}
	}
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, Codec: record.Zstd})
	b.Append(record.Record{Key: []byte("x"), Value: []byte("v"), Timestamp: r.now.UnixMilli(), Headers: headers})
	b.Append(record.Record{Key: []byte("y"), Value: []byte("v"), Timestamp: r.now.UnixMilli()})
	appendDurably(t, l, b.Bytes(), storage.OriginClient)
	r.put(l, "y", []byte("v"), r.now)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r.force(l)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 96<<20 {
		t.Errorf("%d bytes were allocated for a pass over %d of headers, want at most %d", n, 2*len(headers), 96<<20)
	}
	if got, want := r.read(l, 0), "0:x 2:y"; got != want {
		t.Errorf("left: %s, want %s", got, want)
	}
	records(t, l, 0, func(_ record.Batch, rec record.Record) {
		if rec.Offset == 0 && (len(rec.Headers) != len(headers) || string(rec.Value) != "v") {
			t.Errorf("%d headers and value %q are left, want %d and v", len(rec.Headers), rec.Value, len(headers))
		}
	})
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
