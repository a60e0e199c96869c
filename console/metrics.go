package console

import (
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/kaen-log/gateway/cleaner"
	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/txn"
	"github.com/kaen-log/gateway/wire"
)

// Snapshot is what a scrape tells of.
type Snapshot struct {
	Storage storage.Stats
	Counts  storage.Counts
	Cleaner cleaner.Stats
	Groups  groups.Stats
	Txns    txn.Stats
	Wire    wire.Stats
	APIs    []wire.APIStats
	Errors  []wire.ErrorStats

	// RequestMemory and AnswerMemory are the bounds of what requests and answers in flight may hold.
	RequestMemory, AnswerMemory int64
}

// mostNamed bounds how many partitions are named by a metric. Only those in trouble are; a total has all of them.
const mostNamed = 100

// metric is a name, and what it says of a snapshot.
type metric struct {
	name   string
	kind   prometheus.ValueType
	help   string
	labels []string
	// each calls emit for each of the metric's values, with the values of its labels. No label has a client's choice of
	// value but for topics, of which mostNamed are named.
	each func(s *Snapshot, emit emit)
}

// emit takes one value of a metric.
type emit func(value float64, labels ...string)

// one is what a metric without labels says.
func one(value func(s *Snapshot) int64) func(*Snapshot, emit) {
	return func(s *Snapshot, emit emit) { emit(float64(value(s))) }
}

// byAPI is what a metric says of each API.
func byAPI(value func(a *wire.APIStats) int64) func(*Snapshot, emit) {
	return func(s *Snapshot, emit emit) {
		for i := range s.APIs {
			emit(float64(value(&s.APIs[i])), s.APIs[i].Name)
		}
	}
}

const (
	counter = prometheus.CounterValue
	gauge   = prometheus.GaugeValue
)

// metrics are all that are not those of the Go runtime and of the process. The page docs/metrics.md is made from them.
var metrics = []metric{
	{"gateway_connections", gauge, "Connections of Kafka clients that are open.", nil, one(func(s *Snapshot) int64 { return s.Wire.Connections })},
	{"gateway_connections_accepted_total", counter, "Connections of Kafka clients that were accepted.", nil, one(func(s *Snapshot) int64 { return s.Wire.Accepted })},
	{"gateway_connections_refused_total", counter, "Connections that were closed at once: over max.connections.per.ip, or a quota of their address.", nil, one(func(s *Snapshot) int64 { return s.Wire.Refused })},
	{"gateway_authentications_total", counter, "Exchanges of SASL that ended, by result: success or failure.", []string{"result"}, func(s *Snapshot, emit emit) {
		emit(float64(s.Wire.Authentications), "success")
		emit(float64(s.Wire.FailedAuthentications), "failure")
	}},
	{"gateway_requests_total", counter, "Requests that came whole, by API; a token of SASL that comes without a header is one of SaslAuthenticate.", []string{"api"}, byAPI(func(a *wire.APIStats) int64 { return a.Requests })},
	{"gateway_request_bytes_total", counter, "Bytes of requests as on the socket, by API.", []string{"api"}, byAPI(func(a *wire.APIStats) int64 { return a.RequestBytes })},
	{"gateway_answer_bytes_total", counter, "Bytes of answers as on the socket, counted when they are made, by API.", []string{"api"}, byAPI(func(a *wire.APIStats) int64 { return a.AnswerBytes })},
	{"gateway_request_errors_total", counter, "Error codes in answers, one for each partition, group and so on that has one, by API and class: retriable, after which a client tries again by itself, or final.", []string{"api", "class"}, func(s *Snapshot, emit emit) {
		for i := range s.APIs {
			emit(float64(s.APIs[i].RetriableErrors), s.APIs[i].Name, "retriable")
			emit(float64(s.APIs[i].FinalErrors), s.APIs[i].Name, "final")
		}
	}},
	{"gateway_errors_total", counter, "Error codes in answers of all APIs, by Kafka's name of the error; one that was in no answer is not there.", []string{"error"}, func(s *Snapshot, emit emit) {
		for _, e := range s.Errors {
			emit(float64(e.Count), e.Name)
		}
	}},
	{"gateway_requests_malformed_total", counter, "Frames that could not be answered, which ends their connection.", nil, one(func(s *Snapshot) int64 { return s.Wire.Malformed })},
	{"gateway_requests_unsupported_total", counter, "Malformed frames that are of a key or version that is not served.", nil, one(func(s *Snapshot) int64 { return s.Wire.Unsupported })},
	{"gateway_requests_throttled_total", counter, "Requests whose client had to rest, over a quota.", nil, one(func(s *Snapshot) int64 { return s.Wire.Throttled })},
	{"gateway_request_memory_bytes", gauge, "Memory that requests under way hold.", nil, one(func(s *Snapshot) int64 { return s.Wire.RequestBytes })},
	{"gateway_request_memory_limit_bytes", gauge, "Memory that requests under way may hold: gateway.request.memory.bytes.", nil, one(func(s *Snapshot) int64 { return s.RequestMemory })},
	{"gateway_answer_memory_bytes", gauge, "Memory that answers on their way hold.", nil, one(func(s *Snapshot) int64 { return s.Wire.AnswerBytes })},
	{"gateway_answer_memory_limit_bytes", gauge, "Memory that answers on their way may hold: gateway.answer.memory.bytes.", nil, one(func(s *Snapshot) int64 { return s.AnswerMemory })},
	{"gateway_memory_waits_total", counter, "How often a request or an answer waited for memory.", nil, one(func(s *Snapshot) int64 { return s.Wire.MemoryWaits })},
	{"gateway_fetch_sessions", gauge, "Incremental fetch sessions.", nil, one(func(s *Snapshot) int64 { return s.Wire.FetchSessions })},
	{"gateway_fetch_session_partitions", gauge, "Partitions in incremental fetch sessions.", nil, one(func(s *Snapshot) int64 { return s.Wire.FetchSessionPartitions })},
	{"gateway_fetch_session_evictions_total", counter, "Incremental fetch sessions that made room for others.", nil, one(func(s *Snapshot) int64 { return s.Wire.FetchSessionEvictions })},

	{"gateway_groups", gauge, "Groups by kind (classic, consumer, share) and state; a state that no group is in is not there.", []string{"kind", "state"}, func(s *Snapshot, emit emit) {
		for _, g := range s.Groups.Groups {
			emit(float64(g.Count), string(g.Kind), g.State)
		}
	}},
	{"gateway_group_partitions_unready", gauge, "Partitions of __consumer_offsets that have not been read yet, or could not be; their groups are not served.", nil, one(func(s *Snapshot) int64 { return int64(s.Groups.Unready) })},

	{"gateway_transactional_ids", gauge, "Transactional ids by the state of their transaction; a state that none is in is not there.", []string{"state"}, func(s *Snapshot, emit emit) {
		for _, t := range s.Txns.States {
			emit(float64(t.Count), t.State)
		}
	}},
	{"gateway_transactions_retrying", gauge, "Transactions that are decided and whose end could not be written yet; it is tried again.", nil, one(func(s *Snapshot) int64 { return int64(s.Txns.Retrying) })},
	{"gateway_transaction_markers_retrying", gauge, "Markers that the ends of those transactions still lack.", nil, one(func(s *Snapshot) int64 { return int64(s.Txns.Markers) })},
	{"gateway_transaction_partitions_unready", gauge, "Partitions of __transaction_state that have not been read yet, or could not be; their transactional ids are not served.", nil, one(func(s *Snapshot) int64 { return int64(s.Txns.Loading + s.Txns.Failed) })},
	{"gateway_transactional_ids_unreadable", gauge, "Transactional ids whose last record could not be read at the start.", nil, one(func(s *Snapshot) int64 { return int64(s.Txns.Unreadable) })},

	{"gateway_storage_topics", gauge, "Topics, __consumer_offsets and its like among them.", nil, one(func(s *Snapshot) int64 { return int64(s.Storage.Topics) })},
	{"gateway_storage_partitions", gauge, "Partitions by status: online; recovering; offline, because of damage; idle, not used since the start.", []string{"status"}, func(s *Snapshot, emit emit) {
		emit(float64(s.Storage.Online), "online")
		emit(float64(s.Storage.Recovering), "recovering")
		emit(float64(s.Storage.Offline), "offline")
		emit(float64(s.Storage.Idle), "idle")
	}},
	{"gateway_storage_partition_offline", gauge, fmt.Sprintf("1 for each partition that is offline, the first %d by topic and partition; the log says why.", mostNamed), []string{"topic", "partition"}, func(s *Snapshot, emit emit) {
		for _, p := range s.Storage.OfflinePartitions[:min(len(s.Storage.OfflinePartitions), mostNamed)] {
			emit(1, p.Topic, fmt.Sprint(p.Partition))
		}
	}},
	{"gateway_storage_recovered", gauge, "1 when every partition that had a directory at the start has been recovered.", nil, one(func(s *Snapshot) int64 {
		if s.Storage.Recovered {
			return 1
		}
		return 0
	})},
	{"gateway_storage_log_bytes", gauge, "Bytes in the .log files of the partitions that are online.", nil, one(func(s *Snapshot) int64 { return s.Storage.Bytes })},
	{"gateway_storage_metadata_log_bytes", gauge, "Bytes of the metadata log.", nil, one(func(s *Snapshot) int64 { return s.Storage.MetadataBytes })},
	{"gateway_storage_retired_directories", gauge, "Directories of deleted topics that wait to be removed.", nil, one(func(s *Snapshot) int64 { return int64(s.Storage.RetiredDirs) })},
	{"gateway_storage_appends_total", counter, "Batches that were written, those of the metadata log and of the coordinators among them.", nil, one(func(s *Snapshot) int64 { return s.Counts.Appends })},
	{"gateway_storage_appended_bytes_total", counter, "Bytes of the batches that were written.", nil, one(func(s *Snapshot) int64 { return s.Counts.AppendedBytes })},
	{"gateway_storage_appended_records_total", counter, "Records of the batches that were written.", nil, one(func(s *Snapshot) int64 { return s.Counts.AppendedRecords })},
	{"gateway_storage_append_failures_total", counter, "Batches that could not be written, for want of space or by the disk's fault.", nil, one(func(s *Snapshot) int64 { return s.Counts.FailedAppends })},
	{"gateway_storage_syncs_total", counter, "Group commits, each of which syncs what was appended to one partition since the one before.", nil, one(func(s *Snapshot) int64 { return s.Counts.Commits })},
	{"gateway_storage_sync_failures_total", counter, "Group commits that failed; what they were to sync was cut off again.", nil, one(func(s *Snapshot) int64 { return s.Counts.FailedCommits })},
	{"gateway_storage_open_files", gauge, "Data files that are open.", nil, one(func(s *Snapshot) int64 { return s.Counts.OpenFiles })},
	{"gateway_storage_open_files_limit", gauge, "Data files that stay open while nobody uses them: gateway.open.files, as far as descriptors allow.", nil, one(func(s *Snapshot) int64 { return s.Counts.OpenFilesLimit })},

	{"gateway_cleaner_passes_total", counter, "Passes of compaction that were made to their end.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.Passes })},
	{"gateway_cleaner_passes_given_up_total", counter, "Passes that were given up for now: the partition changed meanwhile, or there was no room or no file descriptor for them.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.GivenUp })},
	{"gateway_cleaner_last_pass_timestamp_seconds", gauge, "When the last pass ended; not there before the first.", nil, func(s *Snapshot, emit emit) {
		if t := s.Cleaner.LastPass; !t.IsZero() {
			emit(float64(t.UnixMilli()) / 1000)
		}
	}},
	{"gateway_cleaner_read_bytes_total", counter, "Bytes of batches that passes went through.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.BytesRead })},
	{"gateway_cleaner_kept_bytes_total", counter, "Bytes of batches that passes wrote, or left as they were.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.BytesKept })},
	{"gateway_cleaner_read_records_total", counter, "Records that passes went through.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.RecordsRead })},
	{"gateway_cleaner_kept_records_total", counter, "Records that passes kept.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.RecordsKept })},
	{"gateway_cleaner_errors_total", counter, "How often a partition could not be cleaned and was set aside.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.Errors })},
	{"gateway_cleaner_partitions_set_aside", gauge, "Partitions that are not cleaned before the next start, because that failed.", nil, one(func(s *Snapshot) int64 { return int64(len(s.Cleaner.SetAside)) })},
	{"gateway_cleaner_partition_set_aside", gauge, fmt.Sprintf("1 for each partition that the cleaner has set aside, the first %d by topic and partition; the log says why.", mostNamed), []string{"topic", "partition"}, func(s *Snapshot, emit emit) {
		for _, p := range s.Cleaner.SetAside[:min(len(s.Cleaner.SetAside), mostNamed)] {
			emit(1, p.Topic, fmt.Sprint(p.Partition))
		}
	}},
	{"gateway_retention_deleted_segments_total", counter, "Segments that retention deleted.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.SegmentsDeleted })},
	{"gateway_retention_deleted_bytes_total", counter, "Bytes of the .log files that retention deleted.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.BytesDeleted })},
	{"gateway_retention_errors_total", counter, "How often retention failed on a partition.", nil, one(func(s *Snapshot) int64 { return s.Cleaner.RetentionErrors })},
}

// collector tells Prometheus's library of a snapshot.
type collector struct {
	snapshot func() Snapshot
	descs    []*prometheus.Desc // of metrics, in their order
}

func newCollector(snapshot func() Snapshot) *collector {
	c := &collector{snapshot: snapshot}
	for i := range metrics {
		m := &metrics[i]
		c.descs = append(c.descs, prometheus.NewDesc(m.name, m.help, m.labels, nil))
	}
	return c
}

// Describe is prometheus.Collector's.
func (c *collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect is prometheus.Collector's. Any goroutine may call it.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	s := c.snapshot()
	for i := range metrics {
		m, desc := &metrics[i], c.descs[i]
		m.each(&s, func(value float64, labels ...string) {
			for i := range labels {
				labels[i] = strings.ToValidUTF8(labels[i], "\uFFFD")
			}
			out <- prometheus.MustNewConstMetric(desc, m.kind, value, labels...)
		})
	}
}
