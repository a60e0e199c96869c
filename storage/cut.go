package storage

import (
	"path/filepath"
	"slices"
)

// maxCutMarks bounds how many cuts back a waiter can learn that its append survived.
const maxCutMarks = 1024

// repair is the part of a cut that is still to be done on disk.
type repair struct {
	removed []*segment // whose files are to go
	tried   bool       // and it failed
	cause   error      // what failed first
}

// cut takes back what is written and not durable, after a write, a roll or a sync that failed: the log ends at the
// high watermark again, with its indexes, epochs and producers as they were there. In memory that is done when cut
// returns, and who waited for what is gone has an error. On disk mend does it; until it has, nothing is appended.
// mu is held.
func (l *Log) cut(cause error) {
	c := &l.commit
	to := l.view.Load().end
	c.generation++
	lost := l.end.Load() - to.next
	if lost > 0 {
		l.cuts.Add(1)
		l.cutMarks = append(l.cutMarks, to.next)
		if n := len(l.cutMarks) - maxCutMarks; n > maxCutMarks {
			l.cutMarks = slices.Clone(l.cutMarks[n:])
		}
		l.cutCause = cause
	}
	first := !l.failing
	if first {
		l.failing = true
		l.logger().Error("log was cut back to what is durable", "err", cause, "offset", to.next, "lost", lost)
	}

	kept := 0
	if to.segment != nil {
		kept = slices.Index(l.segments, to.segment) + 1
	}
	if l.repair == nil {
		l.repair = &repair{cause: cause}
	}
	gone := l.segments[kept:]
	l.repair.removed = append(l.repair.removed, gone...)
	l.segments = slices.Clip(l.segments[:kept])
	l.active = to.segment
	// Of what the next round had to do, what concerns segments that are closed still stands.
	c.rolled = slices.DeleteFunc(slices.Clone(c.rolled), func(r rolledSegment) bool {
		return !slices.Contains(l.segments, r.segment) || r.segment == l.active
	})
	dirty := c.dirty
	c.dirty = nil
	for _, s := range dirty {
		if slices.Contains(l.segments, s) && s != l.active {
			c.dirty = append(c.dirty, s)
			continue
		}
		s.dirty = false
		s.log.release()
	}
	for _, s := range gone {
		s.drop = (*segment).retire // a round that is running may still sync it
		s.release()
	}
	if s := l.active; s != nil {
		l.cutSegment(s, to)
	}
	if !l.producers.cut(to.next) {
		l.setOffline(&CorruptError{File: l.dir, Position: -1, Reason: "producer state is ahead of the high watermark"})
		return
	}
	if epochs, changed := l.epochs.truncateFromEnd(to.next); changed {
		l.setEpochs(epochs)
	}
	l.end.Store(to.next)
	l.publish(to)
	c.wakeAll()
	if err := l.mend(); err != nil && first {
		l.logger().Error("cut is not on disk yet; the next append tries again", "err", err)
	}
}

// works notes that an append is durable, after others had failed perhaps. mu is held.
func (l *Log) works() {
	if l.failing {
		l.failing = false
		l.logger().Info("the log takes appends again", "offset", l.end.Load())
	}
}

// cutSegment makes the segment end at to again, in memory.
func (l *Log) cutSegment(s *segment, to mark) {
	s.size, s.next, s.maxTime = to.size, to.next, to.maxTime
	if s.size == 0 {
		s.first = noTimestamp
	}
	err := s.offsets.truncate(&s.indexFile, to.next)
	if err == nil {
		err = s.times.truncate(&s.timesFile, to.next)
	}
	if err != nil {
		// An index may leave out anything; without its entries reads are slower, not wrong.
		l.logger().Warn("indexes could not be cut; they begin anew", "segment", s.base, "err", err)
		s.offsets.keep(0)
		s.offsets.last = OffsetEntry{Offset: s.base}
		s.times.keep(0)
		s.times.last = TimeEntry{Timestamp: noTimestamp, Offset: s.base}
	}
	s.txns.truncate(to.next)
	s.sinceEntry = s.size - s.offsets.last.Position
}

// mend does on disk what a cut left to do: removes the files of segments that are gone, cuts those of the active one,
// and syncs both, with mu held.
func (l *Log) mend() error {
	again := l.repair.tried
	l.repair.tried = true
	for len(l.repair.removed) > 0 {
		n := len(l.repair.removed) - 1
		s := l.repair.removed[n]
		for _, name := range l.segmentFiles(s) {
			if err := l.ctx.fs.Remove(name); err != nil && !notExist(err) {
				return err
			}
		}
		l.repair.removed = l.repair.removed[:n]
	}
	if s := l.active; s != nil {
		if err := s.rewriteTxns(); err != nil {
			return err
		}
		for _, x := range []struct {
			f    *file
			size int64
		}{{&s.log, s.size}, {&s.indexFile, s.offsets.storedSize()}, {&s.timesFile, s.times.storedSize()}, {&s.txnsFile, s.txns.storedSize()}} {
			if err := cutFile(x.f, x.size, again); err != nil && !(notExist(err) && x.f != &s.log) {
				return err
			}
		}
	}
	if err := l.ctx.files.syncDir(l.dir); err != nil {
		return err
	}
	l.repair = nil
	return nil
}

// cutFile truncates a file and syncs it. again says that a sync of the same cut may have failed: the system then has the
// file cut already and would bring nothing to disk, where the end may still be, so it is given something to bring there.
func cutFile(f *file, size int64, again bool) error {
	h, err := f.acquire()
	if err != nil {
		return err
	}
	defer f.release()
	if again {
		if err := h.Truncate(size + 1); err != nil {
			return err
		}
	}
	if err := h.Truncate(size); err != nil {
		return err
	}
	return h.Sync()
}

// segmentFiles are the names that a segment of this log may have files under, its producer snapshot included.
func (l *Log) segmentFiles(s *segment) []string {
	names := make([]string, 0, 5)
	for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		names = append(names, segmentFile(l.dir, s.base, suffix))
	}
	return append(names, filepath.Join(l.dir, producerSnapshotName(s.base)))
}

// syncFailed deals with a round that failed. mu is held.
func (l *Log) syncFailed(cause error) {
	err := l.storageError("sync", cause)
	if l.origin.durability == Async {
		// Readers have seen what may be lost, and the page cache can no longer be trusted to be what is on disk.
		l.setOffline(err)
		return
	}
	l.cut(err)
}
