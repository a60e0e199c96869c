package cleaner

import (
	"math"
	"testing"

	"github.com/kaen-log/gateway/storage"
)

// segmentsOf makes segments of three records and 100 bytes each, the last one open, whose largest timestamps are given.
func segmentsOf(timestamps ...int64) (out []storage.SegmentInfo) {
	for i, ts := range timestamps {
		base := int64(3 * i)
		out = append(out, storage.SegmentInfo{BaseOffset: base, NextOffset: base + 3, Size: 100, MaxTimestamp: ts, Closed: i < len(timestamps)-1})
	}
	return out
}

func TestRetain(t *testing.T) {
	const now = 1_000_000
	empty := segmentsOf(10, 20, 30)
	empty[2].Size, empty[2].NextOffset = 0, 6
	for _, c := range []struct {
		name     string
		segments []storage.SegmentInfo
		start    int64
		hw       int64
		config   storage.TopicConfig
		want     retention
	}{
		{"nothing is old", segmentsOf(now-50, now-40, now), 0, 9, storage.TopicConfig{Delete: true, RetentionMs: 50, RetentionBytes: -1}, retention{before: 0}},
		{"exactly as old as retention.ms stays", segmentsOf(now-100, now), 0, 6, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 0}},
		{"the first is a millisecond older", segmentsOf(now-101, now), 0, 6, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 3, byTime: 1}},
		{"the walk stops at the first that stays", segmentsOf(now-101, now, now-101, now), 0, 12, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 3, byTime: 1}},
		{"CLN-01 the open segment goes too", segmentsOf(10, 20, 30), 0, 9, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 9, byTime: 3, roll: true}},
		{"an empty open segment stays", empty, 0, 6, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 6, byTime: 2}},
		{"CLN-02 one record of the future keeps it and what follows", segmentsOf(math.MaxInt64, 10, 10), 0, 9, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 0}},
		{"CLN-02 the size still counts", segmentsOf(math.MaxInt64, 10, 10), 0, 9, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: 200}, retention{before: 9, bySize: 1, byTime: 2, roll: true}},
		{"nothing beyond the high watermark", segmentsOf(10, 20, 30), 0, 5, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 3, byTime: 1}},
		{"retention.bytes remain", segmentsOf(now, now, now, now), 0, 12, storage.TopicConfig{Delete: true, RetentionMs: -1, RetentionBytes: 250}, retention{before: 3, bySize: 1}},
		{"exactly retention.bytes remain", segmentsOf(now, now, now, now), 0, 12, storage.TopicConfig{Delete: true, RetentionMs: -1, RetentionBytes: 200}, retention{before: 6, bySize: 2}},
		{"no bytes at all", segmentsOf(now, now), 0, 6, storage.TopicConfig{Delete: true, RetentionMs: -1, RetentionBytes: 0}, retention{before: 6, bySize: 2, roll: true}},
		{"size first, then time", segmentsOf(10, 10, now, now), 0, 12, storage.TopicConfig{Delete: true, RetentionMs: 100, RetentionBytes: 300}, retention{before: 6, bySize: 1, byTime: 1}},
		{"no limits", segmentsOf(1, 1), 0, 6, storage.TopicConfig{Delete: true, RetentionMs: -1, RetentionBytes: -1}, retention{before: 0}},
		{"compact only", segmentsOf(1, 1), 1, 6, storage.TopicConfig{Compact: true, RetentionMs: 100, RetentionBytes: 0}, retention{before: 1}},
		{"CLN-16 both policies", segmentsOf(1, now), 0, 6, storage.TopicConfig{Compact: true, Delete: true, RetentionMs: 100, RetentionBytes: -1}, retention{before: 3, byTime: 1}},
		{"neither policy", segmentsOf(1, 1), 0, 6, storage.TopicConfig{RetentionMs: 100, RetentionBytes: 0}, retention{before: 0}},
		{"an empty log", nil, 7, 7, storage.TopicConfig{Delete: true, RetentionMs: 0, RetentionBytes: 0}, retention{before: 7}},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := storage.Offsets{LogStart: c.start, HighWatermark: c.hw, LastStable: c.hw, End: c.hw}
			if got := retain(c.segments, o, &c.config, now); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
