package storage

import (
	"fmt"
	"path/filepath"
	"sync/atomic"
)

// Endings of the files of a segment; before them stands its base offset in 20 digits.
const (
	logSuffix       = ".log"
	indexSuffix     = ".index"
	timeIndexSuffix = ".timeindex"
	txnIndexSuffix  = ".txnindex"
)

// segmentFile is the name of a file of the segment with the given base offset.
func segmentFile(dir string, base int64, suffix string) string {
	return filepath.Join(dir, fmt.Sprintf("%020d%s", base, suffix))
}

// segment is a run of batches in one .log file, and its indexes. Only the last segment of a log is appended to.
//
// A segment that readers can see is kept by a reference of the log; each reader holds another while it reads. Its
// files are closed, and removed if that is why it went, when the last one is dropped.
type segment struct {
	base int64
	log  file
	// The index files may be missing: they are made when there is something to write.
	indexFile file
	timesFile file
	txnsFile  file

	refs atomic.Int32
	// drop is called when the last reference is gone; set before the log's is dropped.
	drop func(*segment)

	// What follows is guarded by Log.mu and does not change once the segment is closed, that is, when another
	// follows it. Readers see the open segment's through the copies in a view.

	size    int64 // bytes of whole batches in the .log file
	next    int64 // offset after the last batch, or base
	offsets offsetIndex
	times   timeIndex
	txns    txnIndex
	// maxTime is the largest timestamp and the last offset of the batch that has it, {noTimestamp, base} for none.
	maxTime TimeEntry
	// reach is the offset in the segment's note, 0 when it has none; see noteSuffix.
	reach int64
	// first is the largest timestamp of the first batch, from which segment.ms counts; noTimestamp for none.
	first      int64
	sinceEntry int64 // bytes since the last index entry
	createdMs  int64
	jitterMs   int64 // how much earlier than segment.ms it is rolled
	modifiedMs int64 // time of the file, by which retention goes when there are no timestamps
	dirty      bool  // its .log has unsynced bytes and is kept open

	indexWarned atomic.Bool // a wrong index was reported
}

// newSegment returns a segment whose files are named and not open.
func (l *Log) newSegment(base int64, indexBytes int32, suffix string) *segment {
	s := &segment{
		base: base, next: base,
		offsets: newOffsetIndex(base, indexBytes), times: newTimeIndex(base, indexBytes),
		maxTime: TimeEntry{Timestamp: noTimestamp, Offset: base}, first: noTimestamp,
	}
	s.log.init(l.ctx.files, segmentFile(l.dir, base, logSuffix+suffix))
	s.indexFile.init(l.ctx.files, segmentFile(l.dir, base, indexSuffix+suffix))
	s.timesFile.init(l.ctx.files, segmentFile(l.dir, base, timeIndexSuffix+suffix))
	s.txnsFile.init(l.ctx.files, segmentFile(l.dir, base, txnIndexSuffix+suffix))
	s.refs.Store(1)
	return s
}

// fileSet are the files of the segment with their endings.
func (s *segment) fileSet() [4]struct {
	*file
	suffix string
} {
	return [4]struct {
		*file
		suffix string
	}{{&s.log, logSuffix}, {&s.indexFile, indexSuffix}, {&s.timesFile, timeIndexSuffix}, {&s.txnsFile, txnIndexSuffix}}
}

// acquire adds a reference; false when the segment is gone already.
func (s *segment) acquire() bool {
	for {
		n := s.refs.Load()
		if n == 0 {
			return false
		}
		if s.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release drops a reference.
func (s *segment) release() {
	switch n := s.refs.Add(-1); {
	case n == 0:
		if s.drop != nil {
			s.drop(s)
		}
	case n < 0:
		panic(fmt.Sprintf("storage: segment %d released more often than acquired", s.base))
	}
}

// noteBatch takes a batch that was appended, or found by a scan, into the indexes and bounds. position is where it
// starts; an index entry is due when more than interval bytes were appended since the last one. Kafka:
// LogSegment.append.
func (s *segment) noteBatch(lastOffset, maxTimestamp, position, size int64, interval int32) {
	if position == 0 {
		s.first = maxTimestamp
	}
	if maxTimestamp > s.maxTime.Timestamp {
		s.maxTime = TimeEntry{Timestamp: maxTimestamp, Offset: lastOffset}
	}
	if s.sinceEntry > int64(interval) {
		s.offsets.append(lastOffset, position)
		s.times.append(s.maxTime.Timestamp, s.maxTime.Offset, false)
		s.sinceEntry = 0
	}
	s.sinceEntry += size
	s.size = position + size
	s.next = lastOffset + 1
}

// shouldRoll reports whether a batch of that size, timestamp and last offset goes to a new segment. It does when only the
// note of the last one says where the log ends: should the batch be torn, that end would not be in the file.
// Kafka: LogSegment.shouldRoll, timeWaitedForRoll.
func (s *segment) shouldRoll(c *TopicConfig, size, maxTimestamp, lastOffset, nowMs int64) bool {
	if s.reach > 0 && s.reach == s.next {
		return true
	}
	if s.size > int64(c.SegmentBytes)-size || lastOffset-s.base > maxRelativeOffset {
		return s.size > 0
	}
	if s.size == 0 {
		return false
	}
	waited := nowMs - s.createdMs
	if s.first >= 0 {
		waited = maxTimestamp - s.first
	}
	return waited > c.MaxSegmentMs()-s.jitterMs || s.offsets.full() || s.times.full()
}

// maxRelativeOffset is the largest distance from the base offset that an index entry can hold.
const maxRelativeOffset = 1<<31 - 1

// finish adds the last time index entry; the segment is being closed. Kafka: LogSegment.onBecomeInactiveSegment.
func (s *segment) finish() {
	s.times.append(s.maxTime.Timestamp, s.maxTime.Offset, true)
}

// written reports whether the index files have all of the offset and time index.
func (s *segment) written() bool {
	offsets, _ := s.offsets.unwritten()
	times, _ := s.times.unwritten()
	return len(offsets) == 0 && len(times) == 0
}

// writeIndexes brings to the files what of the indexes is only in memory. It does not sync. made is true when it
// made a file. It may only be called with Log.mu held, or for a closed segment by the one that syncs it.
func (s *segment) writeIndexes() (made bool, err error) {
	for _, x := range []struct {
		file      *file
		unwritten func() ([]byte, int64)
		wrote     func(int)
	}{
		{&s.indexFile, s.offsets.unwritten, s.offsets.wrote},
		{&s.timesFile, s.times.unwritten, s.times.wrote},
		{&s.txnsFile, s.txns.unwritten, s.txns.wrote},
	} {
		b, position := x.unwritten()
		if len(b) == 0 && (position > 0 || x.file == &s.txnsFile) {
			continue
		}
		open := x.file.acquire
		if position == 0 {
			open, made = x.file.create, true
		}
		h, err := open()
		if err != nil {
			return made, err
		}
		if len(b) > 0 {
			_, err = h.WriteAt(b, position)
		}
		x.file.release()
		if err != nil {
			return made, err
		}
		x.wrote(len(b))
	}
	return made, nil
}

// rewriteTxns writes once more what the file of the transaction index has: a sync that failed may have lost it to the disk for
// good, and unlike the other indexes it is not looked at again. What is on the disk already does not change.
func (s *segment) rewriteTxns() error {
	b := s.txns.written()
	if len(b) == 0 {
		return nil
	}
	h, err := s.txnsFile.acquire()
	if err != nil {
		return err
	}
	defer s.txnsFile.release()
	_, err = h.WriteAt(b, 0)
	return err
}

// syncLog syncs the .log file.
func (s *segment) syncLog() error { return s.sync(&s.log, logSuffix) }

// syncIndexes syncs the index files, after writeIndexes. txns says that there is one of transactions: hasTxnsFile, as it was
// while nobody could cut the segment.
func (s *segment) syncIndexes(txns bool) error {
	err := s.sync(&s.indexFile, indexSuffix)
	if err == nil {
		err = s.sync(&s.timesFile, timeIndexSuffix)
	}
	if err == nil && txns {
		err = s.sync(&s.txnsFile, txnIndexSuffix)
	}
	return err
}

// hasTxnsFile reports whether the transaction index has something in its file.
func (s *segment) hasTxnsFile() bool { return s.txns.storedSize() > 0 }

func (s *segment) sync(f *file, suffix string) error {
	h, err := f.acquire()
	if err == nil {
		err = h.Sync()
		f.release()
	}
	if err != nil {
		return fmt.Errorf("sync %020d%s: %w", s.base, suffix, err)
	}
	return nil
}

// retire closes the files for good; nobody uses the segment any more.
func (s *segment) retire() {
	for _, f := range s.fileSet() {
		f.retire()
	}
}
