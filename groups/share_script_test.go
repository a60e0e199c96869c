package groups

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/storage"
)

// TestShareGroupScripts runs the stories in testdata/share. Their commands are in
// (*shareScript).run.
func TestShareGroupScripts(t *testing.T) {
	walk(t, "testdata/share", func(*testing.T) (*script, func(*datadriven.TestData)) {
		sc := &shareScript{script: newScript()}
		sc.state = sc.groupState
		sc.w.env.initialize = func(_ string, asked sharedTopics, starts []ShareStart) {
			sc.asked = append(sc.asked, asked)
			sc.say("asks for states: %s", sc.starts(starts))
		}
		sc.w.stored = func(r logRecord, err error) {
			if sc.records {
				sc.say("%s", sc.record(r, err))
			}
		}
		return &sc.script, sc.run
	})
}

// shareScript tells what happens to a share group.
type shareScript struct {
	script
	records bool           // records are told of
	asked   []sharedTopics // states that were asked for, and of which nothing was heard
}

// run executes one command:
//
//	config [max-size=N] [interval=D] [session=D]
//	records                         tell from here on what is written
//	join MEMBER [topics=(a,…)] [rack=R], beat MEMBER epoch=N [topics=(a,…)] [rack=R], leave MEMBER
//	made, not-made                  what was asked for first is there, or could not be made
//	topic-deleted NAME              the group hears that a topic is gone
//	describe, list, delete, remove, expire, commit, fetch, offset-delete, classic-join, consumer-join
//
// and those of runWorld.
func (sc *shareScript) run(d *datadriven.TestData) {
	w := sc.w
	switch d.Cmd {
	case "config":
		d.MaybeScanArgs(sc.t, "max-size", &w.config.ShareMaxSize)
		w.group.ShareAssignmentInterval = durationArg(sc.t, d, "interval", w.group.ShareAssignmentInterval)
		w.group.ShareSessionTimeout = durationArg(sc.t, d, "session", w.group.ShareSessionTimeout)
	case "records":
		sc.records = true
	case "join", "beat", "leave":
		sc.heartbeat(d)
	case "made", "not-made":
		asked := sc.asked[0]
		sc.asked = sc.asked[1:]
		sc.call(func() step {
			return w.entry().share().initialized(w.now, asked, d.Cmd == "made", func(err error) { sc.say("%s", kafkaName(err)) })
		})
	case "topic-deleted":
		id := sc.idOf(arg(d, 0))
		w.topic(arg(d, 0), 0)
		sc.call(func() step { return w.entry().share().topicDeleted(w.now, id, func(error) {}) })
	case "describe":
		sc.describe()
	case "list":
		l, ok := w.entry().listed()
		sc.say("%q %s %s %v", l.ProtocolType, l.State, l.Kind, ok)
	case "remove":
		sc.call(func() step {
			return w.shard.removal(w.entry(), nil, true, func(err error) { sc.say("%s", kafkaName(err)); w.shard.dropEmpty(w.entry()) })
		})
	case "commit":
		err := checkCommit(w.now, w.entry(), &CommitRequest{Group: scriptGroup, Generation: -1}, nil)
		sc.say("%s", kafkaName(err))
	case "fetch":
		sc.say("%s", kafkaName(w.entry().machine.checkFetch(nil, -1)))
	case "offset-delete":
		sc.say("%s", kafkaName(w.entry().machine.checkOffsetDelete()))
	case "delete":
		sc.say("%s", kafkaName(w.entry().machine.checkDelete()))
	case "expire":
		sc.call(func() step { return w.shard.expireStep(w.now, w.entry(), func(error) {}) })
	case "classic-join":
		r := &JoinRequest{Group: scriptGroup, ProtocolType: "consumer", SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute, Protocols: []Protocol{{Name: "range", Metadata: subscription("orders")}}}
		sc.call(func() step {
			return w.shard.join(w.now, w.entry(), r, func(_ JoinReply, err error) { sc.say("%s", kafkaName(err)) })
		})
	case "consumer-join":
		r := &ConsumerHeartbeatRequest{Group: scriptGroup, MemberID: "c", Topics: []string{"orders"}, Owned: []TopicPartitions{}, RebalanceTimeoutMs: 1000}
		sc.call(func() step {
			return w.shard.consumerHeartbeat(w.now, w.entry(), r, func(_ ConsumerHeartbeat, err error) { sc.say("%s", kafkaName(err)) })
		})
	case "crash":
		sc.runWorld(d)
		sc.asked = nil
	default:
		sc.runWorld(d)
	}
	sc.check()
}

func (sc *shareScript) idOf(name string) storage.TopicID { return sc.w.topics[name].id }

// heartbeat runs join, beat and leave.
func (sc *shareScript) heartbeat(d *datadriven.TestData) {
	w := sc.w
	r := &ShareHeartbeatRequest{Group: scriptGroup, MemberID: strings.Trim(arg(d, 0), `"`), RackID: optionalArg(sc.t, d, "rack"), ClientID: "client", ClientHost: "/10.0.0.1"}
	if r.MemberID == "blank" {
		r.MemberID = " \t"
	}
	if topics := list(d, "topics", ""); topics != nil {
		r.Topics = slices.DeleteFunc(slices.Clone(topics), func(s string) bool { return s == "none" })
		if r.Topics == nil {
			r.Topics = []string{}
		}
	}
	switch d.Cmd {
	case "beat":
		r.MemberEpoch = int32(number(sc.t, d, "epoch", 0))
	case "leave":
		r.MemberEpoch = leavingEpoch
	}
	if err := r.check(); err != nil {
		sc.say("%s", kafkaShareName(err))
		return
	}
	sc.call(func() step {
		return w.shard.shareHeartbeat(w.now, w.entry(), r, func(a ShareHeartbeat, err error) {
			if err != nil {
				sc.say("%s", kafkaShareName(err))
				return
			}
			text := fmt.Sprintf("%s epoch %d", a.MemberID, a.MemberEpoch)
			if a.Assigned != nil {
				p := assignor.Partitions{}
				for _, t := range a.Assigned {
					p[t.TopicID] = t.Partitions
				}
				text += " assigned [" + sc.partitions(p) + "]"
			}
			sc.say("%s", text)
		})
	})
}

func kafkaShareName(err error) string {
	if errors.Is(err, ErrInvalidRequest) {
		return strings.Replace(err.Error(), ": invalid request", "", 1) + ": INVALID_REQUEST"
	}
	return consumerErrorName(err)
}

// partitions writes partitions with the names of their topics.
func (sc *shareScript) partitions(p assignor.Partitions) string {
	return formatPartitions(newConsumerGroup("", sc.w.env), p)
}

func (sc *shareScript) starts(list []ShareStart) string {
	var out []string
	for _, s := range list {
		t, _ := sc.w.env.topics.byID(s.TopicID)
		out = append(out, fmt.Sprintf("%s-%d at %d", t.name, s.Partition, s.Offset))
	}
	return strings.Join(out, ", ")
}

// groupState is what is told of the group.
func (sc *shareScript) groupState() string {
	text := "no group"
	switch e := sc.w.entry(); {
	case e.known() == nil:
	case e.share() != nil:
		g := e.share()
		text = fmt.Sprintf("%s epoch %d target %d", g.state(), g.epoch, g.targetEpoch)
		if g.states != nil {
			text += fmt.Sprintf(" states [%s] asked [%s]", sc.partitions(g.states.initialized.partitions()), sc.partitions(g.states.initializing.partitions()))
			for _, id := range sortedIDs(g.states.deleting) {
				text += " deleting " + g.states.deleting[id]
			}
		}
		for _, id := range g.memberIDs() {
			m := g.members[id]
			text += fmt.Sprintf("\n   %s at %d", id, m.epoch)
			if has := sc.partitions(m.assigned); has != "" {
				text += " has " + has
			}
			if want := g.target[id]; !want.Equal(m.assigned) {
				text += " wants " + sc.partitions(want)
			}
		}
	case e.machine != nil:
		text = fmt.Sprintf("%s group", e.machine.kind())
	default:
		text = "simple group"
	}
	if sc.w.flight != nil {
		text += "\n   (in flight)"
	}
	return text
}

func (sc *shareScript) describe() {
	d := sc.w.entry().share().describe()
	sc.say("%s epoch %d target %d assignor %s", d.State, d.Epoch, d.TargetEpoch, d.Assignor)
	for _, m := range d.Members {
		var has []string
		for _, p := range m.Assigned {
			has = append(has, fmt.Sprintf("%s:%v", p.Topic, p.Partitions))
		}
		rack := "none"
		if m.RackID != nil {
			rack = *m.RackID
		}
		sc.say("%s epoch %d %s at %s rack %s topics %v has [%s]", m.MemberID, m.Epoch, m.ClientID, m.ClientHost, rack, m.Topics, strings.Join(has, " "))
	}
}

// record tells of a record that was written, or refused.
func (sc *shareScript) record(r logRecord, err error) string {
	what := "stored"
	if err != nil {
		what = "refused"
	}
	_, rec, err := decodeModernRecord(r.key, r.value)
	if err != nil {
		sc.t.Fatal(err)
	}
	names := map[int16]string{
		typeShareMember: "member", typeShareEpoch: "group", typeShareTargetEpoch: "target epoch", typeShareTarget: "target",
		typeShareCurrent: "current", typeShareStates: "states",
	}
	text := strings.TrimSpace(what + ": " + names[rec.kind] + " " + rec.name)
	switch b := rec.body.(type) {
	case nil:
		return text + " removed"
	case shareEpochBody:
		return fmt.Sprintf("%s epoch %d", text, b.epoch)
	case *shareMetadata:
		return fmt.Sprintf("%s topics %v", text, b.topics)
	case targetEpochBody:
		return fmt.Sprintf("%s %d timed %v", text, b.epoch, b.timeMs != 0)
	case targetBody:
		return fmt.Sprintf("%s [%s]", text, sc.partitions(b.partitions))
	case *shareAssignment:
		return fmt.Sprintf("%s epoch %d before %d %s [%s]", text, b.epoch, b.previousEpoch, b.state, sc.partitions(b.assigned))
	case *shareStates:
		return fmt.Sprintf("%s there [%s] asked [%s] deleting %d", text, sc.partitions(b.initialized.partitions()), sc.partitions(b.initializing.partitions()), len(b.deleting))
	}
	return text
}

// check holds the group against what must always be so, and against its log.
func (sc *shareScript) check() {
	sc.t.Helper()
	g := sc.w.entry().share()
	if g == nil || sc.w.flight != nil {
		return
	}
	for id, m := range g.members {
		if m.epoch > g.targetEpoch || g.targetEpoch > g.epoch {
			sc.t.Errorf("member %s is at epoch %d, the target at %d and the group at %d", id, m.epoch, g.targetEpoch, g.epoch)
		}
		if g.sessions[id].IsZero() {
			sc.t.Errorf("member %s has no session", id)
		}
	}
	if len(g.sessions) != len(g.members) {
		sc.t.Errorf("%d sessions of %d members", len(g.sessions), len(g.members))
	}
	read := sc.w.replayed(sc.t).entries[scriptGroup].share()
	if read == nil {
		sc.t.Fatalf("the log has no share group, want one of epoch %d", g.epoch)
	}
	if got, want := durableShareText(read), durableShareText(g); got != want {
		sc.t.Errorf("the log says\n%s\nwant\n%s", got, want)
	}
}

// durableShareText is what a restart must not forget of a group.
func durableShareText(g *shareGroup) string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch %d hash %x target %d at %d targets %d\n", g.epoch, g.metadataHash, g.targetEpoch, g.targetMs, len(g.target))
	for _, id := range g.memberIDs() {
		m := g.members[id]
		fmt.Fprintf(&b, "%s %x %x target %v\n", id, m.shareMetadata.append(nil), m.shareAssignment.append(nil), g.target[id])
	}
	if g.states != nil {
		fmt.Fprintf(&b, "states %x\n", g.states.append(nil))
	}
	return b.String()
}
