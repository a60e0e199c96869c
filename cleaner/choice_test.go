package cleaner

import (
	"fmt"
	"math"
	"testing"

	"github.com/kaen-log/gateway/storage"
)

func TestAssess(t *testing.T) {
	const now = 1_000_000
	never := func(base int64) (int64, error) {
		return 0, fmt.Errorf("first timestamp of segment %d is of no matter", base)
	}
	at := func(timestamps map[int64]int64) func(int64) (int64, error) {
		return func(base int64) (int64, error) { return timestamps[base], nil }
	}
	rolled := segmentsOf(1, 1, 1)
	rolled[2].NextOffset, rolled[2].Size = 6, 0
	lagging := storage.TopicConfig{Compact: true, MaxCompactionLagMs: 1000, MinCleanableDirtyRatio: 0.5}
	plain := storage.TopicConfig{Compact: true, MaxCompactionLagMs: math.MaxInt64, MinCleanableDirtyRatio: 0.5}
	for _, c := range []struct {
		name      string
		segments  []storage.SegmentInfo
		lso       int64
		cleanedTo int64
		config    storage.TopicConfig
		first     func(int64) (int64, error)
		want      choice
		due       bool
	}{
		{"all but the open segment", segmentsOf(1, 1, 1, 1), 12, 0, plain, never, choice{0, 9, 0, 300, false}, true},
		{"half is clean: not more than the ratio", segmentsOf(1, 1, 1), 9, 3, plain, never, choice{3, 6, 100, 100, false}, false},
		{"nothing is dirty", segmentsOf(1, 1, 1), 9, 6, plain, never, choice{6, 6, 200, 0, false}, false},
		{"CLN-10 the last stable offset", segmentsOf(1, 1, 1, 1), 5, 0, plain, never, choice{0, 3, 0, 100, false}, true},
		{"a checkpoint beyond the end", segmentsOf(1, 1, 1), 9, 99, plain, never, choice{0, 6, 0, 200, false}, true},
		{"a checkpoint in the middle of a segment", segmentsOf(1, 1, 1), 9, 4, plain, never, choice{4, 6, 200, 100, false}, false},
		{"cleaned up to the end, where an empty segment is open", rolled, 6, 6, plain, never, choice{6, 6, 200, 0, false}, false},
		{"only the open segment", segmentsOf(1), 3, 0, plain, never, choice{0, 0, 0, 0, false}, false},
		{"min.compaction.lag.ms", segmentsOf(now-100, now-99, now-500, now), 12, 0,
			storage.TopicConfig{Compact: true, MinCompactionLagMs: 100, MaxCompactionLagMs: math.MaxInt64}, never, choice{0, 3, 0, 100, false}, true},
		{"min.compaction.lag.ms does not look at what is clean", segmentsOf(now, now-500, now), 9, 3,
			storage.TopicConfig{Compact: true, MinCompactionLagMs: 100, MaxCompactionLagMs: math.MaxInt64}, never, choice{3, 6, 100, 100, false}, true},
		{"CLN-06 max.compaction.lag.ms makes a clean log due", segmentsOf(1, 1, 1, 1, 1), 15, 9,
			lagging, at(map[int64]int64{9: now - 1001}), choice{9, 12, 300, 100, true}, true},
		{"max.compaction.lag.ms is not over", segmentsOf(1, 1, 1, 1, 1), 15, 9,
			lagging, at(map[int64]int64{9: now - 1000}), choice{9, 12, 300, 100, false}, false},
		{"max.compaction.lag.ms does not look at what has no timestamp", segmentsOf(1, 1, 1, 1, 1, 1), 18, 9,
			lagging, at(map[int64]int64{9: -1, 12: 0}), choice{9, 15, 300, 200, false}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := storage.Offsets{LastStable: c.lso, HighWatermark: c.lso, End: c.segments[len(c.segments)-1].NextOffset}
			got, err := assess(c.segments, o, c.cleanedTo, &c.config, now, c.first)
			if err != nil || got != c.want || got.due(&c.config) != c.due {
				t.Errorf("got %+v, %v, due %v, want %+v, due %v", got, err, got.due(&c.config), c.want, c.due)
			}
		})
	}
}

func TestGroups(t *testing.T) {
	config := storage.TopicConfig{SegmentBytes: 250, SegmentIndexBytes: 100}
	sized := func(sizes ...int64) (out []storage.SegmentInfo) {
		for i, n := range sizes {
			out = append(out, storage.SegmentInfo{BaseOffset: int64(10 * i), NextOffset: int64(10 * (i + 1)), Size: n})
		}
		return out
	}
	wide := sized(0, 0, 0)
	wide[1].BaseOffset, wide[0].NextOffset = math.MaxInt32, math.MaxInt32
	wide[1].NextOffset, wide[2].BaseOffset, wide[2].NextOffset = math.MaxInt32+1, math.MaxInt32+1, math.MaxInt32+2
	indexed := sized(1, 1, 1)
	indexed[0].IndexBytes, indexed[1].IndexBytes, indexed[2].TimeIndexBytes = 60, 41, 100
	timed := sized(1, 1, 1, 1)
	timed[0].TimeIndexBytes, timed[1].TimeIndexBytes, timed[2].TimeIndexBytes, timed[3].TimeIndexBytes = 60, 40, 1, 99
	for _, c := range []struct {
		name     string
		segments []storage.SegmentInfo
		end      int64
		want     string
	}{
		{"each fills one", sized(200, 200, 200), 30, "[{0 1 200} {10 1 200} {20 1 200}]"},
		{"small ones merge", sized(100, 100, 50, 1), 40, "[{0 3 250} {30 1 1}]"},
		{"one too large stays alone", sized(10, 900, 10), 30, "[{0 1 10} {10 1 900} {20 1 10}]"},
		{"up to the end", sized(100, 100, 100), 11, "[{0 2 200}]"},
		{"nothing", sized(100), 0, "[]"},
		{"a span that an index cannot hold", wide, math.MaxInt64, fmt.Sprintf("[{0 2 0} {%d 1 0}]", math.MaxInt32+1)},
		{"indexes that do not fit into one", indexed, 30, "[{0 1 1} {10 2 2}]"},
		{"time indexes that do not fit into one", timed, 40, "[{0 2 2} {20 2 2}]"},
	} {
		if got := fmt.Sprint(groups(c.segments, c.end, &config)); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}
