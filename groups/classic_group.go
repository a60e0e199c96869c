package groups

import (
	"slices"
	"time"
)

// classicState is the state of a classic group by its name on the wire.
type classicState string

// The states. A group without members is Empty. PreparingRebalance waits for members
// to join, CompletingRebalance for the leader's assignment. Kafka: ClassicGroupState.
// Its Dead, for a group that its coordinator has let go, is a group that does not
// exist here.
const (
	classicEmpty      classicState = "Empty"
	classicPreparing  classicState = "PreparingRebalance"
	classicCompleting classicState = "CompletingRebalance"
	classicStable     classicState = "Stable"
	// classicDead is how a group that does not exist is described.
	classicDead classicState = "Dead"
)

// consumerProtocolType is the protocol type of consumers. Kafka: ConsumerProtocol.PROTOCOL_TYPE.
const consumerProtocolType = "consumer"

// newMemberJoinTimeout is how long the first join of a member is parked at most, so
// that clients which gave up do not pile up. Kafka: CLASSIC_GROUP_NEW_MEMBER_JOIN_TIMEOUT_MS.
const newMemberJoinTimeout = 5 * time.Minute

// classicGroup is the membership of a group of the classic protocol: members join,
// the coordinator picks a leader and a protocol, the leader assigns, each member
// syncs to get its part. It is a machine. Kafka: ClassicGroup and the classicGroup
// methods of GroupMetadataManager.
//
// What a crash may forget changes at once: who is joining, timers, a rebalance under
// way. What it must not, an assignment, a replaced static member, that a group has
// become empty, changes when its record is durable.
type classicGroup struct {
	id  string
	env *env

	current    classicState
	previous   classicState
	since      time.Time // when current began; zero when a record of before version 2 said nothing of it
	generation int32
	// groupType and protocol are what members agreed on; "" while they have not.
	groupType string
	protocol  string
	leader    string // "" without one

	members []*classicMember // in the order they joined
	byID    map[string]*classicMember
	static  map[string]*classicMember // by instance id
	pending pendingIDs
	// awaiting is how many members have a parked join.
	awaiting int
	// supported counts the members that support each protocol.
	supported map[string]int
	// topics are what the members of the generation consume; nil when that is not known.
	topics map[string]bool

	// joinUntil ends the wait for members to join; zero when there is none. An initial
	// wait may be extended: see initialJoinOver.
	joinUntil time.Time
	initial   *initialWait
	// newMember says that a member came during an initial wait.
	newMember bool
	// unsynced are the members that have not synced in this generation; syncUntil ends
	// the wait for them, and is zero when there is none.
	unsynced  map[string]bool
	syncUntil time.Time
}

// classicMember is a member of a classic group.
type classicMember struct {
	id         string
	instanceID *string // nil for a dynamic member
	clientID   string
	clientHost string // "/" and the address
	// rebalanceTimeout is how long a rebalance waits for the member.
	rebalanceTimeout time.Duration
	sessionTimeout   time.Duration
	protocols        []Protocol // in the order of preference, each name once
	assignment       []byte

	// isNew says that the member's first join is parked: then its session ends by
	// newMemberJoinTimeout, parked or not.
	isNew bool
	// join and sync answer the parked calls; nil without one.
	join func(JoinReply, error)
	sync func(SyncReply, error)
	// expires is when the session ends; zero when nothing ends it, since it ran out
	// while a call was parked.
	expires time.Time
}

// Protocol is a way to assign that a member supports.
type Protocol struct {
	Name     string
	Metadata []byte // the member's subscription, for the leader
}

func newClassicGroup(id string, env *env, now time.Time) *classicGroup {
	return &classicGroup{
		id: id, env: env, current: classicEmpty, previous: classicDead, since: now,
		byID: map[string]*classicMember{}, static: map[string]*classicMember{}, pending: newPendingIDs(),
		supported: map[string]int{}, unsynced: map[string]bool{},
	}
}

func (g *classicGroup) kind() Kind { return KindClassic }

func (g *classicGroup) state() string { return string(g.current) }

func (g *classicGroup) protocolType() string { return g.groupType }

// transition enters a state. Kafka: ClassicGroup.transitionTo.
func (g *classicGroup) transition(now time.Time, to classicState) {
	g.previous, g.current, g.since = g.current, to, now
}

// add makes m a member; its protocols go with the group's. Kafka: ClassicGroup.add.
func (g *classicGroup) add(m *classicMember) {
	if m.instanceID != nil {
		g.static[*m.instanceID] = m
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.byID[m.id] = m
	g.count(m, 1)
	if m.join != nil {
		g.awaiting++
	}
	g.pending.remove(m.id)
}

// remove forgets a member or a pending id. A call it has parked is answered: its
// client has to begin anew. The oldest member takes over from a leader. Kafka:
// ClassicGroup.remove.
func (g *classicGroup) remove(id string) {
	g.pending.remove(id)
	m := g.byID[id]
	if m == nil {
		return
	}
	g.answerJoin(m, JoinReply{}, ErrUnknownMemberID)
	// Differs from Kafka: there a parked sync of a member that leaves is never answered.
	g.answerSync(m, SyncReply{}, ErrUnknownMemberID)
	g.count(m, -1)
	delete(g.byID, id)
	delete(g.unsynced, id)
	if m.instanceID != nil && g.static[*m.instanceID] == m {
		delete(g.static, *m.instanceID)
	}
	i := slices.Index(g.members, m)
	g.members = slices.Delete(g.members, i, i+1)
	if g.leader == id {
		g.leader = ""
		if len(g.members) > 0 {
			g.leader = g.members[0].id
		}
	}
}

// replace gives a static member a new id. Who still uses the old one is fenced.
// Kafka: ClassicGroup.replaceStaticMember. Differs from it: there a member that was
// replaced before it synced brings about a rebalance when the wait for syncs ends.
func (g *classicGroup) replace(m *classicMember, id string) {
	g.answerJoin(m, JoinReply{MemberID: m.id}, ErrFencedInstanceID)
	g.answerSync(m, SyncReply{}, ErrFencedInstanceID)
	delete(g.byID, m.id)
	delete(g.unsynced, m.id)
	g.byID[id] = m
	if g.leader == m.id {
		g.leader = id
	}
	m.id, m.isNew = id, false
}

// update takes over what a member says of itself when it joins again. Kafka:
// ClassicGroup.updateMember.
func (g *classicGroup) update(m *classicMember, r *JoinRequest) {
	m.rebalanceTimeout, m.sessionTimeout = r.RebalanceTimeout, r.SessionTimeout
	g.setProtocols(m, r.Protocols)
}

// setProtocols changes what a member supports.
func (g *classicGroup) setProtocols(m *classicMember, protocols []Protocol) {
	g.count(m, -1)
	m.protocols = protocols
	g.count(m, 1)
}

// count adds n for each protocol of m.
func (g *classicGroup) count(m *classicMember, n int) {
	for _, p := range m.protocols {
		if g.supported[p.Name] += n; g.supported[p.Name] == 0 {
			delete(g.supported, p.Name)
		}
	}
}

// check says whether a member is who it says it is. Kafka: ClassicGroup.validateMember.
func (g *classicGroup) check(memberID string, instanceID *string) error {
	if instanceID != nil {
		m := g.static[*instanceID]
		switch {
		case m == nil:
			return ErrUnknownMemberID
		case m.id != memberID:
			return ErrFencedInstanceID
		}
	}
	if g.byID[memberID] == nil {
		return ErrUnknownMemberID
	}
	return nil
}

// park keeps the answer to a join until the rebalance is over. An earlier one of the
// same member is answered: its client has sent another since. Differs from Kafka:
// there the earlier is never answered.
func (g *classicGroup) park(m *classicMember, reply func(JoinReply, error)) {
	g.answerJoin(m, JoinReply{MemberID: m.id}, ErrRebalanceInProgress)
	m.join = reply
	g.awaiting++
}

// answerJoin answers a member's parked join, if it has one.
func (g *classicGroup) answerJoin(m *classicMember, r JoinReply, err error) {
	if reply := m.join; reply != nil {
		m.join = nil
		g.awaiting--
		reply(r, err)
	}
}

// answerSync answers a member's parked sync, and says whether it had one.
func (g *classicGroup) answerSync(m *classicMember, r SyncReply, err error) bool {
	reply := m.sync
	if reply == nil {
		return false
	}
	m.sync = nil
	reply(r, err)
	return true
}

// allJoined says whether nobody has to be waited for. Kafka: ClassicGroup.hasAllMembersJoined.
func (g *classicGroup) allJoined() bool {
	return g.awaiting == len(g.members) && g.pending.len() == 0
}

// rebalanceTimeout is the longest of the members'. Kafka: ClassicGroup.rebalanceTimeoutMs.
func (g *classicGroup) rebalanceTimeout() time.Duration {
	longest := time.Duration(0)
	for _, m := range g.members {
		longest = max(longest, m.rebalanceTimeout)
	}
	return longest
}

// renew begins a member's session anew.
func (m *classicMember) renew(now time.Time) { m.expires = now.Add(m.sessionTimeout) }

// metadataFor returns what is said for a protocol; nil when it is not among them.
func metadataFor(protocols []Protocol, name string) []byte {
	for _, p := range protocols {
		if p.Name == name {
			return p.Metadata
		}
	}
	return nil
}

// matches says whether the protocols, their order and what is said for each are what
// the member has said before. Kafka: ClassicGroupMember.matches.
func (m *classicMember) matches(protocols []Protocol) bool {
	return slices.EqualFunc(m.protocols, protocols, func(a, b Protocol) bool {
		return a.Name == b.Name && string(a.Metadata) == string(b.Metadata)
	})
}
