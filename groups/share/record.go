package share

import (
	"encoding/base64"
	"fmt"
	"strconv"

	"github.com/kaen-log/gateway/groups/runtime"
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
	return runtime.PartitionFor(text, n)
}

// logRecord is a record; a nil value is a tombstone.
type logRecord struct{ key, value []byte }

func appendKey(dst []byte, kind int16, k Key) []byte {
	dst = runtime.AppendPlainString(runtime.AppendInt16(dst, kind), k.Group)
	return runtime.AppendInt32(runtime.AppendUUID(dst, k.TopicID), k.Partition)
}

// parseKey reads a key; ok is false for a type that is not known.
func parseKey(b []byte) (kind int16, k Key, ok bool, err error) {
	d := runtime.NewDecoder(b)
	kind = d.Int16()
	if d.Err() == nil && kind != typeSnapshot && kind != typeUpdate {
		return kind, k, false, nil
	}
	k = Key{Group: d.PlainString(), TopicID: d.UUID(), Partition: d.Int32()}
	if d.Err() != nil {
		return 0, Key{}, false, fmt.Errorf("key of %d bytes: %w", len(b), d.Err())
	}
	return kind, k, true, nil
}

func appendSnapshot(dst []byte, s *stored) []byte {
	dst = runtime.AppendInt16(dst, 0)
	dst = runtime.AppendInt32(dst, s.snapshotEpoch)
	dst = runtime.AppendInt32(dst, s.stateEpoch)
	dst = runtime.AppendInt32(dst, s.leaderEpoch)
	dst = runtime.AppendInt64(dst, s.start)
	dst = runtime.AppendInt64(dst, s.createdMs)
	dst = runtime.AppendInt64(dst, s.writtenMs)
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
	dst = runtime.AppendInt16(dst, 0)
	dst = runtime.AppendInt32(dst, u.snapshotEpoch)
	dst = runtime.AppendInt32(dst, u.leaderEpoch)
	dst = runtime.AppendInt64(dst, u.start)
	return appendEnd(dst, u.batches, u.complete)
}

// appendEnd appends what snapshots and updates end with.
func appendEnd(dst []byte, batches []Batch, complete int32) []byte {
	dst = runtime.AppendLength(dst, len(batches))
	for _, b := range batches {
		dst = runtime.AppendInt64(runtime.AppendInt64(dst, b.First), b.Last)
		dst = runtime.AppendInt16(append(dst, byte(b.State)), b.Deliveries)
		dst = runtime.AppendNoTags(dst)
	}
	if complete == -1 {
		return runtime.AppendNoTags(dst)
	}
	return runtime.AppendTag0(dst, runtime.AppendInt32(nil, complete))
}

func parseSnapshot(b []byte) (*stored, error) {
	d := runtime.NewDecoder(b)
	d.Version()
	s := &stored{snapshotEpoch: d.Int32(), stateEpoch: d.Int32(), leaderEpoch: d.Int32()}
	s.start, s.createdMs, s.writtenMs = d.Int64(), d.Int64(), d.Int64()
	s.batches, s.complete = readEnd(d)
	if d.Err() != nil {
		return nil, fmt.Errorf("snapshot of %d bytes: %w", len(b), d.Err())
	}
	return s, nil
}

func parseUpdate(b []byte) (*update, error) {
	d := runtime.NewDecoder(b)
	d.Version()
	u := &update{snapshotEpoch: d.Int32(), leaderEpoch: d.Int32(), start: d.Int64()}
	u.batches, u.complete = readEnd(d)
	if d.Err() != nil {
		return nil, fmt.Errorf("update of %d bytes: %w", len(b), d.Err())
	}
	return u, nil
}

// readEnd reads what snapshots and updates end with.
func readEnd(d *runtime.Decoder) (batches []Batch, complete int32) {
	for range d.Length(20) {
		b := Batch{Extent{d.Int64(), d.Int64()}, RecordState(d.Int8()), d.Int16()}
		if d.Tags(nil); d.Err() == nil && (b.First > b.Last || b.First < 0) {
			d.Fail(fmt.Errorf("batch from %d to %d", b.First, b.Last))
		}
		batches = append(batches, b)
	}
	complete = -1
	d.Tags(func(tag uint32, d *runtime.Decoder) {
		if tag == 0 {
			complete = d.Int32()
		}
	})
	return batches, complete
}
