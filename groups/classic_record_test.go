package groups

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// testRecord is a group with a dynamic and a static member.
func testRecord() *classicRecord {
	instance := "i2"
	return &classicRecord{
		group: "kitchen", groupType: "consumer", generation: 7, protocol: "range", leader: "a-1", sinceMs: 1_700_000_000_000,
		members: []classicRecordMember{
			{id: "a-1", clientID: "a", clientHost: "/127.0.0.1", rebalanceTimeout: time.Minute, sessionTimeout: 10 * time.Second, subscription: []byte("s1"), assignment: []byte("x")},
			{id: "b-2", instanceID: &instance, clientID: "b", clientHost: "/::1", rebalanceTimeout: 2 * time.Minute, sessionTimeout: 45 * time.Second, subscription: []byte("s2"), assignment: []byte{}},
		},
	}
}

func TestGroupRecordIsKafkasVersion3(t *testing.T) {
	r := testRecord().encode()
	var key kmsg.GroupMetadataKey
	if err := key.ReadFrom(r.key); err != nil || key.Version != 2 || key.Group != "kitchen" {
		t.Errorf("key: got %+v %v, want version 2 of kitchen", key, err)
	}
	var v kmsg.GroupMetadataValue
	if err := v.ReadFrom(r.value); err != nil || v.Version != 3 {
		t.Fatalf("value: got version %d %v, want 3", v.Version, err)
	}
	if v.ProtocolType != "consumer" || v.Generation != 7 || *v.Protocol != "range" || *v.Leader != "a-1" || v.CurrentStateTimestamp != 1_700_000_000_000 {
		t.Errorf("value: got %+v", v)
	}
	m := v.Members[1]
	if m.MemberID != "b-2" || *m.InstanceID != "i2" || m.ClientID != "b" || m.ClientHost != "/::1" || m.RebalanceTimeoutMillis != 120_000 ||
		m.SessionTimeoutMillis != 45_000 || string(m.Subscription) != "s2" || m.Assignment == nil {
		t.Errorf("member: got %+v", m)
	}
	empty := (&classicRecord{group: "g", sinceMs: -1}).encode()
	v = kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(empty.value); err != nil || v.Protocol != nil || v.Leader != nil {
		t.Errorf("empty group: got protocol %v, leader %v, %v, want nulls", v.Protocol, v.Leader, err)
	}
}

// TestGroupRecordsOfOlderVersionsAreRead gives what each version did not have yet its default.
func TestGroupRecordsOfOlderVersionsAreRead(t *testing.T) {
	for version := int16(0); version <= maxGroupMetadataVersion; version++ {
		r := testRecord().encode()
		v := kmsg.NewGroupMetadataValue()
		if err := v.ReadFrom(r.value); err != nil {
			t.Fatal(err)
		}
		v.Version = version
		_, got, err := parseClassicRecord(r.key, v.AppendTo(nil))
		if err != nil {
			t.Errorf("version %d: %v", version, err)
			continue
		}
		want := testRecord()
		if version < 1 {
			want.members[0].rebalanceTimeout, want.members[1].rebalanceTimeout = 10*time.Second, 45*time.Second
		}
		if version < 2 {
			want.sinceMs = -1
		}
		if version < 3 {
			want.members[1].instanceID = nil
		}
		if !sameRecord(got, want) {
			t.Errorf("version %d: got %+v, want %+v", version, got, want)
		}
	}
}

func TestGroupRecordsThatCannotBeReadAreRefused(t *testing.T) {
	good := testRecord().encode()
	twice := testRecord()
	twice.members[1].id = twice.members[0].id
	for _, c := range []struct {
		name       string
		key, value []byte
	}{
		{"key cut short", good.key[:3], good.value},
		{"value of a byte", good.key, []byte{0}},
		{"version 5", good.key, append([]byte{0, 5}, good.value[2:]...)},
		{"value cut short", good.key, good.value[:len(good.value)-1]},
		{"member twice", good.key, twice.encode().value},
	} {
		if _, _, err := parseClassicRecord(c.key, c.value); err == nil {
			t.Errorf("%s: read", c.name)
		}
	}
	s := newShard(&env{config: &Config{MaxSize: 1}})
	instance := "i"
	same := testRecord()
	same.members[0].instanceID, same.members[1].instanceID = &instance, &instance
	bad := same.encode()
	if err := s.replayClassic(bad.key, bad.value); err == nil || s.entries["kitchen"] != nil {
		t.Errorf("instance twice: got %v and group %v", err, s.entries["kitchen"])
	}
}

func TestGroupTombstoneRemovesTheMembersAndKeepsTheOffsets(t *testing.T) {
	s := newShard(&env{config: &Config{MaxSize: 10}})
	r := testRecord().encode()
	if err := s.replayClassic(r.key, r.value); err != nil {
		t.Fatal(err)
	}
	s.apply(set("kitchen", "orders", 0, 7, 0))
	tombstones := s.entries["kitchen"].machine.tombstones()
	if len(tombstones) != 1 || tombstones[0].value != nil || !bytes.Equal(tombstones[0].key, r.key) {
		t.Fatalf("got tombstones %q, want one of key %q", tombstones, r.key)
	}
	if err := s.replayClassic(tombstones[0].key, nil); err != nil {
		t.Fatal(err)
	}
	if e := s.entries["kitchen"]; e == nil || e.machine != nil {
		t.Errorf("got %+v, want a simple group", e)
	}
	if err := s.replayClassic(classicKey("ghost"), nil); err != nil || s.entries["ghost"] != nil {
		t.Errorf("tombstone of an unknown group: got %v %v", err, s.entries["ghost"])
	}
}

func sameRecord(a, b *classicRecord) bool {
	return a.group == b.group && a.groupType == b.groupType && a.generation == b.generation && a.protocol == b.protocol &&
		a.leader == b.leader && a.sinceMs == b.sinceMs &&
		slices.EqualFunc(a.members, b.members, func(a, b classicRecordMember) bool {
			return a.id == b.id && (a.instanceID == nil) == (b.instanceID == nil) && (a.instanceID == nil || *a.instanceID == *b.instanceID) &&
				a.clientID == b.clientID && a.clientHost == b.clientHost && a.rebalanceTimeout == b.rebalanceTimeout &&
				a.sessionTimeout == b.sessionTimeout && bytes.Equal(a.subscription, b.subscription) && bytes.Equal(a.assignment, b.assignment)
		})
}

// FuzzClassicRecord reads any bytes as a group's record. What can be read is a group
// that is sound, and is written and read again as the same.
func FuzzClassicRecord(f *testing.F) {
	good := testRecord().encode()
	f.Add(good.key, good.value)
	f.Add(good.key, []byte(nil))
	for version := byte(0); version <= maxGroupMetadataVersion+1; version++ {
		f.Add(good.key, append([]byte{0, version}, good.value[2:]...))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		s := newShard(&env{config: &Config{MaxSize: 1}})
		if err := s.replayClassic(key, value); err != nil || value == nil {
			return
		}
		group, first, err := parseClassicRecord(key, value)
		if err != nil {
			t.Fatalf("replayed, but not read: %v", err)
		}
		g := s.entries[group].classic()
		checkClassicGroup(t, g)
		again := g.record().encode()
		_, second, err := parseClassicRecord(again.key, again.value)
		if err != nil {
			t.Fatalf("written and not read again: %v", err)
		}
		first.sinceMs, first.leader = max(first.sinceMs, -1), g.leader
		if !sameRecord(first, second) {
			t.Errorf("read %+v, written and read again %+v", first, second)
		}
		g.loaded(scriptStart)
		checkClassicGroup(t, g)
	})
}

// FuzzSubscribedTopics reads any bytes as a consumer's subscription.
func FuzzSubscribedTopics(f *testing.F) {
	f.Add(subscription("orders+dishes"))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		topics, ok := subscribedTopics(b)
		if !ok {
			return
		}
		n := 2 + 4 + 4
		for _, topic := range topics {
			n += 2 + len(topic)
		}
		if n > len(b) {
			t.Errorf("topics %q out of %d bytes", topics, len(b))
		}
	})
}

// TestVotesForProtocolsAreCountedInKafkasOrder breaks ties as Kafka's HashMap does; this
// is the order in which OpenJDK 17 lists these keys.
func TestVotesForProtocolsAreCountedInKafkasOrder(t *testing.T) {
	order := strings.Fields("uniform sticky range roundrobin cooperative-sticky")
	for i, first := range order {
		for _, second := range order[i+1:] {
			g := newClassicGroup("g", nil, scriptStart)
			g.add(&classicMember{id: "1", protocols: []Protocol{{Name: second}, {Name: first}}})
			g.add(&classicMember{id: "2", protocols: []Protocol{{Name: first}, {Name: second}}})
			if got := g.selectProtocol(); got != first {
				t.Errorf("one vote each for %s and %s: got %s", second, first, got)
			}
		}
	}
}
