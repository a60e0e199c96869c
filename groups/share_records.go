package groups

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

// Types of the records of a share group. Kafka: CoordinatorRecordType.
const (
	typeShareMember      = 10
	typeShareEpoch       = 11
	typeShareTargetEpoch = 12
	typeShareTarget      = 13
	typeShareCurrent     = 14
	typeShareStates      = 15
)

// shareRecord is one record of a share group. What it says counts once it is durable,
// and when it is read back. Its name is the member that it is about; "" where it is
// about the group.
type shareRecord struct {
	kind int16
	name string
	body shareBody // nil removes
}

// shareBody is the value of a record: shareEpochBody, *shareMetadata, targetEpochBody,
// targetBody, *shareAssignment or *shareStates.
type shareBody interface{ append(dst []byte) []byte }

// shareEpochBody: the group's epoch, and the hash of the topics it consumes.
type shareEpochBody struct {
	epoch int32
	hash  uint64
}

// encode returns a record of the named group as the log has it. Kafka:
// GroupCoordinatorRecordHelpers.
func (r shareRecord) encode(group string) logRecord {
	out := logRecord{key: runtime.AppendPlainString(runtime.AppendInt16(nil, r.kind), group)}
	if ofShareMember(r.kind) {
		out.key = runtime.AppendPlainString(out.key, r.name)
	}
	if r.body != nil {
		out.value = r.body.append(runtime.AppendInt16(nil, 0))
	}
	return out
}

// ofShareMember says whether records of a type are about a member.
func ofShareMember(kind int16) bool {
	return kind == typeShareMember || kind == typeShareTarget || kind == typeShareCurrent
}

// decodeShareRecord reads a record; a nil value removes.
func decodeShareRecord(key, value []byte) (group string, r shareRecord, err error) {
	d := runtime.NewDecoder(key)
	r.kind = d.Int16()
	group = d.PlainString()
	if ofShareMember(r.kind) {
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
	case typeShareMember:
		r.body = decodeShareMetadata(d)
	case typeShareEpoch:
		b := shareEpochBody{epoch: d.Int32(), hash: uint64(d.Int64())}
		d.Tags(nil)
		r.body = b
	case typeShareTargetEpoch:
		r.body = decodeTargetEpoch(d)
	case typeShareTarget:
		r.body = decodeTarget(d)
	case typeShareCurrent:
		r.body = decodeShareAssignment(d)
	case typeShareStates:
		r.body = decodeShareStates(d)
	default:
		d.Fail(errors.New("not a type of share groups"))
	}
	if d.Err() != nil {
		return "", r, fmt.Errorf("value of type %d: %w", r.kind, d.Err())
	}
	return group, r, nil
}

func (b shareEpochBody) append(dst []byte) []byte {
	return runtime.AppendNoTags(runtime.AppendInt64(runtime.AppendInt32(dst, b.epoch), int64(b.hash)))
}

func (m *shareMetadata) append(dst []byte) []byte {
	dst = runtime.AppendCompactNullable(dst, m.rackID)
	dst = runtime.AppendCompactString(dst, m.clientID)
	dst = runtime.AppendCompactString(dst, m.clientHost)
	return runtime.AppendNoTags(runtime.AppendCompactStrings(dst, m.topics))
}

func decodeShareMetadata(d *runtime.Decoder) *shareMetadata {
	m := &shareMetadata{rackID: d.CompactNullable(), clientID: d.CompactString(), clientHost: d.CompactString(), topics: sortedSet(d.CompactStrings())}
	d.Tags(nil)
	return m
}

func (a *shareAssignment) append(dst []byte) []byte {
	dst = runtime.AppendInt32(dst, a.epoch)
	dst = runtime.AppendInt32(dst, a.previousEpoch)
	dst = append(dst, byte(a.state))
	return runtime.AppendNoTags(appendPartitions(dst, a.assigned))
}

func decodeShareAssignment(d *runtime.Decoder) *shareAssignment {
	a := &shareAssignment{epoch: d.Int32(), previousEpoch: d.Int32(), state: memberState(d.Int8()), assigned: decodePartitions(d)}
	if a.state < memberStable || a.state > memberUnreleased {
		a.state = memberUnknown
	}
	d.Tags(nil)
	return a
}

func (s *shareStates) append(dst []byte) []byte {
	for _, topics := range []sharedTopics{s.initializing, s.initialized} {
		dst = runtime.AppendLength(dst, len(topics))
		for _, id := range topics.ids() {
			dst = runtime.AppendCompactString(runtime.AppendUUID(dst, id), topics[id].name)
			dst = runtime.AppendNoTags(runtime.AppendCompactInt32s(dst, topics[id].partitions))
		}
	}
	dst = runtime.AppendLength(dst, len(s.deleting))
	for _, id := range sortedIDs(s.deleting) {
		dst = runtime.AppendNoTags(runtime.AppendCompactString(runtime.AppendUUID(dst, id), s.deleting[id]))
	}
	return runtime.AppendNoTags(dst)
}

func decodeShareStates(d *runtime.Decoder) *shareStates {
	s := &shareStates{initializing: decodeSharedTopics(d), initialized: decodeSharedTopics(d), deleting: map[storage.TopicID]string{}}
	for range d.Length(18) {
		id := d.UUID()
		s.deleting[id] = d.CompactString()
		d.Tags(nil)
	}
	d.Tags(nil)
	return s
}

func decodeSharedTopics(d *runtime.Decoder) sharedTopics {
	out := sharedTopics{}
	for range d.Length(19) {
		id, t := d.UUID(), sharedTopic{name: d.CompactString(), partitions: d.CompactInt32s()}
		d.Tags(nil)
		if slices.Sort(t.partitions); len(t.partitions) > 0 {
			t.partitions = slices.Compact(t.partitions)
			out[id] = t
		}
	}
	return out
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

// replayShare applies a record of a share group, of types 10 to 15; a nil value
// removes. What it keeps of its arguments it copies. Kafka: the replay methods of
// GroupMetadataManager.
func (s *shard) replayShare(key, value []byte) error {
	id, r, err := decodeShareRecord(key, value)
	if err != nil {
		return err
	}
	e := s.entries[id]
	g := e.share()
	switch {
	case g == nil && r.body == nil:
		return nil // removed already
	case r.body == nil && r.kind == typeShareEpoch:
		e.machine = nil
		s.dropEmpty(e)
		return nil
	case g == nil:
		// Of another type of group nothing is left when this is written, but what a
		// cleaner has not removed yet.
		g = newShareGroup(id, s.env)
		s.ensure(id).machine = g
	}
	g.apply(time.Time{}, r)
	return nil
}
