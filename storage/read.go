package storage

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/kaen-log/gateway/storage/record"
)

// mark is a place in a log between two batches: where it ends, or where its durable part ends.
type mark struct {
	segment *segment  // nil for a log without segments
	next    int64     // offset
	size    int64     // position in the segment
	maxTime TimeEntry // of the segment up to here
}

// view is what readers see of a log: an immutable snapshot. A reader loads it once and takes no lock; a segment that
// goes meanwhile is kept by the reader's reference.
type view struct {
	segments []*segment // by base offset
	logStart int64
	lso      int64
	end      mark // end.next is the high watermark
	last     int  // index of end.segment
	// Copies of the indexes of end.segment, which the appender goes on with. They may reach past end.
	offsets offsetIndex
	times   timeIndex
	txns    txnIndex
	epochs  leaderEpochs
}

// bound is the offset that a reader may not reach.
func (v *view) bound(iso Isolation) int64 {
	if iso == ReadCommitted {
		return v.lso
	}
	return v.end.next
}

// find returns the index of the segment that holds offset, or the one after a gap; len(segments) when there are none.
func (v *view) find(offset int64) int {
	i := sort.Search(len(v.segments), func(i int) bool { return v.segments[i].base > offset })
	return max(i-1, 0)
}

// size is the number of visible bytes of a segment.
func (v *view) size(i int) int64 {
	switch {
	case i < v.last:
		return v.segments[i].size
	case i == v.last:
		return v.end.size
	}
	return 0
}

func (v *view) offsetIndex(i int) *offsetIndex {
	if i == v.last {
		return &v.offsets
	}
	return &v.segments[i].offsets
}

func (v *view) timeIndex(i int) *timeIndex {
	if i == v.last {
		return &v.times
	}
	return &v.segments[i].times
}

func (v *view) txnIndex(i int) *txnIndex {
	if i == v.last {
		return &v.txns
	}
	return &v.segments[i].txns
}

// maxTime is the largest timestamp among the visible batches of a segment.
func (v *view) maxTime(i int) TimeEntry {
	if i == v.last {
		return v.end.maxTime
	}
	return v.segments[i].maxTime
}

// checkHeader checks what a batch's header alone can tell: h is at least its 61 bytes, left what the file holds from
// it on, and minOffset the offset after the batch before. The reason says what is wrong, "" that nothing is.
func checkHeader(h []byte, minOffset, left int64) (size int64, reason string) {
	n, err := record.PeekSize(h)
	if err != nil {
		return 0, err.Error()
	}
	b := record.Batch(h)
	switch delta := b.LastOffsetDelta(); {
	case int64(n) > left:
		return 0, fmt.Sprintf("batch of %d bytes with %d bytes left", n, left)
	case b.BaseOffset() < minOffset:
		return 0, fmt.Sprintf("base offset %d, want at least %d", b.BaseOffset(), minOffset)
	case delta < 0 || b.Count() < 0 || int64(b.Count()) > int64(delta)+1:
		return 0, fmt.Sprintf("%d records with a last offset delta of %d", b.Count(), delta)
	case b.BaseOffset() >= math.MaxInt64-int64(delta):
		return 0, fmt.Sprintf("base offset %d with a last offset delta of %d leaves no offset after it", b.BaseOffset(), delta)
	}
	return int64(n), ""
}

// headerWindow is how much is read at a time to find a batch near an index entry.
const headerWindow = 4 << 10

// place finds the first visible batch of segment i that ends after offset. When the segment has none, position is
// the end of the visible part. next is the end of the batch before, as far as it is known: a lower bound of the
// offset there. The spare room of scratch is written to. The segment must be acquired.
func (l *Log) place(v *view, i int, offset int64, scratch []byte) (position, next int64, buf []byte, err error) {
	s, size := v.segments[i], v.size(i)
	if h := l.hint(s, offset); h != nil && h.position <= size {
		return h.position, s.base, scratch, nil
	}
	if i == v.last && offset >= v.end.next {
		return size, offset, scratch, nil
	}
	if size == 0 {
		return 0, s.base, scratch, nil // Kafka's cleaner leaves such
	}
	e, err := v.offsetIndex(i).lookup(&s.indexFile, offset)
	if err == nil && e.Position < size {
		position, next, buf, err = l.walk(s, e.Position, s.base, size, offset, scratch)
		if _, damaged := errors.AsType[*CorruptError](err); !damaged || e.Position == 0 {
			return position, next, buf, err
		}
		scratch = buf
	} else if err != nil && !isIndexDamage(err) && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, scratch, err
	}
	if err == nil {
		err = fmt.Errorf("entry of offset %d at position %d, the segment ends at %d", e.Offset, e.Position, size)
	}
	// The index is wrong, not necessarily the log: a walk over all headers tells.
	l.warnIndex(s, err)
	return l.walk(s, 0, s.base, size, offset, scratch)
}

// warnIndex logs, once for a segment, that an index was of no use.
func (l *Log) warnIndex(s *segment, err error) {
	if s.indexWarned.CompareAndSwap(false, true) {
		l.logger().Warn("index is wrong; reading without it", "segment", s.base, "err", err)
	}
}

// walk goes from batch to batch, from the one at position, to the first that ends after offset. A *CorruptError says
// that there is no batch where one should be, or that the first one lies after offset although others come before.
func (l *Log) walk(s *segment, position, next, size, offset int64, scratch []byte) (int64, int64, []byte, error) {
	scratch = slices.Grow(scratch, headerWindow)
	w := scratch[len(scratch) : len(scratch)+headerWindow]
	first := position
	var have []byte // of the file, from position on
	for position < size {
		if len(have) < record.HeaderSize {
			n, err := s.log.ReadAt(w[:min(headerWindow, size-position)], position)
			if n < record.HeaderSize {
				if err == nil || errors.Is(err, io.EOF) {
					err = l.corrupt(s, position, fmt.Sprintf("%d bytes of a batch before the end at position %d", n, size))
				}
				return 0, 0, scratch, err
			}
			have = w[:n]
		}
		n, reason := checkHeader(have, next, size-position)
		b := record.Batch(have)
		if reason == "" && position == first && position > 0 && b.BaseOffset() > offset {
			reason = fmt.Sprintf("base offset %d where the index has %d", b.BaseOffset(), offset)
		}
		if reason != "" {
			return 0, 0, scratch, l.corrupt(s, position, reason)
		}
		if b.LastOffset() >= offset {
			return position, next, scratch, nil
		}
		next = b.NextOffset()
		position += n
		have = have[min(n, int64(len(have))):]
	}
	return position, next, scratch, nil
}

func (l *Log) corrupt(s *segment, position int64, reason string) *CorruptError {
	return &CorruptError{File: segmentFile(l.dir, s.base, logSuffix), Position: position, Reason: reason}
}

// readScratch are buffers for looking at headers.
var readScratch = sync.Pool{New: func() any { return new([]byte) }}

// hint remembers where an offset is: where a reader stopped, which is where it goes on.
type hint struct {
	segment  *segment
	offset   int64
	position int64
}

// hints are a few of them, by offset.
type hints [8]atomic.Pointer[hint]

func (l *Log) hint(s *segment, offset int64) *hint {
	if h := l.hints[uint64(offset)%uint64(len(l.hints))].Load(); h != nil && h.segment == s && h.offset == offset {
		return h
	}
	return nil
}

func (l *Log) remember(s *segment, offset, position int64) {
	slot := &l.hints[uint64(offset)%uint64(len(l.hints))]
	if h := slot.Load(); h != nil && h.segment == s && h.offset == offset && h.position == position {
		return
	}
	slot.Store(&hint{segment: s, offset: offset, position: position})
}

// Read appends whole batches to dst, beginning with the one that holds the offset or, when it fell into a gap, the
// next one. It stops at the bound of the isolation, at MaxBytes and at the end of a segment, and returns nothing when
// the offset is at or beyond the bound. ErrOffsetOutOfRange means an offset below the log start or above the log
// end; damage that it meets takes the log offline. No lock is held over I/O.
func (l *Log) Read(dst []byte, r ReadRequest) (ReadResult, error) {
	for {
		v, err := l.visible()
		if err != nil {
			return ReadResult{}, err
		}
		res, again, err := l.readView(v, dst, r)
		if !again {
			return res, l.readFailed(err)
		}
	}
}

// readView is Read on one view; again means that a segment of it has gone meanwhile.
func (l *Log) readView(v *view, dst []byte, r ReadRequest) (res ReadResult, again bool, err error) {
	res = ReadResult{Data: dst, HighWatermark: v.end.next, LastStableOffset: v.lso, LogStartOffset: v.logStart}
	if r.Offset < v.logStart || r.Offset > max(l.end.Load(), v.end.next) {
		return res, false, fmt.Errorf("%w: %d, log is offsets %d to %d", ErrOffsetOutOfRange, r.Offset, v.logStart, l.end.Load())
	}
	bound := v.bound(r.Isolation)
	if r.Isolation == ReadCommitted {
		res.Aborted = []AbortedTxn{}
	}
	if r.Offset >= bound {
		return res, false, nil
	}
	for i := v.find(r.Offset); i <= v.last && i < len(v.segments); i++ {
		s := v.segments[i]
		if !s.acquire() {
			return res, true, nil
		}
		var next int64
		var none bool
		res.Data, next, none, err = l.readSegment(v, i, dst, r, bound)
		s.release()
		if err != nil {
			return res, false, err
		}
		if none {
			continue // all of it lies before the offset
		}
		if r.Isolation == ReadCommitted && len(res.Data) > len(dst) {
			res.Aborted = v.aborted(i, r.Offset, next, res.Aborted)
		}
		return res, false, nil
	}
	return res, false, nil
}

// readSegment reads from one segment. none means that it has nothing at or after the offset; next is the offset
// after what was read.
func (l *Log) readSegment(v *view, i int, dst []byte, r ReadRequest, bound int64) (data []byte, next int64, none bool, err error) {
	s, size := v.segments[i], v.size(i)
	position, next, dst, err := l.place(v, i, r.Offset, dst)
	if err != nil || position >= size {
		return dst, 0, true, err
	}
	h, err := s.log.acquire()
	if err != nil {
		return dst, 0, false, err
	}
	defer s.log.release()
	left := size - position
	want := min(max(int64(r.MaxBytes), record.HeaderSize), left)
	var first int64
	for {
		dst = slices.Grow(dst, int(want))
		b := dst[len(dst) : int64(len(dst))+want]
		if n, err := h.ReadAt(b, position); int64(n) < want {
			if err == nil || errors.Is(err, io.EOF) {
				err = l.corrupt(s, position+int64(n), fmt.Sprintf("file ends, %d bytes are missing", size-position-int64(n)))
			}
			return dst, 0, false, err
		}
		var taken int64
		taken, next, first, err = l.takeBatches(s, b, position, next, left, bound)
		if err == nil && r.VerifyCRC {
			err = l.verifyBatches(s, b[:taken], position)
		}
		if err != nil {
			return dst, 0, false, err
		}
		if taken > 0 && (taken <= int64(r.MaxBytes) || r.MinOneBatch) {
			l.remember(s, next, position+taken)
			return dst[:int64(len(dst))+taken], next, false, nil
		}
		if taken > 0 || !r.MinOneBatch || first == 0 {
			return dst, next, false, nil
		}
		want = first // the first batch is larger than the limit
	}
}

// takeBatches returns how many bytes of b, which was read at position, are whole batches below bound, and the offset
// after them. first is the size of the first batch when b does not hold it whole, 0 when it lies beyond the bound.
func (l *Log) takeBatches(s *segment, b []byte, position, next, left, bound int64) (taken, end, first int64, err error) {
	for len(b)-int(taken) >= record.HeaderSize {
		n, reason := checkHeader(b[taken:], next, left-taken)
		if reason != "" {
			return 0, 0, 0, l.corrupt(s, position+taken, reason)
		}
		batch := record.Batch(b[taken:])
		if batch.BaseOffset() >= bound {
			break
		}
		if taken+n > int64(len(b)) {
			if taken == 0 {
				first = n
			}
			break
		}
		next = batch.NextOffset()
		taken += n
	}
	return taken, next, first, nil
}

// verifyBatches checks the checksums of whole batches that were read at position.
func (l *Log) verifyBatches(s *segment, b []byte, position int64) error {
	for len(b) > 0 {
		size := record.Batch(b).Size()
		if err := record.Batch(b[:size]).VerifyCRC(); err != nil {
			return l.corrupt(s, position, err.Error())
		}
		b, position = b[size:], position+int64(size)
	}
	return nil
}

// aborted appends the aborted transactions that overlap [from, to), by first offset. The first segment that can have
// their markers is i.
//
// Differs from Kafka: a reader is told of no transaction that begins behind what it gets; Kafka finds in its sparse index
// about where that ends (UnifiedLog.addAbortedTransactions, LogSegment.fetchUpperBoundOffset).
func (v *view) aborted(i int, from, to int64, dst []AbortedTxn) []AbortedTxn {
	for more := true; more && i <= v.last; i++ {
		dst, more = v.txnIndex(i).collect(dst, from, to)
	}
	sortAborted(dst)
	return dst
}

// readFailed turns the error of a read into what the caller gets. Damage takes the log offline.
func (l *Log) readFailed(err error) error {
	switch {
	case err == nil || errors.Is(err, ErrOffsetOutOfRange):
		return err
	case l.deleted.Load():
		return ErrLogDeleted
	}
	if c, ok := errors.AsType[*CorruptError](err); ok {
		return l.goOffline(c)
	}
	return &storageError{topic: l.topic, partition: l.index, doing: "read", cause: err}
}

// Readable returns about how many bytes a Read from offset would find, at most limit: for deciding whether a Fetch
// that waits has enough. It is exact for offsets near the end of the log and limit for offsets in earlier segments.
func (l *Log) Readable(offset int64, iso Isolation, limit int) (int, error) {
	for {
		v, err := l.visible()
		if err != nil {
			return 0, err
		}
		if offset < v.logStart || offset > max(l.end.Load(), v.end.next) {
			return 0, fmt.Errorf("%w: %d, log is offsets %d to %d", ErrOffsetOutOfRange, offset, v.logStart, l.end.Load())
		}
		bound := v.bound(iso)
		if offset >= bound || len(v.segments) == 0 {
			return 0, nil
		}
		i := v.find(offset)
		s := v.segments[i]
		if i != v.find(bound-1) {
			return limit, nil
		}
		if !s.acquire() {
			continue
		}
		n, err := l.between(v, i, offset, bound)
		s.release()
		return int(min(n, int64(limit))), l.readFailed(err)
	}
}

// between returns the bytes of the batches of segment i from the one that holds offset to bound.
func (l *Log) between(v *view, i int, offset, bound int64) (int64, error) {
	scratch := readScratch.Get().(*[]byte)
	defer readScratch.Put(scratch)
	from, _, b, err := l.place(v, i, offset, (*scratch)[:0])
	*scratch = b[:0]
	if err != nil {
		return 0, err
	}
	to := v.size(i)
	if i != v.last || bound != v.end.next {
		to, _, b, err = l.place(v, i, bound, (*scratch)[:0])
		*scratch = b[:0]
	}
	if err == nil {
		l.remember(v.segments[i], offset, from)
	}
	return to - from, err
}
