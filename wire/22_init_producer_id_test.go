package wire

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// initRequest makes an InitProducerId request of a producer that has no producer id yet.
func initRequest(version int16, id *string) *kmsg.InitProducerIDRequest {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionalID, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = version, id, 60_000, -1, -1
	return req
}

// wantInit asks for a producer; with a code there is none.
func (b *broker) wantInit(what string, req *kmsg.InitProducerIDRequest, code int16) txn.Producer {
	b.t.Helper()
	resp := ask[*kmsg.InitProducerIDResponse](b, req)
	if none := resp.ProducerID == -1 && resp.ProducerEpoch == -1; resp.ErrorCode != code || none != (code != 0) {
		b.t.Errorf("v%d, %s: error %d, producer %d epoch %d; want error %d", req.Version, what, resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch, code)
	}
	return txn.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
}

func TestInitProducerIDFieldCases(t *testing.T) {
	atVersions(t, "TXN-03", 22, 0, func(t *testing.T, v int16) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			id, empty := "tx", ""
			for _, c := range []struct {
				what    string
				id      *string
				timeout int32
				code    int16
			}{
				{"empty id", &empty, 60_000, 42},
				{"timeout above the maximum", &id, 900_001, 50},
				{"timeout 0", &id, 0, 50},
				{"timeout below 0", &id, -1, 50},
				{"good", &id, 900_000, 0},
			} {
				req := initRequest(v, c.id)
				req.TransactionTimeoutMillis = c.timeout
				b.wantInit(c.what, req, c.code)
			}
			last := int64(-1)
			for range 3 {
				req := initRequest(v, nil)
				req.TransactionTimeoutMillis = 0 // means nothing without an id
				got := b.wantInit("no id", req, 0)
				if got.ID <= last || got.Epoch != 0 {
					t.Errorf("got id %d, epoch %d; want above %d, 0", got.ID, got.Epoch, last)
				}
				last = got.ID
			}
			if v >= 3 {
				for _, id := range []*string{nil, &id, &empty} {
					req := initRequest(v, id)
					req.ProducerID = 4
					b.wantInit("id without an epoch", req, 42)
					req.ProducerID, req.ProducerEpoch = -1, 4
					b.wantInit("epoch without an id", req, 42)
				}
			}
		})
	})
}

// TestInitProducerIDOfATransactionalID goes through what becomes of a transactional id's producer.
func TestInitProducerIDOfATransactionalID(t *testing.T) {
	for v := range int16(6) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("orders", 1)
			id := "tx"
			first := b.wantInit("first", initRequest(v, &id), 0)
			second := b.wantInit("second", initRequest(v, &id), 0)
			if first.Epoch != 0 || second != (txn.Producer{ID: first.ID, Epoch: 1}) {
				t.Errorf("v%d: producers %+v and %+v, want one id with epochs 0 and 1", v, first, second)
			}
			fenced := int16(90)
			if v < 4 {
				fenced = 47
			}
			if v >= 3 {
				req := initRequest(v, &id)
				req.ProducerID, req.ProducerEpoch = second.ID, second.Epoch
				if got := b.wantInit("resumes", req, 0); got != (txn.Producer{ID: first.ID, Epoch: 2}) {
					t.Errorf("v%d: producer %+v that resumes, want epoch 2", v, got)
				}
				if got := b.wantInit("asks again", req, 0); got != (txn.Producer{ID: first.ID, Epoch: 2}) {
					t.Errorf("v%d: producer %+v of an answer that was lost, want epoch 2 again", v, got)
				}
				req.ProducerEpoch = first.Epoch
				b.wantInit("was fenced", req, fenced)
				req.ProducerID = first.ID + 77
				b.wantInit("is another's", req, fenced)
			}
			p := b.txnProducer(id)
			p.mustProduce("orders", 0, "v")
			b.wantInit("over an open transaction", initRequest(v, &id), 51)
			synctest.Wait()
			if got := b.wantInit("after its abort", initRequest(v, &id), 0); got.ID != first.ID || got.Epoch <= p.Epoch {
				t.Errorf("v%d: producer %+v after the abort of %+v's transaction, want a higher epoch", v, got, p.Producer)
			}
			if o := b.offsets("orders", 0); o.LastStable != o.HighWatermark || o.End != 2 {
				t.Errorf("v%d: %+v, want a batch and a marker, and nothing that is open", v, o)
			}
		})
	}
}

func TestInitProducerIDWithoutItsTopic(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	id := "tx"
	for v := range int16(6) {
		b.wantInit("no __transaction_state", initRequest(v, &id), 16)
	}
	if _, ok := b.store.Topic("__transaction_state"); ok {
		t.Error("InitProducerId made __transaction_state, which FindCoordinator does")
	}
}

func TestLongestTransactionTimeout(t *testing.T) {
	b := withGroups(newBroker(t, map[string]string{"transaction.max.timeout.ms": "5000"}))
	if _, err := b.s.txns.EnsureTopic(); err != nil {
		t.Fatal(err)
	}
	id := "tx"
	req := initRequest(5, &id)
	req.TransactionTimeoutMillis = 5001
	b.wantInit("longer than the broker allows", req, 50)
	req.TransactionTimeoutMillis = 5000
	b.wantInit("as long", req, 0)
}
