package storage

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
)

// tornSuffix is in the name of a file that keeps what recovery cut off: the name of the .log file, this, and the
// position in it.
const tornSuffix = ".torn-"

// finish puts the directory in order after a recovery, and makes durable what readers are about to see.
func (r *recovery) finish() error {
	l := r.l
	r.reportTorn()
	if err := r.cutTorn(); err != nil {
		return err
	}
	for _, s := range r.obsolete {
		for _, name := range l.segmentFiles(s) {
			if err := l.ctx.fs.Remove(name); err != nil && !notExist(err) {
				return err
			}
		}
		l.removeNote(s)
	}
	if err := r.removeSnapshots(); err != nil {
		return err
	}
	c := l.config.Load()
	if s := l.active; s != nil {
		if m := min(c.SegmentJitterMs, c.MaxSegmentMs()); m > 0 {
			s.jitterMs = rand.Int64N(m)
		}
	}
	if err := r.syncTail(); err != nil {
		return err
	}
	if l.takeover == nil && l.origin.clean && r.torn == nil && r.scanned == len(l.segments) && len(r.obsolete) == 0 && len(r.rebuiltTxns) == 0 {
		l.commit.recoveryPoint = l.end.Load()
		return nil
	}
	r.cachesFrom = math.MaxInt64
	if r.scanned < len(l.segments) {
		r.cachesFrom = l.segments[r.scanned].base
	}
	if err := r.syncCaches(); err != nil {
		// The log is whole without them, and the next start looks at more of it. The recovery point may not move over them.
		l.logger().Warn("recovered indexes could not be written", "err", err)
		l.uncached = r
	}
	return nil
}

// removeSnapshots removes the producer snapshots beyond the end, and those at no segment's beginning but for the last.
// Kafka: ProducerStateManager.removeStraySnapshots.
func (r *recovery) removeSnapshots() error {
	l := r.l
	kept := slices.DeleteFunc(slices.Clone(r.plan.snapshots), func(o int64) bool { return o > l.end.Load() })
	for _, offset := range r.plan.snapshots {
		if offset <= l.end.Load() && offset == kept[len(kept)-1] ||
			slices.ContainsFunc(l.segments, func(s *segment) bool { return s.base == offset }) {
			continue
		}
		if err := l.ctx.fs.Remove(l.path(producerSnapshotName(offset))); err != nil && !notExist(err) {
			return err
		}
	}
	return nil
}

// syncTail syncs the .log files that were read in full or cut.
func (r *recovery) syncTail() error {
	for i, s := range r.l.segments {
		if i < r.scanned && s != r.tornAt {
			continue
		}
		sync := s.syncLog
		if r.l.retried && r.write && s == r.l.active {
			sync = func() error { return cutFile(&s.log, s.size, true) }
		}
		if err := sync(); err != nil {
			if r.write {
				return err
			}
			r.unsynced = true
		}
	}
	if !r.write {
		return nil
	}
	// A segment that was read in full may have a name that is not durable.
	r.names = r.names || r.scanned < len(r.l.segments) || r.torn != nil || len(r.obsolete) > 0
	return r.syncNames()
}

// reportTorn logs what was cut, and how much of it was good.
func (r *recovery) reportTorn() {
	if r.torn == nil {
		return
	}
	l := r.l
	whole, err := countBatches(&r.tornAt.log, r.torn.position+1, r.tornSize, r.torn.next)
	bytes := r.tornSize - r.torn.position
	for _, s := range r.lost {
		n, statErr := fileSize(&s.log)
		if statErr == nil {
			var more int
			more, statErr = countBatches(&s.log, 0, n, s.base)
			whole += more
			bytes += n
		}
		if err == nil {
			err = statErr
		}
	}
	attrs := []any{
		"file", segmentFile(l.dir, r.tornAt.base, logSuffix), "position", r.torn.position, "offset", r.torn.next,
		"bytes", bytes, "batches", whole, "cause", r.torn.reason,
	}
	if err != nil {
		attrs = append(attrs, "err", err)
	}
	l.logger().Warn("torn tail is cut", attrs...)
}

// cutTorn cuts the .log file where the recovery stopped, and takes away the segments after it. What is cut is kept in
// files beside it.
func (r *recovery) cutTorn() error {
	l := r.l
	if r.torn == nil {
		return nil
	}
	kept, err := r.keepTail(r.tornAt, r.torn.position, r.tornSize)
	if err != nil {
		// The disk may be full. The log goes on all the same; the line says that this is lost.
		l.logger().Error("cut bytes could not be kept", "bytes", r.tornSize-r.torn.position, "err", err)
	} else if kept != "" {
		l.logger().Info("cut bytes are kept", "file", kept)
	}
	if err := cutFile(&r.tornAt.log, r.torn.position, false); err != nil {
		return err
	}
	if r.torn.next < r.tornAt.reach {
		l.removeNote(r.tornAt)
		r.tornAt.reach = 0
	}
	for _, s := range r.lost {
		s.retire()
		l.removeNote(s)
		name := segmentFile(l.dir, s.base, logSuffix)
		if err := l.ctx.fs.Rename(name, r.freeName(name+tornSuffix+"0")); err != nil && !notExist(err) {
			return err
		}
		for _, name := range l.segmentFiles(s)[1:4] {
			if err := l.ctx.fs.Remove(name); err != nil && !notExist(err) {
				return err
			}
		}
	}
	return nil
}

// keepTail copies the end of a .log file to a file of its own and returns its name; "" when there is nothing but zeros.
func (r *recovery) keepTail(s *segment, position, size int64) (name string, err error) {
	l := r.l
	buf := make([]byte, min(size-position, scanWindow))
	name = r.freeName(fmt.Sprintf("%s%s%d", segmentFile(l.dir, s.base, logSuffix), tornSuffix, position))
	var to file
	made := false
	for at := position; at < size; {
		b := buf[:min(int64(len(buf)), size-at)]
		n, err := s.log.ReadAt(b, at)
		if n < len(b) {
			if err == nil {
				err = io.ErrUnexpectedEOF
			}
			return "", err
		}
		if !made && !allZero(b) {
			to.init(l.ctx.files, name)
			if _, err := to.create(); err != nil {
				return "", err
			}
			defer to.retire()
			defer to.release()
			made = true
		}
		if made {
			if _, err := to.handle.WriteAt(b, at-position); err != nil {
				return "", err
			}
		}
		at += int64(n)
	}
	if !made {
		return "", nil
	}
	return name, to.handle.Sync()
}

// freeName returns name, or name with a number after it when there is such a file already.
func (r *recovery) freeName(name string) string {
	free := name
	for i := 1; ; i++ {
		if _, err := r.l.ctx.fs.Stat(free); notExist(err) || err != nil && i > 100 {
			return free
		}
		free = fmt.Sprintf("%s.%d", name, i)
	}
}

// takeOver makes the directory of another broker ours, before the first append to it: what recovery only did in
// memory is done to the files. mu is held.
func (l *Log) takeOver() error {
	r := l.takeover
	l.logger().Info("partition directory is taken over from another broker")
	if err := r.tidy(); err != nil {
		return err
	}
	if err := r.noteGaps(); err != nil {
		return err
	}
	r.write = true
	seen := l.renewClosed()
	err := r.finish()
	l.publish(l.here())
	for _, s := range seen {
		s.drop = (*segment).retire
		s.release()
	}
	if err != nil {
		r.write = false
		return err
	}
	l.takeover = nil
	return nil
}

// noteGaps gives a note to each segment that ends before the next begins, as compaction leaves it: a start that has lost the
// recovery point would take that for the end of the log. finish makes the notes durable.
func (r *recovery) noteGaps() error {
	l := r.l
	for i, s := range l.segments[:max(len(l.segments)-1, 0)] {
		next := l.segments[i+1].base
		if s.reach == next {
			continue
		}
		end, err := lastNext(s)
		if err != nil {
			return err
		}
		if end >= next {
			continue
		}
		note, err := l.ctx.fs.Create(l.path(noteName(s.base, next)))
		if err == nil {
			err = note.Close()
		}
		if err != nil {
			return err
		}
		s.reach, r.names = next, true
	}
	return nil
}

// lastNext reads the offset after the last batch of a closed segment. Below the recovery point its next was not read, but
// taken from the name of the segment after it. Where there is no batch to be found it is what was found before, so that the
// segment gets a note: it says what the recovery took for granted.
func lastNext(s *segment) (int64, error) {
	return scanToEnd(&batchScanner{r: &s.log, position: s.offsets.last.Position, end: s.size, next: s.base})
}

// renewClosed puts others in the place of the closed segments, whose indexes are about to change, and returns those that
// readers see, who look at their indexes without a lock. mu is held.
func (l *Log) renewClosed() (seen []*segment) {
	l.segments = slices.Clone(l.segments)
	for i, s := range l.segments {
		if s == l.active {
			break
		}
		n := l.newSegment(s.base, 0, "")
		n.size, n.next, n.offsets, n.times, n.txns = s.size, s.next, s.offsets, s.times, s.txns
		n.maxTime, n.first, n.createdMs, n.modifiedMs, n.reach = s.maxTime, s.first, s.createdMs, s.modifiedMs, s.reach
		l.segments[i] = n
		seen = append(seen, s)
	}
	return seen
}
