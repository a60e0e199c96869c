package groups

import "time"

// memberDeadlines are when a member is removed, unless it does what it has to; zero
// for never.
type memberDeadlines struct {
	session time.Time // no sign of life
	// revoke: it has not given up, at revokeEpoch, what it must.
	revoke      time.Time
	revokeEpoch int32
	// A member of the classic protocol has to join once it was told so, and to sync once
	// it has joined.
	join, sync time.Time
}

// next returns the earliest.
func (d *memberDeadlines) next() (at time.Time) {
	for _, t := range [...]time.Time{d.session, d.revoke, d.join, d.sync} {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	return at
}

// deadlinesOf returns the deadlines of a member, none at first.
func (g *consumerGroup) deadlinesOf(id string) *memberDeadlines {
	d := g.deadlines[id]
	if d == nil {
		d = &memberDeadlines{}
		g.deadlines[id] = d
	}
	return d
}

func (g *consumerGroup) next() time.Time {
	_, at := g.earliest()
	return at
}

// earliest returns whose deadline comes first.
func (g *consumerGroup) earliest() (id string, at time.Time) {
	for member, d := range g.deadlines {
		t := d.next()
		if !t.IsZero() && (at.IsZero() || t.Before(at) || t.Equal(at) && member < id) {
			id, at = member, t
		}
	}
	return id, at
}

// tick removes the members whose time is over, one after the other.
func (g *consumerGroup) tick(now time.Time) step {
	for {
		id, at := g.earliest()
		if at.IsZero() || at.After(now) {
			return step{}
		}
		m, d := g.members[id], g.deadlines[id]
		if m == nil {
			delete(g.deadlines, id)
			continue
		}
		if at.Equal(d.revoke) && d.revokeEpoch != m.epoch {
			d.revoke = time.Time{} // it has gone on
			continue
		}
		c := consumerChange{g: g, now: now, epoch: g.epoch}
		if err := c.fence(m); err != nil {
			// The group cannot become what is left of it; see downgrade.
			d.session, d.revoke, d.join, d.sync = now.Add(g.config().ConsumerSessionTimeout), time.Time{}, time.Time{}, time.Time{}
			continue
		}
		if c.follows == nil {
			c.follows = g.tick
		}
		return c.step(func(error) {})
	}
}

// loaded gives every member a new session: nobody could show a sign of life. Kafka:
// GroupMetadataManager.onLoaded.
func (g *consumerGroup) loaded(now time.Time) step {
	g.startSessions(now)
	return step{}
}

// startSessions begins the sessions of all members.
func (g *consumerGroup) startSessions(now time.Time) {
	for id, m := range g.members {
		d := &memberDeadlines{session: now.Add(g.config().ConsumerSessionTimeout)}
		if m.state == memberUnrevoked {
			d.revoke, d.revokeEpoch = now.Add(m.rebalanceTimeout()), m.epoch
		}
		g.deadlines[id] = d
	}
}
