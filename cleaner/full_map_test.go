package cleaner

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// TestFullMapEndsAtTheFirstKeyItDoesNotHold fills maps of some sizes, within a batch and between two. Where the map is full
// there is a tombstone, which must outlive the older value of its key, long after its delete horizon.
func TestFullMapEndsAtTheFirstKeyItDoesNotHold(t *testing.T) {
	for _, perBatch := range []int{1, 3, 100} {
		for slots := int64(4); slots < 9; slots++ {
			t.Run(fmt.Sprintf("batches of %d, %d slots", perBatch, slots), func(t *testing.T) {
				r := newRig(t)
				l := r.log(small("delete.retention.ms", "1000"))
				b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
				write := func(keys []string, value []byte) {
					b.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
					for _, key := range keys {
						b.Append(record.Record{Key: []byte(key), Value: value, Timestamp: r.now.UnixMilli()})
					}
					appendDurably(t, l, b.Bytes(), storage.OriginClient)
				}
				var keys, deleted []string
				for i := range 12 {
					key := fmt.Sprint("k", i)
					keys, deleted = append(keys, key), append(deleted, key)
					if i%2 == 1 {
						deleted = append(deleted, key)
					}
				}
				write(keys, []byte("old")) // at offsets 0 to 11
				l.SetCleanedTo(12)
				for some := range slices.Chunk(deleted, perBatch) {
					write(some, nil) // from offset 12 on
				}
				if err := l.Roll(); err != nil {
					t.Fatal(err)
				}
				own := r.c.compactor(Config{DedupeBytes: slots * slotBytes, LoadFactor: 0.9})
				for {
					ch, err := choose(l, l.CleanedTo(), r.now.UnixMilli())
					if err != nil {
						t.Fatal(err)
					}
					if ch.firstDirty == ch.ceiling {
						break
					}
					st, err := own.pass(t.Context(), l, ch, r.now.UnixMilli())
					noted, want := map[string]bool{}, ch.firstDirty
					for want < ch.ceiling && (len(noted) < own.offsets.most || noted[deleted[want-12]]) {
						noted[deleted[want-12]] = true
						want++
					}
					if err != nil || st.End != want || st.Keys != len(noted) {
						t.Fatalf("pass %+v, %v, want one over %d keys that ends at offset %d", st, err, len(noted), want)
					}
					state := map[string]string{}
					records(t, l, 0, func(_ record.Batch, rec record.Record) { state[string(rec.Key)] = string(rec.Value) })
					for _, key := range keys {
						if v := state[key]; v != "" {
							t.Errorf("after %+v: %s, which was deleted, has the value %q again", st, key, v)
						}
					}
					r.now = r.now.Add(time.Hour)
				}
			})
		}
	}
}
