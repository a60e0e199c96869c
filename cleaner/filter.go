package cleaner

import (
	"fmt"
	"math"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// filter decides what stays of each batch of the part of a log that is cleaned. What it keeps has its offset, timestamp,
// headers and order; of a batch, what says who sent it and which sequences and offsets it spans.
//
//	a record                 stays when it is the last of its key that the map knows, or lies beyond the map
//	a record without a key   goes
//	a tombstone              stays as long as its batch has no delete horizon, or one that is not reached
//	data of an aborted       goes
//	transaction
//	a marker                 stays as long as a batch of its transaction is left, and then until a delete horizon
//	the last batch of a      stays, without records if need be: its sequences and epoch are needed
//	live producer
//	the last batch before    stays likewise: it says where the log ends
//	the high watermark
//
// A batch that keeps tombstones, or a marker that has nothing left to mark, and has no delete horizon gets one: now plus
// delete.retention.ms. Batches that stay whole stay byte for byte. Kafka: Cleaner.cleanInto, MemoryRecords.filterTo.
//
// Differs from Kafka: a batch whose records decompress to more than record.MaxRebuild and eight times what it takes stays
// whole as long as one of them is not replaced in the pass at hand, without a delete horizon. Kafka would need the memory for
// them. As long as such a batch of several records stays, no tombstone behind it gets a delete horizon, nor goes: it may be
// what deletes one of them.
type filter struct {
	offsets       *offsetMap
	mapped        int64 // the map knows the offsets below it
	nowMs         int64
	retentionMs   int64 // delete.retention.ms
	highWatermark int64
	producers     map[int64]storage.ProducerInfo
	transactions  *transactions
	stats         *PassStats
	// large says whether a batch whose records take size bytes is not to be made anew: unpacksToMuch, but for tests.
	large func(b record.Batch, size int) bool

	reader  record.Reader
	ahead   lookahead
	builder record.Builder
	empty   []byte
	keep    []bool // by record of the batch at hand
	size    int    // bytes of its records, decompressed
	stuck   bool   // an earlier batch stays that cannot be made anew, and may hold records that are deleted
}

// batch returns what stays of b, as Log.Rewrite wants it.
func (f *filter) batch(b record.Batch) (record.Batch, error) {
	f.stats.BatchesRead++
	f.stats.BytesRead += int64(len(b))
	kept, err := f.decide(b)
	if err != nil {
		return nil, err
	}
	if kept != nil {
		f.stats.BatchesKept++
		f.stats.BytesKept += int64(len(kept))
		f.stats.RecordsKept += int64(kept.Count())
	}
	f.stats.RecordsRead += int64(b.Count())
	return kept, nil
}

func (f *filter) decide(b record.Batch) (record.Batch, error) {
	var over bool // nothing is left of the transaction that the batch ends
	var err error
	horizon, hasHorizon := deleteHorizon(b)
	discard := false
	if b.Control() {
		if over, err = f.transactions.control(b); err != nil {
			return nil, err
		}
		discard = over && hasHorizon && horizon <= f.nowMs
	} else {
		discard = f.transactions.data(b)
	}
	needed := f.lastOfProducer(b) || b.NextOffset() == f.highWatermark
	if discard && !needed {
		return nil, nil
	}
	stay, tombstones, err := f.mark(b, discard, hasHorizon && horizon <= f.nowMs)
	if err != nil {
		return nil, err
	}
	large := f.large(b, f.size)
	stamp := (tombstones > 0 && !f.stuck || over) && !hasHorizon
	f.stuck = f.stuck || large && stay > 0 && b.Count() > 1
	switch {
	case stay == 0 && needed:
		if b.Count() == 0 {
			return b, nil
		}
		f.empty = record.AppendEmpty(f.empty[:0], b)
		return f.empty, nil
	case stay == 0:
		return nil, nil
	case stay == int(b.Count()) && !stamp:
		return b, nil
	case large:
		return b, nil
	case stamp:
		horizon = f.nowMs + min(f.retentionMs, math.MaxInt64-f.nowMs) // as good as never
		f.stats.HorizonsStamped++
	}
	return f.rebuild(b, horizon)
}

// unpacksToMuch reports whether a batch would need much memory to be made anew: size is what its records take.
func unpacksToMuch(b record.Batch, size int) bool {
	return b.Codec() != record.None && size > max(record.MaxRebuild, 8*len(b))
}

// deleteHorizon returns the delete horizon of a batch. Kafka: DefaultRecordBatch.deleteHorizonMs.
func deleteHorizon(b record.Batch) (int64, bool) {
	if !b.HasDeleteHorizon() {
		return 0, false
	}
	return b.BaseTimestamp(), true
}

// lastOfProducer reports whether b holds the last that is known of a live producer: its last data, or, when there is none
// of its epoch, its last marker.
func (f *filter) lastOfProducer(b record.Batch) bool {
	if b.ProducerID() < 0 {
		return false
	}
	p, ok := f.producers[b.ProducerID()]
	switch {
	case !ok:
		return false
	case p.LastOffset >= 0:
		return b.LastOffset() == p.LastOffset
	}
	return b.Control() && b.ProducerEpoch() == p.Epoch
}

// mark notes which records of a batch stay, and counts them and the tombstones among them. reached says that the delete
// horizon is reached.
func (f *filter) mark(b record.Batch, discard, reached bool) (stay, tombstones int, err error) {
	reached = reached && !f.stuck
	f.keep, f.size = f.keep[:0], 0
	for r, err := range f.ahead.records(f.offsets, f.reader.Keys(b)) {
		if err != nil {
			return 0, 0, fmt.Errorf("records: %w", err)
		}
		keep := !discard && (b.Control() || f.record(r, reached))
		f.keep = append(f.keep, keep)
		f.size += r.size
		tombstone := r.noValue && !b.Control()
		if keep {
			stay++
			if tombstone {
				tombstones++
			}
		} else if tombstone && reached {
			f.stats.TombstonesDropped++
		}
	}
	f.stats.TombstonesKept += int64(tombstones)
	return stay, tombstones, nil
}

// record says whether a record of data stays.
func (f *filter) record(r *keyed, reached bool) bool {
	if r.offset >= f.mapped {
		return true
	}
	if r.noKey {
		f.stats.Keyless++
		return false
	}
	if last, ok := f.offsets.get(r.wanted); ok && r.offset < last {
		return false
	}
	return !r.noValue || !reached
}

// rebuild makes the batch anew with the records that stay. A horizon of 0 is none.
func (f *filter) rebuild(b record.Batch, horizonMs int64) (record.Batch, error) {
	f.builder.Reset(record.BuilderOptions{
		Codec: b.Codec(), BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(),
		HasProducer: b.ProducerID() >= 0, ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Transactional: b.Transactional(), Control: b.Control(),
		LogAppendTime: b.LogAppendTime(), AppendTimeMs: b.MaxTimestamp(),
		DeleteHorizonMs: horizonMs,
	})
	i := 0
	for r, err := range f.reader.Stored(b) {
		if err != nil {
			return nil, fmt.Errorf("records: %w", err)
		}
		if f.keep[i] {
			f.builder.AppendAt(r.Offset, r)
		}
		i++
	}
	f.builder.SetLastOffset(b.LastOffset())
	return f.builder.Bytes(), nil
}
