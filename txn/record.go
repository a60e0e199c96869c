package txn

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/kaen-log/gateway/groups/runtime"
)

// A record of __transaction_state is Kafka's TransactionLogKey and TransactionLogValue. The
// key is int16 0, the type, and the transactional id as a plain string. The value is int16
// version and then
//
//	producer id      int64
//	producer epoch   int16
//	timeout          int32   milliseconds
//	status           int8    the state
//	partitions       array   null when Empty; each: topic, array of int32, from 1 on tags
//	last update      int64   milliseconds
//	start            int64   milliseconds, -1 for none
//	tags             from version 1 on
//
// in version 0 with lengths of 16 bits for strings and 32 for arrays, -1 for null, and from
// 1 on with compact ones. Tags that have their defaults are left out. Kafka's tag 3, the
// epoch beside the next producer id, is never written there either.
const (
	keyType = 0

	tagPreviousID = 0 // int64, default -1
	tagNextID     = 1 // int64, default -1
	tagVersion    = 2 // int16, default 0
)

// appendKey appends the key of an id's record.
func appendKey(dst []byte, id string) []byte {
	return runtime.AppendPlainString(runtime.AppendInt16(dst, keyType), id)
}

// parseKey returns the id that a record is of; known is false for a record of another type.
func parseKey(b []byte) (id string, known bool, err error) {
	d := runtime.NewDecoder(b)
	if kind := d.Int16(); kind != keyType || d.Err() != nil {
		return "", false, d.Err()
	}
	id = d.PlainString()
	return id, true, d.Err()
}

// appendValue appends a value of version 1. Kafka: TransactionLog.valueToBytes.
func appendValue(dst []byte, t *transaction) []byte {
	dst = runtime.AppendInt16(dst, 1)
	dst = runtime.AppendInt64(dst, t.ID)
	dst = runtime.AppendInt16(dst, t.Epoch)
	dst = runtime.AppendInt32(dst, t.timeoutMs)
	dst = append(dst, byte(t.state))
	dst = appendPartitions(dst, t)
	dst = runtime.AppendInt64(dst, t.updateMs)
	dst = runtime.AppendInt64(dst, t.startMs)
	tags, n := []byte(nil), 0
	tag := func(number byte, field []byte) {
		tags = append(append(tags, number, byte(len(field))), field...)
		n++
	}
	if t.previousID != -1 {
		tag(tagPreviousID, runtime.AppendInt64(nil, t.previousID))
	}
	if t.nextID != -1 {
		tag(tagNextID, runtime.AppendInt64(nil, t.nextID))
	}
	if t.version != 0 {
		tag(tagVersion, runtime.AppendInt16(nil, t.version))
	}
	return append(append(dst, byte(n)), tags...)
}

func appendPartitions(dst []byte, t *transaction) []byte {
	if t.state == empty {
		return append(dst, 0)
	}
	var topics [][]Partition
	for rest := t.partitions; len(rest) > 0; {
		n := slices.IndexFunc(rest, func(p Partition) bool { return p.Topic != rest[0].Topic })
		if n < 0 {
			n = len(rest)
		}
		topics, rest = append(topics, rest[:n]), rest[n:]
	}
	dst = runtime.AppendLength(dst, len(topics))
	for _, of := range topics {
		dst = runtime.AppendCompactString(dst, of[0].Topic)
		dst = runtime.AppendLength(dst, len(of))
		for _, p := range of {
			dst = runtime.AppendInt32(dst, p.Partition)
		}
		dst = runtime.AppendNoTags(dst)
	}
	return dst
}

// parseValue reads a value of version 0 or 1. Kafka: TransactionLog.read.
func parseValue(id string, b []byte) (*transaction, error) {
	d := runtime.NewDecoder(b)
	version := d.Int16()
	if version != 0 && version != 1 {
		return nil, fmt.Errorf("version %d, want 0 or 1", version)
	}
	t := &transaction{id: id, previousID: -1, nextID: -1, lastEpoch: -1}
	t.ID, t.Epoch, t.timeoutMs = d.Int64(), d.Int16(), d.Int32()
	t.state = state(d.Int8())
	partitions := parsePartitions(d, version == 1)
	t.updateMs, t.startMs = d.Int64(), d.Int64()
	if version == 1 {
		d.Tags(func(tag uint32, d *runtime.Decoder) {
			switch tag {
			case tagPreviousID:
				t.previousID = d.Int64()
			case tagNextID:
				t.nextID = d.Int64()
			case tagVersion:
				t.version = d.Int16()
			}
		})
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	if t.state < empty || t.state > completeAbort {
		return nil, fmt.Errorf("state %d, want %d to %d", int8(t.state), empty, completeAbort)
	}
	if t.state != empty {
		slices.SortFunc(partitions, comparePartitions)
		t.partitions = slices.Compact(partitions)
	}
	return t, nil
}

func parsePartitions(d *runtime.Decoder, compact bool) (out []Partition) {
	length := func(size int) int { return int(d.Int32()) }
	if compact {
		length = d.Length
	}
	for range length(1) {
		var topic string
		if compact {
			topic = d.CompactString()
		} else {
			topic = d.PlainString()
		}
		for range length(binary.Size(int32(0))) {
			if d.Err() != nil {
				return nil
			}
			out = append(out, Partition{topic, d.Int32()})
		}
		if compact {
			d.Tags(nil)
		}
		if d.Err() != nil {
			return nil
		}
	}
	return out
}
