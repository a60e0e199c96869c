package groups

import (
	"bytes"
	"encoding/hex"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// shareRecords are the records that testdata/records/share.txt has, by their names there.
func shareRecords() map[string]shareRecord {
	other := topicOfRecords
	other[0] = 2
	return map[string]shareRecord{
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

// TestShareRecordsAreKafkas holds records against what Apache Kafka 4.4.0 writes, and
// reads them back.
func TestShareRecordsAreKafkas(t *testing.T) {
	data, err := os.ReadFile("testdata/records/share.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	records := shareRecords()
	for i := 0; i+2 < len(lines); i += 3 {
		name, key, value := lines[i], lines[i+1], lines[i+2]
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
		group, back, err := decodeShareRecord(got.key, got.value)
		if err != nil || group != "g" || !reflect.DeepEqual(back, r) {
			t.Errorf("%s: read back %+v of %q, %v, want %+v", name, back, group, err, r)
		}
	}
	for name := range records {
		t.Errorf("record %q is not held against Kafka's", name)
	}
}

// FuzzShareRecord reads what nobody may have written. What can be read is written and
// read again the same.
func FuzzShareRecord(f *testing.F) {
	for _, r := range shareRecords() {
		l := r.encode("g")
		f.Add(l.key, l.value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		group, r, err := decodeShareRecord(key, value)
		if err != nil {
			return
		}
		again := r.encode(group)
		group2, r2, err := decodeShareRecord(again.key, again.value)
		if err != nil || group2 != group {
			t.Fatalf("%x %x read as %+v of %q, and written again as of %q: %v", key, value, r, group, group2, err)
		}
		if third := r2.encode(group2); !bytes.Equal(third.value, again.value) || !bytes.Equal(third.key, again.key) {
			t.Fatalf("%x %x written as %x %x, then as %x %x", key, value, again.key, again.value, third.key, third.value)
		}
		s := newShard(&env{config: &Config{}})
		if err := s.replayShare(key, value); err != nil {
			t.Fatalf("%x %x: %v", key, value, err)
		}
	})
}
