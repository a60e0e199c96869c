package assignor

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/kaen-log/gateway/storage"
)

// TestSimpleSharesPartitions tells what members get, as they come and go.
func TestSimpleSharesPartitions(t *testing.T) {
	a, b := topicN(1), topicN(2)
	both := []storage.TopicID{a, b}
	for _, c := range []struct {
		name string
		g    *Group
		want []string
	}{
		{"nobody", &Group{Partitions: map[storage.TopicID]int32{a: 3}}, nil},
		{"alone", &Group{SameTopics: true, Partitions: map[storage.TopicID]int32{a: 2, b: 1}, Members: []Member{{ID: "m1", Topics: both}}}, []string{" 1:0,1 2:0"}},
		{"more partitions than members", &Group{SameTopics: true, Partitions: map[storage.TopicID]int32{a: 5}, Members: []Member{
			{ID: "m1", Topics: both[:1]}, {ID: "m2", Topics: both[:1]},
		}}, []string{" 1:0,2,4", " 1:1,3"}},
		{"more members than partitions", &Group{SameTopics: true, Partitions: map[storage.TopicID]int32{a: 2}, Members: []Member{
			{ID: "m1", Topics: both[:1]}, {ID: "m2", Topics: both[:1]}, {ID: "m3", Topics: both[:1]},
		}}, []string{" 1:0,1", " 1:0", " 1:1"}},
		{"one partition for all", &Group{SameTopics: true, Partitions: map[storage.TopicID]int32{a: 1}, Members: []Member{
			{ID: "m1", Topics: both[:1]}, {ID: "m2", Topics: both[:1]}, {ID: "m3", Topics: both[:1]},
		}}, []string{" 1:0", " 1:0", " 1:0"}},
		{"kept by a joiner's side", &Group{SameTopics: true, Partitions: map[storage.TopicID]int32{a: 4}, Members: []Member{
			{ID: "m1", Topics: both[:1], Assigned: Partitions{a: {0, 1, 2, 3}}}, {ID: "m2", Topics: both[:1]},
		}}, []string{" 1:2,3", " 1:0,1"}},
		{"each its own topic", &Group{Partitions: map[storage.TopicID]int32{a: 2, b: 2}, Members: []Member{
			{ID: "m1", Topics: both}, {ID: "m2", Topics: both[:1], Assigned: Partitions{b: {0, 1}}},
		}}, []string{" 1:0 2:0,1", " 1:1"}},
		{"only what may be given out", &Group{
			SameTopics: true, Partitions: map[storage.TopicID]int32{a: 3, b: 3}, Assignable: Partitions{a: {1}},
			Members: []Member{{ID: "m1", Topics: both}, {ID: "m2", Topics: both}},
		}, []string{" 1:1", " 1:1"}},
		{"nothing may be given out yet", &Group{
			SameTopics: true, Partitions: map[storage.TopicID]int32{a: 3}, Assignable: Partitions{}, Members: []Member{{ID: "m1", Topics: both[:1]}},
		}, []string{""}},
	} {
		var got []string
		for _, p := range Simple(c.g) {
			got = append(got, format(p))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSimpleIsBalanced goes through random lives of random groups and checks after each
// change that every partition has as many members as it is due, all subscribed to it,
// that no member of a group with one subscription has two more than another, and that
// nothing moves when nothing has changed.
func TestSimpleIsBalanced(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 932))
		g := randomGroup(r)
		for turn := range 8 {
			got := Simple(g)
			what := fmt.Sprintf("seed %d, turn %d", seed, turn)
			holders := map[topicPartition]int{}
			most, least, partitions := 0, 1<<30, 0
			for i, p := range got {
				most, least = max(most, p.Count()), min(least, p.Count())
				for id, list := range p {
					if !slices.Contains(g.Members[i].Topics, id) || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != len(list) {
						t.Errorf("%s: %s has %v of topic %v; subscribed to %v", what, g.Members[i].ID, list, id, g.Members[i].Topics)
					}
					for _, n := range list {
						holders[topicPartition{id, n}]++
					}
				}
			}
			for _, n := range g.Partitions {
				partitions += int(n)
			}
			for id, count := range g.Partitions {
				subscribers := 0
				for i := range g.Members {
					if slices.Contains(g.Members[i].Topics, id) {
						subscribers++
					}
				}
				each := ceilDiv(subscribers, int(count))
				if g.SameTopics {
					each = ceilDiv(subscribers, partitions)
				}
				for n := range count {
					if got := holders[topicPartition{id, n}]; subscribers > 0 && (got == 0 || got > each) {
						t.Errorf("%s: partition %d of %v has %d members, want 1 to %d", what, n, id, got, each)
					}
				}
			}
			if g.SameTopics && most-least > 1 {
				t.Errorf("%s: members have %d to %d partitions", what, least, most)
			}
			for i := range g.Members {
				g.Members[i].Assigned = got[i]
			}
			for i, p := range Simple(g) {
				if g.SameTopics && !p.Equal(got[i]) {
					t.Errorf("%s: %s has%s and then, though nothing has changed,%s", what, g.Members[i].ID, format(got[i]), format(p))
				}
			}
			changeGroup(r, g)
		}
	}
}
