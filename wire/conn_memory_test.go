package wire

import (
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups/share"
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
		stalled.write(frame[:300_000]) // the rest does not come
		synctest.Wait()
		began := time.Now()
		produce := s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("y", 900_000))})
		waiting.pipeline(produce)
		synctest.Wait()
		if st := s.s.Stats(); st.RequestBytes > 1<<20 || st.MemoryWaits != 1 {
			t.Errorf("%d request bytes held and %d waits, want at most 1048576 and 1", st.RequestBytes, st.MemoryWaits)
		}
		p := waiting.receive(produce, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if d := time.Since(began); p.ErrorCode != 0 || d < stallWindow || d > stallWindow+3*budgetPatience {
			t.Errorf("code %d after %v, want 0 when the peer that stalls was cut after %v", p.ErrorCode, d, stallWindow)
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
		if d := time.Since(began); len(got.RecordBatches) < 900_000 || d < stallWindow || d > stallWindow+budgetPatience {
			t.Errorf("%d bytes after %v, want the batch when the peer that stalls was cut after %v", len(got.RecordBatches), d, stallWindow)
		}
	})
}

// Announcing a frame is not sending it.
func TestAnnouncedFramesKeepNobodyOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		other := s.dial(t)
		for range 20 {
			c := s.dial(t)
			c.write(append([]byte{0x06, 0x3f, 0xff, 0xff, 0, 0, 0, 9, 0, 0, 0, 1, 0, 1, 'x', 0}, make([]byte, 1000)...))
		}
		synctest.Wait()
		began := time.Now()
		other.call(versions())
		produce := s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("y", 900_000))})
		if p := other.call(produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || time.Since(began) != 0 {
			t.Errorf("code %d after %v beside 20 frames that were announced, want 0 at once", p.ErrorCode, time.Since(began))
		}
	})
}

// Frames that together need more than there is must not wait for each other.
func TestFramesThatComeInPartsAllComeThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.request.memory.bytes": "1048576"})
		s.topic("orders", 10)
		type half struct {
			*client
			req  *kmsg.ProduceRequest
			rest []byte
		}
		var all []half
		began := time.Now()
		for i := range 10 {
			c := s.dial(t)
			req := s.produceRequest(9, "orders", produced{int32(i), s.batch(strings.Repeat("y", 900_000))})
			frame := frameOf(req, 1)
			c.write(frame[:60_000])
			all = append(all, half{c, req, frame[60_000:]})
		}
		for i := range all {
			go func() { _, _ = all[i].Write(all[i].rest) }()
		}
		var wg sync.WaitGroup
		for i, h := range all { // at once, since each holds its frame until the answer is read
			wg.Go(func() {
				p := h.receive(h.req, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				if p.ErrorCode != 0 || time.Since(began) != 0 {
					t.Errorf("produce %d: code %d after %v, want 0 at once", i, p.ErrorCode, time.Since(began))
				}
			})
		}
		wg.Wait()
		synctest.Wait()
		if held := s.s.Stats().RequestBytes; held != 0 || s.s.requests.large.overdrawn {
			t.Errorf("%d request bytes held, overdrawn %v, want none", held, s.s.requests.large.overdrawn)
		}
	})
}

// A peer that goes on sending, but next to nothing, is one that stalls. While nobody waits it may.
func TestTricklingPeerIsCutWhenOthersWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.request.memory.bytes": "1048576"})
		s.topic("orders", 1)
		slow, fast, waiting := s.dial(t), s.dial(t), s.dial(t)
		req := s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("x", 900_000))})
		frame := frameOf(req, 1)
		slow.write(frame[:300_000])
		cut := make(chan time.Time, 1)
		go func() {
			for i := 300_000; i < len(frame); i += 1000 {
				wait(time.Second)
				if _, err := slow.Write(frame[i : i+1000]); err != nil {
					break
				}
			}
			cut <- time.Now()
		}()
		wait(time.Minute)
		small := metadataOf(9, "orders")
		fast.call(small)
		select {
		case <-cut:
			t.Error("cut while nobody waited")
		default:
		}
		began := time.Now()
		waiting.pipeline(req)
		if p := waiting.receive(req, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("code %d, want 0", p.ErrorCode)
		}
		if d := (<-cut).Sub(began); d > stallWindow+2*budgetPatience {
			t.Errorf("cut after %v of others' waiting, want %v", d, stallWindow)
		}
	})
}

func TestPeersThatDoNotReadLeaveMemoryToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.answer.memory.bytes": "1048576"})
		s.topic("orders", 1)
		for range 30 {
			s.mustProduce("orders", 0, s.batch(strings.Repeat("x", 30_000)))
		}
		fetch := parkedFetch("orders", 0)
		var lazy []*client
		for range 5 {
			c := s.dial(t)
			c.send(fetch)
			lazy = append(lazy, c)
		}
		synctest.Wait()
		other, began := s.dial(t), time.Now()
		p := other.call(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if len(p.RecordBatches) < 30_000 || time.Since(began) != 0 {
			t.Errorf("%d bytes after %v beside peers that do not read, want a batch at once", len(p.RecordBatches), time.Since(began))
		}
		wait(5 * time.Minute) // nobody waits, so nobody is cut
		for i, c := range lazy {
			if p := c.receive(fetch, 1).(*kmsg.FetchResponse).Topics[0].Partitions[0]; len(p.RecordBatches) < 30_000 {
				t.Errorf("peer %d, which pauses, got %d bytes, want a batch", i, len(p.RecordBatches))
			}
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

// kept checks how much memory is in use when f was called and everything waits for something.
func kept(t *testing.T, what string, most uint64, f func()) {
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

// What a frame of empty elements is decoded to is many times as large. It must not stay while the request, or the one
// before it, waits.
func TestParkedRequestsKeepLittleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		const topics = 600_000 // 1.8 MB in the frame, more than 50 MB decoded
		frame := frameOf(emptyTopics(parkedFetch("orders", time.Hour), topics), 1)
		waits, behind := s.dial(t), s.dial(t)
		kept(t, "a fetch that waits", 8<<20, func() { waits.write(frame) })
		behind.send(parkedFetch("orders", time.Hour))
		kept(t, "a request behind one that waits", 8<<20, func() { behind.write(frame) })

		s.topic("wide", 10_000)
		metadata := kmsg.NewPtrMetadataRequest()
		metadata.Version = 9
		s.dial(t).call(metadata) // what the topic itself takes
		var lazy []*client
		for range 10 {
			lazy = append(lazy, s.dial(t))
		}
		kept(t, "ten answers of 300 kB that nobody takes", 6<<20, func() {
			for _, c := range lazy {
				c.send(metadata)
			}
		})
	})
}

// An answer of many errors is large without a record, and is charged all the same while its peer takes nothing.
func TestHeadOfALargeFetchIsCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRunningBroker(t, nil)
		b.s.shares = share.New(share.Options{Store: b.store, Now: b.time, Config: b.s.config.Shares(b.store)})
		s := serveBroker(t, b)
		const n = 10_000
		fetch, shares := b.fetchRequest(12), (&shareBroker{broker: b}).fetchRequest(2, 0)
		for p := range int32(n) {
			fetch.Topics = append(fetch.Topics, kmsg.FetchRequestTopic{Topic: "ghosts", Partitions: []kmsg.FetchRequestTopicPartition{{Partition: p}}})
			shares.Topics = append(shares.Topics, kmsg.ShareFetchRequestTopic{TopicID: [16]byte{1}, Partitions: []kmsg.ShareFetchRequestTopicPartition{{Partition: p}}})
		}
		for _, req := range []kmsg.Request{fetch, shares} {
			c := s.dial(t)
			id := c.send(req)
			synctest.Wait()
			held := b.s.Stats().AnswerBytes
			if size := int64(len(c.receive(req, id).AppendTo(nil))); held < size {
				t.Errorf("key %d: %d bytes are charged for an answer of %d", req.Key(), held, size)
			}
			synctest.Wait()
			if held := b.s.Stats().AnswerBytes; held != 0 {
				t.Errorf("key %d: %d bytes are charged when it was sent", req.Key(), held)
			}
		}
	})
}
