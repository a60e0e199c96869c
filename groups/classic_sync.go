package groups

import (
	"fmt"
	"time"
)

// SyncRequest is what a member says to learn its assignment; the leader brings those
// of all.
type SyncRequest struct {
	Group      string
	Generation int32
	MemberID   string
	InstanceID *string
	// ProtocolType and Protocol must be the group's where they are not nil (version 5 and later).
	ProtocolType *string
	Protocol     *string
	Assignments  []Assignment // the group keeps them
}

// Assignment is a member's part.
type Assignment struct {
	MemberID string
	Bytes    []byte
}

// SyncReply is the answer to a sync.
type SyncReply struct {
	ProtocolType string
	Protocol     string
	Assignment   []byte
}

// sync is a SyncGroup call. Kafka: GroupMetadataManager.classicGroupSyncToClassicGroup.
func (g *classicGroup) sync(now time.Time, r *SyncRequest, reply func(SyncReply, error)) step {
	if err := g.checkSync(r); err != nil {
		reply(SyncReply{}, err)
		return step{}
	}
	m := g.byID[r.MemberID]
	g.synced(m)
	if g.current == classicStable {
		reply(g.assigned(m), nil)
		return step{}
	}
	// An earlier sync of the member is answered: its client has sent another since.
	// Differs from Kafka: there the earlier is never answered.
	g.answerSync(m, SyncReply{}, ErrRebalanceInProgress)
	m.sync = reply
	if g.leader != m.id {
		return step{}
	}
	return g.storeAssignments(r)
}

// checkSync says why a sync is refused. Kafka: GroupMetadataManager.validateSyncGroup.
func (g *classicGroup) checkSync(r *SyncRequest) error {
	if g.current == classicEmpty {
		return ErrUnknownMemberID
	}
	if err := g.check(r.MemberID, r.InstanceID); err != nil {
		return err
	}
	switch {
	case r.Generation != g.generation:
		return fmt.Errorf("generation %d, want %d: %w", r.Generation, g.generation, ErrIllegalGeneration)
	case r.ProtocolType != nil && *r.ProtocolType != g.groupType:
		return fmt.Errorf("protocol type %q, want %q: %w", *r.ProtocolType, g.groupType, ErrInconsistentProtocol)
	case r.Protocol != nil && g.protocol != "" && *r.Protocol != g.protocol:
		return fmt.Errorf("protocol %q, want %q: %w", *r.Protocol, g.protocol, ErrInconsistentProtocol)
	case g.current == classicPreparing:
		return ErrRebalanceInProgress
	}
	return nil
}

// storeAssignments writes what the leader has assigned and then gives it to the
// members; who was given nothing has an empty assignment. When it cannot be written,
// everybody is told and has to join again.
func (g *classicGroup) storeAssignments(r *SyncRequest) step {
	assignments := make(map[string][]byte, len(r.Assignments))
	for _, a := range r.Assignments {
		assignments[a.MemberID] = a.Bytes
	}
	rec := g.record()
	for i := range rec.members {
		rec.members[i].assignment = assignments[rec.members[i].id]
	}
	return step{records: []logRecord{rec.encode()}, then: func(now time.Time, err error) step {
		if err != nil {
			g.dropAssignments(now, err)
			return g.prepareRebalance(now)
		}
		for _, m := range g.members {
			m.assignment = assignments[m.id]
			if g.answerSync(m, g.assigned(m), nil) {
				m.renew(now) // its session may have ended while it was parked
			}
		}
		g.transition(now, classicStable)
		return step{}
	}}
}

// assigned is the answer for a member of a stable group.
func (g *classicGroup) assigned(m *classicMember) SyncReply {
	return SyncReply{ProtocolType: g.groupType, Protocol: g.protocol, Assignment: m.assignment}
}
