package groups

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ConsumerHeartbeatRequest is what a member of a consumer group says. What is nil,
// or -1, is as the member said last.
type ConsumerHeartbeatRequest struct {
	Group    string
	MemberID string
	// MemberEpoch is what the last answer said; 0 to join, -1 to leave, -2 for a static
	// member that will be back.
	MemberEpoch        int32
	InstanceID         *string
	RackID             *string
	RebalanceTimeoutMs int32
	Topics             []string // the group sorts them
	Regex              *string
	Assignor           *string
	// Owned is what the member has at present.
	Owned []TopicPartitions

	ClientID   string
	ClientHost string // "/" and the address
	// OwnMemberID says that the client makes its member id itself (version 1 and later).
	OwnMemberID bool
	// MaySee says whether the client may see a topic that a regular expression matches;
	// nil when it may see all.
	MaySee func(topic string) bool
}

// ConsumerHeartbeat is the answer to a member.
type ConsumerHeartbeat struct {
	MemberID          string
	MemberEpoch       int32
	HeartbeatInterval time.Duration // 0 for a member that leaves
	// Assigned is what the member may have, in the order of the topics' ids; nil when
	// that is as the member knows it.
	Assigned []TopicPartitions
}

// ServesConsumerGroups says whether the consumer protocol is enabled. Kafka:
// group.coordinator.rebalance.protocols.
func (c *Coordinator) ServesConsumerGroups() bool { return !c.o.Config.ConsumerProtocolRefused }

// ConsumerGroupHeartbeat is how a member joins a consumer group, stays in it, takes
// and gives up partitions, and leaves. It blocks until what it changes is durable, or
// the end of ctx.
//
// Kafka: GroupCoordinatorService.consumerGroupHeartbeat.
func (c *Coordinator) ConsumerGroupHeartbeat(ctx context.Context, r *ConsumerHeartbeatRequest) (ConsumerHeartbeat, error) {
	if err := r.check(&c.o.Config); err != nil {
		return ConsumerHeartbeat{}, err
	}
	return call(ctx, c, r.Group, func(now time.Time, s *shard, e *entry, reply func(ConsumerHeartbeat, error)) step {
		return s.consumerHeartbeat(now, e, r, reply)
	})
}

// check says what is wrong with a request by itself. Kafka:
// GroupCoordinatorService.throwIfConsumerGroupHeartbeatRequestIsInvalid.
func (r *ConsumerHeartbeatRequest) check(config *Config) error {
	empty := func(s *string) bool { return s != nil && blank(*s) }
	invalid := func(text string) error { return fmt.Errorf("%s: %w", text, ErrInvalidRequest) }
	switch {
	case blank(r.MemberID) && (r.OwnMemberID || r.MemberEpoch > joiningEpoch || r.MemberEpoch == leavingEpoch):
		return invalid("member id is empty")
	case blank(r.Group):
		return invalid("group id is empty")
	case empty(r.InstanceID):
		return invalid("instance id is empty")
	case empty(r.RackID):
		return invalid("rack id is empty")
	case r.MemberEpoch == joiningEpoch && r.RebalanceTimeoutMs == -1:
		return invalid("no rebalance timeout from a member that joins")
	case r.MemberEpoch == joiningEpoch && (r.Owned == nil || len(r.Owned) > 0):
		return invalid(fmt.Sprintf("partitions of %d topics from a member that joins, want an empty list", len(r.Owned)))
	case r.MemberEpoch == joiningEpoch && r.Topics == nil && r.Regex == nil:
		return invalid("neither topics nor a regular expression from a member that joins")
	case r.MemberEpoch == staticAwayEpoch && r.InstanceID == nil:
		return invalid("member epoch -2 without an instance id")
	case r.MemberEpoch < staticAwayEpoch:
		return invalid(fmt.Sprintf("member epoch %d, want at least -2", r.MemberEpoch))
	}
	if err := tooLong(r.MemberID); err != nil {
		return invalid("member id of " + err.Error())
	}
	if r.Regex != nil {
		if err := tooLong(*r.Regex); err != nil {
			return invalid("regular expression of " + err.Error())
		}
	}
	if r.Assignor != nil && !slices.Contains(config.ConsumerAssignors, *r.Assignor) {
		return fmt.Errorf("assignor %q, want one of %s: %w", *r.Assignor, strings.Join(config.ConsumerAssignors, ", "), ErrUnsupportedAssignor)
	}
	return nil
}

// consumerHeartbeat finds the group of a heartbeat, and makes it for a member that
// joins: also out of an empty group of another type, or of a classic group of
// consumers. Kafka: GroupMetadataManager.getOrMaybeCreateConsumerGroup.
func (s *shard) consumerHeartbeat(now time.Time, e *entry, r *ConsumerHeartbeatRequest, reply func(ConsumerHeartbeat, error)) step {
	refuse := func(err error) step {
		reply(ConsumerHeartbeat{}, err)
		return step{}
	}
	var old machine
	if e != nil {
		old = e.machine
	}
	if g, ok := old.(*consumerGroup); ok {
		return g.heartbeat(now, r, reply)
	}
	if r.MemberEpoch != joiningEpoch {
		return refuse(fmt.Errorf("group %q is not a consumer group: %w", r.Group, ErrGroupIDNotFound))
	}
	g := newConsumerGroup(r.Group, s.env)
	var before []logRecord // what has to go, and what takes its place
	switch old := old.(type) {
	case nil:
	case *classicGroup:
		before = old.tombstones()
		if old.current != classicEmpty {
			records, err := g.takeOver(old)
			if err != nil {
				return refuse(err)
			}
			before = append(before, records...)
		}
	default:
		return refuse(fmt.Errorf("group %q is a %s group: %w", r.Group, old.kind(), ErrGroupIDNotFound))
	}
	st := g.heartbeat(now, r, reply)
	if len(st.records) == 0 {
		return st // refused
	}
	st.records = slices.Concat(before, st.records)
	then := st.then
	st.then = func(now time.Time, err error) step {
		if err == nil {
			if classic, ok := old.(*classicGroup); ok {
				g.startClassicSessions(now)
				classic.abandon()
			}
			g.enter(s.ensure(r.Group))
		}
		return then(now, err)
	}
	return st
}

// heartbeat is a ConsumerGroupHeartbeat call. Kafka:
// GroupMetadataManager.consumerGroupHeartbeat.
func (g *consumerGroup) heartbeat(now time.Time, r *ConsumerHeartbeatRequest, reply func(ConsumerHeartbeat, error)) step {
	c := consumerChange{g: g, now: now, epoch: g.epoch}
	var answer ConsumerHeartbeat
	var err error
	if r.MemberEpoch < joiningEpoch {
		answer, err = c.leave(r)
	} else {
		answer, err = c.beat(r)
	}
	if err != nil {
		reply(ConsumerHeartbeat{}, err)
		return step{}
	}
	return c.step(func(err error) {
		if err != nil {
			answer = ConsumerHeartbeat{}
		}
		reply(answer, err)
	})
}

// beat is the heartbeat of a member that stays or joins.
func (c *consumerChange) beat(r *ConsumerHeartbeatRequest) (ConsumerHeartbeat, error) {
	joins := r.MemberEpoch == joiningEpoch
	if err := c.g.checkRoom(r.MemberID, r.InstanceID); err != nil {
		return ConsumerHeartbeat{}, err
	}
	id := r.MemberID
	if id == "" {
		id = c.g.env.newUUID()
	}
	old, err := c.find(id, r.InstanceID, joins, false)
	if err == nil && !joins {
		err = checkEpoch(old, r)
	}
	if err != nil {
		return ConsumerHeartbeat{}, err
	}
	m := *old
	r.update(&m.memberMetadata)
	namesChanged := c.setMember(old, &m)
	regexChanged, resolved, err := c.setRegex(old, &m, r.MaySee)
	if err != nil {
		return ConsumerHeartbeat{}, err
	}
	bump := namesChanged || resolved || c.assignorChanges(old, &m)
	c.setSubscription(bump)
	targetEpoch, target, err := c.setTarget(&m)
	if err != nil {
		return ConsumerHeartbeat{}, err
	}
	if err := c.reconcile(&m, targetEpoch, target, namesChanged || regexChanged, r.Owned); err != nil {
		return ConsumerHeartbeat{}, err
	}
	config := c.g.config()
	c.deadline(id, func(d *memberDeadlines, now time.Time) { d.session = now.Add(config.ConsumerSessionTimeout) })

	answer := ConsumerHeartbeat{MemberID: id, MemberEpoch: m.epoch, HeartbeatInterval: config.ConsumerHeartbeatInterval}
	if joins || r.full() || !old.assigned.equal(m.assigned) {
		answer.Assigned = listed(m.assigned.partitions())
	}
	return answer, nil
}

// full says whether a request holds all that a member ever says, as after an error.
func (r *ConsumerHeartbeatRequest) full() bool {
	return r.RebalanceTimeoutMs != -1 && (r.Topics != nil || r.Regex != nil) && r.Owned != nil
}

// update takes over what a member says.
func (r *ConsumerHeartbeatRequest) update(m *memberMetadata) {
	set := func(to **string, s *string) {
		if s != nil {
			*to = s
		}
	}
	set(&m.instanceID, r.InstanceID)
	set(&m.rackID, r.RackID)
	set(&m.assignor, r.Assignor)
	if r.RebalanceTimeoutMs != -1 {
		m.rebalanceTimeoutMs = r.RebalanceTimeoutMs
	}
	if r.Topics != nil {
		m.topics = sortedSet(slices.Clone(r.Topics))
	}
	if r.Regex != nil {
		m.regex = *r.Regex
	}
	m.clientID, m.clientHost, m.classic = r.ClientID, r.ClientHost, nil
}

// checkRoom refuses who would be one member too many. A static member that is known
// takes its own place. Kafka: GroupMetadataManager.throwIfConsumerGroupIsFull.
func (g *consumerGroup) checkRoom(memberID string, instanceID *string) error {
	if instanceID != nil && g.staticMember(*instanceID) != nil {
		return nil
	}
	if most := g.env.config.ConsumerMaxSize; len(g.members) >= most && g.members[memberID] == nil {
		return fmt.Errorf("%d members, want at most %d: %w", len(g.members), most, ErrGroupMaxSize)
	}
	return nil
}

// checkEpoch fences a member that does not know its epoch. One that did not hear that
// its epoch rose may say the previous, as long as it has nothing that it must not have.
// Kafka: GroupMetadataManager.throwIfConsumerGroupMemberEpochIsInvalid.
func checkEpoch(m *consumerMember, r *ConsumerHeartbeatRequest) error {
	if r.MemberEpoch == m.epoch || r.MemberEpoch < m.epoch && r.MemberEpoch == m.previousEpoch && ownsOnly(r.Owned, m.assigned) {
		return nil
	}
	return fmt.Errorf("member epoch %d, want %d: %w", r.MemberEpoch, m.epoch, ErrFencedMemberEpoch)
}

// ownsOnly says whether a member has told what it owns, and that is assigned to it.
func ownsOnly(owned []TopicPartitions, assigned partitionEpochs) bool {
	if owned == nil {
		return false
	}
	for _, t := range owned {
		if assigned[t.TopicID] == nil {
			return false
		}
		for _, p := range t.Partitions {
			if !assigned.has(t.TopicID, p) {
				return false
			}
		}
	}
	return true
}
