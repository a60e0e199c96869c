package groups

import (
	"slices"
	"time"
)

// initialWait is the first wait for members of a group that was empty, which is not
// over when all have joined: others are likely on their way. Kafka:
// group.initial.rebalance.delay.ms.
type initialWait struct {
	delay     time.Duration // how long this part of the wait is
	remaining time.Duration // by how much it may be extended
}

// minRetry is how long a rebalance that nobody has joined is waited for at least.
// Differs from Kafka: there a group whose members ask for no time tries without pause.
const minRetry = time.Second

// rebalance begins a rebalance, or sees whether the one under way can end. Kafka:
// GroupMetadataManager.maybePrepareRebalanceOrCompleteJoin.
func (g *classicGroup) rebalance(now time.Time) step {
	if g.current == classicPreparing {
		return g.maybeCompleteJoin(now)
	}
	return g.prepareRebalance(now)
}

// prepareRebalance has every member join again. Kafka: GroupMetadataManager.prepareRebalance.
func (g *classicGroup) prepareRebalance(now time.Time) step {
	if g.current == classicCompleting {
		g.dropAssignments(now, ErrRebalanceInProgress)
	}
	g.clearUnsynced()
	wasEmpty := g.current == classicEmpty
	g.transition(now, classicPreparing)
	if wasEmpty {
		delay := g.env.config.InitialRebalanceDelay
		g.initial = &initialWait{delay: delay, remaining: max(g.rebalanceTimeout()-delay, 0)}
		g.joinUntil = now.Add(delay)
		return step{}
	}
	g.initial = nil
	if g.allJoined() {
		return g.completeJoin(now)
	}
	g.joinUntil = now.Add(g.rebalanceTimeout())
	return step{}
}

// maybeCompleteJoin ends the wait for members when all are there, unless it is an
// initial one. Kafka: GroupMetadataManager.maybeCompleteJoinPhase.
func (g *classicGroup) maybeCompleteJoin(now time.Time) step {
	if g.current != classicPreparing || g.previous == classicEmpty || !g.allJoined() {
		return step{}
	}
	return g.completeJoin(now)
}

// joinOver is called when the wait for members has lasted as long as it may. An
// initial one is extended while new members come. Kafka:
// GroupMetadataManager.tryCompleteInitialRebalanceElseSchedule.
func (g *classicGroup) joinOver(now time.Time) step {
	w := g.initial
	if w == nil || !g.newMember || w.remaining == 0 {
		return g.completeJoin(now)
	}
	g.newMember = false
	next := min(g.env.config.InitialRebalanceDelay, w.remaining)
	w.remaining, w.delay = max(w.remaining-w.delay, 0), next
	g.joinUntil = now.Add(next)
	return step{}
}

// completeJoin makes a generation of those that have joined. Dynamic members that
// have not are removed; static ones stay until their session ends. Kafka:
// GroupMetadataManager.completeClassicGroupJoin.
func (g *classicGroup) completeJoin(now time.Time) step {
	g.joinUntil, g.initial = time.Time{}, nil
	for _, m := range slices.Clone(g.members) {
		if m.join == nil && m.instanceID == nil {
			g.remove(m.id)
		}
	}
	if len(g.members) == 0 {
		return g.becomeEmpty(now)
	}
	if !g.electLeader() {
		g.joinUntil = now.Add(max(g.rebalanceTimeout(), minRetry))
		return step{}
	}
	g.generation++
	g.protocol = g.selectProtocol()
	g.topics = g.subscriptions()
	g.transition(now, classicCompleting)
	g.clearUnsynced()
	for _, m := range g.members {
		g.answerJoin(m, g.joined(m), nil)
		m.renew(now)
		m.isNew, g.unsynced[m.id] = false, true
	}
	g.syncUntil = now.Add(g.rebalanceTimeout())
	return step{}
}

// electLeader makes a member that has joined the leader, unless it is one already.
// False when nobody has joined. Kafka: ClassicGroup.maybeElectNewJoinedLeader.
func (g *classicGroup) electLeader() bool {
	if m := g.byID[g.leader]; m != nil && m.join != nil {
		return true
	}
	for _, m := range g.members {
		if m.join != nil {
			g.leader = m.id
			return true
		}
	}
	return false
}

// becomeEmpty ends a rebalance that left no member. That the group is empty is
// stored; when that fails it is empty all the same, and a restart would find its last
// members, who have left, until their sessions end.
func (g *classicGroup) becomeEmpty(now time.Time) step {
	empty := g.record()
	empty.generation++
	empty.protocol, empty.leader, empty.sinceMs = "", "", now.UnixMilli()
	return step{
		records: []logRecord{empty.encode()},
		then: func(_ time.Time, _ error) step {
			g.generation++
			g.protocol, g.leader = "", ""
			g.topics = g.subscriptions()
			g.transition(now, classicEmpty)
			return step{}
		},
	}
}

// dropAssignments answers every parked sync with an error. Kafka:
// GroupMetadataManager.resetAndPropagateAssignmentWithError.
func (g *classicGroup) dropAssignments(now time.Time, err error) {
	for _, m := range g.members {
		m.assignment = nil
		if g.answerSync(m, SyncReply{}, err) {
			m.renew(now)
		}
	}
}

// clearUnsynced waits for no sync any more.
func (g *classicGroup) clearUnsynced() {
	g.syncUntil = time.Time{}
	clear(g.unsynced)
}

// synced notes that a member has synced; the wait is over with the last.
func (g *classicGroup) synced(m *classicMember) {
	delete(g.unsynced, m.id)
	if len(g.unsynced) == 0 {
		g.syncUntil = time.Time{}
	}
}

// syncOver removes the members that have not synced, as those whose leader is gone.
// Kafka: GroupMetadataManager.expirePendingSync.
func (g *classicGroup) syncOver(now time.Time) step {
	g.syncUntil = time.Time{}
	if len(g.unsynced) == 0 {
		return step{}
	}
	for _, m := range slices.Clone(g.members) {
		if g.unsynced[m.id] {
			g.remove(m.id)
		}
	}
	return g.prepareRebalance(now)
}

// sessionOver is called when a member's session, or the time of a pending id, has
// ended. Kafka: GroupMetadataManager.expireClassicGroupMemberHeartbeat.
func (g *classicGroup) sessionOver(now time.Time, id string) step {
	if m := g.byID[id]; m != nil {
		if !m.isNew && (m.join != nil || m.sync != nil) {
			m.expires = time.Time{} // it waits for the others, and gets a new session when they are there
			return step{}
		}
	}
	return g.removeAndRebalance(now, id)
}

// removeAndRebalance removes one member or pending id and does what follows from it.
// Kafka: GroupMetadataManager.removeMemberAndUpdateClassicGroup and
// removePendingMemberAndUpdateClassicGroup.
func (g *classicGroup) removeAndRebalance(now time.Time, id string) step {
	member := g.byID[id] != nil
	g.remove(id)
	switch {
	case g.current == classicPreparing && g.allJoined():
		return g.completeJoin(now) // also in an initial wait
	case member && (g.current == classicCompleting || g.current == classicStable):
		return g.prepareRebalance(now)
	}
	return step{}
}

// due is what a deadline is for.
type due int8

const (
	dueNothing due = iota
	dueJoin
	dueSync
	dueSession
)

// earliest returns what is due first, and whose it is if it is a session; a zero time
// when nothing will be.
func (g *classicGroup) earliest() (at time.Time, what due, id string) {
	if !g.joinUntil.IsZero() {
		at, what = g.joinUntil, dueJoin
	}
	if !g.syncUntil.IsZero() && (what == dueNothing || g.syncUntil.Before(at)) {
		at, what = g.syncUntil, dueSync
	}
	for _, m := range g.members {
		if !m.expires.IsZero() && (what == dueNothing || m.expires.Before(at)) {
			at, what, id = m.expires, dueSession, m.id
		}
	}
	if p := g.pending.first(); p != nil && (what == dueNothing || p.until.Before(at)) {
		at, what, id = p.until, dueSession, p.id
	}
	return at, what, id
}

func (g *classicGroup) next() time.Time {
	at, _, _ := g.earliest()
	return at
}

// tick does what is due, the earliest first, up to the first step that has records.
func (g *classicGroup) tick(now time.Time) step {
	for {
		at, what, id := g.earliest()
		if what == dueNothing || at.After(now) {
			return step{}
		}
		var st step
		switch what {
		case dueJoin:
			st = g.joinOver(now)
		case dueSync:
			st = g.syncOver(now)
		case dueSession:
			st = g.sessionOver(now, id)
		}
		if len(st.records) > 0 {
			return st
		}
	}
}
