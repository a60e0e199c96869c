package compat_test

import (
	"context"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Error codes of the consumer protocol.
const (
	fencedMemberEpoch    = 110
	unreleasedInstanceID = 111
	unsupportedAssignor  = 112
	invalidRegex         = 128
)

// quickHeartbeats lets members of consumer groups learn of changes in half a second.
var quickHeartbeats = []string{"-c", "group.consumer.heartbeat.interval.ms=500", "-c", "group.consumer.min.heartbeat.interval.ms=500"}

// nextProtocol has franz-go use the consumer protocol.
func nextProtocol() kgo.Opt {
	//lint:ignore SA1029 the key is franz-go's
	return kgo.WithContext(context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true))
}

func TestConsumerGroupBalancesOverMembersThatComeAndGo(t *testing.T) {
	t.Parallel()
	s := newServer(t, quickHeartbeats...)
	b := s.band(t, 6)
	settle := func(what string) {
		t.Helper()
		b.until(t, what, func() bool { return b.balanced(6) })
	}
	one := b.join(t, "one", nextProtocol())
	settle("one member")
	two := b.join(t, "two", nextProtocol())
	settle("two members")
	three := b.join(t, "three", nextProtocol())
	settle("three members")
	if one.lost+two.lost+three.lost > 0 {
		t.Errorf("partitions were lost, want them handed over")
	}
	admin := kadm.NewClient(s.client(t))
	listed, err := admin.ListGroups(within(t))
	if err != nil {
		t.Fatal(err)
	}
	if g := listed[b.group]; g.ProtocolType != "consumer" || g.GroupType != "consumer" {
		t.Errorf("listed as %+v, want a consumer group", g)
	}
	c := &rawConsumer{conn: s.dial(t), group: b.group}
	if d := c.describe(); len(d.Members) != 3 || d.AssignorName != "uniform" {
		t.Errorf("described %+v, want three members by uniform", d)
	}
	b.dismiss(one)
	settle("the first has left")
	b.dismiss(two)
	settle("the second has left")
	b.dismiss(three)
	if d := c.describe(); d.State != "Empty" || len(d.Members) != 0 {
		t.Errorf("when all have left: %+v, want Empty", d)
	}
}

// TestMembersOfBothProtocolsShareAGroup moves a group from the classic protocol to the consumer protocol and back, a
// member at a time.
func TestMembersOfBothProtocolsShareAGroup(t *testing.T) {
	t.Parallel()
	s := newServer(t, quickHeartbeats...)
	b := s.band(t, 6)
	settle := func(what string) {
		t.Helper()
		b.until(t, what, func() bool { return b.balanced(6) })
	}
	kind := func(what, want string) {
		t.Helper()
		listed, err := kadm.NewClient(s.client(t)).ListGroups(within(t))
		if err != nil || listed[b.group].GroupType != want {
			t.Errorf("%s: the group is %+v %v, want a %s group", what, listed[b.group], err, want)
		}
	}
	balancers := kgo.Balancers(kgo.CooperativeStickyBalancer())
	one, two := b.join(t, "one", balancers), b.join(t, "two", balancers)
	settle("two classic members")
	kind("two classic members", "classic")
	next := b.join(t, "next", nextProtocol())
	settle("one of each")
	kind("one of each", "consumer")
	b.dismiss(one)
	settle("a classic member has left")
	b.dismiss(next)
	settle("only a classic member is left")
	kind("only a classic member is left", "classic")
	last := b.join(t, "last", nextProtocol())
	settle("a member of the consumer protocol came again")
	b.dismiss(two)
	settle("only a member of the consumer protocol is left")
	kind("only a member of the consumer protocol is left", "consumer")
	b.dismiss(last)
}

func TestConsumerGroupGoesOnOverKill9(t *testing.T) {
	t.Parallel()
	s := newServer(t, quickHeartbeats...)
	s.needProcess(t)
	b := s.band(t, 4)
	one := b.join(t, "one", nextProtocol())
	two := b.join(t, "two", nextProtocol())
	b.until(t, "both own half", func() bool { return b.balanced(4) })
	var came int
	b.note(func() { came = one.came + two.came })
	s.Kill9(t)
	s.Start(t)
	producer := s.client(t, kgo.DefaultProduceTopic(b.topic.Name))
	mustProduceSync(t, producer, kgo.StringRecord("after"))
	b.until(t, "the record is consumed", func() bool { return len(one.records)+len(two.records) == 1 })
	b.until(t, "both own half still", func() bool { return b.balanced(4) })
	b.note(func() {
		if now := one.came + two.came; now != came || one.lost+two.lost > 0 {
			t.Errorf("partitions came %d times after the restart and were lost %d times, want never", now-came, one.lost+two.lost)
		}
	})
}

// rawConsumer takes part in a group by raw heartbeats of the consumer protocol.
type rawConsumer struct {
	*conn
	group    string
	id       string
	instance *string
	epoch    int32
	owned    []int32 // of the topic
	topic    topic
}

func (s *server) rawConsumer(t testing.TB, group, id string, tp topic) *rawConsumer {
	t.Helper()
	c := &rawConsumer{conn: s.dial(t), group: group, id: id, topic: tp}
	s.makeCoordinator(c.conn, group)
	return c
}

// freshGroup returns the name of a group whose targets are made without delay.
func (s *server) freshGroup(t testing.TB) string {
	t.Helper()
	group := fresh("next")
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	value := "0"
	c.Name, c.Value = "consumer.assignment.interval.ms", &value
	r.Configs = append(r.Configs, c)
	req.Resources = append(req.Resources, r)
	answer := ask[*kmsg.IncrementalAlterConfigsResponse](s.dial(t), 1, req)
	wantCode(t, "group config", answer.Resources[0].ErrorCode, noError)
	return group
}

func (c *rawConsumer) joinRequest() *kmsg.ConsumerGroupHeartbeatRequest {
	req := c.request(0)
	req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 60_000, []string{c.topic.Name}
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return req
}

func (c *rawConsumer) request(epoch int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.InstanceID = c.group, c.id, epoch, c.instance
	return req
}

// ownedRequest is a heartbeat that says which partitions the member owns.
func (c *rawConsumer) ownedRequest(partitions ...int32) *kmsg.ConsumerGroupHeartbeatRequest {
	req := c.request(c.epoch)
	t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
	t.TopicID, t.Partitions = c.topic.ID, partitions
	req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{t}
	return req
}

// send repeats a heartbeat while the coordinator loads.
func (c *rawConsumer) beat(v int16, req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	c.t.Helper()
	ctx := within(c.t)
	for {
		r := ask[*kmsg.ConsumerGroupHeartbeatResponse](c.conn, v, req)
		if !isLoading(r.ErrorCode) || ctx.Err() != nil {
			return r
		}
	}
}

// ok is a heartbeat that must be taken, and what the member knows after it.
func (c *rawConsumer) ok(req *kmsg.ConsumerGroupHeartbeatRequest) *kmsg.ConsumerGroupHeartbeatResponse {
	c.t.Helper()
	r := c.beat(1, req)
	wantCode(c.t, "heartbeat of "+c.id, r.ErrorCode, noError)
	c.epoch = r.MemberEpoch
	if r.Assignment != nil {
		c.owned = nil
		for _, t := range r.Assignment.Topics {
			c.owned = append(c.owned, t.Partitions...)
		}
		slices.Sort(c.owned)
	}
	return r
}

func (c *rawConsumer) describe() kmsg.ConsumerGroupDescribeResponseGroup {
	c.t.Helper()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{c.group}
	ctx := within(c.t)
	for {
		r := ask[*kmsg.ConsumerGroupDescribeResponse](c.conn, 1, req)
		if !isLoading(r.Groups[0].ErrorCode) || ctx.Err() != nil {
			return r.Groups[0]
		}
	}
}

func wantOwned(t testing.TB, what string, c *rawConsumer, epoch int32, partitions ...int32) {
	t.Helper()
	if c.epoch != epoch || !slices.Equal(c.owned, partitions) {
		t.Fatalf("%s: %s has %v at epoch %d, want %v at %d", what, c.id, c.owned, c.epoch, partitions, epoch)
	}
}

func TestConsumerGroupHeartbeatRules(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tp := s.createTopic(t, "orders", 4)
	text := func(s string) *string { return &s }

	t.Run("K848-01 joining rules", func(t *testing.T) {
		c := s.rawConsumer(t, s.freshGroup(t), "m1", tp)
		for what, change := range map[string]func(*kmsg.ConsumerGroupHeartbeatRequest){
			"topic partitions null":   func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = nil },
			"topic partitions":        func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Topics = c.ownedRequest(0).Topics },
			"no rebalance timeout":    func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 },
			"no subscription":         func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = nil },
			"no member id":            func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = "" },
			"empty group id":          func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = "" },
			"empty instance id":       func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = text("") },
			"empty rack id":           func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = text("") },
			"epoch -2 of no instance": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -2 },
			"epoch -3":                func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberEpoch = -3 },
		} {
			req := c.joinRequest()
			change(req)
			r := c.beat(1, req)
			wantCode(t, what, r.ErrorCode, invalidRequest)
			if r.MemberID != nil || r.Assignment != nil || r.ErrorMessage == nil {
				t.Errorf("%s: got %+v, want an error with a text alone", what, r)
			}
		}
		req := c.request(1)
		wantCode(t, "epoch 1 of no group", c.beat(1, req).ErrorCode, groupIDNotFound)
		r := c.ok(c.joinRequest())
		wantOwned(t, "join", c, 2, 0, 1, 2, 3)
		if r.HeartbeatIntervalMillis <= 0 {
			t.Errorf("heartbeat interval %d, want a time", r.HeartbeatIntervalMillis)
		}
		if r := c.ok(c.request(c.epoch)); r.Assignment != nil {
			t.Errorf("heartbeat without a change has assignment %+v, want null", r.Assignment)
		}
		req = c.joinRequest()
		req.Group, req.MemberID = s.freshGroup(t), ""
		if r := c.beat(0, req); r.ErrorCode != noError || r.MemberID == nil || *r.MemberID == "" {
			t.Errorf("version 0 without a member id: got %+v, want an id", r)
		}
	})

	t.Run("K848-03 static instance in use", func(t *testing.T) {
		group := s.freshGroup(t)
		first, second := s.rawConsumer(t, group, "m1", tp), s.rawConsumer(t, group, "m2", tp)
		first.instance, second.instance = text("i1"), text("i1")
		first.ok(first.joinRequest())
		wantCode(t, "join with an instance in use", second.beat(1, second.joinRequest()).ErrorCode, unreleasedInstanceID)
		wantCode(t, "the same join again, as when its answer was lost", first.beat(1, first.joinRequest()).ErrorCode, unreleasedInstanceID)
		wantCode(t, "heartbeat with another's instance", second.beat(1, second.request(2)).ErrorCode, fencedInstanceID)
		if r := first.beat(1, first.request(-2)); r.ErrorCode != noError || r.MemberEpoch != -2 {
			t.Fatalf("leave for a while: got %+v", r)
		}
		second.ok(second.joinRequest())
		wantOwned(t, "join after -2", second, 2, 0, 1, 2, 3)
	})

	t.Run("K848-04 unknown server assignor", func(t *testing.T) {
		c := s.rawConsumer(t, s.freshGroup(t), "m1", tp)
		req := c.joinRequest()
		req.ServerAssignor = text("nope")
		wantCode(t, "assignor nope", c.beat(1, req).ErrorCode, unsupportedAssignor)
		req.ServerAssignor = text("range")
		c.ok(req)
		if d := c.describe(); d.AssignorName != "range" {
			t.Errorf("described with assignor %q, want range", d.AssignorName)
		}
	})

	t.Run("K848-05 no partition owned twice during hand-over", func(t *testing.T) {
		group := s.freshGroup(t)
		a, b := s.rawConsumer(t, group, "a", tp), s.rawConsumer(t, group, "b", tp)
		a.ok(a.joinRequest())
		b.ok(b.joinRequest())
		wantOwned(t, "b has joined", b, 3)
		all := slices.Clone(a.owned)
		a.ok(a.ownedRequest(all...))
		if len(a.owned) != 2 || a.epoch != 2 {
			t.Fatalf("a is to have %v at epoch %d, want two partitions at 2", a.owned, a.epoch)
		}
		for range 3 {
			a.ok(a.ownedRequest(all...))
			b.ok(b.request(b.epoch))
			wantOwned(t, "while a owns all", b, 3)
		}
		if d := a.describe(); d.State != "Reconciling" || d.Epoch != 3 || d.AssignmentEpoch != 3 {
			t.Errorf("described %+v, want Reconciling at 3", d)
		}
		a.ok(a.ownedRequest(a.owned...))
		b.ok(b.request(b.epoch))
		if len(b.owned) != 2 || slices.Contains(a.owned, b.owned[0]) || slices.Contains(a.owned, b.owned[1]) {
			t.Errorf("a has %v and b %v, want two each", a.owned, b.owned)
		}
		if d := a.describe(); d.State != "Stable" || len(d.Members) != 2 || d.Members[0].MemberType != 1 {
			t.Errorf("described %+v, want Stable with two members of type 1", d)
		}
	})

	t.Run("epochs", func(t *testing.T) {
		c := s.rawConsumer(t, s.freshGroup(t), "m1", tp)
		c.ok(c.joinRequest())
		wantCode(t, "greater epoch", c.beat(1, c.request(3)).ErrorCode, fencedMemberEpoch)
		wantCode(t, "smaller epoch", c.beat(1, c.request(1)).ErrorCode, fencedMemberEpoch)
		stranger := s.rawConsumer(t, c.group, "stranger", tp)
		wantCode(t, "unknown member", stranger.beat(1, stranger.request(2)).ErrorCode, unknownMemberID)
		wantCode(t, "leave of an unknown member", stranger.beat(1, stranger.request(-1)).ErrorCode, unknownMemberID)
		if r := c.beat(1, c.request(-1)); r.ErrorCode != noError || r.MemberEpoch != -1 || r.HeartbeatIntervalMillis != 0 || r.Assignment != nil {
			t.Errorf("leave: got %+v", r)
		}
		if d := c.describe(); d.State != "Empty" || d.Epoch != 3 || d.AssignmentEpoch != 3 {
			t.Errorf("described %+v, want Empty at epoch 3", d)
		}
	})

	t.Run("regular expressions", func(t *testing.T) {
		c := s.rawConsumer(t, s.freshGroup(t), "m1", tp)
		req := c.joinRequest()
		req.SubscribedTopicNames, req.SubscribedTopicRegex = nil, text("a[")
		wantCode(t, "an expression that is none", c.beat(1, req).ErrorCode, invalidRegex)
		req.SubscribedTopicRegex = text(tp.Name[:len(tp.Name)-1] + ".")
		c.ok(req)
		wantOwned(t, "the expression is not resolved yet", c, 1)
		for ctx := within(t); c.epoch == 1 && ctx.Err() == nil; {
			c.ok(c.ownedRequest())
		}
		wantOwned(t, "the expression is resolved", c, 2, 0, 1, 2, 3)
		other := s.rawConsumer(t, s.freshGroup(t), "m1", tp)
		req.Group, req.SubscribedTopicRegex = other.group, text("rder")
		other.ok(req)
		other.ok(other.request(other.epoch))
		if len(other.owned) != 0 {
			t.Errorf("a part of the name matches %v, want nothing", other.owned)
		}
	})

	t.Run("describe of what is no consumer group", func(t *testing.T) {
		c := s.rawConsumer(t, fresh("none"), "m1", tp)
		if d := c.describe(); d.ErrorCode != groupIDNotFound || d.ErrorMessage == nil {
			t.Errorf("unknown group: %+v", d)
		}
		c.group = ""
		wantCode(t, "empty group id", c.describe().ErrorCode, 24)
	})
}

// TestClassicMemberInAConsumerGroup holds the classic calls to a consumer group.
func TestClassicMemberInAConsumerGroup(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tp := s.createTopic(t, "orders", 4)
	group := s.freshGroup(t)
	c := s.rawConsumer(t, group, "m1", tp)
	c.ok(c.joinRequest())

	m := s.rawMember(t, group, "range")
	join := func() *kmsg.JoinGroupRequest {
		req := m.joinRequest()
		sub := kmsg.NewConsumerMemberMetadata()
		sub.Topics = []string{tp.Name}
		req.Protocols[0].Metadata = sub.AppendTo(nil)
		return req
	}
	r := m.joinOnce(9, join())
	wantCode(t, "first join", r.ErrorCode, memberIDRequired)
	m.id = r.MemberID
	r = m.joined(m.joinOnce(9, join()))
	if r.Generation != 3 || r.LeaderID != "" || len(r.Members) != 0 || deref(r.Protocol) != "range" || deref(r.ProtocolType) != "consumer" {
		t.Errorf("joined %+v, want generation 3 without a leader", r)
	}
	if sync := m.sync(); sync.ErrorCode != noError {
		t.Errorf("sync: %+v", sync)
	}
	wantCode(t, "heartbeat while the partitions are another's", m.heartbeat(), noError)
	c.ok(c.ownedRequest(c.owned...))
	c.ok(c.ownedRequest(c.owned...))
	wantCode(t, "heartbeat when they are free", m.heartbeat(), rebalanceInProgress)
	m.joined(m.joinOnce(9, join()))
	sync := m.sync()
	var assigned kmsg.ConsumerMemberAssignment
	if err := assigned.ReadFrom(sync.MemberAssignment); err != nil || len(assigned.Topics) != 1 || len(assigned.Topics[0].Partitions) != 2 {
		t.Errorf("assigned %+v %v, want two partitions", assigned, err)
	}
	if d := c.describe(); len(d.Members) != 2 || d.State != "Stable" {
		t.Errorf("described %+v", d)
	}
	wantCode(t, "describe by the classic call", m.describe(6).ErrorCode, groupIDNotFound)

	// The last member of the consumer protocol leaves: a classic group is left, with a rebalance.
	wantCode(t, "leave", c.beat(1, c.request(-1)).ErrorCode, noError)
	wantCode(t, "heartbeat in the classic group", m.heartbeat(), rebalanceInProgress)
	wantCode(t, "heartbeat of who has left", c.beat(1, c.request(c.epoch)).ErrorCode, groupIDNotFound)
	r = m.joined(m.joinOnce(9, join()))
	if r.Generation != 4 || r.LeaderID != m.id {
		t.Errorf("joined %+v, want to lead generation 4", r)
	}
}
