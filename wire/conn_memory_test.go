package wire

import (
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
