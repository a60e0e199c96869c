package storage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/kaen-log/gateway/storage/record"
)

// Append adds one record batch at the end of the log. It stamps the batch's base offset and leader epoch in place, and
// what else the topic's config demands; the caller keeps the slice. The batch is written, not yet durable and not yet
// visible, when Append returns: WaitDurable waits for that.
//
// The checks are made in this order: ErrNotOneBatch, ErrBaseOffset, ErrBatchTooLarge, ErrCorruptBatch, the record
// package's errors of validation, ErrBatchTooLarge for a rebuilt batch, ErrSegmentTooSmall, then the producer's state: a
// duplicate is answered with its original, else ErrInvalidProducerEpoch, ErrInvalidTxnState when the batch would begin a
// transaction without the log's present Verification, ErrOutOfOrderSequence, or ErrInvalidTxnState for a batch outside
// the producer's transaction. ErrStorage means that the disk failed.
func (l *Log) Append(batches []byte, o AppendOptions) (Appended, error) {
	if Status(l.status.Load()) != StatusOnline {
		if err := l.recover(); err != nil {
			l.refused(batches)
			return Appended{}, err
		}
	}
	b, err := oneBatch(batches)
	if err != nil {
		return Appended{}, err
	}
	c := l.config.Load()
	if err := checkBatch(b, o, c); err != nil {
		return Appended{}, err
	}
	validator := l.ctx.validator()
	defer l.ctx.putValidator(validator)

	// Validation is most of the work and needs nothing of the log, so appenders do it side by side; it may also wait
	// for others that are at large batches.
	most := int64(c.MaxDecompressedBytes)
	if o.Origin == OriginClient && IsInternalTopic(l.topic) {
		most = min(most, MaxInternalBytes)
	}
	v, err := validateBatch(validator, b, o, c, most, l.nowMs(), l.ctx.largeBatches)
	if err != nil {
		return Appended{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	nowMs := l.nowMs()
	if v.LogAppendTimeMs >= 0 && v.LogAppendTimeMs != nowMs {
		// The broker's own timestamps must come in the order of the offsets.
		v.MaxTimestamp, v.LogAppendTimeMs = nowMs, nowMs
		v.Batch.SetMaxTimestamp(nowMs, true)
	}
	a, err := l.append(v, o, c, nowMs)
	if b := v.Batch; err != nil && errors.Is(err, ErrStorage) && b.ProducerID() >= 0 {
		l.producers.refuse(b.ProducerID(), refusedOf(b))
	}
	return a, err
}

// refused notes a batch for a log that the disk kept from being recovered.
func (l *Log) refused(batches []byte) {
	size, err := record.PeekSize(batches)
	if err != nil || size > len(batches) {
		return
	}
	if b := record.Batch(batches[:size]); b.ProducerID() >= 0 {
		l.refusedFirst(b.ProducerID(), refusedOf(b))
	}
}

// refusedFirst is refused for what the state keeps of the batch.
func (l *Log) refusedFirst(producerID int64, r refusedBatch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := Status(l.status.Load()); s != StatusOffline && s != StatusDeleted {
		l.producers.refuse(producerID, r)
	}
}

// oneBatch returns the batch that batches consists of. Like Kafka it overlooks bytes after it that are too few to be
// a batch. Kafka: ProduceRequest.validateRecords.
func oneBatch(batches []byte) (record.Batch, error) {
	size, err := record.PeekSize(batches)
	switch {
	case errors.Is(err, record.ErrShort) || err == nil && size > len(batches):
		return nil, fmt.Errorf("%w: %d bytes hold none", ErrNotOneBatch, len(batches))
	case errors.Is(err, record.ErrMagic):
		if m := int8(batches[record.MagicPos]); m == 0 || m == 1 {
			return nil, fmt.Errorf("%w: %w", ErrNotOneBatch, err)
		}
		return nil, fmt.Errorf("%w: %w", ErrCorruptBatch, err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrCorruptBatch, err)
	}
	b := record.Batch(batches[:size:size])
	if rest := batches[size:]; len(rest) >= record.LogOverhead {
		switch n, err := record.PeekSize(rest); {
		case errors.Is(err, record.ErrShort) || err == nil && n > len(rest):
		case err == nil:
			return nil, fmt.Errorf("%w: a second batch follows at byte %d", ErrNotOneBatch, size)
		default:
			return nil, fmt.Errorf("%w: at byte %d: %w", ErrCorruptBatch, size, err)
		}
	}
	return b, nil
}

// checkBatch makes the checks that come before those of the records. Kafka: UnifiedLog.analyzeAndValidateRecords.
func checkBatch(b record.Batch, o AppendOptions, c *TopicConfig) error {
	if o.Origin == OriginClient && b.BaseOffset() != 0 {
		return fmt.Errorf("%w: %d", ErrBaseOffset, b.BaseOffset())
	}
	if len(b) > int(c.MaxMessageBytes) {
		return fmt.Errorf("%w: %d bytes, max.message.bytes is %d", ErrBatchTooLarge, len(b), c.MaxMessageBytes)
	}
	if err := b.VerifyCRC(); err != nil {
		return fmt.Errorf("%w: %w", ErrCorruptBatch, err)
	}
	return nil
}

// MaxInternalBytes bounds what a compressed batch of a client for one of the broker's own topics decompresses to, in bytes:
// its coordinator takes each record into memory at a start. Kafka has no such limit.
const MaxInternalBytes = 16 << 20

// validateBatch checks the records, which decompress to so many bytes at most, and makes the changes that the config demands.
func validateBatch(validator *record.Validator, b record.Batch, o AppendOptions, c *TopicConfig, most, nowMs int64, slots chan struct{}) (record.Validated, error) {
	if o.Origin == OriginCoordinator && b.Control() {
		v := record.Validated{Batch: b, MaxTimestamp: b.MaxTimestamp(), LogAppendTimeMs: -1}
		if c.LogAppendTime {
			v.MaxTimestamp, v.LogAppendTimeMs = nowMs, nowMs
			b.SetMaxTimestamp(nowMs, true)
		}
		return v, nil
	}
	rules := record.Rules{
		NowMs: nowMs, LogAppendTime: c.LogAppendTime,
		BeforeMaxMs: c.TimestampBeforeMaxMs, AfterMaxMs: c.TimestampAfterMaxMs,
		KeyRequired: c.Compact, FromClient: o.Origin == OriginClient, MaxBytes: int(c.MaxMessageBytes),
		MaxDecompressed: most, Slots: slots,
	}
	switch c.CompressionType {
	case "producer", "":
		rules.TargetProducer = true
	default:
		target, err := record.ParseCodec(c.CompressionType)
		if err != nil {
			return record.Validated{}, err
		}
		rules.Target = target
		switch target {
		case record.Gzip:
			rules.Level = c.GzipLevel
		case record.LZ4:
			rules.Level = c.LZ4Level
		case record.Zstd:
			rules.Level = c.ZstdLevel
		}
	}
	v, err := validator.Validate(b, rules)
	switch {
	case errors.Is(err, record.ErrTooLarge):
		return v, fmt.Errorf("%w: %w", ErrBatchTooLarge, err)
	case err == nil && v.Rebuilt && len(v.Batch) > int(c.MaxMessageBytes):
		return v, fmt.Errorf("%w: %d bytes after recompression, max.message.bytes is %d", ErrBatchTooLarge, len(v.Batch), c.MaxMessageBytes)
	}
	return v, err
}

// append is the part of Append under mu: place, producer state, write.
func (l *Log) append(v record.Validated, o AppendOptions, c *TopicConfig, nowMs int64) (Appended, error) {
	b := v.Batch
	if err := l.mayAppend(); err != nil {
		return Appended{}, err
	}
	size := int64(len(b))
	if size > int64(c.SegmentBytes) {
		return Appended{}, fmt.Errorf("%w: %d bytes, segment.bytes is %d", ErrSegmentTooSmall, size, c.SegmentBytes)
	}
	base := l.end.Load()
	last := base + int64(b.LastOffsetDelta())
	if s := l.active; s == nil || s.shouldRoll(c, size, v.MaxTimestamp, last, nowMs) {
		if err := l.roll(c, nowMs); err != nil {
			return Appended{}, l.appendFailed("roll", err)
		}
	}
	marker, isMarker, markerTime, err := l.checkProducer(b, o)
	if dup, ok := errors.AsType[*duplicateError](err); ok {
		m, next := dup.original, dup.original.lastOffset+1
		if l.ctx.answerDuplicatesEarly {
			next = 0
		}
		return Appended{
			BaseOffset: m.firstOffset(), NextOffset: next, LogAppendTimeMs: m.timestamp,
			LogStartOffset: l.logStart, Duplicate: true, cuts: l.cuts.Load(),
		}, nil
	}
	if err != nil {
		return Appended{}, err
	}
	if err := l.takeSpace(growth(l.active.size, size)); err != nil {
		return Appended{}, err
	}
	b.SetBaseOffset(base)
	b.SetLeaderEpoch(l.LeaderEpoch())
	if err := l.write(b); err != nil {
		return Appended{}, l.appendFailed("append to", err)
	}
	s := l.active
	s.noteBatch(last, b.MaxTimestamp(), s.size, size, c.IndexIntervalBytes)
	s.modifiedMs = nowMs
	l.noteEpoch(b.LeaderEpoch(), base)
	if isMarker {
		if done, ok := l.producers.endTxn(b, marker, markerTime); ok && done.Aborted {
			s.txns.append(done.AbortedTxn)
		}
	} else if !b.Control() {
		l.producers.update(b)
	}
	l.end.Store(last + 1)
	l.ctx.counts.appended(size, last+1-base)
	if l.origin.durability == Async {
		l.works()
		l.publish(l.here())
	}
	l.schedule()
	return Appended{
		BaseOffset: base, NextOffset: last + 1, LogAppendTimeMs: v.LogAppendTimeMs, LogStartOffset: l.logStart, cuts: l.cuts.Load(),
	}, nil
}

// mayAppend makes sure that the log may be written.
func (l *Log) mayAppend() error {
	switch Status(l.status.Load()) {
	case StatusOffline:
		return l.offline.Load()
	case StatusDeleted:
		return ErrLogDeleted
	}
	if l.deleted.Load() {
		return ErrLogDeleted
	}
	if l.closed {
		return ErrClosed
	}
	if l.repair != nil {
		if err := l.mend(); err != nil {
			return l.storageError("cut", err)
		}
	}
	if !l.made.Load() {
		if err := l.makeDirectory(); err != nil {
			return l.storageError("make the directory of", err)
		}
	}
	if l.takeover != nil {
		if err := l.takeOver(); err != nil {
			return l.storageError("take over", err)
		}
	}
	return nil
}

// takeSpace makes sure that the volume has room for what an append is about to write, and for deletion after it. The metadata
// log may use all there is.
func (l *Log) takeSpace(size int64) error {
	if l.id == metadataTopicID {
		return nil
	}
	err := l.ctx.space.take(size)
	if err == nil {
		return nil
	}
	err = l.storageError("append to", err)
	l.ctx.counts.failedWrites.Add(1)
	if !l.failing {
		l.failing = true
		l.logger().Error("append was refused", "err", err)
	}
	return err
}

// duplicateError carries the original of a batch that was sent again.
type duplicateError struct{ original batchMeta }

func (*duplicateError) Error() string { return "duplicate batch" }

// checkProducer checks a batch against the producer's state. For an end-transaction marker it returns what it says.
func (l *Log) checkProducer(b record.Batch, o AppendOptions) (m record.Marker, isMarker bool, timestamp int64, err error) {
	if b.ProducerID() < 0 {
		return m, false, 0, nil
	}
	if b.Control() {
		m, isMarker, timestamp, err = readMarker(b)
		if err == nil && isMarker {
			var version int16
			if o.TransactionV2 {
				version = 2
			}
			err = l.producers.checkMarker(b, m, version)
		}
		return m, isMarker, timestamp, err
	}
	original, isDuplicate, err := l.producers.check(b, o)
	if isDuplicate {
		err = &duplicateError{original}
	}
	return m, false, 0, err
}

// readMarker reads the end-transaction marker of a control batch; ok is false for control batches of other kinds and
// for those that compaction emptied.
func readMarker(b record.Batch) (m record.Marker, ok bool, timestamp int64, err error) {
	var r record.Reader
	for rec, err := range r.Records(b) {
		if err != nil {
			return m, false, 0, err
		}
		m, ok, err = record.ParseEndTxnMarker(rec)
		return m, ok, rec.Timestamp, err
	}
	return m, false, 0, nil
}

// write puts the batch at the end of the active segment. Until the next sync the file stays open.
func (l *Log) write(b record.Batch) error {
	s := l.active
	h, err := s.log.acquire()
	if err != nil {
		return err
	}
	if !s.dirty {
		// This use of the file ends when the segment has been synced.
		s.dirty = true
		l.commit.dirty = append(l.commit.dirty, s)
	} else {
		defer s.log.release()
	}
	_, err = h.WriteAt(b, s.size)
	return err
}

// noteEpoch takes the leader epoch of a batch at offset into the cache.
func (l *Log) noteEpoch(epoch int32, offset int64) {
	if epochs, changed := l.epochs.assign(epoch, offset); changed {
		l.setEpochs(epochs)
	}
}

// setEpochs replaces the leader epoch cache; the next sync that moves the recovery point brings it to disk.
func (l *Log) setEpochs(epochs leaderEpochs) {
	l.epochs = epochs
	l.commit.epochs = true
	l.epoch.Store(epochs.latest())
}

// roll closes the active segment, if there is one, and begins the next at the log's end. The old segment's files and
// the producer snapshot are synced by the next commit, which also makes the new names durable; only the name of a log's
// first segment is made durable at once.
func (l *Log) roll(c *TopicConfig, nowMs int64) error {
	base := l.end.Load()
	if old := l.active; old != nil {
		old.finish()
		if _, err := old.writeIndexes(); err != nil {
			return err
		}
		// Readers see copies of the indexes until the new segment is published.
		old.offsets.forget()
		old.times.forget()
		err := l.ctx.files.withRoom(func() error {
			return writeProducerSnapshot(l.ctx.fs, l.dir, base, l.producers.snapshot(), false)
		})
		if err != nil {
			return err
		}
	}
	s := l.newSegment(base, c.SegmentIndexBytes, "")
	s.createdMs, s.modifiedMs = nowMs, nowMs
	if m := min(c.SegmentJitterMs, c.MaxSegmentMs()); m > 0 {
		s.jitterMs = rand.Int64N(m)
	}
	if _, err := s.log.create(); err != nil {
		return err
	}
	s.log.release()
	if old := l.active; old != nil {
		l.commit.rolled = append(l.commit.rolled, rolledSegment{segment: old, next: base})
		l.commit.names = true
	} else if err := l.ctx.files.syncDir(l.dir); err != nil {
		// The first segment must not be missing when a crash leaves the second: the log would seem to begin there.
		return errors.Join(err, s.log.retire(), l.ctx.fs.Remove(segmentFile(l.dir, base, logSuffix)))
	}
	l.segments = append(slices.Clip(l.segments), s)
	l.active = s
	return nil
}

// appendFailed cuts the log back after a write or a roll that failed and returns the caller's error.
func (l *Log) appendFailed(doing string, cause error) error {
	l.ctx.counts.failedWrites.Add(1)
	err := l.storageError(doing, cause)
	l.cut(err)
	return err
}

func (l *Log) storageError(doing string, cause error) error {
	return &storageError{topic: l.topic, partition: l.index, doing: doing, cause: cause}
}
