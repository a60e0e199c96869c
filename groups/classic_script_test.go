package groups

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestClassicGroupScripts runs the stories in testdata/classic. Their commands are in
// (*classicScript).run. Together they have to show every call in every state.
func TestClassicGroupScripts(t *testing.T) {
	shown := map[classicCell]bool{}
	datadriven.Walk(t, "testdata/classic", func(t *testing.T, path string) {
		sc := newClassicScript(t, shown)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			sc.t = t
			return sc.run(d)
		})
	})
	for _, state := range []classicState{classicEmpty, classicPreparing, classicCompleting, classicStable, classicDead} {
		for _, call := range classicCells {
			if !shown[classicCell{state, call}] {
				t.Errorf("no script shows %q in state %s", call, state)
			}
		}
	}
}

// classicCell is a call, or what time brings, in a state of the group.
type classicCell struct {
	state classicState
	call  string
}

// classicCells are the columns of the table.
var classicCells = []string{
	"join of a new member", "join of a known member", "join of a static member", "sync of the leader", "sync of a follower",
	"heartbeat", "leave", "commit", "fetch", "describe", "end of a session", "end of the rebalance timeout",
}

// classicScript is one group, its clock, its log and its disk.
type classicScript struct {
	t      *testing.T
	shown  map[classicCell]bool
	env    *env
	config Config
	now    time.Time
	shard  *shard

	log    []logRecord // what is durable
	held   bool        // the next step waits for the command durable or fail
	flight *step       // on its way to the disk
	queue  []func() step
	out    strings.Builder
	last   string // what was last said of the group's state
	parked int    // calls without an answer
}

const scriptGroup = "kitchen"

var scriptStart = time.UnixMilli(1_700_000_000_000)

func newClassicScript(t *testing.T, shown map[classicCell]bool) *classicScript {
	sc := &classicScript{t: t, shown: shown, now: scriptStart, last: "no group"}
	sc.config = Config{MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute, InitialRebalanceDelay: 3 * time.Second, MaxSize: 100}
	ids := 0
	sc.env = &env{config: &sc.config, newID: func() string { ids++; return strconv.Itoa(ids) }}
	sc.shard = newShard(sc.env)
	return sc
}

func (sc *classicScript) entry() *entry { return sc.shard.entries[scriptGroup] }

func (sc *classicScript) state() classicState {
	if g := sc.entry().classic(); g != nil {
		return g.current
	}
	if sc.entry() != nil {
		return classicEmpty
	}
	return classicDead
}

// run executes one command:
//
//	config [max-size=N] [delay=D]             what the broker's configuration says
//	join CLIENT [member=ID] [instance=ID] [protocols=(p:x,…)] [type=T] [session=D] [rebalance=D] [v=N]
//	sync MEMBER gen=N [instance=ID] [assign=(member:x,…)] [type=T] [protocol=P]
//	heartbeat MEMBER gen=N [instance=ID]
//	leave [MEMBER…] [instance=ID]             the instance of the only member, else of another named by it alone
//	commit [MEMBER] [gen=N] [instance=ID]
//	fetch, describe
//	offset-delete, delete, subscribed TOPIC, expires TOPIC commit=D
//	advance D                                 time goes by, deadline after deadline
//	hold, durable, fail                       the next step waits for the disk, which takes or refuses it
//	crash                                     only what is durable is left, and is read again
//	simple                                    the group commits an offset, without members
//
// Time is told from the start of the script. A joining client's member id is its name
// and a number. Subscriptions name topics, one or more with a plus between.
func (sc *classicScript) run(d *datadriven.TestData) string {
	sc.out.Reset()
	switch d.Cmd {
	case "config":
		sc.configure(d)
	case "join":
		sc.join(d)
	case "sync":
		sc.sync(d)
	case "heartbeat":
		sc.show("heartbeat")
		r := &HeartbeatRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: sc.generation(d), InstanceID: sc.optional(d, "instance")}
		sc.call("heartbeat", func(reply func(string, error)) step {
			err := ErrUnknownMemberID
			if g := sc.entry().classic(); g != nil {
				err = g.heartbeat(sc.now, r)
			}
			reply("", err)
			return step{}
		})
	case "leave":
		sc.leave(d)
	case "commit":
		sc.show("commit")
		r := &CommitRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: sc.generation(d), InstanceID: sc.optional(d, "instance"), Epochs: true}
		sc.call("commit", func(reply func(string, error)) step {
			_, err := checkCommit(sc.now, sc.entry(), r)
			reply("", err)
			return step{}
		})
	case "fetch":
		sc.show("fetch")
		var err error
		if g := sc.entry().classic(); g != nil {
			err = g.checkFetch(nil, -1)
		}
		sc.say("fetch: %s", kafkaName(err))
	case "describe":
		sc.describe()
	case "offset-delete":
		sc.say("offset-delete: %s", kafkaName(sc.entry().classic().checkOffsetDelete()))
	case "delete":
		sc.say("delete: %s", kafkaName(sc.entry().classic().checkDelete()))
	case "subscribed":
		sc.say("%v", sc.entry().classic().subscribed(arg(d, 0)))
	case "expires":
		at, ok := sc.entry().classic().expires(arg(d, 0), scriptStart.Add(sc.duration(d, "commit", 0)).UnixMilli(), time.Hour)
		if ok {
			sc.say("at t=%v", at.Sub(scriptStart))
		} else {
			sc.say("never")
		}
	case "advance":
		sc.advance(d)
	case "hold":
		sc.held = true
	case "durable":
		sc.settle(nil)
	case "fail":
		sc.settle(fmt.Errorf("disk: %w", ErrNotCoordinator))
	case "crash":
		sc.crash()
	case "simple":
		sc.shard.apply(change{group: scriptGroup, key: offsetKey{"orders", 0}, offset: &Offset{ExpireMs: -1}})
	default:
		d.Fatalf(sc.t, "unknown command %q", d.Cmd)
	}
	sc.sayState()
	return sc.out.String()
}

func (sc *classicScript) say(format string, args ...any) {
	fmt.Fprintf(&sc.out, format+"\n", args...)
}

// show notes that the scripts show a call in the state that the group is in.
func (sc *classicScript) show(call string) { sc.shown[classicCell{sc.state(), call}] = true }

// sayState tells of the group when something of it has changed.
func (sc *classicScript) sayState() {
	text := "no group"
	if g := sc.entry().classic(); g != nil {
		checkClassicGroup(sc.t, g)
		text = fmt.Sprintf("%s generation %d", g.current, g.generation)
		if g.protocol != "" {
			text += ", protocol " + g.protocol
		}
		if g.leader != "" {
			text += ", leader " + g.leader
		}
		for _, m := range g.members {
			text += ", " + m.id
			switch {
			case m.join != nil:
				text += " joining"
			case m.sync != nil:
				text += " syncing"
			}
		}
		for _, id := range slices.Sorted(maps.Keys(g.pending)) {
			text += ", " + id + " pending"
		}
	} else if sc.entry() != nil {
		text = "simple group"
	}
	if sc.flight != nil {
		text += " (in flight)"
	}
	if text != sc.last {
		sc.last = text
		sc.say("-> %s", text)
	}
}

// call runs f when the group is not busy and says what was answered, once.
func (sc *classicScript) call(what string, f func(reply func(string, error)) step) {
	answered := false
	sc.parked++
	run := func() step {
		return f(func(text string, err error) {
			if answered {
				sc.t.Errorf("%s was answered twice", what)
			}
			answered = true
			sc.parked--
			if text != "" {
				text = " " + text
			}
			sc.say("%s: %s%s", what, kafkaName(err), text)
		})
	}
	if sc.flight != nil {
		sc.queue = append(sc.queue, run)
		sc.say("%s: waits", what)
		return
	}
	sc.carry(run())
	if !answered && sc.flight == nil {
		sc.say("%s: parked", what)
	}
}

// carry does what the owner does with a step.
func (sc *classicScript) carry(st step) {
	for {
		switch {
		case len(st.records) > 0:
			sc.flight = &st
			if !sc.held {
				sc.settle(nil)
			}
			sc.held = false
			return
		case st.then != nil:
			st = st.then(sc.now, nil)
		default:
			return
		}
	}
}

// settle ends the flight, and lets the calls run that waited for it.
func (sc *classicScript) settle(err error) {
	st := sc.flight
	sc.flight = nil
	if st == nil {
		sc.t.Fatal("nothing is in flight")
	}
	for _, r := range st.records {
		if err != nil {
			sc.say("refused: %s", recordText(sc.t, r))
			continue
		}
		sc.log = append(sc.log, r)
		sc.say("stored: %s", recordText(sc.t, r))
	}
	sc.carry(st.finish(sc.now, err))
	for len(sc.queue) > 0 && sc.flight == nil {
		next := sc.queue[0]
		sc.queue = sc.queue[1:]
		sc.carry(next())
	}
}

func (sc *classicScript) configure(d *datadriven.TestData) {
	d.MaybeScanArgs(sc.t, "max-size", &sc.config.MaxSize)
	sc.config.InitialRebalanceDelay = sc.duration(d, "delay", sc.config.InitialRebalanceDelay)
}

func (sc *classicScript) join(d *datadriven.TestData) {
	client := arg(d, 0)
	version := 9
	d.MaybeScanArgs(sc.t, "v", &version)
	r := &JoinRequest{
		Group: scriptGroup, ClientID: client, ClientHost: "/10.0.0.1", InstanceID: sc.optional(d, "instance"), ProtocolType: "consumer",
		SessionTimeout: sc.duration(d, "session", 10*time.Second), RebalanceTimeout: sc.duration(d, "rebalance", time.Minute),
		NeedsMemberID: version >= 4, SkipsAssignment: version >= 9,
	}
	d.MaybeScanArgs(sc.t, "member", &r.MemberID)
	d.MaybeScanArgs(sc.t, "type", &r.ProtocolType)
	for _, p := range list(d, "protocols", "range:orders") {
		name, topics, _ := strings.Cut(p, ":")
		r.Protocols = append(r.Protocols, Protocol{Name: name, Metadata: subscription(topics)})
	}
	switch {
	case r.InstanceID != nil:
		sc.show("join of a static member")
	case r.MemberID != "":
		sc.show("join of a known member")
	default:
		sc.show("join of a new member")
	}
	sc.call(client+" joins", func(reply func(string, error)) step {
		return sc.shard.join(sc.now, sc.entry(), r, func(a JoinReply, err error) { reply(joinText(a, err), err) })
	})
}

func joinText(a JoinReply, err error) string {
	if err != nil {
		return a.MemberID
	}
	text := fmt.Sprintf("%s generation %d %s leader %s", a.MemberID, a.Generation, a.Protocol, a.Leader)
	if a.SkipAssignment {
		text += " skip assignment"
	}
	if a.Members != nil {
		text += " members"
		for _, m := range a.Members {
			text += " " + m.MemberID
			if m.InstanceID != nil {
				text += "(" + *m.InstanceID + ")"
			}
		}
	}
	return text
}

func (sc *classicScript) sync(d *datadriven.TestData) {
	r := &SyncRequest{
		Group: scriptGroup, MemberID: arg(d, 0), Generation: sc.generation(d), InstanceID: sc.optional(d, "instance"),
		ProtocolType: sc.optional(d, "type"), Protocol: sc.optional(d, "protocol"),
	}
	assigned := list(d, "assign", "")
	for _, a := range assigned {
		id, part, _ := strings.Cut(a, ":")
		r.Assignments = append(r.Assignments, Assignment{MemberID: id, Bytes: []byte(part)})
	}
	if len(assigned) > 0 {
		sc.show("sync of the leader")
	} else {
		sc.show("sync of a follower")
	}
	sc.call(r.MemberID+" syncs", func(reply func(string, error)) step {
		g := sc.entry().classic()
		if g == nil {
			reply("", ErrUnknownMemberID)
			return step{}
		}
		return g.sync(sc.now, r, func(a SyncReply, err error) {
			if err != nil {
				reply("", err)
				return
			}
			reply(fmt.Sprintf("%s %q", a.Protocol, a.Assignment), nil)
		})
	})
}

func (sc *classicScript) leave(d *datadriven.TestData) {
	sc.show("leave")
	r := &LeaveRequest{Group: scriptGroup}
	instance := sc.optional(d, "instance")
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			r.Members = append(r.Members, LeavingMember{MemberID: a.Key})
		}
	}
	switch {
	case instance != nil && len(r.Members) == 1:
		r.Members[0].InstanceID = instance
	case instance != nil:
		r.Members = append(r.Members, LeavingMember{InstanceID: instance})
	}
	sc.call("leave", func(reply func(string, error)) step {
		answer := func(a LeaveReply, err error) {
			names := make([]string, len(a))
			for i := range a {
				names[i] = kafkaName(a[i])
			}
			reply(strings.Join(names, " "), err)
		}
		g := sc.entry().classic()
		if g == nil {
			answer(slices.Repeat(LeaveReply{ErrUnknownMemberID}, len(r.Members)), nil)
			return step{}
		}
		return g.leave(sc.now, r, answer)
	})
}

func (sc *classicScript) describe() {
	sc.show("describe")
	g := sc.entry().classic()
	if g == nil {
		sc.say("%s", sc.state())
		return
	}
	d := g.describe()
	sc.say("%s type %q protocol %q", d.State, d.ProtocolType, d.Protocol)
	for _, m := range d.Members {
		text := fmt.Sprintf("%s client %s at %s", m.MemberID, m.ClientID, m.ClientHost)
		if m.InstanceID != nil {
			text += " instance " + *m.InstanceID
		}
		topics, _ := subscribedTopics(m.Metadata)
		sc.say("  %s subscribed %v assigned %q", text, topics, m.Assignment)
	}
}

// advance lets time go by. What has no deadline in a state is shown by time passing.
func (sc *classicScript) advance(d *datadriven.TestData) {
	by, err := time.ParseDuration(arg(d, 0))
	if err != nil {
		d.Fatalf(sc.t, "%v", err)
	}
	until := sc.now.Add(by)
	for sc.flight == nil {
		g := sc.entry().classic()
		if g == nil || g.next().IsZero() {
			sc.show("end of a session")
			sc.show("end of the rebalance timeout")
			break
		}
		due := g.next()
		if due.After(until) {
			break
		}
		if due.Equal(g.joinUntil) || due.Equal(g.syncUntil) {
			sc.show("end of the rebalance timeout")
		} else {
			sc.show("end of a session")
		}
		sc.now = due
		sc.say("t=%v", sc.now.Sub(scriptStart))
		sc.carry(g.tick(sc.now))
		sc.sayState()
	}
	sc.now = until
}

// crash forgets all that is not durable, and reads it.
func (sc *classicScript) crash() {
	sc.shard, sc.flight, sc.queue, sc.parked = newShard(sc.env), nil, nil, 0
	for _, r := range sc.log {
		if err := sc.shard.replayClassic(r.key, r.value); err != nil {
			sc.t.Fatal(err)
		}
	}
	if g := sc.entry().classic(); g != nil {
		sc.carry(g.loaded(sc.now))
	}
}

func recordText(t *testing.T, r logRecord) string {
	group, c, err := parseClassicRecord(r.key, r.value)
	if err != nil {
		t.Fatal(err)
	}
	if c == nil {
		return group + " removed"
	}
	text := fmt.Sprintf("generation %d", c.generation)
	if c.protocol != "" {
		text += ", protocol " + c.protocol
	}
	if c.leader != "" {
		text += ", leader " + c.leader
	}
	for _, m := range c.members {
		text += fmt.Sprintf(", %s %q", m.id, m.assignment)
	}
	return text
}

// generation is -1 when a script names none.
func (sc *classicScript) generation(d *datadriven.TestData) int32 {
	n := -1
	d.MaybeScanArgs(sc.t, "gen", &n)
	return int32(n)
}

func (sc *classicScript) optional(d *datadriven.TestData, name string) *string {
	var s string
	if !d.MaybeScanArgs(sc.t, name, &s) {
		return nil
	}
	return &s
}

func (sc *classicScript) duration(d *datadriven.TestData, name string, otherwise time.Duration) time.Duration {
	text := otherwise.String()
	d.MaybeScanArgs(sc.t, name, &text)
	v, err := time.ParseDuration(text)
	if err != nil {
		d.Fatalf(sc.t, "%v", err)
	}
	return v
}

// arg is the i-th word after the command that is no name=value, "" when there is none.
func arg(d *datadriven.TestData, i int) string {
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			continue
		}
		if i == 0 {
			return a.Key
		}
		i--
	}
	return ""
}

func list(d *datadriven.TestData, name, otherwise string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return a.Vals
		}
	}
	if otherwise == "" {
		return nil
	}
	return []string{otherwise}
}
