package compat_test

import (
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// throttles hears of each throttle time that a broker tells.
type throttles chan time.Duration

func (t throttles) OnBrokerThrottle(_ kgo.BrokerMetadata, interval time.Duration, _ bool) {
	select {
	case t <- interval:
	default:
	}
}

func TestKadmSetsQuotasThatThrottleAProducer(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	c := s.dial(t)
	tp := s.createTopic(t, "quotas", 1)
	ctx := within(t)
	adm := kadm.NewClient(s.client(t))
	client := fresh("client")
	entity := kadm.ClientQuotaEntity{{Type: "client-id", Name: &client}}
	describe := func() []kadm.ClientQuotaValue {
		t.Helper()
		got, err := adm.DescribeClientQuotas(ctx, true, []kadm.DescribeClientQuotaComponent{{Type: "client-id", MatchName: &client}})
		if err != nil {
			t.Fatalf("describe: %v", err)
		}
		var values []kadm.ClientQuotaValue
		for _, q := range got {
			values = append(values, q.Values...)
		}
		return values
	}
	alter := func(ops ...kadm.AlterClientQuotaOp) {
		t.Helper()
		altered, err := adm.AlterClientQuotas(ctx, []kadm.AlterClientQuotaEntry{{Entity: entity, Ops: ops}})
		if err != nil || len(altered) != 1 || altered[0].Err != nil {
			t.Fatalf("alter: %v and %+v", err, altered)
		}
	}
	alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Value: 1000}, kadm.AlterClientQuotaOp{Key: "request_percentage", Value: 50})
	defer alter(kadm.AlterClientQuotaOp{Key: "producer_byte_rate", Remove: true}, kadm.AlterClientQuotaOp{Key: "request_percentage", Remove: true})
	want := []kadm.ClientQuotaValue{{Key: "producer_byte_rate", Value: 1000}, {Key: "request_percentage", Value: 50}}
	s.await(t, "the quotas", func() bool {
		got := describe()
		slices.SortFunc(got, func(a, b kadm.ClientQuotaValue) int { return int(a.Value) - int(b.Value) })
		slices.Reverse(got)
		return slices.Equal(got, want)
	})
	if !s.External() {
		s.Restart(t, killed)
		if got := describe(); len(got) != 2 {
			t.Fatalf("after kill -9 the quotas are %v, want %v", got, want)
		}
		c = s.dial(t)
	}
	s.awaitPartition(t, c, tp, 0)

	produce := func(clientID string, heard throttles) {
		t.Helper()
		cl := s.client(t, kgo.ClientID(clientID), kgo.WithHooks(heard), kgo.ProducerBatchCompression(kgo.NoCompression()))
		mustProduceSync(t, cl, &kgo.Record{Topic: tp.Name, Value: make([]byte, 100_000)})
	}
	heard := make(throttles, 100)
	produce(client, heard)
	select {
	case d := <-heard:
		if d < time.Minute {
			t.Errorf("100 kB with 1 kB a second allowed are throttled for %v, want a minute at least", d)
		}
	case <-ctx.Done():
		t.Error("100 kB with 1 kB a second allowed are not throttled")
	}
	// Another client is not.
	other := make(throttles, 100)
	produce(fresh("client"), other)
	select {
	case d := <-other:
		t.Errorf("a client without a quota is throttled for %v", d)
	default:
	}
}
