package groups

import (
	"fmt"
	"slices"
	"time"
)

// replayClassic applies a record of type 2: a classic group's metadata, removed by a
// nil value. What it keeps of its arguments it copies. Kafka: GroupMetadataManager.replay.
func (s *shard) replayClassic(key, value []byte) error {
	group, r, err := parseClassicRecord(key, value)
	if err != nil {
		return err
	}
	if r == nil {
		if e := s.entries[group]; e.classic() != nil {
			e.machine = nil
			s.dropEmpty(e)
		}
		return nil
	}
	g, err := r.restore(s.env)
	if err != nil {
		return err
	}
	s.ensure(group).machine = g
	return nil
}

// restore makes the group that a record tells of: it is stable, or empty.
func (r *classicRecord) restore(env *env) (*classicGroup, error) {
	g := newClassicGroup(r.group, env, time.Time{})
	if r.sinceMs >= 0 {
		g.since = time.UnixMilli(r.sinceMs)
	}
	g.generation, g.groupType, g.protocol = r.generation, r.groupType, r.protocol
	if slices.ContainsFunc(r.members, func(m classicRecordMember) bool { return m.id == r.leader }) {
		g.leader = r.leader
	}
	if len(r.members) > 0 {
		g.current = classicStable
	}
	for i := range r.members {
		m := &r.members[i]
		if m.instanceID != nil && g.static[*m.instanceID] != nil {
			return nil, fmt.Errorf("group value with instance %q twice", *m.instanceID)
		}
		g.add(&classicMember{
			id: m.id, instanceID: m.instanceID, clientID: m.clientID, clientHost: m.clientHost,
			rebalanceTimeout: m.rebalanceTimeout, sessionTimeout: m.sessionTimeout,
			protocols: []Protocol{{Name: r.protocol, Metadata: m.subscription}}, assignment: m.assignment,
		})
	}
	g.topics = g.subscriptions()
	return g, nil
}

// loaded gives every member a new session, so that those who live go on as if nothing
// had been. Kafka: GroupMetadataManager.onLoaded.
func (g *classicGroup) loaded(now time.Time) step {
	for _, m := range g.members {
		m.renew(now)
	}
	if len(g.members) > g.env.config.MaxSize {
		return g.prepareRebalance(now)
	}
	return step{}
}
