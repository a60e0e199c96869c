package storage

import (
	"math"
	"sort"
	"time"
)

// topicConfigs is the one table of topic configs: those of Apache Kafka 4.4 with their types, defaults, valid values
// and broker-level names, sorted by name. CreateTopics, the two ways of altering, DescribeConfigs, Open's
// TopicDefaults and the documentation all read it.
//
// Kafka: LogConfig.CONFIG, ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS, TopicConfig.
var topicConfigs = []ConfigDef{
	{
		Name: "cleanup.policy", Type: ConfigList, Default: "delete", HasDefault: true,
		Valid: ListOf("compact", "delete"), ValidText: "[compact, delete]",
		Doc: "What happens to old records: delete removes whole segments by retention.ms and retention.bytes, compact " +
			"keeps the last record of each key, both together do both. An empty list keeps everything for ever.",
		Synonyms: []ConfigSynonym{{Name: "log.cleanup.policy"}},
	},
	{
		Name: "compression.gzip.level", Type: ConfigInt, Default: "-1", HasDefault: true,
		Valid: OneOrBetween(-1, 1, 9), ValidText: "[1,...,9] or -1",
		Doc:      "The level used when compression.type is gzip; -1 is the library's own default.",
		Synonyms: []ConfigSynonym{{Name: "compression.gzip.level"}},
	},
	{
		Name: "compression.lz4.level", Type: ConfigInt, Default: "9", HasDefault: true,
		Valid: Between(1, 17), ValidText: "[1,...,17]",
		Doc:      "The level used when compression.type is lz4.",
		Synonyms: []ConfigSynonym{{Name: "compression.lz4.level"}},
	},
	{
		Name: "compression.type", Type: ConfigString, Default: "producer", HasDefault: true,
		Valid: OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), ValidText: "[uncompressed, zstd, lz4, snappy, gzip, producer]",
		Doc:      "The codec in which batches are stored. producer keeps each batch as the producer sent it; with any other value a batch in another codec is compressed again when it is appended.",
		Synonyms: []ConfigSynonym{{Name: "compression.type"}},
	},
	{
		Name: "compression.zstd.level", Type: ConfigInt, Default: "3", HasDefault: true,
		Valid: Between(-131072, 22), ValidText: "[-131072,...,22]",
		Doc:      "The level used when compression.type is zstd.",
		Synonyms: []ConfigSynonym{{Name: "compression.zstd.level"}},
	},
	{
		Name: "delete.retention.ms", Type: ConfigLong, Default: "86400000", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "How long a compacted topic keeps a tombstone after the pass that first saw it, so that a reader who began before sees that the key is gone.",
		Synonyms: []ConfigSynonym{{Name: "log.cleaner.delete.retention.ms"}},
	},
	{
		Name: "errors.deadletterqueue.group.enable", Type: ConfigBoolean, Default: "false", HasDefault: true,
		Doc: "Whether share groups may write records they gave up on to this topic.",
	},
	{
		Name: "file.delete.delay.ms", Type: ConfigLong, Default: "60000", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "How long a file stays on disk after it was taken out of its log or its topic was deleted. What compaction replaced goes at once.",
		Synonyms: []ConfigSynonym{{Name: "log.segment.delete.delay.ms"}},
	},
	{
		Name: "flush.messages", Type: ConfigLong, Default: "9223372036854775807", HasDefault: true,
		Valid: AtLeast(1), ValidText: "[1,...]",
		Doc:      "With gateway.durability=async: a sync is started after this many records. With sync every append is synced anyway.",
		Synonyms: []ConfigSynonym{{Name: "log.flush.interval.messages"}},
	},
	{
		Name: "flush.ms", Type: ConfigLong, Default: "9223372036854775807", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "With gateway.durability=async: a sync is started at the latest this long after an append. With sync every append is synced anyway.",
		Synonyms: []ConfigSynonym{{Name: "log.flush.interval.ms"}, {Name: "log.flush.scheduler.interval.ms"}},
	},
	{
		Name: "follower.replication.throttled.replicas", Type: ConfigList, Default: "", HasDefault: true,
		Valid: throttledReplicas, ValidText: throttledReplicasText,
		Doc: "Replicas whose replication is throttled on the follower's side. Kept and described; a single node does not replicate.",
	},
	{
		Name: "index.interval.bytes", Type: ConfigInt, Default: "4096", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "About how many bytes of a segment lie between two entries of its offset index. Smaller finds an offset faster and makes the index larger.",
		Synonyms: []ConfigSynonym{{Name: "log.index.interval.bytes"}},
	},
	{
		Name: "internal.segment.bytes", Type: ConfigInt, Internal: true,
		Doc: "The segment size, without the lower bound of segment.bytes, which it overrides. For tests.",
	},
	{
		Name: "leader.replication.throttled.replicas", Type: ConfigList, Default: "", HasDefault: true,
		Valid: throttledReplicas, ValidText: throttledReplicasText,
		Doc: "Replicas whose replication is throttled on the leader's side. Kept and described; a single node does not replicate.",
	},
	{
		Name: "local.retention.bytes", Type: ConfigLong, Default: "-2", HasDefault: true,
		Valid: AtLeast(-2), ValidText: "[-2,...]",
		Doc:      "With tiered storage, how many bytes of a partition stay on the local disk; -2 follows retention.bytes.",
		Synonyms: []ConfigSynonym{{Name: "log.local.retention.bytes"}},
	},
	{
		Name: "local.retention.ms", Type: ConfigLong, Default: "-2", HasDefault: true,
		Valid: AtLeast(-2), ValidText: "[-2,...]",
		Doc:      "With tiered storage, how long a segment stays on the local disk; -2 follows retention.ms.",
		Synonyms: []ConfigSynonym{{Name: "log.local.retention.ms"}},
	},
	{
		Name: "max.compaction.lag.ms", Type: ConfigLong, Default: "9223372036854775807", HasDefault: true,
		Valid: AtLeast(1), ValidText: "[1,...]",
		Doc:      "The longest time a record of a compacted topic waits for compaction, however little there is to gain. The active segment is rolled in time for it.",
		Synonyms: []ConfigSynonym{{Name: "log.cleaner.max.compaction.lag.ms"}},
	},
	{
		Name: "max.decompressed.message.bytes", Type: ConfigInt, Default: "2147483639", HasDefault: true,
		Valid: Between(1, 2147483639), ValidText: "[1,...,2147483639]",
		Doc:      "The most bytes the records of a compressed batch may take when the broker decompresses them.",
		Synonyms: []ConfigSynonym{{Name: "max.decompressed.message.bytes"}},
	},
	{
		Name: "max.message.bytes", Type: ConfigInt, Default: "1048588", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "The largest record batch that is accepted, in bytes as it is sent: header included, after compression.",
		Synonyms: []ConfigSynonym{{Name: "message.max.bytes"}},
	},
	{
		Name: "message.timestamp.after.max.ms", Type: ConfigLong, Default: "3600000", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "How far a record's timestamp may lie ahead of the broker's clock, when message.timestamp.type is CreateTime.",
		Synonyms: []ConfigSynonym{{Name: "log.message.timestamp.after.max.ms"}},
	},
	{
		Name: "message.timestamp.before.max.ms", Type: ConfigLong, Default: "9223372036854775807", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "How far a record's timestamp may lie behind the broker's clock, when message.timestamp.type is CreateTime.",
		Synonyms: []ConfigSynonym{{Name: "log.message.timestamp.before.max.ms"}},
	},
	{
		Name: "message.timestamp.type", Type: ConfigString, Default: "CreateTime", HasDefault: true,
		Valid: OneOf("CreateTime", "LogAppendTime"), ValidText: "[CreateTime, LogAppendTime]",
		Doc:      "Whose time a record carries: the producer's (CreateTime) or the broker's at the append (LogAppendTime).",
		Synonyms: []ConfigSynonym{{Name: "log.message.timestamp.type"}},
	},
	{
		Name: "min.cleanable.dirty.ratio", Type: ConfigDouble, Default: "0.5", HasDefault: true,
		Valid: ratio, ValidText: "[0,...,1]",
		Doc:      "The share of a compacted log that must not yet be compacted before it is worth a pass. Higher means fewer passes and more space held by superseded records.",
		Synonyms: []ConfigSynonym{{Name: "log.cleaner.min.cleanable.ratio"}},
	},
	{
		Name: "min.compaction.lag.ms", Type: ConfigLong, Default: "0", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "The shortest time a record of a compacted topic is left alone.",
		Synonyms: []ConfigSynonym{{Name: "log.cleaner.min.compaction.lag.ms"}},
	},
	{
		Name: "min.insync.replicas", Type: ConfigInt, Default: "1", HasDefault: true,
		Valid: AtLeast(1), ValidText: "[1,...]",
		Doc:      "How many replicas must have a record before an acks=all producer is answered. A single node has one.",
		Synonyms: []ConfigSynonym{{Name: "min.insync.replicas"}},
	},
	{
		Name: "preallocate", Type: ConfigBoolean, Default: "false", HasDefault: true,
		Doc:      "Whether a new segment's file is made at its full size. Kept and described; segments grow as they are written.",
		Synonyms: []ConfigSynonym{{Name: "log.preallocate"}},
	},
	{
		Name: "remote.copy.lag.bytes", Type: ConfigLong, Default: "-1", HasDefault: true,
		Valid: AtLeast(-1), ValidText: "[-1,...]",
		Doc:      "With tiered storage, how many bytes must lie after a segment before it is copied; -1 follows the local retention, 0 copies at once.",
		Synonyms: []ConfigSynonym{{Name: "log.remote.copy.lag.bytes"}},
	},
	{
		Name: "remote.copy.lag.ms", Type: ConfigLong, Default: "0", HasDefault: true,
		Valid: AtLeast(-1), ValidText: "[-1,...]",
		Doc:      "With tiered storage, how old a segment must be before it is copied; -1 follows the local retention, 0 copies at once.",
		Synonyms: []ConfigSynonym{{Name: "log.remote.copy.lag.ms"}},
	},
	{
		Name: "remote.log.copy.disable", Type: ConfigBoolean, Default: "false", HasDefault: true,
		Doc: "With tiered storage, stops copying and leaves what was copied readable.",
	},
	{
		Name: "remote.log.delete.on.disable", Type: ConfigBoolean, Default: "false", HasDefault: true,
		Doc: "Whether turning remote.storage.enable off deletes what was copied.",
	},
	{
		Name: "remote.storage.enable", Type: ConfigBoolean, Default: "false", HasDefault: true,
		Doc: "Turns tiered storage on for the topic. There is none here, so only false is accepted.",
	},
	{
		Name: "retention.bytes", Type: ConfigLong, Default: "-1", HasDefault: true,
		Doc:      "How many bytes of a partition are kept at least when cleanup.policy has delete; -1 is no limit by size. Whole segments are removed.",
		Synonyms: []ConfigSynonym{{Name: "log.retention.bytes"}},
	},
	{
		Name: "retention.ms", Type: ConfigLong, Default: "604800000", HasDefault: true,
		Valid: AtLeast(-1), ValidText: "[-1,...]",
		Doc: "How long records are kept at least when cleanup.policy has delete; -1 is no limit by time. Whole segments are removed, once their newest record is older.",
		Synonyms: []ConfigSynonym{
			{Name: "log.retention.ms"},
			{Name: "log.retention.minutes", Convert: minutesToMs},
			{Name: "log.retention.hours", Convert: hoursToMs},
		},
	},
	{
		Name: "segment.bytes", Type: ConfigInt, Default: "1073741824", HasDefault: true,
		Valid: AtLeast(1 << 20), ValidText: "[1048576,...]",
		Doc:      "The size at which a segment is closed and the next one begun. Deletion and compaction work on closed segments.",
		Synonyms: []ConfigSynonym{{Name: "log.segment.bytes"}},
	},
	{
		Name: "segment.index.bytes", Type: ConfigInt, Default: "10485760", HasDefault: true,
		Valid: AtLeast(4), ValidText: "[4,...]",
		Doc:      "The largest size of a segment's index files; a segment whose index is full is closed.",
		Synonyms: []ConfigSynonym{{Name: "log.index.size.max.bytes"}},
	},
	{
		Name: "segment.jitter.ms", Type: ConfigLong, Default: "0", HasDefault: true,
		Valid: AtLeast(0), ValidText: "[0,...]",
		Doc:      "Up to this much is taken off segment.ms at random, once per segment, so that many partitions do not close segments together.",
		Synonyms: []ConfigSynonym{{Name: "log.roll.jitter.ms"}, {Name: "log.roll.jitter.hours", Convert: hoursToMs}},
	},
	{
		Name: "segment.ms", Type: ConfigLong, Default: "604800000", HasDefault: true,
		Valid: AtLeast(1), ValidText: "[1,...]",
		Doc:      "The span of time, by the records' timestamps, after which a segment is closed even when it is not full. On a compacted topic max.compaction.lag.ms applies when it is shorter.",
		Synonyms: []ConfigSynonym{{Name: "log.roll.ms"}, {Name: "log.roll.hours", Convert: hoursToMs}},
	},
	{
		Name: "unclean.leader.election.enable", Type: ConfigBoolean, Default: "false", HasDefault: true,
		Doc:      "Whether a replica that lacks records may become leader. Kept and described; a single node has no other.",
		Synonyms: []ConfigSynonym{{Name: "unclean.leader.election.enable"}},
	},
}

// TopicConfigs returns the table, sorted by name. Callers must not change it.
func TopicConfigs() []ConfigDef { return topicConfigs }

// TopicConfigDef returns the row of a config, false when no topic config has that name.
func TopicConfigDef(name string) (*ConfigDef, bool) {
	i := sort.Search(len(topicConfigs), func(i int) bool { return topicConfigs[i].Name >= name })
	if i == len(topicConfigs) || topicConfigs[i].Name != name {
		return nil, false
	}
	return &topicConfigs[i], true
}

// TopicConfig is the effective config of a topic: its overrides over the broker-level defaults over the table's.
// It is immutable.
type TopicConfig struct {
	SegmentBytes       int32 // internal.segment.bytes when that is set
	SegmentMs          int64 // see MaxSegmentMs
	SegmentJitterMs    int64
	IndexIntervalBytes int32
	SegmentIndexBytes  int32

	MaxMessageBytes      int32
	MaxDecompressedBytes int32  // of the records of one batch
	CompressionType      string // "producer" keeps the batch's own
	GzipLevel            int
	LZ4Level             int
	ZstdLevel            int
	LogAppendTime        bool // message.timestamp.type
	TimestampBeforeMaxMs int64
	TimestampAfterMaxMs  int64

	Compact                bool // cleanup.policy; both may be off
	Delete                 bool
	RetentionMs            int64 // -1 is no limit
	RetentionBytes         int64 // negative is no limit
	DeleteRetentionMs      int64
	MinCompactionLagMs     int64
	MaxCompactionLagMs     int64
	MinCleanableDirtyRatio float64
	FileDeleteDelayMs      int64

	FlushMessages int64
	FlushMs       int64

	MinInsyncReplicas    int32
	RemoteStorageEnabled bool
}

// MaxSegmentMs is the time after which a segment is rolled: a compacted topic does not wait longer than
// max.compaction.lag.ms, since the active segment is never compacted. Kafka: LogConfig.maxSegmentMs.
func (c *TopicConfig) MaxSegmentMs() int64 {
	if c.Compact && c.MaxCompactionLagMs > 0 {
		return min(c.MaxCompactionLagMs, c.SegmentMs)
	}
	return c.SegmentMs
}

// fileDeleteDelay is file.delete.delay.ms. What a Duration cannot hold is as good as for ever.
func (c *TopicConfig) fileDeleteDelay() time.Duration {
	return time.Duration(min(c.FileDeleteDelayMs, math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
}

// newTopicConfig makes the effective config of valid overrides over valid defaults.
func newTopicConfig(overrides, defaults map[string]string) *TopicConfig {
	v := configValues{overrides: overrides, defaults: defaults}
	c := &TopicConfig{
		SegmentBytes:       int32(v.integer("segment.bytes")),
		SegmentMs:          v.integer("segment.ms"),
		SegmentJitterMs:    v.integer("segment.jitter.ms"),
		IndexIntervalBytes: int32(v.integer("index.interval.bytes")),
		SegmentIndexBytes:  int32(v.integer("segment.index.bytes")),

		MaxMessageBytes:      int32(v.integer("max.message.bytes")),
		MaxDecompressedBytes: int32(v.integer("max.decompressed.message.bytes")),
		CompressionType:      v.text("compression.type"),
		GzipLevel:            int(v.integer("compression.gzip.level")),
		LZ4Level:             int(v.integer("compression.lz4.level")),
		ZstdLevel:            int(v.integer("compression.zstd.level")),
		LogAppendTime:        v.text("message.timestamp.type") == "LogAppendTime",
		TimestampBeforeMaxMs: v.integer("message.timestamp.before.max.ms"),
		TimestampAfterMaxMs:  v.integer("message.timestamp.after.max.ms"),

		RetentionMs:            v.integer("retention.ms"),
		RetentionBytes:         v.integer("retention.bytes"),
		DeleteRetentionMs:      v.integer("delete.retention.ms"),
		MinCompactionLagMs:     v.integer("min.compaction.lag.ms"),
		MaxCompactionLagMs:     v.integer("max.compaction.lag.ms"),
		MinCleanableDirtyRatio: v.double("min.cleanable.dirty.ratio"),
		FileDeleteDelayMs:      v.integer("file.delete.delay.ms"),

		FlushMessages: v.integer("flush.messages"),
		FlushMs:       v.integer("flush.ms"),

		MinInsyncReplicas:    int32(v.integer("min.insync.replicas")),
		RemoteStorageEnabled: v.text("remote.storage.enable") == "true",
	}
	if s, ok := v.lookup("internal.segment.bytes"); ok && s != "" {
		c.SegmentBytes = int32(max(v.integer("internal.segment.bytes"), 0))
	}
	for _, policy := range splitConfigList(v.text("cleanup.policy")) {
		c.Compact = c.Compact || policy == "compact"
		c.Delete = c.Delete || policy == "delete"
	}
	return c
}
