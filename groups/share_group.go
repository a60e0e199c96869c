package groups

import (
	"fmt"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/assignor"
)

// shareGroup is the membership of a share group (KIP-932), in which a partition may have
// several members. It is a machine. Members have nothing to give up before others may
// have it: each takes over its target with its next heartbeat. What a member may read
// of a partition is decided where the partition is (package share), once the state of
// it is made; until then the partition is not assigned. Kafka: ShareGroup and the
// shareGroup methods of GroupMetadataManager.
//
// What the log holds (modernRecord) changes only by apply: when a step's records are
// durable, and when they are read back.
type shareGroup struct {
	modernGroup[shareMember]

	// What the log holds.
	states *shareStates // nil when no partition has a state, nor is to have one

	// What a restart may forget.
	sessions map[string]time.Time // when a member is removed unless it shows a sign of life
	statesAt time.Time            // when states became what it is
}

// shareProtocolType is what ListGroups says of a share group.
const shareProtocolType = "share"

// The states of a share group by their names on the wire. Kafka: ShareGroupState.
const (
	shareEmpty  = "Empty"
	shareStable = "Stable"
)

func newShareGroup(id string, env *env) *shareGroup {
	return &shareGroup{modernGroup: newModernGroup(id, env, newShareMember), sessions: map[string]time.Time{}}
}

// findShare returns the share group of an entry, or why there is none.
func findShare(e *entry, group string) (*shareGroup, error) {
	switch g := e.share(); {
	case g != nil:
		return g, nil
	case e != nil:
		return nil, fmt.Errorf("group %s is not a share group: %w", group, ErrGroupIDNotFound)
	}
	return nil, fmt.Errorf("group %s not found: %w", group, ErrGroupIDNotFound)
}

func (g *shareGroup) kind() Kind { return KindShare }

func (g *shareGroup) protocolType() string { return shareProtocolType }

func (g *shareGroup) state() string {
	if len(g.members) == 0 {
		return shareEmpty
	}
	return shareStable
}

// apply makes a record count from now on.
func (g *shareGroup) apply(now time.Time, r modernRecord) {
	switch b := r.body.(type) {
	case shareEpochBody:
		g.epoch, g.metadataHash = b.epoch, b.hash
	case *shareMetadata:
		g.members[r.name] = &shareMember{id: r.name, shareMetadata: *b, shareAssignment: g.orNew(r.name).shareAssignment}
	case targetEpochBody:
		g.targetEpoch, g.targetMs = b.epoch, b.timeMs
	case targetBody:
		g.target[r.name] = b.partitions
	case *shareAssignment:
		g.members[r.name] = &shareMember{id: r.name, shareMetadata: g.orNew(r.name).shareMetadata, shareAssignment: *b}
	case *shareStates:
		g.states, g.statesAt = b, now
	case nil:
		g.applyTombstone(r)
	}
}

func (g *shareGroup) applyTombstone(r modernRecord) {
	switch r.kind {
	case typeShareMember:
		delete(g.members, r.name)
		delete(g.sessions, r.name)
	case typeShareTargetEpoch:
		g.targetEpoch, g.targetMs = -1, 0
	case typeShareTarget:
		delete(g.target, r.name)
	case typeShareCurrent:
		if m := g.members[r.name]; m != nil {
			gone := shareAssignment{epoch: leavingEpoch, previousEpoch: leavingEpoch}
			g.members[r.name] = &shareMember{id: m.id, shareMetadata: m.shareMetadata, shareAssignment: gone}
		}
	case typeShareStates:
		g.states = nil
	}
}

// next is when the first session ends.
func (g *shareGroup) next() time.Time {
	_, at := g.earliest()
	return at
}

// earliest returns whose session ends first.
func (g *shareGroup) earliest() (id string, at time.Time) {
	for member, t := range g.sessions {
		if at.IsZero() || t.Before(at) || t.Equal(at) && member < id {
			id, at = member, t
		}
	}
	return id, at
}

// tick removes the members whose session is over, one after the other.
func (g *shareGroup) tick(now time.Time) step {
	id, at := g.earliest()
	if at.IsZero() || at.After(now) {
		return step{}
	}
	c := shareChange{g: g, now: now}
	c.fence(g.orNew(id))
	st := c.step(func(error) {})
	then := st.then
	st.then = func(now time.Time, err error) step {
		then(now, err)
		if err != nil {
			return step{} // the owner asks again
		}
		return g.tick(now)
	}
	return st
}

// loaded gives every member a new session: nobody could show a sign of life. Kafka:
// GroupMetadataManager.onLoaded.
func (g *shareGroup) loaded(now time.Time) step {
	g.statesAt = now
	for id := range g.members {
		g.sessions[id] = now.Add(g.config().ShareSessionTimeout)
	}
	return step{}
}

// tombstones remove the group. Kafka: ShareGroup.createGroupTombstoneRecords.
func (g *shareGroup) tombstones() []logRecord {
	var out []logRecord
	ids := g.memberIDs()
	each := func(kind int16) {
		for _, id := range ids {
			out = append(out, modernRecord{kind: kind, name: id}.encode(g.id))
		}
	}
	each(typeShareCurrent)
	each(typeShareTarget)
	out = append(out, modernRecord{kind: typeShareTargetEpoch}.encode(g.id))
	each(typeShareMember)
	return append(out, modernRecord{kind: typeShareStates}.encode(g.id), modernRecord{kind: typeShareEpoch}.encode(g.id))
}

// noOffsets refuses what is about committed offsets, which share groups do not have.
func (g *shareGroup) noOffsets() error {
	return fmt.Errorf("group %s is a share group: %w", g.id, ErrGroupIDNotFound)
}

func (g *shareGroup) checkCommit(time.Time, *CommitRequest, []error) error {
	return g.noOffsets()
}
func (g *shareGroup) checkFetch(*string, int32) error { return g.noOffsets() }
func (g *shareGroup) checkOffsetDelete() error        { return g.noOffsets() }

// subscribed says whether a member consumes a topic.
func (g *shareGroup) subscribed(topic string) bool {
	for _, m := range g.members {
		if _, ok := slices.BinarySearch(m.topics, topic); ok {
			return true
		}
	}
	return false
}

// expires: a share group has no offsets that could. It is not removed for its age
// either; see expireStep.
func (g *shareGroup) expires(string, int64, time.Duration) (time.Time, bool) {
	return time.Time{}, false
}

// shareMember is a member of a share group. It is not changed: one that differs takes
// its place. Kafka: ShareGroupMember.
type shareMember struct {
	id string
	shareMetadata
	shareAssignment
}

// shareMetadata is what a member says of itself. Topics are sorted, each once.
type shareMetadata struct {
	rackID               *string
	clientID, clientHost string
	topics               []string
}

// shareAssignment is what a member has, and since which epochs.
type shareAssignment struct {
	epoch, previousEpoch int32
	state                memberState // always memberStable, as Kafka writes it
	assigned             assignor.Partitions
}

// newShareMember is a member that nothing is known of.
func newShareMember(id string) *shareMember {
	return &shareMember{id: id, shareAssignment: shareAssignment{previousEpoch: noPreviousEpoch, assigned: assignor.Partitions{}}}
}

func (m *shareMetadata) equal(o *shareMetadata) bool {
	return equalStrings(m.rackID, o.rackID) && m.clientID == o.clientID && m.clientHost == o.clientHost && slices.Equal(m.topics, o.topics)
}

func (a *shareAssignment) equal(o *shareAssignment) bool {
	return a.epoch == o.epoch && a.previousEpoch == o.previousEpoch && a.state == o.state && a.assigned.Equal(o.assigned)
}
