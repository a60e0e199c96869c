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
	walk(t, "testdata/classic", func(t *testing.T) (*script, func(*datadriven.TestData)) {
		sc := newClassicScript(t, shown)
		return &sc.script, sc.run
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

// classicScript tells what happens to a classic group.
type classicScript struct {
	script
	shown  map[classicCell]bool
	parked int // calls without an answer
}

func newClassicScript(t *testing.T, shown map[classicCell]bool) *classicScript {
	sc := &classicScript{script: newScript(), shown: shown}
	sc.t, sc.script.state = t, sc.groupState
	sc.w.config = Config{MinSessionTimeout: 6 * time.Second, MaxSessionTimeout: 30 * time.Minute, InitialRebalanceDelay: 3 * time.Second, MaxSize: 100}
	ids := 0
	sc.w.env.newID = func() string { ids++; return strconv.Itoa(ids) }
	sc.w.stored = func(r logRecord, err error) {
		what := "stored"
		if err != nil {
			what = "refused"
		}
		sc.say("%s: %s", what, recordText(sc.t, r))
	}
	return sc
}

func (sc *classicScript) current() classicState {
	if g := sc.w.entry().classic(); g != nil {
		return g.current
	}
	if sc.w.entry() != nil {
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
//	commit, txn-commit [MEMBER] [gen=N] [instance=ID]
//	fetch, describe
//	offset-delete, delete, subscribed TOPIC, expires TOPIC commit=D
//
// and those of runWorld. A joining client's member id is its name and a number.
// Subscriptions name topics, one or more with a plus between.
func (sc *classicScript) run(d *datadriven.TestData) {
	switch d.Cmd {
	case "config":
		sc.configure(d)
	case "join":
		sc.join(d)
	case "sync":
		sc.sync(d)
	case "heartbeat":
		sc.show("heartbeat")
		r := &HeartbeatRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: sc.generation(d), InstanceID: optionalArg(sc.t, d, "instance")}
		sc.call("heartbeat", func(reply func(string, error)) step {
			err := ErrUnknownMemberID
			if g := sc.w.entry().classic(); g != nil {
				err = g.heartbeat(sc.w.now, r)
			}
			reply("", err)
			return step{}
		})
	case "leave":
		sc.leave(d)
	case "commit":
		sc.show("commit")
		r := &CommitRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: sc.generation(d), InstanceID: optionalArg(sc.t, d, "instance"), Epochs: true}
		sc.call("commit", func(reply func(string, error)) step {
			err := checkCommit(sc.w.now, sc.w.entry(), r, nil)
			reply("", err)
			return step{}
		})
	case "txn-commit":
		r := &CommitRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: sc.generation(d), InstanceID: optionalArg(sc.t, d, "instance"), transactional: true}
		err := checkTransactionalCommit(sc.w.now, sc.w.entry(), r, nil)
		sc.say("txn-commit: %s", kafkaName(err))
	case "fetch":
		sc.show("fetch")
		var err error
		if g := sc.w.entry().classic(); g != nil {
			err = g.checkFetch(nil, -1)
		}
		sc.say("fetch: %s", kafkaName(err))
	case "describe":
		sc.describe()
	case "offset-delete":
		sc.say("offset-delete: %s", kafkaName(sc.w.entry().classic().checkOffsetDelete()))
	case "delete":
		sc.say("delete: %s", kafkaName(sc.w.entry().classic().checkDelete()))
	case "subscribed":
		sc.say("%v", sc.w.entry().classic().subscribed(arg(d, 0)))
	case "expires":
		sc.sayExpiry(d)
	case "advance":
		sc.advance(d)
	case "crash":
		sc.parked = 0
		sc.runWorld(d)
	default:
		sc.runWorld(d)
	}
}

// show notes that the scripts show a call in the state that the group is in.
func (sc *classicScript) show(call string) { sc.shown[classicCell{sc.current(), call}] = true }

// groupState is what is told of the group.
func (sc *classicScript) groupState() string {
	text := "no group"
	if g := sc.w.entry().classic(); g != nil {
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
		for _, id := range slices.Sorted(maps.Keys(g.pending.byID)) {
			text += ", " + id + " pending"
		}
	} else if sc.w.entry() != nil {
		text = "simple group"
	}
	if sc.w.flight != nil {
		text += " (in flight)"
	}
	return text
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
	if sc.w.call(run) {
		sc.say("%s: waits", what)
		return
	}
	if !answered && sc.w.flight == nil {
		sc.say("%s: parked", what)
	}
}

func (sc *classicScript) configure(d *datadriven.TestData) {
	d.MaybeScanArgs(sc.t, "max-size", &sc.w.config.MaxSize)
	sc.w.config.InitialRebalanceDelay = durationArg(sc.t, d, "delay", sc.w.config.InitialRebalanceDelay)
}

func (sc *classicScript) join(d *datadriven.TestData) {
	client := arg(d, 0)
	version := 9
	d.MaybeScanArgs(sc.t, "v", &version)
	r := &JoinRequest{
		Group: scriptGroup, ClientID: client, ClientHost: "/10.0.0.1", InstanceID: optionalArg(sc.t, d, "instance"), ProtocolType: "consumer",
		SessionTimeout: durationArg(sc.t, d, "session", 10*time.Second), RebalanceTimeout: durationArg(sc.t, d, "rebalance", time.Minute),
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
		return sc.w.shard.join(sc.w.now, sc.w.entry(), r, func(a JoinReply, err error) { reply(joinText(a, err), err) })
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
		Group: scriptGroup, MemberID: arg(d, 0), Generation: sc.generation(d), InstanceID: optionalArg(sc.t, d, "instance"),
		ProtocolType: optionalArg(sc.t, d, "type"), Protocol: optionalArg(sc.t, d, "protocol"),
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
		g := sc.w.entry().classic()
		if g == nil {
			reply("", ErrUnknownMemberID)
			return step{}
		}
		return g.sync(sc.w.now, r, func(a SyncReply, err error) {
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
	instance := optionalArg(sc.t, d, "instance")
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
		g := sc.w.entry().classic()
		if g == nil {
			answer(slices.Repeat(LeaveReply{ErrUnknownMemberID}, len(r.Members)), nil)
			return step{}
		}
		return g.leave(sc.w.now, r, answer)
	})
}

func (sc *classicScript) describe() {
	sc.show("describe")
	g := sc.w.entry().classic()
	if g == nil {
		sc.say("%s", sc.current())
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
	until := sc.w.now.Add(by)
	for sc.w.flight == nil {
		g := sc.w.entry().classic()
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
		sc.w.now = due
		sc.say("t=%v", sc.w.now.Sub(scriptStart))
		sc.w.carry(g.tick(sc.w.now))
		sc.sayState()
	}
	sc.w.now = until
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
