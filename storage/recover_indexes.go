package storage

import (
	"errors"
	"fmt"
	"io"
)

// openIndexes opens the offset and time index of a segment whose size and end are known. Any error means: rebuild.
func (r *recovery) openIndexes(s *segment, c *TopicConfig, size, next, maxGap int64) error {
	n, err := fileSize(&s.indexFile)
	if err != nil {
		return err
	}
	if s.offsets, err = openOffsetIndex(&s.indexFile, n, s.base, c.SegmentIndexBytes, next, size, maxGap); err != nil {
		return err
	}
	if n, err = fileSize(&s.timesFile); err != nil {
		return err
	}
	if s.times, err = openTimeIndex(&s.timesFile, n, s.base, c.SegmentIndexBytes, next); err != nil {
		return err
	}
	if size == 0 {
		return nil
	}
	// The last entry of the time index must be what a batch really has; without entries no batch has a timestamp.
	last := s.times.last
	e, err := s.offsets.lookup(&s.indexFile, last.Offset)
	if err != nil {
		return err
	}
	sc := batchScanner{r: &s.log, position: e.Position, end: size, next: s.base}
	for {
		b, _, err := sc.scan()
		switch {
		case errors.Is(err, io.EOF):
			return fmt.Errorf("time index ends at offset %d, where there is no batch", last.Offset)
		case err != nil:
			return err
		case b.LastOffset() < last.Offset:
		case b.MaxTimestamp() != last.Timestamp && !(last.Timestamp == noTimestamp && b.MaxTimestamp() < 0):
			return fmt.Errorf("time index ends with timestamp %d at offset %d, where the batch has %d", last.Timestamp, last.Offset, b.MaxTimestamp())
		default:
			return nil
		}
	}
}

// endOfClosed looks at what comes after the last entry of the offset index of a closed segment, of which nothing may be the
// next segment's, and returns the offset after the last batch. Any error means: rebuild.
func endOfClosed(s *segment, size, next int64) (end int64, err error) {
	sc := batchScanner{r: &s.log, position: s.offsets.last.Position, end: size, next: s.base, limit: next}
	for {
		if _, _, err := sc.scan(); errors.Is(err, io.EOF) {
			return sc.next, nil
		} else if err != nil {
			return 0, err
		}
	}
}

// rebuildIndexes makes the offset and time index of a closed segment anew from its batches' headers. A batch that is not whole
// is damage, and so is one with offsets that are the next segment's, which begins at next. It returns the offset after the
// last batch.
func (r *recovery) rebuildIndexes(s *segment, size, next int64, cause error) (end int64, err error) {
	l, c := r.l, r.l.config.Load()
	l.logger().Warn("indexes are rebuilt", "segment", s.base, "cause", cause)
	s.offsets, s.times = newOffsetIndex(s.base, c.SegmentIndexBytes), newTimeIndex(s.base, c.SegmentIndexBytes)
	sc := batchScanner{r: &s.log, end: size, next: s.base, limit: next}
	for {
		b, position, err := sc.scan()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, r.damage(s, err)
		}
		s.noteBatch(b.LastOffset(), b.MaxTimestamp(), position, int64(b.Size()), c.IndexIntervalBytes)
	}
	s.finish()
	s.size, s.next = size, next
	if !r.write || max(sc.next, s.reach) < next {
		return sc.next, nil
	}
	err = resetIndexFile(&s.indexFile, 0)
	if err == nil {
		err = resetIndexFile(&s.timesFile, 0)
	}
	if err == nil {
		_, err = s.writeIndexes()
	}
	if err == nil {
		err = s.syncIndexes(s.hasTxnsFile())
	}
	if err != nil {
		l.logger().Warn("rebuilt indexes are kept in memory only", "segment", s.base, "err", err)
	}
	return sc.next, nil
}

// resetIndexFiles cuts the index files to what the indexes have in them.
func (r *recovery) resetIndexFiles(s *segment) error {
	err := resetIndexFile(&s.indexFile, s.offsets.storedSize())
	if err == nil {
		err = resetIndexFile(&s.timesFile, s.times.storedSize())
	}
	if err == nil {
		err = resetIndexFile(&s.txnsFile, s.txns.storedSize())
	}
	return err
}

// resetIndexFile cuts a file that has another size.
func resetIndexFile(f *file, size int64) error {
	n, err := fileSize(f)
	if notExist(err) || err == nil && n == size {
		return nil
	}
	if err != nil {
		return err
	}
	return cutFile(f, size, false)
}

// forgetIndexes begins the offset and time index anew.
func (r *recovery) forgetIndexes(s *segment) {
	c := r.l.config.Load()
	s.offsets, s.times = newOffsetIndex(s.base, c.SegmentIndexBytes), newTimeIndex(s.base, c.SegmentIndexBytes)
	s.maxTime, s.first = TimeEntry{Timestamp: noTimestamp, Offset: s.base}, noTimestamp
	s.size, s.next, s.sinceEntry = 0, s.base, 0
}
