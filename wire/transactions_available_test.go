package wire

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// transactionRequests are requests that only the coordinator of a transactional id can answer.
func transactionRequests(id string) []kmsg.Request {
	add := kmsg.NewPtrAddPartitionsToTxnRequest()
	add.TransactionalID, add.Topics = id, []kmsg.AddPartitionsToTxnRequestTopic{{Topic: "orders", Partitions: []int32{0}}}
	for _, verify := range []bool{false, true} {
		add.Transactions = append(add.Transactions, kmsg.AddPartitionsToTxnRequestTransaction{
			TransactionalID: id, VerifyOnly: verify,
			Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "orders", Partitions: []int32{0}}},
		})
	}
	offsets := kmsg.NewPtrAddOffsetsToTxnRequest()
	offsets.TransactionalID, offsets.Group = id, "g"
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID = id
	describe := kmsg.NewPtrDescribeTransactionsRequest()
	describe.TransactionalIDs = []string{id}
	return []kmsg.Request{initRequest(0, &id), add, offsets, end, describe}
}

// wantAll asks all of them at all their versions. The lists of transactions and of coordinators have codes of their own.
func (b *broker) wantAll(t *testing.T, what string, code, listed, found int16) {
	t.Helper()
	list, find := kmsg.NewPtrListTransactionsRequest(), coordinatorOf(coordinatorOfTransaction, "tx")
	for _, req := range append(transactionRequests("tx"), list, find) {
		want := code
		switch req {
		case list:
			want = listed
		case find:
			want = found
		}
		a := apis.find(req.Key())
		for v := a.min; v <= a.max; v++ {
			if req == find && v == 0 {
				continue // cannot ask for it
			}
			req.SetVersion(v)
			codes := codesIn(t, asJSON(t, ask[kmsg.Response](b, req)))
			if want == 0 && len(codes) != 0 || want != 0 && !slices.Equal(codes, []int16{want}) {
				t.Errorf("%s, key %d v%d: codes %v, want %d", what, req.Key(), v, codes, want)
			}
		}
	}
}

// TestWhileTransactionsCannotBeHad asks before there is a __transaction_state, before it is read, and at a stop.
func TestWhileTransactionsCannotBeHad(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 1)
	for _, req := range transactionRequests("tx") {
		a := apis.find(req.Key())
		for v := a.min; v <= a.max; v++ {
			req.SetVersion(v)
			if codes := codesIn(t, asJSON(t, ask[kmsg.Response](b, req))); fmt.Sprint(codes) != "[16]" {
				t.Errorf("without __transaction_state, key %d v%d: codes %v, want 16", req.Key(), v, codes)
			}
		}
	}
	if _, err := b.s.txns.EnsureTopic(); err != nil {
		t.Fatal(err)
	}
	withGroups(b) // as after a start
	b.wantAll(t, "while it is loading", 14, 14, 0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.s.txns.Run(ended); err != nil {
		t.Fatal(err)
	}
	b.wantAll(t, "at a stop", 15, 15, 0) // whoever asks next learns it
}
