package groups

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/kaen-log/gateway/groups/assignor"
	"github.com/kaen-log/gateway/groups/runtime"
)

// TestConsumerGroupScripts runs the stories in testdata/consumer. Their commands are
// in (*consumerScript).run.
func TestConsumerGroupScripts(t *testing.T) {
	walk(t, "testdata/consumer", func(*testing.T) (*script, func(*datadriven.TestData)) {
		sc := &consumerScript{script: newScript()}
		sc.state = sc.groupState
		sc.w.stored = func(r logRecord, err error) {
			if sc.records {
				sc.say("%s", consumerRecordText(sc.t, sc.w, r, err))
			}
		}
		return &sc.script, sc.run
	})
}

// consumerScript tells what happens to a consumer group.
type consumerScript struct {
	script
	records bool // records are told of
}

// run executes one command:
//
//	config [max-size=N] [classic-max-size=N] [assignors=(a,…)] [migration=P] [interval=D] [session=D]
//	records                                 tell from here on what is written
//	join MEMBER [instance=I] [topics=(a,…)] [regex=R] [assignor=A] [rebalance=D] [rack=R] [v=0]
//	beat MEMBER epoch=N [owned=(topic:p+p,…)] and what join may have; owned=none owns nothing
//	leave MEMBER [instance=I], away MEMBER instance=I
//	classic-join CLIENT [member=M] [instance=I] [protocols=(p:topics,…)] [session=D] [rebalance=D] [v=N]
//	classic-sync MEMBER gen=N [instance=I] [assign=(member:topic:p+p,…)]
//	classic-beat MEMBER gen=N [instance=I]
//	classic-leave [MEMBER…] [instance=I]
//	commit [MEMBER] epoch=N of=topic:p [v=8], txn-commit the same [instance=ID] [v=6], fetch [MEMBER] epoch=N
//	describe, delete, offset-delete, subscribed TOPIC, expires TOPIC commit=D
//
// and those of runWorld.
func (sc *consumerScript) run(d *datadriven.TestData) {
	w := sc.w
	switch d.Cmd {
	case "config":
		sc.configure(d)
	case "records":
		sc.records = true
	case "join", "beat", "leave", "away":
		sc.heartbeat(d)
	case "classic-join":
		sc.classicJoin(d)
	case "classic-sync":
		sc.classicSync(d)
	case "classic-beat":
		r := &HeartbeatRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: int32(number(sc.t, d, "gen", -1)), InstanceID: optionalArg(sc.t, d, "instance")}
		sc.call(func() step {
			err := ErrUnknownMemberID
			if g := w.entry().classic(); g != nil {
				err = g.heartbeat(w.now, r)
			} else if g := w.entry().consumer(); g != nil {
				err = g.heartbeatClassic(w.now, r)
			}
			sc.say("%s", kafkaName(err))
			return step{}
		})
	case "classic-leave":
		sc.classicLeave(d)
	case "commit", "txn-commit":
		sc.commit(d)
	case "fetch":
		sc.say("%s", consumerErrorName(w.entry().machine.checkFetch(fetcher(d), int32(number(sc.t, d, "epoch", -1)))))
	case "describe":
		sc.describe()
	case "delete":
		sc.say("%s", kafkaName(w.entry().machine.checkDelete()))
	case "offset-delete":
		sc.say("%s", kafkaName(w.entry().machine.checkOffsetDelete()))
	case "subscribed":
		sc.say("%v", w.entry().machine.subscribed(arg(d, 0)))
	case "expires":
		sc.sayExpiry(d)
	default:
		sc.runWorld(d)
	}
	w.checkConsumer(sc.t)
}

// groupState is what is told of the group.
func (sc *consumerScript) groupState() string {
	text := "no group"
	switch e := sc.w.entry(); {
	case e == nil:
	case e.consumer() != nil:
		g := e.consumer()
		text = fmt.Sprintf("%s epoch %d target %d", g.state(), g.epoch, g.targetEpoch)
		for _, id := range g.memberIDs() {
			m := g.members[id]
			text += fmt.Sprintf("\n   %s at %d %s", id, m.epoch, m.state)
			if m.classic != nil {
				text += " classic"
			}
			if has := formatPartitions(g, m.assigned.partitions()); has != "" {
				text += " has " + has
			}
			if gives := formatPartitions(g, m.revoking.partitions()); gives != "" {
				text += " gives up " + gives
			}
			if want := g.target[id]; !want.Equal(m.assigned.partitions()) {
				text += " wants " + formatPartitions(g, want)
			}
		}
	case e.classic() != nil:
		g := e.classic()
		text = fmt.Sprintf("classic group %s generation %d", g.current, g.generation)
		for _, m := range g.members {
			text += "\n   " + m.id
			if len(m.assignment) > 0 {
				if p, _, err := parseAssignment(m.assignment, sc.w.env.topics); err == nil {
					text += " has " + formatPartitions(newConsumerGroup("", sc.w.env), p)
				}
			}
		}
	default:
		text = "simple group"
	}
	if sc.w.flight != nil {
		text += "\n   (in flight)"
	}
	return text
}

func (sc *consumerScript) configure(d *datadriven.TestData) {
	w := sc.w
	d.MaybeScanArgs(sc.t, "max-size", &w.config.ConsumerMaxSize)
	d.MaybeScanArgs(sc.t, "classic-max-size", &w.config.MaxSize)
	w.config.ConsumerAssignors = listOr(list(d, "assignors", ""), w.config.ConsumerAssignors)
	policy := string(w.config.Migration)
	d.MaybeScanArgs(sc.t, "migration", &policy)
	w.config.Migration = MigrationPolicy(policy)
	w.group.ConsumerAssignmentInterval = durationArg(sc.t, d, "interval", w.group.ConsumerAssignmentInterval)
	w.group.ConsumerSessionTimeout = durationArg(sc.t, d, "session", w.group.ConsumerSessionTimeout)
}

func listOr(list, otherwise []string) []string {
	if list == nil {
		return otherwise
	}
	return list
}

// heartbeat runs join, beat, leave and away.
func (sc *consumerScript) heartbeat(d *datadriven.TestData) {
	w := sc.w
	r := &ConsumerHeartbeatRequest{
		Group: scriptGroup, MemberID: arg(d, 0), InstanceID: optionalArg(sc.t, d, "instance"), RackID: optionalArg(sc.t, d, "rack"),
		RebalanceTimeoutMs: -1, Regex: optionalArg(sc.t, d, "regex"), Assignor: optionalArg(sc.t, d, "assignor"),
		ClientID: "client", ClientHost: "/10.0.0.1", OwnMemberID: number(sc.t, d, "v", 1) >= 1,
	}
	topics := list(d, "topics", "")
	if topics != nil {
		r.Topics = slices.DeleteFunc(slices.Clone(topics), func(s string) bool { return s == "none" })
		if r.Topics == nil {
			r.Topics = []string{}
		}
	}
	if timeout := durationArg(sc.t, d, "rebalance", 0); timeout > 0 {
		r.RebalanceTimeoutMs = int32(timeout.Milliseconds())
	}
	if owned := list(d, "owned", ""); owned != nil {
		r.Owned = sc.owned(owned)
	}
	switch d.Cmd {
	case "join":
		if r.Owned == nil && !slices.Contains(list(d, "without", ""), "owned") {
			r.Owned = []TopicPartitions{}
		}
		if r.RebalanceTimeoutMs == -1 && !slices.Contains(list(d, "without", ""), "rebalance") {
			r.RebalanceTimeoutMs = 60_000
		}
	case "beat":
		r.MemberEpoch = int32(number(sc.t, d, "epoch", 0))
	case "leave":
		r.MemberEpoch = leavingEpoch
	case "away":
		r.MemberEpoch = staticAwayEpoch
	}
	if err := r.check(&w.config); err != nil {
		sc.say("%s", consumerErrorName(err))
		return
	}
	sc.call(func() step {
		return w.shard.consumerHeartbeat(w.now, w.entry(), r, func(a ConsumerHeartbeat, err error) {
			if err != nil {
				sc.say("%s", consumerErrorName(err))
				return
			}
			text := fmt.Sprintf("%s epoch %d", a.MemberID, a.MemberEpoch)
			if a.Assigned != nil {
				p := assignor.Partitions{}
				for _, t := range a.Assigned {
					p[t.TopicID] = t.Partitions
				}
				text += " assigned [" + formatPartitions(newConsumerGroup("", w.env), p) + "]"
			}
			sc.say("%s", text)
		})
	})
}

// owned reads partitions by topic, as orders:0+1.
func (sc *consumerScript) owned(list []string) []TopicPartitions {
	out := []TopicPartitions{}
	for _, s := range list {
		name, partitions, ok := strings.Cut(s, ":")
		if !ok {
			continue // none
		}
		t := TopicPartitions{TopicID: sc.w.topics[name].id}
		for p := range strings.SplitSeq(partitions, "+") {
			n, err := strconv.Atoi(p)
			if err != nil {
				sc.t.Fatal(err)
			}
			t.Partitions = append(t.Partitions, int32(n))
		}
		out = append(out, t)
	}
	return out
}

func (sc *consumerScript) classicJoin(d *datadriven.TestData) {
	w := sc.w
	client := arg(d, 0)
	r := &JoinRequest{
		Group: scriptGroup, ClientID: client, ClientHost: "/10.0.0.1", InstanceID: optionalArg(sc.t, d, "instance"), ProtocolType: "consumer",
		SessionTimeout: durationArg(sc.t, d, "session", 10*time.Second), RebalanceTimeout: durationArg(sc.t, d, "rebalance", time.Minute),
		NeedsMemberID: number(sc.t, d, "v", 9) >= 4, SkipsAssignment: true,
	}
	d.MaybeScanArgs(sc.t, "member", &r.MemberID)
	d.MaybeScanArgs(sc.t, "type", &r.ProtocolType)
	for _, p := range list(d, "protocols", "range:orders") {
		name, topics, _ := strings.Cut(p, ":")
		r.Protocols = append(r.Protocols, Protocol{Name: name, Metadata: subscription(topics)})
	}
	if owned := list(d, "owned", ""); owned != nil {
		r.Protocols[0].Metadata = sc.ownedSubscription(r.Protocols[0].Metadata, owned)
	}
	sc.call(func() step {
		return w.shard.join(w.now, w.entry(), r, func(a JoinReply, err error) {
			if err != nil {
				sc.say("%s", strings.TrimSpace(fmt.Sprintf("%s: %s %s", client, kafkaName(err), a.MemberID)))
				return
			}
			sc.say("%s: %s generation %d %s leader %q", client, a.MemberID, a.Generation, a.Protocol, a.Leader)
		})
	})
}

// ownedSubscription adds to a subscription without owned partitions those that are.
func (sc *consumerScript) ownedSubscription(s []byte, list []string) []byte {
	s = s[:len(s)-4]
	owned := sc.owned(list)
	s = runtime.AppendInt32(s, int32(len(owned)))
	for _, t := range owned {
		info, _ := sc.w.env.topics.byID(t.TopicID)
		s = runtime.AppendInt32(runtime.AppendPlainString(s, info.name), int32(len(t.Partitions)))
		for _, p := range t.Partitions {
			s = runtime.AppendInt32(s, p)
		}
	}
	return s
}

func (sc *consumerScript) classicSync(d *datadriven.TestData) {
	w := sc.w
	r := &SyncRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: int32(number(sc.t, d, "gen", -1)), InstanceID: optionalArg(sc.t, d, "instance"), Protocol: optionalArg(sc.t, d, "protocol")}
	for _, a := range list(d, "assign", "") {
		id, part, _ := strings.Cut(a, ":")
		p := assignor.Partitions{}
		for _, t := range sc.owned([]string{part}) {
			p[t.TopicID] = t.Partitions
		}
		bytes, err := newConsumerGroup("", w.env).embeddedAssignment(p, subscription("x"))
		if err != nil {
			sc.t.Fatal(err)
		}
		r.Assignments = append(r.Assignments, Assignment{MemberID: id, Bytes: bytes})
	}
	tell := func(a SyncReply, err error) {
		if err != nil {
			sc.say("%s: %s", r.MemberID, kafkaName(err))
			return
		}
		p, _, err := parseAssignment(a.Assignment, w.env.topics)
		sc.say("%s: %s [%s] %v", r.MemberID, a.Protocol, formatPartitions(newConsumerGroup("", w.env), p), err)
	}
	sc.call(func() step {
		if g := w.entry().classic(); g != nil {
			return g.sync(w.now, r, tell)
		}
		if g := w.entry().consumer(); g != nil {
			tell(g.syncClassic(w.now, r))
		}
		return step{}
	})
}

func (sc *consumerScript) classicLeave(d *datadriven.TestData) {
	w := sc.w
	r := &LeaveRequest{Group: scriptGroup}
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			r.Members = append(r.Members, LeavingMember{MemberID: a.Key})
		}
	}
	if instance := optionalArg(sc.t, d, "instance"); instance != nil {
		r.Members = append(r.Members, LeavingMember{InstanceID: instance})
	}
	tell := func(a LeaveReply, err error) {
		names := make([]string, len(a))
		for i := range a {
			names[i] = kafkaName(a[i])
		}
		sc.say("%s %s", kafkaName(err), strings.Join(names, " "))
	}
	sc.call(func() step {
		if g := w.entry().classic(); g != nil {
			return g.leave(w.now, r, tell)
		}
		return w.entry().consumer().leaveClassic(w.now, r, tell)
	})
}

func (sc *consumerScript) commit(d *datadriven.TestData) {
	r := &CommitRequest{Group: scriptGroup, MemberID: arg(d, 0), Generation: int32(number(sc.t, d, "epoch", -1)), Epochs: number(sc.t, d, "v", 9) >= 9}
	for _, t := range sc.owned(list(d, "of", "orders:0")) {
		info, _ := sc.w.env.topics.byID(t.TopicID)
		for _, p := range t.Partitions {
			r.Commits = append(r.Commits, Commit{Topic: info.name, TopicID: t.TopicID, Partition: p})
		}
	}
	check := checkCommit
	if r.transactional = d.Cmd == "txn-commit"; r.transactional {
		r.Epochs, r.InstanceID = number(sc.t, d, "v", 5) >= 6, optionalArg(sc.t, d, "instance")
		check = checkTransactionalCommit
	}
	err := check(sc.w.now, sc.w.entry(), r, make([]error, len(r.Commits)))
	sc.say("%s", consumerErrorName(err))
}

func (sc *consumerScript) describe() {
	g := sc.w.entry().consumer()
	d := g.describe()
	sc.say("%s epoch %d target %d assignor %s", d.State, d.Epoch, d.TargetEpoch, d.Assignor)
	named := func(list []NamedPartitions) string {
		var out []string
		for _, p := range list {
			out = append(out, fmt.Sprintf("%s:%v", p.Topic, p.Partitions))
		}
		return strings.Join(out, " ")
	}
	for _, m := range d.Members {
		text := fmt.Sprintf("%s epoch %d at %s topics %v", m.MemberID, m.Epoch, m.ClientHost, m.Topics)
		if m.InstanceID != nil {
			text += " instance " + *m.InstanceID
		}
		if m.Regex != "" {
			text += " regex " + m.Regex
		}
		if m.Classic {
			text += " classic"
		}
		sc.say("%s has [%s] target [%s]", text, named(m.Assigned), named(m.Target))
	}
}

// consumerRecordText tells of a record that was written, or refused.
func consumerRecordText(t *testing.T, w *groupWorld, r logRecord, err error) string {
	what := "stored"
	if err != nil {
		what = "refused"
	}
	if r.key[1] == typeGroupMetadata {
		return what + ": classic " + recordText(t, r)
	}
	_, rec, err := decodeModernRecord(r.key, r.value)
	if err != nil {
		t.Fatal(err)
	}
	names := map[int16]string{
		typeConsumerEpoch: "group", typeConsumerTopics: "topics", typeConsumerMember: "member", typeConsumerTargetEpoch: "target epoch",
		typeConsumerTarget: "target", typeConsumerCurrent: "current", typeConsumerResolvedRegex: "regex",
	}
	g := newConsumerGroup("", w.env)
	text := strings.TrimSpace(what + ": " + names[rec.kind] + " " + rec.name)
	switch b := rec.body.(type) {
	case nil:
		return text + " removed"
	case epochBody:
		return fmt.Sprintf("%s epoch %d", text, b.epoch)
	case *memberMetadata:
		return fmt.Sprintf("%s topics %v", text, b.topics)
	case targetEpochBody:
		return fmt.Sprintf("%s %d", text, b.epoch)
	case targetBody:
		return fmt.Sprintf("%s [%s]", text, formatPartitions(g, b.partitions))
	case *currentAssignment:
		return fmt.Sprintf("%s epoch %d before %d %s [%s] [%s]", text, b.epoch, b.previousEpoch, b.state,
			formatPartitions(g, b.assigned.partitions()), formatPartitions(g, b.revoking.partitions()))
	case *resolvedRegex:
		return fmt.Sprintf("%s %v", text, b.topics)
	}
	return text
}

// consumerErrorName is kafkaName with the errors of the consumer protocol.
func consumerErrorName(err error) string {
	for name, of := range map[string]error{
		"INVALID_REQUEST": ErrInvalidRequest, "UNSUPPORTED_ASSIGNOR": ErrUnsupportedAssignor, "FENCED_MEMBER_EPOCH": ErrFencedMemberEpoch,
		"UNRELEASED_INSTANCE_ID": ErrUnreleasedInstanceID, "INVALID_REGULAR_EXPRESSION": ErrInvalidRegex,
		"STALE_MEMBER_EPOCH": ErrStaleMemberEpoch, "UNSUPPORTED_VERSION": ErrUnsupportedVersion,
	} {
		if errors.Is(err, of) {
			return name
		}
	}
	return kafkaName(err)
}

// fetcher is the member that a fetch names, if any; "" is an empty id.
func fetcher(d *datadriven.TestData) *string {
	id := arg(d, 0)
	if id == "" {
		return nil
	}
	id = strings.Trim(id, `"`)
	return &id
}
