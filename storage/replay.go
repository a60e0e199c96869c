package storage

import (
	"errors"
	"fmt"
	"io"
	"slices"
)

// openTxnIndexes reads the transaction indexes of the segments. Of those that were read in full only what lies below
// the recovery point is taken; the replay of the producers adds the rest.
func (r *recovery) openTxnIndexes() error {
	l := r.l
	for i, s := range l.segments {
		limit := s.next
		if i >= r.scanned {
			limit = min(limit, max(r.point, s.base))
		}
		b, err := readWhole(&s.txnsFile)
		if notExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		entries, err := DecodeTxnIndex(b)
		n := 0
		for n < len(entries) && entries[n].LastOffset >= s.base && entries[n].LastOffset < limit {
			n++
		}
		s.txns = txnIndex{entries: entries[:n:n], stored: n}
		if i >= r.scanned || err == nil && n == len(entries) {
			continue
		}
		if err == nil {
			err = fmt.Errorf("entry of an abort marker at offset %d in a segment of offsets %d to %d", entries[n].LastOffset, s.base, limit-1)
		}
		l.logger().Warn("transaction index is rebuilt", "segment", s.base, "cause", err)
		if err := r.rebuildTxnIndex(i); err != nil {
			return err
		}
		r.rebuiltTxns = append(r.rebuiltTxns, s.base)
	}
	return nil
}

// rebuildTxnIndex makes the transaction index of a segment anew: the producer snapshot before it says which
// transactions were open at its beginning.
func (r *recovery) rebuildTxnIndex(i int) error {
	s := r.l.segments[i]
	s.txns = txnIndex{}
	state, from, err := r.loadSnapshot(s.base)
	if err != nil {
		return err
	}
	for _, t := range r.l.segments[:i+1] {
		if t.next <= from {
			continue
		}
		add := func(AbortedTxn) {}
		if t == s {
			add = s.txns.append
		}
		if err := r.replaySegment(&state, t, from, add); err != nil {
			return err
		}
	}
	return nil
}

// loadSnapshot returns the producer state of the newest usable snapshot at or below limit, and its offset; without one
// an empty state at the log start. Damaged snapshots are removed where the directory is ours.
func (r *recovery) loadSnapshot(limit int64) (producerState, int64, error) {
	l := r.l
	names := make([]string, len(r.plan.snapshots))
	for i, o := range r.plan.snapshots {
		names[i] = producerSnapshotName(o)
	}
	snap, err := loadProducerSnapshot(l.ctx.fs, l.dir, names, l.logStart-1, limit)
	if err != nil {
		return producerState{}, 0, err
	}
	for _, bad := range snap.bad {
		l.logger().Warn("producer snapshot is damaged", "file", l.path(bad.name), "err", bad.err)
		if r.write {
			if err := l.ctx.fs.Remove(l.path(bad.name)); err != nil && !notExist(err) {
				return producerState{}, 0, err
			}
		}
	}
	if !snap.found {
		return producerState{}, l.logStart, nil
	}
	expiration := l.ctx.producerIDExpiration.Milliseconds()
	return restoreProducerState(snap.entries, snap.offset, l.nowMs(), expiration), snap.offset, nil
}

// replayProducers loads the newest producer snapshot and replays what came after it. A snapshot above the recovery
// point is of use only when nothing was read in full: else the transaction index must be told of what lies between.
func (r *recovery) replayProducers() error {
	l := r.l
	limit := l.end.Load()
	if r.scanned < len(l.segments) {
		limit = min(limit, r.point)
	}
	state, from, err := r.loadSnapshot(limit)
	if err != nil {
		return err
	}
	if from == l.end.Load() && slices.Contains(r.plan.snapshots, from) {
		l.snapshotAt = from
	}
	for i, s := range l.segments {
		if s.next <= from {
			continue
		}
		add := func(AbortedTxn) {}
		if i >= r.scanned {
			known := s.base
			if n := len(s.txns.entries); n > 0 {
				known = s.txns.entries[n-1].LastOffset + 1
			}
			add = func(a AbortedTxn) {
				if a.LastOffset >= known {
					s.txns.append(a)
				}
			}
		}
		if err := r.replaySegment(&state, s, from, add); err != nil {
			return err
		}
	}
	state.onHighWatermark(l.end.Load())
	state.refused = l.producers.refused
	for id := range state.producers {
		delete(state.refused, id)
	}
	state.expire(l.nowMs(), l.ctx.producerIDExpiration.Milliseconds())
	l.producers = state
	return nil
}

// replaySegment replays the batches of a segment from the offset on; aborted is called for every transaction that a
// marker in it aborts.
func (r *recovery) replaySegment(state *producerState, s *segment, from int64, aborted func(AbortedTxn)) error {
	l := r.l
	var position int64
	if from > s.base {
		if e, err := s.offsets.lookup(&s.indexFile, from); err == nil {
			position = e.Position
		}
	}
	sc := batchScanner{r: &s.log, position: position, end: s.size, next: s.base}
	for first := position; ; {
		b, at, err := sc.scan()
		if errors.Is(err, io.EOF) {
			return nil
		}
		_, bad := errors.AsType[*badBatch](err)
		if first > 0 && at == first && (bad || err == nil && b.BaseOffset() > from) {
			// The index led nowhere.
			first = 0
			sc = batchScanner{r: &s.log, end: s.size, next: s.base}
			continue
		}
		if err != nil {
			return r.damage(s, err)
		}
		if b.LastOffset() < from || b.ProducerID() < 0 {
			continue
		}
		if !b.Control() {
			state.update(b)
			state.onHighWatermark(b.NextOffset())
			continue
		}
		if b, err = sc.loadAt(at, b); err != nil {
			return r.damage(s, err)
		}
		m, ok, timestamp, err := readMarker(b)
		if err != nil {
			l.logger().Warn("control batch cannot be read", "segment", s.base, "position", at, "err", err)
			continue
		}
		if ok {
			if done, ended := state.endTxn(b, m, timestamp); ended && done.Aborted {
				aborted(done.AbortedTxn)
			}
			state.onHighWatermark(b.NextOffset())
		}
	}
}
