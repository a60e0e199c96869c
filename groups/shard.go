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
	// id: they count once the commit marker is read.
	transactions map[int64][]change
	// base is the offset in the log of the first record of the step that is told of now.
	base int64
}

// change is one record's effect: an offset set, or removed when offset is nil.
type change struct {
	group        string
	key          offsetKey
	offset       *Offset
	recordOffset int64
}

func newShard(env *env) *shard {
	return &shard{env: env, entries: map[string]*entry{}, transactions: map[int64][]change{}}
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

// stage notes what an open transaction would do.
func (s *shard) stage(producerID int64, c change) {
	s.transactions[producerID] = append(s.transactions[producerID], c)
	e := s.ensure(c.group)
	if e.unstable == nil {
		e.unstable = map[offsetKey]int{}
	}
	e.unstable[c.key]++
	e.simple = e.machine == nil
}

// unstage forgets what open transactions would do to an offset that is removed.
// Kafka: OffsetMetadataManager.replay.
func (s *shard) unstage(e *entry, k offsetKey) {
	if e.unstable[k] == 0 {
		return
	}
	delete(e.unstable, k)
	for producerID, changes := range s.transactions {
		s.transactions[producerID] = slices.DeleteFunc(changes, func(c change) bool { return c.group == e.id && c.key == k })
	}
}

// end closes the transaction of a producer; commit makes its offsets count.
func (s *shard) end(producerID int64, commit bool) {
	for _, c := range s.transactions[producerID] {
		e := s.ensure(c.group)
		if e.unstable[c.key]--; e.unstable[c.key] == 0 {
			delete(e.unstable, c.key)
		}
		if commit {
			s.apply(c)
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
// are about to, or share it.
func (s *shard) ofTopic(name string, id storage.TopicID) []string {
	var out []string
	for group, e := range s.entries {
		if e.commits > 0 || len(e.ofTopic(name, id)) > 0 || e.share().knows(id) {
			out = append(out, group)
		}
	}
	slices.Sort(out)
	return out
}

// ofTopic returns the keys, in order, of offsets that were committed for a deleted
// topic: those with its id, and those that carry none. Kafka:
// OffsetMetadataManager.onTopicsDeleted.
func (e *entry) ofTopic(name string, id storage.TopicID) []offsetKey {
	if e == nil {
		return nil
	}
	var out []offsetKey
	for k, st := range e.offsets {
		if k.topic == name && (st.TopicID.IsZero() || st.TopicID == id) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, compareKeys)
	return out
}

func compareKeys(a, b offsetKey) int {
	switch {
	case a.topic < b.topic:
		return -1
	case a.topic > b.topic:
		return 1
	}
	return int(a.partition) - int(b.partition)
}
