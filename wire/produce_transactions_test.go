package wire

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
)

// TestTXN08TransactionalWriteWithoutRegistration writes to a partition that was not added to the transaction.
func TestTXN08TransactionalWriteWithoutRegistration(t *testing.T) {
	for _, c := range []struct{ version, code int16 }{{3, 48}, {9, 48}, {10, 48}, {11, 120}, {12, 0}, {13, 0}} {
		t.Run(fmt.Sprintf("TXN-08/v%d", c.version), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := withTransactions(newRunningBroker(t, nil))
				b.topic("t", 1)
				p := b.txnProducer("tx")
				got := p.produce(c.version, "t", 0, "a")
				if c.code != 0 {
					checkRefused(t, b, "t", got, c.code)
					if got.LogStartOffset != -1 {
						t.Errorf("log start offset %d, want -1", got.LogStartOffset)
					}
					if text := c.code == 48 && c.version >= 8; (got.ErrorMessage != nil) != text {
						t.Errorf("error %d comes with the text %v", got.ErrorCode, got.ErrorMessage)
					}
					if producers, err := b.log("t", 0).ActiveProducers(); err != nil || len(producers) != 0 {
						t.Errorf("producers of the log: %+v, %v; want none", producers, err)
					}
					return
				}
				if got.ErrorCode != 0 || got.BaseOffset != 0 {
					t.Fatalf("error %d, base offset %d; want 0, 0", got.ErrorCode, got.BaseOffset)
				}
				if in := p.partitions(); !slices.Equal(in, []txn.Partition{{Topic: "t"}}) {
					t.Errorf("in the transaction are %v, want t-0", in)
				}
				if o := b.offsets("t", 0); o.LastStable != 0 || o.HighWatermark != 1 {
					t.Errorf("while it is open: %+v, want last stable 0 and high watermark 1", o)
				}
				p.end(true)
				if o := b.offsets("t", 0); o.LastStable != 2 || o.End != 2 {
					t.Errorf("when it is committed: %+v, want last stable 2", o)
				}
			})
		})
	}
}

// TestTransactionOfRegisteredPartitions writes as clients do that add partitions themselves.
func TestTransactionOfRegisteredPartitions(t *testing.T) {
	atVersions(t, "", 0, 3, func(t *testing.T, version int16) {
		version = min(version, produceAdds-1)
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("t", 2)
			p := b.txnProducer("tx")
			p.add("t", 0)
			for i := range int64(2) {
				if got := p.produce(version, "t", 0, "a"); got.ErrorCode != 0 || got.BaseOffset != i {
					t.Fatalf("batch %d: error %d, base offset %d", i, got.ErrorCode, got.BaseOffset)
				}
			}
			want := int16(48)
			if version >= 11 {
				want = 120
			}
			checkRefused(t, b, "t", p.produce(version, "t", 1, "a"), want)
			p.endV1(true)
			// The next transaction is another one, although its producer and its epoch are the same.
			if got := p.produce(version, "t", 0, "a"); got.ErrorCode != want {
				t.Errorf("a batch behind the marker: error %d, want %d", got.ErrorCode, want)
			}
			p.next[fetchKey{topic: "t"}]-- // a client sends it again
			p.add("t", 0)
			if got := p.produce(version, "t", 0, "a"); got.ErrorCode != 0 || got.BaseOffset != 3 {
				t.Errorf("in the next transaction: error %d, base offset %d; want 0, 3", got.ErrorCode, got.BaseOffset)
			}
		})
	})
}

// TestVerificationAnswers are what a producer is told of the coordinator's errors.
func TestVerificationAnswers(t *testing.T) {
	for _, c := range []struct {
		err              error
		old, later, adds int16 // codes for version 10, 11 and 12
		text             bool  // of version 10
	}{
		{txn.ErrNotInTransaction, 48, 120, 120, true},
		{txn.ErrInvalidTxnState, 48, 48, 48, true},
		{txn.ErrLoading, 19, 19, 19, true},
		{txn.ErrNotAvailable, 19, 19, 19, true},
		{txn.ErrNotCoordinator, 19, 19, 19, true},
		{context.DeadlineExceeded, 19, 19, 19, true},
		{context.Canceled, 19, 19, 19, true},
		{txn.ErrConcurrentTransactions, 19, 19, 51, true},
		{txn.ErrProducerFenced, 47, 47, 47, false},
		{txn.ErrInvalidProducerIDMapping, 49, 49, 49, false},
		{txn.ErrInvalidRequest, 42, 42, 42, false},
		{txn.ErrTooLarge, -1, -1, -1, false},
	} {
		for version, want := range map[int16]int16{10: c.old, 11: c.later, 12: c.adds} {
			code, text := refusedTransaction(fmt.Errorf("wrapped: %w", c.err), version)
			if code != want {
				t.Errorf("%v at version %d: error %d, want %d", c.err, version, code, want)
			}
			if version == 10 && (text != nil) != c.text {
				t.Errorf("%v: text %v, want one: %t", c.err, text, c.text)
			}
		}
	}
	if _, text := refusedTransaction(txn.ErrLoading, 13); text == nil || !strings.HasSuffix(*text, "COORDINATOR_LOAD_IN_PROGRESS") {
		t.Errorf("the text for a coordinator that loads is %v, want one that names its error", text)
	}
}

func TestProduceOfSeveralKinds(t *testing.T) {
	atVersions(t, "", 0, 3, func(t *testing.T, version int16) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("t", 3)
			p, other := b.txnProducer("tx"), b.txnProducer("other")
			p.add("t", 0, 1)

			// Of one producer, and without a producer: each on its own.
			req := p.request(version, "t", p.batch("t", 0, "a"), produced{1, b.batch("plain")}, produced{2, []byte("none")})
			got := ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions
			if got[0].ErrorCode != 0 || got[1].ErrorCode != 0 || got[2].ErrorCode != 87 {
				t.Errorf("errors %d, %d, %d; want 0, 0, 87", got[0].ErrorCode, got[1].ErrorCode, got[2].ErrorCode)
			}
			if in := p.partitions(); !slices.Equal(in, []txn.Partition{{Topic: "t"}, {Topic: "t", Partition: 1}}) {
				t.Errorf("in the transaction are %v, want t-0 and t-1", in)
			}

			// Of several producers, or of several epochs of one: nothing is taken, the plain batch neither.
			late := *p
			late.Epoch++
			for what, second := range map[string]*txnProducer{"another producer": other, "another epoch": &late} {
				ends := []int64{b.offsets("t", 0).End, b.offsets("t", 1).End, b.offsets("t", 2).End}
				req := p.request(version, "t", p.batch("t", 0, "a"), second.batch("t", 1, "a"), produced{2, b.batch("plain")})
				for i, got := range ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions {
					if got.ErrorCode != 49 || b.offsets("t", int32(i)).End != ends[i] {
						t.Errorf("%s: partition %d answers error %d and ends at %d; want 49, %d", what, i, got.ErrorCode, b.offsets("t", int32(i)).End, ends[i])
					}
				}
			}

			// What is refused before is not among those.
			req = p.request(version, "t", other.batch("t", 7, "a"), produced{2, append(late.batch("t", 2, "a").records, b.batch("x")...)})
			for i, want := range []int16{3, 87} {
				if got := ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions[i]; got.ErrorCode != want {
					t.Errorf("partition %d: error %d, want %d", got.Partition, got.ErrorCode, want)
				}
			}
		})
	})
}

// TestVerificationComesBeforeOtherChecks looks at which of two faults is told.
func TestVerificationComesBeforeOtherChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("t", 2)
		p := b.txnProducer("tx")
		p.add("t", 1)
		req := p.request(11, "t", p.batch("t", 0, "a"), p.batch("t", 1, "a"))
		req.Acks = 2
		got := ask[*kmsg.ProduceResponse](b, req).Topics[0].Partitions
		if got[0].ErrorCode != 120 || got[1].ErrorCode != 21 {
			t.Errorf("with acks=2: errors %d of what is not in the transaction, %d of what is; want 120, 21", got[0].ErrorCode, got[1].ErrorCode)
		}
		if got := p.produce(11, txn.StateTopic, 0, "a"); got.ErrorCode != 120 {
			t.Errorf("an internal topic that is not in the transaction: error %d, want 120", got.ErrorCode)
		}
		if got := p.produce(13, txn.StateTopic, 0, "a"); got.ErrorCode != 17 {
			t.Errorf("an internal topic that is: error %d, want 17", got.ErrorCode)
		}
	})
}

func TestFencedProducerIsTold(t *testing.T) {
	atVersions(t, "", 0, 3, func(t *testing.T, version int16) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("t", 1)
			old := b.txnProducer("tx")
			p := b.txnProducer("tx")
			checkRefused(t, b, "t", old.produce(version, "t", 0, "a"), 47) // the coordinator knows
			p.mustProduce("t", 0, "a")
			p.end(true)
			if got := old.produce(version, "t", 0, "a"); got.ErrorCode != 47 { // the log knows
				t.Errorf("error %d, want 47", got.ErrorCode)
			}
			stranger := *p
			stranger.ID += 1000
			if got := stranger.produce(version, "t", 0, "a"); got.ErrorCode != 49 {
				t.Errorf("a producer id that is not the transactional id's: error %d, want 49", got.ErrorCode)
			}
			stranger.id = "unknown"
			if got := stranger.produce(version, "t", 0, "a"); got.ErrorCode != 49 {
				t.Errorf("a transactional id that is not known: error %d, want 49", got.ErrorCode)
			}
		})
	})
}

// TestWithoutVerification is transaction.partition.verification.enable=false.
func TestWithoutVerification(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, map[string]string{"transaction.partition.verification.enable": "false"}))
		b.topic("t", 2)
		p := b.txnProducer("tx")
		if got := p.produce(9, "t", 0, "a"); got.ErrorCode != 0 {
			t.Errorf("version 9: error %d, want 0", got.ErrorCode)
		}
		if in := p.partitions(); len(in) != 0 {
			t.Errorf("in the transaction are %v, want none", in)
		}
		p.mustProduce("t", 1, "a")
		if in := p.partitions(); !slices.Equal(in, []txn.Partition{{Topic: "t", Partition: 1}}) {
			t.Errorf("in the transaction are %v, want t-1, which version 13 adds all the same", in)
		}
	})
}

// TestProduceWaitsForTheLastTransaction writes while the markers of the producer's last transaction are on their way.
func TestProduceWaitsForTheLastTransaction(t *testing.T) {
	for _, c := range []struct {
		what    string
		config  map[string]string
		version int16
		markers time.Duration // how long they take
		code    int16
		took    time.Duration
	}{
		{"soon enough", nil, 13, 50 * time.Millisecond, 0, 60 * time.Millisecond},
		{"just in time", nil, 12, 95 * time.Millisecond, 0, 100 * time.Millisecond},
		{"too late", nil, 13, time.Minute, 51, 100 * time.Millisecond},
		{"other times", map[string]string{"add.partitions.to.txn.retry.backoff.max.ms": "1000", "add.partitions.to.txn.retry.backoff.ms": "300"}, 13, time.Minute, 51, 1200 * time.Millisecond},
		{"no time", map[string]string{"add.partitions.to.txn.retry.backoff.max.ms": "0"}, 13, 50 * time.Millisecond, 51, 0},
		{"within the timeout of requests", map[string]string{"request.timeout.ms": "40"}, 13, time.Minute, 51, 40 * time.Millisecond},
		{"not while it is only verified", nil, 11, 50 * time.Millisecond, 19, 0},
	} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := withTransactions(newRunningBroker(t, c.config))
				b.topic("t", 2)
				p := b.txnProducer("tx")
				p.mustProduce("t", 0, "a")
				b.onSync("t-0", func() error { <-time.After(c.markers); return nil })
				got, err := b.s.txns.End(t.Context(), txn.EndRequest{TransactionalID: "tx", Producer: p.Producer, Commit: true, V2: true})
				if err != nil {
					t.Fatal(err)
				}
				p.Producer, p.next = got, map[fetchKey]int32{}
				synctest.Wait()
				began := time.Now()
				answer := p.produce(c.version, "t", 1, "b")
				if took := time.Since(began); answer.ErrorCode != c.code || took != c.took {
					t.Errorf("error %d after %v, want %d after %v", answer.ErrorCode, took, c.code, c.took)
				}
			})
		})
	}
}

// syncsOfTransactions calls f before each sync of a partition of __transaction_state.
func (b *broker) syncsOfTransactions(f func() error) {
	hook := func(o vfs.Op) error {
		if o.Kind == vfs.OpSync && strings.Contains(o.Name, txn.StateTopic) && strings.HasSuffix(o.Name, ".log") {
			return f()
		}
		return nil
	}
	b.onOp.Store(&hook)
}

// TestTransactionalProduceKeepsItsPlace sends requests without waiting, of which the second has to be added to a
// transaction: the one before is answered meanwhile, those behind are appended behind it.
func TestTransactionalProduceKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		withTransactions(s.broker)
		s.topic("t", 1)
		s.topic("plain", 1)
		p := s.txnProducer("tx")
		s.syncsOfTransactions(func() error { <-time.After(3 * time.Second); return nil })
		c := s.dial(t)
		reqs := []kmsg.Request{
			s.produceRequest(13, "plain", produced{0, s.batch("before")}),
			p.request(13, "t", p.batch("t", 0, "a")),
			p.request(13, "t", p.batch("t", 0, "b", "c")),
			s.produceRequest(13, "t", produced{0, s.batch("behind")}),
		}
		began := time.Now()
		c.pipeline(reqs...)
		for i, want := range []struct {
			offset int64
			after  time.Duration
		}{{0, 0}, {0, 3 * time.Second}, {1, 3 * time.Second}, {3, 3 * time.Second}} {
			got := c.receive(reqs[i], int32(i+1)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if after := time.Since(began); got.ErrorCode != 0 || got.BaseOffset != want.offset || after != want.after {
				t.Errorf("request %d: error %d, base offset %d after %v; want 0, %d after %v", i, got.ErrorCode, got.BaseOffset, after, want.offset, want.after)
			}
		}
	})
}

// TestStopDoesNotWaitForTheCoordinator stops a server while a Produce waits for the transaction coordinator's disk.
func TestStopDoesNotWaitForTheCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		withTransactions(s.broker)
		s.topic("t", 1)
		p := s.txnProducer("tx")
		s.syncsOfTransactions(func() error { <-time.After(time.Minute); return nil })
		c := s.dial(t)
		req := p.request(13, "t", p.batch("t", 0, "a"))
		id := c.send(req)
		synctest.Wait()
		began := time.Now()
		go func() { _ = s.s.Shutdown(context.Background()) }()
		got := c.receive(req, id).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if after := time.Since(began); got.ErrorCode != 19 || after != 0 {
			t.Errorf("error %d after %v, want 19 at once", got.ErrorCode, after)
		}
		if end := s.offsets("t", 0).End; end != 0 {
			t.Errorf("the log ends at %d, want 0", end)
		}
	})
}

// TestStopEndsTheTriesOfAProduce stops a server while a Produce waits for the end of its producer's last transaction.
func TestStopEndsTheTriesOfAProduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		withTransactions(s.broker)
		s.topic("t", 2)
		p := s.txnProducer("tx")
		p.mustProduce("t", 0, "a")
		s.onSync("t-0", func() error { <-time.After(time.Minute); return nil })
		next, err := s.s.txns.End(t.Context(), txn.EndRequest{TransactionalID: "tx", Producer: p.Producer, Commit: true, V2: true})
		if err != nil {
			t.Fatal(err)
		}
		p.Producer, p.next = next, map[fetchKey]int32{}
		c := s.dial(t)
		req := p.request(13, "t", p.batch("t", 1, "b"))
		id := c.send(req)
		synctest.Wait()
		began := time.Now()
		go func() { _ = s.s.Shutdown(context.Background()) }()
		got := c.receive(req, id).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if after := time.Since(began); got.ErrorCode != 51 || after != 0 {
			t.Errorf("error %d after %v, want 51 at once", got.ErrorCode, after)
		}
	})
}

func TestTransactionThatTheDiskRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("t", 1)
		p := b.txnProducer("tx")
		b.syncsOfTransactions(func() error { return errors.New("no medium") })
		checkRefused(t, b, "t", p.produce(13, "t", 0, "a"), 19)
		b.onOp.Store(nil)
		p.next = map[fetchKey]int32{}
		if got := p.produce(13, "t", 0, "a"); got.ErrorCode != 0 {
			t.Errorf("when the disk is back: error %d, want 0", got.ErrorCode)
		}
	})
}

// TestUnansweredTransactionalProduce is acks=0: an error is told by the end of the connection.
func TestUnansweredTransactionalProduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("t", 1)
		p := b.txnProducer("tx")
		for _, version := range []int16{11, 13} {
			req := p.request(version, "t", p.batch("t", 0, "a"))
			p.next = map[fetchKey]int32{}
			req.Acks = 0
			if resp, err := b.dispatch(req); resp != nil || (err != nil) != (version == 11) {
				t.Errorf("version %d: response %v, error %v; want an error of 11 only", version, resp, err)
			}
		}
		if end := b.offsets("t", 0).End; end != 1 {
			t.Errorf("the log ends at %d, want 1", end)
		}
	})
}

// TestIdempotenceInTransactions is what a log checks of a producer whose transaction is open.
func TestIdempotenceInTransactions(t *testing.T) {
	atVersions(t, "", 0, produceAdds, func(t *testing.T, version int16) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("t", 2)
			p := b.txnProducer("tx")
			key := fetchKey{topic: "t"}
			code := func(what string, want int16, offset int64) {
				t.Helper()
				before := p.next[key]
				got := p.produce(version, "t", 0, "x")
				if got.ErrorCode != want || got.BaseOffset != offset {
					t.Errorf("%s: error %d, base offset %d; want %d, %d", what, got.ErrorCode, got.BaseOffset, want, offset)
				}
				if want != 0 {
					p.next[key] = before
				}
			}
			p.next[key] = 5
			code("a transaction that begins behind sequence 0", 45, -1)
			p.next[key] = 0
			code("the first batch", 0, 0)
			code("the second", 0, 1)
			p.next[key] = 1
			code("the second again", 0, 1)
			p.next[key] = 7
			code("a gap", 45, -1)
			plain := record.BuilderOptions{HasProducer: true, ProducerID: p.ID, ProducerEpoch: p.Epoch, BaseSequence: 2}
			if got := b.produce(version, "t", 0, newBatch(plain, b.nowMs(), "x")); got.ErrorCode != 48 || got.LogStartOffset != 0 {
				t.Errorf("a batch outside of the open transaction: error %d, log start %d; want 48, 0", got.ErrorCode, got.LogStartOffset)
			}
			old := *p
			p.end(true)
			code("a new epoch", 0, 3)
			old.next = map[fetchKey]int32{key: 2}
			if got := old.produce(version, "t", 0, "x"); got.ErrorCode != 47 {
				t.Errorf("the epoch before: error %d, want 47", got.ErrorCode)
			}
		})
	})
}

func TestProduceNeedsTheTransactionalID(t *testing.T) {
	atVersions(t, "", 0, 3, func(t *testing.T, version int16) {
		synctest.Test(t, func(t *testing.T) {
			b := newRunningBroker(t, withAuthorizer())
			b.r.principal = "User:low"
			withTransactions(b)
			b.topic("t", 2)
			b.topic("denied", 1)
			p := b.txnProducer("tx")
			p.add("t", 0, 1)
			p.add("denied", 0)
			b.allow(opWrite, resourceTopic, "t")
			req := p.request(version, "t", produced{1, b.batch("plain")}, p.batch("t", 0, "a"))
			req.Topics = append(req.Topics, p.request(version, "denied", p.batch("denied", 0, "a")).Topics...)
			check := func(what string, want ...int16) {
				t.Helper()
				var codes []int16
				for _, topic := range ask[*kmsg.ProduceResponse](b, req).Topics {
					for _, p := range topic.Partitions {
						codes = append(codes, p.ErrorCode)
					}
				}
				if !slices.Equal(codes, want) {
					t.Errorf("%s: errors %v, want %v", what, codes, want)
				}
			}
			check("without WRITE on the transactional id", 53, 53, 53)
			b.allow(opWrite, resourceTransactionalID, "tx")
			check("with it", 0, 0, 29)
		})
	})
}

// TestWaitForTheCoordinatorIsNoRequestTime has a client pay for no time in which the server waits.
func TestWaitForTheCoordinatorIsNoRequestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		withTransactions(s.broker)
		s.topic("t", 1)
		p := s.txnProducer("tx")
		s.setQuota("user=ANONYMOUS", "request_percentage=1")
		s.syncsOfTransactions(func() error { <-time.After(3 * time.Second); return nil })
		began := time.Now()
		resp := s.dial(t).call(p.request(13, "t", p.batch("t", 0, "a"))).(*kmsg.ProduceResponse)
		if took := time.Since(began); took != 3*time.Second || resp.ThrottleMillis != 0 {
			t.Errorf("throttle time %d ms after %v, want none after 3s", resp.ThrottleMillis, took)
		}
	})
}
