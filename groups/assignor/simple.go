package assignor

import (
	"slices"

	"github.com/kaen-log/gateway/storage"
)

// Simple gives every partition to as many members as there are for it, so that each
// member has about as many partitions as any other: with more members than partitions,
// several share one. Members keep what they have as far as that allows. Where members
// are subscribed to different topics, each topic is divided by itself. It is for share
// groups. Kafka: SimpleAssignor.
//
// Differs from Kafka: a partition that no member with room can take, since each has it,
// does not keep later ones from being given out; and what a member is not subscribed to
// any more goes, also when nobody else is.
func Simple(g *Group) []Partitions {
	s := sharing{group: g, holders: map[topicPartition][]int{}, out: make([]Partitions, len(g.Members))}
	for i := range s.out {
		s.out[i] = Partitions{}
	}
	if len(g.Members) == 0 {
		return s.out
	}
	subscribers := map[storage.TopicID][]int{}
	var topics []storage.TopicID
	for i := range g.Members {
		for _, t := range g.Members[i].Topics {
			if subscribers[t] == nil {
				topics = append(topics, t)
			}
			subscribers[t] = append(subscribers[t], i)
		}
	}
	slices.SortFunc(topics, compareIDs)
	if g.SameTopics && len(topics) > 0 {
		s.divide(topics, subscribers[topics[0]])
		return s.out
	}
	for _, t := range topics {
		s.divide([]storage.TopicID{t}, subscribers[t])
	}
	return s.out
}

// sharing is a division under way.
type sharing struct {
	group   *Group
	holders map[topicPartition][]int // who has a partition, in rising order
	out     []Partitions
}

// divide divides topics among those members that are subscribed to all of them.
func (s *sharing) divide(topics []storage.TopicID, members []int) {
	var all []topicPartition
	for _, t := range topics {
		for p := range s.group.Partitions[t] {
			if s.group.assignable(t, p) {
				all = append(all, topicPartition{t, p})
			}
		}
	}
	if len(all) == 0 {
		return
	}
	each := (len(members) + len(all) - 1) / len(all) // members of a partition
	// Of the places that makes, the nth member is due as many as brings it to its share.
	due := make(map[int]int, len(members))
	places := each * len(all)
	for n, m := range members {
		due[m] = ceilDiv(places*(n+1), len(members)) - ceilDiv(places*n, len(members))
	}
	held := map[int]int{}
	for _, m := range members {
		had := s.group.Members[m].Assigned
		var kept []topicPartition
		for _, tp := range all {
			if _, ok := slices.BinarySearch(had[tp.topic], tp.partition); ok {
				kept = append(kept, tp)
			}
		}
		for _, tp := range kept[max(0, len(kept)-due[m]):] {
			s.holders[tp] = append(s.holders[tp], m)
			held[m]++
		}
	}
	for _, tp := range all {
		if n := len(s.holders[tp]) - each; n > 0 {
			for _, m := range s.holders[tp][:n] {
				held[m]--
			}
			s.holders[tp] = s.holders[tp][n:]
		}
	}
	open := slices.DeleteFunc(slices.Clone(members), func(m int) bool { return held[m] >= due[m] })
	s.fill(all, each, open, func(m int) bool { held[m]++; return held[m] >= due[m] })
	for _, tp := range all {
		for _, m := range s.holders[tp] {
			s.out[m][tp.topic] = append(s.out[m][tp.topic], tp.partition)
		}
	}
}

// fill gives partitions that fewer than each members have to those that are open, in
// turn; gave notes that one has another, and says whether it has all it is due.
func (s *sharing) fill(all []topicPartition, each int, open []int, gave func(m int) (full bool)) {
	at := 0
	for _, tp := range all {
		for refused := 0; len(s.holders[tp]) < each && refused < len(open); {
			at %= len(open)
			m := open[at]
			i, has := slices.BinarySearch(s.holders[tp], m)
			if has {
				refused++
				at++
				continue
			}
			s.holders[tp] = slices.Insert(s.holders[tp], i, m)
			if gave(m) {
				open = slices.Delete(open, at, at+1)
			} else {
				at++
			}
		}
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
