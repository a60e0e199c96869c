package storage

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/auth"
)

func testMetadataState() *metadataState {
	st := newMetadataState()
	st.clusterID, st.directoryID, st.adoption = "x9kM3vQ7T1uU5oHn0QwZpA", [16]byte{1, 2, 3}, adoptedClean
	st.format, st.epoch, st.producerIDs = metadataFormat, 7, 4000
	st.setTopic(TopicID{1}, &topicMeta{id: TopicID{1}, name: "orders", partitions: 3})
	st.setTopic(TopicID{2}, &topicMeta{
		id: TopicID{2}, name: "a.b", partitions: 300, adopted: 200,
		configs:  map[string]string{"retention.ms": "5", "cleanup.policy": ""},
		unserved: map[int32]string{7: "no directory", 150: "magic 1"},
	})
	st.deleted[TopicID{3}] = "gone"
	st.configs[resourceKey{brokerResource, ""}] = map[string]string{"log.retention.ms": "9"}
	st.configs[resourceKey{32, "group a"}] = map[string]string{"x": "", "y": "z"}
	st.quotas[QuotaEntity{User: QuotaName{Set: true, Name: "ann"}, ClientID: QuotaName{Set: true}}] = map[string]float64{"producer_byte_rate": 1024, "request_percentage": 0.5}
	st.quotas[QuotaEntity{IP: QuotaName{Set: true, Name: "10.0.0.1"}}] = map[string]float64{"connection_creation_rate": 3}
	st.scram[ScramUser{"ann", auth.ScramSHA512}] = aCredential
	st.scram[ScramUser{"bob", auth.ScramSHA256}] = auth.ScramCredential{Salt: []byte{}, StoredKey: []byte{0}, ServerKey: []byte{1}, Iterations: 4096}
	st.acls[anACL] = true
	st.acls[aDenial] = true
	return st
}

func TestMetadataRecordsComeBack(t *testing.T) {
	st := testMetadataState()
	got := newMetadataState()
	for _, r := range st.records() {
		if err := got.apply(r.key, r.value); err != nil {
			t.Fatalf("record %x=%x: %v", r.key, r.value, err)
		}
	}
	got.shared, st.shared = nil, nil
	if !reflect.DeepEqual(got, st) {
		t.Errorf("got %+v, want %+v", got, st)
	}
}

func TestMetadataRecordsTakeAway(t *testing.T) {
	st := testMetadataState()
	for _, r := range []metadataRecord{
		{key: topicKey(metadataTopicKey, TopicID{2})},
		{key: topicKey(metadataTopicKey, TopicID{9})}, // was never there
		{key: topicKey(metadataDeletedKey, TopicID{3})},
		configsRecord(resourceKey{32, "group a"}, nil),
		quotasRecord(QuotaEntity{IP: QuotaName{Set: true, Name: "10.0.0.1"}}, nil),
		quotasRecord(QuotaEntity{IP: QuotaName{Set: true}}, nil), // was never there
		aclRecord(aDenial, false),
		aclRecord(anotherACL, false), // was never there
		scramRecord(ann512, nil),
		scramRecord(ann256, nil), // was never there
	} {
		if err := st.apply(r.key, r.value); err != nil {
			t.Fatalf("record %x=%x: %v", r.key, r.value, err)
		}
	}
	if len(st.topics) != 1 || len(st.deleted) != 0 || len(st.configs) != 1 || len(st.quotas) != 1 {
		t.Errorf("left are %d topics, %d deleted, %d configs, %d quotas, want 1, 0, 1, 1", len(st.topics), len(st.deleted), len(st.configs), len(st.quotas))
	}
	if len(st.acls) != 1 || !st.acls[anACL] {
		t.Errorf("left are the ACLs %v, want %v", st.acls, anACL)
	}
	if _, ok := st.scram[bob256]; !ok || len(st.scram) != 1 {
		t.Errorf("left are the credentials of %v, want those of %v", st.scram.Sorted(), bob256)
	}
	if err := st.checkName("a_b"); err != nil {
		t.Errorf("the name of the topic that went still collides: %v", err)
	}
}

func TestMetadataUndo(t *testing.T) {
	change := []metadataRecord{
		epochRecord(8),
		producerIDsRecord(5000),
		storeRecord("other", [16]byte{9}, notAdopted),
		topicRecord(&topicMeta{id: TopicID{1}, name: "orders", partitions: 4}),
		topicRecord(&topicMeta{id: TopicID{5}, name: "c.d", partitions: 1}),
		{key: topicKey(metadataTopicKey, TopicID{2})},
		deletedRecord(TopicID{2}, "a.b"),
		{key: topicKey(metadataDeletedKey, TopicID{3})},
		configsRecord(resourceKey{32, "group a"}, nil),
		configsRecord(resourceKey{32, "new"}, map[string]string{"a": "b"}),
		quotasRecord(QuotaEntity{IP: QuotaName{Set: true, Name: "10.0.0.1"}}, nil),
		quotasRecord(QuotaEntity{User: QuotaName{Set: true}}, map[string]float64{"consumer_byte_rate": 9}),
		scramRecord(ann512, nil),
		scramRecord(bob256, &aCredential),
		scramRecord(ann256, &aCredential),
		aclRecord(anotherACL, true),
		aclRecord(anACL, true),
		aclRecord(aDenial, false),
		topicRecord(&topicMeta{id: TopicID{1}, name: "orders", partitions: 5}),
	}
	st := testMetadataState()
	var undo []func()
	for _, r := range change {
		undo = append(undo, st.undo(r.key))
		if err := st.apply(r.key, r.value); err != nil {
			t.Fatalf("record %x=%x: %v", r.key, r.value, err)
		}
	}
	if reflect.DeepEqual(st, testMetadataState()) {
		t.Fatal("the change changed nothing")
	}
	for i := len(undo) - 1; i >= 0; i-- {
		undo[i]()
	}
	want := testMetadataState()
	st.shared, want.shared = nil, nil
	if !reflect.DeepEqual(st, want) {
		t.Errorf("got %+v, want %+v", st, want)
	}
}

func TestUnknownMetadataIsRefused(t *testing.T) {
	for _, c := range []struct {
		what       string
		key, value []byte
		fault      bool // damage, not another format
	}{
		{"format 0", []byte{1}, []byte{1, 0, 0}, false},
		{"format 3", []byte{1}, []byte{1, 0, metadataFormat + 1}, false},
		{"format taken away", []byte{1}, nil, true},
		{"type 12", []byte{12}, []byte{1}, false},
		{"credential of an unknown mechanism", []byte{9, 3, 'a'}, []byte{1, 0, 0, 0, 0}, true},
		{"credential of nobody", []byte{9, 1}, []byte{1, 0, 0, 0, 0}, true},
		{"credential cut short", []byte{9, 1, 'a'}, []byte{1, 0, 0, 0}, true},
		{"credential with bytes behind it", []byte{9, 1, 'a'}, []byte{1, 0, 0, 0, 0, 0}, true},
		{"snapshot taken away", []byte{8}, nil, true},
		{"type 0", []byte{0}, []byte{1}, false},
		{"topic in version 2", topicKey(metadataTopicKey, TopicID{1}), []byte{2, 1, 'a', 1, 0, 0, 0}, false},
		{"no key", nil, []byte{1}, true},
		{"empty value", []byte{3}, []byte{}, false},
		{"epoch taken away", []byte{3}, nil, true},
		{"short epoch", []byte{3}, []byte{1, 0, 0}, true},
		{"long epoch", []byte{3}, []byte{1, 0, 0, 0, 1, 0}, true},
		{"short topic id", []byte{5, 1, 2}, []byte{1, 1, 'a', 1, 0, 0, 0}, true},
		{"topic without partitions", topicKey(metadataTopicKey, TopicID{1}), []byte{1, 1, 'a', 0, 0, 0, 0}, true},
		{"bad topic name", topicKey(metadataTopicKey, TopicID{1}), []byte{1, 1, '/', 1, 0, 0, 0}, true},
		{"configs beyond the end", topicKey(metadataTopicKey, TopicID{1}), []byte{1, 1, 'a', 1, 0, 0xff, 0xff, 0x7f}, true},
		{"name beyond the end", topicKey(metadataTopicKey, TopicID{1}), []byte{1, 0xff, 0xff, 0xff, 0xff, 0x7f}, true},
		{"configs without a kind", []byte{7}, []byte{1, 0}, true},
		{"ACL cut short", []byte{10, 2, 3, 3, 3}, []byte{1}, true},
		{"ACL of a resource that does not exist", []byte{10, 9, 3, 3, 3, 1, 'f', 3, 'U', ':', 'a', 1, '*'}, []byte{1}, true},
		{"ACL with bytes behind it", []byte{10, 2, 3, 3, 3, 1, 'f', 3, 'U', ':', 'a', 1, '*', 0}, []byte{1}, true},
		{"ACL with a value", []byte{10, 2, 3, 3, 3, 1, 'f', 3, 'U', ':', 'a', 1, '*'}, []byte{1, 0}, true},
		{"quotas of nobody", []byte{11, 0}, []byte{1, 0}, true},
		{"quotas of an unknown part", []byte{11, 8}, []byte{1, 0}, true},
		{"quotas with bytes behind the name", []byte{11, 1, 1, 'a', 0}, []byte{1, 0}, true},
		{"quota cut short", []byte{11, 1, 0}, []byte{1, 1, 1, 'k', 0, 0}, true},
		{"quota that is no number", []byte{11, 1, 0}, []byte{1, 1, 1, 'k', 0x7f, 0xf8, 0, 0, 0, 0, 0, 1}, true},
	} {
		err := testMetadataState().apply(c.key, c.value)
		_, fault := errors.AsType[*metadataFault](err)
		if err == nil || fault != c.fault {
			t.Errorf("%s: error %v, want one, damage %v", c.what, err, c.fault)
		}
	}
}

func FuzzMetadataRecord(f *testing.F) {
	for _, r := range testMetadataState().records() {
		f.Add(r.key, r.value, false)
		f.Add(r.key, []byte(nil), true)
	}
	f.Fuzz(func(t *testing.T, key, value []byte, null bool) {
		if null {
			value = nil
		}
		st := newMetadataState()
		if err := st.apply(key, value); err != nil {
			return
		}
		// What is accepted is written again as something that means the same.
		back := newMetadataState()
		for _, r := range st.records() {
			if err := back.apply(r.key, r.value); err != nil {
				t.Fatalf("record %x=%x of the state from %x=%x: %v", r.key, r.value, key, value, err)
			}
		}
		st.format = metadataFormat
		st.shared, back.shared = nil, nil
		if !reflect.DeepEqual(back, st) {
			t.Fatalf("record %x=%x: got %+v, want %+v", key, value, back, st)
		}
	})
}

func TestFormatErrorNamesTheFile(t *testing.T) {
	err := error(&FormatError{File: "d/x.log", Reason: "format 3, known are 1 to 2"})
	if !strings.Contains(err.Error(), "d/x.log") || !strings.Contains(err.Error(), "format 3") {
		t.Errorf("error %q names neither file nor format", err)
	}
}
