package groups

import (
	"encoding/binary"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// Types of records in __consumer_offsets: the int16 that a key begins with. Types
// 0 and 1 are the same; 1 is written. Kafka: CoordinatorRecordType.
const (
	typeOffsetCommitOld = 0
	typeOffsetCommit    = 1
)

// Versions of offset values that are written. Kafka:
// GroupCoordinatorRecordHelpers.offsetCommitValueVersion.
const (
	valueVersion       = 4 // with the topic's id
	valueVersionExpiry = 1 // with an explicit expiry, which later versions have no room for
)

// offsetKey names a committed offset within its group.
type offsetKey struct {
	topic     string
	partition int32
}

// Offset is a committed offset.
type Offset struct {
	Offset      int64
	LeaderEpoch int32 // of the last consumed record; -1 when unknown
	Metadata    string
	CommitMs    int64
	ExpireMs    int64 // explicit expiry, from old clients; -1 without one
	TopicID     storage.TopicID
}

// appendOffsetKey appends the record key of a group's offset.
func appendOffsetKey(dst []byte, group string, k offsetKey) []byte {
	key := kmsg.OffsetCommitKey{Version: typeOffsetCommit, Group: group, Topic: k.topic, Partition: k.partition}
	return key.AppendTo(dst)
}

// appendOffsetValue appends the record value of a committed offset.
func appendOffsetValue(dst []byte, o *Offset) []byte {
	v := kmsg.NewOffsetCommitValue()
	v.Version = valueVersion
	if o.ExpireMs >= 0 {
		v.Version, v.ExpireTimestamp = valueVersionExpiry, o.ExpireMs
	}
	v.Offset, v.LeaderEpoch, v.Metadata, v.CommitTimestamp, v.TopicID = o.Offset, o.LeaderEpoch, o.Metadata, o.CommitMs, o.TopicID
	return v.AppendTo(dst)
}

// parseOffsetRecord reads a committed offset. A nil value is a tombstone: the offset
// is nil.
func parseOffsetRecord(key, value []byte) (group string, k offsetKey, o *Offset, err error) {
	var ck kmsg.OffsetCommitKey
	if err := ck.ReadFrom(key); err != nil {
		return "", k, nil, fmt.Errorf("offset key of %d bytes: %w", len(key), err)
	}
	k = offsetKey{topic: ck.Topic, partition: ck.Partition}
	if value == nil {
		return ck.Group, k, nil, nil
	}
	if len(value) < 2 {
		return "", k, nil, fmt.Errorf("offset value of %d bytes, want at least 2", len(value))
	}
	if v := binary.BigEndian.Uint16(value); v > valueVersion {
		return "", k, nil, fmt.Errorf("offset value of version %d, want 0 to %d", v, valueVersion)
	}
	cv := kmsg.NewOffsetCommitValue()
	if err := cv.ReadFrom(value); err != nil {
		return "", k, nil, fmt.Errorf("offset value of %d bytes: %w", len(value), err)
	}
	o = &Offset{
		Offset: cv.Offset, LeaderEpoch: cv.LeaderEpoch, Metadata: cv.Metadata,
		CommitMs: cv.CommitTimestamp, ExpireMs: -1, TopicID: cv.TopicID,
	}
	if cv.Version < 3 {
		o.LeaderEpoch = -1
	}
	if cv.Version == valueVersionExpiry {
		o.ExpireMs = max(cv.ExpireTimestamp, -1) // no time is before 1970
	}
	return ck.Group, k, o, nil
}
