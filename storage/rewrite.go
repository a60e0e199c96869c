package storage

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// ErrNotRewritable means that segments cannot be rewritten now: they are not all there any more, not closed and on disk
// yet, the directory is still another broker's, or there is no room for the new segment.
var ErrNotRewritable = errors.New("segments cannot be rewritten")

// RewriteResult says what a Rewrite did.
type RewriteResult struct {
	// Replaced is false when every batch was kept as it is and there was nothing to merge: then no file changed.
	Replaced bool
	// SizeBefore and SizeAfter are bytes of .log files.
	SizeBefore, SizeAfter int64
}

// Rewrite puts one segment in the place of the count segments from the one with the given base offset on, which keeps
// that base. keep is called for each batch in order, with no lock held, and returns what becomes of it: the same slice to
// leave it as it is, another batch with the same first and last offset, or nil to drop it. Its argument is valid until it
// returns. An error of keep ends the rewrite, and everything is as it was.
//
// Appends and reads go on meanwhile; a reader that is in an old segment finishes there. The new segment is on disk before
// it is seen, and after a crash at any moment the log has either the old segments or the new one. The extra disk space is
// the size of the new segment: the old ones are removed when it counts, and the last reader has let go of them.
//
// ErrNotRewritable means that the segments are not to be rewritten now. Damage that is met takes the log offline. One
// rewrite is made at a time; others wait. Kafka: Cleaner.cleanSegments. Differs from Kafka: it looks at no CRC, leaves a log
// with damage in service, and takes the whole directory offline when the disk fails or is full.
func (l *Log) Rewrite(base int64, count int, keep func(record.Batch) (record.Batch, error)) (RewriteResult, error) {
	if _, err := l.visible(); err != nil {
		return RewriteResult{}, err
	}
	l.rewriting.Lock()
	defer l.rewriting.Unlock()
	w, err := l.beginRewrite(base, count)
	if err != nil {
		return RewriteResult{}, err
	}
	defer w.letGo()
	res := RewriteResult{}
	for _, s := range w.sources {
		res.SizeBefore += s.size
	}
	err = w.rewrite(keep)
	if err == nil && w.segment == nil {
		res.SizeAfter = res.SizeBefore
		return res, nil
	}
	if err == nil {
		err = w.replace()
	}
	if err != nil {
		left := w.abandon()
		if _, ours := errors.AsType[*keepError](err); !ours && vfs.IsNoSpace(err) {
			err = w.failed(fmt.Errorf("%w: %w", ErrNotRewritable, err)) // until there is room
		}
		switch {
		case left != nil && errors.Is(err, ErrNotRewritable):
			return res, w.failed(fmt.Errorf("%v; its files cannot be removed: %w", err, left)) // it is not for later
		case errors.Is(err, ErrNotRewritable):
			return res, err
		}
		return res, w.failed(err)
	}
	res.Replaced, res.SizeAfter = true, w.segment.size
	return res, nil
}

// rewrite is a rewrite under way.
type rewrite struct {
	l       *Log
	sources []*segment // each is held
	next    int64      // offset after the last of them
	end     int64      // offset after the last batch that was kept

	segment *segment // the new one; nil while everything is as in the only source
	open    bool     // its .log file is in use
	buf     []byte   // of it, not written yet
	written int64    // position of buf
	swapped bool     // it counts, whatever happens
}

// beginRewrite finds the segments and holds them.
func (l *Log) beginRewrite(base int64, count int) (*rewrite, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.mayRewrite(); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(l.segments, func(s *segment) bool { return s.base == base })
	if i < 0 || count < 1 || i+count >= len(l.segments) {
		return nil, fmt.Errorf("%w: %d from offset %d on, the log has %d and the last is open", ErrNotRewritable, count, base, len(l.segments))
	}
	w := &rewrite{l: l, sources: slices.Clone(l.segments[i : i+count]), next: l.segments[i+count].base}
	if point := l.commit.recoveryPoint; w.next > point {
		return nil, fmt.Errorf("%w: they end at offset %d, and are on disk up to %d", ErrNotRewritable, w.next, point)
	}
	if slices.Contains(w.sources, l.view.Load().end.segment) {
		// If nothing behind it gets to the disk, the log is cut back into it and goes on there.
		return nil, fmt.Errorf("%w: the high watermark is still in the segment that ends at offset %d", ErrNotRewritable, w.next)
	}
	for _, s := range w.sources {
		s.acquire()
	}
	return w, nil
}

// mayRewrite says whether files of the log may be replaced. mu is held.
func (l *Log) mayRewrite() error {
	switch {
	case l.deleted.Load():
		return ErrLogDeleted
	case l.closed:
		return ErrClosed
	case Status(l.status.Load()) == StatusOffline:
		return l.offline.Load()
	case l.takeover != nil:
		return fmt.Errorf("%w: nothing was appended yet to the directory that another broker wrote", ErrNotRewritable)
	case l.unsettled:
		return errors.New("files of an earlier rewrite could not be renamed or removed; the next start does")
	}
	return nil
}

// letGo ends the hold of the sources, and of the new segment once that counts.
func (w *rewrite) letGo() {
	for _, s := range w.sources {
		s.release()
	}
	if w.swapped {
		w.segment.release()
	}
}

// failed turns an error into what the caller gets.
func (w *rewrite) failed(err error) error {
	c, ok := errors.AsType[*CorruptError](err)
	if _, ours := errors.AsType[*keepError](err); ok && !ours {
		return w.l.goOffline(c)
	}
	return fmt.Errorf("rewrite %s from offset %d on: %w", w.l.name(), w.sources[0].base, err)
}

// keepError is an error of the caller's own.
type keepError struct{ error }

func (e *keepError) Unwrap() error { return e.error }

// rewrite goes through the batches and writes those that stay. A single source is copied only from the first batch on
// that does not stay as it is.
func (w *rewrite) rewrite(keep func(record.Batch) (record.Batch, error)) error {
	if len(w.sources) > 1 {
		if err := w.create(); err != nil {
			return err
		}
	}
	for i, s := range w.sources {
		sc := batchScanner{r: &s.log, end: s.size, next: s.base, limit: w.limit(i), whole: true}
		for {
			b, position, err := sc.scan()
			if errors.Is(err, io.EOF) {
				break
			}
			if bad, ok := errors.AsType[*badBatch](err); ok {
				return w.l.corrupt(s, bad.position, bad.reason)
			}
			if err != nil {
				return err
			}
			if w.l.stopping() {
				return fmt.Errorf("%w: the log is being closed or deleted", ErrNotRewritable)
			}
			kept, err := keep(b)
			if err != nil {
				return &keepError{fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)}
			}
			if len(kept) == 0 && w.l.origin.wholeEnds && b.NextOffset() == w.next {
				kept = w.endOf(b)
			}
			same := len(kept) == len(b) && &kept[0] == &b[0]
			if w.segment == nil {
				if same {
					continue
				}
				if err := w.create(); err != nil {
					return err
				}
				if err := w.copyHead(s, position); err != nil {
					return err
				}
			}
			if len(kept) == 0 {
				continue
			}
			if kept.BaseOffset() != b.BaseOffset() || kept.LastOffset() != b.LastOffset() || kept.Size() != len(kept) {
				panic(fmt.Sprintf("storage: batch of offsets %d to %d rewritten as %d to %d, %d bytes in %d",
					b.BaseOffset(), b.LastOffset(), kept.BaseOffset(), kept.LastOffset(), kept.Size(), len(kept)))
			}
			if err := w.add(s, kept); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit returns the base offset of the segment after the i-th source: what reaches beyond it is not that source's, and in the
// new segment it would stand out of order.
func (w *rewrite) limit(i int) int64 {
	if i+1 < len(w.sources) {
		return w.sources[i+1].base
	}
	return w.next
}

// endOf returns what stays of the last batch of all.
func (w *rewrite) endOf(b record.Batch) record.Batch {
	if b.Count() == 0 {
		return b
	}
	return record.AppendEmpty(nil, b)
}

// stopping reports whether whoever is at work on the log's files should end.
func (l *Log) stopping() bool { return l.deleted.Load() || l.stopped.Load() }

// awaitRewrite returns when no rewrite is under way; one that was told to stop ends at its next batch.
func (l *Log) awaitRewrite() {
	l.rewriting.Lock()
	defer l.rewriting.Unlock()
}

// create makes the files of the new segment; they are open until it is complete.
func (w *rewrite) create() error {
	l, first := w.l, w.sources[0]
	w.segment = l.newSegment(first.base, l.config.Load().SegmentIndexBytes, cleanedSuffix)
	w.segment.createdMs = first.createdMs
	_, err := w.segment.log.create()
	w.open = err == nil
	return err
}

// close ends the use of the new .log file.
func (w *rewrite) close() {
	if w.open {
		w.open = false
		w.segment.log.release()
	}
}

// copyHead copies the batches of a source that lie before position as they are.
func (w *rewrite) copyHead(s *segment, position int64) error {
	sc := batchScanner{r: &s.log, end: position, next: s.base, whole: true}
	for {
		b, _, err := sc.scan()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if bad, ok := errors.AsType[*badBatch](err); ok {
			return w.l.corrupt(s, bad.position, bad.reason)
		}
		if err == nil {
			err = w.add(s, b)
		}
		if err != nil {
			return err
		}
	}
}

// rewriteBuffer is how much of a new segment is written at a time.
const rewriteBuffer = 512 << 10

// add appends a batch of source to the new segment, and what the transaction index says of it. A marker that was emptied
// ends no transaction: were one named that it ended, all that the producer commits later would pass for aborted.
func (w *rewrite) add(source *segment, b record.Batch) error {
	s := w.segment
	if s.size+int64(len(b)) > math.MaxInt32 {
		return fmt.Errorf("batch of %d bytes at position %d: an index cannot say where it ends", len(b), s.size)
	}
	s.noteBatch(b.LastOffset(), b.MaxTimestamp(), s.size, int64(len(b)), w.l.config.Load().IndexIntervalBytes)
	if b.Control() && b.Count() > 0 {
		for _, a := range source.txns.markers(b.BaseOffset(), b.LastOffset()) {
			s.txns.append(a)
		}
	}
	w.end = b.NextOffset()
	w.buf = append(w.buf, b...)
	if len(w.buf) < rewriteBuffer {
		return nil
	}
	return w.writeOut()
}

// writeOut writes the buffered bytes, where that leaves room for deletion.
func (w *rewrite) writeOut() error {
	if len(w.buf) == 0 {
		return nil
	}
	if err := w.l.ctx.space.take(int64(len(w.buf))); err != nil {
		return err
	}
	n, err := w.segment.log.handle.WriteAt(w.buf, w.written)
	if err != nil {
		return err
	}
	w.written += int64(n)
	w.buf = w.buf[:0]
	return nil
}

// complete brings the new segment to disk under its first names.
func (w *rewrite) complete() error {
	s, last := w.segment, w.sources[len(w.sources)-1]
	if err := w.writeOut(); err != nil {
		return err
	}
	s.next, s.modifiedMs = w.next, last.modifiedMs
	s.finish()
	if err := s.log.handle.Sync(); err != nil {
		return err
	}
	w.close()
	if _, err := s.writeIndexes(); err != nil {
		return err
	}
	if err := s.syncIndexes(s.hasTxnsFile()); err != nil {
		return err
	}
	// Retention goes by it where records have no timestamps.
	return w.l.ctx.fs.SetModTime(segmentFile(w.l.dir, s.base, logSuffix+cleanedSuffix), time.UnixMilli(s.modifiedMs))
}
