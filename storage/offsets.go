package storage

import (
	"errors"
	"io"
	"math"
	"slices"

	"github.com/kaen-log/gateway/storage/record"
)

// epochsNow are the leader epochs of a view, with the present one: it begins at the end of the log as long as nothing
// was appended in it. Kafka: Partition.makeLeader assigns it at once.
func (l *Log) epochsNow(v *view) leaderEpochs {
	if now := l.LeaderEpoch(); now > v.epochs.latest() {
		return append(slices.Clip(v.epochs), EpochEntry{Epoch: now, StartOffset: v.end.next})
	}
	return v.epochs
}

// EndOffsetForEpoch answers which is the largest known leader epoch that is at most the asked one, and where it ends:
// at the start of the next, or for the present one at the high watermark. Below the first known epoch that is the
// asked one and the start of the first; an epoch above the present one, and -1, are (-1, -1).
func (l *Log) EndOffsetForEpoch(epoch int32) (epochOut int32, end int64, err error) {
	v, err := l.visible()
	if err != nil {
		return 0, 0, err
	}
	epochOut, end = l.epochsNow(v).endOffset(epoch, v.end.next)
	return epochOut, end, nil
}

// EarliestEpoch is the leader epoch of the log start, -1 when it is not known.
func (l *Log) EarliestEpoch() (int32, error) {
	v, err := l.visible()
	if err != nil {
		return 0, err
	}
	if first, ok := l.epochsNow(v).earliest(); ok && first.StartOffset <= v.logStart {
		return first.Epoch, nil
	}
	return -1, nil
}

// OffsetForTime finds the first record, at or after the log start and below the isolation's bound, whose timestamp is
// at least ms; false when there is none. Timestamps need not ascend.
func (l *Log) OffsetForTime(ms int64, iso Isolation) (TimedOffset, bool, error) {
	return l.search(offsetSearch{isolation: iso, start: func(v *view, i int) (int64, bool, error) {
		if v.maxTime(i).Timestamp < ms {
			return 0, false, nil
		}
		s := v.segments[i]
		e, err := v.timeIndex(i).lookup(&s.timesFile, ms)
		if err != nil {
			// Without the index the search begins at the segment's start.
			l.warnIndex(s, err)
			return s.base, true, nil
		}
		return e.Offset, true, nil
	}, batch: func(b record.Batch) bool { return b.MaxTimestamp() >= ms }, record: func(r record.Keyed) bool { return r.Timestamp >= ms }})
}

// MaxTimestamp finds the record with the largest timestamp below the isolation's bound, the first if there are several,
// which may be one without a timestamp; false when there is no record. It may lie below the log start as long as its
// segment is there.
// Kafka: UnifiedLog.fetchOffsetByTimestamp.
func (l *Log) MaxTimestamp(iso Isolation) (TimedOffset, bool, error) {
	var largest int64 = noTimestamp
	if v, err := l.visible(); err != nil {
		return TimedOffset{}, false, err
	} else {
		for i := range v.segments[:min(v.last+1, len(v.segments))] {
			largest = max(largest, v.maxTime(i).Timestamp)
		}
	}
	return l.search(offsetSearch{isolation: iso, deleted: true, start: func(v *view, i int) (int64, bool, error) {
		m := v.maxTime(i)
		return m.Offset, m.Timestamp >= largest, nil
	}, batch: func(b record.Batch) bool { return b.MaxTimestamp() >= largest }, record: func(r record.Keyed) bool { return r.Timestamp >= largest }})
}

// offsetSearch says which record is looked for: the first below the isolation's bound for which both filters hold.
type offsetSearch struct {
	isolation Isolation
	deleted   bool // records below the log start count too
	// start names the offset in a segment from where on to look, or says that it is not there.
	start  func(v *view, i int) (offset int64, ok bool, err error)
	batch  func(record.Batch) bool
	record func(record.Keyed) bool
}

// floor is the first offset that counts.
func (o *offsetSearch) floor(v *view) int64 {
	if o.deleted {
		return v.segments[0].base
	}
	return v.logStart
}

// search goes through the visible segments.
func (l *Log) search(o offsetSearch) (TimedOffset, bool, error) {
	reader := record.Reader{MaxDecompressed: math.MaxInt64} // nothing of it is held
	for {
		v, err := l.visible()
		if err != nil {
			return TimedOffset{}, false, err
		}
		found, ok, again, err := l.searchView(v, &reader, &o)
		if !again {
			return found, ok, l.readFailed(err)
		}
	}
}

func (l *Log) searchView(v *view, reader *record.Reader, o *offsetSearch) (t TimedOffset, ok, again bool, err error) {
	if len(v.segments) == 0 {
		return t, false, false, nil
	}
	for i := v.find(o.floor(v)); i <= v.last && i < len(v.segments); i++ {
		s := v.segments[i]
		if !s.acquire() {
			return t, false, true, nil
		}
		from, ok, err := o.start(v, i)
		if err == nil && ok {
			t, ok, err = l.searchSegment(v, i, reader, max(from, o.floor(v)), o)
		}
		s.release()
		if ok || err != nil {
			return t, ok, false, err
		}
	}
	return t, false, false, nil
}

// searchSegment is search within one segment.
func (l *Log) searchSegment(v *view, i int, reader *record.Reader, from int64, o *offsetSearch) (t TimedOffset, ok bool, err error) {
	s, floor, bound := v.segments[i], o.floor(v), v.bound(o.isolation)
	position, next, _, err := l.place(v, i, from, nil)
	if err != nil {
		return t, false, err
	}
	sc := batchScanner{r: &s.log, position: position, end: v.size(i), next: next}
	for {
		b, at, err := sc.scan()
		bad, _ := errors.AsType[*badBatch](err)
		switch {
		case errors.Is(err, io.EOF):
			return t, false, nil
		case bad != nil:
			return t, false, l.corrupt(s, bad.position, bad.reason)
		case err != nil:
			return t, false, err
		case b.BaseOffset() >= bound:
			return t, false, nil
		case !o.batch(b):
			continue
		}
		if b, err = sc.loadAt(at, b); err != nil {
			return t, false, err
		}
		for r, err := range reader.Times(b) {
			if err != nil {
				return t, false, l.corrupt(s, at, err.Error())
			}
			if r.Offset >= floor && o.record(r) {
				return TimedOffset{Offset: r.Offset, Timestamp: r.Timestamp, LeaderEpoch: b.LeaderEpoch()}, true, nil
			}
		}
	}
}

// AbortedTxns returns the aborted transactions that have data in [from, to), by first offset. Kafka:
// UnifiedLog.collectAbortedTransactions.
func (l *Log) AbortedTxns(from, to int64) ([]AbortedTxn, error) {
	v, err := l.visible()
	if err != nil || len(v.segments) == 0 {
		return nil, err
	}
	return v.aborted(v.find(from), from, to, nil), nil
}

// FirstTimestamp is the largest timestamp in the first batch of the segment with the given base offset, -1 when the batch
// has none, or the segment no batch or is gone. Kafka: LogSegment.getFirstBatchTimestamp.
func (l *Log) FirstTimestamp(base int64) (int64, error) {
	for {
		v, err := l.visible()
		if err != nil {
			return noTimestamp, err
		}
		i := v.find(base)
		if i >= len(v.segments) || v.segments[i].base != base || v.size(i) == 0 {
			return noTimestamp, nil
		}
		s := v.segments[i]
		if !s.acquire() {
			continue
		}
		sc := batchScanner{r: &s.log, end: v.size(i), next: base}
		b, _, err := sc.scan()
		timestamp := int64(noTimestamp)
		if err == nil {
			timestamp = b.MaxTimestamp()
		} else if bad, ok := errors.AsType[*badBatch](err); ok {
			err = l.corrupt(s, bad.position, bad.reason)
		}
		s.release()
		return timestamp, l.readFailed(err)
	}
}
