package groups

import (
	"errors"
	"fmt"
	"slices"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/groups/runtime"
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
	return kind != typeConsumerEpoch && kind != typeConsumerTopics && kind != typeConsumerTargetEpoch
}

// decodeConsumerRecord reads a record; a nil value removes.
func decodeConsumerRecord(key, value []byte) (group string, r consumerRecord, err error) {
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
	case typeConsumerTargetEpoch:
		r.body = decodeTargetEpoch(d)
	case typeConsumerTarget:
		r.body = decodeTarget(d)
	case typeConsumerCurrent:
		r.body = decodeCurrent(d)
	case typeConsumerResolvedRegex:
		r.body = decodeRegex(d)
	default:
		d.Fail(errors.New("not a type of consumer groups"))
	}
	if d.Err() != nil {
		return "", r, fmt.Errorf("value of type %d: %w", r.kind, d.Err())
	}
	return group, r, nil
}

func (b epochBody) append(dst []byte) []byte {
	dst = runtime.AppendInt32(dst, b.epoch)
	if b.hash == 0 {
		return runtime.AppendNoTags(dst)
	}
	return runtime.AppendTag0(dst, runtime.AppendInt64(nil, int64(b.hash)))
}

func decodeEpoch(d *runtime.Decoder) (b epochBody) {
	b.epoch = d.Int32()
	d.Tags(func(tag uint32, d *runtime.Decoder) {
		if tag == 0 {
			b.hash = uint64(d.Int64())
		}
	})
	return b
}

func (topicsBody) append(dst []byte) []byte {
	return runtime.AppendNoTags(runtime.AppendLength(dst, 0))
}

func (m *memberMetadata) append(dst []byte) []byte {
	dst = runtime.AppendCompactNullable(dst, m.instanceID)
	dst = runtime.AppendCompactNullable(dst, m.rackID)
	dst = runtime.AppendCompactString(dst, m.clientID)
	dst = runtime.AppendCompactString(dst, m.clientHost)
	dst = runtime.AppendCompactStrings(dst, m.topics)
	dst = runtime.AppendCompactString(dst, m.regex)
	dst = runtime.AppendInt32(dst, m.rebalanceTimeoutMs)
	dst = runtime.AppendCompactNullable(dst, m.assignor)
	if m.classic == nil {
		return runtime.AppendTag0(dst, []byte{0}) // Kafka writes the null, too
	}
	field := runtime.AppendInt32([]byte{1}, m.classic.sessionTimeoutMs)
	field = runtime.AppendLength(field, len(m.classic.protocols))
	for _, p := range m.classic.protocols {
		field = runtime.AppendCompactString(field, p.Name)
		field = runtime.AppendNoTags(runtime.AppendCompactBytes(field, p.Metadata))
	}
	return runtime.AppendTag0(dst, runtime.AppendNoTags(field))
}

func decodeMember(d *runtime.Decoder) *memberMetadata {
	m := &memberMetadata{
		instanceID: d.CompactNullable(), rackID: d.CompactNullable(),
		clientID: d.CompactString(), clientHost: d.CompactString(),
		topics: sortedSet(d.CompactStrings()),
	}
	if regex := d.CompactNullable(); regex != nil {
		m.regex = *regex
	}
	m.rebalanceTimeoutMs, m.assignor = d.Int32(), d.CompactNullable()
	d.Tags(func(tag uint32, d *runtime.Decoder) {
		if tag == 0 && d.Int8() == 1 {
			m.classic = decodeClassicMetadata(d)
		}
	})
	return m
}

func decodeClassicMetadata(d *runtime.Decoder) *classicMetadata {
	c := &classicMetadata{sessionTimeoutMs: d.Int32()}
	for range d.Length(3) {
		c.protocols = append(c.protocols, Protocol{Name: d.CompactString(), Metadata: d.CompactBytes()})
		d.Tags(nil)
	}
	d.Tags(nil)
	return c
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

func (c *currentAssignment) append(dst []byte) []byte {
	dst = runtime.AppendInt32(dst, c.epoch)
	dst = runtime.AppendInt32(dst, c.previousEpoch)
	dst = append(dst, byte(c.state))
	dst = appendPartitionEpochs(dst, c.assigned)
	dst = appendPartitionEpochs(dst, c.revoking)
	return runtime.AppendNoTags(dst)
}

func appendPartitionEpochs(dst []byte, p partitionEpochs) []byte {
	dst = runtime.AppendLength(dst, len(p))
	partitions := p.partitions()
	for _, topic := range p.topics() {
		list := partitions[topic]
		epochs := make([]int32, len(list))
		for i, partition := range list {
			epochs[i] = p[topic][partition]
		}
		dst = runtime.AppendCompactInt32s(runtime.AppendUUID(dst, topic), list)
		dst = runtime.AppendTag0(dst, runtime.AppendCompactInt32s(nil, epochs))
	}
	return dst
}

func decodeCurrent(d *runtime.Decoder) *currentAssignment {
	c := &currentAssignment{epoch: d.Int32(), previousEpoch: d.Int32(), state: memberState(d.Int8())}
	if c.state < memberStable || c.state > memberUnreleased {
		c.state = memberUnknown
	}
	c.assigned = decodePartitionEpochs(d, c.epoch)
	c.revoking = decodePartitionEpochs(d, c.epoch)
	d.Tags(nil)
	return c
}

// decodePartitionEpochs reads partitions; those without epochs, as Kafka before 4.3
// wrote them, have the member's. Kafka: Utils.assignmentFromTopicPartitions.
func decodePartitionEpochs(d *runtime.Decoder, memberEpoch int32) partitionEpochs {
	out := partitionEpochs{}
	for range d.Length(18) {
		topic, list := d.UUID(), d.CompactInt32s()
		var epochs []int32
		d.Tags(func(tag uint32, d *runtime.Decoder) {
			if tag == 0 {
				epochs = d.CompactInt32s()
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
	dst = runtime.AppendCompactStrings(dst, r.topics)
	dst = runtime.AppendInt64(dst, r.version)
	return runtime.AppendNoTags(runtime.AppendInt64(dst, r.timeMs))
}

func decodeRegex(d *runtime.Decoder) *resolvedRegex {
	r := &resolvedRegex{topics: sortedSet(d.CompactStrings()), version: d.Int64(), timeMs: d.Int64()}
	d.Tags(nil)
	return r
}

// sortedSet sorts names and leaves each once; the list is the caller's.
func sortedSet(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
