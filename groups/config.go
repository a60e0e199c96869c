package groups

import (
	"math"
	"time"
)

// MigrationPolicy says which groups change their protocol online. Kafka: ConsumerGroupMigrationPolicy.
type MigrationPolicy string

// The policies, by Kafka's names.
const (
	MigrateBidirectional MigrationPolicy = "bidirectional"
	MigrateUpgrade       MigrationPolicy = "upgrade"
	MigrateDowngrade     MigrationPolicy = "downgrade"
	MigrateDisabled      MigrationPolicy = "disabled"
)

// Config is what a broker's configuration says of groups. Zero fields are Kafka's
// defaults, except where said.
type Config struct {
	// Classic groups. Kafka: group.min.session.timeout.ms (6 s), group.max.session.timeout.ms
	// (30 min), group.initial.rebalance.delay.ms (negative means Kafka's 3 s; zero is
	// none), group.max.size.
	MinSessionTimeout     time.Duration
	MaxSessionTimeout     time.Duration
	InitialRebalanceDelay time.Duration
	MaxSize               int

	// Expiry. Kafka: offsets.retention.minutes (7 days), offsets.retention.check.interval.ms (10 min).
	OffsetsRetention     time.Duration
	OffsetsCheckInterval time.Duration

	// Consumer groups (KIP-848). Kafka: group.consumer.max.size, group.consumer.assignors
	// (uniform, range), group.consumer.migration.policy (bidirectional),
	// group.consumer.regex.refresh.interval.ms (10 min), group.coordinator.rebalance.protocols.
	ConsumerMaxSize         int
	ConsumerAssignors       []string
	Migration               MigrationPolicy
	RegexRefresh            time.Duration
	ConsumerProtocolRefused bool

	// Share groups (KIP-932). Kafka: group.share.max.size (200),
	// group.share.initialize.retry.interval.ms (30 s).
	ShareMaxSize         int
	ShareInitializeRetry time.Duration

	// Group returns the effective configs of one group; nil means the defaults for all.
	Group func(id string) GroupConfig
}

// setDefaults fills in what is not set, so that machines need not ask.
func (c *Config) setDefaults() {
	fill(&c.MinSessionTimeout, 6*time.Second)
	fill(&c.MaxSessionTimeout, 30*time.Minute)
	if c.InitialRebalanceDelay < 0 {
		c.InitialRebalanceDelay = 3 * time.Second
	}
	fill(&c.MaxSize, math.MaxInt32)
	fill(&c.OffsetsRetention, 7*24*time.Hour)
	fill(&c.OffsetsCheckInterval, 10*time.Minute)
	fill(&c.ConsumerMaxSize, math.MaxInt32)
	if c.ConsumerAssignors == nil {
		c.ConsumerAssignors = []string{"uniform", "range"}
	}
	fill(&c.Migration, MigrateBidirectional)
	fill(&c.RegexRefresh, 10*time.Minute)
	fill(&c.ShareMaxSize, 200)
	fill(&c.ShareInitializeRetry, 30*time.Second)
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

// GroupConfig is what one group may have of its own (config resource GROUP).
type GroupConfig struct {
	ConsumerSessionTimeout     time.Duration // 45 s
	ConsumerHeartbeatInterval  time.Duration // 5 s
	ConsumerAssignmentInterval time.Duration // 1 s
	ShareSessionTimeout        time.Duration // 45 s
	ShareHeartbeatInterval     time.Duration // 5 s
	ShareAssignmentInterval    time.Duration // 1 s
}

// DefaultGroupConfig is what Kafka gives a group without configs of its own.
func DefaultGroupConfig() GroupConfig {
	return GroupConfig{
		ConsumerSessionTimeout: 45 * time.Second, ConsumerHeartbeatInterval: 5 * time.Second, ConsumerAssignmentInterval: time.Second,
		ShareSessionTimeout: 45 * time.Second, ShareHeartbeatInterval: 5 * time.Second, ShareAssignmentInterval: time.Second,
	}
}
