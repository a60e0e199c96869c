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
	"github.com/kaen-log/gateway/storage"
)

// topicOfRecords is the topic that testdata/records has.
var topicOfRecords = storage.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18}

func text(s string) *string { return &s }

// consumerRecords are the records that testdata/records has, by their names there.
func consumerRecords() map[string]consumerRecord {
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
	return map[string]consumerRecord{
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

// TestConsumerRecordsAreKafkas holds records and hashes against what Apache Kafka
// 4.4.0 writes, and reads them back.
func TestConsumerRecordsAreKafkas(t *testing.T) {
	data, err := os.ReadFile("testdata/records/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	records := consumerRecords()
	hashes := map[string]uint64{}
	for _, n := range []int32{1, 3, 100} {
		hashes[fmt.Sprintf("topic %d", n)] = hashTopic(topicInfo{name: "orders", id: topicOfRecords, partitions: n})
	}
	hashes["unicode"] = hashTopic(topicInfo{name: "café", id: topicOfRecords, partitions: 2})
	for i := 0; i < len(lines); {
		if rest, ok := strings.CutPrefix(lines[i], "hash "); ok {
			at := strings.LastIndex(rest, " ")
			if got, known := hashes[rest[:at]]; known && fmt.Sprint(int64(got)) != rest[at+1:] {
				t.Errorf("hash of %s: got %d, want %s", rest[:at], int64(got), rest[at+1:])
			}
			i++
			continue
		}
		name, key, value := lines[i], lines[i+1], lines[i+2]
		i += 3
		r, ok := records[name]
		if !ok {
			t.Errorf("no record %q", name)
			continue
		}
		delete(records, name)
		got := r.encode("g")
		if k := hex.EncodeToString(got.key); k != key {
			t.Errorf("%s: key %s, want %s", name, k, key)
		}
		if v := hex.EncodeToString(got.value); got.value == nil && value != "null" || got.value != nil && v != value {
			t.Errorf("%s: value %s, want %s", name, v, value)
		}
		group, back, err := decodeConsumerRecord(got.key, got.value)
		if err != nil || group != "g" || !reflect.DeepEqual(back, r) {
			t.Errorf("%s: read back %+v of %q, %v, want %+v", name, back, group, err, r)
		}
	}
	for name := range records {
		t.Errorf("record %q is not held against Kafka's", name)
	}
}

// FuzzConsumerRecord reads what nobody may have written. What can be read is written
// and read again the same.
func FuzzConsumerRecord(f *testing.F) {
	for _, r := range consumerRecords() {
		l := r.encode("g")
		f.Add(l.key, l.value)
	}
	f.Add([]byte{0, 5, 0, 1, 'g', 0, 1, 'm'}, []byte{0, 0, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 1, 0, 2, 1, 9})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		group, r, err := decodeConsumerRecord(key, value)
		if err != nil {
			return
		}
		again := r.encode(group)
		group2, r2, err := decodeConsumerRecord(again.key, again.value)
		if err != nil || group2 != group {
			t.Fatalf("%x %x read as %+v of %q, and written again as of %q: %v", key, value, r, group, group2, err)
		}
		if third := r2.encode(group2); !bytes.Equal(third.value, again.value) || !bytes.Equal(third.key, again.key) {
			t.Fatalf("%x %x written as %x %x, then as %x %x", key, value, again.key, again.value, third.key, third.value)
		}
		s := newShard(&env{config: &Config{}})
		if err := s.replayConsumer(r.kind, key, value); err != nil {
			t.Fatalf("%x %x: %v", key, value, err)
		}
	})
}
