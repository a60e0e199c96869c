package groups

import (
	"bytes"
	"slices"
	"testing"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

func set(group, topic string, partition int32, offset, at int64) change {
	return change{group: group, key: offsetKey{topic, partition}, offset: &Offset{Offset: offset, ExpireMs: -1}, recordOffset: at}
}

func committed(t *testing.T, s *shard, group, topic string, partition int32) (int64, bool) {
	t.Helper()
	o, _, ok := s.entries[group].lookup(offsetKey{topic, partition}, storage.TopicID{})
	return o.Offset, ok
}

func TestOffsetsAreKeptByGroupTopicAndPartition(t *testing.T) {
	s := newShard(nil)
	s.apply(set("kitchen", "orders", 0, 7, 0))
	s.apply(set("courier", "orders", 0, 4, 1))
	s.apply(set("kitchen", "orders", 1, 9, 2))
	for _, c := range []struct {
		group     string
		partition int32
		want      int64
		ok        bool
	}{{"kitchen", 0, 7, true}, {"courier", 0, 4, true}, {"kitchen", 1, 9, true}, {"courier", 1, 0, false}, {"ghost", 0, 0, false}} {
		if got, ok := committed(t, s, c.group, "orders", c.partition); got != c.want || ok != c.ok {
			t.Errorf("%s orders-%d: got %d %v, want %d %v", c.group, c.partition, got, ok, c.want, c.ok)
		}
	}
}

func TestLaterRecordWinsWhicheverIsAppliedFirst(t *testing.T) {
	s := newShard(nil)
	s.apply(set("g", "t", 0, 20, 5))
	s.apply(set("g", "t", 0, 10, 4))
	if got, _ := committed(t, s, "g", "t", 0); got != 20 {
		t.Errorf("got %d, want 20: its record is later in the log", got)
	}
}

func TestTombstoneRemovesOneKeyAndNotTheGroup(t *testing.T) {
	s := newShard(nil)
	s.apply(set("g", "t", 0, 1, 0))
	s.apply(set("g", "t", 1, 2, 1))
	s.apply(change{group: "g", key: offsetKey{"t", 0}, recordOffset: 2})
	if _, ok := committed(t, s, "g", "t", 0); ok {
		t.Error("t-0 is still there")
	}
	if got, ok := committed(t, s, "g", "t", 1); got != 2 || !ok {
		t.Errorf("t-1: got %d %v, want 2", got, ok)
	}
	s.apply(change{group: "g", key: offsetKey{"t", 1}, recordOffset: 3})
	if e := s.entries["g"]; e == nil || !e.simple || len(e.offsets) != 0 {
		t.Errorf("got %+v, want a simple group without offsets", e)
	}
	s.hasMembership(classicKey("g")) // whose tombstone a deletion writes
	if len(s.entries) != 0 {
		t.Errorf("after the tombstone of the group: got %d groups, want none", len(s.entries))
	}
}

func TestTransactionalOffsetsCountFromTheirMarker(t *testing.T) {
	s := newShard(nil)
	s.apply(set("g", "t", 0, 1, 0))
	s.stage(7, set("g", "t", 0, 5, 1))
	if o, unstable, ok := s.entries["g"].lookup(offsetKey{"t", 0}, storage.TopicID{}); o.Offset != 1 || !unstable || !ok {
		t.Errorf("open: got %d unstable %v %v, want the committed 1, unstable", o.Offset, unstable, ok)
	}
	s.end(7, false)
	if o, unstable, _ := s.entries["g"].lookup(offsetKey{"t", 0}, storage.TopicID{}); o.Offset != 1 || unstable {
		t.Errorf("aborted: got %d unstable %v, want 1", o.Offset, unstable)
	}
	s.stage(7, set("g", "t", 0, 6, 3))
	s.apply(set("g", "t", 0, 9, 4)) // a plain commit after it in the log
	s.end(7, true)
	if o, unstable, _ := s.entries["g"].lookup(offsetKey{"t", 0}, storage.TopicID{}); o.Offset != 9 || unstable {
		t.Errorf("committed under a later plain commit: got %d unstable %v, want 9", o.Offset, unstable)
	}
	s.stage(8, set("new", "t", 0, 3, 5))
	s.end(8, false)
	if e := s.entries["new"]; e == nil || !e.simple || len(e.offsets)+len(e.unstable) != 0 {
		t.Errorf("got %+v, want a simple group without offsets: an aborted transaction leaves it", e)
	}
}

func TestOffsetOfAnotherTopicIDIsNotFound(t *testing.T) {
	s := newShard(nil)
	old, now := storage.TopicID{1}, storage.TopicID{2}
	c := set("g", "t", 0, 5, 0)
	c.offset.TopicID = old
	s.apply(c)
	for id, want := range map[storage.TopicID]bool{old: true, now: false, {}: true} {
		if _, _, ok := s.entries["g"].lookup(offsetKey{"t", 0}, id); ok != want {
			t.Errorf("asked with id %v: found %v, want %v", id, ok, want)
		}
	}
}

func TestOffsetsOfADeletedTopicAreListed(t *testing.T) {
	s := newShard(nil)
	id, other := storage.TopicID{1}, storage.TopicID{2}
	for i, c := range []struct {
		group, topic string
		id           storage.TopicID
	}{{"b", "t", id}, {"a", "t", storage.TopicID{}}, {"c", "t", other}, {"a", "u", id}} {
		ch := set(c.group, c.topic, 0, 1, int64(i))
		ch.offset.TopicID = c.id
		s.apply(ch)
	}
	got := s.ofTopic("t", id)
	if want := []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// A group that had offsets before it had members is known by its members from then on:
// nothing is left of it without them, after a replay too.
func TestReplayForgetsASimpleGroupThatGotMembers(t *testing.T) {
	id := storage.TopicID{1}
	env := newGroupWorld().env
	for name, membership := range map[string]struct{ there, gone []logRecord }{
		"classic":  {[]logRecord{newClassicGroup("g", env, start).record().encode()}, newClassicGroup("g", env, start).tombstones()},
		"consumer": {[]logRecord{modernRecord{kind: typeConsumerEpoch, body: epochBody{epoch: 2}}.encode("g")}, newConsumerGroup("g", env).tombstones()},
		"share":    {[]logRecord{modernRecord{kind: typeShareEpoch, body: shareEpochBody{epoch: 2}}.encode("g")}, newShareGroup("g", env).tombstones()},
	} {
		s := newShard(env)
		offset := set("g", "t", 0, 1, 0)
		offset.offset.TopicID = id
		removed := change{group: "g", key: offset.key}
		for _, r := range slices.Concat([]logRecord{offset.record()}, membership.there, []logRecord{removed.record()}, membership.gone) {
			b := runtime.NewBatch()
			b.Append(record.Record{Key: r.key, Value: r.value})
			if err := s.replayRecord(b.Bytes(), record.Record{Key: r.key, Value: r.value}); err != nil {
				t.Fatal(err)
			}
		}
		if e := s.entries["g"]; e != nil {
			t.Errorf("%s group: got %+v, want none", name, e)
		}
	}
}

// However often a transaction commits an offset, its last word is all that is kept.
func TestLongTransactionDoesNotGrow(t *testing.T) {
	s := newShard(nil)
	for i := range int64(100) {
		s.stage(9, set("g", "t", 0, i, i))
	}
	if n, p := len(s.transactions[9]), s.entries["g"].unstable[offsetKey{"t", 0}]; n != 1 || !slices.Equal(p, []int64{9}) {
		t.Errorf("got %d offsets, to be changed by %v; want one, by 9", n, p)
	}
	s.end(9, true)
	if got, ok := committed(t, s, "g", "t", 0); got != 99 || !ok {
		t.Errorf("got %d %v, want 99", got, ok)
	}
}

// An offset that is removed stays so when a transaction ends that would have changed it.
func TestRemovedOffsetDoesNotComeBackWithATransaction(t *testing.T) {
	s := newShard(nil)
	s.apply(set("g", "t", 0, 1, 0))
	s.stage(9, set("g", "t", 0, 2, 1))
	s.stage(9, set("g", "t", 1, 3, 2))
	s.apply(change{group: "g", key: offsetKey{"t", 0}, recordOffset: 3})
	if p := s.entries["g"].unstable[offsetKey{"t", 0}]; len(p) != 0 {
		t.Errorf("producers %v would change the removed offset, want none", p)
	}
	s.end(9, true)
	if got, ok := committed(t, s, "g", "t", 0); ok {
		t.Errorf("t-0: got %d, want nothing", got)
	}
	if got, ok := committed(t, s, "g", "t", 1); got != 3 || !ok {
		t.Errorf("t-1: got %d %v, want 3", got, ok)
	}
}

// Kafka before 4.1 wrote a record for the topics of a group, which goes with the group's
// next epoch.
func TestRecordOfTopicsGoesWithTheNextEpoch(t *testing.T) {
	w := newGroupWorld()
	w.topic("orders", 1)
	for _, r := range []modernRecord{{kind: typeConsumerEpoch, body: epochBody{epoch: 2}}, {kind: typeConsumerTopics, body: topicsBody{}}} {
		l := r.encode(scriptGroup)
		if err := w.shard.replayConsumer(l.key, l.value); err != nil {
			t.Fatal(err)
		}
	}
	r := &ConsumerHeartbeatRequest{Group: scriptGroup, MemberID: "m", Topics: []string{"orders"}, Owned: []TopicPartitions{}, RebalanceTimeoutMs: 1000}
	w.call(func() step { return w.shard.consumerHeartbeat(w.now, w.entry(), r, func(ConsumerHeartbeat, error) {}) })
	want := modernRecord{kind: typeConsumerTopics}.encode(scriptGroup)
	if n := len(slices.DeleteFunc(slices.Clone(w.log), func(l logRecord) bool { return !bytes.Equal(l.key, want.key) || l.value != nil })); n != 1 {
		t.Errorf("the record of topics is removed %d times, want once", n)
	}
	if w.entry().consumer().oldTopics {
		t.Error("the group has a record of topics still")
	}
}
