package record

import (
	"encoding/binary"
	"fmt"
)

// BuilderOptions say what the header of a built batch holds. The zero value builds uncompressed records from offset 0
// without a producer id, at leader epoch 0.
type BuilderOptions struct {
	Codec Codec
	Level int // compression level as in Kafka's topic configs; 0 is the codec's default

	BaseOffset  int64
	LeaderEpoch int32 // NoLeaderEpoch as a client sends it

	// HasProducer says that the three fields below it count; without it they are written as -1.
	HasProducer   bool
	ProducerID    int64
	ProducerEpoch int16
	BaseSequence  int32 // NoSequence in control batches

	Transactional bool
	Control       bool

	// LogAppendTime makes AppendTimeMs the timestamp of every record; the records' own stay as deltas.
	LogAppendTime bool
	AppendTimeMs  int64

	DeleteHorizonMs int64 // above 0 it becomes the base timestamp, with the attribute bit that says so
}

// flushSize is how many bytes of records gather before they are handed to the compressor.
const flushSize = 64 << 10

// Builder writes one batch. It is reusable by Reset and is for one goroutine at a time. One that has compressed keeps
// the compressor's tables (zstd about 10 MiB), so it is worth keeping where batches are compressed often and worth
// dropping elsewhere. Breaking its rules, such as offsets that do not rise, is a bug and panics.
type Builder struct {
	options       BuilderOptions
	out           []byte // header, and what is ready of the body
	raw           []byte // records that wait for the compressor
	uncompressed  int    // bytes of records so far
	count         int32
	baseTimestamp int64
	maxTimestamp  int64
	lastOffset    int64 // of the last record, or as SetLastOffset said
	fixedLast     bool
	done          bool
	compressor    compressor
}

// NewBuilder returns a Builder for one batch with these options.
func NewBuilder(o BuilderOptions) *Builder {
	b := &Builder{}
	b.Reset(o)
	return b
}

// Reset begins another batch. The bytes of the batch before are overwritten.
func (b *Builder) Reset(o BuilderOptions) {
	if o.ProducerID > 0 && !o.HasProducer {
		panic("record: BuilderOptions.ProducerID is set and HasProducer is not")
	}
	if o.Codec < None || o.Codec > Zstd {
		panic(fmt.Sprintf("record: build with %v", o.Codec))
	}
	b.options = o
	b.out = append(b.out[:0], make([]byte, HeaderSize)...)
	b.raw = b.raw[:0]
	b.uncompressed, b.count = 0, 0
	b.baseTimestamp, b.maxTimestamp = NoTimestamp, NoTimestamp
	b.lastOffset, b.fixedLast, b.done = o.BaseOffset-1, false, false
	if o.Codec != None {
		b.out = b.compressor.begin(o.Codec, o.Level, b.out)
	}
}

// Append adds a record at the offset after the one before. Of r it takes Timestamp, Key, Value and Headers, or the headers
// that Reader.Stored left as they were, which it copies.
func (b *Builder) Append(r Record) { b.AppendAt(b.lastOffset+1, r) }

// AppendAt is Append at a given offset, which must be above that of the record before: what compaction leaves.
func (b *Builder) AppendAt(offset int64, r Record) {
	timestampDelta, offsetDelta := b.note(offset, r.Timestamp)
	b.added(appendRecord(*b.target(), &r, timestampDelta, offsetDelta))
}

// beginLarge adds, at the offset after the one before, a record of which the caller brings the rest by appendPiece: rest
// bytes, which are the key, the value and the headers as they are stored. So a large record is never held twice.
func (b *Builder) beginLarge(timestamp int64, rest int) {
	timestampDelta, offsetDelta := b.note(b.lastOffset+1, timestamp)
	var deltas [maxVarintLen64 + maxVarintLen32]byte
	p := AppendVarint(AppendVarint(deltas[:0], timestampDelta), int64(offsetDelta))
	out := AppendVarint(*b.target(), int64(1+len(p)+rest))
	b.added(append(append(out, 0), p...)) // after the length the attributes
}

// appendPiece adds the next bytes of a record that beginLarge began.
func (b *Builder) appendPiece(p []byte) { b.added(append(*b.target(), p...)) }

// note takes a record at offset into the header's fields and returns the deltas that it is stored with.
func (b *Builder) note(offset, timestamp int64) (timestampDelta int64, offsetDelta int32) {
	if b.done || b.fixedLast {
		panic("record: append to a batch that is finished")
	}
	delta := offset - b.options.BaseOffset
	if offset <= b.lastOffset || delta > maxOffsetDelta {
		panic(fmt.Sprintf("record: offset %d after %d in a batch from %d", offset, b.lastOffset, b.options.BaseOffset))
	}
	if b.count == 0 {
		b.baseTimestamp = timestamp
		if b.options.DeleteHorizonMs > 0 {
			b.baseTimestamp = b.options.DeleteHorizonMs
		}
	}
	b.maxTimestamp = max(b.maxTimestamp, timestamp)
	b.lastOffset = offset
	b.count++
	return timestamp - b.baseTimestamp, int32(delta)
}

// target is where the bytes of records go.
func (b *Builder) target() *[]byte {
	if b.options.Codec == None {
		return &b.out
	}
	return &b.raw
}

// added takes back what target pointed to, with bytes of records added.
func (b *Builder) added(to []byte) {
	target := b.target()
	b.uncompressed += len(to) - len(*target)
	*target = to
	if b.options.Codec != None && len(b.raw) >= flushSize {
		b.out = b.compressor.write(b.out, b.raw)
		b.raw = b.raw[:0]
	}
}

// SetLastOffset makes the batch end at offset, at or after its last record, as compaction does that has removed the
// records at its end. No record may follow.
func (b *Builder) SetLastOffset(offset int64) {
	if offset < b.lastOffset || offset-b.options.BaseOffset > maxOffsetDelta {
		panic(fmt.Sprintf("record: last offset %d with a record at %d", offset, b.lastOffset))
	}
	b.lastOffset, b.fixedLast = offset, true
}

// trim lets go of buffers that an unusual batch has made large. The batch is gone with them.
func (b *Builder) trim() {
	if cap(b.out) > keepWindow {
		b.out = nil
	}
	if cap(b.raw) > keepWindow {
		b.raw = nil
	}
	if cap(b.compressor.pending) > keepWindow {
		b.compressor.pending = nil
	}
}

// Count is the number of records so far.
func (b *Builder) Count() int { return int(b.count) }

// UncompressedSize is the size of the batch so far if it were not compressed, header included.
func (b *Builder) UncompressedSize() int { return HeaderSize + b.uncompressed }

// size is what the output holds so far; with a compressor more may be on its way.
func (b *Builder) size() int { return len(b.out) }

// Bytes finishes the batch and returns it. The bytes are the builder's until Reset. It panics when there is neither a
// record nor a SetLastOffset.
func (b *Builder) Bytes() Batch {
	if b.done {
		return b.out
	}
	o := &b.options
	if b.lastOffset < o.BaseOffset {
		panic("record: build a batch without records")
	}
	if o.Codec != None {
		b.out = b.compressor.finish(b.out, b.raw)
	}
	b.done = true

	attributes := uint16(o.Codec)
	if o.LogAppendTime {
		attributes |= logAppendTimeBit
		b.maxTimestamp = o.AppendTimeMs
	}
	if o.Transactional {
		attributes |= transactionalBit
	}
	if o.Control {
		attributes |= controlBit
	}
	if o.DeleteHorizonMs > 0 {
		attributes |= deleteHorizonBit
	}
	producerID, producerEpoch, sequence := NoProducerID, NoProducerEpoch, NoSequence
	if o.HasProducer {
		producerID, producerEpoch, sequence = o.ProducerID, o.ProducerEpoch, o.BaseSequence
	}
	putHeader(b.out, header{
		baseOffset: o.BaseOffset, leaderEpoch: o.LeaderEpoch, attributes: attributes,
		lastOffsetDelta: int32(b.lastOffset - o.BaseOffset), baseTimestamp: b.baseTimestamp, maxTimestamp: b.maxTimestamp,
		producerID: producerID, producerEpoch: producerEpoch, baseSequence: sequence, count: b.count,
	})
	return b.out
}

// AppendEmpty appends to dst what compaction keeps of a batch when all its records go: a header with the same offsets,
// producer, sequences and maximum timestamp, count 0 and no compression. It keeps the producer's state alive.
// Kafka: DefaultRecordBatch.writeEmptyHeader.
func AppendEmpty(dst []byte, b Batch) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, HeaderSize)...)
	putHeader(dst[start:], header{
		baseOffset: b.BaseOffset(), leaderEpoch: b.LeaderEpoch(),
		attributes:      uint16(b.Attributes()) & (logAppendTimeBit | transactionalBit | controlBit),
		lastOffsetDelta: b.LastOffsetDelta(), baseTimestamp: NoTimestamp, maxTimestamp: b.MaxTimestamp(),
		producerID: b.ProducerID(), producerEpoch: b.ProducerEpoch(), baseSequence: b.BaseSequence(),
	})
	return dst
}

// header holds the fields of a batch header that do not follow from the bytes.
type header struct {
	baseOffset      int64
	leaderEpoch     int32
	attributes      uint16
	lastOffsetDelta int32
	baseTimestamp   int64
	maxTimestamp    int64
	producerID      int64
	producerEpoch   int16
	baseSequence    int32
	count           int32
}

// putHeader writes the header of the batch that b is in whole, its length and CRC included.
func putHeader(b []byte, h header) {
	if len(b) > maxBatchSize {
		panic(fmt.Sprintf("record: build a batch of %d bytes", len(b)))
	}
	be := binary.BigEndian
	be.PutUint64(b[BaseOffsetPos:], uint64(h.baseOffset))
	be.PutUint32(b[LengthPos:], uint32(len(b)-LogOverhead))
	be.PutUint32(b[LeaderEpochPos:], uint32(h.leaderEpoch))
	b[MagicPos] = Magic
	be.PutUint16(b[AttributesPos:], h.attributes)
	be.PutUint32(b[LastOffsetDeltaPos:], uint32(h.lastOffsetDelta))
	be.PutUint64(b[BaseTimestampPos:], uint64(h.baseTimestamp))
	be.PutUint64(b[MaxTimestampPos:], uint64(h.maxTimestamp))
	be.PutUint64(b[ProducerIDPos:], uint64(h.producerID))
	be.PutUint16(b[ProducerEpochPos:], uint16(h.producerEpoch))
	be.PutUint32(b[BaseSequencePos:], uint32(h.baseSequence))
	be.PutUint32(b[CountPos:], uint32(h.count))
	Batch(b).setCRC()
}
