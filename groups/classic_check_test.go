package groups

import (
	"encoding/binary"
	"errors"
	"maps"
	"strings"
	"testing"
)

// checkClassicGroup checks what holds of a group between any two calls.
func checkClassicGroup(t *testing.T, g *classicGroup) {
	t.Helper()
	awaiting, static, supported := 0, 0, map[string]int{}
	for _, m := range g.members {
		if g.byID[m.id] != m {
			t.Errorf("member %s is not found by its id", m.id)
		}
		if m.instanceID != nil {
			if static++; g.static[*m.instanceID] != m {
				t.Errorf("member %s is not found by its instance %s", m.id, *m.instanceID)
			}
		}
		if m.join != nil {
			if awaiting++; g.current != classicPreparing {
				t.Errorf("join of %s is parked in state %s", m.id, g.current)
			}
		}
		if m.sync != nil && g.current != classicCompleting {
			t.Errorf("sync of %s is parked in state %s", m.id, g.current)
		}
		if g.pending.has(m.id) {
			t.Errorf("member %s is pending", m.id)
		}
		for _, p := range m.protocols {
			supported[p.Name]++
		}
	}
	if len(g.byID) != len(g.members) || len(g.static) != static || g.awaiting != awaiting {
		t.Errorf("%d members, %d by id, %d static, %d by instance, %d awaiting, %d counted", len(g.members), len(g.byID), static, len(g.static), awaiting, g.awaiting)
	}
	if !maps.Equal(supported, g.supported) {
		t.Errorf("members support %v, counted %v", supported, g.supported)
	}
	for id := range g.unsynced {
		if g.byID[id] == nil || g.current != classicCompleting && g.current != classicStable {
			t.Errorf("%s has to sync in state %s", id, g.current)
		}
	}
	if (g.current == classicEmpty) && len(g.members) > 0 || (g.current == classicCompleting || g.current == classicStable) && len(g.members) == 0 {
		t.Errorf("%d members in state %s", len(g.members), g.current)
	}
	if len(g.members) > 0 && g.byID[g.leader] == nil {
		t.Errorf("leader %q is no member", g.leader)
	}
	if g.current != classicPreparing && (!g.joinUntil.IsZero() || g.initial != nil) {
		t.Errorf("state %s waits for members", g.current)
	}
}

// subscription is what a consumer of the topics says, as of version 1; topics that
// are "-" make bytes that are no subscription.
func subscription(topics string) []byte {
	if topics == "-" {
		return []byte{0}
	}
	names := strings.Split(topics, "+")
	b := binary.BigEndian.AppendUint16(nil, 1)
	b = binary.BigEndian.AppendUint32(b, uint32(len(names)))
	for _, name := range names {
		b = binary.BigEndian.AppendUint16(b, uint16(len(name)))
		b = append(b, name...)
	}
	b = binary.BigEndian.AppendUint32(b, 1<<32-1) // no user data
	return binary.BigEndian.AppendUint32(b, 0)    // owns no partition
}

// kafkaName names an error as Kafka does.
func kafkaName(err error) string {
	names := []struct {
		err  error
		name string
	}{
		{nil, "NONE"}, {ErrUnknownMemberID, "UNKNOWN_MEMBER_ID"}, {ErrMemberIDRequired, "MEMBER_ID_REQUIRED"},
		{ErrFencedInstanceID, "FENCED_INSTANCE_ID"}, {ErrIllegalGeneration, "ILLEGAL_GENERATION"},
		{ErrRebalanceInProgress, "REBALANCE_IN_PROGRESS"}, {ErrInconsistentProtocol, "INCONSISTENT_GROUP_PROTOCOL"},
		{ErrGroupMaxSize, "GROUP_MAX_SIZE_REACHED"}, {ErrNonEmptyGroup, "NON_EMPTY_GROUP"},
		{ErrGroupIDNotFound, "GROUP_ID_NOT_FOUND"}, {ErrNotCoordinator, "NOT_COORDINATOR"},
	}
	for _, n := range names {
		if errors.Is(err, n.err) {
			return n.name
		}
	}
	return "unexpected: " + err.Error()
}
