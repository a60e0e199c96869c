package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// clusterMetadataTopic is the name of Kafka's own metadata log.
const clusterMetadataTopic = "__cluster_metadata"

// Types of the records in Kafka's metadata log that say something about topics, their configs and producer ids, and of
// those that make several records one. All others are passed over.
//
// A value is three unsigned varints, the frame version (1), the type and the version of the record, and then the
// record in the flexible encoding of Kafka's messages: strings with their length plus one before them, arrays
// likewise, and tagged fields at the end. Keys are null. Control batches belong to the quorum.
//
// Kafka: AbstractApiMessageSerde; metadata/src/main/resources/common/metadata.
const (
	kafkaTopicRecord       = 2
	kafkaPartitionRecord   = 3
	kafkaConfigRecord      = 4
	kafkaRemoveTopicRecord = 9
	kafkaProducerIDsRecord = 15
	kafkaBeginTransaction  = 23
	kafkaEndTransaction    = 24
	kafkaAbortTransaction  = 25
)

// Kinds of config resources.
const (
	topicResource  = 2
	brokerResource = 4
)

// kafkaMetadata is what Kafka's metadata log says of topics.
type kafkaMetadata struct {
	topics      map[TopicID]*kafkaTopic
	configs     map[resourceKey]map[string]string
	producerIDs int64 // the first that no broker was given; 0 when none was

	inTransaction bool
	pending       [][]byte // records of the transaction that is not at its end
}

// kafkaTopic is a topic in Kafka's metadata log.
type kafkaTopic struct {
	name       string
	partitions map[int32]struct{}
}

// readKafkaMetadata reads Kafka's metadata log in the directory dir: the newest snapshot, then the records after it.
// A torn tail ends it. The error is fs.ErrNotExist when there is no such log, a *CorruptError for records that cannot
// be read, or an I/O error.
func readKafkaMetadata(fsys vfs.FS, dir string) (*kafkaMetadata, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, err
	}
	m := &kafkaMetadata{topics: make(map[TopicID]*kafkaTopic), configs: make(map[resourceKey]map[string]string)}
	next, snapshot, found := int64(0), "", false
	for _, name := range names {
		// Names sort by offset, then epoch.
		if offset, ok := parseKafkaSnapshotName(name); ok {
			next, snapshot = offset, name
		}
	}
	var reader record.Reader
	if snapshot != "" {
		found = true
		if _, err := m.readFile(fsys, &reader, filepath.Join(dir, snapshot), -1); err != nil {
			return nil, err
		}
	}
	for _, name := range names {
		if _, ok := parseLogFileName(name); !ok {
			continue
		}
		found = true
		end, err := m.readFile(fsys, &reader, filepath.Join(dir, name), next)
		if err != nil {
			return nil, err
		}
		next = max(next, end)
	}
	if !found {
		return nil, fmt.Errorf("no segment in %s: %w", dir, fs.ErrNotExist)
	}
	return m, nil
}

// parseKafkaSnapshotName returns the offset that a snapshot of Kafka's metadata log ends at, from the name of its
// file: "<offset>-<epoch>.checkpoint". Kafka: Snapshots.parse.
func parseKafkaSnapshotName(name string) (int64, bool) {
	digits, ok := strings.CutSuffix(name, ".checkpoint")
	if !ok || len(digits) != 31 || digits[20] != '-' {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits[:20], 10, 64)
	return offset, err == nil && offset >= 0
}

// readFile applies the records at and after the offset from in a file of batches. It returns the offset after them.
func (m *kafkaMetadata) readFile(fsys vfs.FS, reader *record.Reader, file string, from int64) (end int64, err error) {
	b, err := readFile(fsys, file)
	if err != nil {
		return 0, err
	}
	for rest := b; len(rest) > 0; {
		position := int64(len(b) - len(rest))
		batch, after, err := record.Cut(rest)
		if err != nil {
			if size, sizeErr := record.PeekSize(rest); sizeErr == nil && size < len(rest) {
				return 0, &CorruptError{File: file, Position: position, Reason: err.Error()}
			}
			break // a torn tail
		}
		rest = after
		end = batch.NextOffset()
		if batch.Control() || end <= from {
			continue
		}
		for rec, err := range reader.Records(batch) {
			if err == nil && rec.Offset >= from {
				err = m.apply(rec.Value)
			}
			if err != nil {
				return 0, &CorruptError{File: file, Position: position, Reason: err.Error()}
			}
		}
	}
	return end, nil
}

// apply takes in a record, which waits when it belongs to a transaction.
func (m *kafkaMetadata) apply(value []byte) error {
	c := fields{b: value, present: true}
	if frame := c.uvarint(); c.bad || frame != 1 {
		return fmt.Errorf("frame version %d, want 1", frame)
	}
	kind, version := c.uvarint(), c.uvarint()
	if c.bad {
		return errors.New("a record without type and version")
	}
	switch kind {
	case kafkaBeginTransaction:
		m.inTransaction, m.pending = true, nil
		return nil
	case kafkaAbortTransaction:
		m.inTransaction, m.pending = false, nil
		return nil
	case kafkaEndTransaction:
		pending := m.pending
		m.inTransaction, m.pending = false, nil
		for _, v := range pending {
			if err := m.apply(v); err != nil {
				return err
			}
		}
		return nil
	}
	if m.inTransaction {
		m.pending = append(m.pending, append([]byte(nil), value...))
		return nil
	}
	switch kind {
	case kafkaTopicRecord:
		name, id := c.compactText(), TopicID(c.uuid())
		if !c.bad {
			m.topics[id] = &kafkaTopic{name: name, partitions: make(map[int32]struct{})}
		}
	case kafkaPartitionRecord:
		partition, id := int32(c.uint(4)), TopicID(c.uuid())
		if t, ok := m.topics[id]; ok && !c.bad && partition >= 0 {
			t.partitions[partition] = struct{}{}
		}
	case kafkaConfigRecord:
		m.applyConfig(&c)
	case kafkaRemoveTopicRecord:
		if id := TopicID(c.uuid()); !c.bad {
			if t, ok := m.topics[id]; ok {
				delete(m.configs, resourceKey{topicResource, t.name})
				delete(m.topics, id)
			}
		}
	case kafkaProducerIDsRecord:
		c.uint(4)
		c.uint(8)
		if next := int64(c.uint(8)); !c.bad {
			m.producerIDs = max(m.producerIDs, next)
		}
	}
	if c.bad {
		return fmt.Errorf("a record of type %d, version %d, that ends inside its fields", kind, version)
	}
	return nil
}

func (m *kafkaMetadata) applyConfig(c *fields) {
	k := resourceKey{kind: int8(c.uint(1)), name: c.compactText()}
	name := c.compactText()
	value, ok := c.compactNullable()
	if c.bad {
		return
	}
	if !ok {
		delete(m.configs[k], name)
		return
	}
	if m.configs[k] == nil {
		m.configs[k] = make(map[string]string)
	}
	m.configs[k][name] = value
}

// topicConfigs returns the configs of a topic that can be used here, in canonical text, and what is wrong with the
// others.
func (m *kafkaMetadata) topicConfigs(topic string) (map[string]string, []error) {
	configs := maps.Clone(m.configs[resourceKey{topicResource, topic}])
	var faults []error
	for _, name := range sortedKeys(configs) {
		canonical, err := canonicalConfigs(map[string]string{name: configs[name]})
		if err != nil {
			faults = append(faults, err)
			delete(configs, name)
			continue
		}
		configs[name] = canonical[name]
	}
	if err := checkTogether(configs, nil); err != nil {
		faults = append(faults, err)
		delete(configs, "min.compaction.lag.ms")
	}
	return configs, faults
}

// defaults returns the cluster-wide broker configs that are defaults of topic configs.
func (m *kafkaMetadata) defaults() map[string]string {
	all := m.configs[resourceKey{brokerResource, ""}]
	defaults := make(map[string]string)
	for i := range topicConfigs {
		for _, synonym := range topicConfigs[i].Synonyms {
			if v, ok := all[synonym.Name]; ok {
				defaults[synonym.Name] = v
			}
		}
	}
	return defaults
}

// uuid reads an id.
func (c *fields) uuid() (id [16]byte) {
	copy(id[:], c.bytes(len(id)))
	return id
}

// compactText reads a string of Kafka's flexible encoding.
func (c *fields) compactText() string {
	s, ok := c.compactNullable()
	c.bad = c.bad || !ok
	return s
}

// compactNullable is compactText for a string that may be null; ok is false then.
func (c *fields) compactNullable() (s string, ok bool) {
	n := c.uvarint()
	if n == 0 || n-1 > uint64(len(c.b)) {
		c.bad = c.bad || n > 0
		return "", false
	}
	return string(c.bytes(int(n - 1))), true
}
