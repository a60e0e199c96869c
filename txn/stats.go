package txn

// Stats is a snapshot of a coordinator.
type Stats struct {
	// States says how many transactional ids are in each state, without those in which there is none, in the order of
	// Kafka's numbers for them.
	States []StateCount
	// Retrying is how many transactions wait to be ended once more after a failure, and Markers how many markers they
	// have not written.
	Retrying, Markers int
	// Loading are the partitions of __transaction_state that are still to be read, Failed those that could not be:
	// their ids are not counted.
	Loading, Failed int
	// Unreadable are the ids whose last record could not be read at the start. What they were before counts.
	Unreadable int
}

// StateCount says how many transactional ids are in a state.
type StateCount struct {
	State string // by its name on the wire
	Count int
}

// ownerStats is what a partition of __transaction_state adds to Stats. It is not changed once it is made.
type ownerStats struct {
	states            [completeAbort + 1]int
	retrying, markers int
	unreadable        int
	loaded, failed    bool
}

// Stats returns a snapshot. It waits for nobody who waits for the disk: a partition that is at work counts as it did the
// last time, which is no earlier than when it was loaded.
func (c *Coordinator) Stats() Stats {
	var st Stats
	var states [completeAbort + 1]int
	for _, w := range c.all() {
		s := w.stats()
		switch {
		case s.failed:
			st.Failed++
		case !s.loaded:
			st.Loading++
		}
		st.Retrying += s.retrying
		st.Markers += s.markers
		st.Unreadable += s.unreadable
		for i, n := range s.states {
			states[i] += n
		}
	}
	for i, n := range states {
		if n > 0 {
			st.States = append(st.States, StateCount{state(i).String(), n})
		}
	}
	return st
}

// stats counts the ids of the partition. mu is held by others while they append.
func (w *owner) stats() *ownerStats {
	if w.mu.TryLock() {
		w.count()
		w.mu.Unlock()
	}
	return w.counted.Load()
}

// count counts the ids of the partition. Caller holds mu.
func (w *owner) count() {
	s := &ownerStats{loaded: w.is == loaded, failed: w.loadErr != nil, unreadable: w.unreadable, retrying: len(w.retries)}
	for _, e := range w.entries {
		if e.t != nil {
			s.states[e.t.state]++
		}
	}
	for e := range w.retries {
		s.markers += len(e.end.left)
	}
	w.counted.Store(s)
}
