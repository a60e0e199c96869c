package storage

import (
	"fmt"
	"path/filepath"
	"slices"
	"time"
)

// doomedFile is a file under its name with deletedSuffix, and when it goes.
type doomedFile struct {
	name string
	due  time.Time
}

// DeleteBefore moves the log start up to offset, -1 for the high watermark, and returns where the log then starts,
// which is higher when it started higher already. The new start is durable when it returns. Segments that lie wholly
// below it leave the log; their files are removed after file.delete.delay.ms, when the last reader has let go.
// ErrOffsetOutOfRange means an offset above the high watermark, or below -1. Kafka: UnifiedLog.maybeIncrementLogStartOffset.
// Differs from Kafka: it writes the log start with a later checkpoint, and after DeleteRecords leaves the segments to the next
// sweep of retention or turn of the cleaner.
func (l *Log) DeleteBefore(offset int64) (logStart int64, err error) {
	v, err := l.visible()
	if err != nil {
		return 0, err
	}
	if offset == -1 {
		offset = v.end.next
	}
	if offset < 0 || offset > v.end.next {
		return 0, fmt.Errorf("%w: delete before %d, high watermark is %d", ErrOffsetOutOfRange, offset, v.end.next)
	}
	if offset <= v.logStart {
		return v.logStart, nil
	}
	// The high watermark does not go back, so no lock need be held over the write. Of two at the same time the
	// checkpoint keeps the higher.
	if save := l.ctx.saveLogStart; save != nil {
		if err := save(l, offset); err != nil {
			return 0, l.storageError("save the log start of", err)
		}
	}
	gone, logStart, err := l.raiseLogStart(offset)
	for _, s := range gone {
		s.drop = l.discard
		s.release()
	}
	return logStart, err
}

// raiseLogStart moves the log start in memory and returns the segments that left the log.
func (l *Log) raiseLogStart(offset int64) (gone []*segment, logStart int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.deleted.Load():
		return nil, 0, ErrLogDeleted
	case Status(l.status.Load()) != StatusOnline:
		return nil, 0, l.offline.Load()
	}
	l.logStart = max(l.logStart, offset)
	m := l.view.Load().end
	// Another broker's directory is left as it is until the first append.
	if l.takeover == nil {
		n := 0
		for n+1 < len(l.segments) && l.segments[n+1].base <= l.logStart {
			n++
		}
		gone = l.segments[:n]
		l.segments = slices.Clone(l.segments[n:])
	}
	if slices.Contains(gone, m.segment) {
		// The high watermark stands at the end of a segment that went, which is the beginning of the next.
		s := l.segments[0]
		m = mark{segment: s, next: m.next, maxTime: TimeEntry{Timestamp: noTimestamp, Offset: s.base}}
	}
	l.forget(gone)
	if epochs, changed := l.epochs.truncateFromStart(l.logStart); changed {
		l.setEpochs(epochs)
	}
	l.publish(m)
	return gone, l.logStart, nil
}

// forget drops what the next commit was to sync of segments that left the log. mu is held.
func (l *Log) forget(gone []*segment) {
	if len(gone) == 0 {
		return
	}
	c := &l.commit
	c.rolled = slices.DeleteFunc(slices.Clone(c.rolled), func(r rolledSegment) bool { return slices.Contains(gone, r.segment) })
	kept := make([]*segment, 0, len(c.dirty))
	for _, s := range c.dirty {
		if slices.Contains(gone, s) {
			s.dirty = false
			s.log.release()
			continue
		}
		kept = append(kept, s)
	}
	c.dirty = kept
}

// discard marks the files of a segment that left the log as deleted; they are removed later. It is called without mu,
// by whoever lets go of the segment last.
func (l *Log) discard(s *segment) {
	s.retire()
	// Once markDeleted has returned, the directory may be that of another topic with the same name.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deleted.Load() {
		return // the whole directory goes
	}
	delay := l.config.Load().fileDeleteDelay()
	due := l.ctx.now().Add(delay)
	n := l.freeDeleted(s)
	for _, name := range l.segmentFiles(s) {
		var err error
		if delay == 0 {
			err = l.ctx.fs.Remove(name)
		} else if err = l.ctx.fs.Rename(name, deletedName(name, n)); err == nil {
			l.doomed = append(l.doomed, doomedFile{name: deletedName(name, n), due: due})
		}
		if err != nil && !notExist(err) {
			// It is below the log start; the next start removes it.
			l.logger().Warn("segment file could not be removed", "file", filepath.Base(name), "err", err)
		}
	}
	l.removeNote(s)
}

// removeDeleted removes the deleted files whose delay is over and returns when the next one is due; zero for none. A
// log that recovers, or has yet to, has none: its recovery removes what it finds.
func (l *Log) removeDeleted() (next time.Time) {
	if s := l.Status(); s == StatusIdle || s == StatusRecovering {
		return time.Time{}
	}
	now := l.ctx.now()
	l.mu.Lock()
	var due []string
	l.doomed = slices.DeleteFunc(l.doomed, func(d doomedFile) bool {
		if d.due.After(now) {
			if next.IsZero() || d.due.Before(next) {
				next = d.due
			}
			return false
		}
		due = append(due, d.name)
		return true
	})
	l.mu.Unlock()
	for _, name := range due {
		if err := l.ctx.fs.Remove(name); err != nil && !notExist(err) {
			l.logger().Warn("deleted file could not be removed", "file", filepath.Base(name), "err", err)
		}
	}
	return next
}

// expireProducers forgets the producers that have been silent for too long.
func (l *Log) expireProducers() {
	if Status(l.status.Load()) != StatusOnline {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if n := l.producers.expire(l.nowMs(), l.ctx.producerIDExpiration.Milliseconds()); n > 0 {
		l.logger().Debug("producers expired", "count", n)
	}
}
