package cleaner

import (
	"fmt"
	"runtime"
	"testing"

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
