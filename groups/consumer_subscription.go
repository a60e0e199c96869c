package groups

import (
	"encoding/binary"
	"maps"
	"slices"
	"unicode/utf16"

	"github.com/zeebo/xxh3"

	"github.com/kaen-log/gateway/storage"
)

// subscriptions is what the members of a group want, taken together.
type subscriptions struct {
	members int
	// names counts, for each topic, the members that name it; matched, the regular
	// expressions of the group that have matched it.
	names, matched map[string]int
	regexes        map[string]int // members by their regular expression
	assignors      map[string]int // votes
}

// subscriptionsOf sums up members. Regular expressions that nobody has any more do
// not count. Kafka: ConsumerGroup.computeSubscribedTopicNames and
// computeSubscribedRegularExpressions.
func (g *consumerGroup) subscriptionsOf(members map[string]*consumerMember) *subscriptions {
	s := &subscriptions{
		members: len(members),
		names:   map[string]int{}, matched: map[string]int{}, regexes: map[string]int{}, assignors: map[string]int{},
	}
	for _, m := range members {
		for _, topic := range m.topics {
			s.names[topic]++
		}
		if m.regex != "" {
			s.regexes[m.regex]++
		}
		if m.assignor != nil {
			s.assignors[*m.assignor]++
		}
	}
	for regex, r := range g.regexes {
		if s.regexes[regex] > 0 {
			for _, topic := range r.topics {
				s.matched[topic]++
			}
		}
	}
	return s
}

// alike says whether all members want the same topics. Kafka: ConsumerGroup.subscriptionType.
func (s *subscriptions) alike() bool {
	if len(s.regexes) == 0 {
		for _, n := range s.names {
			if n != s.members {
				return false
			}
		}
		return true
	}
	for _, n := range s.regexes {
		if n != s.members {
			return false
		}
	}
	for _, n := range s.matched {
		if n != 1 {
			return false
		}
	}
	return len(s.names) == 0
}

// assignor is the one that most members ask for, first where none does. Kafka:
// ConsumerGroup.preferredServerAssignor.
func (s *subscriptions) assignor(first string) string {
	if len(s.assignors) == 0 {
		return first
	}
	// Of those with as many votes, the one that Java's HashMap lists first.
	names := slices.SortedFunc(maps.Keys(s.assignors), func(a, b string) int {
		switch {
		case s.assignors[a] != s.assignors[b]:
			return s.assignors[b] - s.assignors[a]
		case hashMapBucket(a) != hashMapBucket(b):
			return int(hashMapBucket(a)) - int(hashMapBucket(b))
		}
		return javaCompare(a, b)
	})
	return names[0]
}

// topics are all that anybody wants, in order.
func (s *subscriptions) topics() []string {
	all := slices.AppendSeq(slices.Collect(maps.Keys(s.names)), maps.Keys(s.matched))
	slices.SortFunc(all, javaCompare)
	return slices.Compact(all)
}

// hashTopics tells one state of the topics from another: their ids, names and numbers
// of partitions. It is 0 without topics. The replicas have no racks here. Kafka:
// Utils.computeGroupHash and computeTopicHash, with XXH3.
func (s *subscriptions) hashTopics(topics topicView) uint64 {
	var all []byte
	for _, name := range s.topics() {
		if t, ok := topics.byName(name); ok {
			all = binary.LittleEndian.AppendUint64(all, hashTopic(t))
		}
	}
	if all == nil {
		return 0
	}
	return xxh3.Hash(all)
}

func hashTopic(t topicInfo) uint64 {
	b := make([]byte, 0, 64+4*int(t.partitions))
	b = append(b, 0) // the version of the hash
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.id[:8]))
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.id[8:]))
	units := utf16.Encode([]rune(t.name))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(units)))
	b = binary.LittleEndian.AppendUint32(b, uint32(t.partitions))
	for p := range t.partitions {
		b = binary.LittleEndian.AppendUint32(b, uint32(p))
	}
	return xxh3.Hash(b)
}

// javaCompare orders strings as Java's String.compareTo does: by UTF-16 units.
func javaCompare(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// topicIDs are the topics that a member wants and that exist, by their ids in order.
// A regular expression that is not resolved yet matches nothing.
func (g *consumerGroup) topicIDs(m *memberMetadata) []storage.TopicID {
	names := m.topics
	if r := g.regexes[m.regex]; m.regex != "" && r != nil && len(r.topics) > 0 {
		names = sortedSet(slices.Concat(names, r.topics))
	}
	var out []storage.TopicID
	for _, name := range names {
		if t, ok := g.env.topics.byName(name); ok {
			out = append(out, t.id)
		}
	}
	return out
}
