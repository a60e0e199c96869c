package share

import "time"

// schedule sees to it that locks end in time.
func (st *State) schedule(p *Partition) {
	if next := p.Next(); !next.IsZero() {
		st.alarm.Set(next)
	}
}

// Tick does all that is due at Options.Now: it need not be called, but lets those who
// move the clock see what comes of it. It does not wait for the disk.
func (st *State) Tick() {
	now := st.o.Now()
	prune := st.prune.Due(now)
	for _, s := range st.all() {
		if s.lock() != nil {
			continue
		}
		for _, e := range s.entries {
			if e.p == nil {
				continue
			}
			if c := e.p.Tick(now); c != nil {
				s.change(now, e, c, func(error) {})
			}
			st.schedule(e.p)
		}
		keep := int64(0)
		if prune {
			keep = s.refresh(now)
		}
		s.unlock()
		if keep > 0 {
			if _, err := s.log.DeleteBefore(keep); err != nil {
				st.o.Logger.Warn("share state was not pruned", "partition", s.log.Index(), "error", err)
			}
		}
	}
}

// refresh makes old snapshots anew, and returns the offset before which the log holds
// nothing that is needed: its end when nothing is stored, 0 when that is not known. A
// snapshot that nothing was added to is made anew too when it keeps records that others
// need no more; where each state has one record, all is as short as can be. Caller holds
// mu. Kafka: ShareCoordinatorShard.snapshotColdPartitions, ShareCoordinatorOffsetsManager.
func (s *shard) refresh(now time.Time) (keep int64) {
	if s.inFlight.Len() > 0 {
		return 0
	}
	offsets, err := s.log.Offsets()
	if err != nil {
		return 0
	}
	keep = offsets.HighWatermark
	states := int64(0)
	for _, e := range s.entries {
		if e.stored != nil {
			states++
			keep = min(keep, e.stored.snapshot)
		}
	}
	if offsets.HighWatermark-keep <= states {
		return keep
	}
	for _, e := range s.entries {
		if e.stored != nil && now.UnixMilli()-e.stored.writtenMs >= s.st.o.Config.ColdSnapshot.Milliseconds() {
			s.snapshot(now, e, e.stored.rewritten(now.UnixMilli()), func(error) {})
		}
	}
	return keep
}
