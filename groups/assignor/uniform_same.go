package assignor

import (
	"slices"

	"github.com/kaen-log/gateway/storage"
)

// uniformSameTopics divides topics that every member is subscribed to. Each member
// is due the same number of partitions, and the first few that need it one more; it
// keeps the first that it had, up to that number, and the rest goes to those that
// have too few. Kafka: UniformHomogeneousAssignmentBuilder.
func uniformSameTopics(g *Group) []Partitions {
	topics := slices.SortedFunc(slices.Values(g.Members[0].Topics), compareIDs)
	b := newBoard(g, topics)
	held, total := make([][]topicPartition, len(g.Members)), 0
	for i := range g.Members {
		held[i] = b.claimAll(g.Members[i].Assigned, topics, int32(i))
	}
	var free []topicPartition
	for _, t := range topics {
		for p, m := range b[t] {
			if total++; m == nobody {
				free = append(free, topicPartition{t, int32(p)})
			}
		}
	}

	each, more := total/len(g.Members), total%len(g.Members)
	missing := make([]int, len(g.Members))
	for i, has := range held {
		due := each
		if more > 0 {
			due++
		}
		if len(has) > due {
			for _, p := range has[due:] {
				b[p.topic][p.partition] = nobody
				free = append(free, p)
			}
		}
		missing[i] = max(due-len(has), 0)
		switch {
		case more == 0:
		case missing[i] > 0 && len(held)-i > more:
			missing[i]-- // one of those behind may have it already
		default:
			more--
		}
	}
	for i, n := range missing {
		n = min(n, len(free))
		for _, p := range free[:n] {
			b[p.topic][p.partition] = int32(i)
		}
		free = free[n:]
	}
	return b.assignments(len(g.Members))
}

// claimAll gives a member of what it was assigned what is of the topics and nobody
// else's, and returns that in order.
func (b board) claimAll(assigned Partitions, topics []storage.TopicID, member int32) []topicPartition {
	var out []topicPartition
	for _, t := range topics {
		for _, p := range assigned[t] {
			if b.claim(t, p, member) {
				out = append(out, topicPartition{t, p})
			}
		}
	}
	return out
}
