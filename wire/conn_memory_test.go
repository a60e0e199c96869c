package wire

import (
	"io"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestSlowReaderStallsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"connections.max.idle.ms": "60000"})
		slow, other := s.dial(t), s.dial(t)
		slow.send(versions()) // and never reads the answer
		synctest.Wait()
		for range 3 {
			other.call(versions())
		}
		wait(59 * time.Second)
		if n := s.s.Stats().Connections; n != 2 {
			t.Errorf("%d connections after 59s, want 2", n)
		}
		other.call(versions())
		wait(2 * time.Second)
		synctest.Wait()
		if n := s.s.Stats().Connections; n != 1 {
			t.Errorf("%d connections after 61s, want the one that reads", n)
		}
		other.call(versions())
	})
}

func TestLongAnswersAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1, "max.message.bytes", "10000000")
		c := s.dial(t)
		value := strings.Repeat("0123456789abcdef", 5<<20/16)
		produce := s.produceRequest(9, "orders", produced{0, s.batch(value)}) // longer than the read buffer and a write step
		if p := c.call(produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Fatalf("produce answers code %d", p.ErrorCode)
		}
		fetch := parkedFetch("orders", 0)
		got := c.call(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
		if !strings.Contains(string(got), value) {
			t.Errorf("fetched %d bytes that do not hold the value of %d", len(got), len(value))
		}
		synctest.Wait()
		if st := s.s.Stats(); st.RequestBytes != 0 || st.AnswerBytes != 0 {
			t.Errorf("%d request bytes and %d answer bytes are held, want none", st.RequestBytes, st.AnswerBytes)
		}
	})
}

func TestRequestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.request.memory.bytes": "1048576"})
		s.topic("orders", 1)
		stalled, waiting, small := s.dial(t), s.dial(t), s.dial(t)
		frame := frameOf(s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("x", 900_000))}), 1)
		stalled.write(frame[:5000]) // the rest does not come
		synctest.Wait()
		began := time.Now()
		produce := s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("y", 900_000))})
		waiting.pipeline(produce)
		synctest.Wait()
		if st := s.s.Stats(); st.RequestBytes > 1<<20 || st.MemoryWaits != 1 {
			t.Errorf("%d request bytes held and %d waits, want at most 1048576 and 1", st.RequestBytes, st.MemoryWaits)
		}
		p := waiting.receive(produce, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if d := time.Since(began); p.ErrorCode != 0 || d < stallGrace || d > stallGrace+3*budgetPatience {
			t.Errorf("code %d after %v, want 0 when the peer that stalls was cut after %v", p.ErrorCode, d, stallGrace)
		}
		stalled.expectClosed("stalls while others wait")
		small.call(versions())
	})
}

func TestAnswerMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.answer.memory.bytes": "1048576"})
		s.topic("orders", 1)
		stalled, waiting, small := s.dial(t), s.dial(t), s.dial(t)
		s.mustProduce("orders", 0, s.batch(strings.Repeat("x", 900_000)))
		fetch := parkedFetch("orders", 0)
		stalled.send(fetch) // and never reads the answer
		synctest.Wait()
		began := time.Now()
		id := waiting.send(fetch)
		synctest.Wait()
		if st := s.s.Stats(); st.AnswerBytes > 1<<20 || st.MemoryWaits != 1 {
			t.Errorf("%d answer bytes held and %d waits, want at most 1048576 and 1", st.AnswerBytes, st.MemoryWaits)
		}
		small.call(versions()) // small answers do not wait
		got := waiting.receive(fetch, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if d := time.Since(began); len(got.RecordBatches) < 900_000 || d < stallGrace || d > stallGrace+3*budgetPatience {
			t.Errorf("%d bytes after %v, want the batch when the peer that stalls was cut after %v", len(got.RecordBatches), d, stallGrace)
		}
	})
}

// emptyTopics adds topics without a name and without partitions to a fetch, which take three bytes each.
func emptyTopics(req *kmsg.FetchRequest, n int) *kmsg.FetchRequest {
	req.Version = 12
	req.Topics = append(req.Topics, make([]kmsg.FetchRequestTopic, n)...)
	return req
}

// A frame that belongs to a fetch which waits, or stands behind it, must not keep everybody else from being read.
func TestParkedFetchGivesWayWhenOthersNeedItsMemory(t *testing.T) {
	const large = 300_000 // topics: 900 kB
	for name, send := range map[string]func(c *client) *kmsg.FetchRequest{
		"its own frame": func(c *client) *kmsg.FetchRequest {
			fetch := emptyTopics(parkedFetch("orders", 100*time.Hour), large)
			c.pipeline(fetch)
			return fetch
		},
		"the frame behind it": func(c *client) *kmsg.FetchRequest {
			fetch := parkedFetch("orders", 100*time.Hour)
			c.pipeline(fetch, emptyTopics(parkedFetch("orders", 0), large))
			return fetch
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t, map[string]string{"gateway.request.memory.bytes": "1048576", "connections.max.idle.ms": "-1"})
				s.topic("orders", 1)
				s.topic("others", 1)
				small, parked, other := s.dial(t), s.dial(t), s.dial(t)
				quiet := parkedFetch("orders", time.Hour)
				small.send(quiet)
				fetch := send(parked)
				synctest.Wait()
				if held := s.s.Stats().RequestBytes; held < 800_000 {
					t.Fatalf("%d request bytes held, want the large frame", held)
				}
				began := time.Now()
				produce := s.produceRequest(9, "others", produced{0, s.batch(strings.Repeat("y", 900_000))})
				other.pipeline(produce)
				got := parked.receive(fetch, 1).(*kmsg.FetchResponse)
				if d := time.Since(began); d != 0 || got.ErrorCode != 0 {
					t.Errorf("the fetch was answered after %v with error %d, want at once and 0", d, got.ErrorCode)
				}
				go func() { _, _ = io.Copy(io.Discard, parked) }() // the answer to what stood behind it
				if p := other.receive(produce, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || time.Since(began) != 0 {
					t.Errorf("the produce was answered after %v with error %d, want at once and 0", time.Since(began), p.ErrorCode)
				}
				small.idle("a fetch whose frame is small goes on waiting")
			})
		})
	}
}

// What a frame of empty elements is decoded to is many times as large. It must not stay while the request, or the one
// before it, waits.
func TestParkedRequestsKeepLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		kept := func(what string, most uint64, f func()) {
			t.Helper()
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			f()
			synctest.Wait()
			runtime.GC()
			runtime.ReadMemStats(&after)
			if got := after.HeapAlloc - min(after.HeapAlloc, before.HeapAlloc); got > most {
				t.Errorf("%s keeps %d bytes, want at most %d", what, got, most)
			}
		}
		const topics = 600_000 // 1.8 MB in the frame, more than 50 MB decoded
		frame := frameOf(emptyTopics(parkedFetch("orders", time.Hour), topics), 1)
		waits, behind := s.dial(t), s.dial(t)
		kept("a fetch that waits", 8<<20, func() { waits.write(frame) })
		behind.send(parkedFetch("orders", time.Hour))
		kept("a request behind one that waits", 8<<20, func() { behind.write(frame) })
	})
}
