package assignor

import (
	"slices"
	"strings"

	"github.com/kaen-log/gateway/storage"
)

// Range gives each subscriber of a topic one range of its partitions, in the order of
// the members: static members by instance id, then the others by member id. Topics
// with as many partitions and the same subscribers are cut alike, so that partitions
// of one number go to one member. Kafka: RangeAssignor.
func Range(g *Group) []Partitions {
	order := make([]int, len(g.Members))
	subscribers := map[storage.TopicID]int32{}
	for i := range g.Members {
		order[i] = i
		for _, t := range g.Members[i].Topics {
			subscribers[t]++
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return compareForRange(&g.Members[a], &g.Members[b]) })

	served := map[storage.TopicID]int32{} // subscribers that have their range
	out := make([]Partitions, len(g.Members))
	for _, i := range order {
		out[i] = Partitions{}
		for _, t := range g.Members[i].Topics {
			each, more := g.Partitions[t]/subscribers[t], g.Partitions[t]%subscribers[t]
			nth := served[t]
			served[t]++
			first, last := nth*each+min(nth, more), (nth+1)*each+min(nth+1, more)
			for p := first; p < last; p++ {
				out[i][t] = append(out[i][t], p)
			}
		}
	}
	return out
}

func compareForRange(a, b *Member) int {
	switch {
	case a.InstanceID != "" && b.InstanceID != "":
		return strings.Compare(a.InstanceID, b.InstanceID)
	case a.InstanceID != "":
		return -1
	case b.InstanceID != "":
		return 1
	}
	return strings.Compare(a.ID, b.ID)
}
