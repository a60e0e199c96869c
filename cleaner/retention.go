package cleaner

import "github.com/kaen-log/gateway/storage"

// retention is what is to go of a log.
type retention struct {
	// before is the new log start; the log's own when nothing goes.
	before int64
	// roll: the open segment goes too, so another has to begin first.
	roll bool
	// bySize and byTime are how many segments go for which reason.
	bySize, byTime int
}

// retain decides which segments of a log go, the oldest first, until one stays: first by size, then by time. Nothing at or
// beyond the high watermark goes, and an empty last segment stays. A segment goes by time when more than retention.ms
// have passed since its largest timestamp, so one record of the future keeps it and all after it; by size as long as
// retention.bytes remain without it. Kafka: UnifiedLog.deleteOldSegments, deletableSegments. Differs from Kafka: it warns of a
// segment that stays for a record of the future, at each look.
func retain(segments []storage.SegmentInfo, o storage.Offsets, c *storage.TopicConfig, nowMs int64) retention {
	r := retention{before: o.LogStart}
	if !c.Delete {
		return r
	}
	deletable := func(s storage.SegmentInfo, last bool) bool {
		return s.NextOffset <= o.HighWatermark && !(last && s.Size == 0)
	}
	n := 0
	take := func(goes func(storage.SegmentInfo) bool) (taken int) {
		for n < len(segments) && deletable(segments[n], n == len(segments)-1) && goes(segments[n]) {
			r.before = segments[n].NextOffset
			n, taken = n+1, taken+1
		}
		return taken
	}
	if c.RetentionBytes >= 0 {
		spare := -c.RetentionBytes
		for _, s := range segments {
			spare += s.Size
		}
		r.bySize = take(func(s storage.SegmentInfo) bool {
			if spare < s.Size {
				return false
			}
			spare -= s.Size
			return true
		})
	}
	if c.RetentionMs >= 0 {
		r.byTime = take(func(s storage.SegmentInfo) bool { return nowMs-s.MaxTimestamp > c.RetentionMs })
	}
	r.roll = n > 0 && n == len(segments)
	return r
}
