package groups

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kaen-log/gateway/groups/assignor"
)

// Types of the records of a consumer group. Kafka: CoordinatorRecordType.
const (
	typeConsumerEpoch         = 3
	typeConsumerTopics        = 4 // only written by Kafka before 4.1, and removed since
	typeConsumerMember        = 5
	typeConsumerTargetEpoch   = 6
	typeConsumerTarget        = 7
	typeConsumerCurrent       = 8
	typeConsumerResolvedRegex = 16
)

// consumerRecord is one record of a consumer group. What it says counts once it is
// durable, and when it is read back. Its name is the second part of its key: a member
// id or a regular expression; "" where the key is the group alone.
type consumerRecord struct {
	kind int16
	name string
	body consumerBody // nil removes
}

// consumerBody is the value of a record.
type consumerBody interface {
	append(dst []byte) []byte
	// apply makes it count; name is the record's.
	apply(g *consumerGroup, name string)
}

// epochBody: the group's epoch, and the hash of the topics it consumes.
type epochBody struct {
	epoch int32
	hash  uint64
}

// topicsBody stands for a value of type 4, whose contents nobody needs any more.
type topicsBody struct{}

// targetEpochBody: the group epoch that the target is for, and when it was made; 0
// when that does not matter.
type targetEpochBody struct {
	epoch  int32
	timeMs int64
}

// targetBody: what a member is to have.
type targetBody struct{ partitions assignor.Partitions }

// resolvedRegex: the topics that a regular expression matched, sorted. Kafka:
// ResolvedRegularExpression.
type resolvedRegex struct {
	topics []string
	// version says how many changes to topics it knew of; it means nothing to another process.
	version int64
	timeMs  int64
}

// encode returns a record of the named group as the log has it. Kafka:
// GroupCoordinatorRecordHelpers.
func (r consumerRecord) encode(group string) logRecord {
	out := logRecord{key: appendString(appendInt16(nil, r.kind), group)}
	if named(r.kind) {
		out.key = appendString(out.key, r.name)
	}
	if r.body != nil {
		out.value = r.body.append(appendInt16(nil, 0))
	}
	return out
}

// named says whether keys of a type have a second part.
func named(kind int16) bool {
	return kind != typeConsumerEpoch && kind != typeConsumerTopics && kind != typeConsumerTargetEpoch
}

// decodeConsumerRecord reads a record; a nil value removes.
func decodeConsumerRecord(key, value []byte) (group string, r consumerRecord, err error) {
	d := decoder{b: key}
	r.kind = d.int16()
	group = d.string()
	if named(r.kind) {
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
	case typeConsumerEpoch:
		r.body = decodeEpoch(&d)
	case typeConsumerTopics:
		r.body = topicsBody{}
		return group, r, nil
	case typeConsumerMember:
		r.body = decodeMember(&d)
	case typeConsumerTargetEpoch:
		r.body = decodeTargetEpoch(&d)
	case typeConsumerTarget:
		r.body = decodeTarget(&d)
	case typeConsumerCurrent:
		r.body = decodeCurrent(&d)
	case typeConsumerResolvedRegex:
		r.body = decodeRegex(&d)
	default:
		d.fail(errors.New("not a type of consumer groups"))
	}
	if d.err != nil {
		return "", r, fmt.Errorf("value of type %d: %w", r.kind, d.err)
	}
	return group, r, nil
}

func (b epochBody) append(dst []byte) []byte {
	dst = appendInt32(dst, b.epoch)
	if b.hash == 0 {
		return appendNoTags(dst)
	}
	return appendTag0(dst, appendInt64(nil, int64(b.hash)))
}

func decodeEpoch(d *decoder) (b epochBody) {
	b.epoch = d.int32()
	d.tags(func(tag uint32, d *decoder) {
		if tag == 0 {
			b.hash = uint64(d.int64())
		}
	})
	return b
}

func (topicsBody) append(dst []byte) []byte { return appendNoTags(appendLength(dst, 0)) }

func (m *memberMetadata) append(dst []byte) []byte {
	dst = appendCompactNullable(dst, m.instanceID)
	dst = appendCompactNullable(dst, m.rackID)
	dst = appendCompactString(dst, m.clientID)
	dst = appendCompactString(dst, m.clientHost)
	dst = appendCompactStrings(dst, m.topics)
	dst = appendCompactString(dst, m.regex)
	dst = appendInt32(dst, m.rebalanceTimeoutMs)
	dst = appendCompactNullable(dst, m.assignor)
	if m.classic == nil {
		return appendTag0(dst, []byte{0}) // Kafka writes the null, too
	}
	field := appendInt32([]byte{1}, m.classic.sessionTimeoutMs)
	field = appendLength(field, len(m.classic.protocols))
	for _, p := range m.classic.protocols {
		field = appendCompactString(field, p.Name)
		field = appendNoTags(appendCompactBytes(field, p.Metadata))
	}
	return appendTag0(dst, appendNoTags(field))
}

func decodeMember(d *decoder) *memberMetadata {
	m := &memberMetadata{
		instanceID: d.compactNullable(), rackID: d.compactNullable(),
		clientID: d.compactString(), clientHost: d.compactString(),
		topics: sortedSet(d.compactStrings()),
	}
	if regex := d.compactNullable(); regex != nil {
		m.regex = *regex
	}
	m.rebalanceTimeoutMs, m.assignor = d.int32(), d.compactNullable()
	d.tags(func(tag uint32, d *decoder) {
		if tag == 0 && d.int8() == 1 {
			m.classic = decodeClassicMetadata(d)
		}
	})
	return m
}

func decodeClassicMetadata(d *decoder) *classicMetadata {
	c := &classicMetadata{sessionTimeoutMs: d.int32()}
	for range d.length(3) {
		c.protocols = append(c.protocols, Protocol{Name: d.compactString(), Metadata: d.compactBytes()})
		d.tags(nil)
	}
	d.tags(nil)
	return c
}

func (b targetEpochBody) append(dst []byte) []byte {
	dst = appendInt32(dst, b.epoch)
	if b.timeMs == 0 {
		return appendNoTags(dst)
	}
	return appendTag0(dst, appendInt64(nil, b.timeMs))
}

func decodeTargetEpoch(d *decoder) (b targetEpochBody) {
	b.epoch = d.int32()
	d.tags(func(tag uint32, d *decoder) {
		if tag == 0 {
			b.timeMs = max(d.int64(), 0)
		}
	})
	return b
}

func (b targetBody) append(dst []byte) []byte {
	return appendNoTags(appendPartitions(dst, b.partitions))
}

func decodeTarget(d *decoder) targetBody {
	b := targetBody{partitions: decodePartitions(d)}
	d.tags(nil)
	return b
}

func (c *currentAssignment) append(dst []byte) []byte {
	dst = appendInt32(dst, c.epoch)
	dst = appendInt32(dst, c.previousEpoch)
	dst = append(dst, byte(c.state))
	dst = appendPartitionEpochs(dst, c.assigned)
	dst = appendPartitionEpochs(dst, c.revoking)
	return appendNoTags(dst)
}

func appendPartitionEpochs(dst []byte, p partitionEpochs) []byte {
	dst = appendLength(dst, len(p))
	partitions := p.partitions()
	for _, topic := range p.topics() {
		list := partitions[topic]
		epochs := make([]int32, len(list))
		for i, partition := range list {
			epochs[i] = p[topic][partition]
		}
		dst = appendCompactInt32s(appendUUID(dst, topic), list)
		dst = appendTag0(dst, appendCompactInt32s(nil, epochs))
	}
	return dst
}

func decodeCurrent(d *decoder) *currentAssignment {
	c := &currentAssignment{epoch: d.int32(), previousEpoch: d.int32(), state: memberState(d.int8())}
	if c.state < memberStable || c.state > memberUnreleased {
		c.state = memberUnknown
	}
	c.assigned = decodePartitionEpochs(d, c.epoch)
	c.revoking = decodePartitionEpochs(d, c.epoch)
	d.tags(nil)
	return c
}

// decodePartitionEpochs reads partitions; those without epochs, as Kafka before 4.3
// wrote them, have the member's. Kafka: Utils.assignmentFromTopicPartitions.
func decodePartitionEpochs(d *decoder, memberEpoch int32) partitionEpochs {
	out := partitionEpochs{}
	for range d.length(18) {
		topic, list := d.uuid(), d.compactInt32s()
		var epochs []int32
		d.tags(func(tag uint32, d *decoder) {
			if tag == 0 {
				epochs = d.compactInt32s()
			}
		})
		for i, partition := range list {
			if len(epochs) == len(list) {
				out.set(topic, partition, epochs[i])
			} else {
				out.set(topic, partition, max(memberEpoch, 0))
			}
		}
	}
	return out
}

func (r *resolvedRegex) append(dst []byte) []byte {
	dst = appendCompactStrings(dst, r.topics)
	dst = appendInt64(dst, r.version)
	return appendNoTags(appendInt64(dst, r.timeMs))
}

func decodeRegex(d *decoder) *resolvedRegex {
	r := &resolvedRegex{topics: sortedSet(d.compactStrings()), version: d.int64(), timeMs: d.int64()}
	d.tags(nil)
	return r
}

// sortedSet sorts names and leaves each once; the list is the caller's.
func sortedSet(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
