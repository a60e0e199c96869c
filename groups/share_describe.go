package groups

import "time"

// shareAssignor is the name of assignor.Simple, which every share group has.
const shareAssignor = "simple"

// ShareGroupDescription is a share group as it is.
type ShareGroupDescription struct {
	State       string
	Epoch       int32
	TargetEpoch int32
	Assignor    string
	Members     []ShareGroupMember // by id
}

// ShareGroupMember is a member of a share group.
type ShareGroupMember struct {
	MemberID   string
	RackID     *string
	Epoch      int32
	ClientID   string
	ClientHost string
	Topics     []string
	Assigned   []NamedPartitions // without topics that do not exist any more
}

// ShareGroupDescribe tells of one share group. Errors: ErrInvalidGroupID,
// ErrGroupIDNotFound also for a group of another type, ErrLoading, ErrNotAvailable,
// ErrNotCoordinator.
//
// Kafka: GroupMetadataManager.shareGroupDescribe.
func (c *Coordinator) ShareGroupDescribe(group string) (ShareGroupDescription, error) {
	if group == "" {
		return ShareGroupDescription{}, ErrInvalidGroupID
	}
	return look(c, group, func(_ time.Time, _ *shard, e *entry) (ShareGroupDescription, error) {
		g, err := findShare(e, group)
		if err != nil {
			return ShareGroupDescription{}, err
		}
		return g.describe(), nil
	})
}

// describe tells of the group as it is. Kafka: ShareGroup.asDescribedGroup.
func (g *shareGroup) describe() ShareGroupDescription {
	d := ShareGroupDescription{
		State: g.state(), Epoch: g.epoch, TargetEpoch: g.targetEpoch,
		Assignor: shareAssignor, Members: make([]ShareGroupMember, 0, len(g.members)),
	}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		d.Members = append(d.Members, ShareGroupMember{
			MemberID: m.id, RackID: m.rackID, Epoch: m.epoch, ClientID: m.clientID, ClientHost: m.clientHost,
			Topics: m.topics, Assigned: g.named(m.assigned),
		})
	}
	return d
}
