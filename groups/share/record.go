package share

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"

	"github.com/kaen-log/gateway/storage"
)

// The records of __share_group_state. A key is the type, an int16, and names a share
// partition; a value begins with its version and is flexible:
//
//	key       int16 type, string group, uuid topic id, int32 partition
//	snapshot  int16 0, int32 snapshot epoch, int32 state epoch, int32 leader epoch, int64 start,
//	          int64 created, int64 written, batches, tag 0
//	update    int16 0, int32 snapshot epoch, int32 leader epoch, int64 start, batches, tag 0
//	batches   uvarint of their number+1; each: int64 first, int64 last, int8 state, int16 deliveries, no tags
//	tag 0     int32 number of records from the start on that are dealt with; none for -1
//
// A snapshot holds all batches; an update those that have changed, and needs the
// snapshot before it. A tombstone of a snapshot ends both. Kafka: ShareSnapshotKey,
// ShareSnapshotValue, ShareUpdateKey, ShareUpdateValue.

// Types of records.
const (
	typeSnapshot = 0
	typeUpdate   = 1
)

// Key names a share partition: a partition as one group sees it.
type Key struct {
	Group     string
	TopicID   storage.TopicID
	Partition int32
}

// partitionOf returns the partition of __share_group_state that the records of k are
// in, of n. Kafka: SharePartitionKey.asCoordinatorKey, ShareCoordinatorService.partitionFor.
func (k Key) partitionOf(n int32) int32 {
	text := k.Group + ":" + base64.RawURLEncoding.EncodeToString(k.TopicID[:]) + ":" + strconv.Itoa(int(k.Partition))
	var h int32 // Java's String.hashCode
	for _, u := range utf16.Encode([]rune(text)) {
		h = 31*h + int32(u)
	}
	if h == -1<<31 {
		return 0 // its absolute value does not fit, and Kafka's Utils.abs answers 0 for it
	}
	return max(h, -h) % n
}

// logRecord is a record; a nil value is a tombstone.
type logRecord struct{ key, value []byte }

func appendKey(dst []byte, kind int16, k Key) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(kind))
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(k.Group)))
	dst = append(dst, k.Group...)
	dst = append(dst, k.TopicID[:]...)
	return binary.BigEndian.AppendUint32(dst, uint32(k.Partition))
}

// parseKey reads a key; ok is false for a type that is not known.
func parseKey(b []byte) (kind int16, k Key, ok bool, err error) {
	d := decoder{b: b}
	kind = int16(d.int(2))
	if d.err == nil && kind != typeSnapshot && kind != typeUpdate {
		return kind, k, false, nil
	}
	k.Group = string(d.take(d.int(2)))
	copy(k.TopicID[:], d.take(len(k.TopicID)))
	k.Partition = int32(d.int(4))
	if d.err != nil {
		return 0, Key{}, false, fmt.Errorf("key of %d bytes: %w", len(b), d.err)
	}
	return kind, k, true, nil
}

func appendSnapshot(dst []byte, s *stored) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.snapshotEpoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.stateEpoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(s.leaderEpoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.start))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.createdMs))
	dst = binary.BigEndian.AppendUint64(dst, uint64(s.writtenMs))
	return appendEnd(dst, s.batches, s.complete)
}

// update is the value of a record that changes what a snapshot says.
type update struct {
	snapshotEpoch int32
	leaderEpoch   int32 // -1: as before
	start         int64 // -1: as before
	complete      int32
	batches       []Batch
}

func appendUpdate(dst []byte, u *update) []byte {
	dst = binary.BigEndian.AppendUint16(dst, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(u.snapshotEpoch))
	dst = binary.BigEndian.AppendUint32(dst, uint32(u.leaderEpoch))
	dst = binary.BigEndian.AppendUint64(dst, uint64(u.start))
	return appendEnd(dst, u.batches, u.complete)
}

// appendEnd appends what snapshots and updates end with.
func appendEnd(dst []byte, batches []Batch, complete int32) []byte {
	dst = binary.AppendUvarint(dst, uint64(len(batches))+1)
	for _, b := range batches {
		dst = binary.BigEndian.AppendUint64(dst, uint64(b.First))
		dst = binary.BigEndian.AppendUint64(dst, uint64(b.Last))
		dst = append(dst, byte(b.State))
		dst = binary.BigEndian.AppendUint16(dst, uint16(b.Deliveries))
		dst = append(dst, 0)
	}
	if complete == -1 {
		return append(dst, 0)
	}
	return binary.BigEndian.AppendUint32(append(dst, 1, 0, 4), uint32(complete))
}

func parseSnapshot(b []byte) (*stored, error) {
	d := decoder{b: b}
	d.version()
	s := &stored{snapshotEpoch: int32(d.int(4)), stateEpoch: int32(d.int(4)), leaderEpoch: int32(d.int(4))}
	s.start, s.createdMs, s.writtenMs = int64(d.int(8)), int64(d.int(8)), int64(d.int(8))
	s.batches, s.complete = d.end()
	if d.err != nil {
		return nil, fmt.Errorf("snapshot of %d bytes: %w", len(b), d.err)
	}
	return s, nil
}

func parseUpdate(b []byte) (*update, error) {
	d := decoder{b: b}
	d.version()
	u := &update{snapshotEpoch: int32(d.int(4)), leaderEpoch: int32(d.int(4)), start: int64(d.int(8))}
	u.batches, u.complete = d.end()
	if d.err != nil {
		return nil, fmt.Errorf("update of %d bytes: %w", len(b), d.err)
	}
	return u, nil
}

// errShort is what a decoder makes of bytes that end too early.
var errShort = errors.New("record ends too early")

// decoder reads fields off the front of b. After the first fault it reads zeros, and
// err says what it was; nothing is allocated that the bytes left could not fill.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) fail(err error) {
	if d.err == nil {
		d.err, d.b = err, nil
	}
}

// take returns the next n bytes.
func (d *decoder) take(n int) []byte {
	if d.err != nil || n < 0 || n > len(d.b) {
		d.fail(errShort)
		return nil
	}
	out := d.b[:n]
	d.b = d.b[n:]
	return out
}

// int reads a signed integer of 1, 2, 4 or 8 bytes.
func (d *decoder) int(size int) int {
	var v uint64
	for _, b := range d.take(size) {
		v = v<<8 | uint64(b)
	}
	shift := 64 - 8*size
	return int(int64(v<<shift) >> shift)
}

func (d *decoder) uvarint() uint64 {
	v, n := binary.Uvarint(d.b)
	if d.err != nil || n <= 0 || v > 1<<32-1 {
		d.fail(errShort)
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) version() {
	if v := d.int(2); v != 0 {
		d.fail(fmt.Errorf("version %d, want 0", v))
	}
}

// end reads what snapshots and updates end with.
func (d *decoder) end() (batches []Batch, complete int32) {
	const size = 20 // of a batch, at least
	n := int(d.uvarint()) - 1
	if n > len(d.b)/size {
		d.fail(errShort)
		return nil, 0
	}
	for range n {
		b := Batch{Extent{int64(d.int(8)), int64(d.int(8))}, RecordState(d.int(1)), int16(d.int(2))}
		if d.tags(nil); d.err == nil && (b.First > b.Last || b.First < 0) {
			d.fail(fmt.Errorf("batch from %d to %d", b.First, b.Last))
		}
		batches = append(batches, b)
	}
	complete = -1
	d.tags(func(field *decoder) { complete = int32(field.int(4)) })
	return batches, complete
}

// tags reads the tags of a structure; first is given the decoder of tag 0.
func (d *decoder) tags(first func(*decoder)) {
	for range d.uvarint() {
		tag := d.uvarint()
		field := decoder{b: d.take(int(d.uvarint()))}
		if d.err != nil {
			return
		}
		if tag == 0 && first != nil {
			if first(&field); field.err != nil {
				d.fail(fmt.Errorf("tag 0: %w", field.err))
			}
		}
	}
}
