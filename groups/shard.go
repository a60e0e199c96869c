package groups

import (
	"maps"
	"slices"

	"github.com/kaen-log/gateway/storage"
)

// shard is the state of one partition of __consumer_offsets: the offsets of its
// groups. It is a pure machine; the Coordinator adds the lock, the log and the wait.
type shard struct {
	groups map[string]*group
	// transactions are the offsets that open transactions would commit, by producer
	// id: they count once the commit marker is read.
	transactions map[int64][]change
}

// group is what one group has committed.
type group struct {
	offsets map[offsetKey]stored
	// unstable counts, for each offset, the open transactions that would change it.
	unstable map[offsetKey]int
}

// stored is a committed offset and where in the log its record is.
type stored struct {
	Offset
	recordOffset int64
}

// change is one record's effect: an offset set, or removed when offset is nil.
type change struct {
	group        string
	key          offsetKey
	offset       *Offset
	recordOffset int64
}

func newShard() *shard {
	return &shard{groups: map[string]*group{}, transactions: map[int64][]change{}}
}

// group returns the named group, made when missing.
func (s *shard) group(id string) *group {
	g := s.groups[id]
	if g == nil {
		g = &group{offsets: map[offsetKey]stored{}, unstable: map[offsetKey]int{}}
		s.groups[id] = g
	}
	return g
}

// apply makes c take effect. What the log has later wins, whichever is applied
// first: a transaction's offsets count from where they stand, not from its marker.
// Kafka: OffsetMetadataManager.replay and completeTransaction.
func (s *shard) apply(c change) {
	g := s.group(c.group)
	if old, ok := g.offsets[c.key]; ok && old.recordOffset > c.recordOffset {
		return
	}
	if c.offset != nil {
		g.offsets[c.key] = stored{Offset: *c.offset, recordOffset: c.recordOffset}
	} else {
		delete(g.offsets, c.key)
	}
	s.dropEmpty(c.group, g)
}

// stage notes what an open transaction would do.
func (s *shard) stage(producerID int64, c change) {
	s.transactions[producerID] = append(s.transactions[producerID], c)
	s.group(c.group).unstable[c.key]++
}

// end closes the transaction of a producer; commit makes its offsets count.
func (s *shard) end(producerID int64, commit bool) {
	for _, c := range s.transactions[producerID] {
		g := s.group(c.group)
		if g.unstable[c.key]--; g.unstable[c.key] == 0 {
			delete(g.unstable, c.key)
		}
		if commit {
			s.apply(c)
		} else {
			s.dropEmpty(c.group, g)
		}
	}
	delete(s.transactions, producerID)
}

// dropEmpty forgets a group that holds nothing.
func (s *shard) dropEmpty(id string, g *group) {
	if len(g.offsets) == 0 && len(g.unstable) == 0 {
		delete(s.groups, id)
	}
}

// lookup returns a committed offset. A topic id that differs from the one the
// offset was committed for finds nothing: the topic was made anew. Kafka:
// OffsetMetadataManager.isOffsetInvalid.
func (s *shard) lookup(id string, k offsetKey, topicID storage.TopicID) (o Offset, unstable, ok bool) {
	g := s.groups[id]
	if g == nil {
		return Offset{}, false, false
	}
	unstable = g.unstable[k] > 0
	st, ok := g.offsets[k]
	if !ok || (!topicID.IsZero() && !st.TopicID.IsZero() && st.TopicID != topicID) {
		return Offset{}, unstable, false
	}
	return st.Offset, unstable, true
}

// keys returns the keys of a group's offsets, by topic and partition.
func (s *shard) keys(id string) []offsetKey {
	g := s.groups[id]
	if g == nil {
		return nil
	}
	return slices.SortedFunc(maps.Keys(g.offsets), compareKeys)
}

// ofTopic returns the removals of every offset committed for a topic that was
// deleted: those with its id, and those that carry none. Kafka:
// OffsetMetadataManager.onTopicsDeleted.
func (s *shard) ofTopic(name string, id storage.TopicID) []change {
	var out []change
	for groupID, g := range s.groups {
		for k, st := range g.offsets {
			if k.topic == name && (st.TopicID.IsZero() || st.TopicID == id) {
				out = append(out, change{group: groupID, key: k})
			}
		}
	}
	slices.SortFunc(out, func(a, b change) int {
		if a.group != b.group {
			if a.group < b.group {
				return -1
			}
			return 1
		}
		return compareKeys(a.key, b.key)
	})
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
