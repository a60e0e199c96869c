package wire

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A peer is cut when nothing arrives there for a while, or less than the least over a window, and not when its link is
// thin.
func TestPeersStallByWhatArrives(t *testing.T) {
	for _, test := range []struct {
		name    string
		known   bool // how much has arrived
		full    bool
		records bool
		hurried bool
		each    time.Duration
		bytes   int64         // each time
		size    int           // of the answer
		want    time.Duration // 0 for never
	}{
		{"nothing arrives", true, false, false, false, time.Second, 0, 0, quietWindow},
		{"there is no room", true, true, false, false, time.Second, 0, 0, fullWindow},
		{"no record arrives", true, false, true, false, time.Second, 0, 0, stallWindow},
		{"there is no room for records", true, true, true, false, time.Second, 0, 0, stallWindow},
		{"no record is written", false, false, true, false, time.Second, 0, 0, stallWindow},
		{"half of that of records", true, false, true, false, time.Second, stallRate / 2, 0, stallWindow},
		{"there is room for as little as may be", true, true, false, false, time.Second, stallRate, 0, 0},
		{"nothing is written", false, false, false, false, time.Second, 0, 0, quietWindow},
		{"as little as may be", true, false, false, false, time.Second, stallRate, 0, 0},
		{"as little as may be, by leaps", true, false, false, false, 4 * time.Second, 4 * stallRate, 0, 0},
		{"as little as may be, by steps", false, false, false, false, writeStep / stallRate * time.Second, writeStep, 0, 0},
		{"half of that", true, false, false, false, time.Second, stallRate / 2, 0, stallWindow},
		{"half of that, written", false, false, false, false, time.Second, stallRate / 2, 0, stallWindow},
		{"too little of a large answer", true, false, false, false, time.Second, 3 * stallRate, 240 * stallRate, stallWindow},
		{"too little of a large answer, written", false, false, false, false, time.Second, 3 * stallRate, 240 * stallRate, stallWindow},
		{"enough of a large answer", true, false, false, false, time.Second, 4 * stallRate, 240 * stallRate, 0},
		{"as much of many records", true, false, true, false, time.Second, 3 * stallRate, 240 * stallRate, 0},
		{"nothing arrives in a hurry", true, false, false, true, time.Second, 0, 0, hurriedWindow},
		{"nothing is written in a hurry", false, false, false, true, time.Second, 0, 0, quietWindow},
		{"half of as little as may be in a hurry", true, false, false, true, time.Second, stallRate / 2, 0, hurriedWindow},
		{"half of that, written, in a hurry", false, false, false, true, writeStep / stallRate * 2 * time.Second, writeStep, 0, quietWindow},
		{"as little as may be in a hurry", true, true, false, true, time.Second, stallRate, 0, 0},
		{"as little as may be in a hurry, by steps", false, false, false, true, writeStep / stallRate * time.Second, writeStep, 0, 0},
		{"too little of a large answer in a hurry", true, true, false, true, time.Second, 3 * stallRate, 240 * stallRate, hurriedWindow},
		{"too little in a hurry, by leaps", false, false, false, true, 3 * time.Second, 2 * stallRate, 0, 3 * time.Second},
		{"enough of a large answer in a hurry", true, false, false, true, time.Second, 4 * stallRate, 240 * stallRate, 0},
		{"half of as little of records in a hurry", true, false, true, true, time.Second, stallRate / 2, 0, stallWindow},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h holding
				var arrived int64
				h.begin(test.size)
				began, next := time.Now(), time.Now().Add(test.each)
				window := stallWindow
				if test.hurried {
					window = hurriedWindow
				}
				for range 60 {
					if h.answerStalled(time.Now(), arrival{known: test.known, bytes: arrived, pending: true, full: test.full}, test.records, window) {
						if got := time.Since(began); got != test.want {
							t.Errorf("stalls after %v, want %v", got, test.want)
						}
						return
					}
					wait(budgetPatience)
					if !time.Now().Before(next) {
						next = next.Add(test.each)
						arrived += test.bytes
						h.moved.Add(test.bytes)
					}
				}
				if test.want != 0 {
					t.Errorf("never stalls, want after %v", test.want)
				}
			})
		})
	}
}

// A peer that takes its time with an answer is left alone while others wait for memory that it does not hold.
func TestPeerIsNotCutForMemoryThatItDoesNotHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.request.memory.bytes": "1048576"})
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch(strings.Repeat("x", 500_000)))
		pauses, stalls, waits := s.dial(t), s.dial(t), s.dial(t)
		fetch := parkedFetch("orders", 0)
		id := pauses.send(fetch) // and does not read the answer yet
		produce := s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("y", 900_000))})
		stalls.write(frameOf(produce, 1)[:300_000])
		synctest.Wait()
		waits.pipeline(produce)
		waits.receive(produce, 1)
		stalls.expectClosed("sends no more of a frame")
		if p := pauses.receive(fetch, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) < 500_000 {
			t.Errorf("the one that paused got %d bytes, want the batch", len(p.RecordBatches))
		}
	})
}

// However many wait for memory, the connections are looked at for all of them at once.
func TestOneLookDoesForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRunningBroker(t, map[string]string{"gateway.answer.memory.bytes": "1048576"})
		var looks atomic.Int64
		b.s.arrivedAt = func(net.Conn) arrival {
			looks.Add(1)
			return arrival{}
		}
		s := serveBroker(t, b)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch(strings.Repeat("x", 800_000)))
		fetch := parkedFetch("orders", 0)
		s.dial(t).send(fetch) // and does not read the answer
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range 50 {
			waiting.Go(func() {
				if err := s.s.answers.large.acquire(ctx, 1<<20); err == nil {
					t.Error("there is room")
				}
			})
		}
		wait(2*budgetPatience + budgetPatience/2)
		if n := looks.Load(); n != 3 { // at once, and then twice
			t.Errorf("%d looks at one connection by 50 who waited two and a half times as long as they are patient, want 3", n)
		}
		cancel()
		waiting.Wait()
	})
}

// However many wait for memory for a frame, requests that wait are made to answer by all of them at once.
func TestOnePokeDoesForAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.request.memory.bytes": "1048576"})
		parked := &conn{server: s.s, socket: newPipe(t), hurry: make(chan struct{}, 1000)}
		parked.holds.Store(1 << 20)
		s.s.conns.add(parked, 1<<20)
		s.s.requests.large.force(1 << 20)
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for range 50 {
			waiting.Go(func() {
				if err := s.s.requests.large.acquire(ctx, 1<<20); err == nil {
					t.Error("there is room")
				}
			})
		}
		wait(2*budgetPatience + budgetPatience/2)
		if n := len(parked.hurry); n != 3 { // at once, and then twice
			t.Errorf("%d pokes by 50 who waited two and a half times as long as they are patient, want 3", n)
		}
		cancel()
		waiting.Wait()
		s.s.requests.large.release(1 << 20)
		s.s.conns.remove(parked)
	})
}

// newPipe returns one end of a connection.
func newPipe(t *testing.T) net.Conn {
	near, far := net.Pipe()
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near
}

// slowServer is a wideServer whose memory is for one answer, or two when they are made at once, and whose peers take next
// to nothing of theirs, as far as it is told.
func slowServer(t *testing.T) (s *server, metadata *kmsg.MetadataRequest) {
	t.Helper()
	b := newRunningBroker(t, nil)
	b.s.answers.setLimit(256 << 10)
	began := time.Now()
	b.s.arrivedAt = func(socket net.Conn) arrival {
		a := arrival{known: true, bytes: int64(stallRate / 2 * time.Since(began).Seconds())}
		for _, c := range b.s.conns.all() {
			if c.socket == socket && c.answerHeld.since.Load() != 0 {
				a.pending, a.full = true, true
			}
		}
		return a
	}
	s = serveBroker(t, b)
	s.topic("orders", 5000)
	return s, metadataOf(9, "orders")
}

// Peers that are slow, each when its turn comes, keep somebody who reads waiting for one window and not for one each.
func TestSlowPeersHaveOneWindowTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, metadata := slowServer(t)
		for range 30 {
			s.dial(t).send(metadata) // and takes next to nothing of the answer
		}
		synctest.Wait()
		most := stallWindow + 2*hurriedWindow
		for range 5 {
			reader, began := s.dial(t), time.Now()
			reader.call(metadata)
			if d := time.Since(began); d > most {
				t.Errorf("the one that reads was answered after %v, want at most %v", d, most)
			}
			most = 3 * hurriedWindow
		}
		// While nobody waits a slow one may take its time, also when others were cut shortly before.
		wait(time.Minute)
		alone := s.dial(t)
		alone.send(metadata)
		wait(time.Minute)
		if got := alone.receive(metadata, 1).(*kmsg.MetadataResponse); len(got.Topics) != 1 {
			t.Errorf("%d topics, want one", len(got.Topics))
		}
	})
}
