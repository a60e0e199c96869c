package storage

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
)

// recovery is a log coming back from its directory. What it finds it puts into the log, whose mu is held; files are
// changed only where write is set.
type recovery struct {
	l     *Log
	plan  *directoryPlan
	write bool // the directory is ours; else it is another broker's and stays as it is
	point int64
	// synced is at or above point: everything below it was on disk, but above the point perhaps not the caches. So what lies
	// between is read in full, and what is wrong there is damage all the same.
	synced int64
	// scanned is the index of the first segment of which batches were read in full; len(segments) when none was.
	scanned  int
	epochs   leaderEpochs // of what was read in full
	torn     *badBatch    // where the log was cut; nil when it was not
	tornAt   *segment
	tornSize int64      // of the file that was cut
	lost     []*segment // whole segments after that place
	obsolete []*segment // segments below the log start
	names    bool       // names were changed since the directory was synced
	unsynced bool       // another broker's files could not be synced
	// rebuiltTxns are the bases of the segments whose transaction index was made anew; in the file is the damaged one.
	rebuiltTxns []int64
	// cachesFrom is the base of the first segment that was read in full. cachesTried: the caches were not written the first
	// time.
	cachesFrom  int64
	cachesTried bool
}

// loadDirectory recovers the log. Nothing below the recovery point is read but what the indexes need; from there on
// every batch is checked, the log is cut at the first that is not whole, and what remains is synced before it can be
// seen. A *CorruptError means damage below the recovery point, or to what was on disk when the log went offline. mu is
// held.
func (l *Log) loadDirectory() error {
	names, err := l.ctx.fs.List(l.dir)
	if notExist(err) {
		names, err = nil, nil
	}
	if err != nil {
		return err
	}
	r := &recovery{l: l, write: !l.origin.adopted, point: l.origin.recoveryPoint}
	r.synced = max(r.point, l.origin.synced)
	if r.write && slices.Contains(names, partitionMetadataFile) {
		err := l.ctx.files.withRoom(func() error { return checkPartitionTopic(l.ctx.fs, l.dir, l.topic, l.id) })
		if err != nil {
			return err
		}
		l.made.Store(true)
	}
	r.plan, err = planDirectory(names, r.swapEnd)
	if err != nil {
		return err
	}
	if r.write {
		if err := r.checkOrphans(); err != nil {
			return err
		}
		if err := r.tidy(); err != nil {
			return err
		}
	}
	l.logStart = l.origin.logStart
	// What lies wholly below the log start is not looked at: a crash while it was being removed leaves any part of it.
	for len(r.plan.segments) > 1 && r.plan.segments[1].base <= l.logStart {
		p := r.plan.segments[0]
		s := l.newSegment(p.base, 0, p.suffix)
		s.reach = p.reach
		r.obsolete = append(r.obsolete, s)
		r.plan.segments = r.plan.segments[1:]
	}
	if err := r.openSegments(); err != nil {
		return err
	}
	if err := r.settleBounds(); err != nil {
		return err
	}
	if err := r.loadEpochs(); err != nil {
		return err
	}
	if err := r.openTxnIndexes(); err != nil {
		return err
	}
	if err := r.replayProducers(); err != nil {
		return err
	}
	l.commit.recoveryPoint = l.origin.recoveryPoint
	if r.write {
		err = r.finish()
	} else {
		r.reportTorn()
		l.takeover = r
		err = r.syncTail()
	}
	if err != nil {
		return err
	}
	if l.active != nil && l.active.size == 0 {
		l.commit.names = true // it was made, and nothing in it was durable yet, nor need its name be
	}
	if !r.unsynced {
		l.commit.synced = l.end.Load()
	}
	l.publish(l.here())
	return nil
}

// checkOrphans looks for a .log file that vanished from among others: its index files are still there. A segment is
// removed only below the log start, which is durable first, at or above the recovery point, or when another has
// replaced it; the latter gets its name when the removal is durable, as the recovery point moves on when that is.
func (r *recovery) checkOrphans() error {
	segments := r.plan.segments
	for _, base := range r.plan.orphans {
		i, _ := slices.BinarySearchFunc(segments, base, func(p plannedSegment, base int64) int { return cmp.Compare(p.base, base) })
		if i > 0 && i < len(segments) && segments[i].base > r.l.origin.logStart && segments[i].base <= r.synced {
			return &CorruptError{
				File: segmentFile(r.l.dir, base, logSuffix), Position: -1,
				Reason: fmt.Sprintf("it is missing, its indexes are there and everything below offset %d was on disk", r.synced),
			}
		}
	}
	return nil
}

// swapEnd returns the offset after the last batch of a segment that is to replace others.
func (r *recovery) swapEnd(base int64) (int64, error) {
	s := r.l.newSegment(base, 0, swapSuffix)
	info, err := r.l.ctx.fs.Stat(segmentFile(r.l.dir, base, logSuffix+swapSuffix))
	if err != nil {
		return 0, err
	}
	// A replacement is complete before it has this name; damage in it shows when it is opened.
	next, err := scanToEnd(&batchScanner{r: &s.log, end: info.Size, next: base})
	if err != nil {
		return 0, err
	}
	return next, s.log.retire()
}

// tidy removes leftovers and gives replacements their plain names.
func (r *recovery) tidy() error {
	l := r.l
	for len(r.plan.remove) > 0 {
		// Each is removed once, whatever fails: its name may be given to a replacement next.
		if err := l.ctx.fs.Remove(l.path(r.plan.remove[0])); err != nil && !notExist(err) {
			return err
		}
		r.plan.remove, r.names = r.plan.remove[1:], true
	}
	if slices.ContainsFunc(r.plan.segments, func(p plannedSegment) bool { return p.suffix != "" }) {
		// What a replacement stands in for is gone for good before the replacement looks like any other segment.
		if err := r.syncNames(); err != nil {
			return err
		}
	}
	for i := range r.plan.segments {
		p := &r.plan.segments[i]
		if p.suffix == "" {
			continue
		}
		for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix, logSuffix} {
			err := l.ctx.fs.Rename(segmentFile(l.dir, p.base, suffix+swapSuffix), segmentFile(l.dir, p.base, suffix))
			if err != nil && !notExist(err) {
				return err
			}
		}
		for _, s := range l.segments {
			if s.base == p.base {
				for _, f := range s.fileSet() {
					f.moved(segmentFile(l.dir, s.base, f.suffix))
				}
			}
		}
		p.suffix, r.names = "", true
	}
	return r.syncNames()
}

// syncNames makes changed names durable.
func (r *recovery) syncNames() error {
	if !r.names {
		return nil
	}
	err := r.l.ctx.files.syncDir(r.l.dir)
	r.names = err != nil
	return err
}

// openSegments opens the segments in order: those below the recovery point by their indexes, the others by reading
// them. It ends the log at the first batch that is not whole.
func (r *recovery) openSegments() error {
	l, c := r.l, r.l.config.Load()
	plans := r.plan.segments
	r.scanned = len(plans)
	var tail *segment // the one before, when its end was read and not taken from the name of the next
	for i, p := range plans {
		s := l.newSegment(p.base, c.SegmentIndexBytes, p.suffix)
		s.reach = p.reach
		l.segments = append(l.segments, s)
		if r.write && tail != nil && tail.next < min(r.synced, s.base) {
			return l.corrupt(tail, tail.size, fmt.Sprintf("segment ends at offset %d, everything below %d was on disk", tail.next, r.synced))
		}
		if r.torn == nil && r.write && tail != nil && tail.next != s.base {
			// Of names that were not synced, a later one may have survived without an earlier one.
			r.torn = &badBatch{position: tail.size, next: tail.next, reason: fmt.Sprintf("the next segment begins at offset %d", s.base)}
			r.tornAt, r.tornSize = tail, tail.size
		}
		if r.torn != nil {
			r.lost = append(r.lost, s)
			continue
		}
		info, err := l.ctx.fs.Stat(segmentFile(l.dir, p.base, logSuffix+p.suffix))
		if err != nil {
			return err
		}
		s.modifiedMs, s.createdMs = info.ModTime.UnixMilli(), info.ModTime.UnixMilli()
		limit := int64(0) // base of the next segment
		if i+1 < len(plans) {
			limit = plans[i+1].base
		}
		if limit > 0 && (limit <= r.point || l.origin.clean) {
			err = r.openClosed(s, p, info.Size, limit)
		} else {
			err, tail = r.openTail(s, p, info.Size, limit), s
		}
		if err != nil {
			return err
		}
		if r.torn == nil {
			s.next = max(s.next, s.reach)
		}
	}
	l.segments = l.segments[:len(l.segments)-len(r.lost)]
	return nil
}

// openClosed opens a segment that lies below the recovery point and has another after it.
func (r *recovery) openClosed(s *segment, p plannedSegment, size, next int64) error {
	c := r.l.config.Load()
	s.size, s.next = size, next
	err := errors.New("file is missing")
	if p.index && p.times {
		maxGap := int64(c.IndexIntervalBytes) + 2*int64(c.MaxMessageBytes)
		err = r.openIndexes(s, c, size, next, maxGap)
	}
	end := int64(0)
	if err == nil {
		end, err = endOfClosed(s, size, next)
	}
	if err != nil {
		if end, err = r.rebuildIndexes(s, size, next, err); err != nil {
			return err
		}
	}
	if r.write && max(end, s.reach) < next {
		return r.l.corrupt(s, size, fmt.Sprintf("segment ends at offset %d, the next begins at %d", end, next))
	}
	s.maxTime = s.times.last
	return nil
}

// openTail opens the segment that holds the recovery point, or one after it: up to the recovery point it goes by the
// indexes and the headers, from there on it reads every batch. limit is the base of the next segment, or 0.
func (r *recovery) openTail(s *segment, p plannedSegment, size, limit int64) error {
	l, c := r.l, r.l.config.Load()
	sc := batchScanner{r: &s.log, end: size, next: s.base, limit: limit}
	if r.point > s.base {
		start := r.openPrefix(s, p, size)
		if start.Position > 0 {
			if first, _, err := sc.scan(); err == nil {
				s.first = first.MaxTimestamp()
			}
			sc = batchScanner{r: &s.log, position: start.Position, end: size, next: s.base, limit: limit}
			s.size, s.next, s.maxTime = start.Position, s.base, s.times.last
		}
	}
	lastEpoch := int32(-1)
	for {
		if sc.next >= r.point && !sc.whole {
			sc.whole, sc.window = true, nil
		}
		b, position, err := sc.scan()
		if errors.Is(err, io.EOF) {
			return nil
		}
		bad, _ := errors.AsType[*badBatch](err)
		if start := s.offsets.last; err == nil && position > 0 && position == start.Position && b.BaseOffset() > start.Offset {
			bad = &badBatch{position: position, next: s.next, reason: fmt.Sprintf("base offset %d where the index has %d", b.BaseOffset(), start.Offset)}
		}
		if bad != nil {
			if bad.position > 0 && bad.position == s.offsets.last.Position && s.next == s.base {
				// The index led nowhere; begin again without it.
				r.forgetIndexes(s)
				sc = batchScanner{r: &s.log, end: size, next: s.base, limit: limit}
				continue
			}
			if s.next < r.synced {
				return r.damage(s, bad)
			}
			bad.next = s.next
			r.torn, r.tornAt, r.tornSize = bad, s, size
			return nil
		}
		if err != nil {
			return err
		}
		s.noteBatch(b.LastOffset(), b.MaxTimestamp(), position, int64(b.Size()), c.IndexIntervalBytes)
		if sc.whole {
			r.scanned = min(r.scanned, len(l.segments)-1)
			if e := b.LeaderEpoch(); e > lastEpoch {
				r.epochs, _ = r.epochs.assign(e, b.BaseOffset())
				lastEpoch = e
			}
		}
	}
}

// openPrefix opens what the index files of the last segment hold below the recovery point and returns the last entry,
// from which the log is read on; {base, 0} when the indexes are of no use.
func (r *recovery) openPrefix(s *segment, p plannedSegment, size int64) OffsetEntry {
	c := r.l.config.Load()
	none := OffsetEntry{Offset: s.base}
	if !p.index || !p.times {
		return none
	}
	if r.l.origin.clean {
		// They were written to the end and synced; their ends tell whether they still are what they were.
		if err := r.openIndexes(s, c, size, r.point, 0); err == nil && s.offsets.last.Offset < r.point {
			return s.offsets.last
		}
		r.forgetIndexes(s)
	}
	b, err := readWhole(&s.indexFile)
	if err != nil {
		return none
	}
	offsets, _ := DecodeOffsetIndex(b, s.base)
	n := 0
	for n < len(offsets) && offsets[n].Position < size && offsets[n].Offset < r.point {
		n++
	}
	if n == 0 {
		return none
	}
	last := offsets[n-1]
	if s.offsets, err = openOffsetIndex(&s.indexFile, int64(n)*offsetEntrySize, s.base, c.SegmentIndexBytes, last.Offset+1, size, 0); err != nil {
		r.forgetIndexes(s)
		return none
	}
	if b, err = readWhole(&s.timesFile); err != nil {
		r.forgetIndexes(s)
		return none
	}
	times, _ := DecodeTimeIndex(b, s.base)
	m := 0
	for m < len(times) && times[m].Offset <= last.Offset {
		m++
	}
	if s.times, err = openTimeIndex(&s.timesFile, int64(m)*timeEntrySize, s.base, c.SegmentIndexBytes, last.Offset+1); err != nil {
		r.forgetIndexes(s)
		return none
	}
	if m == 0 {
		sc := batchScanner{r: &s.log, end: size, next: s.base}
		if first, _, err := sc.scan(); err != nil || first.MaxTimestamp() >= 0 {
			// Every entry of the offset index had one here.
			r.forgetIndexes(s)
			return none
		}
	}
	return last
}

// damage is the error for what a scan met below what was on disk.
func (r *recovery) damage(s *segment, err error) error {
	if bad, ok := errors.AsType[*badBatch](err); ok {
		return r.l.corrupt(s, bad.position, bad.reason)
	}
	return err
}

// settleBounds decides where the log begins and ends.
func (r *recovery) settleBounds() error {
	l := r.l
	end := l.logStart
	if n := len(l.segments); n > 0 {
		l.active = l.segments[n-1]
		r.warnOfMissing(l.segments[0].base)
		l.logStart = max(l.logStart, l.segments[0].base)
		end = l.active.next
	}
	if end < r.synced && r.torn == nil {
		if r.write {
			name := l.dir
			if l.active != nil {
				name = segmentFile(l.dir, l.active.base, logSuffix)
			}
			return &CorruptError{File: name, Position: -1, Reason: fmt.Sprintf("log ends at offset %d, everything below %d was on disk", end, r.synced)}
		}
		l.logger().Warn("log ends below what was on disk", "offset", end, "synced", r.synced)
	}
	if end < l.logStart {
		// As Kafka: nothing of what is left is to be read any more.
		l.logger().Warn("log ends below its start and begins anew", "offset", end, "start", l.logStart)
		r.obsolete = append(r.obsolete, l.segments...)
		l.segments, l.active, end, r.scanned = nil, nil, l.logStart, 0
	}
	l.end.Store(end)
	return nil
}

// warnOfMissing tells of a log that begins with the segment of base offset first although it starts below: a log start is
// on disk before a segment goes. Kafka writes it down later, and only while it lies within a segment: what it left says
// something only of a partition with a line, and only after a clean stop.
func (r *recovery) warnOfMissing(first int64) {
	l := r.l
	want := l.origin.logStart
	if first <= want || l.origin.adopted && (want == 0 || !l.origin.clean) {
		return
	}
	l.logger().Warn("segments are missing at the beginning", "offset", first, "want", want)
}

// loadEpochs reads the leader epochs and brings them in line with the batches.
func (r *recovery) loadEpochs() error {
	l := r.l
	epochs, err := readLeaderEpochs(l.ctx.fs, l.dir)
	c, isCorrupt := errors.AsType[*CorruptError](err)
	if err != nil && !isCorrupt {
		return err
	}
	before := epochs
	epochs, _ = epochs.truncateFromEnd(l.end.Load())
	all := r.point <= l.logStart && !l.origin.clean // then everything was read in full
	if c != nil {
		l.logger().Warn("leader epochs are rebuilt", "err", c)
	}
	if (c != nil || len(epochs) == 0) && !all {
		if epochs, err = r.epochsOfBatches(); err != nil {
			return err
		}
	}
	for _, e := range r.epochs {
		if e.Epoch > epochs.latest() {
			epochs, _ = epochs.assign(e.Epoch, e.StartOffset)
		}
	}
	epochs, _ = epochs.truncateFromStart(l.logStart)
	l.epochs = epochs
	l.epoch.Store(epochs.latest())
	l.commit.epochs = !slices.Equal(before, epochs) || c != nil
	return nil
}

// epochsOfBatches makes the leader epochs anew from the headers of all batches.
func (r *recovery) epochsOfBatches() (epochs leaderEpochs, err error) {
	for _, s := range r.l.segments {
		sc := batchScanner{r: &s.log, end: s.size, next: s.base}
		for {
			b, _, err := sc.scan()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, r.damage(s, err)
			}
			if b.LeaderEpoch() > epochs.latest() {
				epochs, _ = epochs.assign(b.LeaderEpoch(), b.BaseOffset())
			}
		}
	}
	return epochs, nil
}

// fileSize is the size of a file of a log.
func fileSize(f *file) (int64, error) {
	h, err := f.acquire()
	if err != nil {
		return 0, err
	}
	defer f.release()
	return h.Size()
}

// readWhole reads all of an index file.
func readWhole(f *file) ([]byte, error) {
	h, err := f.acquire()
	if err != nil {
		return nil, err
	}
	defer f.release()
	n, err := h.Size()
	if err != nil {
		return nil, err
	}
	b := make([]byte, n)
	m, err := h.ReadAt(b, 0)
	if m < len(b) && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:m], nil
}
