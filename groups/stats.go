package groups

import (
	"cmp"
	"maps"
	"slices"
)

// Stats is a snapshot of a coordinator.
type Stats struct {
	// Groups says how many groups there are, by kind and state, without those that have none.
	Groups []GroupCount
	// Unready are the partitions of __consumer_offsets that have not been read yet, or could not be: their groups are
	// not counted.
	Unready int
}

// GroupCount says how many groups of a kind are in a state.
type GroupCount struct {
	Kind  Kind
	State string
	Count int64
}

// shardStats is what a partition of __consumer_offsets adds to Stats. It is not changed once it is made.
type shardStats struct {
	groups map[GroupCount]int64 // by kind and state; their Count is 0
	ready  bool
}

// Stats returns a snapshot. It waits for nobody who waits for the disk: a partition that is at work counts as it did the
// last time, which is no earlier than when it was loaded.
func (c *Coordinator) Stats() Stats {
	var st Stats
	sum := map[GroupCount]int64{}
	for _, w := range c.all() {
		s := w.stats()
		if !s.ready {
			st.Unready++
		}
		for k, n := range s.groups {
			sum[k] += n
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(sum), func(a, b GroupCount) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.State, b.State))
	}) {
		st.Groups = append(st.Groups, GroupCount{k.Kind, k.State, sum[k]})
	}
	return st
}

// stats counts the groups of the shard. mu is held by others while they append.
func (w *owner) stats() *shardStats {
	if w.mu.TryLock() {
		w.count()
		w.mu.Unlock()
	}
	return w.counted.Load()
}

// count counts the groups of the shard. Caller holds mu.
func (w *owner) count() {
	s := &shardStats{}
	if shard, err := w.ready(); err == nil {
		s.ready, s.groups = true, map[GroupCount]int64{}
		for _, e := range shard.entries {
			if l, ok := e.listed(); ok {
				s.groups[GroupCount{Kind: l.Kind, State: l.State}]++
			}
		}
	}
	w.counted.Store(s)
}
