package groups

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// topicOfRecords is the topic that testdata/records has.
var topicOfRecords = storage.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}

func text(s string) *string { return &s }

// consumerRecords are the records that testdata/records has, by their names there.
func consumerRecords() map[string]modernRecord {
	member := &memberMetadata{
		instanceID: text("i1"), rackID: text("r1"), clientID: "c", clientHost: "/127.0.0.1",
		topics: []string{"a", "b"}, regex: "x.*", rebalanceTimeoutMs: 45000, assignor: text("range"),
	}
	classic := &memberMetadata{
		clientID: "c", clientHost: "/127.0.0.1", topics: []string{"a"}, rebalanceTimeoutMs: 1,
		classic: &classicMetadata{sessionTimeoutMs: 6000, protocols: []Protocol{{Name: "range", Metadata: []byte{1, 2, 3}}}},
	}
	current := &currentAssignment{
		epoch: 5, previousEpoch: 4, state: memberUnrevoked,
		assigned: partitionEpochs{topicOfRecords: {0: 3, 2: 5}}, revoking: partitionEpochs{topicOfRecords: {1: 4}},
	}
	return map[string]modernRecord{
		"group epoch":               {typeConsumerEpoch, "", epochBody{7, 0x1122334455667788}},
		"group epoch without hash":  {typeConsumerEpoch, "", epochBody{7, 0}},
		"group gone":                {typeConsumerEpoch, "", nil},
		"partition metadata gone":   {typeConsumerTopics, "", nil},
		"member":                    {typeConsumerMember, "m1", member},
		"member gone":               {typeConsumerMember, "m1", nil},
		"classic member":            {typeConsumerMember, "m2", classic},
		"target epoch":              {typeConsumerTargetEpoch, "", targetEpochBody{9, 1700000000000}},
		"target epoch without time": {typeConsumerTargetEpoch, "", targetEpochBody{9, 0}},
		"target epoch gone":         {typeConsumerTargetEpoch, "", nil},
		"target":                    {typeConsumerTarget, "m1", targetBody{assignor.Partitions{topicOfRecords: {0, 1}}}},
		"target gone":               {typeConsumerTarget, "m1", nil},
		"current":                   {typeConsumerCurrent, "m1", current},
		"current gone":              {typeConsumerCurrent, "m1", nil},
		"regex":                     {typeConsumerResolvedRegex, "x.*", &resolvedRegex{[]string{"x0", "x1"}, 12, 1700000000000}},
		"regex gone":                {typeConsumerResolvedRegex, "x.*", nil},
	}
}

// shareRecords are the records that testdata/records/share.txt has, by their names there.
func shareRecords() map[string]modernRecord {
	other := topicOfRecords
	other[0] = 2
	return map[string]modernRecord{
		"member":                    {typeShareMember, "m1", &shareMetadata{rackID: text("r1"), clientID: "c", clientHost: "/127.0.0.1", topics: []string{"a", "b"}}},
		"member without rack":       {typeShareMember, "m2", &shareMetadata{clientID: "c", clientHost: "/127.0.0.1", topics: []string{"a"}}},
		"member gone":               {typeShareMember, "m1", nil},
		"group epoch":               {typeShareEpoch, "", shareEpochBody{7, 0x1122334455667788}},
		"group gone":                {typeShareEpoch, "", nil},
		"target epoch":              {typeShareTargetEpoch, "", targetEpochBody{9, 1700000000000}},
		"target epoch without time": {typeShareTargetEpoch, "", targetEpochBody{9, 0}},
		"target epoch gone":         {typeShareTargetEpoch, "", nil},
		"target":                    {typeShareTarget, "m1", targetBody{assignor.Partitions{topicOfRecords: {0, 1}}}},
		"target gone":               {typeShareTarget, "m1", nil},
		"current":                   {typeShareCurrent, "m1", &shareAssignment{epoch: 5, previousEpoch: 4, assigned: assignor.Partitions{topicOfRecords: {0, 2}}}},
		"current gone":              {typeShareCurrent, "m1", nil},
		"states": {typeShareStates, "", &shareStates{
			initializing: sharedTopics{topicOfRecords: {"a", []int32{1}}}, initialized: sharedTopics{topicOfRecords: {"a", []int32{0, 2}}},
			deleting: map[storage.TopicID]string{other: "b"},
		}},
		"no states":   {typeShareStates, "", &shareStates{initializing: sharedTopics{}, initialized: sharedTopics{}, deleting: map[storage.TopicID]string{}}},
		"states gone": {typeShareStates, "", nil},
	}
}

// kafkaRecords returns what a file of testdata/records has: the records by their names,
// each with its key and value, and the hashes.
func kafkaRecords(t *testing.T, file string) (records map[string][2]string, hashes map[string]string) {
	t.Helper()
	data, err := os.ReadFile("testdata/records/" + file)
	if err != nil {
		t.Fatal(err)
	}
	records, hashes = map[string][2]string{}, map[string]string{}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	for i := 0; i < len(lines); {
		if hash, ok := strings.CutPrefix(lines[i], "hash "); ok {
			at := strings.LastIndex(hash, " ")
			hashes[hash[:at]] = hash[at+1:]
			i++
			continue
		}
		records[lines[i]] = [2]string{lines[i+1], lines[i+2]}
		i += 3
	}
	return records, hashes
}

// TestModernRecordsAreKafkas holds records against what Apache Kafka 4.4.0 writes, and
// reads them back.
func TestModernRecordsAreKafkas(t *testing.T) {
	for file, records := range map[string]map[string]modernRecord{"consumer.txt": consumerRecords(), "share.txt": shareRecords()} {
		written, _ := kafkaRecords(t, file)
		for name, r := range records {
			kafkas, ok := written[name]
			if !ok {
				t.Errorf("%s: record %q is not held against Kafka's", file, name)
				continue
			}
			delete(written, name)
			got := r.encode("g")
			if k := hex.EncodeToString(got.key); k != kafkas[0] {
				t.Errorf("%s: %s: key %s, want %s", file, name, k, kafkas[0])
			}
			value := "null"
			if got.value != nil {
				value = hex.EncodeToString(got.value)
			}
			if value != kafkas[1] {
				t.Errorf("%s: %s: value %s, want %s", file, name, value, kafkas[1])
			}
			group, back, err := decodeModernRecord(got.key, got.value)
			if err != nil || group != "g" || !reflect.DeepEqual(back, r) {
				t.Errorf("%s: %s: read back %+v of %q, %v, want %+v", file, name, back, group, err, r)
			}
		}
		for name := range written {
			t.Errorf("%s: no record %q", file, name)
		}
	}
}

// TestHashesOfTopicsAreKafkas holds them against those that Apache Kafka 4.4.0 makes.
func TestHashesOfTopicsAreKafkas(t *testing.T) {
	_, want := kafkaRecords(t, "consumer.txt")
	b := int64(-6)
	got := map[string]uint64{
		"unicode": hashTopic(topicInfo{name: "café", id: topicOfRecords, partitions: 2}),
		"group":   hashGroup([]uint64{5, uint64(b)}), // of topics a and b
	}
	for _, n := range []int32{1, 3, 100} {
		got[fmt.Sprintf("topic %d", n)] = hashTopic(topicInfo{name: "orders", id: topicOfRecords, partitions: n})
	}
	for name, hash := range want {
		if fmt.Sprint(int64(got[name])) != hash {
			t.Errorf("hash of %s: got %d, want %s", name, int64(got[name]), hash)
		}
	}
	if len(want) != len(got) {
		t.Errorf("Kafka's hashes of %d, want of %d", len(want), len(got))
	}
}

// FuzzModernRecord reads what nobody may have written. What can be read is written and
// read again the same, and is taken by a shard.
func FuzzModernRecord(f *testing.F) {
	for _, records := range []map[string]modernRecord{consumerRecords(), shareRecords()} {
		for _, r := range records {
			l := r.encode("g")
			f.Add(l.key, l.value)
		}
	}
	f.Add([]byte{0, 5, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 2, 1, 9})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		group, r, err := decodeModernRecord(key, value)
		if err != nil {
			return
		}
		again := r.encode(group)
		group2, r2, err := decodeModernRecord(again.key, again.value)
		if err != nil || group2 != group {
			t.Fatalf("%x %x read as %+v of %q, and written again as of %q: %v", key, value, r, group, group2, err)
		}
		if third := r2.encode(group2); !bytes.Equal(third.value, again.value) || !bytes.Equal(third.key, again.key) {
			t.Fatalf("%x %x written as %x %x, then as %x %x", key, value, again.key, again.value, third.key, third.value)
		}
		if r.kind >= 0 && r.kind < typeConsumerEpoch {
			return // a tombstone of another kind
		}
		b := runtime.NewBatch()
		b.Append(record.Record{Key: key, Value: value})
		if err := newShard(&env{config: &Config{}}).replayRecord(b.Bytes(), record.Record{Key: key, Value: value}); err != nil {
			t.Fatalf("%x %x: %v", key, value, err)
		}
	})
}
