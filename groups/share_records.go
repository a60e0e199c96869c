package groups

import (
	"slices"

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

// shareEpochBody: the group's epoch, and the hash of the topics it consumes.
type shareEpochBody struct {
	epoch int32
	hash  uint64
}

func (b shareEpochBody) append(dst []byte) []byte {
	return runtime.AppendNoTags(runtime.AppendInt64(runtime.AppendInt32(dst, b.epoch), int64(b.hash)))
}

func decodeShareEpoch(d *runtime.Decoder) shareEpochBody {
	b := shareEpochBody{epoch: d.Int32(), hash: uint64(d.Int64())}
	d.Tags(nil)
	return b
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
