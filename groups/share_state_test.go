package groups

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// statesInMemory keeps states of share partitions for the tests of what asks for them.
type statesInMemory struct {
	mu     sync.Mutex
	starts map[SharePartition]int64 // guarded by mu
	fails  error                    // of what writes; guarded by mu
}

func (m *statesInMemory) write(p SharePartition, f func()) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fails == nil {
		f()
	}
	return m.fails
}

func (m *statesInMemory) fail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fails = err
}

func (m *statesInMemory) state() ShareState {
	set := func(_ context.Context, p SharePartition, start int64) error {
		return m.write(p, func() { m.starts[p] = start })
	}
	return ShareState{
		Initialize: set, SetStart: set,
		Delete: func(_ context.Context, p SharePartition) error { return m.write(p, func() { delete(m.starts, p) }) },
		Summary: func(p SharePartition) (int64, int32, bool) {
			m.mu.Lock()
			defer m.mu.Unlock()
			start, ok := m.starts[p]
			return start, 0, ok
		},
	}
}

// text lists the states, as 0@5 for partition 0 at offset 5.
func (m *statesInMemory) text() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []string
	for p, start := range m.starts {
		out = append(out, fmt.Sprintf("%s/%d@%d", p.Group, p.Partition, start))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// sharing is a coordinator that serves share groups, with the topic orders of two partitions.
type sharing struct {
	*testing.T
	store  *storage.Store
	c      *Coordinator
	states *statesInMemory
	fsys   *vfs.Mem
}

func newSharing(t *testing.T) *sharing {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := &sharing{T: t, fsys: fsys, states: &statesInMemory{starts: map[SharePartition]int64{}}}
	config := Config{Group: func(string) GroupConfig {
		g := DefaultGroupConfig()
		g.ShareAssignmentInterval = 0
		return g
	}}
	s.store, s.c = openAt(t, fsys, now, config)
	s.c.o.ShareState = s.states.state()
	topic(t, s.store, "orders")
	return s
}

func (s *sharing) beat(id string, epoch int32) ShareHeartbeat {
	s.Helper()
	r := &ShareHeartbeatRequest{Group: "g", MemberID: id, MemberEpoch: epoch, ClientHost: "/10.0.0.1"}
	if epoch == 0 {
		r.Topics = []string{"orders"}
	}
	answer, err := s.c.ShareGroupHeartbeat(s.Context(), r)
	if err != nil {
		s.Fatalf("heartbeat of %s in epoch %d: %v", id, epoch, err)
	}
	synctest.Wait() // for the states
	return answer
}

// offsets tells where a group stands, as 0:5+3 for offset 5 and 3 records to come.
func (s *sharing) offsets(group string, asked []ShareTopic) string {
	s.Helper()
	list, err := s.c.DescribeShareOffsets(group, asked)
	if err != nil {
		s.Fatal(err)
	}
	var out []string
	for _, t := range list {
		for _, p := range t.Partitions {
			out = append(out, fmt.Sprintf("%s-%d:%d+%d", t.Topic, p.Partition, p.Start, p.Lag))
			if p.Err != nil {
				out = append(out, p.Err.Error())
			}
		}
	}
	return strings.Join(out, " ")
}

func (s *sharing) want(what, got, want string) {
	s.Helper()
	if got != want {
		s.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestStatesAreMadeBeforePartitionsAreAssigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		joined := s.beat("m", 0)
		s.want("assigned to who joins", fmt.Sprint(len(joined.Assigned)), "0")
		s.want("states", s.states.text(), "g/0@-1 g/1@-1")
		then := s.beat("m", joined.MemberEpoch)
		s.want("assigned then", fmt.Sprint(then.Assigned[0].Partitions), "[0 1]")
		s.want("offsets", s.offsets("g", nil), "orders-0:-1+-1 orders-1:-1+-1")
		s.want("offsets of no group", s.offsets("ghost", nil), "")

		_, again := openAt(t, s.fsys.KillClone(), now, Config{})
		again.o.ShareState = s.states.state()
		r := &ShareHeartbeatRequest{Group: "g", MemberID: "m", MemberEpoch: then.MemberEpoch, ClientHost: "/10.0.0.1", Topics: []string{"orders"}}
		answer, err := again.ShareGroupHeartbeat(t.Context(), r)
		if err != nil || answer.MemberEpoch != then.MemberEpoch || len(answer.Assigned) != 1 {
			t.Errorf("after a restart: got %+v, %v, want the epoch %d and what it had", answer, err, then.MemberEpoch)
		}
	})
}

func TestStatesThatCannotBeMadeAreAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		s.states.fail(errors.New("disk"))
		epoch := s.beat("m", 0).MemberEpoch
		s.want("states", s.states.text(), "")
		s.states.fail(nil)
		s.want("assigned by the next heartbeat", fmt.Sprint(len(s.beat("m", epoch).Assigned)), "0")
		s.want("states then", s.states.text(), "g/0@-1 g/1@-1")
		s.want("assigned then", fmt.Sprint(len(s.beat("m", epoch).Assigned)), "1")
	})
}

func TestShareOffsetsAreAlteredAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		alter := func(group string, changes ...ShareOffsetChange) string {
			t.Helper()
			done, err := s.c.AlterShareOffsets(t.Context(), group, changes)
			out := kafkaName(err)
			for _, d := range done {
				for _, p := range slices.Sorted(maps.Keys(d.Errs)) {
					out += fmt.Sprintf(" %s-%d %v", d.Topic, p, d.Errs[p])
				}
			}
			return out
		}
		remove := func(group string, topics ...string) string {
			t.Helper()
			done, err := s.c.DeleteShareOffsets(t.Context(), group, topics)
			out := kafkaName(err)
			for _, d := range done {
				out += fmt.Sprintf(" %s %v %v", d.Topic, d.TopicID.IsZero(), d.Err)
			}
			return out
		}
		s.want("alter without a group id", fmt.Sprint(errors.Is(func() error { _, err := s.c.AlterShareOffsets(t.Context(), "", nil); return err }(), ErrInvalidGroupID)), "true")
		s.want("delete of no group", remove("g", "orders"), "GROUP_ID_NOT_FOUND")
		s.want("alter", alter("g", ShareOffsetChange{"orders", map[int32]int64{0: 5, 2: 1, -1: 1}}, ShareOffsetChange{"ghosts", map[int32]int64{0: 0}}),
			"NONE orders--1 unknown topic orders-0 <nil> orders-2 unknown topic ghosts-0 unknown topic")
		s.want("states", s.states.text(), "g/0@5")
		s.want("offsets", s.offsets("g", nil), "orders-0:5+-5")
		s.want("offsets asked for", s.offsets("g", []ShareTopic{{"ghosts", []int32{3}}, {"orders", []int32{0, 1}}}), "orders-0:5+-5 orders-1:-1+-1 ghosts-3:-1+-1")

		s.beat("m", 0)
		s.want("states of who joins", s.states.text(), "g/0@5 g/1@0")
		s.want("alter with a member", alter("g", ShareOffsetChange{"orders", map[int32]int64{0: 5}}), "NON_EMPTY_GROUP orders-0 <nil>")
		s.want("delete with a member", remove("g", "orders"), "NON_EMPTY_GROUP")
		s.want("delete the group", kafkaName(s.c.DeleteGroup(t.Context(), "g")), "NON_EMPTY_GROUP")
		s.beat("m", -1)

		s.states.fail(errors.New("disk"))
		s.want("delete that fails", remove("g", "orders"), "NONE orders false disk")
		s.states.fail(nil)
		s.want("delete", remove("g", "orders", "ghosts"), "NONE orders false <nil> ghosts true unknown topic")
		s.want("delete again", remove("g", "orders"), "NONE orders true no offsets of the group to delete: unknown topic")
		s.want("states", s.states.text(), "")
		s.want("offsets", s.offsets("g", nil), "")

		alter("g", ShareOffsetChange{"orders", map[int32]int64{1: 7}})
		s.states.fail(errors.New("disk"))
		if err := s.c.DeleteGroup(t.Context(), "g"); err == nil {
			t.Error("the group was deleted, though its states could not be")
		}
		s.states.fail(nil)
		s.want("delete the group", kafkaName(s.c.DeleteGroup(t.Context(), "g")), "NONE")
		s.want("states", s.states.text(), "")
		s.want("delete of no group", remove("g", "orders"), "GROUP_ID_NOT_FOUND")
	})
}

func TestStatesOfADeletedTopicAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSharing(t)
		epoch := s.beat("m", 0).MemberEpoch
		epoch = s.beat("m", epoch).MemberEpoch
		orders, _ := s.store.Topic("orders")
		if err := s.store.DeleteTopic(orders.ID()); err != nil {
			t.Fatal(err)
		}
		s.want("offsets", s.offsets("g", nil), "")
		s.want("assigned", fmt.Sprint(len(s.beat("m", epoch).Assigned)), "0")
		for name, c := range map[string]*Coordinator{"now": s.c, "after a restart": func() *Coordinator { _, c := open(t, s.fsys.KillClone()); return c }()} {
			known, err := look(c, "g", func(_ time.Time, _ *shard, e *entry) (int, error) { return len(e.share().states.initialized), nil })
			if known != 0 || err != nil {
				t.Errorf("%s: the group has states of %d topics, error %v; want none", name, known, err)
			}
		}
	})
}
