package groups

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// typeGroupMetadata is the type of the record of a classic group. Kafka:
// CoordinatorRecordType.GROUP_METADATA.
const typeGroupMetadata = 2

// groupMetadataVersion is the version of the value that is written. Versions 0 to
// maxGroupMetadataVersion are read.
const (
	groupMetadataVersion    = 3
	maxGroupMetadataVersion = 4
)

// classicRecord is what the log says of a classic group.
type classicRecord struct {
	group      string
	groupType  string
	generation int32
	protocol   string // "" is written as null
	leader     string // "" is written as null
	sinceMs    int64  // -1 when it is not known
	members    []classicRecordMember
}

// classicRecordMember is what the log says of a member.
type classicRecordMember struct {
	id               string
	instanceID       *string
	clientID         string
	clientHost       string
	rebalanceTimeout time.Duration
	sessionTimeout   time.Duration
	subscription     []byte // for the group's protocol
	assignment       []byte
}

// record is what is to be written of the group as it is.
func (g *classicGroup) record() *classicRecord {
	r := &classicRecord{
		group: g.id, groupType: g.groupType, generation: g.generation, protocol: g.protocol, leader: g.leader,
		sinceMs: -1, members: make([]classicRecordMember, len(g.members)),
	}
	if !g.since.IsZero() {
		r.sinceMs = g.since.UnixMilli()
	}
	for i, m := range g.members {
		r.members[i] = classicRecordMember{
			id: m.id, instanceID: m.instanceID, clientID: m.clientID, clientHost: m.clientHost,
			rebalanceTimeout: m.rebalanceTimeout, sessionTimeout: m.sessionTimeout,
			subscription: metadataFor(m.protocols, g.protocol), assignment: m.assignment,
		}
	}
	return r
}

// encode returns the record. Kafka: GroupCoordinatorRecordHelpers.newGroupMetadataRecord.
func (r *classicRecord) encode() logRecord {
	v := kmsg.NewGroupMetadataValue()
	v.Version, v.ProtocolType, v.Generation, v.CurrentStateTimestamp = groupMetadataVersion, r.groupType, r.generation, r.sinceMs
	v.Protocol, v.Leader = nullable(r.protocol), nullable(r.leader)
	v.Members = make([]kmsg.GroupMetadataValueMember, len(r.members))
	for i, m := range r.members {
		o := &v.Members[i]
		o.MemberID, o.InstanceID, o.ClientID, o.ClientHost = m.id, m.instanceID, m.clientID, m.clientHost
		o.RebalanceTimeoutMillis, o.SessionTimeoutMillis = int32(m.rebalanceTimeout.Milliseconds()), int32(m.sessionTimeout.Milliseconds())
		o.Subscription, o.Assignment = m.subscription, m.assignment
	}
	return logRecord{key: classicKey(r.group), value: v.AppendTo(nil)}
}

// nullable is s, or null for "".
func nullable(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// classicKey is the key of a classic group's record.
func classicKey(group string) []byte {
	key := kmsg.GroupMetadataKey{Version: typeGroupMetadata, Group: group}
	return key.AppendTo(nil)
}

// tombstones remove the group's record.
func (g *classicGroup) tombstones() []logRecord { return []logRecord{{key: classicKey(g.id)}} }

// parseClassicRecord reads the record of a classic group. It is nil when the group is
// removed. It shares no bytes with value.
func parseClassicRecord(key, value []byte) (group string, r *classicRecord, err error) {
	var k kmsg.GroupMetadataKey
	if err := k.ReadFrom(key); err != nil {
		return "", nil, fmt.Errorf("group key of %d bytes: %w", len(key), err)
	}
	if value == nil {
		return k.Group, nil, nil
	}
	if len(value) < 2 {
		return "", nil, fmt.Errorf("group value of %d bytes, want at least 2", len(value))
	}
	if v := binary.BigEndian.Uint16(value); v > maxGroupMetadataVersion {
		return "", nil, fmt.Errorf("group value of version %d, want 0 to %d", v, maxGroupMetadataVersion)
	}
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return "", nil, fmt.Errorf("group value of %d bytes: %w", len(value), err)
	}
	r = &classicRecord{
		group: k.Group, groupType: v.ProtocolType, generation: v.Generation, sinceMs: v.CurrentStateTimestamp,
		members: make([]classicRecordMember, len(v.Members)),
	}
	if v.Protocol != nil {
		r.protocol = *v.Protocol
	}
	if v.Leader != nil {
		r.leader = *v.Leader
	}
	seen := make(map[string]bool, len(v.Members))
	for i, m := range v.Members {
		if seen[m.MemberID] {
			return "", nil, fmt.Errorf("group value with member %q twice", m.MemberID)
		}
		seen[m.MemberID] = true
		if v.Version < 1 || m.RebalanceTimeoutMillis == -1 {
			m.RebalanceTimeoutMillis = m.SessionTimeoutMillis
		}
		r.members[i] = classicRecordMember{
			id: m.MemberID, instanceID: m.InstanceID, clientID: m.ClientID, clientHost: m.ClientHost,
			rebalanceTimeout: time.Duration(m.RebalanceTimeoutMillis) * time.Millisecond,
			sessionTimeout:   time.Duration(m.SessionTimeoutMillis) * time.Millisecond,
			subscription:     bytes.Clone(m.Subscription), assignment: bytes.Clone(m.Assignment),
		}
	}
	return k.Group, r, nil
}
