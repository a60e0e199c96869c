package wire

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wideServer is a server with little memory for answers whose only topic makes Metadata answer with some 150 kB.
func wideServer(t *testing.T) (s *server, metadata *kmsg.MetadataRequest) {
	t.Helper()
	s = newServer(t, map[string]string{"gateway.answer.memory.bytes": "1048576"})
	s.topic("orders", 5000)
	return s, metadataOf(9, "orders")
}

// mostOfWide is the most that answers of a wideServer may be charged with: their memory, and one answer for each turn.
func mostOfWide(s *server) int64 { return 1<<20 + int64(s.s.answerTurns.limit())*224<<10 }

// Answers that are built as a whole wait for memory like those of fetches, and the peers that do not read theirs are cut
// off.
func TestLargeAnswersOfAnyKindWaitForMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metadata := wideServer(t)
		for range 10 {
			s.dial(t).send(metadata) // and never reads the answer
		}
		synctest.Wait()
		if st := s.s.Stats(); st.AnswerBytes > mostOfWide(s) || st.AnswerBytes < 1<<19 || st.MemoryWaits == 0 {
			t.Errorf("%d answer bytes held and %d waits, want at most %d, and some", st.AnswerBytes, st.MemoryWaits, mostOfWide(s))
		}
		s.dial(t).call(versions()) // small ones do not wait
		began := time.Now()
		got := s.dial(t).call(metadata).(*kmsg.MetadataResponse)
		if d := time.Since(began); len(got.Topics) != 1 || d < quietWindow || d > quietWindow+budgetPatience {
			t.Errorf("%d topics after %v, want one when the peers that stall were cut after %v", len(got.Topics), d, quietWindow)
		}
	})
}

// However many ask, what is made for them and not taken is bounded, and somebody who reads does not wait until each of
// them was looked at.
func TestManyWhoNeverReadHoldLittleAndKeepNobodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metadata := wideServer(t)
		reader := s.dial(t)
		reader.call(metadata)
		var lazy []*client
		for range 200 {
			lazy = append(lazy, s.dial(t))
		}
		kept(t, "200 answers of 150 kB for who never reads", 8<<20, func() {
			for _, c := range lazy {
				c.send(metadata)
			}
		})
		if held := s.s.Stats().AnswerBytes; held > mostOfWide(s) {
			t.Errorf("%d answer bytes are held, want at most %d", held, mostOfWide(s))
		}
		for _, c := range []*client{reader, s.dial(t), reader} {
			began := time.Now()
			if c.call(metadata); time.Since(began) > quietWindow+budgetPatience {
				t.Errorf("an answer to somebody who reads came after %v, want at most %v", time.Since(began), quietWindow+budgetPatience)
			}
		}
	})
}

// Who waits for a turn and leaves stands in nobody's way, and answers that wait are still given when the server stops.
func TestWaitingForATurnEndsWithThePeerAndNotWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metadata := wideServer(t)
		var all []*client
		for range 20 {
			c := s.dial(t)
			c.send(metadata)
			all = append(all, c)
		}
		synctest.Wait()
		for _, c := range all[10:] {
			_ = c.Close()
		}
		synctest.Wait()
		if n := s.s.Stats().Connections; n != 10 {
			t.Errorf("%d connections when ten of 20 left, want 10", n)
		}
		stopped := make(chan error, 1)
		go func() { stopped <- s.s.Shutdown(context.Background()) }()
		synctest.Wait()
		var wg sync.WaitGroup
		for _, c := range all[:10] {
			wg.Go(func() { c.receive(metadata, 1) })
		}
		wg.Wait()
		if err := <-stopped; err != nil {
			t.Errorf("shutdown: %v", err)
		}
		if st := s.s.Stats(); st.AnswerBytes != 0 {
			t.Errorf("%d answer bytes are held, want none", st.AnswerBytes)
		}
	})
}

func TestTurnsGoToReadersAndToTheFirstAndTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line turns
		for range line.limit() {
			if err := line.take(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
		}
		var mu sync.Mutex
		var order []string
		ctx, cancel := context.WithCancel(t.Context())
		wait := func(ctx context.Context, name string, known bool) {
			go func() {
				err := line.take(ctx, known, nil)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					name = "no " + name
				}
				order = append(order, name)
			}()
			synctest.Wait()
		}
		wait(ctx, "left", false)
		for i := range 6 {
			wait(t.Context(), fmt.Sprint(i), false)
		}
		wait(t.Context(), "reader", true)
		wait(t.Context(), "other", true)
		wait(ctx, "gone", true)
		cancel()
		synctest.Wait()
		order = nil
		for range line.limit() + 8 {
			line.give()
			synctest.Wait()
		}
		if got := strings.Join(order, " "); got != "0 reader 5 other 1 4 2 3" {
			t.Errorf("turns went to %s", got)
		}
		if line.taken != 0 {
			t.Errorf("%d turns are taken, want none", line.taken)
		}
	})
}

// One at a time asks for memory, and when that is there the turn is for whose it is then: somebody who has read before does
// not wait for those who came earlier and were to ask.
func TestTurnIsGivenWhenThereIsMemoryForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var line turns
		asked, memory := make(chan string), make(chan error)
		got := make(chan string, 10)
		take := func(name string, known bool) {
			go func() {
				if err := line.take(t.Context(), known, func() error { asked <- name; return <-memory }); err != nil {
					name = "no " + name
				}
				got <- name
			}()
			synctest.Wait()
		}
		grant := func(asks string, err error, want string) {
			t.Helper()
			if name := <-asked; name != asks {
				t.Errorf("%s asks for memory, want %s", name, asks)
			}
			memory <- err
			synctest.Wait()
			if len(got) != 1 {
				t.Fatalf("%d got a turn, want one", len(got))
			}
			name := <-got
			if name != want {
				t.Errorf("the turn is for %s, want %s", name, want)
			}
			if err == nil {
				line.give()
				synctest.Wait()
			}
		}
		take("first", false)
		take("second", false)
		take("third", false)
		grant("first", nil, "first")
		take("reader", true)
		take("other", true)
		grant("third", nil, "reader") // the last that came was to have it
		grant("third", nil, "third")
		grant("other", errors.New("gone"), "no other")
		grant("second", nil, "second")
		if line.taken != 0 || line.asking {
			t.Errorf("%d turns are taken, want none", line.taken)
		}
	})
}

// Peers that wait for a turn and do not read what they were sent before are looked at together with those that hold
// memory.
func TestWaitingPeersThatDoNotReadAreCutTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRunningBroker(t, map[string]string{"gateway.answer.memory.bytes": "1048576"})
		near, far := net.Pipe()
		defer func() { _ = near.Close() }()
		var looks atomic.Int64
		b.s.arrivedAt = func(c net.Conn) arrival {
			if c == far { // what it asked for before still arrives
				return arrival{known: true, bytes: stallRate * looks.Add(1), pending: true}
			}
			return arrival{known: true, bytes: 7, pending: true}
		}
		s := serveBroker(t, b)
		s.topic("orders", 5000)
		metadata := metadataOf(9, "orders")
		const lazy = 50
		for range lazy {
			s.dial(t).send(metadata)
		}
		synctest.Wait()
		s.listener.conns <- far
		reader, began := &client{t: t, Conn: near}, time.Now()
		reader.call(metadata)
		if d := time.Since(began); d > quietWindow+budgetPatience {
			t.Errorf("the one that reads was answered after %v, want at most %v", d, quietWindow+budgetPatience)
		}
		wait(2 * budgetPatience)
		// Some may have got the memory of those that were cut first, which is less than a megabyte.
		if n := s.s.Stats().Connections; n > 1+12 {
			t.Errorf("%d of %d connections are left, want the one that reads and few others", n, 1+lazy)
		}
	})
}

// What handlers tell of the size of their answers comes near to it.
func TestAnswersGrowByTheirSize(t *testing.T) {
	b := withGroups(newBroker(t, map[string]string{"group.initial.rebalance.delay.ms": "0"}))
	for i := range 300 {
		b.topic(fmt.Sprintf("orders-of-%d", i), 3)
	}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis, join.ProtocolType = 3, "g", 10000, 10000, "consumer"
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: make([]byte, 5<<10)}}
	joined := ask[*kmsg.JoinGroupResponse](b, join)
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Version, sync.Group, sync.Generation, sync.MemberID = 1, "g", joined.Generation, joined.MemberID
	sync.GroupAssignment = []kmsg.SyncGroupRequestGroupAssignment{{MemberID: joined.MemberID, MemberAssignment: make([]byte, 5<<10)}}
	ask[*kmsg.SyncGroupResponse](b, sync)
	commit := b.commitRequest(8, "orders-of-1", 0)
	commit.Group, commit.Generation, commit.MemberID = "g", joined.Generation, joined.MemberID
	commit.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("m", 4096))
	b.commitCode(commit)

	rejoin := *join
	rejoin.MemberID = joined.MemberID
	sync.GroupAssignment = nil
	all := kmsg.NewPtrMetadataRequest()
	all.Version = 12
	old := kmsg.NewPtrMetadataRequest()
	old.Version, old.Topics = 1, nil
	configs := kmsg.NewPtrDescribeConfigsRequest()
	configs.Version, configs.IncludeDocumentation, configs.IncludeSynonyms = 4, true, true
	for i := range 20 {
		configs.Resources = append(configs.Resources, kmsg.DescribeConfigsRequestResource{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: fmt.Sprintf("orders-of-%d", i)})
	}
	dirs := kmsg.NewPtrDescribeLogDirsRequest()
	dirs.Version = 4
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.ResponsePartitionLimit = 2000
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 5, again("g", 10)
	ghosts := kmsg.NewPtrConsumerGroupDescribeRequest()
	ghosts.Version, ghosts.Groups = 1, again("ghost", 100)
	offsets := kmsg.NewPtrOffsetFetchRequest()
	offsets.Version, offsets.Groups = 8, []kmsg.OffsetFetchRequestGroup{{Group: "g"}}
	resources := kmsg.NewPtrListConfigResourcesRequest()
	resources.Version = 1
	for _, req := range []kmsg.Request{all, old, configs, dirs, pages, describe, ghosts, offsets, resources, sync, &rejoin} {
		ctx, cancel := context.WithCancel(t.Context())
		b.r.conn = &conn{server: b.s, gone: ctx, answering: &call{}}
		size := len(ask[kmsg.Response](b, req).AppendTo(nil))
		told := b.r.conn.answerTurn.size
		b.r.conn.endTurns()
		cancel()
		if told < size*3/4 || told > size*3/2 {
			t.Errorf("key %d version %d: told of %d bytes, and the answer has %d", req.Key(), req.GetVersion(), told, size)
		}
		// Nobody waits for a peer that has left.
		cancelled := b.r
		cancelled.conn = &conn{server: b.s, gone: ctx, answering: &call{}, answerTurn: largeAnswer{size: keptAnswer}}
		for range b.s.answerTurns.limit() {
			if err := b.s.answerTurns.take(t.Context(), false, nil); err != nil {
				t.Fatal(err)
			}
		}
		was := b.r
		b.r = cancelled
		if _, err := b.dispatch(req); !errors.Is(err, context.Canceled) {
			t.Errorf("key %d version %d: error %v when the peer left, want the context's", req.Key(), req.GetVersion(), err)
		}
		b.r = was
		for range b.s.answerTurns.limit() {
			b.s.answerTurns.give()
		}
	}
	if used := b.s.answers.used(); used != 0 {
		t.Errorf("%d bytes are held, want none", used)
	}
}

// What large requests are decoded to, and their answers, are there for few of them at a time.
func TestLargeRequestsAreAnsweredInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.answer.memory.bytes": "1048576", "gateway.request.memory.bytes": "4194304"})
		s.topic("orders", 1)
		req := kmsg.NewPtrListOffsetsRequest()
		req.Version = 7
		of := kmsg.NewListOffsetsRequestTopic()
		of.Topic = "orders"
		for p := range int32(50_000) { // 850 kB, and 1.6 MB in the answer
			of.Partitions = append(of.Partitions, kmsg.ListOffsetsRequestTopicPartition{Partition: p, Timestamp: -1})
		}
		req.Topics = append(req.Topics, of)
		frame := frameOf(req, 1)
		var lazy []*client
		for range 40 {
			lazy = append(lazy, s.dial(t))
		}
		kept(t, "40 answers of 1.6 MB for who never reads", 24<<20, func() {
			for _, c := range lazy {
				go func() { _, _ = c.Write(frame) }() // until it is cut
			}
		})
		s.dial(t).call(versions())
		for _, c := range lazy {
			_ = c.Close()
		}
		reader := s.dial(t)
		reader.pipeline(req)
		if got := reader.receive(req, 1).(*kmsg.ListOffsetsResponse).Topics[0].Partitions; len(got) != 50_000 {
			t.Errorf("%d partitions, want 50000", len(got))
		}
		reader.write(append(frame[:len(frame)-5:len(frame)-5], 0xff, 0xff, 0xff, 0xff, 0x0f)) // no such text can follow
		reader.expectClosed("a large request that cannot be decoded")
		synctest.Wait()
		if st := s.s.Stats(); st.Malformed != 1 || st.AnswerBytes != 0 || st.RequestBytes != 0 || s.s.requestTurns.taken != 0 {
			t.Errorf("%d malformed, %d and %d bytes held, %d turns taken, want 1 and nothing", st.Malformed, st.AnswerBytes, st.RequestBytes, s.s.requestTurns.taken)
		}
	})
}

// A large request whose peer has left meanwhile is not even decoded.
func TestLargeRequestOfAPeerThatLeftIsNotDecoded(t *testing.T) {
	b := newBroker(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	c := &conn{server: b.s, gone: ctx}
	call := &call{api: b.s.apis.find(metadataOf(9).Key()), body: frameOf(metadataOf(9, "orders"), 1)}
	if err := c.decodeLarge(call); !errors.Is(err, context.Canceled) || call.message != nil {
		t.Errorf("error %v and message %v, want the context's error and none", err, call.message)
	}
	if c.endTurns(); b.s.requestTurns.taken != 0 {
		t.Errorf("%d turns are taken, want none", b.s.requestTurns.taken)
	}
}
