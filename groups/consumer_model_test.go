package groups

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

var consumerSeed = flag.Uint64("consumer-seed", 0, "the one life that TestConsumerGroupLives goes through; 0 for many")

// TestConsumerGroupLives lets members of both protocols live in a group at random:
// they join, lose answers, are slow to give partitions up, leave, die and come back,
// while topics come and go, the disk refuses writes, and the coordinator crashes. At
// no time do two of them consume a partition, epochs never go back, and once it is
// quiet every group settles with every partition consumed.
func TestConsumerGroupLives(t *testing.T) {
	seeds := []uint64{*consumerSeed}
	if *consumerSeed == 0 {
		seeds = nil
		for seed := range uint64(60) {
			seeds = append(seeds, seed+1)
		}
	}
	for _, seed := range seeds {
		l := &consumerLife{t: t, w: newGroupWorld(), r: rand.New(rand.NewPCG(seed, 848)), clients: map[string]*lifeClient{}}
		l.live()
		if t.Failed() {
			t.Fatalf("repeat with: go test ./groups -run TestConsumerGroupLives -consumer-seed %d", seed)
		}
	}
}

// consumerLife is one group and its clients.
type consumerLife struct {
	t       *testing.T
	w       *groupWorld
	r       *rand.Rand
	clients map[string]*lifeClient
	joined  int
	epoch   int32 // of the group, as last seen
	quiet   bool  // nobody wants anything else any more
}

// lifeClient is a member as its client sees it.
type lifeClient struct {
	id       string
	instance *string
	topics   []string
	classic  bool
	epoch    int32
	owned    map[topicPart]bool // what it consumes
	must     []TopicPartitions  // what it was assigned last; nil before
	unsure   bool               // an answer was lost, so that it says all again
	synced   bool               // a classic member knows its assignment
}

type topicPart struct {
	topic     storage.TopicID
	partition int32
}

func (l *consumerLife) live() {
	l.w.topic("a", 4)
	l.w.topic("b", 3)
	l.w.group.ConsumerAssignmentInterval = time.Duration(l.r.IntN(3)) * 500 * time.Millisecond
	for range 120 {
		l.turn()
		l.checkOwners()
		if l.t.Failed() {
			return
		}
	}
	l.settle()
}

// turn is one thing that happens.
func (l *consumerLife) turn() {
	w := l.w
	switch n := l.r.IntN(100); {
	case n < 8:
		l.join()
	case n < 78:
		l.beatOne(l.r.IntN(10) == 0)
	case n < 81:
		l.leave()
	case n < 83: // dies: it consumes nothing any more
		if id := l.any(); id != "" {
			delete(l.clients, id)
		}
	case n < 85:
		w.topic([]string{"a", "b", "c"}[l.r.IntN(3)], 1+l.r.Int32N(6))
	case n < 86:
		w.topic("c", 0)
	case n < 90:
		w.crash(l.t)
	case n < 93:
		w.held = true
		l.beatOne(false)
		w.held = false
		if w.flight != nil {
			w.settle(fmt.Errorf("disk: %w", ErrNotCoordinator))
		}
	default:
		for until := w.now.Add(time.Duration(l.r.IntN(20)) * time.Second); w.advance(until); {
			l.checkOwners()
		}
	}
	w.checkConsumer(l.t)
	l.checkEpochs()
}

func (l *consumerLife) any() string {
	ids := slices.Sorted(maps.Keys(l.clients))
	if len(ids) == 0 {
		return ""
	}
	return ids[l.r.IntN(len(ids))]
}

func (l *consumerLife) join() {
	if len(l.clients) > 5 {
		return
	}
	l.joined++
	c := &lifeClient{id: fmt.Sprintf("m%d", l.joined), owned: map[topicPart]bool{}, classic: l.r.IntN(4) == 0}
	for _, name := range []string{"a", "b", "c"} {
		if l.r.IntN(3) > 0 {
			c.topics = append(c.topics, name)
		}
	}
	if l.r.IntN(3) == 0 && !c.classic {
		s := fmt.Sprintf("i%d", l.r.IntN(2))
		c.instance = &s
	}
	if c.classic && len(c.topics) == 0 {
		c.topics = []string{"a"}
	}
	if c.classic {
		c.id = "" // is given one
		l.joinClassic(c)
		return
	}
	l.clients[c.id] = c
	l.beat(c, false)
}

// beatOne has a client say something; lost is whether it does not get the answer.
func (l *consumerLife) beatOne(lost bool) {
	id := l.any()
	if id == "" {
		return
	}
	c := l.clients[id]
	if c.classic {
		l.beatClassic(c)
		return
	}
	l.beat(c, lost)
}

// beat is a heartbeat of the consumer protocol, and what its client makes of it.
func (l *consumerLife) beat(c *lifeClient, lost bool) {
	r := &ConsumerHeartbeatRequest{
		Group: scriptGroup, MemberID: c.id, MemberEpoch: c.epoch, InstanceID: c.instance, RebalanceTimeoutMs: -1,
		ClientID: "c", ClientHost: "/h", OwnMemberID: true,
	}
	if c.epoch == joiningEpoch {
		clear(c.owned)
		c.must = nil
		r.RebalanceTimeoutMs, r.Topics, r.Owned = 30_000, c.topics, []TopicPartitions{}
		if r.Topics == nil {
			r.Topics = []string{}
		}
	} else {
		c.giveUp(l.r.IntN(4) == 0)
		r.Owned = c.ownedPartitions()
		if c.unsure {
			r.RebalanceTimeoutMs, r.Topics = 30_000, append([]string{}, c.topics...)
		}
		if !l.quiet && l.r.IntN(15) == 0 {
			r.Topics = []string{"a", "b"}[l.r.IntN(2):]
			c.topics = r.Topics
		}
	}
	l.w.call(func() step {
		return l.w.shard.consumerHeartbeat(l.w.now, l.w.entry(), r, func(a ConsumerHeartbeat, err error) {
			c.unsure = lost || errors.Is(err, ErrNotCoordinator)
			if lost {
				return
			}
			l.told(c, a, err)
		})
	})
}

// told is what a client makes of an answer.
func (l *consumerLife) told(c *lifeClient, a ConsumerHeartbeat, err error) {
	switch {
	case err == nil:
		if a.MemberEpoch < c.epoch {
			l.t.Errorf("%s was told epoch %d after %d", c.id, a.MemberEpoch, c.epoch)
		}
		c.epoch = a.MemberEpoch
		if a.Assigned != nil {
			c.must = a.Assigned
		}
		c.take()
	case errors.Is(err, ErrFencedMemberEpoch), errors.Is(err, ErrUnknownMemberID), errors.Is(err, ErrGroupIDNotFound):
		clear(c.owned) // it abandons everything and joins again
		c.epoch, c.must = joiningEpoch, nil
	case errors.Is(err, ErrUnreleasedInstanceID), errors.Is(err, ErrFencedInstanceID):
		delete(l.clients, c.id) // another has its instance
	case errors.Is(err, ErrNotCoordinator):
	default:
		l.t.Errorf("%s at epoch %d: %v", c.id, c.epoch, err)
	}
}

// giveUp stops consuming what is assigned no more, unless the client is slow.
func (c *lifeClient) giveUp(slow bool) {
	if c.must == nil || slow {
		return
	}
	may := c.mayHave()
	for p := range c.owned {
		if !may[p] {
			delete(c.owned, p)
		}
	}
}

// take begins to consume what is assigned, once the rest is given up.
func (c *lifeClient) take() {
	may := c.mayHave()
	for p := range c.owned {
		if !may[p] {
			return
		}
	}
	maps.Copy(c.owned, may)
}

func (c *lifeClient) mayHave() map[topicPart]bool {
	may := map[topicPart]bool{}
	for _, t := range c.must {
		for _, p := range t.Partitions {
			may[topicPart{t.TopicID, p}] = true
		}
	}
	return may
}

func (c *lifeClient) ownedPartitions() []TopicPartitions {
	out := []TopicPartitions{}
	for p := range c.owned {
		i := slices.IndexFunc(out, func(t TopicPartitions) bool { return t.TopicID == p.topic })
		if i < 0 {
			out = append(out, TopicPartitions{TopicID: p.topic})
			i = len(out) - 1
		}
		out[i].Partitions = append(out[i].Partitions, p.partition)
	}
	return out
}

func (l *consumerLife) leave() {
	id := l.any()
	if id == "" {
		return
	}
	c := l.clients[id]
	delete(l.clients, id)
	if c.classic {
		l.w.call(func() step {
			switch e := l.w.entry(); {
			case e.consumer() != nil:
				return e.consumer().leaveClassic(l.w.now, &LeaveRequest{Members: []LeavingMember{{MemberID: id}}}, func(LeaveReply, error) {})
			case e.classic() != nil:
				return e.classic().leave(l.w.now, &LeaveRequest{Members: []LeavingMember{{MemberID: id}}}, func(LeaveReply, error) {})
			}
			return step{}
		})
		return
	}
	r := &ConsumerHeartbeatRequest{Group: scriptGroup, MemberID: c.id, MemberEpoch: leavingEpoch, InstanceID: c.instance, RebalanceTimeoutMs: -1}
	if c.instance != nil && l.r.IntN(2) == 0 {
		r.MemberEpoch = staticAwayEpoch
	}
	l.w.call(func() step {
		return l.w.shard.consumerHeartbeat(l.w.now, l.w.entry(), r, func(ConsumerHeartbeat, error) {})
	})
}

// joinClassic lets a client join with the classic protocol; in a classic group it
// assigns nothing when it leads, so that only what a consumer group assigns counts.
func (l *consumerLife) joinClassic(c *lifeClient) {
	metadata := subscription(joined(c.topics))
	owned := c.ownedPartitions()
	metadata = runtime.AppendInt32(metadata[:len(metadata)-4], int32(len(owned)))
	for _, t := range owned {
		info, ok := l.w.env.topics.byID(t.TopicID)
		if !ok {
			info.name = "gone"
		}
		metadata = runtime.AppendInt32(runtime.AppendPlainString(metadata, info.name), int32(len(t.Partitions)))
		for _, p := range t.Partitions {
			metadata = runtime.AppendInt32(metadata, p)
		}
	}
	r := &JoinRequest{
		Group: scriptGroup, MemberID: c.id, ClientID: "classic", ClientHost: "/h", ProtocolType: "consumer",
		SessionTimeout: 30 * time.Second, RebalanceTimeout: 20 * time.Second, Protocols: []Protocol{{Name: "range", Metadata: metadata}},
	}
	l.w.call(func() step {
		return l.w.shard.join(l.w.now, l.w.entry(), r, func(a JoinReply, err error) {
			if err != nil {
				l.tellClassic(c, err)
				return
			}
			delete(l.clients, c.id)
			c.id, c.epoch, c.synced = a.MemberID, a.Generation, false
			l.clients[c.id] = c
		})
	})
}

func joined(names []string) string {
	s := ""
	for i, n := range names {
		if i > 0 {
			s += "+"
		}
		s += n
	}
	return s
}

// tellClassic is what a client of the classic protocol makes of an error.
func (l *consumerLife) tellClassic(c *lifeClient, err error) {
	switch {
	case errors.Is(err, ErrRebalanceInProgress):
		c.synced = false
	case errors.Is(err, ErrNotCoordinator):
	default:
		delete(l.clients, c.id)
		clear(c.owned)
	}
}

// beatClassic syncs or beats, and joins again when it has to.
func (l *consumerLife) beatClassic(c *lifeClient) {
	l.w.call(func() step {
		e := l.w.entry()
		switch {
		case e.consumer() == nil && e.classic() == nil:
			l.tellClassic(c, ErrUnknownMemberID)
			return step{}
		case !c.synced:
			r := &SyncRequest{Group: scriptGroup, MemberID: c.id, Generation: c.epoch}
			told := func(a SyncReply, err error) {
				if err != nil {
					l.tellClassic(c, err)
					if errors.Is(err, ErrRebalanceInProgress) {
						c.epoch = -1
					}
					return
				}
				p, _, err := parseAssignment(a.Assignment, l.w.env.topics)
				if err != nil && len(a.Assignment) > 0 {
					l.t.Errorf("assignment %x: %v", a.Assignment, err)
				}
				c.synced = true
				c.must = listed(p)
				c.giveUp(false)
				c.take()
			}
			if g := e.classic(); g != nil {
				return g.sync(l.w.now, r, told)
			}
			told(e.consumer().syncClassic(l.w.now, r))
			return step{}
		}
		r := &HeartbeatRequest{Group: scriptGroup, MemberID: c.id, Generation: c.epoch}
		var err error
		if g := e.classic(); g != nil {
			err = g.heartbeat(l.w.now, r)
		} else {
			err = e.consumer().heartbeatClassic(l.w.now, r)
		}
		if err != nil {
			l.tellClassic(c, err)
			if errors.Is(err, ErrRebalanceInProgress) {
				c.epoch = -1
			}
		}
		return step{}
	})
	if l.clients[c.id] == c && c.epoch == -1 {
		l.joinClassic(c)
	}
}

// checkOwners looks at what clients consume: the group still knows them as members
// that may, so that no other may.
func (l *consumerLife) checkOwners() {
	g := l.w.entry().consumer()
	if g == nil {
		return
	}
	owner := map[topicPart]string{}
	for _, id := range slices.Sorted(maps.Keys(l.clients)) {
		c := l.clients[id]
		m := g.members[id]
		if m == nil || m.epoch != c.epoch && m.previousEpoch != c.epoch {
			continue // it is out, and learns that with its next call
		}
		for p := range c.owned {
			if _, exists := l.w.env.topics.byID(p.topic); !exists {
				continue
			}
			if other, taken := owner[p]; taken {
				l.t.Errorf("%v is consumed by %s and by %s", p, other, id)
			}
			owner[p] = id
		}
	}
}

// checkEpochs sees to it that the group's epoch never goes back while it is of one kind.
func (l *consumerLife) checkEpochs() {
	g := l.w.entry().consumer()
	if g == nil {
		l.epoch = 0
		return
	}
	if g.epoch < l.epoch {
		l.t.Errorf("group epoch %d after %d", g.epoch, l.epoch)
	}
	l.epoch = g.epoch
}

// settle is quiet time: everybody beats, nobody comes or goes. In the end a consumer
// group is stable, and every partition that somebody wants is consumed once.
func (l *consumerLife) settle() {
	l.quiet = true
	for range 60 {
		for _, id := range slices.Sorted(maps.Keys(l.clients)) {
			c := l.clients[id]
			if c == nil {
				continue
			}
			if c.classic {
				l.beatClassic(c)
			} else {
				l.beat(c, false)
			}
		}
		for until := l.w.now.Add(3 * time.Second); l.w.advance(until); {
		}
		l.w.checkConsumer(l.t)
		l.checkOwners()
	}
	g := l.w.entry().consumer()
	if g == nil || len(g.members) == 0 {
		return
	}
	if g.state() != consumerStable {
		l.t.Errorf("state %s after quiet time, want Stable\n%s", g.state(), durableText(g))
	}
	for name, topic := range l.w.topics {
		if !g.subscribed(name) {
			continue
		}
		for p := range topic.partitions {
			consumers := 0
			for _, c := range l.clients {
				if c.owned[topicPart{topic.id, p}] {
					consumers++
				}
			}
			if consumers != 1 {
				l.t.Errorf("%s-%d is consumed by %d clients after quiet time, want 1\n%s", name, p, consumers, durableText(g))
			}
		}
	}
}
