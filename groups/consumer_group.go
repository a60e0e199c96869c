package groups

import (
	"maps"
	"slices"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// consumerGroup is the membership of a group of the consumer protocol (KIP-848):
// members say what they want and what they have, the coordinator says what each is to
// have, and each gets there by its own heartbeats. It is a machine. Kafka:
// ConsumerGroup, ModernGroup and the consumerGroup methods of GroupMetadataManager.
//
// A member's epoch is that of the target it has reached, or is moving to once it has
// given up what it must.
//
// What the log holds (modernRecord) changes only by apply: when a step's records
// are durable, and when they are read back.
type consumerGroup struct {
	modernGroup[consumerMember]
	// become puts another machine in the group's place.
	become func(machine)

	// What the log holds.
	regexes   map[string]*resolvedRegex
	oldTopics bool // a record of type 4 is to be removed

	// What follows from it.
	// regexMembers counts the members of each regular expression.
	regexMembers map[string]int
	static       map[string]string                    // member ids by instance id
	owners       map[storage.TopicID]map[int32]string // who has a partition assigned or has to give it up

	// What a restart may forget.
	deadlines map[string]*memberDeadlines
	// resolvedAt is the version of the topics that regular expressions were last resolved at.
	resolvedAt topicsVersion
}

// The states of a consumer group by their names on the wire. Kafka: ConsumerGroupState.
const (
	consumerEmpty       = "Empty"
	consumerAssigning   = "Assigning"
	consumerReconciling = "Reconciling"
	consumerStable      = "Stable"
)

func newConsumerGroup(id string, env *env) *consumerGroup {
	return &consumerGroup{
		modernGroup: newModernGroup(id, env, newConsumerMember), become: func(machine) {},
		regexes:      map[string]*resolvedRegex{},
		regexMembers: map[string]int{}, static: map[string]string{}, owners: map[storage.TopicID]map[int32]string{},
		deadlines: map[string]*memberDeadlines{},
	}
}

// enter makes g the machine of e.
func (g *consumerGroup) enter(e *entry) {
	e.machine = g
	g.become = func(m machine) { e.machine = m }
}

func (g *consumerGroup) kind() Kind { return KindConsumer }

func (g *consumerGroup) protocolType() string { return consumerProtocolType }

// state follows from the epochs. Kafka: ConsumerGroup.maybeUpdateGroupState.
func (g *consumerGroup) state() string {
	switch {
	case len(g.members) == 0:
		return consumerEmpty
	case g.epoch > g.targetEpoch:
		return consumerAssigning
	}
	for _, m := range g.members {
		if !m.reconciledTo(g.targetEpoch) {
			return consumerReconciling
		}
	}
	return consumerStable
}

// staticMember returns the member of an instance id, nil when there is none.
func (g *consumerGroup) staticMember(instanceID string) *consumerMember {
	return g.members[g.static[instanceID]]
}

// owned says whether somebody has a partition, or has yet to give it up.
func (g *consumerGroup) owned(topic storage.TopicID, partition int32) bool {
	_, ok := g.owners[topic][partition]
	return ok
}

// apply makes a record count.
func (g *consumerGroup) apply(r modernRecord) {
	switch b := r.body.(type) {
	case epochBody:
		g.epoch, g.metadataHash = b.epoch, b.hash
	case topicsBody:
		g.oldTopics = true
	case *memberMetadata:
		g.put(&consumerMember{id: r.name, memberMetadata: *b, currentAssignment: g.orNew(r.name).currentAssignment})
	case targetEpochBody:
		g.targetEpoch, g.targetMs = b.epoch, b.timeMs
	case targetBody:
		g.target[r.name] = b.partitions
	case *currentAssignment:
		g.put(&consumerMember{id: r.name, memberMetadata: g.orNew(r.name).memberMetadata, currentAssignment: *b})
	case *resolvedRegex:
		g.regexes[r.name] = b
	case nil:
		g.applyTombstone(r)
	}
}

func (g *consumerGroup) applyTombstone(r modernRecord) {
	switch r.kind {
	case typeConsumerTopics:
		g.oldTopics = false
	case typeConsumerMember:
		g.forget(r.name)
	case typeConsumerTargetEpoch:
		g.targetEpoch, g.targetMs = -1, 0
	case typeConsumerTarget:
		delete(g.target, r.name)
	case typeConsumerCurrent:
		if m := g.members[r.name]; m != nil {
			g.put(&consumerMember{id: m.id, memberMetadata: m.memberMetadata, currentAssignment: currentAssignment{epoch: leavingEpoch, previousEpoch: leavingEpoch}})
		}
	case typeConsumerResolvedRegex:
		delete(g.regexes, r.name)
	}
}

// put makes m a member in the place of one with its id.
func (g *consumerGroup) put(m *consumerMember) {
	old := g.members[m.id]
	if old != nil {
		g.unlink(old)
	}
	g.members[m.id] = m
	countRegex(g.regexMembers, m.regex, 1)
	if m.instanceID != nil {
		g.static[*m.instanceID] = m.id
	}
	for _, p := range []partitionEpochs{m.assigned, m.revoking} {
		for topic, epochs := range p {
			if g.owners[topic] == nil {
				g.owners[topic] = map[int32]string{}
			}
			for partition := range epochs {
				g.owners[topic][partition] = m.id
			}
		}
	}
}

// forget removes a member.
func (g *consumerGroup) forget(id string) {
	if m := g.members[id]; m != nil {
		g.unlink(m)
		delete(g.members, id)
		delete(g.deadlines, id)
	}
}

// unlink takes back what follows from a member.
func (g *consumerGroup) unlink(m *consumerMember) {
	countRegex(g.regexMembers, m.regex, -1)
	if m.instanceID != nil && g.static[*m.instanceID] == m.id {
		delete(g.static, *m.instanceID)
	}
	for _, p := range []partitionEpochs{m.assigned, m.revoking} {
		for topic, epochs := range p {
			for partition := range epochs {
				if g.owners[topic][partition] == m.id {
					delete(g.owners[topic], partition)
				}
			}
			if len(g.owners[topic]) == 0 {
				delete(g.owners, topic)
			}
		}
	}
}

// countRegex adds n to the members of a regular expression, which "" is not.
func countRegex(counts map[string]int, regex string, n int) {
	if regex == "" {
		return
	}
	if counts[regex] += n; counts[regex] <= 0 {
		delete(counts, regex)
	}
}

// tombstones remove the group. Kafka: ConsumerGroup.createGroupTombstoneRecords.
func (g *consumerGroup) tombstones() []logRecord {
	var out []logRecord
	for _, r := range g.removal(func(id string) string { return id }) {
		out = append(out, r.encode(g.id))
	}
	return out
}

// removal is what removes the group; name says under which id the log has a member.
func (g *consumerGroup) removal(name func(id string) string) []modernRecord {
	var out []modernRecord
	ids := g.memberIDs()
	each := func(kind int16) {
		for _, id := range ids {
			out = append(out, modernRecord{kind: kind, name: name(id)})
		}
	}
	each(typeConsumerCurrent)
	each(typeConsumerTarget)
	out = append(out, modernRecord{kind: typeConsumerTargetEpoch})
	each(typeConsumerMember)
	for _, regex := range slices.Sorted(maps.Keys(g.regexes)) {
		out = append(out, modernRecord{kind: typeConsumerResolvedRegex, name: regex})
	}
	return append(out, modernRecord{kind: typeConsumerTopics}, modernRecord{kind: typeConsumerEpoch})
}

// checkOffsetDelete: offsets of topics that nobody consumes may always be deleted.
func (g *consumerGroup) checkOffsetDelete() error { return nil }

// subscribed says whether a member consumes a topic, by name or by a regular
// expression that matched it.
func (g *consumerGroup) subscribed(topic string) bool {
	for _, m := range g.members {
		if _, ok := slices.BinarySearch(m.topics, topic); ok {
			return true
		}
	}
	for _, r := range g.regexes {
		if _, ok := slices.BinarySearch(r.topics, topic); ok {
			return true
		}
	}
	return false
}

// expires: an offset is kept from its commit on, and while its topic is consumed.
func (g *consumerGroup) expires(topic string, commitMs int64, retention time.Duration) (time.Time, bool) {
	if g.subscribed(topic) {
		return time.Time{}, false
	}
	return time.UnixMilli(commitMs).Add(retention), true
}
