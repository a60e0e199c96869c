package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
)

// Sizes and positions in a batch of magic 2; the package comment draws them.
const (
	HeaderSize  = 61 // bytes before the first record
	LogOverhead = 12 // base_offset and length, which the length does not count
	Magic       = 2  // the only format that is read and written

	BaseOffsetPos      = 0
	LengthPos          = 8
	LeaderEpochPos     = 12
	MagicPos           = 16
	CRCPos             = 17
	AttributesPos      = 21 // the CRC covers from here to the end
	LastOffsetDeltaPos = 23
	BaseTimestampPos   = 27
	MaxTimestampPos    = 35
	ProducerIDPos      = 43
	ProducerEpochPos   = 51
	BaseSequencePos    = 53
	CountPos           = 57

	peekSize = MagicPos + 1 // what PeekSize needs

	// maxBatchSize bounds what a length field may claim: as in Java, a batch's size is an int32.
	maxBatchSize = math.MaxInt32
)

// Bits of the attributes.
const (
	codecMask        = 0x07
	logAppendTimeBit = 0x08
	transactionalBit = 0x10
	controlBit       = 0x20
	deleteHorizonBit = 0x40
	knownAttributes  = 0x7f
	NoTimestamp      = int64(-1) // a record or batch without a timestamp
	NoProducerID     = int64(-1) // a batch of a producer that is not idempotent
	NoProducerEpoch  = int16(-1)
	NoSequence       = int32(-1)
	NoLeaderEpoch    = int32(-1) // what clients send
	maxSequence      = math.MaxInt32
	maxOffsetDelta   = math.MaxInt32
)

// ErrShort means that more bytes are needed before anything can be said: the bytes at hand end inside the batch.
var ErrShort = errors.New("bytes end inside the batch")

// ErrMagic means a batch of another format than magic 2. Errors that wrap it name the magic.
var ErrMagic = errors.New("unsupported batch format: magic")

// CorruptError means bytes that are no batch of records: a length that cannot be, a checksum that does not match,
// records that do not parse.
type CorruptError struct {
	Reason string // what was found, got and want
	Err    error  // the decompressor's error, else nil
}

func (e *CorruptError) Error() string {
	if e.Err != nil {
		return "corrupt batch: " + e.Reason + ": " + e.Err.Error()
	}
	return "corrupt batch: " + e.Reason
}

// Unwrap returns the decompressor's error, or nil.
func (e *CorruptError) Unwrap() error { return e.Err }

func corrupt(format string, args ...any) error {
	return &CorruptError{Reason: fmt.Sprintf(format, args...)}
}

// Batch is a view over the bytes of exactly one record batch. It comes from Cut or a Builder, which guarantee the
// header and the length; on other bytes the accessors panic. No accessor decodes records.
type Batch []byte

// BaseOffset is the offset of the first record that the batch was written with.
func (b Batch) BaseOffset() int64 { return int64(binary.BigEndian.Uint64(b[BaseOffsetPos:])) }

// Size is what the batch takes on disk and on the wire, in bytes: its length field and LogOverhead.
func (b Batch) Size() int { return int(int32(binary.BigEndian.Uint32(b[LengthPos:]))) + LogOverhead }

// LeaderEpoch is the epoch of the leader that appended the batch, -1 as a client sends it.
func (b Batch) LeaderEpoch() int32 { return int32(binary.BigEndian.Uint32(b[LeaderEpochPos:])) }

// Magic is the format version, always 2 in a batch from Cut.
func (b Batch) Magic() int8 { return int8(b[MagicPos]) }

// CRC is the stored CRC-32C of the bytes from the attributes on.
func (b Batch) CRC() uint32 { return binary.BigEndian.Uint32(b[CRCPos:]) }

// Attributes are the raw bits; bits 7 to 15 have no meaning.
func (b Batch) Attributes() int16 { return int16(binary.BigEndian.Uint16(b[AttributesPos:])) }

// Codec is the compression of the records; above Zstd it is unknown.
func (b Batch) Codec() Codec { return Codec(b[AttributesPos+1] & codecMask) }

// LogAppendTime reports whether MaxTimestamp, set by the broker, is the timestamp of every record.
func (b Batch) LogAppendTime() bool { return b[AttributesPos+1]&logAppendTimeBit != 0 }

// Transactional reports whether the records belong to a transaction of ProducerID.
func (b Batch) Transactional() bool { return b[AttributesPos+1]&transactionalBit != 0 }

// Control reports whether the records are for the log, not for consumers: end-transaction markers.
func (b Batch) Control() bool { return b[AttributesPos+1]&controlBit != 0 }

// HasDeleteHorizon reports whether BaseTimestamp is the time after which tombstones and markers in the batch may go.
func (b Batch) HasDeleteHorizon() bool { return b[AttributesPos+1]&deleteHorizonBit != 0 }

// LastOffsetDelta is LastOffset less BaseOffset; compaction keeps it when it removes the last record.
func (b Batch) LastOffsetDelta() int32 { return int32(binary.BigEndian.Uint32(b[LastOffsetDeltaPos:])) }

// BaseTimestamp is what the records' timestamp deltas count from, in milliseconds.
func (b Batch) BaseTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[BaseTimestampPos:])) }

// MaxTimestamp is the largest timestamp of the records in milliseconds, or with LogAppendTime that of each of them.
func (b Batch) MaxTimestamp() int64 { return int64(binary.BigEndian.Uint64(b[MaxTimestampPos:])) }

// ProducerID is -1 when the producer is not idempotent.
func (b Batch) ProducerID() int64 { return int64(binary.BigEndian.Uint64(b[ProducerIDPos:])) }

// ProducerEpoch is -1 when the producer is not idempotent.
func (b Batch) ProducerEpoch() int16 { return int16(binary.BigEndian.Uint16(b[ProducerEpochPos:])) }

// BaseSequence is the producer's number of the first record, -1 for none.
func (b Batch) BaseSequence() int32 { return int32(binary.BigEndian.Uint32(b[BaseSequencePos:])) }

// LastSequence is the producer's number of the last record: BaseSequence and LastOffsetDelta, which continues at 0
// after 2147483647. It is -1 when there is no BaseSequence.
func (b Batch) LastSequence() int32 {
	if b.BaseSequence() == NoSequence {
		return NoSequence
	}
	return AddSequence(b.BaseSequence(), b.LastOffsetDelta())
}

// AddSequence returns the sequence number that is n after seq; 0 comes after 2147483647.
func AddSequence(seq, n int32) int32 {
	if seq > maxSequence-n {
		return n - (maxSequence - seq) - 1
	}
	return seq + n
}

// Count is the number of records. It is 0 in a batch that compaction has emptied and kept.
func (b Batch) Count() int32 { return int32(binary.BigEndian.Uint32(b[CountPos:])) }

// LastOffset is the offset of the last record that the batch was written with.
func (b Batch) LastOffset() int64 { return b.BaseOffset() + int64(b.LastOffsetDelta()) }

// NextOffset is the offset after LastOffset.
func (b Batch) NextOffset() int64 { return b.LastOffset() + 1 }

// Body is what follows the header: the records, compressed as Codec says.
func (b Batch) Body() []byte { return b[HeaderSize:] }

// SetBaseOffset stamps the offset of the first record in place. The CRC does not cover it.
func (b Batch) SetBaseOffset(offset int64) {
	binary.BigEndian.PutUint64(b[BaseOffsetPos:], uint64(offset))
}

// SetLeaderEpoch stamps the leader epoch in place. The CRC does not cover it.
func (b Batch) SetLeaderEpoch(epoch int32) {
	binary.BigEndian.PutUint32(b[LeaderEpochPos:], uint32(epoch))
}

// SetMaxTimestamp sets the maximum timestamp and what kind of timestamps the batch has. When that changes anything the
// CRC is computed anew and the meaningless attribute bits are cleared. Kafka: DefaultRecordBatch.setMaxTimestamp.
func (b Batch) SetMaxTimestamp(ms int64, logAppendTime bool) {
	if b.LogAppendTime() == logAppendTime && b.MaxTimestamp() == ms {
		return
	}
	attributes := uint16(b.Attributes()) & knownAttributes &^ logAppendTimeBit
	if logAppendTime {
		attributes |= logAppendTimeBit
	}
	binary.BigEndian.PutUint16(b[AttributesPos:], attributes)
	binary.BigEndian.PutUint64(b[MaxTimestampPos:], uint64(ms))
	b.setCRC()
}

func (b Batch) setCRC() {
	binary.BigEndian.PutUint32(b[CRCPos:], CRC32C(b[AttributesPos:]))
}

// VerifyCRC computes the CRC-32C of the batch and returns a *CorruptError when the stored one differs.
func (b Batch) VerifyCRC() error {
	if got, want := CRC32C(b[AttributesPos:]), b.CRC(); got != want {
		return corrupt("crc-32c of %d bytes is %#08x, header says %#08x", len(b)-AttributesPos, got, want)
	}
	return nil
}

// PeekSize returns the size of the batch at the front of b from its first 17 bytes, so that a reader knows how much to
// read. ErrShort means fewer bytes than that; ErrMagic another format; *CorruptError a length that cannot be.
func PeekSize(b []byte) (size int, err error) {
	if len(b) < peekSize {
		return 0, ErrShort
	}
	if m := int8(b[MagicPos]); m != Magic {
		return 0, fmt.Errorf("%w %d", ErrMagic, m)
	}
	length := int64(int32(binary.BigEndian.Uint32(b[LengthPos:])))
	if length < HeaderSize-LogOverhead || length > maxBatchSize-LogOverhead {
		return 0, corrupt("length %d, want %d to %d", length, HeaderSize-LogOverhead, maxBatchSize-LogOverhead)
	}
	return int(length) + LogOverhead, nil
}

// Cut takes the batch off the front of b and checks its length, magic and CRC; the records are not looked at. Both
// results alias b. ErrShort means that b ends inside the batch (or is empty), ErrMagic a format other than 2, and
// *CorruptError damage. On an error rest is b.
func Cut(b []byte) (first Batch, rest []byte, err error) {
	size, err := PeekSize(b)
	if err != nil {
		return nil, b, err
	}
	if size > len(b) {
		return nil, b, ErrShort
	}
	first = Batch(b[:size:size])
	if err := first.VerifyCRC(); err != nil {
		return nil, b, err
	}
	return first, b[size:], nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// CRC32C returns the CRC-32C (Castagnoli) of b, by the processor's instruction where there is one.
func CRC32C(b []byte) uint32 { return crc32.Checksum(b, castagnoli) }
