package wire

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
)

// groupConfigs are the configs that a group may have of its own, sorted by name. A synonym is the broker config that
// gives the default. Those of consumer and share groups have an effect, but for the dead letter queue; those of streams
// groups are kept and described.
//
// Kafka: GroupConfig.CONFIG_DEF, ALL_GROUP_CONFIG_SYNONYMS.
var groupConfigs = []storage.ConfigDef{
	{Name: "consumer.assignment.interval.ms", Type: storage.ConfigInt, Default: "1000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]",
		Doc: "The least time between two assignments of a consumer group.", Synonyms: []storage.ConfigSynonym{{Name: "group.consumer.assignment.interval.ms"}}},
	{Name: "consumer.assignor.offload.enable", Type: storage.ConfigBoolean, Default: "true", HasDefault: true, Internal: true,
		Doc: "Compute the assignments of a consumer group in the background.", Synonyms: []storage.ConfigSynonym{{Name: "group.consumer.assignor.offload.enable"}}},
	{Name: "consumer.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]",
		Doc: "How often a member of a consumer group sends a heartbeat.", Synonyms: []storage.ConfigSynonym{{Name: "group.consumer.heartbeat.interval.ms"}}},
	{Name: "consumer.session.timeout.ms", Type: storage.ConfigInt, Default: "45000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]",
		Doc: "How long a member of a consumer group may be silent.", Synonyms: []storage.ConfigSynonym{{Name: "group.consumer.session.timeout.ms"}}},
	{Name: "errors.deadletterqueue.copy.record.enable", Type: storage.ConfigBoolean, Default: "false", HasDefault: true,
		Doc: "Put the record itself into the dead letter queue of a share group, besides what is known about it."},
	{Name: "errors.deadletterqueue.topic.name", Type: storage.ConfigString, Default: "", HasDefault: true,
		Doc: "The topic that is the dead letter queue of a share group; empty is none."},
	{Name: "share.assignment.interval.ms", Type: storage.ConfigInt, Default: "1000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]",
		Doc: "The least time between two assignments of a share group.", Synonyms: []storage.ConfigSynonym{{Name: "group.share.assignment.interval.ms"}}},
	{Name: "share.assignor.offload.enable", Type: storage.ConfigBoolean, Default: "true", HasDefault: true, Internal: true,
		Doc: "Compute the assignments of a share group in the background.", Synonyms: []storage.ConfigSynonym{{Name: "group.share.assignor.offload.enable"}}},
	{Name: "share.auto.offset.reset", Type: storage.ConfigString, Default: "latest", HasDefault: true, Valid: shareReset, ValidText: "earliest, latest or by_duration:PnDTnHnMn.nS",
		Doc: "Where a share group begins in a partition: earliest, latest, or by_duration with how far back from now, as in by_duration:PT1H."},
	{Name: "share.delivery.count.limit", Type: storage.ConfigInt, Default: "5", HasDefault: true, Valid: storage.AtLeast(2), ValidText: "[2,...]",
		Doc: "How often a record is delivered to a share group before it is given up.", Synonyms: []storage.ConfigSynonym{{Name: "group.share.delivery.count.limit"}}},
	{Name: "share.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]",
		Doc: "How often a member of a share group sends a heartbeat.", Synonyms: []storage.ConfigSynonym{{Name: "group.share.heartbeat.interval.ms"}}},
	{Name: "share.isolation.level", Type: storage.ConfigString, Default: "read_uncommitted", HasDefault: true, Valid: storage.OneOf("read_committed", "read_uncommitted"), ValidText: "[read_committed, read_uncommitted]",
		Doc: "Whether a share group gets records of transactions that are open or aborted."},
	{Name: "share.partition.max.record.locks", Type: storage.ConfigInt, Default: "2000", HasDefault: true, Valid: storage.AtLeast(100), ValidText: "[100,...]",
		Doc: "How many records of a partition a share group may have under way.", Synonyms: []storage.ConfigSynonym{{Name: "group.share.partition.max.record.locks"}}},
	{Name: "share.record.lock.duration.ms", Type: storage.ConfigInt, Default: "30000", HasDefault: true, Valid: storage.AtLeast(1000), ValidText: "[1000,...]",
		Doc: "How long a member of a share group has a record to itself.", Synonyms: []storage.ConfigSynonym{{Name: "group.share.record.lock.duration.ms"}}},
	{Name: "share.renew.acknowledge.enable", Type: storage.ConfigBoolean, Default: "true", HasDefault: true,
		Doc: "Whether a member of a share group may keep a record for longer."},
	{Name: "share.session.timeout.ms", Type: storage.ConfigInt, Default: "45000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]",
		Doc: "How long a member of a share group may be silent.", Synonyms: []storage.ConfigSynonym{{Name: "group.share.session.timeout.ms"}}},
	{Name: "streams.acceptable.recovery.lag", Type: storage.ConfigLong, Default: "10000", HasDefault: true, Internal: true, Valid: storage.AtLeast(0), ValidText: "[0,...]",
		Doc: "How far behind a member of a streams group may be to take over a task.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.acceptable.recovery.lag"}}},
	{Name: "streams.assignment.interval.ms", Type: storage.ConfigInt, Default: "1000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]",
		Doc: "The least time between two assignments of a streams group.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.assignment.interval.ms"}}},
	{Name: "streams.assignor.name", Type: storage.ConfigString,
		Doc: "Which of group.streams.assignors a streams group uses; the first when it is not set.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.assignors"}}},
	{Name: "streams.assignor.offload.enable", Type: storage.ConfigBoolean, Default: "true", HasDefault: true, Internal: true,
		Doc: "Compute the assignments of a streams group in the background.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.assignor.offload.enable"}}},
	{Name: "streams.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]",
		Doc: "How often a member of a streams group sends a heartbeat.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.heartbeat.interval.ms"}}},
	{Name: "streams.initial.rebalance.delay.ms", Type: storage.ConfigInt, Default: "3000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]",
		Doc: "How long an empty streams group waits for more members.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.initial.rebalance.delay.ms"}}},
	{Name: "streams.num.standby.replicas", Type: storage.ConfigInt, Default: "0", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]",
		Doc: "Standby tasks of a streams group for each task.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.num.standby.replicas"}}},
	{Name: "streams.num.warmup.replicas", Type: storage.ConfigInt, Default: "2", HasDefault: true, Internal: true, Valid: storage.AtLeast(0), ValidText: "[0,...]",
		Doc: "Tasks of a streams group that warm up at a time.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.num.warmup.replicas"}}},
	{Name: "streams.rack.aware.assignment.tags", Type: storage.ConfigList, Default: "", HasDefault: true, Valid: fullElements, ValidText: "[non-empty elements]",
		Doc: "Client tags over which a streams group spreads standby tasks.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.rack.aware.assignment.tags"}}},
	{Name: "streams.session.timeout.ms", Type: storage.ConfigInt, Default: "45000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]",
		Doc: "How long a member of a streams group may be silent.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.session.timeout.ms"}}},
	{Name: "streams.task.offset.interval.ms", Type: storage.ConfigInt, Default: "60000", HasDefault: true, Internal: true, Valid: storage.AtLeast(1), ValidText: "[1,...]",
		Doc: "How often a member of a streams group tells its tasks' offsets.", Synonyms: []storage.ConfigSynonym{{Name: "group.streams.task.offset.interval.ms"}}},
}

// groupBounds are the broker configs between which a group's value must lie; "" is no bound.
// Kafka: GroupConfig.validateValues, whose order this is.
var groupBounds = []struct{ name, least, most string }{
	{"consumer.heartbeat.interval.ms", "group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"consumer.session.timeout.ms", "group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"consumer.assignment.interval.ms", "group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"share.heartbeat.interval.ms", "group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"share.session.timeout.ms", "group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"share.record.lock.duration.ms", "group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"share.delivery.count.limit", "group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"share.partition.max.record.locks", "group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"share.assignment.interval.ms", "group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"streams.heartbeat.interval.ms", "group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"streams.session.timeout.ms", "group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"streams.num.standby.replicas", "", "group.streams.max.standby.replicas"},
	{"streams.assignment.interval.ms", "group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"streams.task.offset.interval.ms", "group.streams.min.task.offset.interval.ms", ""},
	{"streams.num.warmup.replicas", "", "group.streams.max.warmup.replicas"},
}

// duration is Java's Duration.parse, as far as its sign can be told.
var duration = regexp.MustCompile(`(?i)^([-+]?)P(?:([-+]?\d+)D)?(?:T(?:([-+]?\d+)H)?(?:([-+]?\d+)M)?(?:([-+]?\d+(?:[.,]\d{0,9})?)S)?)?$`)

// shareReset checks share.auto.offset.reset. Kafka: ShareGroupAutoOffsetResetStrategy.
func shareReset(v string) error {
	if v == "earliest" || v == "latest" {
		return nil
	}
	text, ok := strings.CutPrefix(v, "by_duration:")
	d, valid := parseDuration(text)
	if !ok || !valid {
		return fmt.Errorf("%q, want earliest, latest or by_duration:PnDTnHnMn.nS", v)
	}
	if d < 0 {
		return fmt.Errorf("%q, want a duration that is not negative", v)
	}
	return nil
}

// describeGroup lists the configs of a group; one that has none of its own has the broker's.
func (c *BrokerConfig) describeGroup(own map[string]string) []describedConfig {
	out := make([]describedConfig, 0, len(groupConfigs))
	for i := range groupConfigs {
		d := &groupConfigs[i]
		value, isOwn := own[d.Name]
		if d.Internal && !isOwn {
			continue
		}
		var synonyms []configSynonym
		if isOwn {
			synonyms = append(synonyms, synonym(d.Name, value, sourceGroup, false))
		} else {
			value = c.groupDefault(d)
		}
		if len(d.Synonyms) > 0 {
			synonyms = append(synonyms, c.synonymsOf(d.Synonyms[0].Name, false)...)
		} else if d.HasDefault {
			synonyms = append(synonyms, synonym(d.Name, d.Default, sourceDefault, false))
		}
		out = append(out, described(d, &value, synonyms))
	}
	return out
}

// groupDefault is the value of a config for groups that have none of their own.
func (c *BrokerConfig) groupDefault(d *storage.ConfigDef) string {
	if len(d.Synonyms) == 0 {
		return d.Default
	}
	value := c.String(d.Synonyms[0].Name)
	if d.Type == storage.ConfigString { // of the broker's list the first
		value, _, _ = strings.Cut(value, ",")
	}
	return value
}

// checkGroup checks the configs of a group, within the bounds that the broker's set, and returns them in canonical
// text. The errors are *storage.ConfigError. Kafka: GroupConfig.validate.
func (c *BrokerConfig) checkGroup(configs map[string]string) (map[string]string, error) {
	const tags, assignor, deadLetters = "streams.rack.aware.assignment.tags", "streams.assignor.name", "errors.deadletterqueue.topic.name"
	fault := func(name, format string, args ...any) error {
		return &storage.ConfigError{Name: name, Value: configs[name], Reason: fmt.Sprintf(format, args...)}
	}
	given := configs[tags]
	configs, err := canonicalConfigs(groupConfigs, configs)
	if err != nil {
		return nil, err
	}
	if n := len(strings.Split(given, ",")); given != "" && n != len(splitList(configs[tags])) {
		return nil, fault(tags, "%q names a tag more than once", given)
	}
	for _, b := range groupBounds {
		v, ok := configs[b.name]
		if !ok {
			continue
		}
		n, _ := strconv.ParseInt(v, 10, 64)
		if b.least != "" && n < c.Int(b.least) {
			return nil, fault(b.name, "%d, want at least %s, which is %d", n, b.least, c.Int(b.least))
		}
		if b.most != "" && n > c.Int(b.most) {
			return nil, fault(b.name, "%d, want at most %s, which is %d", n, b.most, c.Int(b.most))
		}
	}
	if v, ok := configs[assignor]; ok && !slices.Contains(c.List("group.streams.assignors"), v) {
		return nil, fault(assignor, "%q, want one of group.streams.assignors, %s", v, c.String("group.streams.assignors"))
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := kind+".session.timeout.ms", kind+".heartbeat.interval.ms"
		_, a := configs[session]
		_, b := configs[heartbeat]
		if s, h := c.groupNumber(configs, session), c.groupNumber(configs, heartbeat); (a || b) && s <= h {
			return nil, fault(session, "%d, want more than %s, which is %d", s, heartbeat, h)
		}
	}
	if strings.HasPrefix(configs[deadLetters], "__") {
		return nil, fault(deadLetters, "%q is the name of an internal topic", configs[deadLetters])
	}
	return configs, nil
}

// groupNumber returns the effective value of a numeric config of a group.
func (c *BrokerConfig) groupNumber(own map[string]string, name string) int64 {
	v, ok := own[name]
	if !ok {
		d, _ := findConfig(groupConfigs, name)
		v = c.groupDefault(d)
	}
	n, _ := strconv.ParseInt(v, 10, 64)
	return n
}

// Groups is what the configuration says of groups. The configs of one group are read when the coordinator asks, so that
// a change holds from then on; those of all groups are what they were at the start.
func (c *BrokerConfig) Groups(store *storage.Store) groups.Config {
	duration := func(name string) time.Duration { return time.Duration(c.Int(name)) * time.Millisecond }
	return groups.Config{
		MinSessionTimeout:     duration("group.min.session.timeout.ms"),
		MaxSessionTimeout:     duration("group.max.session.timeout.ms"),
		InitialRebalanceDelay: duration("group.initial.rebalance.delay.ms"),
		MaxSize:               int(c.Int("group.max.size")),

		OffsetsRetention:     time.Duration(c.Int("offsets.retention.minutes")) * time.Minute,
		OffsetsCheckInterval: duration("offsets.retention.check.interval.ms"),

		ConsumerMaxSize:         int(c.Int("group.consumer.max.size")),
		ConsumerAssignors:       c.List("group.consumer.assignors"),
		Migration:               groups.MigrationPolicy(strings.ToLower(c.String("group.consumer.migration.policy"))),
		RegexRefresh:            duration("group.consumer.regex.refresh.interval.ms"),
		ConsumerProtocolRefused: !slices.Contains(c.List("group.coordinator.rebalance.protocols"), "consumer"),

		ShareMaxSize:         int(c.Int("group.share.max.size")),
		ShareInitializeRetry: duration("group.share.initialize.retry.interval.ms"),

		Group: func(id string) groups.GroupConfig {
			return c.group(store.ResourceConfigs(kindGroup, id))
		},
	}
}

// boundedNumber is groupNumber, where a value that was set under other bounds is moved into those that the broker's set
// now. Kafka: GroupConfig.evaluate.
func (c *BrokerConfig) boundedNumber(own map[string]string, name string) int64 {
	n := c.groupNumber(own, name)
	for _, b := range groupBounds {
		if _, ok := own[name]; ok && b.name == name {
			n = min(max(n, c.Int(b.least)), c.Int(b.most))
		}
	}
	return n
}

// group is what holds for a group with configs of its own.
func (c *BrokerConfig) group(own map[string]string) groups.GroupConfig {
	duration := func(name string) time.Duration {
		return time.Duration(c.boundedNumber(own, name)) * time.Millisecond
	}
	return groups.GroupConfig{
		ConsumerSessionTimeout:     duration("consumer.session.timeout.ms"),
		ConsumerHeartbeatInterval:  duration("consumer.heartbeat.interval.ms"),
		ConsumerAssignmentInterval: duration("consumer.assignment.interval.ms"),
		ShareSessionTimeout:        duration("share.session.timeout.ms"),
		ShareHeartbeatInterval:     duration("share.heartbeat.interval.ms"),
		ShareAssignmentInterval:    duration("share.assignment.interval.ms"),
	}
}
