package groups

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// shareStates is what a share group knows of the states of partitions, which are kept
// elsewhere (ShareState): those that were asked for and may not be there yet, those
// that are there, and the topics whose states are being deleted, by name. It is not
// changed: one that differs takes its place. Kafka: ShareGroupStatePartitionMetadataInfo.
type shareStates struct {
	initializing, initialized sharedTopics
	deleting                  map[storage.TopicID]string
}

// sharedTopics are partitions by topic, each with the name that the topic had.
type sharedTopics map[storage.TopicID]sharedTopic

// sharedTopic is a topic of which partitions are shared: in rising order, not none.
type sharedTopic struct {
	name       string
	partitions []int32
}

func (t sharedTopics) ids() []storage.TopicID { return sortedIDs(t) }

// partitions returns the partitions without the names.
func (t sharedTopics) partitions() assignor.Partitions {
	out := make(assignor.Partitions, len(t))
	for id, topic := range t {
		out[id] = topic.partitions
	}
	return out
}

// with returns t and more.
func (t sharedTopics) with(more sharedTopics) sharedTopics {
	out := maps.Clone(t)
	for id, topic := range more {
		all := slices.Concat(out[id].partitions, topic.partitions)
		slices.Sort(all)
		out[id] = sharedTopic{name: topic.name, partitions: slices.Compact(all)}
	}
	return out
}

// without returns t less some partitions.
func (t sharedTopics) without(less sharedTopics) sharedTopics {
	out := maps.Clone(t)
	for id, topic := range less {
		gone := make(map[int32]bool, len(topic.partitions))
		for _, p := range topic.partitions {
			gone[p] = true
		}
		left := slices.DeleteFunc(slices.Clone(out[id].partitions), func(p int32) bool { return gone[p] })
		if len(left) == 0 {
			delete(out, id)
			continue
		}
		out[id] = sharedTopic{name: out[id].name, partitions: left}
	}
	return out
}

// sortedIDs returns the topics of a map in the order of their bytes.
func sortedIDs[V any](m map[storage.TopicID]V) []storage.TopicID {
	return slices.SortedFunc(maps.Keys(m), func(a, b storage.TopicID) int { return bytes.Compare(a[:], b[:]) })
}

// has returns the group's states to be changed; empty ones when there are none. The maps
// of what is initializing and initialized are the group's: others must take their place.
func (g *shareGroup) has() *shareStates {
	if g.states == nil {
		return &shareStates{initializing: sharedTopics{}, initialized: sharedTopics{}, deleting: map[storage.TopicID]string{}}
	}
	next := *g.states
	next.deleting = maps.Clone(next.deleting)
	return &next
}

// missing are the partitions of subscribed topics that have no state yet. What was asked
// for is not missing, unless nothing became of it for long. Kafka:
// GroupMetadataManager.subscribedTopicsChangeMap.
func (g *shareGroup) missing(now time.Time, names []string) sharedTopics {
	states, out := g.has(), sharedTopics{}
	known := states.initialized
	if now.Sub(g.statesAt) < g.env.config.ShareInitializeRetry {
		known = known.with(states.initializing)
	}
	for _, name := range names {
		t, ok := g.env.topics.byName(name)
		if !ok || len(known[t.id].partitions) >= int(t.partitions) {
			continue
		}
		var list []int32
		for p := range t.partitions {
			if !slices.Contains(known[t.id].partitions, p) {
				list = append(list, p)
			}
		}
		out[t.id] = sharedTopic{name: t.name, partitions: list}
	}
	return out
}

// initializing are the states with more that are asked for. Kafka:
// GroupMetadataManager.addInitializingTopicsRecords.
func (g *shareGroup) initializing(more sharedTopics) *shareStates {
	next := g.has()
	next.initializing = next.initializing.with(more)
	for id := range next.initializing {
		delete(next.deleting, id)
	}
	return next
}

// starts says where the states that are asked for begin: those of a topic that the group
// knows at 0, so that no record of a new partition is lost; others by the group's
// config, when the partition is first read. Kafka:
// GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest.
func (g *shareGroup) starts(asked sharedTopics) []ShareStart {
	states := g.has()
	var out []ShareStart
	for _, id := range asked.ids() {
		_, a := states.initialized[id]
		_, b := states.initializing[id]
		start := int64(UninitializedStart)
		if a || b {
			start = 0
		}
		for _, p := range asked[id].partitions {
			out = append(out, ShareStart{TopicID: id, Partition: p, Offset: start})
		}
	}
	return out
}

// initialized is the step that notes that states are there now, or, when they could not
// be made, that they are not asked for any more. Kafka:
// GroupMetadataManager.initializeShareGroupState and uninitializeShareGroupState.
func (g *shareGroup) initialized(now time.Time, made sharedTopics, ok bool, done func(error)) step {
	c := shareChange{g: g, now: now}
	next := g.has()
	if ok || len(next.initializing) > 0 {
		next.initializing = next.initializing.without(made)
		if ok {
			next.initialized = next.initialized.with(made)
		}
		c.add(typeShareStates, "", next)
	}
	return c.step(done)
}

// unassigned says whether a subscribed topic has states of partitions that are assigned
// to nobody, so that a new target is due. Kafka:
// GroupMetadataManager.initializedAssignmentPending.
func (g *shareGroup) unassigned() bool {
	if g.states == nil || len(g.members) == 0 {
		return false
	}
	assigned := map[storage.TopicID]map[int32]bool{}
	for _, p := range g.target {
		for id, list := range p {
			if assigned[id] == nil {
				assigned[id] = map[int32]bool{}
			}
			for _, partition := range list {
				assigned[id][partition] = true
			}
		}
	}
	for id, topic := range g.states.initialized {
		if !g.subscribed(topic.name) {
			continue
		}
		if len(assigned[id]) != len(topic.partitions) {
			return true
		}
		for _, p := range topic.partitions {
			if !assigned[id][p] {
				return true
			}
		}
	}
	return false
}

// topicDeleted is the step that forgets the states of a topic that is gone. Kafka:
// GroupMetadataManager.maybeCleanupShareGroupState.
func (g *shareGroup) topicDeleted(now time.Time, id storage.TopicID, done func(error)) step {
	c := shareChange{g: g, now: now}
	if g.knows(id) {
		next := g.has()
		next.initializing, next.initialized = maps.Clone(next.initializing), maps.Clone(next.initialized)
		delete(next.initializing, id)
		delete(next.initialized, id)
		delete(next.deleting, id)
		c.add(typeShareStates, "", next)
	}
	return c.step(done)
}

// knows says whether a topic has states, is to have some, or to lose them.
func (g *shareGroup) knows(id storage.TopicID) bool {
	if g == nil || g.states == nil {
		return false
	}
	_, a := g.states.initializing[id]
	_, b := g.states.initialized[id]
	_, c := g.states.deleting[id]
	return a || b || c
}
