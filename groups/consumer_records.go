package groups

import (
	"slices"

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

// epochBody: the group's epoch, and the hash of the topics it consumes.
type epochBody struct {
	epoch int32
	hash  uint64
}

// topicsBody stands for a value of type 4, whose contents nobody needs any more.
type topicsBody struct{}

// resolvedRegex: the topics that a regular expression matched, sorted. Kafka:
// ResolvedRegularExpression.
type resolvedRegex struct {
	topics []string
	// version says how many changes to topics it knew of; it means nothing to another process.
	version int64
	timeMs  int64
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
