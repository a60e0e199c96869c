package groups

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// The model test runs clients that join, commit, leave and die at random, over
// crashes of the broker, and checks what each of them is promised: in one generation
// a partition has one owner, an offset never goes back, also when it is committed in a
// transaction, and when the storm is over every group settles.

const (
	modelGroups     = 3
	modelPartitions = 6
	modelSession    = 10 * time.Second
)

// model is the broker, its clients, and what they were promised.
type model struct {
	t    *testing.T
	rand *rand.Rand
	seed uint64

	mem   *vfs.Mem
	store *storage.Store
	c     *Coordinator
	stop  func()
	topic *storage.Topic
	ids   atomic.Int64

	clients []*stormClient
	born    int
	// owners are the clients that were given a partition, by group, generation and partition.
	owners map[modelPart]string
	synced map[string]int32 // the last generation that a member has synced in, by group
	// committed is the highest offset that a commit was answered for, by group and partition.
	committed map[string]*[modelPartitions]int64
	commits   int // how many were answered
	history   []string

	transactions []*modelTransaction
	begun        int64 // transactions
	ended        int   // transactions that were committed
}

type modelPart struct {
	group      string
	generation int32
	partition  int32
}

// stormClient is a consumer: it joins, syncs, commits what it owns, and does what
// errors tell it to.
type stormClient struct {
	name, group string
	instance    *string // of a static member

	id         string
	generation int32
	joined     *JoinReply   // between the answers to a join and a sync
	broker     *Coordinator // which answered the join
	owned      []int32      // nil when it is no member
	next       [modelPartitions]int64
	unread     [modelPartitions]bool // next is not known yet
	txn        *modelTransaction     // which is open; nil for none
	silent     bool                  // what it did last was no sign of life

	consumer bool // by KIP-848; then generation is the member epoch, 0 to join
	heard    time.Time

	busy   bool // a call is not answered
	answer chan func()
}

func (m *model) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *model) failf(format string, args ...any) {
	m.t.Helper()
	from := max(0, len(m.history)-40)
	for _, line := range m.history[from:] {
		m.t.Log(line)
	}
	m.t.Fatalf("%s\nrepeat with: go test ./groups -run TestModelOfGroups -model.seed %d", fmt.Sprintf(format, args...), m.seed)
}

// start opens the broker on what is on the disk.
func (m *model) start() {
	s, err := storage.Open("data", storage.Options{FS: m.mem, Now: time.Now})
	if err != nil {
		m.failf("open: %v", err)
	}
	m.store, m.c = s, New(Options{Store: s, Now: time.Now, OffsetsPartitions: 2, Verify: m.verify})
	m.c.env.newID = func() string { return fmt.Sprint(m.ids.Add(1)) }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- m.c.Run(ctx) }()
	m.stop = func() {
		cancel()
		if err := <-done; err != nil {
			m.failf("run: %v", err)
		}
		if err := s.Close(); err != nil {
			m.failf("close: %v", err)
		}
	}
	synctest.Wait()
	var ok bool
	if m.topic, ok = s.Topic("orders"); !ok {
		m.topic, err = s.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: modelPartitions})
		if err != nil {
			m.failf("create: %v", err)
		}
	}
}

// crash cuts the power and starts again; clients see their calls fail.
func (m *model) crash() {
	keep := m.rand.Float64()
	m.note("crash, %.2f kept", keep)
	after := m.mem.CrashClone(m.rand.Uint64(), keep)
	m.stop()
	synctest.Wait()
	m.mem = after
	m.start()
	m.checkCommitted()
}

// call starts a call of a client; then takes its answer in the next round.
func modelCall[R any](m *model, c *stormClient, f func(*Coordinator) (R, error), then func(R, error)) {
	c.busy = true
	broker, answer := m.c, make(chan func(), 1)
	c.answer = answer
	go func() {
		r, err := f(broker)
		answer <- func() { then(r, err) }
	}()
	synctest.Wait()
	m.take(c)
}

// take lets a client read its answer, if it is there.
func (m *model) take(c *stormClient) {
	select {
	case answer := <-c.answer:
		c.busy = false
		answer()
	default:
	}
}

// failed does what a client does about an error.
func (m *model) failed(c *stormClient, what string, err error) {
	m.note("%s %s: %v", c.name, what, err)
	switch {
	case errors.Is(err, ErrUnknownMemberID), errors.Is(err, ErrFencedInstanceID) && c.broker != m.c:
		// A join is not in the log before the sync: after a crash an instance has its old id.
		c.id, c.generation, c.owned, c.joined = "", -1, nil, nil
	case errors.Is(err, ErrIllegalGeneration), errors.Is(err, ErrRebalanceInProgress):
		c.owned, c.joined = nil, nil
	case errors.Is(err, ErrNotAvailable), errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrLoading):
		if what != "commit" && what != "heartbeat" {
			c.joined = nil // it joins again
		}
	default:
		m.failf("%s %s: unexpected %v", c.name, what, err)
	}
}

// step does a client's next thing: joins, syncs, or commits and sends a heartbeat.
func (m *model) step(c *stormClient) {
	switch {
	case c.busy:
		m.take(c)
	case c.txn != nil:
		m.decide(c)
	case c.consumer:
		m.stepConsumer(c)
	case c.joined != nil:
		m.sync(c)
	case c.owned == nil:
		m.join(c)
	case len(c.owned) > 0 && !c.silent && m.rand.IntN(2) == 0:
		m.commitSome(c, c.owned[m.rand.IntN(len(c.owned))], m.commit)
	default:
		c.silent = false
		modelCall(m, c, func(k *Coordinator) (struct{}, error) {
			return struct{}{}, k.Heartbeat(m.t.Context(), &HeartbeatRequest{Group: c.group, Generation: c.generation, MemberID: c.id, InstanceID: c.instance})
		}, func(_ struct{}, err error) {
			if err != nil {
				m.failed(c, "heartbeat", err)
			}
		})
	}
}

func (m *model) join(c *stormClient) {
	r := &JoinRequest{Group: c.group, MemberID: c.id, InstanceID: c.instance, ClientID: c.name, ClientHost: "/127.0.0.1", NeedsMemberID: true,
		SessionTimeout: modelSession, RebalanceTimeout: 20 * time.Second, ProtocolType: "consumer",
		Protocols: []Protocol{{Name: "range", Metadata: []byte(c.name)}}}
	broker := m.c
	modelCall(m, c, func(k *Coordinator) (JoinReply, error) { return k.JoinGroup(m.t.Context(), r) }, func(j JoinReply, err error) {
		switch {
		case errors.Is(err, ErrMemberIDRequired):
			c.id = j.MemberID
		case err != nil:
			m.failed(c, "join", err)
		default:
			m.note("%s joined %s as %s, generation %d, leader %s", c.name, c.group, j.MemberID, j.Generation, j.Leader)
			c.id, c.generation, c.joined, c.broker = j.MemberID, j.Generation, &j, broker
		}
	})
}

func (m *model) sync(c *stormClient) {
	r := &SyncRequest{Group: c.group, Generation: c.generation, MemberID: c.id, InstanceID: c.instance}
	if c.joined.Leader == c.id {
		parts := make([][]byte, len(c.joined.Members))
		for p := range modelPartitions {
			i := p % len(parts)
			parts[i] = append(parts[i], byte(p))
		}
		for i, member := range c.joined.Members {
			r.Assignments = append(r.Assignments, Assignment{MemberID: member.MemberID, Bytes: parts[i]})
		}
	}
	modelCall(m, c, func(k *Coordinator) (SyncReply, error) { return k.SyncGroup(m.t.Context(), r) }, func(s SyncReply, err error) {
		if err != nil {
			m.failed(c, "sync", err)
			return
		}
		c.joined, c.owned = nil, []int32{}
		m.synced[c.group] = max(m.synced[c.group], c.generation)
		for _, p := range s.Assignment {
			part := modelPart{c.group, c.generation, int32(p)}
			if other, ok := m.owners[part]; ok && other != c.name {
				m.failf("partition %d of %s is of %s and of %s in generation %d", p, c.group, other, c.name, c.generation)
			}
			m.owners[part] = c.name
			c.owned = append(c.owned, int32(p))
		}
		m.note("%s owns %v of %s in generation %d", c.name, c.owned, c.group, c.generation)
		m.read(c, c.owned)
	})
}

func (m *model) commit(c *stormClient, p int32) {
	offset := c.next[p] + 1 + m.rand.Int64N(5)
	r := &CommitRequest{Group: c.group, MemberID: c.id, InstanceID: c.instance, Generation: c.generation, Retention: -1,
		Commits: []Commit{{Topic: "orders", TopicID: m.topic.ID(), Partition: p, Offset: offset}}}
	modelCall(m, c, func(k *Coordinator) ([]error, error) { return k.CommitOffsets(m.t.Context(), r) }, func(errs []error, err error) {
		if err != nil || errs[0] != nil {
			m.failed(c, "commit", errors.Join(append(errs, err)...))
			return
		}
		m.note("%s committed %d for %s-%d", c.name, offset, c.group, p)
		if was := m.committed[c.group][p]; offset < was {
			m.failf("%s committed %d for %s-%d in generation %d, below %d", c.name, offset, c.group, p, c.generation, was)
		}
		m.committed[c.group][p], c.next[p] = offset, offset
		m.commits++
	})
}

// late sends a commit of a generation that is over, as a client does that was held up.
func (m *model) late(c *stormClient) {
	if c.id == "" || c.busy || c.consumer || m.synced[c.group] == 0 {
		return
	}
	generation := m.rand.Int32N(m.synced[c.group])
	_, err := m.c.CommitOffsets(m.t.Context(), &CommitRequest{Group: c.group, MemberID: c.id, InstanceID: c.instance, Generation: generation, Retention: -1,
		Commits: []Commit{{Topic: "orders", TopicID: m.topic.ID()}}})
	if err == nil {
		m.failf("%s committed for %s in generation %d, though there is %d", c.name, c.group, generation, m.synced[c.group])
	}
}

// checkCommitted compares what is fetched with what was answered. A commit whose
// answer was lost may be there too.
func (m *model) checkCommitted() {
	for group, want := range m.committed {
		got, err := m.c.FetchOffsets(m.t.Context(), &FetchRequest{Group: group, MemberEpoch: -1})
		if err != nil {
			m.failf("fetch of %s: %v", group, err)
		}
		var have [modelPartitions]int64
		for _, f := range got {
			have[f.Partition] = f.Offset.Offset
		}
		for p := range have {
			if have[p] < want[p] {
				m.failf("%s-%d: fetched %d, but %d was committed", group, p, have[p], want[p])
			}
			want[p] = have[p]
		}
	}
}

// birth adds a client, of which every third is a static member.
func (m *model) birth() {
	m.born++
	c := &stormClient{name: fmt.Sprint("c", m.born), group: fmt.Sprint("g", m.rand.IntN(modelGroups)), generation: -1}
	if m.rand.IntN(3) == 0 {
		c.instance = new(c.name)
	}
	if m.rand.IntN(2) == 0 {
		c.consumer, c.group, c.id, c.generation = true, fmt.Sprint("k", m.rand.IntN(modelGroups)), c.name, 0
	}
	m.note("%s is born for %s", c.name, c.group)
	m.clients = append(m.clients, c)
}

// leave lets a client say that it goes.
func (m *model) leave(i int) {
	c := m.clients[i]
	if c.busy || c.id == "" {
		return
	}
	m.clients = slices.Delete(m.clients, i, i+1)
	m.note("%s leaves", c.name)
	if c.consumer {
		m.leaveConsumer(c)
		return
	}
	modelCall(m, c, func(k *Coordinator) (LeaveReply, error) {
		return k.LeaveGroup(m.t.Context(), &LeaveRequest{Group: c.group, Members: []LeavingMember{{MemberID: c.id, InstanceID: c.instance}}})
	}, func(LeaveReply, error) {})
}

// storm is one random event.
func (m *model) storm() {
	switch n := m.rand.IntN(100); {
	case n < 4 && len(m.clients) < 14:
		m.birth()
	case n < 6 && len(m.clients) > 0:
		i := m.rand.IntN(len(m.clients))
		m.note("%s dies", m.clients[i].name)
		m.clients = slices.Delete(m.clients, i, i+1)
	case n < 8 && len(m.clients) > 0:
		m.leave(m.rand.IntN(len(m.clients)))
	case n < 9:
		m.crash()
	case n < 10:
		m.drive()
	case n < 13 && len(m.clients) > 0:
		m.late(m.clients[m.rand.IntN(len(m.clients))])
	case n < 28:
		m.pass(time.Duration(m.rand.IntN(2500)) * time.Millisecond)
	case len(m.clients) > 0:
		m.step(m.clients[m.rand.IntN(len(m.clients))])
	}
}

func (m *model) pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// settle gives everybody time, and checks that each group has the members that live,
// each partition one owner, and a group without members is empty.
func (m *model) settle() {
	for range 80 {
		for _, c := range m.clients {
			m.step(c)
		}
		m.drive()
		m.pass(time.Second)
	}
	m.checkTransactions()
	for group := range m.committed {
		var want []string
		parts := map[int32]string{}
		for _, c := range m.clients {
			if c.group != group {
				continue
			}
			want = append(want, c.id)
			for _, p := range c.owned {
				if parts[p] != "" {
					m.failf("settled %s: partition %d is of %s and of %s", group, p, parts[p], c.id)
				}
				parts[p] = c.id
			}
		}
		state, got := m.members(group)
		slices.Sort(want)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			m.failf("settled %s is %s with members %q, want %q", group, state, got, want)
		}
		if len(want) > 0 && (state != "Stable" || len(parts) != modelPartitions) {
			m.failf("settled %s is %s with owners of %d partitions, want Stable with %d", group, state, len(parts), modelPartitions)
		}
	}
}

// members describes a group; one that is not there has none.
func (m *model) members(group string) (state string, ids []string) {
	m.t.Helper()
	var err error
	if group[0] == 'k' {
		var d ConsumerGroupDescription
		d, err = m.c.ConsumerGroupDescribe(group)
		state = d.State
		for _, member := range d.Members {
			ids = append(ids, member.MemberID)
		}
	} else {
		var d GroupDescription
		d, err = m.c.DescribeGroup(group)
		state = d.State
		for _, member := range d.Members {
			ids = append(ids, member.MemberID)
		}
	}
	if err != nil && !errors.Is(err, ErrGroupIDNotFound) {
		m.failf("describe %s: %v", group, err)
	}
	return state, ids
}

func TestModelOfGroups(t *testing.T) {
	seeds := []uint64{*modelSeed}
	if *modelSeed == 0 {
		seeds = nil
		for seed := range uint64(20) {
			seeds = append(seeds, seed+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 4)), seed: seed, mem: vfs.NewMem(vfs.MemOptions{Crashable: true}),
					owners: map[modelPart]string{}, synced: map[string]int32{}, committed: map[string]*[modelPartitions]int64{}}
				for g := range modelGroups {
					m.committed[fmt.Sprint("g", g)], m.committed[fmt.Sprint("k", g)] = &[modelPartitions]int64{}, &[modelPartitions]int64{}
				}
				m.start()
				defer func() { m.stop() }()
				for range 6 {
					m.birth()
				}
				for range 4 {
					for range 350 {
						m.storm()
					}
					m.settle()
					m.checkCommitted()
				}
				if m.commits < 50 || m.ended < 10 {
					m.failf("%d commits were answered and %d transactions committed, want more", m.commits, m.ended)
				}
			})
		})
	}
}
