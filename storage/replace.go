package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// A replacement takes the place of its sources in four steps, each durable before the next:
//
//	1  its files, with cleanedSuffix, and a note of how far it reaches
//	2  the files have swapSuffix: from here on a start takes the replacement, before the sources
//	3  the sources have deletedSuffix, and a number where a reader still is in an older segment of their base
//	4  the files have their plain names
//
// The note is an empty file whose name has the base offset of the segment and the offset after the last of what it was
// made of. The last batches of the sources may not be in the replacement. So without the note its own end would not tell
// which files it stands in for, nor, later, that nothing is missing between it and the next segment, or that the log ends
// there. The note stays as long as the segment, unless that ends where it says; with logOrigin.wholeEnds also then. Kafka has
// no such file: LogLoader goes by the end of the replacement.
const noteSuffix = ".reaches"

// noteName is the name of the note of a segment.
func noteName(base, reach int64) string { return fmt.Sprintf("%020d.%020d%s", base, reach, noteSuffix) }

// ParseNote takes the name of a note of how far a segment reaches apart: BASE.REACH.reaches, which says that the segment at
// base holds what is left of the offsets [base, reach). ok is false for other names.
func ParseNote(name string) (base, reach int64, ok bool) {
	digits, found := strings.CutSuffix(name, noteSuffix)
	from, to, dot := strings.Cut(digits, ".")
	if !found || !dot || len(from) != 20 || len(to) != 20 {
		return 0, 0, false
	}
	base, err := strconv.ParseInt(from, 10, 64)
	if err != nil || base < 0 || from[0] == '+' {
		return 0, 0, false
	}
	reach, err = strconv.ParseInt(to, 10, 64)
	return base, reach, err == nil && reach > base && to[0] != '+'
}

// removeNote removes the note of a segment, if it has one.
func (l *Log) removeNote(s *segment) {
	if s.reach == 0 {
		return
	}
	name := noteName(s.base, s.reach)
	if err := l.ctx.fs.Remove(l.path(name)); err != nil && !notExist(err) {
		l.logger().Warn("note of a segment could not be removed", "file", name, "err", err)
	}
}

// replace makes the new segment durable and puts it in the place of its sources.
func (w *rewrite) replace() error {
	l := w.l
	if err := w.complete(); err != nil {
		return err
	}
	w.segment.reach = w.next
	note, err := l.ctx.fs.Create(w.note())
	if err == nil {
		err = note.Close()
	}
	if err == nil {
		err = l.ctx.files.syncDir(l.dir)
	}
	if err == nil {
		err = w.rename(swapSuffix)
	}
	if err == nil {
		err = l.ctx.files.syncDir(l.dir)
	}
	if err != nil {
		return err
	}
	err = w.swap()
	if err == nil {
		err = w.settle()
	}
	if err != nil && w.swapped {
		l.leaveUnsettled()
	}
	return err
}

// leaveUnsettled keeps the log from being rewritten before the next start: its directory has files by which a start would
// take another rewrite for what it is not.
func (l *Log) leaveUnsettled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsettled = true
}

func (w *rewrite) note() string { return w.l.path(noteName(w.segment.base, w.next)) }

// rename gives the files of the new segment another ending, the .log file last.
func (w *rewrite) rename(to string) error {
	set := w.segment.fileSet()
	slices.Reverse(set[:])
	for _, f := range set {
		err := f.rename(segmentFile(w.l.dir, w.segment.base, f.suffix) + to)
		if err != nil && !(notExist(err) && f.suffix == txnIndexSuffix) {
			return err
		}
	}
	return nil
}

// swap puts the new segment in the place of its sources for all who read from now on, and marks the files of the sources
// as deleted. The sources may have left the log meanwhile, when its start moved. Where a file keeps its name the new
// segment counts all the same, and gets its own at the next start.
func (w *rewrite) swap() error {
	l := w.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mayRewrite(); err != nil {
		return err
	}
	i := slices.Index(l.segments, w.sources[0])
	if n := len(w.sources); i < 0 || i+n >= len(l.segments) || !slices.Equal(l.segments[i:i+n], w.sources) {
		return fmt.Errorf("%w: the log now starts at offset %d", ErrNotRewritable, l.logStart)
	}
	m := l.view.Load().end
	if slices.Contains(w.sources, m.segment) {
		// The high watermark stands at the end of the last source, which is the beginning of the segment after it.
		s := l.segments[i+len(w.sources)]
		m = mark{segment: s, next: m.next, maxTime: TimeEntry{Timestamp: noTimestamp, Offset: s.base}}
	}
	l.segments = slices.Replace(slices.Clone(l.segments), i, i+len(w.sources), w.segment)
	w.segment.acquire() // should the log start move past it, it is discarded only when its files have their plain names
	w.swapped = true
	l.publish(m)
	var faults []error
	for _, s := range w.sources {
		names, err := l.markReplaced(s, s.base == w.segment.base)
		faults = append(faults, err)
		s.drop = func(s *segment) {
			s.retire()
			l.removeReplaced(names)
		}
		s.release() // the log's own reference; ours keeps it until letGo
	}
	return errors.Join(faults...)
}

// markReplaced gives the files of a source their last names and returns those. Its snapshot stays when the replacement
// begins where it did. mu is held.
func (l *Log) markReplaced(s *segment, first bool) (names []string, err error) {
	var faults []error
	note := func(name string, err error) {
		if err == nil {
			names = append(names, name)
		} else if !notExist(err) {
			faults = append(faults, err)
		}
	}
	n := l.freeDeleted(s)
	for _, f := range s.fileSet() {
		name := deletedName(segmentFile(l.dir, s.base, f.suffix), n)
		note(name, f.rename(name))
	}
	if !first {
		name := l.path(producerSnapshotName(s.base))
		note(deletedName(name, n), l.ctx.fs.Rename(name, deletedName(name, n)))
	}
	return names, errors.Join(faults...)
}

// freeDeleted returns the number with which deletedName gives a segment names that no other has. mu is held.
func (l *Log) freeDeleted(s *segment) int {
	for n := 0; ; n++ {
		if _, err := l.ctx.fs.Stat(deletedName(segmentFile(l.dir, s.base, logSuffix), n)); err != nil {
			return n
		}
	}
}

// removeReplaced removes the files of a source that nobody reads any more. Differs from Kafka: there is no delay as for
// deleted segments, whose records are gone: all that is to stay is in the replacement, and a pass needs no more room than one
// of them.
func (l *Log) removeReplaced(names []string) {
	// While it is held the directory cannot become that of another topic with the same name.
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deleted.Load() {
		return // the whole directory goes
	}
	for _, name := range names {
		if err := l.ctx.fs.Remove(name); err != nil && !notExist(err) {
			l.logger().Warn("replaced file could not be removed", "file", filepath.Base(name), "err", err)
		}
	}
}

// settle gives the new segment its plain names, once those of the sources are gone for good.
func (w *rewrite) settle() error {
	l := w.l
	if err := l.ctx.files.syncDir(l.dir); err != nil {
		return err
	}
	l.mu.Lock()
	err := w.rename("")
	l.mu.Unlock()
	if err == nil {
		err = l.ctx.files.syncDir(l.dir)
	}
	if err != nil {
		return err
	}
	for _, s := range w.sources {
		if s.base != w.segment.base || s.reach != w.next {
			l.removeNote(s)
		}
	}
	if w.end == w.next && !l.origin.wholeEnds {
		l.removeNote(w.segment)
	}
	return nil
}

// abandon removes what there is of a new segment that did not come to count: its .log file first, since without that the
// others count for nothing. When it cannot, it says so, and the log is not rewritten before the next start.
func (w *rewrite) abandon() error {
	if w.segment == nil || w.swapped {
		return nil
	}
	l := w.l
	w.close()
	w.segment.retire()
	err := w.removeFiles()
	if err != nil {
		l.leaveUnsettled()
		l.logger().Warn("files of an abandoned rewrite could not be removed; the next start does", "segment", w.segment.base, "err", err)
	}
	return err
}

// removeFiles removes the files of the new segment, whatever their names are by now. Where its .log file has swapSuffix a
// start would take the replacement, so that file is gone for good before the others are removed. While it has cleanedSuffix
// a start removes it too, and nothing is synced: that takes a file descriptor, which may be what there was none of.
func (w *rewrite) removeFiles() error {
	l := w.l
	for i, f := range w.segment.fileSet() {
		name := segmentFile(l.dir, w.segment.base, f.suffix)
		taken := false // whether a start would have taken the replacement: this is its .log file, and had swapSuffix
		for _, suffix := range []string{swapSuffix, cleanedSuffix} {
			err := l.ctx.fs.Remove(name + suffix)
			if err != nil && !notExist(err) {
				return err
			}
			taken = taken || err == nil && i == 0 && suffix == swapSuffix
		}
		if taken {
			if err := l.ctx.files.syncDir(l.dir); err != nil {
				return err
			}
		}
	}
	if w.sources[0].reach == w.next {
		return nil // the note is the source's own
	}
	if err := l.ctx.fs.Remove(w.note()); err != nil && !notExist(err) {
		return err
	}
	return nil
}
