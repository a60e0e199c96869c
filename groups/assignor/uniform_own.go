package assignor

import (
	"cmp"
	"slices"

	"github.com/kaen-log/gateway/storage"
)

// balanceRounds bounds how often the topics are gone through: where subscriptions
// overlap, a round may undo some of the balance that another made.
const balanceRounds = 16

// uniformOwnTopics divides topics of which each member has its own. Members keep what
// they had of what they are subscribed to; what nobody has goes, topic by topic, to
// the subscribers that have least; then partitions move from those subscribers of a
// topic that have most to those that have least, until no move helps. Kafka:
// UniformHeterogeneousAssignmentBuilder.
func uniformOwnTopics(g *Group) []Partitions {
	d := divider{group: g, subscribers: map[storage.TopicID][]int32{}, scale: scale{load: make([]int, len(g.Members))}}
	for i := range g.Members {
		for _, t := range g.Members[i].Topics {
			if d.subscribers[t] == nil {
				d.topics = append(d.topics, t)
			}
			d.subscribers[t] = append(d.subscribers[t], int32(i))
		}
	}
	slices.SortFunc(d.topics, d.compareTopics)
	d.board = newBoard(g, d.topics)
	for i := range g.Members {
		m := &g.Members[i]
		d.load[i] = len(d.board.claimAll(m.Assigned, m.Topics, int32(i)))
	}
	for _, t := range d.topics {
		d.place(t)
	}
	d.balance()
	return d.board.assignments(len(g.Members))
}

// divider is a division under way.
type divider struct {
	group       *Group
	topics      []storage.TopicID // those with the most partitions for a subscriber first
	subscribers map[storage.TopicID][]int32
	board       board
	scale
}

// compareTopics orders topics so that those that are hardest to divide come first.
func (d *divider) compareTopics(a, b storage.TopicID) int {
	na, nb := len(d.subscribers[a]), len(d.subscribers[b])
	return cmp.Or(
		cmp.Compare(float64(d.group.Partitions[b])/float64(nb), float64(d.group.Partitions[a])/float64(na)),
		cmp.Compare(na, nb),
		compareIDs(a, b),
	)
}

// place gives away the partitions of a topic that nobody has.
func (d *divider) place(t storage.TopicID) {
	d.weigh(d.subscribers[t])
	for p, m := range d.board[t] {
		if m == nobody {
			to := d.least()
			d.board[t][p] = to
			d.load[to]++
		}
	}
}

// balance goes through the topics until a whole round changed nothing.
func (d *divider) balance() {
	shared := slices.DeleteFunc(slices.Clone(d.topics), func(t storage.TopicID) bool { return len(d.subscribers[t]) < 2 })
	last := -1 // the last topic of which a partition moved, or the first of all
	for range balanceRounds {
		for i, t := range shared {
			if i == last {
				return
			}
			if moved := d.level(t); moved || last == -1 {
				last = i
			}
		}
	}
}

// level moves partitions of one topic from the subscribers that have most to those
// that have least.
func (d *divider) level(t storage.TopicID) (moved bool) {
	if d.weigh(d.subscribers[t]) <= 1 {
		return false
	}
	owners := d.board[t]
	has := map[int32][]int32{} // the topic's partitions by owner; the last goes first
	for p, m := range owners {
		has[m] = append(has[m], int32(p))
	}
	for !d.even() {
		from, ok := d.most()
		for ok && len(has[from]) == 0 {
			d.skip()
			from, ok = d.most()
		}
		if !ok {
			return moved
		}
		list := has[from]
		p := list[len(list)-1]
		has[from] = list[:len(list)-1]
		to := d.least()
		if d.even() {
			return moved
		}
		owners[p] = to
		d.load[from]--
		d.load[to]++
		moved = true
	}
	return moved
}

// scale finds, among the subscribers of one topic, who has least and who has most
// partitions of all topics. It expects what it is asked for to happen: whom least
// names gets a partition, whom most names loses one.
//
// The subscribers stand in the order of their loads. order[:lowEnd] have been filled
// to lowLevel partitions, the first lowNext of them to one more; order[highStart:highEnd]
// have been emptied to highLevel, those behind highNext to one less; those from
// highEnd on have nothing to give.
type scale struct {
	load  []int // by member
	order []int32

	lowEnd, lowNext, lowLevel               int
	highStart, highEnd, highNext, highLevel int
}

// weigh begins with the subscribers of a topic and returns by how many partitions
// their loads differ at most.
func (s *scale) weigh(subscribers []int32) int {
	s.order = append(s.order[:0], subscribers...)
	slices.SortFunc(s.order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(s.load[a], s.load[b]), cmp.Compare(a, b))
	})
	n := len(s.order)
	lightest, heaviest := s.load[s.order[0]], s.load[s.order[n-1]]
	s.lowEnd, s.lowNext, s.lowLevel = 0, 0, lightest-1
	s.highStart, s.highEnd, s.highNext, s.highLevel = n, n, n-1, heaviest+1
	return heaviest - lightest
}

// least names the member that is to get the next partition.
func (s *scale) least() int32 {
	if s.lowNext >= s.lowEnd {
		s.lowLevel++
		for s.lowEnd < len(s.order) && s.load[s.order[s.lowEnd]] == s.lowLevel {
			s.lowEnd++
		}
		s.lowNext = 0
	}
	m := s.order[s.lowNext]
	s.lowNext++
	return m
}

// most names the member that is to lose a partition; ok is false when nobody is left.
func (s *scale) most() (member int32, ok bool) {
	if s.highNext < s.highStart {
		if s.highEnd <= s.highStart && s.highStart > 0 {
			s.highLevel = s.load[s.order[s.highStart-1]] // all of the range had nothing to give
		} else {
			s.highLevel--
		}
		for s.highStart > 0 && s.load[s.order[s.highStart-1]] == s.highLevel {
			s.highStart--
		}
		s.highNext = s.highEnd - 1
	}
	if s.highNext < 0 {
		return 0, false
	}
	s.highNext--
	return s.order[s.highNext+1], true
}

// skip takes whom most has just named out of those that lose partitions.
func (s *scale) skip() {
	s.highEnd--
	i := s.highNext + 1
	s.order[i], s.order[s.highEnd] = s.order[s.highEnd], s.order[i]
}

// even says whether no move makes the loads more alike.
func (s *scale) even() bool { return s.highLevel-s.lowLevel <= 1 }
