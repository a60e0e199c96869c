package groups

import (
	"fmt"
	"time"
)

// HeartbeatRequest is a member's sign of life.
type HeartbeatRequest struct {
	Group      string
	Generation int32
	MemberID   string
	InstanceID *string
}

// heartbeat is a Heartbeat call. Kafka:
// GroupMetadataManager.classicGroupHeartbeatToClassicGroup.
func (g *classicGroup) heartbeat(now time.Time, r *HeartbeatRequest) error {
	if err := g.check(r.MemberID, r.InstanceID); err != nil {
		return err
	}
	if r.Generation != g.generation {
		return fmt.Errorf("generation %d, want %d: %w", r.Generation, g.generation, ErrIllegalGeneration)
	}
	g.byID[r.MemberID].renew(now)
	if g.current == classicPreparing {
		return ErrRebalanceInProgress
	}
	return nil
}
