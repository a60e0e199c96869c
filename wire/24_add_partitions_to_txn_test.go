package wire

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// addRequest makes an AddPartitionsToTxn request of a client; partition i of a topic is partition number i of the list.
func (p *txnProducer) addRequest(version int16, topics map[string][]int32) *kmsg.AddPartitionsToTxnRequest {
	req := kmsg.NewPtrAddPartitionsToTxnRequest()
	req.Version, req.TransactionalID, req.ProducerID, req.ProducerEpoch = version, p.id, p.ID, p.Epoch
	for _, name := range sortedNames(topics) {
		req.Topics = append(req.Topics, kmsg.AddPartitionsToTxnRequestTopic{Topic: name, Partitions: topics[name]})
	}
	return req
}

func sortedNames[V any](m map[string]V) (names []string) {
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// addCodes sends a client's request and returns "topic-partition code" for each.
func (b *broker) addCodes(req *kmsg.AddPartitionsToTxnRequest) (codes []string) {
	b.t.Helper()
	for _, topic := range ask[*kmsg.AddPartitionsToTxnResponse](b, req).Topics {
		for _, p := range topic.Partitions {
			codes = append(codes, fmt.Sprintf("%s-%d %d", topic.Topic, p.Partition, p.ErrorCode))
		}
	}
	return codes
}

func (b *broker) wantAdded(what string, req *kmsg.AddPartitionsToTxnRequest, want ...string) {
	b.t.Helper()
	if got := b.addCodes(req); !slices.Equal(got, want) {
		b.t.Errorf("v%d, %s: %v, want %v", req.Version, what, got, want)
	}
}

// TestTXN10AddPartitionsIsAllOrNothing also finds what is refused for another reason.
func TestTXN10AddPartitionsIsAllOrNothing(t *testing.T) {
	for v := range int16(4) {
		t.Run(fmt.Sprintf("TXN-10/v%d", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := withTransactions(newRunningBroker(t, nil))
				b.topic("good", 2)
				p := b.txnProducer("tx")
				b.wantAdded("a ghost", p.addRequest(v, map[string][]int32{"ghost": {0}, "good": {0}}), "ghost-0 3", "good-0 55")
				b.wantAdded("no such partition", p.addRequest(v, map[string][]int32{"good": {0, 2, -1}}), "good-0 55", "good-2 3", "good--1 3")
				if got := p.partitions(); len(got) != 0 {
					t.Errorf("v%d: %v are in the transaction, want none", v, got)
				}
			})
		})
	}
}

func TestAddPartitionsToTxnOfClients(t *testing.T) {
	for v := range int16(4) {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("orders", 3)
			b.topic("other", 1)
			fenced := int16(90)
			if v < 2 {
				fenced = 47
			}
			old, unknown, empty := b.txnProducer("tx"), &txnProducer{id: "unknown", Producer: txn.Producer{ID: 7}}, &txnProducer{}
			p := b.txnProducer("tx")
			stranger := &txnProducer{id: "tx", Producer: txn.Producer{ID: p.ID + 1, Epoch: p.Epoch}}
			one := map[string][]int32{"orders": {0}}
			for _, c := range []struct {
				what string
				p    *txnProducer
				code int16
			}{
				{"fenced", old, fenced}, {"unknown id", unknown, 49}, {"another producer id", stranger, 49}, {"empty id", empty, 42},
			} {
				b.wantAdded(c.what, c.p.addRequest(v, one), fmt.Sprintf("orders-0 %d", c.code))
			}
			b.wantAdded("first", p.addRequest(v, map[string][]int32{"orders": {2, 0}, "other": {0}}), "orders-2 0", "orders-0 0", "other-0 0")
			b.wantAdded("again", p.addRequest(v, map[string][]int32{"orders": {0, 0}}), "orders-0 0", "orders-0 0")
			b.wantAdded("more", p.addRequest(v, map[string][]int32{"orders": {1}}), "orders-1 0")
			b.wantAdded("none", p.addRequest(v, nil))
			want := []txn.Partition{{Topic: "orders"}, {Topic: "orders", Partition: 1}, {Topic: "orders", Partition: 2}, {Topic: "other"}}
			if got := p.partitions(); !slices.Equal(got, want) {
				t.Errorf("v%d: %v are in the transaction, want %v", v, got, want)
			}
		})
	}
}

// TestTopicsWithoutPartitionsOfATransaction shows when there is an answer for them.
func TestTopicsWithoutPartitionsOfATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		for v := range int16(6) {
			for _, c := range []struct {
				topic  string
				verify bool
				want   string
			}{{"orders", false, "[none orders]"}, {"orders", true, "[orders]"}, {"ghost", false, "[ghost]"}} {
				if c.verify && v < 4 {
					continue
				}
				req := p.addRequest(v, map[string][]int32{"none": nil, c.topic: {0}})
				req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{TransactionalID: p.id, ProducerID: p.ID, ProducerEpoch: p.Epoch, VerifyOnly: c.verify}}
				for _, topic := range req.Topics {
					req.Transactions[0].Topics = append(req.Transactions[0].Topics, kmsg.AddPartitionsToTxnRequestTransactionTopic(topic))
				}
				resp := ask[*kmsg.AddPartitionsToTxnResponse](b, req)
				var got []string
				for _, topic := range resp.Topics {
					got = append(got, topic.Topic)
				}
				for _, one := range resp.Transactions {
					for _, topic := range one.Topics {
						got = append(got, topic.Topic)
					}
				}
				slices.Sort(got)
				if fmt.Sprint(got) != c.want {
					t.Errorf("v%d, %s, verify only %v: answers for %v, want %s", v, c.topic, c.verify, got, c.want)
				}
			}
		}
	})
}

// TestTransactionWhoseMarkersAreNotWritten asks for what has to wait until they are.
func TestTransactionWhoseMarkersAreNotWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 1)
		p := b.txnProducer("tx")
		p.add("orders", 0)
		held := make(chan struct{})
		b.onSync("orders-0", func() error { <-held; return nil })
		p.endV1(true)
		for v := range int16(4) {
			b.wantAdded("in PrepareCommit", p.addRequest(v, map[string][]int32{"orders": {0}}), "orders-0 51")
		}
		for v := range int16(6) {
			b.wantInit("in PrepareCommit", initRequest(v, &p.id), 51)
		}
		b.wantEnd("commits again", p, 4, true, 51)
		b.wantEnd("aborts", p, 4, false, 51) // Kafka: the next state is pending, which comes first
		close(held)
		synctest.Wait()
		b.wantAdded("after the marker", p.addRequest(3, map[string][]int32{"orders": {0}}), "orders-0 0")
	})
}

func TestAddPartitionsToTxnOfBrokers(t *testing.T) {
	for _, v := range []int16{4, 5} {
		synctest.Test(t, func(t *testing.T) {
			b := withTransactions(newRunningBroker(t, nil))
			b.topic("orders", 2)
			old, other := b.txnProducer("tx"), b.txnProducer("other")
			p := b.txnProducer("tx")
			p.add("orders", 0)
			one := func(p *txnProducer, verify bool, partitions ...int32) kmsg.AddPartitionsToTxnRequestTransaction {
				return kmsg.AddPartitionsToTxnRequestTransaction{
					TransactionalID: p.id, ProducerID: p.ID, ProducerEpoch: p.Epoch, VerifyOnly: verify,
					Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "orders", Partitions: partitions}},
				}
			}
			unknown := &txnProducer{id: "unknown"}
			req := kmsg.NewPtrAddPartitionsToTxnRequest()
			req.Version = v
			for _, c := range []struct {
				what string
				t    kmsg.AddPartitionsToTxnRequestTransaction
				want []int16
			}{
				{"one of two is in it", one(p, true, 1, 0), []int16{120, 0}},
				{"none is", one(other, true, 0), []int16{120}},
				{"verify, fenced", one(old, true, 0, 1), []int16{90, 90}},
				{"verify, unknown", one(unknown, true, 0), []int16{49}},
				{"verify what does not exist", one(p, true, 0, 2), []int16{55, 3}},
				{"add, fenced", one(old, false, 1), []int16{90}},
				{"add, unknown", one(unknown, false, 1), []int16{49}},
				{"add what does not exist", one(p, false, 1, 2), []int16{55, 3}},
				{"add", one(p, false, 1), []int16{0}},
				{"all are in it", one(p, true, 1, 0), []int16{0, 0}},
			} {
				req.Transactions = append(req.Transactions, c.t)
				alone := *req
				alone.Transactions = req.Transactions[len(req.Transactions)-1:]
				if c.what == "add" { // below, after what was asked before it
					continue
				}
				if c.what == "all are in it" {
					alone.Transactions = req.Transactions[len(req.Transactions)-2:]
				}
				resp := ask[*kmsg.AddPartitionsToTxnResponse](b, &alone)
				last := resp.Transactions[len(resp.Transactions)-1]
				var codes []int16
				for _, p := range last.Topics[0].Partitions {
					codes = append(codes, p.ErrorCode)
				}
				if resp.ErrorCode != 0 || last.TransactionalID != c.t.TransactionalID || !slices.Equal(codes, c.want) {
					t.Errorf("v%d, %s: error %d, %s, codes %v; want 0, %s, %v", v, c.what, resp.ErrorCode, last.TransactionalID, codes, c.t.TransactionalID, c.want)
				}
			}
			if resp := ask[*kmsg.AddPartitionsToTxnResponse](b, req); len(resp.Transactions) != len(req.Transactions) {
				t.Errorf("v%d: %d answers to %d transactions", v, len(resp.Transactions), len(req.Transactions))
			}
			req.Transactions = nil
			if resp := ask[*kmsg.AddPartitionsToTxnResponse](b, req); resp.ErrorCode != 0 || len(resp.Transactions) != 0 {
				t.Errorf("v%d: %+v to no transactions", v, resp)
			}
		})
	}
}

// TestClientsAddNoInternalTopics asks as clients for partitions that only coordinators write to.
func TestClientsAddNoInternalTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("t", 1)
		if _, err := b.s.groups.EnsureTopic(); err != nil {
			t.Fatal(err)
		}
		p := b.txnProducer("tx")
		asked := map[string][]int32{"__consumer_offsets": {0}, "__share_group_state": {0}, "__transaction_state": {0}, "t": {0}}
		for v := range int16(4) {
			b.wantAdded("internal topics", p.addRequest(v, asked), "__consumer_offsets-0 29", "__share_group_state-0 29", "__transaction_state-0 29", "t-0 55")
		}
		if got := p.partitions(); len(got) != 0 {
			t.Errorf("%v are in the transaction, want none", got)
		}
	})
}

// TestAddPartitionsToTxnIsAuthorized asks as one who may do a part of it.
func TestAddPartitionsToTxnIsAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRunningBroker(t, withAuthorizer())
		withTransactions(b)
		b.r.principal = "User:low"
		b.topic("mine", 1)
		b.topic("theirs", 1)
		if _, err := b.s.groups.EnsureTopic(); err != nil {
			t.Fatal(err)
		}
		p := b.txnProducer("tx")
		all := map[string][]int32{"__consumer_offsets": {0}, "ghost": {0}, "mine": {0}, "theirs": {0}}
		for v := range int16(4) {
			b.wantAdded("without WRITE of the id", p.addRequest(v, all), "__consumer_offsets-0 53", "ghost-0 53", "mine-0 53", "theirs-0 53")
		}
		b.allow(opWrite, resourceTransactionalID, "t+")
		b.allow(opWrite, resourceTopic, "mine")
		for v := range int16(4) {
			b.wantAdded("without WRITE of a topic", p.addRequest(v, all), "__consumer_offsets-0 29", "ghost-0 29", "mine-0 55", "theirs-0 29")
		}
		if got := p.partitions(); len(got) != 0 {
			t.Errorf("%v are in the transaction, want none", got)
		}
		for v := range int16(4) {
			b.wantAdded("with WRITE", p.addRequest(v, map[string][]int32{"mine": {0}}), "mine-0 0")
		}
		for _, v := range []int16{4, 5} {
			req := kmsg.NewPtrAddPartitionsToTxnRequest()
			req.Version = v
			req.Transactions = []kmsg.AddPartitionsToTxnRequestTransaction{{
				TransactionalID: "tx", ProducerID: p.ID, ProducerEpoch: p.Epoch, VerifyOnly: true,
				Topics: []kmsg.AddPartitionsToTxnRequestTransactionTopic{{Topic: "theirs", Partitions: []int32{0}}},
			}}
			if resp := ask[*kmsg.AddPartitionsToTxnResponse](b, req); resp.ErrorCode != 31 || len(resp.Transactions) != 0 {
				t.Errorf("v%d without CLUSTER_ACTION: %+v, want 31 and nothing else", v, resp)
			}
			a := b.allow(opClusterAction, resourceCluster, clusterResource)
			if resp := ask[*kmsg.AddPartitionsToTxnResponse](b, req); resp.ErrorCode != 0 || resp.Transactions[0].Topics[0].Partitions[0].ErrorCode != 120 {
				t.Errorf("v%d with CLUSTER_ACTION: %+v, want 120 for the partition, of whatever topic", v, resp)
			}
			b.revoke(a)
		}
	})
}
