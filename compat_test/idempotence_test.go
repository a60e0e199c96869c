package compat_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func initProducerID(c *conn, v int16) *kmsg.InitProducerIDResponse {
	c.t.Helper()
	req := kmsg.NewPtrInitProducerIDRequest()
	req.TransactionTimeoutMillis = 60000
	ctx := within(c.t)
	for {
		res := ask[*kmsg.InitProducerIDResponse](c, v, req)
		if res.ErrorCode == 0 {
			return res
		}
		if res.ErrorCode != loadInProgress || ctx.Err() != nil { // Kafka's first block of ids takes a moment
			c.t.Fatalf("InitProducerId v%d: %s", v, code(res.ErrorCode))
		}
	}
}

func TestIdempotence(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "producer ids are handed out once", versions(0, 5), func(t *testing.T, v int16) {
		c := s.dial(t)
		a, b := initProducerID(c, v), initProducerID(c, v)
		if a.ProducerID < 0 || b.ProducerID <= a.ProducerID || a.ProducerEpoch != 0 || b.ProducerEpoch != 0 {
			t.Fatalf("got %d epoch %d, then %d epoch %d", a.ProducerID, a.ProducerEpoch, b.ProducerID, b.ProducerEpoch)
		}
	})

	at(t, "PROD-20 duplicate within the last five batches returns the first offset", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-20", 1)
		c := s.dial(t)
		pid := initProducerID(c, 4).ProducerID
		mustProduce(c, tp, 0, one("shift", "the", "offsets"))
		for seq := range int32(6) {
			got := produce(c, v, tp, 0, one("x").idempotent(pid, 0, seq).bytes(t))
			wantCode(t, "produce", got.ErrorCode, noError)
			want(t, "base offset", got.BaseOffset, 3+int64(seq))
		}
		for seq := int32(5); seq >= 1; seq-- {
			got := produce(c, v, tp, 0, one("x").idempotent(pid, 0, seq).bytes(t))
			wantCode(t, "duplicate", got.ErrorCode, noError)
			want(t, "base offset of the original", got.BaseOffset, 3+int64(seq))
			if v >= 5 {
				want(t, "log start offset", got.LogStartOffset, 0)
			}
		}
		refused(t, produce(c, v, tp, 0, one("x").idempotent(pid, 0, 0).bytes(t)), outOfOrderSequence)
		refused(t, produce(c, v, tp, 0, one("x").idempotent(pid, 0, 7).bytes(t)), outOfOrderSequence)
		wantEnd(c, tp, 0, 9)
	})

	at(t, "PROD-23 epoch rules on the produce path", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-23", 1)
		c := s.dial(t)
		pid := initProducerID(c, 4).ProducerID
		wantCode(t, "epoch 1, sequence 0", produce(c, v, tp, 0, one("x").idempotent(pid, 1, 0).bytes(t)).ErrorCode, noError)
		refused(t, produce(c, v, tp, 0, one("x").idempotent(pid, 0, 1).bytes(t)), invalidProducerEpoch)
		refused(t, produce(c, v, tp, 0, one("x").idempotent(pid, 2, 5).bytes(t)), outOfOrderSequence)
		wantCode(t, "epoch 2, sequence 0", produce(c, v, tp, 0, one("x").idempotent(pid, 2, 0).bytes(t)).ErrorCode, noError)
		wantEnd(c, tp, 0, 2)
	})

	at(t, "PROD-24 idempotent batch needs a non-negative sequence", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "prod-24", 1)
		c := s.dial(t)
		refused(t, produce(c, v, tp, 0, one("x").idempotent(5, 0, -1).bytes(t)), invalidRecord)
		wantEnd(c, tp, 0, 0)
	})

	at(t, "a sequence wraps, an unknown producer starts anywhere", versions(3, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "sequence", 1)
		c := s.dial(t)
		pid := initProducerID(c, 4).ProducerID
		first := one("a", "b").idempotent(pid, 0, 2147483646)
		wantCode(t, "first sequence 2147483646", produce(c, v, tp, 0, first.bytes(t)).ErrorCode, noError)
		wantCode(t, "wrapped to 0", produce(c, v, tp, 0, one("c").idempotent(pid, 0, 0).bytes(t)).ErrorCode, noError)
		want(t, "duplicate over the wrap", produce(c, v, tp, 0, first.bytes(t)).BaseOffset, 0)
		wantEnd(c, tp, 0, 3)
	})
}

func TestProducerStateOverRestarts(t *testing.T) {
	t.Parallel()
	for _, how := range []string{stopped, killed} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			tp := s.createTopic(t, "producers", 1)
			c := s.dial(t)
			pid := initProducerID(c, 4).ProducerID
			for seq := range int32(3) {
				mustProduce(c, tp, 0, one("x").idempotent(pid, 0, seq))
			}
			s.Restart(t, how)
			c = s.dial(t)
			got := produce(c, 9, tp, 0, one("x").idempotent(pid, 0, 2).bytes(t))
			wantCode(t, "duplicate of the last batch", got.ErrorCode, noError)
			want(t, "base offset of the original", got.BaseOffset, 2)
			refused(t, produce(c, 9, tp, 0, one("x").idempotent(pid, 0, 5).bytes(t)), outOfOrderSequence)
			want(t, "next sequence", mustProduce(c, tp, 0, one("x").idempotent(pid, 0, 3)), 3)
			if next := initProducerID(c, 4).ProducerID; next <= pid {
				t.Errorf("producer id %d after %d", next, pid)
			}
		})
	}
}
