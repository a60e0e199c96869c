package wire

import (
	"fmt"
	"net"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
)

// honouredConfigs are the broker configs that have an effect here, sorted by name.
// Kafka's come with Kafka 4.4's types, defaults and valid values; ours begin with
// "gateway.".
//
// Kafka: AbstractKafkaConfig.CONFIG_DEF, DynamicBrokerConfig.
var honouredConfigs = []brokerDef{
	{storage.ConfigDef{Name: "add.partitions.to.txn.retry.backoff.max.ms", Type: storage.ConfigInt, Default: "100", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How long a Produce tries to add its partitions to a transaction while the last one is being ended."}, readOnly, honoured},
	{storage.ConfigDef{Name: "add.partitions.to.txn.retry.backoff.ms", Type: storage.ConfigInt, Default: "20", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Pause between two of those tries."}, readOnly, honoured},
	{storage.ConfigDef{Name: "advertised.listeners", Type: storage.ConfigList, Doc: "Addresses that clients are told to connect to, NAME://HOST:PORT for each listener; the bound address where none is given."}, readOnly, honoured},
	{storage.ConfigDef{Name: "allow.everyone.if.no.acl.found", Type: storage.ConfigBoolean, Doc: "With an authorizer: allow everyone what no ACL speaks of; false when it is not set."}, readOnly, unlisted},
	{storage.ConfigDef{Name: "authorizer.class.name", Type: storage.ConfigString, Default: "", HasDefault: true, Valid: isAuthorizer, ValidText: "[" + standardAuthorizer + "] or empty", Doc: "What decides who may do what: Kafka's StandardAuthorizer, by ACLs; empty allows everyone everything."}, readOnly, honoured},
	{storage.ConfigDef{Name: "auto.create.topics.enable", Type: storage.ConfigBoolean, Default: "true", HasDefault: true, Doc: "Make a topic when a client asks for its metadata and it does not exist."}, readOnly, honoured},
	{storage.ConfigDef{Name: "broker.id", Type: storage.ConfigInt, Default: "-1", HasDefault: true, Doc: "The older name of node.id."}, readOnly, honoured},
	{storage.ConfigDef{Name: "broker.rack", Type: storage.ConfigString, Doc: "Rack that the broker reports in Metadata; none by default."}, readOnly, honoured},
	{storage.ConfigDef{Name: "compression.gzip.level", Type: storage.ConfigInt, Default: "-1", HasDefault: true, Valid: storage.OneOrBetween(-1, 1, 9), ValidText: "[1,...,9] or -1", Doc: "Level of gzip where the broker compresses; -1 is the codec's own default."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "compression.lz4.level", Type: storage.ConfigInt, Default: "9", HasDefault: true, Valid: storage.Between(1, 17), ValidText: "[1,...,17]", Doc: "Level of lz4 where the broker compresses."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "compression.type", Type: storage.ConfigString, Default: "producer", HasDefault: true, Valid: storage.OneOf("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"), ValidText: "[uncompressed, zstd, lz4, snappy, gzip, producer]", Doc: "Codec that batches are stored in; producer keeps what the producer used."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "compression.zstd.level", Type: storage.ConfigInt, Default: "3", HasDefault: true, Valid: storage.Between(-131072, 22), ValidText: "[-131072,...,22]", Doc: "Level of zstd where the broker compresses."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "connection.failed.authentication.delay.ms", Type: storage.ConfigInt, Default: "100", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How long the answer to a client that failed to authenticate, and the end of its connection, are held back."}, readOnly, honoured},
	{storage.ConfigDef{Name: "connections.max.idle.ms", Type: storage.ConfigLong, Default: "600000", HasDefault: true, Doc: "Close a connection that was silent for this long."}, readOnly, honoured},
	{storage.ConfigDef{Name: "connections.max.reauth.ms", Type: storage.ConfigLong, Default: "0", HasDefault: true, Doc: "How long a client that authenticated is served before it has to do so again on the same connection; 0 is for ever. Also as listener.name.LISTENER.MECHANISM.connections.max.reauth.ms."}, readOnly, honoured},
	{storage.ConfigDef{Name: "controller.listener.names", Type: storage.ConfigList, Doc: "Listeners that Kafka's controllers would use; they are dropped here."}, readOnly, honoured},
	{storage.ConfigDef{Name: "controller.quota.window.num", Type: storage.ConfigInt, Default: "11", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Windows over which the quota for partitions made and deleted may be saved up."}, readOnly, honoured},
	{storage.ConfigDef{Name: "controller.quota.window.size.seconds", Type: storage.ConfigInt, Default: "1", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Length of such a window."}, readOnly, honoured},
	{storage.ConfigDef{Name: "default.replication.factor", Type: storage.ConfigInt, Default: "1", HasDefault: true, Doc: "Replication factor of a topic created without one."}, readOnly, honoured},
	{storage.ConfigDef{Name: "delete.topic.enable", Type: storage.ConfigBoolean, Default: "true", HasDefault: true, Doc: "Allow topics to be deleted."}, readOnly, honoured},
	{storage.ConfigDef{Name: "fetch.max.bytes", Type: storage.ConfigInt, Default: "57671680", HasDefault: true, Valid: storage.AtLeast(1024), ValidText: "[1024,...]", Doc: "Most bytes in the answer to one Fetch; a first batch may exceed it."}, readOnly, honoured},
	{storage.ConfigDef{Name: "gateway.answer.memory.bytes", Type: storage.ConfigLong, Default: "268435456", HasDefault: true, Valid: storage.AtLeast(1 << 20), ValidText: "[1048576,...]", Doc: "Memory that answers on their way to clients may hold together; further ones wait."}, readOnly, honoured},
	{storage.ConfigDef{Name: "gateway.durability", Type: storage.ConfigString, Default: "sync", HasDefault: true, Valid: storage.OneOf("sync", "async"), ValidText: "[sync, async]", Doc: "When an append counts as durable: sync waits for the disk, async for the page cache."}, readOnly, honoured},
	{storage.ConfigDef{Name: "gateway.http.listen", Type: storage.ConfigString, Default: "", HasDefault: true, Valid: isHTTPAddress, ValidText: "HOST:PORT or empty", Doc: "Where /metrics for Prometheus, /health and /ready are served over HTTP; empty is nowhere. Without HOST, 127.0.0.1; port 0 takes a free one, which the log names. Whoever reaches it may read it: there is no authentication."}, readOnly, honoured},
	{storage.ConfigDef{Name: "gateway.open.files", Type: storage.ConfigInt, Default: "1024", HasDefault: true, Valid: storage.AtLeast(16), ValidText: "[16,...]", Doc: "Most data files kept open at once; others are opened again when they are used."}, readOnly, honoured},
	{storage.ConfigDef{Name: "gateway.replication.factor", Type: storage.ConfigString, Default: "strict", HasDefault: true, Valid: storage.OneOf("strict", "clamp"), ValidText: "[strict, clamp]", Doc: "What a replication factor above one gets: strict refuses it as Kafka does, clamp accepts it and keeps one replica."}, readOnly, honoured},
	{storage.ConfigDef{Name: "gateway.request.memory.bytes", Type: storage.ConfigLong, Default: "268435456", HasDefault: true, Valid: storage.AtLeast(1 << 20), ValidText: "[1048576,...]", Doc: "Memory that requests under way may hold together; further ones are not read until there is room."}, readOnly, honoured},
	{storage.ConfigDef{Name: "gateway.sync.threads", Type: storage.ConfigInt, Default: "16", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Files synced at the same time."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.assignment.interval.ms", Type: storage.ConfigInt, Default: "1000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "The least time between two assignments of a consumer group that has no config of its own."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "group.consumer.assignors", Type: storage.ConfigList, Default: "uniform,range", HasDefault: true, Doc: "Assignors of consumer groups (KIP-848): uniform and range. The first is used where members name none."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often members of a consumer group without a config of its own send a heartbeat."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.max.assignment.interval.ms", Type: storage.ConfigInt, Default: "15000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "The longest consumer.assignment.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.max.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "15000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The longest consumer.heartbeat.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.max.session.timeout.ms", Type: storage.ConfigInt, Default: "60000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The longest consumer.session.timeout.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.max.size", Type: storage.ConfigInt, Default: "2147483647", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Members that a consumer group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.migration.policy", Type: storage.ConfigString, Default: "bidirectional", HasDefault: true, Valid: oneOfFold("DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"), ValidText: "(case insensitive) [DISABLED, DOWNGRADE, UPGRADE, BIDIRECTIONAL]", Doc: "Which groups change between the classic and the consumer protocol while they have members."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.min.assignment.interval.ms", Type: storage.ConfigInt, Default: "0", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "The shortest consumer.assignment.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.min.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The shortest consumer.heartbeat.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.min.session.timeout.ms", Type: storage.ConfigInt, Default: "45000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The shortest consumer.session.timeout.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.regex.refresh.interval.ms", Type: storage.ConfigInt, Default: "600000", HasDefault: true, Valid: storage.AtLeast(10000), ValidText: "[10000,...]", Doc: "How old the topics that a regular expression stands for may get.", Internal: true}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.consumer.session.timeout.ms", Type: storage.ConfigInt, Default: "45000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How long a member of a consumer group without a config of its own may be silent."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.coordinator.rebalance.protocols", Type: storage.ConfigList, Default: "classic,consumer,streams", HasDefault: true, Valid: storage.ListOf("consumer", "classic", "share", "streams"), ValidText: "[consumer, classic, share, streams]", Doc: "Protocols that groups may use; without consumer, members of consumer groups are refused."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.initial.rebalance.delay.ms", Type: storage.ConfigInt, Default: "3000", HasDefault: true, Doc: "How long an empty group waits for more members before its first rebalance."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.max.session.timeout.ms", Type: storage.ConfigInt, Default: "1800000", HasDefault: true, Doc: "The longest session timeout that a member of a classic group may ask for."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.max.size", Type: storage.ConfigInt, Default: "2147483647", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Members that a classic group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.min.session.timeout.ms", Type: storage.ConfigInt, Default: "6000", HasDefault: true, Doc: "The shortest session timeout that a member of a classic group may ask for."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.assignment.interval.ms", Type: storage.ConfigInt, Default: "1000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "The least time between two assignments of a share group that has no config of its own."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "group.share.delivery.count.limit", Type: storage.ConfigInt, Default: "5", HasDefault: true, Valid: storage.Between(2, 10), ValidText: "[2,...,10]", Doc: "How often a record is delivered to a share group without a config of its own before it is given up."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often members of a share group without a config of its own send a heartbeat."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.initialize.retry.interval.ms", Type: storage.ConfigInt, Default: "30000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How long a share group waits for the state of a partition before it asks for it again.", Internal: true}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.assignment.interval.ms", Type: storage.ConfigInt, Default: "15000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "The longest share.assignment.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.delivery.count.limit", Type: storage.ConfigInt, Default: "10", HasDefault: true, Valid: storage.Between(5, 25), ValidText: "[5,...,25]", Doc: "The highest share.delivery.count.limit that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "15000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The longest share.heartbeat.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.partition.max.record.locks", Type: storage.ConfigInt, Default: "4000", HasDefault: true, Valid: storage.Between(2000, 10000), ValidText: "[2000,...,10000]", Doc: "The highest share.partition.max.record.locks that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.record.lock.duration.ms", Type: storage.ConfigInt, Default: "60000", HasDefault: true, Valid: storage.Between(30000, 3600000), ValidText: "[30000,...,3600000]", Doc: "The longest share.record.lock.duration.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.session.timeout.ms", Type: storage.ConfigInt, Default: "60000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The longest share.session.timeout.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.share.sessions", Type: storage.ConfigInt, Default: "2000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Share sessions that the broker keeps."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.max.size", Type: storage.ConfigInt, Default: "200", HasDefault: true, Valid: storage.Between(1, 1000), ValidText: "[1,...,1000]", Doc: "Members that a share group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.min.assignment.interval.ms", Type: storage.ConfigInt, Default: "0", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "The shortest share.assignment.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.min.delivery.count.limit", Type: storage.ConfigInt, Default: "2", HasDefault: true, Valid: storage.Between(2, 5), ValidText: "[2,...,5]", Doc: "The lowest share.delivery.count.limit that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.min.heartbeat.interval.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The shortest share.heartbeat.interval.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.min.partition.max.record.locks", Type: storage.ConfigInt, Default: "100", HasDefault: true, Valid: storage.Between(100, 2000), ValidText: "[100,...,2000]", Doc: "The lowest share.partition.max.record.locks that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.min.record.lock.duration.ms", Type: storage.ConfigInt, Default: "15000", HasDefault: true, Valid: storage.Between(1000, 30000), ValidText: "[1000,...,30000]", Doc: "The shortest share.record.lock.duration.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.min.session.timeout.ms", Type: storage.ConfigInt, Default: "45000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "The shortest share.session.timeout.ms that a group may have."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.partition.max.record.locks", Type: storage.ConfigInt, Default: "2000", HasDefault: true, Valid: storage.Between(100, 10000), ValidText: "[100,...,10000]", Doc: "How many records of a partition a share group without a config of its own may have under way."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.record.lock.duration.ms", Type: storage.ConfigInt, Default: "30000", HasDefault: true, Valid: storage.Between(1000, 3600000), ValidText: "[1000,...,3600000]", Doc: "How long a member of a share group without a config of its own has a record to itself."}, readOnly, honoured},
	{storage.ConfigDef{Name: "group.share.session.timeout.ms", Type: storage.ConfigInt, Default: "45000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How long a member of a share group without a config of its own may be silent."}, readOnly, honoured},
	{storage.ConfigDef{Name: "listener.security.protocol.map", Type: storage.ConfigString, Default: "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", HasDefault: true, Doc: "Security protocol of each listener name. PLAINTEXT and SASL_PLAINTEXT are served; SSL and SASL_SSL are not yet."}, perBroker, honoured},
	{storage.ConfigDef{Name: "listeners", Type: storage.ConfigList, Default: "PLAINTEXT://:9092", HasDefault: true, Doc: "Addresses to serve on, NAME://HOST:PORT."}, perBroker, honoured},
	{storage.ConfigDef{Name: "log.cleaner.backoff.ms", Type: storage.ConfigLong, Default: "15000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How long the cleaner sleeps when no log needs it."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.dedupe.buffer.size", Type: storage.ConfigLong, Default: "134217728", HasDefault: true, Doc: "Bytes for the offset maps of all cleaner threads: a slot of 20 for each key, and the length of a key of more than 16 bytes on top."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.delete.retention.ms", Type: storage.ConfigLong, Default: "86400000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How long a compacted log keeps tombstones."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.io.buffer.load.factor", Type: storage.ConfigDouble, Default: "0.9", HasDefault: true, Doc: "Share of the offset map that is filled."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.io.max.bytes.per.second", Type: storage.ConfigDouble, Default: "1.7976931348623157E308", HasDefault: true, Doc: "Most bytes that the cleaner reads and writes a second."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.max.compaction.lag.ms", Type: storage.ConfigLong, Default: "9223372036854775807", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Longest time a record waits for compaction."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.min.cleanable.ratio", Type: storage.ConfigDouble, Default: "0.5", HasDefault: true, Valid: betweenDouble(0, 1), ValidText: "[0,...,1]", Doc: "Share of a compacted log that is not compacted yet and makes a pass worth it."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.min.compaction.lag.ms", Type: storage.ConfigLong, Default: "0", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Shortest time a record is left alone by compaction."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleaner.threads", Type: storage.ConfigInt, Default: "1", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Logs that are compacted at a time; one with 0, where Kafka compacts none."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.cleanup.policy", Type: storage.ConfigList, Default: "delete", HasDefault: true, Valid: storage.ListOf("compact", "delete"), ValidText: "[compact, delete]", Doc: "What forgets old records: delete, compact, both, or nothing."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.dir", Type: storage.ConfigList, Default: "/tmp/kafka-logs", HasDefault: true, Doc: "Data directory, when log.dirs is not set."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.dirs", Type: storage.ConfigList, Doc: "Data directory; exactly one."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.flush.interval.messages", Type: storage.ConfigLong, Default: "9223372036854775807", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Sync after so many records; of no effect where every append is synced."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.flush.interval.ms", Type: storage.ConfigLong, Doc: "Sync after so long; of no effect where every append is synced."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.flush.offset.checkpoint.interval.ms", Type: storage.ConfigInt, Default: "60000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How often the recovery points are written down, and how far logs were cleaned."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.flush.scheduler.interval.ms", Type: storage.ConfigLong, Default: "9223372036854775807", HasDefault: true, Doc: "Older companion of log.flush.interval.ms."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.index.interval.bytes", Type: storage.ConfigInt, Default: "4096", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Bytes of records between two index entries."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.index.size.max.bytes", Type: storage.ConfigInt, Default: "10485760", HasDefault: true, Valid: storage.AtLeast(4), ValidText: "[4,...]", Doc: "Largest size of an index file."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.initial.task.delay.ms", Type: storage.ConfigLong, Default: "30000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How long after the start retention begins.", Internal: true}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.local.retention.bytes", Type: storage.ConfigLong, Default: "-2", HasDefault: true, Valid: storage.AtLeast(-2), ValidText: "[-2,...]", Doc: "Bytes kept locally of a tiered log; there are no tiered logs here."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.local.retention.ms", Type: storage.ConfigLong, Default: "-2", HasDefault: true, Valid: storage.AtLeast(-2), ValidText: "[-2,...]", Doc: "Time kept locally of a tiered log; there are no tiered logs here."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.message.timestamp.after.max.ms", Type: storage.ConfigLong, Default: "3600000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How far a record's timestamp may lie in the future."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.message.timestamp.before.max.ms", Type: storage.ConfigLong, Default: "9223372036854775807", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How far a record's timestamp may lie in the past."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.message.timestamp.type", Type: storage.ConfigString, Default: "CreateTime", HasDefault: true, Valid: storage.OneOf("CreateTime", "LogAppendTime"), ValidText: "[CreateTime, LogAppendTime]", Doc: "Whose time a record carries: its producer's (CreateTime) or the broker's (LogAppendTime)."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.preallocate", Type: storage.ConfigBoolean, Default: "false", HasDefault: true, Doc: "Reserve disk space for a segment when it is made."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.remote.copy.lag.bytes", Type: storage.ConfigLong, Default: "-1", HasDefault: true, Valid: storage.AtLeast(-1), ValidText: "[-1,...]", Doc: "Bytes that lie after a segment before it is tiered; there are no tiered logs here."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.remote.copy.lag.ms", Type: storage.ConfigLong, Default: "0", HasDefault: true, Valid: storage.AtLeast(-1), ValidText: "[-1,...]", Doc: "Age at which a segment is tiered; there are no tiered logs here."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.retention.bytes", Type: storage.ConfigLong, Default: "-1", HasDefault: true, Doc: "Bytes of a partition that retention keeps; -1 is no bound."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.retention.check.interval.ms", Type: storage.ConfigLong, Default: "300000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often retention looks at every log."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.retention.hours", Type: storage.ConfigInt, Default: "168", HasDefault: true, Doc: "Time that retention keeps records, in hours."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.retention.minutes", Type: storage.ConfigInt, Doc: "Time that retention keeps records, in minutes."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.retention.ms", Type: storage.ConfigLong, Doc: "Time that retention keeps records; -1 is for ever."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.roll.hours", Type: storage.ConfigInt, Default: "168", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Time after which a segment is closed, in hours."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.roll.jitter.hours", Type: storage.ConfigInt, Default: "0", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Random part taken off log.roll.hours."}, readOnly, honoured},
	{storage.ConfigDef{Name: "log.roll.jitter.ms", Type: storage.ConfigLong, Doc: "Random part taken off log.roll.ms."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.roll.ms", Type: storage.ConfigLong, Doc: "Time, by record timestamps, after which a segment is closed."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.segment.bytes", Type: storage.ConfigInt, Default: "1073741824", HasDefault: true, Valid: storage.AtLeast(1048576), ValidText: "[1048576,...]", Doc: "Size at which a segment is closed."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "log.segment.delete.delay.ms", Type: storage.ConfigLong, Default: "60000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "How long a deleted file stays before it is removed."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "max.connection.creation.rate", Type: storage.ConfigInt, Default: "2147483647", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Most connections accepted a second; further ones wait."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "max.connections", Type: storage.ConfigInt, Default: "2147483647", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Most connections at once."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "max.connections.per.ip", Type: storage.ConfigInt, Default: "2147483647", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Most connections from one address."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "max.connections.per.ip.overrides", Type: storage.ConfigString, Default: "", HasDefault: true, Doc: "Bounds of their own for single addresses, host:count."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "max.decompressed.message.bytes", Type: storage.ConfigInt, Default: "2147483639", HasDefault: true, Valid: storage.Between(1, 2147483639), ValidText: "[1,...,2147483639]", Doc: "Most bytes that a compressed batch may unpack to."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "max.incremental.fetch.session.cache.slots", Type: storage.ConfigInt, Default: "1000", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Most incremental fetch sessions kept."}, readOnly, honoured},
	{storage.ConfigDef{Name: "max.request.partition.size.limit", Type: storage.ConfigInt, Default: "2000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Most partitions in one answer to DescribeTopicPartitions."}, readOnly, honoured},
	{storage.ConfigDef{Name: "message.max.bytes", Type: storage.ConfigInt, Default: "1048588", HasDefault: true, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "Largest batch, as compressed by its producer."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "min.insync.replicas", Type: storage.ConfigInt, Default: "1", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Replicas that must be in sync for acks=all; with one replica it never blocks."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "node.id", Type: storage.ConfigInt, Valid: storage.AtLeast(0), ValidText: "[0,...]", Doc: "The broker's id."}, readOnly, honoured},
	{storage.ConfigDef{Name: "num.partitions", Type: storage.ConfigInt, Default: "1", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Partitions of a topic created without a number."}, readOnly, honoured},
	{storage.ConfigDef{Name: "num.recovery.threads.per.data.dir", Type: storage.ConfigInt, Default: "2", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Partitions that recover at the same time in the background. A change while it runs is kept and reported; what was set at the start holds."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "offset.metadata.max.bytes", Type: storage.ConfigInt, Default: "4096", HasDefault: true, Doc: "Longest text that may be committed with an offset."}, readOnly, honoured},
	{storage.ConfigDef{Name: "offsets.commit.timeout.ms", Type: storage.ConfigInt, Default: "5000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Longest wait for a committed offset to be durable."}, readOnly, honoured},
	{storage.ConfigDef{Name: "offsets.retention.check.interval.ms", Type: storage.ConfigLong, Default: "600000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often expired offsets are looked for."}, readOnly, honoured},
	{storage.ConfigDef{Name: "offsets.retention.minutes", Type: storage.ConfigInt, Default: "10080", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How long offsets are kept after the group became empty, or after the commit where it has no members."}, readOnly, honoured},
	{storage.ConfigDef{Name: "offsets.topic.num.partitions", Type: storage.ConfigInt, Default: "50", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Partitions that __consumer_offsets is made with."}, readOnly, honoured},
	{storage.ConfigDef{Name: "offsets.topic.replication.factor", Type: storage.ConfigShort, Default: "3", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Replication factor that __consumer_offsets is made with; 1 on one broker."}, readOnly, honoured},
	{storage.ConfigDef{Name: "offsets.topic.segment.bytes", Type: storage.ConfigInt, Default: "104857600", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "segment.bytes that __consumer_offsets is made with."}, readOnly, honoured},
	{storage.ConfigDef{Name: "process.roles", Type: storage.ConfigList, Valid: storage.ListOf("broker", "controller"), ValidText: "[broker, controller]", Doc: "Roles of the process; here always both in one."}, readOnly, honoured},
	{storage.ConfigDef{Name: "producer.id.expiration.check.interval.ms", Type: storage.ConfigInt, Default: "600000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often silent producers are looked for.", Internal: true}, readOnly, honoured},
	{storage.ConfigDef{Name: "producer.id.expiration.ms", Type: storage.ConfigInt, Default: "86400000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Time after which a silent producer's state is dropped. A change while it runs is kept and reported; what was set at the start holds."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "quota.window.num", Type: storage.ConfigInt, Default: "11", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Windows over which quotas for bytes, time and connections are measured, the one that has begun among them."}, readOnly, honoured},
	{storage.ConfigDef{Name: "quota.window.size.seconds", Type: storage.ConfigInt, Default: "1", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Length of such a window."}, readOnly, honoured},
	{storage.ConfigDef{Name: "request.timeout.ms", Type: storage.ConfigInt, Default: "30000", HasDefault: true, Doc: "Longest wait of a Produce for the transaction coordinator, and of WriteTxnMarkers for the disk."}, readOnly, honoured},
	{storage.ConfigDef{Name: "sasl.enabled.mechanisms", Type: storage.ConfigList, Default: "GSSAPI", HasDefault: true, Doc: "SASL mechanisms of the listeners that have SASL, or of one as listener.name.LISTENER.sasl.enabled.mechanisms. PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512 are served."}, perBroker, honoured},
	{storage.ConfigDef{Name: "sasl.server.max.receive.size", Type: storage.ConfigInt, Default: "524288", HasDefault: true, Doc: "Largest frame of a client that has not authenticated."}, readOnly, honoured},
	{storage.ConfigDef{Name: "share.coordinator.cold.partition.snapshot.interval.ms", Type: storage.ConfigInt, Default: "300000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How old the snapshot of a share partition may get before it is written anew.", Internal: true}, readOnly, honoured},
	{storage.ConfigDef{Name: "share.coordinator.snapshot.update.records.per.snapshot", Type: storage.ConfigInt, Default: "500", HasDefault: true, Valid: storage.Between(0, 500), ValidText: "[0,...,500]", Doc: "Updates of a share partition between two snapshots."}, readOnly, honoured},
	{storage.ConfigDef{Name: "share.coordinator.state.topic.num.partitions", Type: storage.ConfigInt, Default: "50", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Partitions that __share_group_state is made with."}, readOnly, honoured},
	{storage.ConfigDef{Name: "share.coordinator.state.topic.prune.interval.ms", Type: storage.ConfigInt, Default: "300000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often __share_group_state is freed of what snapshots have made superfluous.", Internal: true}, readOnly, honoured},
	{storage.ConfigDef{Name: "share.coordinator.state.topic.segment.bytes", Type: storage.ConfigInt, Default: "104857600", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Segment size that __share_group_state is made with."}, readOnly, honoured},
	{storage.ConfigDef{Name: "socket.request.max.bytes", Type: storage.ConfigInt, Default: "104857600", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Largest frame; keys other than Produce have smaller bounds of their own."}, readOnly, honoured},
	{storage.ConfigDef{Name: "super.users", Type: storage.ConfigString, Valid: areSuperUsers, ValidText: "TYPE:NAME;…", Doc: "With an authorizer: principals that may do everything, with semicolons between, as User:alice;User:bob."}, readOnly, unlisted},
	{storage.ConfigDef{Name: "transaction.abort.timed.out.transaction.cleanup.interval.ms", Type: storage.ConfigInt, Default: "10000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often transactions are looked for whose timeout is over; they are aborted."}, readOnly, honoured},
	{storage.ConfigDef{Name: "transaction.max.timeout.ms", Type: storage.ConfigInt, Default: "900000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Longest timeout that a transactional producer may ask for."}, readOnly, honoured},
	{storage.ConfigDef{Name: "transaction.partition.verification.enable", Type: storage.ConfigBoolean, Default: "true", HasDefault: true, Doc: "Ask the transaction coordinator before a batch begins a transaction in a partition."}, clusterWide, honoured},
	{storage.ConfigDef{Name: "transaction.remove.expired.transaction.cleanup.interval.ms", Type: storage.ConfigInt, Default: "3600000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "How often transactional ids are looked for that nobody uses any more."}, readOnly, honoured},
	{storage.ConfigDef{Name: "transaction.state.log.min.isr", Type: storage.ConfigInt, Default: "2", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "min.insync.replicas of __transaction_state; 1 on one broker."}, readOnly, honoured},
	{storage.ConfigDef{Name: "transaction.state.log.num.partitions", Type: storage.ConfigInt, Default: "50", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Partitions that __transaction_state is made with."}, readOnly, honoured},
	{storage.ConfigDef{Name: "transaction.state.log.replication.factor", Type: storage.ConfigShort, Default: "3", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Replication factor of __transaction_state; 1 on one broker."}, readOnly, honoured},
	{storage.ConfigDef{Name: "transaction.state.log.segment.bytes", Type: storage.ConfigInt, Default: "104857600", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "segment.bytes that __transaction_state is made with."}, readOnly, honoured},
	{storage.ConfigDef{Name: "transactional.id.expiration.ms", Type: storage.ConfigInt, Default: "604800000", HasDefault: true, Valid: storage.AtLeast(1), ValidText: "[1,...]", Doc: "Time after which a transactional id without an open transaction, that nobody used, is forgotten."}, readOnly, honoured},
	{storage.ConfigDef{Name: "unclean.leader.election.enable", Type: storage.ConfigBoolean, Default: "false", HasDefault: true, Doc: "Let a replica out of sync lead; with one replica it changes nothing."}, clusterWide, honoured},
}

// brokerConfigs is every broker config, sorted by name.
var brokerConfigs = sortedConfigs(honouredConfigs, inertConfigs)

func sortedConfigs(tables ...[]brokerDef) []brokerDef {
	all := slices.Concat(tables...)
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// brokerConfigDef finds a row by name.
func brokerConfigDef(name string) (*brokerDef, bool) {
	i := sort.Search(len(brokerConfigs), func(i int) bool { return brokerConfigs[i].Name >= name })
	if i < len(brokerConfigs) && brokerConfigs[i].Name == name {
		return &brokerConfigs[i], true
	}
	return nil, false
}

// betweenDouble accepts numbers from least to most.
func betweenDouble(least, most float64) func(string) error {
	return func(v string) error {
		if f, err := strconv.ParseFloat(v, 64); err != nil || f < least || f > most {
			return fmt.Errorf("%s, want %v to %v", v, least, most)
		}
		return nil
	}
}

// oneOfFold accepts one of values in any case.
func oneOfFold(values ...string) func(string) error {
	return func(v string) error {
		if !slices.ContainsFunc(values, func(want string) bool { return strings.EqualFold(v, want) }) {
			return fmt.Errorf("%q, want one of %s", v, strings.Join(values, ", "))
		}
		return nil
	}
}

// isAuthorizer accepts the authorizer that there is, and none.
func isAuthorizer(class string) error {
	if class != "" && class != standardAuthorizer {
		return fmt.Errorf("there is no such authorizer here, want %s, or nothing for none", standardAuthorizer)
	}
	return nil
}

// areSuperUsers accepts principals with semicolons between.
func areSuperUsers(users string) error {
	_, err := auth.NewAuthorizer(users, false)
	return err
}

// isHTTPAddress accepts HOST:PORT and nothing.
func isHTTPAddress(address string) error {
	if address == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("got %q, want HOST:PORT, or nothing for none", address)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("got port %q, want 0 to 65535", port)
	}
	return nil
}
