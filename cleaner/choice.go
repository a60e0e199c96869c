package cleaner

import (
	"math"

	"github.com/kaen-log/gateway/storage"
)

// choice is what compaction could do for a log.
type choice struct {
	// Offsets [firstDirty, ceiling) are new since the last pass and may be cleaned.
	firstDirty, ceiling int64
	// cleanBytes are those of the segments that begin before firstDirty, dirtyBytes those of the segments that reach beyond
	// it, up to the ceiling. A segment in which firstDirty lies is both.
	cleanBytes, dirtyBytes int64
	// overdue: something dirty is older than max.compaction.lag.ms.
	overdue bool
}

// ratio is the share of dirty bytes.
func (c choice) ratio() float64 {
	if c.dirtyBytes == 0 {
		return 0
	}
	return float64(c.dirtyBytes) / float64(c.cleanBytes+c.dirtyBytes)
}

// due reports whether the log is to be cleaned now. Where nothing is dirty it is not.
func (c choice) due(config *storage.TopicConfig) bool {
	return c.overdue || c.ratio() > config.MinCleanableDirtyRatio
}

// assess says what compaction could do for a log that was cleaned up to the offset cleanedTo. first is the first
// timestamp of each segment, as Log.FirstTimestamp gives it; it is asked for the dirty ones only. Kafka:
// LogCleanerManager.cleanableOffsets, calculateCleanableBytes, maxCompactionDelay; LogToClean.
func assess(segments []storage.SegmentInfo, o storage.Offsets, cleanedTo int64, c *storage.TopicConfig, nowMs int64, first func(base int64) (int64, error)) (choice, error) {
	ch := choice{firstDirty: cleanedTo}
	if cleanedTo < o.LogStart || cleanedTo > o.End {
		ch.firstDirty = o.LogStart // it was cut or deleted since
	}
	ch.ceiling = ch.firstDirty
	lag := max(c.MaxCompactionLagMs, 0)
	for _, s := range segments {
		if !s.Closed || s.NextOffset > o.LastStable {
			break
		}
		if s.BaseOffset < ch.firstDirty {
			ch.cleanBytes += s.Size
		}
		if s.NextOffset <= ch.firstDirty {
			continue
		}
		if c.MinCompactionLagMs > 0 && s.MaxTimestamp > nowMs-c.MinCompactionLagMs {
			break
		}
		ch.dirtyBytes += s.Size
		ch.ceiling = s.NextOffset
		if ch.overdue || lag >= nowMs {
			continue // no timestamp is that old
		}
		timestamp, err := first(s.BaseOffset)
		if err != nil {
			return ch, err
		}
		ch.overdue = timestamp > 0 && timestamp < nowMs-lag
	}
	return ch, nil
}

// group is a run of segments that are rewritten into one.
type group struct {
	base  int64
	count int
	size  int64
}

// groups divides the segments that begin before end into groups that fit into one segment: by the bytes of the log and
// of each index, and by the span of offsets. Kafka: Cleaner.groupSegmentsBySize. Differs from Kafka: there an empty segment
// fits whatever its span.
func groups(segments []storage.SegmentInfo, end int64, c *storage.TopicConfig) []group {
	var out []group
	var index, times int64
	for _, s := range segments {
		if s.BaseOffset >= end {
			break
		}
		n := len(out) - 1
		fits := n >= 0 &&
			out[n].size+s.Size <= int64(c.SegmentBytes) &&
			index+s.IndexBytes <= int64(c.SegmentIndexBytes) &&
			times+s.TimeIndexBytes <= int64(c.SegmentIndexBytes) &&
			s.NextOffset-1-out[n].base <= math.MaxInt32
		if !fits {
			out = append(out, group{base: s.BaseOffset})
			n++
			index, times = 0, 0
		}
		out[n].count++
		out[n].size += s.Size
		index += s.IndexBytes
		times += s.TimeIndexBytes
	}
	return out
}
