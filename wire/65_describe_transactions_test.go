package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// describedTransactions asks for transactions and returns a line for each.
func (b *broker) describedTransactions(ids ...string) (lines []string) {
	b.t.Helper()
	req := kmsg.NewPtrDescribeTransactionsRequest()
	req.TransactionalIDs = ids
	for _, t := range ask[*kmsg.DescribeTransactionsResponse](b, req).TransactionStates {
		line := fmt.Sprintf("%s: %d", t.TransactionalID, t.ErrorCode)
		if t.ErrorCode == 0 || t.State != "" || t.ProducerID != 0 || t.TimeoutMillis != 0 || t.StartTimestamp != 0 {
			line += fmt.Sprintf(" %s %d.%d timeout %d start %d", t.State, t.ProducerID, t.ProducerEpoch, t.TimeoutMillis, t.StartTimestamp)
		}
		for _, topic := range t.Topics {
			line += fmt.Sprintf(" %s%v", topic.Topic, topic.Partitions)
		}
		lines = append(lines, line)
	}
	return lines
}

func (b *broker) wantDescribed(what string, ids []string, want ...string) {
	b.t.Helper()
	if got := b.describedTransactions(ids...); !slices.Equal(got, want) {
		b.t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDescribeTransactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		b.topic("orders", 3)
		b.topic("others", 1)
		p := b.txnProducer("tx")
		b.wantDescribed("one without a transaction, others", []string{"ghost", "tx", "", "tx"},
			"ghost: 105", fmt.Sprintf("tx: 0 Empty %d.0 timeout 60000 start -1", p.ID), ": 42", fmt.Sprintf("tx: 0 Empty %d.0 timeout 60000 start -1", p.ID))
		b.wantDescribed("none", nil)
		began := b.nowMs()
		p.add("others", 0)
		time.Sleep(time.Second)
		p.add("orders", 2, 0)
		b.wantDescribed("an open one", []string{"tx"}, fmt.Sprintf("tx: 0 Ongoing %d.0 timeout 60000 start %d orders[0 2] others[0]", p.ID, began))
		held := make(chan struct{})
		b.onSync("orders-2", func() error { <-held; return nil })
		p.endV1(true)
		if got := b.describedTransactions("tx"); len(got) != 1 || !strings.Contains(got[0], "PrepareCommit") || !strings.Contains(got[0], "orders[") {
			t.Errorf("one that ends: %v, want PrepareCommit and the partition without a marker", got)
		}
		close(held)
		synctest.Wait()
		b.wantDescribed("one that has ended", []string{"tx"}, fmt.Sprintf("tx: 0 CompleteCommit %d.0 timeout 60000 start %d", p.ID, began))
	})
}

func TestDescribeTransactionsIsAuthorized(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, withAuthorizer()))
		b.r.principal = "User:low"
		b.topic("seen", 1)
		b.topic("hidden", 1)
		p, began := b.txnProducer("tx"), b.nowMs()
		p.add("seen", 0)
		p.add("hidden", 0)
		b.wantDescribed("nothing", []string{"tx", "ghost", ""}, "tx: 53", "ghost: 53", ": 53")
		b.allow(opDescribe, resourceTransactionalID, "*")
		b.wantDescribed("DESCRIBE of all ids", []string{"tx", "ghost"}, fmt.Sprintf("tx: 0 Ongoing %d.0 timeout 60000 start %d", p.ID, began), "ghost: 105")
		b.allow(opDescribe, resourceTopic, "seen")
		b.wantDescribed("and of a topic", []string{"tx"}, fmt.Sprintf("tx: 0 Ongoing %d.0 timeout 60000 start %d seen[0]", p.ID, began))
	})
}

func TestDescribeTransactionsWithoutTheirTopic(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.wantDescribed("no __transaction_state", []string{"tx"}, "tx: 16")
}

func TestDescribeTransactionsRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := withTransactions(newRunningBroker(t, nil))
		p := b.txnProducer("tx")
		partitions := make([]int32, 20_000)
		for i := range partitions {
			partitions[i] = int32(i)
		}
		b.topic("orders", int32(len(partitions)))
		p.add("orders", partitions...)
		ids := slices.Repeat([]string{"tx"}, 1000)
		codes := map[int16]int{}
		req := kmsg.NewPtrDescribeTransactionsRequest()
		req.TransactionalIDs = ids
		for _, t := range ask[*kmsg.DescribeTransactionsResponse](b, req).TransactionStates {
			codes[t.ErrorCode]++
		}
		if codes[0] > 1+mostRepeated/80_000 || codes[0]+codes[42] != len(ids) {
			t.Errorf("codes %v, want no more than 4 MiB of answers, then 42", codes)
		}
	})
}
