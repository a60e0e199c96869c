package compat_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// band is the members of one group that consume a topic, and what they own.
type band struct {
	s     *server
	topic topic
	group string

	mu      sync.Mutex
	changed chan struct{} // closed with every change, and made anew
	members []*bandMember
}

// bandMember is one franz-go client of a band.
type bandMember struct {
	*kgo.Client
	name string

	// Guarded by the band's mu.
	owns    []int32
	took    int // how often the client began with an assignment, a new one or not
	came    int // how often partitions came
	gave    int // how often some were revoked
	lost    int // how often all were lost
	records []*kgo.Record
}

func (s *server) band(t testing.TB, partitions int32) *band {
	return &band{s: s, topic: s.createTopic(t, "work", partitions), group: fresh("band"), changed: make(chan struct{})}
}

// note changes something under the lock and tells those who wait.
func (b *band) note(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f()
	close(b.changed)
	b.changed = make(chan struct{})
}

// until waits for a condition, which is asked under the lock.
func (b *band) until(t testing.TB, what string, condition func() bool) {
	t.Helper()
	ctx := within(t)
	for {
		b.mu.Lock()
		done, changed := condition(), b.changed
		var state []string
		for _, m := range b.members {
			state = append(state, fmt.Sprintf("%s owns %v, took %d, gave %d, lost %d times", m.name, m.owns, m.took, m.gave, m.lost))
		}
		b.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("%s: not so after %s: %s", what, waitLimit, strings.Join(state, "; "))
		}
	}
}

// join adds a member, which polls until it is closed.
func (b *band) join(t testing.TB, name string, opts ...kgo.Opt) *bandMember {
	t.Helper()
	m := &bandMember{name: name}
	parts := func(all map[string][]int32) []int32 { return all[b.topic.Name] }
	leave := func(gone []int32) {
		m.owns = slices.DeleteFunc(m.owns, func(p int32) bool { return slices.Contains(gone, p) })
	}
	m.Client = b.s.client(t, append([]kgo.Opt{
		kgo.ConsumerGroup(b.group), kgo.ConsumeTopics(b.topic.Name), kgo.ClientID(name), kgo.HeartbeatInterval(200 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(10 * time.Second), kgo.RebalanceTimeout(20 * time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
			b.note(func() {
				m.owns = append(m.owns, parts(all)...)
				slices.Sort(m.owns)
				m.took++
				if len(parts(all)) > 0 {
					m.came++
				}
			})
		}),
		kgo.OnPartitionsRevoked(func(ctx context.Context, cl *kgo.Client, all map[string][]int32) {
			_ = cl.CommitUncommittedOffsets(ctx) // what is not committed is consumed again
			b.note(func() {
				leave(parts(all))
				if len(parts(all)) > 0 {
					m.gave++
				}
			})
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, all map[string][]int32) {
			b.note(func() { leave(parts(all)); m.lost++ })
		}),
	}, opts...)...)
	b.note(func() { b.members = append(b.members, m) })
	go func() { // ends when the client is closed
		for {
			fs := m.PollFetches(context.Background())
			if fs.IsClientClosed() {
				return
			}
			if records := fs.Records(); len(records) > 0 {
				b.note(func() { m.records = append(m.records, records...) })
			}
		}
	}()
	return m
}

// dismiss closes a member's client, which leaves unless it is static.
func (b *band) dismiss(m *bandMember) {
	m.Close()
	b.note(func() { b.members = slices.DeleteFunc(b.members, func(o *bandMember) bool { return o == m }) })
}

// balanced says whether every partition has one owner, and no two members differ by more than one.
func (b *band) balanced(partitions int) bool {
	var owned []int32
	least, most := partitions, 0
	for _, m := range b.members {
		owned = append(owned, m.owns...)
		least, most = min(least, len(m.owns)), max(most, len(m.owns))
	}
	slices.Sort(owned)
	return len(owned) == partitions && len(slices.Compact(owned)) == partitions && most-least <= 1
}

func TestGroupBalancesOverMembersThatComeAndGo(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for name, balancer := range map[string]kgo.GroupBalancer{
		"range": kgo.RangeBalancer(), "roundrobin": kgo.RoundRobinBalancer(), "sticky": kgo.StickyBalancer(), "cooperative-sticky": kgo.CooperativeStickyBalancer(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := s.band(t, 6)
			settle := func(what string) {
				t.Helper()
				b.until(t, what, func() bool { return b.balanced(6) })
			}
			one := b.join(t, "one", kgo.Balancers(balancer))
			settle("one member")
			two := b.join(t, "two", kgo.Balancers(balancer))
			settle("two members")
			three := b.join(t, "three", kgo.Balancers(balancer))
			settle("three members")
			if name == "cooperative-sticky" && one.lost+two.lost+three.lost > 0 {
				t.Errorf("partitions were lost, want them handed over")
			}
			admin := kadm.NewClient(s.client(t))
			described, err := admin.DescribeGroups(within(t), b.group)
			if err != nil {
				t.Fatal(err)
			}
			g := described[b.group]
			if g.State != "Stable" || g.ProtocolType != "consumer" || g.Protocol != name || len(g.Members) != 3 {
				t.Errorf("described %+v, want three stable consumers by %s", g, name)
			}
			for _, m := range g.Members {
				assigned := 0
				if a, ok := m.Assigned.AsConsumer(); ok {
					for _, at := range a.Topics {
						assigned += len(at.Partitions)
					}
				}
				if !strings.HasPrefix(m.MemberID, m.ClientID+"-") || !strings.HasPrefix(m.ClientHost, "/") || assigned != 2 {
					t.Errorf("described member %s of client %s at %s with %d partitions", m.MemberID, m.ClientID, m.ClientHost, assigned)
				}
			}
			b.dismiss(one)
			settle("the first has left")
			b.dismiss(two)
			settle("the second has left")
			b.dismiss(three)
			described, err = admin.DescribeGroups(within(t), b.group)
			if err != nil || described[b.group].State != "Empty" {
				t.Errorf("when all have left: %+v %v, want Empty", described[b.group], err)
			}
		})
	}
}

func TestGroupResumesWhereItHasCommitted(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.band(t, 1)
	producer := s.client(t, kgo.DefaultProduceTopic(b.topic.Name))
	produce := func(values ...string) {
		for _, v := range values {
			mustProduceSync(t, producer, kgo.StringRecord(v))
		}
	}
	produce("a", "b", "c")
	first := b.join(t, "first")
	b.until(t, "first has all", func() bool { return len(first.records) == 3 })
	b.dismiss(first) // commits
	produce("d")
	second := b.join(t, "second")
	b.until(t, "second has the rest", func() bool { return len(second.records) >= 1 })
	if r := second.records[0]; string(r.Value) != "d" || r.Offset != 3 {
		t.Errorf("the second member begins with %q at offset %d, want d at 3", r.Value, r.Offset)
	}
}

func TestMemberThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.band(t, 4)
	// A client whose connections end and that says no word more: it cannot dial again.
	dialer := &mortalDialer{}
	dying := b.join(t, "dying", kgo.SessionTimeout(6*time.Second), kgo.Dialer(dialer.dial))
	b.until(t, "the first owns all", func() bool { return len(dying.owns) == 4 })
	other := b.join(t, "other", kgo.SessionTimeout(6*time.Second))
	b.until(t, "both own half", func() bool { return b.balanced(4) })
	dialer.kill()
	b.until(t, "the other owns all", func() bool { return len(other.owns) == 4 })
}

func TestStaticMemberComesBackWithoutRebalance(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	b := s.band(t, 4)
	// By range: franz-go has a leader that comes back join again when it would assign otherwise than before.
	static := func(name, instance string) *bandMember {
		return b.join(t, name, kgo.InstanceID(instance), kgo.Balancers(kgo.RangeBalancer()))
	}
	one, two := static("one", "i1"), static("two", "i2")
	b.until(t, "both own half", func() bool { return b.balanced(4) })
	var had []int32
	var gave, took int
	b.note(func() { had, gave, took = slices.Clone(two.owns), one.gave, one.took })
	id, generation := two.GroupMetadata()
	b.dismiss(two) // a static member leaves no word
	again := static("two", "i2")
	b.until(t, "it is back", func() bool { return len(again.owns) == 2 })
	newID, newGeneration := again.GroupMetadata()
	if newGeneration != generation || newID == id || !strings.HasPrefix(newID, "i2-") {
		t.Errorf("it is %s of generation %d, was %s of %d; want another id and the same generation", newID, newGeneration, id, generation)
	}
	b.note(func() {
		if !slices.Equal(again.owns, had) || one.gave != gave || one.took != took {
			t.Errorf("it owns %v and had %v; the other gave %d times and took %d, before %d and %d", again.owns, had, one.gave, one.took, gave, took)
		}
	})
	// The leader, too, comes back as what it was.
	id, generation = one.GroupMetadata()
	b.dismiss(one)
	leader := static("one", "i1")
	b.until(t, "the leader is back", func() bool { return len(leader.owns) == 2 })
	if newID, newGeneration := leader.GroupMetadata(); newGeneration != generation || newID == id {
		t.Errorf("the leader is %s of generation %d, was %s of %d", newID, newGeneration, id, generation)
	}
	// An administrator sends it away.
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = b.group
	req.Members = []kmsg.LeaveGroupRequestMember{{InstanceID: kmsg.StringPtr("i1")}, {InstanceID: kmsg.StringPtr("i9")}}
	r := ask[*kmsg.LeaveGroupResponse](s.dial(t), 4, req)
	if r.ErrorCode != 0 || len(r.Members) != 2 || r.Members[0].ErrorCode != 0 || r.Members[1].ErrorCode != 25 {
		t.Errorf("leave by instance: %+v, want 0 and 25", r)
	}
}

// TestGroupGoesOnOverKill9 kills the gateway under a stable group. Its members go on in their generation, with what
// they own, and from what they have committed.
func TestGroupGoesOnOverKill9(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.needProcess(t)
	b := s.band(t, 4)
	one, two := b.join(t, "one"), b.join(t, "two", kgo.Balancers(kgo.RangeBalancer(), kgo.CooperativeStickyBalancer()))
	b.until(t, "both own half", func() bool { return b.balanced(4) })
	producer := s.client(t, kgo.DefaultProduceTopic(b.topic.Name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	sent := 0
	produce := func() {
		for p := range int32(4) {
			mustProduceSync(t, producer, &kgo.Record{Partition: p, Value: []byte{byte(sent)}})
		}
		sent += 4
		b.until(t, "all is consumed", func() bool { return len(one.records)+len(two.records) == sent })
	}
	produce()
	id, generation := one.GroupMetadata()
	var gave, took, lost int
	b.note(func() { gave, took, lost = one.gave+two.gave, one.took+two.took, one.lost+two.lost })
	for range 3 {
		s.Restart(t, killed)
		produce()
	}
	if err := one.CommitUncommittedOffsets(within(t)); err != nil {
		t.Errorf("commit after the restart: %v", err)
	}
	if newID, newGeneration := one.GroupMetadata(); newID != id || newGeneration != generation {
		t.Errorf("member %s of generation %d, want %s of %d", newID, newGeneration, id, generation)
	}
	b.note(func() {
		if one.gave+two.gave != gave || one.took+two.took != took || one.lost+two.lost != lost {
			t.Errorf("gave %d, took %d, lost %d times; before the restarts %d, %d, %d", one.gave+two.gave, one.took+two.took, one.lost+two.lost, gave, took, lost)
		}
	})
}
