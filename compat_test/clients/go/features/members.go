package features

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// members are those of one group in this process.
type members struct {
	name, topic string
	client      Client
	mode        Mode
	changed     chan struct{} // holds one when something changed since await looked

	mu  sync.Mutex // guards what the members own and have read
	all []*Member  // not guarded: used by the feature alone
}

// Member is a member of a group: what its consumer says that it owns and has read.
type Member struct {
	group    *members
	consumer Consumer

	// guarded by group.mu
	owned, revoked map[int]bool
	assignments    int
	read           []place
}

// place is where a record was read.
type place struct {
	partition int
	offset    int64
}

func newGroup(c Client, topic string, mode Mode) *members {
	return &members{name: topic + "-group", topic: topic, client: c, mode: mode, changed: make(chan struct{}, 1)}
}

// join adds a member; instance is empty but for a static one.
func (g *members) join(ctx context.Context, instance string) (*Member, error) {
	m := &Member{group: g, owned: map[int]bool{}, revoked: map[int]bool{}}
	mode := g.mode
	mode.Instance = instance
	var err error
	if m.consumer, err = g.client.Join(ctx, m, g.name, g.topic, mode); err != nil {
		return nil, err
	}
	g.all = append(g.all, m)
	return m, nil
}

// joinOwning adds a member and waits until it and those others own so many partitions each.
func (g *members) joinOwning(ctx context.Context, instance string, count int, others ...*Member) (*Member, error) {
	m, err := g.join(ctx, instance)
	if err != nil {
		return nil, err
	}
	return m, g.own(ctx, count, append(others, m)...)
}

func (g *members) leave(m *Member) error {
	g.all = slices.DeleteFunc(g.all, func(other *Member) bool { return other == m })
	return m.consumer.Leave()
}

func (g *members) close() {
	for _, m := range slices.Clone(g.all) {
		_ = g.leave(m) // what it would say is no matter of the feature
	}
}

// await waits until the condition, which is called under the lock, holds.
func (g *members) await(ctx context.Context, what string, condition func() bool) error {
	for {
		g.mu.Lock()
		done := condition()
		g.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-g.changed:
		case <-ctx.Done():
			var owned [][]int
			for _, m := range g.all {
				owned = append(owned, m.partitions())
			}
			return fmt.Errorf("%s: not so in time; the members own %v", what, owned)
		}
	}
}

// own waits until the members own so many partitions each.
func (g *members) own(ctx context.Context, count int, all ...*Member) error {
	return g.await(ctx, fmt.Sprintf("%d partitions each", count), func() bool {
		return !slices.ContainsFunc(all, func(m *Member) bool { return len(m.owned) != count })
	})
}

// change does something under the lock and wakes await.
func (m *Member) change(do func()) {
	m.group.mu.Lock()
	do()
	m.group.mu.Unlock()
	select {
	case m.group.changed <- struct{}{}:
	default:
	}
}

// Assigned says that the consumer owns these partitions too from now on.
func (m *Member) Assigned(partitions ...int) {
	m.change(func() {
		m.assignments++
		for _, p := range partitions {
			m.owned[p] = true
		}
	})
}

// Revoked says that the consumer owns these partitions no more.
func (m *Member) Revoked(partitions ...int) {
	m.change(func() {
		for _, p := range partitions {
			delete(m.owned, p)
			m.revoked[p] = true
		}
	})
}

// Read says that the consumer has read a record.
func (m *Member) Read(partition int, offset int64) {
	m.change(func() { m.read = append(m.read, place{partition, offset}) })
}

func (m *Member) partitions() []int {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return slices.Sorted(maps.Keys(m.owned))
}

// given returns the partitions that were ever revoked.
func (m *Member) given() []int {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return slices.Sorted(maps.Keys(m.revoked))
}

func (m *Member) assigned() int {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return m.assignments
}

// readAmong returns how many records the members have read among them; it is called under the lock. What is not committed
// is read again by its next owner, and by a member that has to join anew, so that records are told apart.
func readAmong(members ...*Member) int {
	read := map[place]bool{}
	for _, m := range members {
		for _, at := range m.read {
			read[at] = true
		}
	}
	return len(read)
}

func (m *Member) count() int {
	m.group.mu.Lock()
	defer m.group.mu.Unlock()
	return len(m.read)
}
