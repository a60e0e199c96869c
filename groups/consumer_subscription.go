package groups

import (
	"maps"
	"slices"
	"unicode/utf16"

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

func newSubscriptions(members int) *subscriptions {
	return &subscriptions{
		members: members,
		names:   map[string]int{}, matched: map[string]int{}, regexes: map[string]int{}, assignors: map[string]int{},
	}
}

// addNames adds the topics that a member names.
func (s *subscriptions) addNames(topics []string) {
	for _, topic := range topics {
		s.names[topic]++
	}
}

// subscriptionsOf sums up members. Regular expressions that nobody has any more do
// not count. Kafka: ConsumerGroup.computeSubscribedTopicNames and
// computeSubscribedRegularExpressions.
func (g *consumerGroup) subscriptionsOf(members map[string]*consumerMember) *subscriptions {
	s := newSubscriptions(len(members))
	for _, m := range members {
		s.addNames(m.topics)
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
	return g.env.topics.ids(names)
}
