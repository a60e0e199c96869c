package wire

import (
	"strconv"
	"strings"
	"time"

	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
)

// Shares is what the configuration says of share partitions. The configs of one group are read when they are asked for,
// so that a change holds from then on.
func (c *BrokerConfig) Shares(store *storage.Store) share.Config {
	duration := func(name string) time.Duration { return time.Duration(c.Int(name)) * time.Millisecond }
	updates := int(c.Int("share.coordinator.snapshot.update.records.per.snapshot"))
	if updates == 0 {
		updates = -1 // a snapshot each time, where 0 would be the default
	}
	return share.Config{
		StatePartitions:    int32(c.Int("share.coordinator.state.topic.num.partitions")),
		StateSegmentBytes:  int32(c.Int("share.coordinator.state.topic.segment.bytes")),
		UpdatesPerSnapshot: updates,
		PruneInterval:      duration("share.coordinator.state.topic.prune.interval.ms"),
		ColdSnapshot:       duration("share.coordinator.cold.partition.snapshot.interval.ms"),
		MaxSessions:        int(c.Int("group.share.max.share.sessions")),
		Group:              func(id string) share.GroupConfig { return c.shareGroup(store.ResourceConfigs(kindGroup, id)) },
	}
}

// shareGroup is what holds for a share group with configs of its own.
func (c *BrokerConfig) shareGroup(own map[string]string) share.GroupConfig {
	g := share.GroupConfig{
		Limits: share.Limits{
			MaxLocks:      int(c.boundedNumber(own, "share.partition.max.record.locks")),
			MaxDeliveries: int(c.boundedNumber(own, "share.delivery.count.limit")),
			Lock:          time.Duration(c.boundedNumber(own, "share.record.lock.duration.ms")) * time.Millisecond,
			RenewRefused:  own["share.renew.acknowledge.enable"] == "false",
		},
		ReadCommitted: own["share.isolation.level"] == "read_committed",
	}
	switch reset := own["share.auto.offset.reset"]; {
	case reset == "earliest":
		g.Reset = share.ResetEarliest
	case strings.HasPrefix(reset, "by_duration:"):
		g.Reset = share.ResetByDuration
		g.ResetAge, _ = parseDuration(strings.TrimPrefix(reset, "by_duration:")) // checked when it was set
	}
	return g
}

// parseDuration reads an ISO 8601 duration as Java's Duration.parse does.
func parseDuration(text string) (time.Duration, bool) {
	m := duration.FindStringSubmatch(text)
	if m == nil || strings.HasSuffix(strings.ToUpper(text), "T") || m[2]+m[3]+m[4]+m[5] == "" {
		return 0, false
	}
	seconds := 0.0
	for i, unit := range []float64{86400, 3600, 60, 1} {
		n, _ := strconv.ParseFloat(strings.ReplaceAll(m[i+2], ",", "."), 64)
		seconds += n * unit
	}
	if m[1] == "-" {
		seconds = -seconds
	}
	return time.Duration(min(seconds, 1<<33) * float64(time.Second)), true
}
