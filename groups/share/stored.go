package share

import "slices"

// stored is what the log says of a share partition. It is not changed once made.
type stored struct {
	snapshotEpoch int32 // counts snapshots
	stateEpoch    int32 // counts how often somebody set the start
	leaderEpoch   int32
	start         int64 // -1: by the group's reset policy, and not looked up yet
	complete      int32 // records from start on that are dealt with; -1: nobody knows
	batches       []Batch
	createdMs     int64 // when the snapshot was made
	writtenMs     int64 // when it was written, perhaps again

	updates  int   // records since the snapshot
	snapshot int64 // the snapshot's offset in the log
}

// initial is the state that begins at start. before is what there was, or nil. Kafka:
// ShareCoordinatorShard.generateInitializeStateRecord.
func initial(before *stored, start, nowMs int64) *stored {
	s := &stored{start: start, createdMs: nowMs, writtenMs: nowMs}
	if start == -1 {
		s.complete = -1
	}
	if before != nil {
		s.snapshotEpoch = before.snapshotEpoch + 1
		s.stateEpoch = before.stateEpoch + 1
	}
	return s
}

// rewritten is the state with a new snapshot of the same.
func (s *stored) rewritten(nowMs int64) *stored {
	c := *s
	c.snapshotEpoch++
	c.writtenMs, c.updates = nowMs, 0
	return &c
}

// change returns what a change of the partition writes, and the state then: an update,
// or a snapshot when there were enough of those; then the update is nil. Kafka:
// ShareCoordinatorShard.generateShareStateRecord.
func (s *stored) change(c *Change, updatesPerSnapshot int, nowMs int64) (*update, *stored) {
	u := &update{snapshotEpoch: s.snapshotEpoch, leaderEpoch: s.leaderEpoch, start: max(s.start, c.Start), complete: c.Complete}
	switch {
	case c.Start == s.start:
		u.complete = max(c.Complete, s.complete)
	case c.Start < s.start:
		u.complete = s.complete
	}
	u.batches = combine(nil, c.Batches, u.start)
	after := s.updated(u)
	if s.updates < updatesPerSnapshot {
		return u, after
	}
	after.snapshotEpoch++
	after.createdMs, after.writtenMs, after.updates = nowMs, nowMs, 0
	return nil, after
}

// updated is the state after an update. Kafka: ShareCoordinatorShard.merge.
func (s *stored) updated(u *update) *stored {
	c := *s
	if u.start != -1 {
		c.start = u.start
	}
	if u.leaderEpoch != -1 {
		c.leaderEpoch = u.leaderEpoch
	}
	c.complete = u.complete
	c.batches = combine(s.batches, u.batches, c.start)
	c.updates++
	return &c
}

// combine lays batches over others: where they overlap, the one with more deliveries
// counts, then that with the higher state. The result is in order, from start on, and
// as short as can be. Kafka: PersisterStateBatchCombiner.
func combine(under, over []Batch, start int64) []Batch {
	var all []Batch
	var ends []int64 // offsets where what counts may change
	for _, list := range [][]Batch{under, over} {
		for _, b := range list {
			if b.First = max(b.First, start); b.First <= b.Last {
				all = append(all, b)
				ends = append(ends, b.First, b.Last+1)
			}
		}
	}
	slices.SortFunc(all, func(a, b Batch) int { return int(min(1, max(-1, a.First-b.First))) })
	slices.Sort(ends)
	ends = slices.Compact(ends)
	var out, open []Batch
	for i, at := range ends {
		open = slices.DeleteFunc(open, func(b Batch) bool { return b.Last < at })
		for len(all) > 0 && all[0].First == at {
			open, all = append(open, all[0]), all[1:]
		}
		if len(open) == 0 {
			continue
		}
		best := open[0]
		for _, b := range open[1:] {
			if b.Deliveries > best.Deliveries || b.Deliveries == best.Deliveries && b.State > best.State {
				best = b
			}
		}
		best.Extent = Extent{at, ends[i+1] - 1}
		if n := len(out); n > 0 && out[n-1].Last+1 == at && out[n-1].State == best.State && out[n-1].Deliveries == best.Deliveries {
			out[n-1].Last = best.Last
			continue
		}
		out = append(out, best)
	}
	return out
}
