package gateway

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/kaen-log/gateway/storage/vfs"
)

// transactor is a gateway with a transactional producer.
type transactor struct {
	t   *testing.T
	ctx context.Context
	g   *Gateway
	p   *kgo.Client
}

func startTransactor(ctx context.Context, t *testing.T, mem *vfs.Mem) *transactor {
	t.Helper()
	g, err := Start(ctx, Options{FS: mem, Logger: slog.New(slog.DiscardHandler), Config: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := kgo.NewClient(kgo.SeedBrokers(g.Addrs()[0].String()), kgo.TransactionalID("tx"), kgo.DefaultProduceTopic("t"), kgo.AllowAutoTopicCreation(),
		kgo.MetadataMinAge(10*time.Millisecond), kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	return &transactor{t, ctx, g, p}
}

// begin begins a transaction with one record.
func (x *transactor) begin(value string) {
	x.t.Helper()
	if err := x.p.BeginTransaction(); err != nil {
		x.t.Fatal(err)
	}
	if err := x.p.ProduceSync(x.ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
		x.t.Fatalf("produce %s: %v", value, err)
	}
}

func (x *transactor) end(how kgo.TransactionEndTry) {
	x.t.Helper()
	if err := x.p.EndTransaction(x.ctx, how); err != nil {
		x.t.Fatalf("end, commit %v: %v", how, err)
	}
}

// stop stops the gateway at once, whatever is under way in it.
func (x *transactor) stop() {
	x.t.Helper()
	if err := x.g.Shutdown(x.ctx); err != nil {
		x.t.Errorf("shutdown: %v", err)
	}
	x.p.Close()
}

// committed reads committed records up to one of the value.
func (x *transactor) committed(last string) (values []string) {
	x.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(x.g.Addrs()[0].String()), kgo.ConsumeTopics("t"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		x.t.Fatal(err)
	}
	defer c.Close()
	for !slices.Contains(values, last) {
		fetched := c.PollFetches(x.ctx)
		if err := fetched.Err0(); err != nil {
			x.t.Fatalf("after %v: %v", values, err)
		}
		fetched.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
	}
	return values
}

// TestTransactionsOutliveAStop stops a gateway right behind the answer to a commit, and with a transaction open. What was
// committed is, what was aborted is not, and the open one is aborted when its producer comes back.
func TestTransactionsOutliveAStop(t *testing.T) {
	defer goleak.VerifyNone(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	mem := vfs.NewMem(vfs.MemOptions{})

	x := startTransactor(ctx, t, mem)
	x.begin("committed")
	x.end(kgo.TryCommit)
	x.begin("aborted")
	x.end(kgo.TryAbort)
	x.begin("last")
	x.end(kgo.TryCommit)
	x.stop()

	x = startTransactor(ctx, t, mem)
	if got, want := x.committed("last"), []string{"committed", "last"}; !slices.Equal(got, want) {
		t.Errorf("after the first stop: %v, want %v", got, want)
	}
	x.begin("open")
	x.stop()

	x = startTransactor(ctx, t, mem)
	x.begin("next")
	x.end(kgo.TryCommit)
	if got, want := x.committed("next"), []string{"committed", "last", "next"}; !slices.Equal(got, want) {
		t.Errorf("after the second stop: %v, want %v", got, want)
	}
	x.stop()
}
