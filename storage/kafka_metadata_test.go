package storage

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestKafkaMetadata(t *testing.T) {
	m, err := readKafkaMetadata(vfs.OS(), filepath.Join(adoptDir, "__cluster_metadata-0"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, topic := range m.topics {
		names = append(names, topic.name)
	}
	slices.Sort(names)
	if want := []string{"__consumer_offsets", "__transaction_state", "compacted", "empty", "orders", "re.made"}; !slices.Equal(names, want) {
		t.Errorf("topics %v, want %v", names, want)
	}
	if m.producerIDs != 2000 {
		t.Errorf("next producer id %d, want 2000", m.producerIDs)
	}
	// Without the snapshots the whole log says the same.
	whole := &kafkaMetadata{topics: make(map[TopicID]*kafkaTopic), configs: make(map[resourceKey]map[string]string)}
	var reader record.Reader
	if _, err := whole.readFile(vfs.OS(), &reader, segmentFile(filepath.Join(adoptDir, "__cluster_metadata-0"), 0, ".log"), 0); err != nil {
		t.Fatal(err)
	}
	for id, topic := range m.topics {
		other, ok := whole.topics[id]
		if !ok || other.name != topic.name || !maps.Equal(other.partitions, topic.partitions) {
			t.Errorf("topic %s is %+v in the log and %+v in the snapshot", id, other, topic)
		}
		k := resourceKey{topicResource, topic.name}
		if !maps.Equal(whole.configs[k], m.configs[k]) {
			t.Errorf("configs of %s are %v in the log and %v in the snapshot", topic.name, whole.configs[k], m.configs[k])
		}
	}
	if len(whole.topics) != len(m.topics) || whole.producerIDs != m.producerIDs {
		t.Errorf("%d topics and producer ids from %d in the log, %d and %d in the snapshot", len(whole.topics), whole.producerIDs, len(m.topics), m.producerIDs)
	}
}

func TestKafkaMetadataTransactions(t *testing.T) {
	topic := func(name byte) []byte {
		return append([]byte{1, kafkaTopicRecord, 0, 2, name}, append(make([]byte, 15), name, 0)...)
	}
	m := &kafkaMetadata{topics: make(map[TopicID]*kafkaTopic), configs: make(map[resourceKey]map[string]string)}
	for _, v := range [][]byte{
		topic('a'),
		{1, kafkaBeginTransaction, 0, 0}, topic('b'), {1, kafkaAbortTransaction, 0, 0},
		{1, kafkaBeginTransaction, 0, 0}, topic('c'), {1, kafkaEndTransaction, 0, 0},
		{1, kafkaBeginTransaction, 0, 0}, topic('d'),
	} {
		if err := m.apply(v); err != nil {
			t.Fatalf("record %x: %v", v, err)
		}
	}
	var names []string
	for _, topic := range m.topics {
		names = append(names, topic.name)
	}
	slices.Sort(names)
	if want := []string{"a", "c"}; !slices.Equal(names, want) {
		t.Errorf("topics %v, want %v: b was aborted, d has no end", names, want)
	}
}

func FuzzKafkaMetadataRecord(f *testing.F) {
	b, err := os.ReadFile(segmentFile(filepath.Join(adoptDir, "__cluster_metadata-0"), 0, ".log"))
	if err != nil {
		f.Fatal(err)
	}
	var reader record.Reader
	for rest := b; len(rest) > 0; {
		batch, after, err := record.Cut(rest)
		if err != nil {
			f.Fatal(err)
		}
		rest = after
		for r, err := range reader.Records(batch) {
			if err != nil {
				f.Fatal(err)
			}
			f.Add(slices.Clone(r.Value))
		}
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		m := &kafkaMetadata{topics: make(map[TopicID]*kafkaTopic), configs: make(map[resourceKey]map[string]string)}
		if m.apply(value) != nil {
			return
		}
		// Text is never longer than the bytes it came from.
		for _, topic := range m.topics {
			if len(topic.name) > len(value) {
				t.Fatalf("record %x has a name of %d bytes", value, len(topic.name))
			}
		}
		for _, configs := range m.configs {
			for name, v := range configs {
				if len(name)+len(v) > len(value) {
					t.Fatalf("record %x has a config of %d and %d bytes", value, len(name), len(v))
				}
			}
		}
	})
}
