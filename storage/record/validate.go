package record

import (
	"errors"
	"fmt"
)

// Rules are what a topic asks of a batch.
type Rules struct {
	NowMs         int64 // the broker's clock
	LogAppendTime bool  // message.timestamp.type is LogAppendTime: NowMs becomes the batch's timestamp

	// BeforeMaxMs and AfterMaxMs are message.timestamp.before.max.ms and .after.max.ms: how far a record's timestamp may
	// lie before and after NowMs. They do not count with LogAppendTime or for records without a timestamp.
	BeforeMaxMs int64
	AfterMaxMs  int64

	KeyRequired bool // cleanup.policy contains compact: null keys are refused

	// TargetProducer keeps the producer's codec; else the batch is rebuilt in Target unless it has it already. Level is
	// for a rebuild, Kafka's compression.<codec>.level, 0 the default.
	TargetProducer bool
	Target         Codec
	Level          int

	// MaxBytes stops a rebuild that would be larger, with ErrTooLarge; 0 is no limit. The batch as it came is not
	// measured.
	MaxBytes int

	// MaxDecompressed is max.decompressed.message.bytes: a compressed batch whose records take more is ErrTooLarge; 0 is
	// the Reader's limit, which holds in any case, as MaxRebuild does for a batch that is rebuilt.
	MaxDecompressed int64

	// Slots bounds how many batches that need much memory or work, which are rebuilds of more than LargeRebuild bytes of
	// records and zstd with a window above 8 MiB, are at work at a time: each holds a place in it, and Validate blocks
	// until there is one. nil is no bound.
	Slots chan struct{}

	// FromClient adds the checks of a producer's batch: offsets and count agree, no control batch, sequence numbers.
	FromClient bool
}

// Validated is the outcome of a batch that is good.
type Validated struct {
	// Batch is what to store, its base offset and leader epoch still to be stamped: the bytes that came, with timestamp
	// type, maximum timestamp and CRC set where they had to be, or a rebuilt batch. A rebuilt one is the Validator's
	// until its next call.
	Batch   Batch
	Rebuilt bool

	// MaxTimestamp is the largest timestamp of the records, -1 when none has one; with LogAppendTime it is NowMs.
	MaxTimestamp int64

	// MaxTimestampOffsetDelta is the offset delta of the first record that has MaxTimestamp; with LogAppendTime, or when
	// no record has a timestamp, of the last record. Kafka's time index names the batch's last offset instead.
	MaxTimestampOffsetDelta int32

	LogAppendTimeMs int64 // NowMs with LogAppendTime, else -1
}

// Kind is the sort of an InvalidError, which decides the code a client gets.
type Kind int8

const (
	InvalidRecord    Kind = iota // INVALID_RECORD
	InvalidTimestamp             // INVALID_TIMESTAMP
	Undecodable                  // where Kafka's own code fails unprepared and answers UNKNOWN_SERVER_ERROR
)

// InvalidError means that a batch is refused.
type InvalidError struct {
	Kind    Kind
	Reason  string        // for people, complete
	Records []RecordError // the first maxRecordErrors records at fault, by rising index; nil when the batch as a whole is
}

// maxRecordErrors bounds the records that an InvalidError tells of. Differs from Kafka: it tells of all, however many a
// compressed batch has.
const maxRecordErrors = 10_000

// RecordError is what is wrong with one record.
type RecordError struct {
	Index   int32 // place in the batch, from 0
	Message string
}

func (e *InvalidError) Error() string { return e.Reason }

func invalid(kind Kind, format string, args ...any) error {
	return &InvalidError{Kind: kind, Reason: fmt.Sprintf(format, args...)}
}

// Validator checks batches and makes the changes that a topic demands. It keeps scratch space and is for one goroutine
// at a time; the zero value is ready.
type Validator struct {
	reader  Reader
	builder *Builder
}

const (
	// MaxRebuild bounds the decompressed records of a batch that is rebuilt in another codec. Differs from Kafka: it has
	// no bound but the heap, and a batch of 1 MiB can hold a record of 1 GiB.
	MaxRebuild = 128 << 20

	// LargeRebuild is from how many bytes of records on a rebuild needs a place in Rules.Slots.
	LargeRebuild = 4 << 20

	// rebuildShrink is more times than the records of a batch can shrink when they are rebuilt, by deltas of one byte
	// where there were such of five and ten.
	rebuildShrink = 4
)

// Trim lets go of the scratch space that an unusual batch has made large, and of the batch that was rebuilt last. It is
// for a Validator that goes back to a pool.
func (v *Validator) Trim() {
	if v.builder != nil {
		v.builder.trim()
	}
}

// ErrTooLarge means that a batch decompresses to more than Rules.MaxDecompressed, or to more than MaxRebuild when it must
// be rebuilt, or that it would be larger than Rules.MaxBytes then; of Reader.Keys, that a key has more than MaxKey bytes.
var ErrTooLarge = errors.New("batch exceeds the size limit")

// Validate checks the batch, which comes from Cut (so its length and CRC are good), and its records, all of them, and
// makes the changes that the rules demand. The changes that keep the size are made in b itself. The error is an
// *InvalidError, ErrTooLarge, or ErrUnknownCodec for which Kafka has no code but UNKNOWN_SERVER_ERROR.
//
// Kafka: LogValidator. Differs from Kafka: the lengths inside the records of a compressed batch are checked as those
// of an uncompressed one, which Kafka only does when it rebuilds; and an uncompressed batch whose offset deltas have
// gaps is rebuilt as a compressed one is, which Kafka stores as it came.
func (v *Validator) Validate(b Batch, r Rules) (Validated, error) {
	codec := b.Codec()
	if codec > Zstd {
		return Validated{}, fmt.Errorf("%w %d", ErrUnknownCodec, int8(codec))
	}
	if r.FromClient {
		if err := checkClientBatch(b); err != nil {
			return Validated{}, err
		}
	}
	target := codec
	if !r.TargetProducer {
		target = r.Target
	}
	rebuild := target != codec && !b.Control() && b.Count() > 0
	most, mostRecord := r.bounds(rebuild, target)
	if n := v.reader.MaxDecompressed; n == 0 || n > most {
		v.reader.MaxDecompressed = most
		defer func() { v.reader.MaxDecompressed = n }()
	}
	waited := r.Slots == nil
	if !waited && codec == Zstd && zstdWindowSize(b.Body()) > zstdWindow {
		waited = true
		r.Slots <- struct{}{}
		defer func() { <-r.Slots }()
	}
	c := checker{
		now: r.NowMs, before: r.BeforeMaxMs, after: r.AfterMaxMs, keyRequired: r.KeyRequired, appendTime: r.LogAppendTime,
		batchAppendTime: b.LogAppendTime(), batchMax: b.MaxTimestamp(), baseTimestamp: b.BaseTimestamp(),
		maxTimestamp: NoTimestamp,
	}
	if err := v.scan(b, &c, mostRecord); err != nil {
		return Validated{}, asInvalid(err)
	}
	if err := c.verdict(); err != nil {
		return Validated{}, err
	}

	out := Validated{Batch: b, MaxTimestamp: c.maxTimestamp, MaxTimestampOffsetDelta: c.maxIndex, LogAppendTimeMs: -1}
	if r.LogAppendTime {
		out.MaxTimestamp, out.LogAppendTimeMs = r.NowMs, r.NowMs
	}
	if r.LogAppendTime || out.MaxTimestamp == NoTimestamp {
		out.MaxTimestampOffsetDelta = b.LastOffsetDelta()
	}
	if rebuild || c.gaps && !b.Control() && b.Count() > 0 {
		if codec != None && v.reader.total > MaxRebuild {
			return Validated{}, tooLarge("%d bytes of records to be rebuilt, at most %d are", v.reader.total, MaxRebuild)
		}
		if !waited && codec != None && v.reader.total > LargeRebuild {
			r.Slots <- struct{}{}
			defer func() { <-r.Slots }()
		}
		rebuilt, err := v.rebuild(b, &r, target)
		if err != nil {
			return Validated{}, err
		}
		out.Batch, out.Rebuilt = rebuilt, true
		return out, nil
	}
	b.SetMaxTimestamp(out.MaxTimestamp, r.LogAppendTime)
	return out, nil
}

// bounds returns how many bytes of records, and how many of one record, a compressed batch may have.
func (r *Rules) bounds(rebuild bool, target Codec) (most int64, mostRecord int) {
	most = MostDecompressed
	if r.MaxDecompressed > 0 {
		most = min(most, r.MaxDecompressed)
	}
	if !rebuild {
		return most, int(most)
	}
	most = min(most, MaxRebuild)
	if target != None || r.MaxBytes <= 0 {
		return most, int(most)
	}
	return min(most, rebuildShrink*int64(r.MaxBytes)), int(min(most, int64(r.MaxBytes)))
}

func tooLarge(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrTooLarge, fmt.Sprintf(format, args...))
}

// checkClientBatch checks what the header alone tells.
func checkClientBatch(b Batch) error {
	count, last := b.Count(), b.LastOffsetDelta()
	switch {
	case last < 0:
		return invalid(InvalidRecord, "batch has last offset delta %d, want at least 0", last)
	case count <= 0:
		return invalid(InvalidRecord, "batch has record count %d, want at least 1", count)
	case int64(last)+1 != int64(count):
		return invalid(InvalidRecord, "batch has last offset delta %d and record count %d, want one less than the count", last, count)
	case b.Control():
		return invalid(InvalidRecord, "batch has the control attribute, which clients may not write")
	case b.ProducerID() >= 0 && b.BaseSequence() < 0:
		return invalid(InvalidRecord, "batch of producer id %d has base sequence %d", b.ProducerID(), b.BaseSequence())
	}
	return nil
}

// asInvalid turns what a scan found into a refusal.
func asInvalid(err error) error {
	kind := InvalidRecord
	switch e, ok := errors.AsType[*InvalidError](err); {
	case ok:
		return e
	case errors.Is(err, ErrTooLarge):
		return err
	case errors.Is(err, errTooMuch):
		return tooLarge("%v", err)
	case errors.Is(err, errDecompress):
		kind = Undecodable
	}
	return &InvalidError{Kind: kind, Reason: err.Error()}
}

// checker applies the rules to the fields of one record after the other.
type checker struct {
	now, before, after int64 // of the rules, and the next two; copied, so that they stay off the heap
	keyRequired        bool
	appendTime         bool

	batchAppendTime bool // the batch says LogAppendTime
	batchMax        int64
	baseTimestamp   int64

	maxTimestamp int64 // of the records so far
	maxIndex     int32 // of the first record that has it
	gaps         bool  // an offset delta is not the record's index
	errors       []RecordError
	refused      int // records at fault, of which errors has the first
	timeErrors   bool
}

// record checks one record; it is on the hot path.
func (c *checker) record(index int32, timestampDelta int64, offsetDelta int32, hasKey bool) {
	timestamp := c.baseTimestamp + timestampDelta
	if c.batchAppendTime {
		timestamp = c.batchMax
	}
	if timestamp > c.maxTimestamp {
		c.maxTimestamp, c.maxIndex = timestamp, index
	}
	if offsetDelta != index {
		c.gaps = true
	}
	if !hasKey && c.keyRequired {
		c.refuse(index, "record has no key and the topic is compacted")
		return
	}
	if !c.appendTime && timestamp != NoTimestamp {
		age := c.now - timestamp
		if age > c.before || -age > c.after {
			c.outOfRange(index, timestamp)
		}
	} else if c.batchAppendTime {
		c.timeErrors = true
		c.refuse(index, "batch says LogAppendTime, which only a broker may set")
	}
}

func (c *checker) outOfRange(index int32, timestamp int64) {
	c.timeErrors = true
	message := ""
	if c.refused < maxRecordErrors {
		message = fmt.Sprintf("timestamp %d is out of range %d to %d", timestamp, c.now-c.before, c.now+c.after)
	}
	c.refuse(index, message)
}

// refuse notes a record at fault.
func (c *checker) refuse(index int32, message string) {
	if c.refused < maxRecordErrors {
		c.errors = append(c.errors, RecordError{index, message})
	}
	c.refused++
}

// verdict returns the refusal of a batch with records at fault.
func (c *checker) verdict() error {
	if len(c.errors) == 0 {
		return nil
	}
	first := c.errors[0]
	e := &InvalidError{Kind: InvalidRecord, Records: c.errors}
	if c.timeErrors {
		e.Kind = InvalidTimestamp
	}
	e.Reason = fmt.Sprintf("%d records are refused, the first is record %d: %s", c.refused, first.Index, first.Message)
	return e
}

// rebuild writes the records of b, which are known to be good, as a batch in the target codec with offset deltas
// 0, 1, 2 …. Kafka: LogValidator.buildRecordsAndAssignOffsets.
func (v *Validator) rebuild(b Batch, r *Rules, target Codec) (Batch, error) {
	if v.builder == nil {
		v.builder = new(Builder)
	}
	level := r.Level
	if r.TargetProducer {
		level = 0
	}
	v.builder.Reset(BuilderOptions{
		Codec: target, Level: level, BaseOffset: b.BaseOffset(), LeaderEpoch: b.LeaderEpoch(),
		HasProducer: true, ProducerID: b.ProducerID(), ProducerEpoch: b.ProducerEpoch(), BaseSequence: b.BaseSequence(),
		Transactional: b.Transactional(), LogAppendTime: r.LogAppendTime, AppendTimeMs: r.NowMs,
	})
	if err := v.rebuildRecords(b, r.MaxBytes); err != nil {
		return nil, asInvalid(err)
	}
	rebuilt := v.builder.Bytes()
	return rebuilt, sizeOver(len(rebuilt), r.MaxBytes)
}

// sizeOver returns the error of a batch that is rebuilt to more than limit bytes; a limit of 0 is none.
func sizeOver(size, limit int) error {
	if limit > 0 && size > limit {
		return tooLarge("rebuilt to at least %d bytes, at most %d are taken", size, limit)
	}
	return nil
}

// rebuildRecords hands the records of b to the builder. One that is larger than the window goes through it in pieces.
func (v *Validator) rebuildRecords(b Batch, maxBytes int) error {
	rd := &v.reader
	if err := rd.open(b); err != nil {
		return err
	}
	defer rd.close()
	rec := Record{Headers: rd.headers}
	for i := range b.Count() {
		size, err := rd.length(i)
		if err != nil {
			return err
		}
		if rd.source.codec != None && size > len(rd.buf) {
			err = v.rebuildLarge(b, i, size, maxBytes)
		} else {
			err = v.rebuildRecord(b, i, size, &rec)
		}
		if err == nil {
			err = sizeOver(v.builder.size(), maxBytes)
		}
		if err != nil {
			return err
		}
	}
	return rd.finish(b.Count())
}

// rebuildRecord hands on the record of this index, which rec is the scratch space for.
func (v *Validator) rebuildRecord(b Batch, index int32, size int, rec *Record) error {
	body, err := v.reader.body(index, size)
	if err != nil {
		return err
	}
	if err := rec.parse(body); err != nil {
		return atRecord(index, err)
	}
	v.reader.headers = rec.Headers
	if rec.Timestamp, err = rebuiltTimestamp(b, index, rec.TimestampDelta); err != nil {
		return err
	}
	v.builder.Append(*rec)
	return nil
}

// rebuildLarge hands on the record of this index a window at a time. What follows its deltas is the same in any batch.
func (v *Validator) rebuildLarge(b Batch, index int32, size, maxBytes int) error {
	l := largeRecord{r: &v.reader, index: index, size: size, left: size}
	l.skip(1) // attributes
	timestampDelta := l.varint(maxVarintLen64)
	l.varint(maxVarintLen32)
	if l.err != nil {
		return l.err
	}
	timestamp, err := rebuiltTimestamp(b, index, timestampDelta)
	if err != nil {
		return err
	}
	v.builder.beginLarge(timestamp, l.left)
	for l.left > 0 {
		rd := l.r
		n := min(l.left, rd.end-rd.start)
		v.builder.appendPiece(rd.buf[rd.start : rd.start+n])
		rd.start += n
		l.left -= n
		if err := sizeOver(v.builder.size(), maxBytes); err != nil {
			return err
		}
		if l.left > 0 {
			l.fill()
		}
		if l.err != nil {
			return l.err
		}
	}
	return nil
}

// rebuiltTimestamp is the timestamp of a record of b, which a rebuilt batch must be able to hold.
func rebuiltTimestamp(b Batch, index int32, delta int64) (int64, error) {
	timestamp := b.BaseTimestamp() + delta
	if b.LogAppendTime() {
		timestamp = b.MaxTimestamp()
	}
	if timestamp < NoTimestamp {
		return 0, invalid(Undecodable, "record %d has timestamp %d and the batch must be rebuilt", index, timestamp)
	}
	return timestamp, nil
}
