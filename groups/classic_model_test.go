package groups

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var modelSeed = flag.Uint64("model.seed", 0, "the one seed that TestClassicGroupModel runs; 0 runs several")

// TestClassicGroupModel lets members with bad luck share a group: they come and go,
// are restarted, die, send things twice; the disk is slow and refuses; the process is
// killed. At no time do two members of a generation own the same part, every call is
// answered once, and when the trouble is over the group settles.
func TestClassicGroupModel(t *testing.T) {
	seeds := []uint64{*modelSeed}
	if *modelSeed == 0 {
		seeds = nil
		for i := range uint64(300) {
			seeds = append(seeds, i+1)
		}
	}
	for _, seed := range seeds {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			w := newClassicWorld(t, seed)
			for range 400 {
				w.trouble()
			}
			w.settle()
			if t.Failed() {
				t.Logf("repeat with: go test ./groups -run TestClassicGroupModel -model.seed %d", seed)
			}
		})
	}
}

// classicWorld is a group, its disk, and the clients that use it.
type classicWorld struct {
	t      *testing.T
	rand   *rand.Rand
	config Config
	env    *env
	now    time.Time
	shard  *shard
	log    []logRecord
	flight *step
	queue  []func() step

	clients []*classicClient
	epoch   int // counts the kills of the process
	parked  map[int]string
	calls   int
	// owned are the parts that members got in each generation, by part. A generation
	// that was not stored may be given out again after a kill.
	owned map[string]map[string]string
}

// classicClient is a consumer as clients are: it joins, syncs, heartbeats, and begins
// anew when it is told to.
type classicClient struct {
	name     string
	instance *string
	alive    bool
	memberID string
	gen      int32
	state    clientState
	leader   bool
	members  []string // what the leader assigns to
	variant  byte     // what its metadata says
	waits    bool     // for an answer
}

type clientState int

const (
	clientOut clientState = iota
	clientJoined
	clientSynced
)

func newClassicWorld(t *testing.T, seed uint64) *classicWorld {
	w := &classicWorld{t: t, rand: rand.New(rand.NewPCG(seed, 1)), now: scriptStart, parked: map[int]string{}, owned: map[string]map[string]string{}}
	w.config = Config{InitialRebalanceDelay: []time.Duration{0, 3 * time.Second}[w.rand.IntN(2)], MaxSize: []int{3, 100}[w.rand.IntN(2)]}
	ids := 0
	w.env = &env{config: &w.config, newID: func() string { ids++; return strconv.Itoa(ids) }}
	w.shard = newShard(w.env)
	for i := range 5 {
		c := &classicClient{name: string(rune('a' + i)), alive: true}
		if w.rand.IntN(3) == 0 {
			instance := "i" + c.name
			c.instance = &instance
		}
		w.clients = append(w.clients, c)
	}
	return w
}

func (w *classicWorld) entry() *entry { return w.shard.entries["g"] }

// call runs a call as the owner does. An answer that comes after the process was
// killed does not reach anybody.
func (w *classicWorld) call(what string, f func(answered func() bool) step) {
	n, epoch := w.calls, w.epoch
	w.calls++
	w.parked[n] = what
	run := func() step {
		return f(func() bool {
			if epoch != w.epoch {
				return false
			}
			if _, ok := w.parked[n]; !ok {
				w.t.Errorf("%s was answered twice", what)
			}
			delete(w.parked, n)
			return true
		})
	}
	if w.flight != nil {
		w.queue = append(w.queue, run)
		return
	}
	w.carry(run())
}

func (w *classicWorld) carry(st step) {
	for len(st.records) == 0 {
		if st.then == nil {
			w.check()
			return
		}
		st = st.then(w.now, nil)
	}
	w.flight = &st
}

// disk lets what is in flight become durable, or not.
func (w *classicWorld) disk(err error) {
	st := w.flight
	if st == nil {
		return
	}
	w.flight = nil
	if err == nil {
		w.log = append(w.log, st.records...)
	}
	w.carry(st.finish(w.now, err))
	for len(w.queue) > 0 && w.flight == nil {
		next := w.queue[0]
		w.queue = w.queue[1:]
		w.carry(next())
	}
}

func (w *classicWorld) check() {
	if g := w.entry().classic(); g != nil {
		checkClassicGroup(w.t, g)
	}
}

// trouble does one thing.
func (w *classicWorld) trouble() {
	c := w.clients[w.rand.IntN(len(w.clients))]
	switch n := w.rand.IntN(100); {
	case n < 50:
		w.act(c)
	case n < 62:
		w.tick(time.Duration(w.rand.IntN(4000)) * time.Millisecond)
	case n < 80:
		w.disk(nil)
	case n < 83:
		w.disk(ErrNotCoordinator)
	case n < 86:
		w.tick(time.Duration(w.rand.IntN(90)) * time.Second)
	case n < 89: // restarted: it knows nothing of what it was
		*c = classicClient{name: c.name, instance: c.instance, alive: true, variant: c.variant}
	case n < 92:
		c.alive = !c.alive
	case n < 94:
		c.variant++
		w.join(c)
	case n < 96:
		w.leave(c)
	case n < 97:
		w.kill()
	default: // sent twice, over another connection
		if c.state == clientJoined {
			w.sync(c)
		} else {
			w.join(c)
		}
	}
}

// act is the next thing that a client has to do.
func (w *classicWorld) act(c *classicClient) {
	switch {
	case !c.alive || c.waits:
	case c.state == clientOut:
		w.join(c)
	case c.state == clientJoined:
		w.sync(c)
	default:
		w.heartbeat(c)
	}
}

func (w *classicWorld) join(c *classicClient) {
	r := &JoinRequest{
		Group: "g", MemberID: c.memberID, InstanceID: c.instance, ClientID: c.name, ProtocolType: "consumer",
		SessionTimeout: 10 * time.Second, RebalanceTimeout: 30 * time.Second, NeedsMemberID: true, SkipsAssignment: true,
		Protocols: []Protocol{{"range", []byte{0, c.variant}}, {"sticky", []byte{0, c.variant}}},
	}
	if c.variant%2 == 1 {
		slices.Reverse(r.Protocols)
	}
	c.waits = true
	w.call(c.name+" joins", func(answered func() bool) step {
		return w.shard.join(w.now, w.entry(), r, func(a JoinReply, err error) {
			if !answered() || r.MemberID != c.memberID {
				return // it is not, or no longer, who has asked
			}
			c.waits = false
			if err == nil || kafkaName(err) == "MEMBER_ID_REQUIRED" {
				c.memberID = a.MemberID
			}
			if err != nil {
				w.refused(c, err)
				return
			}
			c.state, c.gen, c.leader, c.members = clientJoined, a.Generation, a.Leader == a.MemberID && !a.SkipAssignment, nil
			for _, m := range a.Members {
				c.members = append(c.members, m.MemberID)
			}
		})
	})
}

func (w *classicWorld) sync(c *classicClient) {
	r := &SyncRequest{Group: "g", Generation: c.gen, MemberID: c.memberID, InstanceID: c.instance}
	if c.leader {
		for i := range 6 {
			id := c.members[i%len(c.members)]
			at := slices.IndexFunc(r.Assignments, func(a Assignment) bool { return a.MemberID == id })
			if at < 0 {
				at = len(r.Assignments)
				r.Assignments = append(r.Assignments, Assignment{MemberID: id})
			}
			r.Assignments[at].Bytes = append(r.Assignments[at].Bytes, byte('0'+i))
		}
	}
	c.waits = true
	w.call(c.name+" syncs", func(answered func() bool) step {
		reply := func(a SyncReply, err error) {
			if !answered() || r.MemberID != c.memberID || r.Generation != c.gen {
				return
			}
			c.waits = false
			if err != nil {
				w.refused(c, err)
				return
			}
			c.state = clientSynced
			w.own(c, string(a.Assignment))
		}
		if g := w.entry().classic(); g != nil {
			return g.sync(w.now, r, reply)
		}
		reply(SyncReply{}, ErrUnknownMemberID)
		return step{}
	})
}

// own checks that nobody else has got the same part of the same generation, but for the
// one that it replaces.
func (w *classicWorld) own(c *classicClient, parts string) {
	name := fmt.Sprint(c.gen, " of ", w.epoch)
	if w.owned[name] == nil {
		w.owned[name] = map[string]string{}
	}
	for _, part := range strings.Split(parts, "") {
		if other := w.owned[name][part]; other != "" && other != c.name {
			w.t.Errorf("part %s of generation %d belongs to %s and to %s", part, c.gen, other, c.name)
		}
		w.owned[name][part] = c.name
	}
}

func (w *classicWorld) heartbeat(c *classicClient) {
	r := &HeartbeatRequest{Group: "g", Generation: c.gen, MemberID: c.memberID, InstanceID: c.instance}
	w.call(c.name+" heartbeats", func(answered func() bool) step {
		err := ErrUnknownMemberID
		if g := w.entry().classic(); g != nil {
			err = g.heartbeat(w.now, r)
		}
		if answered() && err != nil && r.MemberID == c.memberID && r.Generation == c.gen {
			w.refused(c, err)
		}
		return step{}
	})
}

// refused is what clients do with an error.
func (w *classicWorld) refused(c *classicClient, err error) {
	c.state = clientOut
	switch name := kafkaName(err); name {
	case "UNKNOWN_MEMBER_ID", "GROUP_MAX_SIZE_REACHED":
		c.memberID = ""
	case "FENCED_INSTANCE_ID": // somebody else is what it was
		c.memberID = ""
	case "MEMBER_ID_REQUIRED", "REBALANCE_IN_PROGRESS", "ILLEGAL_GENERATION", "NOT_COORDINATOR", "INCONSISTENT_GROUP_PROTOCOL":
	default:
		w.t.Errorf("%s got %s", c.name, name)
	}
}

func (w *classicWorld) leave(c *classicClient) {
	r := &LeaveRequest{Group: "g", Members: []LeavingMember{{MemberID: c.memberID, InstanceID: c.instance}, {MemberID: "ghost"}}}
	w.call(c.name+" leaves", func(answered func() bool) step {
		reply := func(a LeaveReply, err error) {
			if answered() && err == nil && (len(a) != 2 || a[1] == nil) {
				w.t.Errorf("leave of a member and a ghost was answered %v", a)
			}
		}
		if g := w.entry().classic(); g != nil {
			return g.leave(w.now, r, reply)
		}
		reply(LeaveReply{nil, ErrUnknownMemberID}, nil)
		return step{}
	})
	*c = classicClient{name: c.name, instance: c.instance, alive: c.alive, variant: c.variant}
}

// tick lets time go by.
func (w *classicWorld) tick(d time.Duration) {
	w.now = w.now.Add(d)
	w.due()
}

// due does what is due.
func (w *classicWorld) due() {
	for range 100 {
		g := w.entry().classic()
		if g == nil || w.flight != nil || g.next().IsZero() || g.next().After(w.now) {
			return
		}
		w.carry(g.tick(w.now))
	}
	w.t.Fatal("a group is due again and again")
}

// kill ends the process: what is in flight may be durable or not. What is read back is
// the group as it was last stored.
func (w *classicWorld) kill() {
	if w.flight != nil && w.rand.IntN(2) == 0 {
		w.log = append(w.log, w.flight.records...)
	}
	w.epoch++
	w.flight, w.queue = nil, nil
	clear(w.parked)
	w.shard = newShard(w.env)
	for _, r := range w.log {
		if err := w.shard.replayClassic(r.key, r.value); err != nil {
			w.t.Fatal(err)
		}
	}
	for _, c := range w.clients {
		c.waits = false // its connection is gone
	}
	if g := w.entry().classic(); g != nil {
		if len(w.log) > 0 && string(g.record().encode().value) != string(w.log[len(w.log)-1].value) {
			w.t.Errorf("read back is %+v, not what was stored", g.record())
		}
		w.carry(g.loaded(w.now))
	}
}

// settle ends the trouble: all clients live and do what they have to. The group has
// to become stable with as many members as may be, and no call may be left without
// an answer.
func (w *classicWorld) settle() {
	for _, c := range w.clients {
		c.alive = true
	}
	want := min(w.config.MaxSize, len(w.clients))
	for range 400 {
		for _, c := range w.clients {
			w.act(c)
			w.disk(nil)
		}
		w.tick(time.Second)
		w.disk(nil)
		g := w.entry().classic()
		in := 0
		for _, c := range w.clients {
			if c.state == clientSynced && g != nil && g.current == classicStable && c.gen == g.generation {
				in++
			}
		}
		if in == want && len(g.members) == want && len(w.parked) == 0 && w.flight == nil {
			return
		}
	}
	g := w.entry().classic()
	w.t.Fatalf("not settled: state %s generation %d with %d members, want %d; without an answer: %v", g.current, g.generation, len(g.members), want, slices.Sorted(maps.Values(w.parked)))
}
