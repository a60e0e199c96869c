package groups

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/groups/runtime"
)

// modernRecord is one record of a consumer or a share group. What it says counts once it
// is durable, and when it is read back. Its name is the second part of its key: a member
// id or a regular expression; "" where the key is the group alone.
type modernRecord struct {
	kind int16
	name string
	body recordBody // nil removes
}

// recordBody is the value of a record. Which kinds of records have which is in
// decodeModernRecord.
type recordBody interface{ append(dst []byte) []byte }

// targetEpochBody: the group epoch that the target is for, and when it was made; 0
// when that does not matter.
type targetEpochBody struct {
	epoch  int32
	timeMs int64
}

// targetBody: what a member is to have.
type targetBody struct{ partitions assignor.Partitions }

// encode returns a record of the named group as the log has it. Kafka:
// GroupCoordinatorRecordHelpers.
func (r modernRecord) encode(group string) logRecord {
	out := logRecord{key: runtime.AppendPlainString(runtime.AppendInt16(nil, r.kind), group)}
	if named(r.kind) {
		out.key = runtime.AppendPlainString(out.key, r.name)
	}
	if r.body != nil {
		out.value = r.body.append(runtime.AppendInt16(nil, 0))
	}
	return out
}

// named says whether keys of a type have a second part.
func named(kind int16) bool {
	switch kind {
	case typeConsumerEpoch, typeConsumerTopics, typeConsumerTargetEpoch, typeShareEpoch, typeShareTargetEpoch, typeShareStates:
		return false
	}
	return true
}

// decodeModernRecord reads a record; a nil value removes. What it keeps of its arguments
// it has copied.
func decodeModernRecord(key, value []byte) (group string, r modernRecord, err error) {
	d := runtime.NewDecoder(key)
	r.kind = d.Int16()
	group = d.PlainString()
	if named(r.kind) {
		r.name = d.PlainString()
	}
	if d.Err() != nil {
		return "", r, fmt.Errorf("key of type %d: %w", r.kind, d.Err())
	}
	if value == nil {
		return group, r, nil
	}
	d = runtime.NewDecoder(value)
	d.Version()
	switch r.kind {
	case typeConsumerEpoch:
		r.body = decodeEpoch(d)
	case typeConsumerTopics:
		r.body = topicsBody{}
		return group, r, nil
	case typeConsumerMember:
		r.body = decodeMember(d)
	case typeConsumerTargetEpoch, typeShareTargetEpoch:
		r.body = decodeTargetEpoch(d)
	case typeConsumerTarget, typeShareTarget:
		r.body = decodeTarget(d)
	case typeConsumerCurrent:
		r.body = decodeCurrent(d)
	case typeConsumerResolvedRegex:
		r.body = decodeRegex(d)
	case typeShareMember:
		r.body = decodeShareMetadata(d)
	case typeShareEpoch:
		r.body = decodeShareEpoch(d)
	case typeShareCurrent:
		r.body = decodeShareAssignment(d)
	case typeShareStates:
		r.body = decodeShareStates(d)
	default:
		d.Fail(errors.New("not a type of consumer or share groups"))
	}
	if d.Err() != nil {
		return "", r, fmt.Errorf("value of type %d: %w", r.kind, d.Err())
	}
	return group, r, nil
}

func (b targetEpochBody) append(dst []byte) []byte {
	dst = runtime.AppendInt32(dst, b.epoch)
	if b.timeMs == 0 {
		return runtime.AppendNoTags(dst)
	}
	return runtime.AppendTag0(dst, runtime.AppendInt64(nil, b.timeMs))
}

func decodeTargetEpoch(d *runtime.Decoder) (b targetEpochBody) {
	b.epoch = d.Int32()
	d.Tags(func(tag uint32, d *runtime.Decoder) {
		if tag == 0 {
			b.timeMs = max(d.Int64(), 0)
		}
	})
	return b
}

func (b targetBody) append(dst []byte) []byte {
	return runtime.AppendNoTags(appendPartitions(dst, b.partitions))
}

func decodeTarget(d *runtime.Decoder) targetBody {
	b := targetBody{partitions: decodePartitions(d)}
	d.Tags(nil)
	return b
}

// appendPartitions appends an array of topics with their partitions.
func appendPartitions(dst []byte, p assignor.Partitions) []byte {
	dst = runtime.AppendLength(dst, len(p))
	for _, topic := range p.Topics() {
		dst = runtime.AppendNoTags(runtime.AppendCompactInt32s(runtime.AppendUUID(dst, topic), p[topic]))
	}
	return dst
}

func decodePartitions(d *runtime.Decoder) assignor.Partitions {
	out := assignor.Partitions{}
	for range d.Length(18) {
		topic, list := d.UUID(), d.CompactInt32s()
		d.Tags(nil)
		if slices.Sort(list); len(list) > 0 {
			out[topic] = slices.Compact(list)
		}
	}
	return out
}
