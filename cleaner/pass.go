package cleaner

import (
	"context"
	"fmt"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// PassStats says what a pass of compaction did.
type PassStats struct {
	// The dirty part that the pass covered is [FirstDirty, End); Ceiling is where the cleanable part ends, above End when
	// the offset map was full.
	FirstDirty, End, Ceiling int64
	Keys                     int // that the dirty part has
	Segments                 int // that were gone through
	Replaced                 int // segments that were put in the place of others
	SizeBefore, SizeAfter    int64
	BatchesRead, BatchesKept int64
	BytesRead, BytesKept     int64
	RecordsRead, RecordsKept int64
	TombstonesKept           int64
	TombstonesDropped        int64
	HorizonsStamped          int64
	Keyless                  int64 // records without a key, which were dropped
}

// compactor makes passes over logs, one at a time.
type compactor struct {
	offsets *offsetMap
	// pace is called with the bytes that were read or are about to be written, and may block.
	pace  func(ctx context.Context, bytes int) error
	large func(b record.Batch, size int) bool // as in filter
	// check ends a pass when it returns an error. It is asked as often as pace; nil lets all passes be.
	check func() error

	reader record.Reader
	ahead  lookahead
	buffer []byte
}

// step waits until so many bytes may be read or written.
func (c *compactor) step(ctx context.Context, bytes int) error {
	if err := c.pace(ctx, bytes); err != nil || c.check == nil {
		return err
	}
	return c.check()
}

// readBytes is how much of a log is read at a time.
const readBytes = 1 << 20

// pass cleans a log once. Kafka: Cleaner.doClean.
func (c *compactor) pass(ctx context.Context, l *storage.Log, ch choice, nowMs int64) (PassStats, error) {
	stats := PassStats{FirstDirty: ch.firstDirty, Ceiling: ch.ceiling}
	mapped, err := c.buildMap(ctx, l, ch)
	if err != nil {
		return stats, fmt.Errorf("offset map of [%d, %d): %w", ch.firstDirty, ch.ceiling, err)
	}
	stats.End, stats.Keys = mapped, c.offsets.n
	segments, err := l.Segments()
	if err != nil {
		return stats, err
	}
	cleanable := 0
	for cleanable < len(segments) && segments[cleanable].NextOffset <= ch.ceiling && segments[cleanable].Closed {
		cleanable++
	}
	segments = segments[:cleanable]
	if len(segments) == 0 {
		return stats, nil
	}
	aborted, err := l.AbortedTxns(segments[0].BaseOffset, ch.ceiling)
	if err != nil {
		return stats, err
	}
	config := l.Config()
	f := &filter{
		offsets: c.offsets, mapped: mapped, nowMs: nowMs, retentionMs: config.DeleteRetentionMs,
		transactions: newTransactions(aborted), stats: &stats, large: c.large,
	}
	for _, g := range groups(segments, mapped, config) {
		if err := c.rewrite(ctx, l, g, f); err != nil {
			return stats, err
		}
	}
	l.SetCleanedTo(mapped)
	return stats, nil
}

// rewrite replaces one group of segments.
func (c *compactor) rewrite(ctx context.Context, l *storage.Log, g group, f *filter) error {
	o, err := l.Offsets()
	if err != nil {
		return err
	}
	producers, err := l.ActiveProducers()
	if err != nil {
		return err
	}
	f.highWatermark, f.transactions.logStart = o.HighWatermark, o.LogStart
	f.producers = make(map[int64]storage.ProducerInfo, len(producers))
	for _, p := range producers {
		f.producers[p.ProducerID] = p
	}
	res, err := l.Rewrite(g.base, g.count, func(b record.Batch) (record.Batch, error) {
		if err := c.step(ctx, len(b)); err != nil {
			return nil, err
		}
		kept, err := f.batch(b)
		if err == nil {
			err = c.step(ctx, len(kept))
		}
		return kept, err
	})
	if err != nil {
		return err
	}
	f.stats.Segments += g.count
	f.stats.SizeBefore += res.SizeBefore
	f.stats.SizeAfter += res.SizeAfter
	if res.Replaced {
		f.stats.Replaced++
	}
	return nil
}

// buildMap notes the last offset of each key of the dirty part and returns up to where it got: the ceiling, or before it
// when the map is full. Keys of aborted data do not count. Kafka: Cleaner.buildOffsetMap.
func (c *compactor) buildMap(ctx context.Context, l *storage.Log, ch choice) (mapped int64, err error) {
	c.offsets.reset(0, 0)
	aborted, err := l.AbortedTxns(ch.firstDirty, ch.ceiling)
	if err != nil {
		return 0, err
	}
	txns := newTransactions(aborted)
	defer func() {
		if err == nil {
			err = c.awaitMarkers(ctx, l, mapped, txns)
		}
	}()
	for next := ch.firstDirty; next < ch.ceiling; {
		res, err := l.Read(c.buffer[:0], storage.ReadRequest{Offset: next, MaxBytes: readBytes, MinOneBatch: true, VerifyCRC: true})
		if err != nil {
			return 0, err
		}
		c.buffer = res.Data
		if len(res.Data) == 0 {
			break
		}
		if err := c.step(ctx, len(res.Data)); err != nil {
			return 0, err
		}
		if next == ch.firstDirty {
			c.offsets.reset(ch.ceiling-ch.firstDirty, c.sample(res.Data))
		}
		for rest := res.Data; len(rest) > 0; {
			b := record.Batch(rest)
			b, rest = b[:b.Size()], rest[b.Size():]
			if b.BaseOffset() >= ch.ceiling {
				return ch.ceiling, nil
			}
			end, full, err := c.noteBatch(b, next, txns)
			if full || err != nil {
				return end, err
			}
			next = b.NextOffset()
		}
	}
	return ch.ceiling, nil
}

// sampleRecords is how many records tell what the keys of a log take.
const sampleRecords = 10_000

// sample returns what the keys of the first records of these batches take of longKeys, on average.
func (c *compactor) sample(batches []byte) float64 {
	keys, sum := 0, 0
	for rest := batches; len(rest) > 0 && keys < sampleRecords; {
		b := record.Batch(rest)
		b, rest = b[:b.Size()], rest[b.Size():]
		if b.Control() {
			continue
		}
		for r, err := range c.reader.Keys(b) {
			if err != nil {
				break // noteBatch meets it again
			}
			if r.Key != nil {
				keys++
				sum += longKeyBytes(r.Key)
			}
		}
	}
	return float64(sum) / float64(max(keys, 1))
}

// noteBatch takes the keys of a batch into the map, from the offset `from` on. When the map is full, end is the offset
// up to which it knows the log.
func (c *compactor) noteBatch(b record.Batch, from int64, txns *transactions) (end int64, full bool, err error) {
	if b.Control() {
		_, err := txns.control(b)
		return 0, false, err
	}
	if txns.data(b) {
		return 0, false, nil
	}
	end = from
	for r, err := range c.ahead.records(c.offsets, c.reader.Keys(b)) {
		if err != nil {
			return 0, false, fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		if r.noKey || r.offset < from {
			continue
		}
		if !c.offsets.put(r.wanted, r.offset) {
			return end, true, nil
		}
		end = r.offset + 1
	}
	return b.NextOffset(), false, nil
}
