package groups

import (
	"runtime"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/storage"
)

// What it takes to alter offsets grows with their number, not with its square.
func TestAlteredShareOffsetsTakeMemoryForEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		const n = 4000
		if _, err := s.store.CreateTopic(storage.TopicSpec{Name: "wide", Partitions: n}); err != nil {
			t.Fatal(err)
		}
		changes := make([]ShareOffsetChange, n) // a topic may be named as often as it has partitions
		for p := range int32(n) {
			changes[p] = ShareOffsetChange{Topic: "wide", Offsets: map[int32]int64{p: int64(p)}}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		done, err := s.c.AlterShareOffsets(t.Context(), "g", changes)
		runtime.ReadMemStats(&after)
		if err != nil || len(done) != n {
			t.Fatalf("got %d answers, error %v", len(done), err)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) / n; took > 4<<10 {
			t.Errorf("%d bytes were allocated for each offset", took)
		}
		if start, _, _ := s.states.state().Summary(SharePartition{"g", done[0].TopicID, n - 1}); start != n-1 {
			t.Errorf("the last partition begins at %d, want %d", start, n-1)
		}
	})
}
