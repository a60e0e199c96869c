package wire

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// wantOffsetsAdded asks for a group's offsets to join a producer's transaction.
func (b *broker) wantOffsetsAdded(what string, p *txnProducer, version int16, group string, code int16) {
	b.t.Helper()
	req := kmsg.NewPtrAddOffsetsToTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch, req.Group = version, p.id, p.ID, p.Epoch, group
	if got := ask[*kmsg.AddOffsetsToTxnResponse](b, req).ErrorCode; got != code {
		b.t.Errorf("v%d, %s: error %d, want %d", version, what, got, code)
	}
}

func TestAddOffsetsToTxn(t *testing.T) {
	for v := range int16(5) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			fenced := int16(90)
			if v < 2 {
				fenced = 47
			}
			old := b.txnProducer("tx")
			p := b.txnProducer("tx")
			stranger := &txnProducer{id: "tx", Producer: txn.Producer{ID: p.ID + 1, Epoch: p.Epoch}}
			b.wantOffsetsAdded("fenced", old, v, "g", fenced)
			b.wantOffsetsAdded("unknown id", &txnProducer{id: "unknown"}, v, "g", 49)
			b.wantOffsetsAdded("another producer id", stranger, v, "g", 49)
			b.wantOffsetsAdded("empty id", &txnProducer{}, v, "g", 42)
			b.wantOffsetsAdded("a group that does not exist", p, v, "g", 0)
			b.wantOffsetsAdded("again", p, v, "g", 0)
			want := []txn.Partition{{Topic: "__consumer_offsets", Partition: 'g' % 50}}
			if got := p.partitions(); !slices.Equal(got, want) {
				t.Errorf("v%d: %v are in the transaction, want %v", v, got, want)
			}
			p.endV1(false)
			if got := p.partitions(); len(got) != 0 {
				t.Errorf("v%d: after the abort %v are in the transaction", v, got)
			}
		})
	}
}

func TestAddOffsetsToTxnIsAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, withAuthorizer()))
		b.r.principal = "User:low"
		p := b.txnProducer("tx")
		ask := func(what string, code int16) {
			t.Helper()
			for v := range int16(5) {
				b.wantOffsetsAdded(what, p, v, "g", code)
			}
		}
		ask("nothing", 53)
		group := b.allow(opRead, resourceGroup, "g")
		ask("READ of the group", 53)
		b.revoke(group)
		b.allow(opWrite, resourceTransactionalID, "tx")
		ask("WRITE of the id", 30)
		b.allow(opDescribe, resourceGroup, "g")
		ask("and DESCRIBE of the group", 30)
		b.allow(opRead, resourceGroup, "g")
		ask("and READ of it", 0)
	})
}
