// Package assignor says which member of a group consumes which partitions. Its
// functions are pure: the same group gives the same assignment, whatever the order
// that maps have. They give what Apache Kafka 4.4's assignors of the same names give
// when those see members and topics in the order of their ids; Kafka itself sees them
// in the order of a hash, so that there the members may be others, not how many
// partitions each has nor how many move.
//
// A partition that no subscriber is there for is not assigned. What a member held
// before and is not subscribed to any more, it loses. In a share group a partition may
// have several members, otherwise one.
package assignor

import (
	"cmp"
	"maps"
	"slices"

	"github.com/kaen-log/gateway/storage"
)

// Partitions are partitions by topic, each list in rising order and not empty. They
// are not changed once they were handed over.
type Partitions map[storage.TopicID][]int32

// Count returns how many partitions there are.
func (p Partitions) Count() int {
	n := 0
	for _, list := range p {
		n += len(list)
	}
	return n
}

// Equal reports whether p and q are the same partitions.
func (p Partitions) Equal(q Partitions) bool { return maps.EqualFunc(p, q, slices.Equal[[]int32]) }

// Topics returns the topics in the order of their ids.
func (p Partitions) Topics() []storage.TopicID {
	return slices.SortedFunc(maps.Keys(p), compareIDs)
}

// Member is one member of a group.
type Member struct {
	ID         string
	InstanceID string            // "" for a dynamic member
	Topics     []storage.TopicID // what it is subscribed to and exists, each once
	Assigned   Partitions        // what it was given last
}

// Group is what is to be divided.
type Group struct {
	Members []Member // in the order of their ids
	// SameTopics says that all members are subscribed to the same topics.
	SameTopics bool
	Partitions map[storage.TopicID]int32 // how many partitions each topic has
	// Assignable, when it is not nil, are the only partitions that Simple may give out.
	Assignable Partitions
}

// assignable says whether a partition may be given out.
func (g *Group) assignable(t storage.TopicID, partition int32) bool {
	if g.Assignable == nil {
		return true
	}
	_, ok := slices.BinarySearch(g.Assignable[t], partition)
	return ok
}

// Func divides the partitions of a group; the result is by index in Members.
type Func func(*Group) []Partitions

// ByName returns the assignor of consumer groups of that name: uniform or range. Kafka:
// group.consumer.assignors.
func ByName(name string) (Func, bool) {
	switch name {
	case "uniform":
		return Uniform, true
	case "range":
		return Range, true
	}
	return nil, false
}

// Uniform gives each member as many partitions as any other, give or take one, and
// lets members keep what they have as far as that allows. Where members are
// subscribed to different topics, balance is only sought among those of each topic.
// Kafka: UniformAssignor.
func Uniform(g *Group) []Partitions {
	if len(g.Members) == 0 {
		return nil
	}
	if g.SameTopics {
		return uniformSameTopics(g)
	}
	return uniformOwnTopics(g)
}

// board says who has each partition, by index in Members; nobody is -1.
type board map[storage.TopicID][]int32

const nobody = -1

// newBoard returns a board of topics without owners.
func newBoard(g *Group, topics []storage.TopicID) board {
	b := make(board, len(topics))
	for _, t := range topics {
		b[t] = slices.Repeat([]int32{nobody}, int(g.Partitions[t]))
	}
	return b
}

// claim gives a partition to a member unless somebody has it, or there is no such
// partition.
func (b board) claim(t storage.TopicID, partition, member int32) bool {
	owners := b[t]
	if partition < 0 || int(partition) >= len(owners) || owners[partition] != nobody {
		return false
	}
	owners[partition] = member
	return true
}

// assignments returns what each of n members has.
func (b board) assignments(n int) []Partitions {
	out := make([]Partitions, n)
	for i := range out {
		out[i] = Partitions{}
	}
	for t, owners := range b {
		for p, m := range owners {
			if m != nobody {
				out[m][t] = append(out[m][t], int32(p))
			}
		}
	}
	return out
}

// topicPartition names one partition.
type topicPartition struct {
	topic     storage.TopicID
	partition int32
}

// compareIDs orders topics as Kafka's Uuid does: by two signed numbers.
func compareIDs(a, b storage.TopicID) int {
	for i := range a {
		x, y := a[i], b[i]
		if i%8 == 0 {
			x, y = x^0x80, y^0x80
		}
		if x != y {
			return cmp.Compare(x, y)
		}
	}
	return 0
}
