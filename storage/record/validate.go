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

// ErrTooLarge means that the rebuilt batch would be larger than Rules.MaxBytes.
var ErrTooLarge = errors.New("rebuilt batch exceeds the size limit")

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
	c := checker{
		now: r.NowMs, before: r.BeforeMaxMs, after: r.AfterMaxMs, keyRequired: r.KeyRequired, appendTime: r.LogAppendTime,
		batchAppendTime: b.LogAppendTime(), batchMax: b.MaxTimestamp(), baseTimestamp: b.BaseTimestamp(),
		maxTimestamp: NoTimestamp,
	}
	if err := v.scan(b, &c); err != nil {
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
	target := codec
	if !r.TargetProducer {
		target = r.Target
	}
	if (target != codec || c.gaps) && !b.Control() && b.Count() > 0 {
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
	if errors.Is(err, errDecompress) {
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
	for rec, err := range v.reader.Records(b) {
		if err != nil {
			return nil, asInvalid(err)
		}
		if rec.Timestamp < NoTimestamp {
			return nil, invalid(Undecodable, "record %d has timestamp %d and the batch must be rebuilt", v.builder.Count(), rec.Timestamp)
		}
		v.builder.Append(rec)
		if r.MaxBytes > 0 && v.builder.size() > r.MaxBytes {
			return nil, ErrTooLarge
		}
	}
	rebuilt := v.builder.Bytes()
	if r.MaxBytes > 0 && len(rebuilt) > r.MaxBytes {
		return nil, ErrTooLarge
	}
	return rebuilt, nil
}
