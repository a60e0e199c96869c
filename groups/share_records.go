package groups

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
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
	out := logRecord{key: appendString(appendInt16(nil, r.kind), group)}
	if ofShareMember(r.kind) {
		out.key = appendString(out.key, r.name)
	}
	if r.body != nil {
		out.value = r.body.append(appendInt16(nil, 0))
	}
	return out
}

// ofShareMember says whether records of a type are about a member.
func ofShareMember(kind int16) bool {
	return kind == typeShareMember || kind == typeShareTarget || kind == typeShareCurrent
}

// decodeShareRecord reads a record; a nil value removes.
func decodeShareRecord(key, value []byte) (group string, r shareRecord, err error) {
	d := decoder{b: key}
	r.kind = d.int16()
	group = d.string()
	if ofShareMember(r.kind) {
		r.name = d.string()
	}
	if d.err != nil {
		return "", r, fmt.Errorf("key of type %d: %w", r.kind, d.err)
	}
	if value == nil {
		return group, r, nil
	}
	d = decoder{b: value}
	d.version()
	switch r.kind {
	case typeShareMember:
		r.body = decodeShareMetadata(&d)
	case typeShareEpoch:
		b := shareEpochBody{epoch: d.int32(), hash: uint64(d.int64())}
		d.tags(nil)
		r.body = b
	case typeShareTargetEpoch:
		r.body = decodeTargetEpoch(&d)
	case typeShareTarget:
		r.body = decodeTarget(&d)
	case typeShareCurrent:
		r.body = decodeShareAssignment(&d)
	case typeShareStates:
		r.body = decodeShareStates(&d)
	default:
		d.fail(errors.New("not a type of share groups"))
	}
	if d.err != nil {
		return "", r, fmt.Errorf("value of type %d: %w", r.kind, d.err)
	}
	return group, r, nil
}

func (b shareEpochBody) append(dst []byte) []byte {
	return appendNoTags(appendInt64(appendInt32(dst, b.epoch), int64(b.hash)))
}

func (m *shareMetadata) append(dst []byte) []byte {
	dst = appendCompactNullable(dst, m.rackID)
	dst = appendCompactString(dst, m.clientID)
	dst = appendCompactString(dst, m.clientHost)
	return appendNoTags(appendCompactStrings(dst, m.topics))
}

func decodeShareMetadata(d *decoder) *shareMetadata {
	m := &shareMetadata{rackID: d.compactNullable(), clientID: d.compactString(), clientHost: d.compactString(), topics: sortedSet(d.compactStrings())}
	d.tags(nil)
	return m
}

func (a *shareAssignment) append(dst []byte) []byte {
	dst = appendInt32(dst, a.epoch)
	dst = appendInt32(dst, a.previousEpoch)
	dst = append(dst, byte(a.state))
	return appendNoTags(appendPartitions(dst, a.assigned))
}

func decodeShareAssignment(d *decoder) *shareAssignment {
	a := &shareAssignment{epoch: d.int32(), previousEpoch: d.int32(), state: memberState(d.int8()), assigned: decodePartitions(d)}
	if a.state < memberStable || a.state > memberUnreleased {
		a.state = memberUnknown
	}
	d.tags(nil)
	return a
}

func (s *shareStates) append(dst []byte) []byte {
	for _, topics := range []sharedTopics{s.initializing, s.initialized} {
		dst = appendLength(dst, len(topics))
		for _, id := range topics.ids() {
			dst = appendCompactString(appendUUID(dst, id), topics[id].name)
			dst = appendNoTags(appendCompactInt32s(dst, topics[id].partitions))
		}
	}
	dst = appendLength(dst, len(s.deleting))
	for _, id := range sortedIDs(s.deleting) {
		dst = appendNoTags(appendCompactString(appendUUID(dst, id), s.deleting[id]))
	}
	return appendNoTags(dst)
}

func decodeShareStates(d *decoder) *shareStates {
	s := &shareStates{initializing: decodeSharedTopics(d), initialized: decodeSharedTopics(d), deleting: map[storage.TopicID]string{}}
	for range d.length(18) {
		id := d.uuid()
		s.deleting[id] = d.compactString()
		d.tags(nil)
	}
	d.tags(nil)
	return s
}

func decodeSharedTopics(d *decoder) sharedTopics {
	out := sharedTopics{}
	for range d.length(19) {
		id, t := d.uuid(), sharedTopic{name: d.compactString(), partitions: d.compactInt32s()}
		d.tags(nil)
		if slices.Sort(t.partitions); len(t.partitions) > 0 {
			t.partitions = slices.Compact(t.partitions)
			out[id] = t
		}
	}
	return out
}

// appendPartitions appends an array of topics with their partitions.
func appendPartitions(dst []byte, p assignor.Partitions) []byte {
	dst = appendLength(dst, len(p))
	for _, topic := range p.Topics() {
		dst = appendNoTags(appendCompactInt32s(appendUUID(dst, topic), p[topic]))
	}
	return dst
}

func decodePartitions(d *decoder) assignor.Partitions {
	out := assignor.Partitions{}
	for range d.length(18) {
		topic, list := d.uuid(), d.compactInt32s()
		d.tags(nil)
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
