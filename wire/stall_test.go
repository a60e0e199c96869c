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
		name  string
		known bool // how much has arrived
		full  bool
		each  time.Duration
		bytes int64         // each time
		want  time.Duration // 0 for never
	}{
		{"nothing arrives", true, false, time.Second, 0, quietWindow},
		{"there is no room", true, true, time.Second, 0, fullWindow},
		{"there is room for as little as may be", true, true, time.Second, stallRate, 0},
		{"nothing is written", false, false, time.Second, 0, quietWindow},
		{"as little as may be", true, false, time.Second, stallRate, 0},
		{"as little as may be, by leaps", true, false, 4 * time.Second, 4 * stallRate, 0},
		{"as little as may be, by steps", false, false, writeStep / stallRate * time.Second, writeStep, 0},
		{"half of that", true, false, time.Second, stallRate / 2, stallWindow},
		{"half of that, written", false, false, time.Second, stallRate / 2, stallWindow},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h holding
				var arrived int64
				h.begin()
				began, next := time.Now(), time.Now().Add(test.each)
				for range 60 {
					if h.answerStalled(time.Now(), arrival{known: test.known, bytes: arrived, pending: true, full: test.full}) {
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
