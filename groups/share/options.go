package share

import (
	"log/slog"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// Options configures a State. Store and Now must be set.
type Options struct {
	Store  *storage.Store
	Now    func() time.Time
	Logger *slog.Logger // nil discards
	Config Config
}

// Config is what a broker's configuration says of share partitions. Zero fields are
// Kafka's defaults.
type Config struct {
	// StatePartitions and StateSegmentBytes are used when __share_group_state is made.
	// Kafka: share.coordinator.state.topic.num.partitions (50), .segment.bytes (100 MiB).
	StatePartitions   int32
	StateSegmentBytes int32
	// UpdatesPerSnapshot is how many updates follow a snapshot. Kafka:
	// share.coordinator.snapshot.update.records.per.snapshot (500; negative here for none).
	UpdatesPerSnapshot int
	// PruneInterval is how often what snapshots have made superfluous is removed, and
	// ColdSnapshot the age of a snapshot that is then made anew, so that it does not keep
	// the log. Kafka: share.coordinator.state.topic.prune.interval.ms,
	// share.coordinator.cold.partition.snapshot.interval.ms (5 min).
	PruneInterval time.Duration
	ColdSnapshot  time.Duration
	// MaxSessions bounds the share sessions. Kafka: group.share.max.share.sessions (2000).
	MaxSessions int

	// Group returns the effective configs of one group; nil means the defaults for all.
	Group func(id string) GroupConfig
}

// GroupConfig is what one group may have of its own.
type GroupConfig struct {
	Limits
	ReadCommitted bool
	// Reset is where a group begins to read; ResetAge the age of the first record then,
	// for ResetByDuration.
	Reset    Reset
	ResetAge time.Duration
}

// Reset is where a group begins to read. Kafka: share.auto.offset.reset.
type Reset int8

// The policies.
const (
	ResetLatest Reset = iota
	ResetEarliest
	ResetByDuration
)

// DefaultGroupConfig is what Kafka gives a group without configs of its own.
func DefaultGroupConfig() GroupConfig {
	return GroupConfig{Limits: Limits{MaxLocks: 2000, MaxDeliveries: 5, Lock: 30 * time.Second}}
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &o.Config
	fill(&c.StatePartitions, 50)
	fill(&c.StateSegmentBytes, 100<<20)
	fill(&c.UpdatesPerSnapshot, 500)
	fill(&c.PruneInterval, 5*time.Minute)
	fill(&c.ColdSnapshot, 5*time.Minute)
	fill(&c.MaxSessions, 2000)
	if c.Group == nil {
		c.Group = func(string) GroupConfig { return DefaultGroupConfig() }
	}
}

// fill sets what is not set.
func fill[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
