package cleaner

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// Stats is a snapshot of what a Cleaner has done since it was made.
type Stats struct {
	// SegmentsDeleted and BytesDeleted are what retention removed; RetentionErrors is how often it could not.
	SegmentsDeleted, BytesDeleted, RetentionErrors int64
	// Passes of compaction that were made to their end; what they went through, of batches, and what of it stayed.
	Passes                   int64
	BytesRead, BytesKept     int64
	RecordsRead, RecordsKept int64
	// LastPass is when the last of them ended; zero when there was none.
	LastPass time.Time
	// GivenUp are passes that were given up for now, because the log changed meanwhile, or there was no room or no file
	// descriptor for them.
	GivenUp int64
	// Errors is how often a log was set aside.
	Errors int64
	// SetAside names the logs that could not be cleaned, with the reason, by topic and partition.
	SetAside []SetAside
}

// SetAside is a log that is not cleaned again before a restart.
type SetAside struct {
	Topic     string
	Partition int32
	Cause     error
}

// Stats returns a snapshot.
func (c *Cleaner) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	for l, err := range c.setAside {
		if l.Status() != storage.StatusDeleted { // another topic may have its name
			s.SetAside = append(s.SetAside, SetAside{Topic: l.Topic(), Partition: l.Index(), Cause: err})
		}
	}
	slices.SortFunc(s.SetAside, func(a, b SetAside) int {
		if n := strings.Compare(a.Topic, b.Topic); n != 0 {
			return n
		}
		return int(a.Partition) - int(b.Partition)
	})
	return s
}

func name(l *storage.Log) string { return fmt.Sprintf("%s-%d", l.Topic(), l.Index()) }
