package groups

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/zeebo/xxh3"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// modernGroup is what consumer and share groups have alike: the coordinator divides the
// partitions, and three epochs tell how far that is. The group's rises with every change
// of members, subscriptions and topics. The target's is the group epoch that the present
// target was made for. A member's is that of the target it has reached. M is a member.
// Kafka: ModernGroup.
type modernGroup[M any] struct {
	id  string
	env *env
	// newMember is a member that nothing is known of.
	newMember func(id string) *M

	// What the log holds.
	members      map[string]*M
	epoch        int32
	metadataHash uint64 // of the topics that the members consume; see hashTopics
	targetEpoch  int32
	targetMs     int64 // when the target was made; 0 when the next need not wait
	target       map[string]assignor.Partitions

	// hashedAt is the version of the topics that metadataHash was last compared at. A
	// restart may forget it.
	hashedAt topicsVersion
}

// topicsVersion is a version of the topics, or none yet.
type topicsVersion struct {
	known   bool
	version uint64
}

// is says whether nothing has changed since v.
func (v topicsVersion) is(now uint64) bool { return v.known && v.version == now }

const initialGroupEpoch = 1

func newModernGroup[M any](id string, env *env, newMember func(id string) *M) modernGroup[M] {
	return modernGroup[M]{
		id: id, env: env, newMember: newMember, members: map[string]*M{},
		epoch: initialGroupEpoch, targetEpoch: initialGroupEpoch, target: map[string]assignor.Partitions{},
	}
}

// member returns the named member.
func (g *modernGroup[M]) member(id string) (*M, error) {
	if m := g.members[id]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("member %q is not in group %q: %w", id, g.id, ErrUnknownMemberID)
}

// orNew returns the named member, or a new one of that name.
func (g *modernGroup[M]) orNew(id string) *M {
	if m := g.members[id]; m != nil {
		return m
	}
	return g.newMember(id)
}

// memberIDs returns the ids of the members in order.
func (g *modernGroup[M]) memberIDs() []string { return slices.Sorted(maps.Keys(g.members)) }

// checkDelete: only a group without members may be deleted.
func (g *modernGroup[M]) checkDelete() error {
	if len(g.members) > 0 {
		return fmt.Errorf("%d members: %w", len(g.members), ErrNonEmptyGroup)
	}
	return nil
}

// blank says whether a name in a heartbeat counts as empty: it has nothing but what
// Java's trim takes away. Kafka: Utils.throwIfEmptyString.
func blank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > ' ' })
}

// config is what applies to this group.
func (g *modernGroup[M]) config() GroupConfig { return g.env.config.Group(g.id) }

// mayAssign says whether the present target is old enough for another. Kafka:
// GroupMetadataManager.canComputeNextTargetAssignment.
func (g *modernGroup[M]) mayAssign(now time.Time, interval time.Duration) bool {
	return g.targetMs == 0 || interval == 0 || now.UnixMilli() >= g.targetMs+interval.Milliseconds()
}

// named gives partitions the names of their topics; what does not exist is left out.
func (g *modernGroup[M]) named(p assignor.Partitions) []NamedPartitions {
	out := make([]NamedPartitions, 0, len(p))
	for _, topic := range p.Topics() {
		if t, ok := g.env.topics.byID(topic); ok {
			out = append(out, NamedPartitions{TopicID: topic, Topic: t.name, Partitions: p[topic]})
		}
	}
	return out
}

// NamedPartitions are partitions of one topic.
type NamedPartitions struct {
	TopicID    storage.TopicID
	Topic      string
	Partitions []int32
}

// TopicPartitions are partitions of one topic.
type TopicPartitions struct {
	TopicID    storage.TopicID
	Partitions []int32
}

// listed returns partitions in the order of their topics' ids.
func listed(p assignor.Partitions) []TopicPartitions {
	out := make([]TopicPartitions, 0, len(p))
	for _, topic := range p.Topics() {
		out = append(out, TopicPartitions{TopicID: topic, Partitions: p[topic]})
	}
	return out
}

// hashTopics tells one state of the topics from another: their ids, names and numbers
// of partitions. It is 0 without topics. The replicas have no racks here. Kafka:
// Utils.computeGroupHash and computeTopicHash, with XXH3.
func (s *subscriptions) hashTopics(topics topicView) uint64 {
	var hashes []uint64
	for _, name := range s.topics() {
		if t, ok := topics.byName(name); ok {
			hashes = append(hashes, hashTopic(t))
		}
	}
	return hashGroup(hashes)
}

// hashGroup makes one hash of those of topics, which are in the order of their names.
func hashGroup(topics []uint64) uint64 {
	if len(topics) == 0 {
		return 0
	}
	b := make([]byte, 0, 8*len(topics))
	for _, hash := range topics {
		b = binary.LittleEndian.AppendUint64(b, hash)
	}
	return xxh3.Hash(b)
}

func hashTopic(t topicInfo) uint64 {
	b := make([]byte, 0, 64+4*int(t.partitions))
	b = append(b, 0) // the version of the hash
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.id[:8]))
	b = binary.LittleEndian.AppendUint64(b, binary.BigEndian.Uint64(t.id[8:]))
	units := utf16.Encode([]rune(t.name))
	for _, u := range units {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(units)))
	b = binary.LittleEndian.AppendUint32(b, uint32(t.partitions))
	for p := range t.partitions {
		b = binary.LittleEndian.AppendUint32(b, uint32(p))
	}
	return xxh3.Hash(b)
}
