package wire

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// parkedFetch sends a fetch in the background; its answer and how long it took come on the channel.
func (b *broker) parkedFetch(req *kmsg.FetchRequest) <-chan parkedAnswer {
	out := make(chan parkedAnswer, 1)
	began := time.Now()
	go func() {
		resp, err := b.dispatch(req)
		if err != nil {
			b.t.Errorf("fetch: %v", err)
		}
		r, _ := resp.(*kmsg.FetchResponse)
		out <- parkedAnswer{r, time.Since(began)}
	}()
	synctest.Wait()
	return out
}

type parkedAnswer struct {
	resp *kmsg.FetchResponse
	took time.Duration
}

// checkAnswered checks when a parked fetch was answered and how many records of its first partition it got.
func checkAnswered(t *testing.T, b *broker, answer <-chan parkedAnswer, took time.Duration, batches int) {
	t.Helper()
	a := <-answer
	got := 0
	if a.resp != nil {
		for _, x := range a.resp.Topics {
			for _, p := range x.Partitions {
				got += len(b.batches(p.RecordBatches))
			}
		}
	}
	if a.took != took || got != batches {
		t.Errorf("answered after %v with %d batches, want after %v with %d", a.took, got, took, batches)
	}
}

func TestFetchWaits(t *testing.T) {
	atVersions(t, "FETCH-07", 1, 4, func(t *testing.T, v int16) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 2)
			req := b.fetchRequest(v, asked{"t", 0, 0}, asked{"t", 1, 0})
			req.MaxWaitMillis = 2000
			checkAnswered(t, b, b.parkedFetch(req), 2*time.Second, 0)

			answer := b.parkedFetch(req)
			<-time.After(500 * time.Millisecond)
			b.mustProduce("t", 1, b.batch("x"))
			checkAnswered(t, b, answer, 500*time.Millisecond, 1)
		})
	})
	t.Run("min bytes over several appends and partitions", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 2)
			size := len(b.batch("x"))
			req := b.fetchRequest(18, asked{"t", 0, 0}, asked{"t", 1, 0})
			req.MaxWaitMillis, req.MinBytes = 10_000, int32(3*size)
			answer := b.parkedFetch(req)
			for i := range int32(3) {
				<-time.After(time.Second)
				b.mustProduce("t", i%2, b.batch("x"))
			}
			checkAnswered(t, b, answer, 3*time.Second, 3)
			// Enough at once: no wait. Too little: what there is, at the end.
			checkAnswered(t, b, b.parkedFetch(req), 0, 3)
			req.MinBytes++
			checkAnswered(t, b, b.parkedFetch(req), 10*time.Second, 3)
		})
	})
	t.Run("min bytes above a partition's limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 1)
			size := len(b.batch("x"))
			for range 3 {
				b.mustProduce("t", 0, b.batch("x"))
			}
			req := b.fetchRequest(18, asked{"t", 0, 0})
			req.MaxWaitMillis, req.MinBytes = 5000, int32(3*size)
			req.Topics[0].Partitions[0].PartitionMaxBytes = int32(2 * size)
			checkAnswered(t, b, b.parkedFetch(req), 5*time.Second, 2)
			// max_bytes caps min_bytes.
			req.Topics[0].Partitions[0].PartitionMaxBytes = 1 << 20
			req.MaxBytes = int32(2 * size)
			checkAnswered(t, b, b.parkedFetch(req), 0, 2)
		})
	})
	t.Run("read committed waits for the last stable offset", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 1)
			req := b.fetchRequest(18, asked{"t", 0, 0})
			req.MaxWaitMillis, req.IsolationLevel = 60_000, 1
			answer := b.parkedFetch(req)
			<-time.After(time.Second)
			b.inTxn("t", 7, 0, "x")
			<-time.After(time.Second)
			b.endTxn("t", 7, true)
			checkAnswered(t, b, answer, 2*time.Second, 2)
		})
	})
	t.Run("topic deleted", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			topic := b.topic("t", 1)
			req := b.fetchRequest(18, asked{"t", 0, 0})
			req.MaxWaitMillis = 60_000
			answer := b.parkedFetch(req)
			<-time.After(time.Second)
			if err := b.store.DeleteTopic(topic.ID()); err != nil {
				t.Fatal(err)
			}
			a := <-answer
			if a.took != time.Second || a.resp.Topics[0].Partitions[0].ErrorCode != 3 {
				t.Errorf("answered after %v with %+v, want after 1s with error 3", a.took, a.resp.Topics)
			}
		})
	})
	t.Run("caller gone", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 1)
			ctx, cancel := context.WithCancel(context.Background())
			b.r.ctx = ctx
			req := b.fetchRequest(18, asked{"t", 0, 0})
			req.MaxWaitMillis = 60_000
			answer := b.parkedFetch(req)
			<-time.After(time.Second)
			cancel()
			checkAnswered(t, b, answer, time.Second, 0)
		})
	})
	t.Run("nothing to read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, nil)
			b.topic("t", 1)
			req := b.fetchRequest(12, asked{"t", 5, 0})
			req.MaxWaitMillis = 60_000
			checkAnswered(t, b, b.parkedFetch(req), 0, 0)
			req.SessionID, req.SessionEpoch = 99, 3
			checkAnswered(t, b, b.parkedFetch(req), 0, 0)
		})
	})
}

// The deadline is compared with the server's clock, which a test or a user may move; the timer only wakes.
func TestFetchDeadlineFollowsServerClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		req := b.fetchRequest(18, asked{"t", 0, 0})
		req.MaxWaitMillis = 2000
		answer := b.parkedFetch(req)
		<-time.After(3 * time.Second) // the timer fired, and the clock stood still
		select {
		case a := <-answer:
			t.Fatalf("answered after %v with the clock standing still", a.took)
		default:
		}
		b.advance(2 * time.Second)
		checkAnswered(t, b, answer, 4*time.Second, 0)
	})
}
