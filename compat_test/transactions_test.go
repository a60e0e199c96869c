package compat_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// transactionClients are the two ways in which producers keep transactions: with the partitions named first, and by
// writing to them (KIP-890).
var transactionClients = []struct {
	name string
	opts []kgo.Opt
}{
	{"transaction version 1", []kgo.Opt{kgo.MaxVersions(kversion.V3_9_0())}},
	{"transaction version 2", nil},
}

// transact produces values in a transaction and leaves it open.
func transact(t testing.TB, cl *kgo.Client, tp topic, values ...string) {
	t.Helper()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatalf("begin: %v", err)
	}
	for _, v := range values {
		if err := cl.ProduceSync(within(t), &kgo.Record{Topic: tp.Name, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatalf("produce %s: %v", v, err)
		}
	}
}

// ends waits until the last stable offset of partition 0 of a topic is the one given.
func (s *server) ends(t testing.TB, tp topic, stable int64) {
	t.Helper()
	c, ctx := s.dial(t), within(t)
	for {
		got := listOffset(c, 7, tp, 0, -1, 1)
		wantCode(t, "last stable offset", got.ErrorCode, noError)
		if got.Offset == stable {
			return
		}
		if got.Offset > stable || ctx.Err() != nil {
			t.Fatalf("last stable offset: got %d, want %d", got.Offset, stable)
		}
	}
}

// decided waits until no transaction holds up the readers of partition 0 of a topic.
func (s *server) decided(t testing.TB, tp topic) {
	t.Helper()
	c, ctx := s.dial(t), within(t)
	for listOffset(c, 7, tp, 0, latest, 1).Offset != offsetOf(c, tp, 0, latest) {
		if ctx.Err() != nil {
			t.Fatalf("%s-0 is not decided after %s", tp.Name, waitLimit)
		}
	}
}

// committed reads a topic of one partition as a reader of committed records, up to the last stable offset.
func (s *server) committed(t testing.TB, tp topic) []string {
	t.Helper()
	end := listOffset(s.dial(t), 7, tp, 0, -1, 1).Offset
	cl := s.client(t, fromStart(tp.Name), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
	defer cl.Close()
	ctx := within(t)
	var out []string
	for next := int64(0); next < end; {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("poll: %v", err)
		}
		for _, r := range fs.Records() {
			next = r.Offset + 1
			if !r.Attrs.IsControl() {
				out = append(out, string(r.Value))
			}
		}
	}
	return out
}

func TestTransactions(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, kind := range transactionClients {
		t.Run(kind.name, func(t *testing.T) {
			t.Run("TXN-01 a second producer fences the first", func(t *testing.T) {
				tp := s.createTopic(t, "txn-01", 1)
				opts := append([]kgo.Opt{kgo.TransactionalID(fresh("txn-01"))}, kind.opts...)
				first, second := s.client(t, opts...), s.client(t, opts...)
				transact(t, first, tp, "lost")
				transact(t, second, tp, "kept")
				if err := second.EndTransaction(within(t), kgo.TryCommit); err != nil {
					t.Errorf("the second commits: %v", err)
				}
				err := first.EndTransaction(within(t), kgo.TryCommit)
				if !errors.Is(err, kerr.ProducerFenced) && !errors.Is(err, kerr.InvalidProducerEpoch) {
					t.Errorf("the first commits: got %v, want that it is fenced", err)
				}
				s.ends(t, tp, 4) // each record with its marker
				want(t, "committed", len(s.committed(t, tp)), 1)
			})

			t.Run("TXN-13 markers take offsets, and a reader of committed records has no lag", func(t *testing.T) {
				tp := s.createTopic(t, "txn-13", 1)
				cl := s.client(t, append([]kgo.Opt{kgo.TransactionalID(fresh("txn-13"))}, kind.opts...)...)
				transact(t, cl, tp, "a", "b")
				s.ends(t, tp, 0)
				if err := cl.EndTransaction(within(t), kgo.TryCommit); err != nil {
					t.Fatal(err)
				}
				s.ends(t, tp, 3)
				transact(t, cl, tp, "c")
				if err := cl.EndTransaction(within(t), kgo.TryAbort); err != nil {
					t.Fatal(err)
				}
				s.ends(t, tp, 5)
				transact(t, cl, tp, "d")
				if err := cl.EndTransaction(within(t), kgo.TryCommit); err != nil {
					t.Fatal(err)
				}
				s.ends(t, tp, 7)
				group := fresh("txn-13")
				member := s.client(t, kgo.ConsumerGroup(group), kgo.ConsumeTopics(tp.Name), kgo.DisableAutoCommit(),
					kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords())
				var got []string
				for next := int64(0); next < 7; {
					records := member.PollFetches(within(t)).Records()
					for _, r := range records {
						next = r.Offset + 1
						if !r.Attrs.IsControl() {
							got = append(got, string(r.Value))
						}
					}
				}
				want(t, "records", len(got), 3)
				if err := member.CommitUncommittedOffsets(within(t)); err != nil {
					t.Fatal(err)
				}
				lags, err := kadm.NewClient(member).Lag(within(t), group)
				if err != nil {
					t.Fatal(err)
				}
				want(t, "lag", lags[group].Lag.Total(), 0)
			})
		})
	}
}

// TestTransactionsOverAKill has a gateway killed at two moments of a transaction.
func TestTransactionsOverAKill(t *testing.T) {
	t.Parallel()
	for _, kind := range transactionClients {
		t.Run("TXN-15 "+kind.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, "-c", "transaction.abort.timed.out.transaction.cleanup.interval.ms=200")
			s.needProcess(t)

			t.Run("one that is open holds readers up, and is aborted in its time", func(t *testing.T) {
				tp := s.createTopic(t, "txn-15", 1)
				cl := s.client(t, append([]kgo.Opt{kgo.TransactionalID(fresh("txn-15")), kgo.TransactionTimeout(10 * time.Second)}, kind.opts...)...)
				transact(t, cl, tp, "a", "b")
				s.Restart(t, killed)
				want(t, "last stable offset", listOffset(s.dial(t), 7, tp, 0, -1, 1).Offset, 0)
				s.ends(t, tp, 3)
				want(t, "records of it", len(s.committed(t, tp)), 0)
				if err := cl.EndTransaction(within(t), kgo.TryCommit); err == nil {
					t.Error("the producer committed what was aborted")
				}
			})

			// A marker may be there twice: the coordinator writes it again when it does not know that it was written,
			// as Kafka's does.
			t.Run("one whose commit was acknowledged is committed", func(t *testing.T) {
				tp := s.createTopic(t, "txn-15", 1)
				cl := s.client(t, append([]kgo.Opt{kgo.TransactionalID(fresh("txn-15"))}, kind.opts...)...)
				for round := 1; round <= *rounds; round++ {
					transact(t, cl, tp, "a", "b")
					if err := cl.EndTransaction(within(t), kgo.TryCommit); err != nil {
						t.Fatal(err)
					}
					s.Restart(t, killed)
					s.decided(t, tp)
					want(t, "records", len(s.committed(t, tp)), 2*round)
					if end := offsetOf(s.dial(t), tp, 0, latest); end < int64(3*round) || end > int64(4*round) {
						t.Errorf("after %d transactions of two records the log ends at %d, want a marker or two for each", round, end)
					}
				}
			})
		})
	}
}

// A producer whose gateway goes while it writes goes on with its transaction.
func TestTransactionGoesOnOverAKill(t *testing.T) {
	t.Parallel()
	for _, kind := range transactionClients {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			s.needProcess(t)
			tp := s.createTopic(t, "goes-on", 1)
			cl := s.client(t, append([]kgo.Opt{kgo.TransactionalID(fresh("goes-on"))}, kind.opts...)...)
			transact(t, cl, tp, "a")
			s.Restart(t, killed)
			if err := cl.ProduceSync(within(t), &kgo.Record{Topic: tp.Name, Value: []byte("b")}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			s.Restart(t, killed)
			if err := cl.EndTransaction(context.Background(), kgo.TryCommit); err != nil {
				t.Fatal(err)
			}
			s.ends(t, tp, 3)
			want(t, "records", len(s.committed(t, tp)), 2)
		})
	}
}
