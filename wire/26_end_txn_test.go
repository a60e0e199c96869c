package wire

import (
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// wantEnd asks for the end of a producer's transaction and returns the producer to go on with.
func (b *broker) wantEnd(what string, p *txnProducer, version int16, commit bool, code int16) txn.Producer {
	b.t.Helper()
	req := kmsg.NewPtrEndTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Commit = version, p.id, p.ID, p.Epoch, commit
	resp := ask[*kmsg.EndTxnResponse](b, req)
	if none := resp.ProducerID == -1 && resp.ProducerEpoch == -1; resp.ErrorCode != code || none != (code != 0 || version < 5) {
		b.t.Errorf("v%d, %s: error %d, producer %d epoch %d; want error %d", version, what, resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch, code)
	}
	return txn.Producer{ID: resp.ProducerID, Epoch: resp.ProducerEpoch}
}

func TestEndTxn(t *testing.T) {
	for v := range int16(6) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("orders", 1)
			fenced := int16(90)
			if v < 2 {
				fenced = 47
			}
			old := b.txnProducer("tx")
			p := b.txnProducer("tx")
			stranger := &txnProducer{id: "tx", Producer: txn.Producer{ID: p.ID + 1, Epoch: p.Epoch}}
			for _, commit := range []bool{true, false} {
				b.wantEnd("fenced", old, v, commit, fenced)
				b.wantEnd("unknown id", &txnProducer{id: "unknown"}, v, commit, 49)
				b.wantEnd("another producer id", stranger, v, commit, 49)
				b.wantEnd("empty id", &txnProducer{}, v, commit, 42)
			}
			b.wantEnd("commits nothing", p, v, true, 48)
			if v < 5 {
				b.wantEnd("aborts nothing", p, v, false, 48)
			}
			for _, commit := range []bool{true, false} {
				p.add("orders", 0)
				next := b.wantEnd("ends", p, v, commit, 0)
				synctest.Wait()
				if v >= 5 && next != (txn.Producer{ID: p.ID, Epoch: p.Epoch + 1}) {
					t.Errorf("v%d: goes on with %+v after %+v, want the next epoch", v, next, p.Producer)
				}
				if got := b.wantEnd("did not get the answer", p, v, commit, 0); got != next {
					t.Errorf("v%d: %+v to the one who asks again, want %+v", v, got, next)
				}
				b.wantEnd("thinks better of it", p, v, !commit, 48)
				if v >= 5 {
					p.Producer = next
					b.wantEnd("commits nothing", p, v, true, 48)
				}
			}
			if o := b.offsets("orders", 0); o.End != 2 || o.LastStable != 2 {
				t.Errorf("v%d: %+v, want two markers", v, o)
			}
		})
	}
}

// TestTXN06EmptyAbort has the wire's side of it.
func TestTXN06EmptyAbort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		next := b.wantEnd("aborts nothing", p, 5, false, 0)
		if next != (txn.Producer{ID: p.ID, Epoch: p.Epoch + 1}) {
			t.Fatalf("goes on with %+v after %+v, want the next epoch", next, p.Producer)
		}
		synctest.Wait()
		p.Producer = next
		p.mustProduce("orders", 0, "v")
		b.wantEnd("commits", p, 5, true, 0)
	})
}

func TestEndTxnIsAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, withAuthorizer()))
		b.r.principal = "User:low"
		b.topic("orders", 1)
		for v := range int16(6) {
			p := b.txnProducer("tx")
			p.add("orders", 0)
			b.wantEnd("nothing", p, v, true, 53)
			a := b.allow(opDescribe, resourceTransactionalID, "tx")
			b.wantEnd("DESCRIBE", p, v, true, 53)
			write := b.allow(opWrite, resourceTransactionalID, "tx")
			b.wantEnd("WRITE", p, v, true, 0)
			synctest.Wait()
			b.revoke(a, write)
		}
	})
}
