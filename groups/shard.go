package groups

import (
	"maps"
	"slices"

	"github.com/kaen-log/gateway/storage"
)

// shard is the state of one partition of __consumer_offsets: its groups. It is pure;
// owner adds the lock, the log and the wait.
type shard struct {
	env     *env
	entries map[string]*entry
	// transactions are the offsets that open transactions would commit, by producer
	// id: they count once the commit marker is read. Kafka:
	// OffsetMetadataManager.pendingTransactionalOffsets.
	transactions map[int64]map[pendingOffset]stored
	// ending is the last marker on its way to the disk; nil when there is none.
	ending *ending
	// base is the offset in the log of the first record of the step that is told of now.
	base int64
}

// ending is a marker on its way to the disk.
type ending struct {
	after []func() // what is to be done when it has taken effect or was lost
}

// change is one record's effect: an offset set, or removed when offset is nil.
type change struct {
	group        string
	key          offsetKey
	offset       *Offset
	recordOffset int64
}

// pendingOffset names an offset that a transaction would commit.
type pendingOffset struct {
	group string
	key   offsetKey
}

func newShard(env *env) *shard {
	return &shard{env: env, entries: map[string]*entry{}, transactions: map[int64]map[pendingOffset]stored{}}
}

// ensure returns the named group, made when missing. One that holds nothing once its
// step is over is dropped again.
func (s *shard) ensure(id string) *entry {
	e := s.entries[id]
	if e == nil {
		e = &entry{id: id, place: notThere}
		s.entries[id] = e
	}
	return e
}

// apply makes c take effect. What the log has later wins, whichever is applied
// first: a transaction's offsets count from where they stand, not from its marker.
// Kafka: OffsetMetadataManager.replay and completeTransaction.
func (s *shard) apply(c change) {
	e := s.ensure(c.group)
	if old, ok := e.offsets[c.key]; ok && old.recordOffset > c.recordOffset {
		return
	}
	if c.offset == nil {
		delete(e.offsets, c.key)
		s.unstage(e, c.key)
		s.dropEmpty(e)
		return
	}
	if e.offsets == nil {
		e.offsets = map[offsetKey]stored{}
	}
	e.offsets[c.key] = stored{Offset: *c.offset, recordOffset: c.recordOffset}
	e.simple = e.machine == nil
}

// stage notes what an open transaction would do. What it said before of the same offset
// is forgotten.
func (s *shard) stage(producerID int64, c change) {
	t := s.transactions[producerID]
	if t == nil {
		t = map[pendingOffset]stored{}
		s.transactions[producerID] = t
	}
	e, p := s.ensure(c.group), pendingOffset{c.group, c.key}
	if _, again := t[p]; !again {
		if e.unstable == nil {
			e.unstable = map[offsetKey][]int64{}
		}
		e.unstable[c.key] = append(e.unstable[c.key], producerID)
	}
	t[p] = stored{Offset: *c.offset, recordOffset: c.recordOffset}
	e.simple = e.machine == nil
}

// unstage forgets what open transactions would do to an offset that is removed.
// Kafka: OffsetMetadataManager.replay.
func (s *shard) unstage(e *entry, k offsetKey) {
	for _, producerID := range e.unstable[k] {
		t := s.transactions[producerID]
		if delete(t, pendingOffset{e.id, k}); len(t) == 0 {
			delete(s.transactions, producerID)
		}
	}
	delete(e.unstable, k)
}

// end closes the transaction of a producer; commit makes its offsets count. Kafka:
// OffsetMetadataManager.replayEndTransactionMarker.
func (s *shard) end(producerID int64, commit bool) {
	for p, st := range s.transactions[producerID] {
		e := s.ensure(p.group)
		others := slices.DeleteFunc(e.unstable[p.key], func(id int64) bool { return id == producerID })
		if e.unstable[p.key] = others; len(others) == 0 {
			delete(e.unstable, p.key)
		}
		if commit {
			s.apply(change{group: p.group, key: p.key, offset: &st.Offset, recordOffset: st.recordOffset})
		} else {
			s.dropEmpty(e)
		}
	}
	delete(s.transactions, producerID)
}

// dropEmpty forgets a group that holds nothing.
func (s *shard) dropEmpty(e *entry) {
	if e.empty() {
		delete(s.entries, e.id)
	}
}

// keys returns the keys of a group's offsets, by topic and partition.
func (e *entry) keys() []offsetKey {
	return slices.SortedFunc(maps.Keys(e.offsets), compareKeys)
}

// ofTopic returns the groups, in order, that have committed for a deleted topic, or
// are about to, also in a transaction, or share it.
func (s *shard) ofTopic(name string, id storage.TopicID) []string {
	var out []string
	for group, e := range s.entries {
		if e.commits > 0 || len(s.offsetsOf(e, name, id)) > 0 || e.share().knows(id) {
			out = append(out, group)
		}
	}
	slices.Sort(out)
	return out
}

// offsetsOf returns the keys, in order, of offsets that a group has committed for a
// deleted topic, or would in a transaction: those with its id, and those that carry none.
// Kafka: OffsetMetadataManager.onTopicsDeleted.
func (s *shard) offsetsOf(e *entry, name string, id storage.TopicID) []offsetKey {
	if e == nil {
		return nil
	}
	var out []offsetKey
	for k, st := range e.offsets {
		if k.topic == name && st.isFor(id) {
			out = append(out, k)
		}
	}
	for k, producers := range e.unstable {
		if k.topic == name && slices.ContainsFunc(producers, func(producerID int64) bool {
			return s.transactions[producerID][pendingOffset{e.id, k}].isFor(id)
		}) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	return slices.Compact(out)
}

// isFor says whether an offset was committed for the topic with an id, as far as it says.
func (st stored) isFor(id storage.TopicID) bool { return st.TopicID.IsZero() || st.TopicID == id }

func compareKeys(a, b offsetKey) int {
	switch {
	case a.topic < b.topic:
		return -1
	case a.topic > b.topic:
		return 1
	}
	return int(a.partition) - int(b.partition)
}
