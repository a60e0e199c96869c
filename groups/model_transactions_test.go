package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing/synctest"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// The part of the model test whose clients commit in transactions: once one is
// committed, its offsets stay, and who takes a partition over waits for those that may
// yet change its offset.

// modelTransaction is one of a producer that has no other.
type modelTransaction struct {
	id        int64
	group     string
	partition int32
	offset    int64

	decided, commit bool
	answer          chan error // of the end that is under way; nil when none is
}

// verify is what the transaction coordinator says: one that is decided takes no more.
func (m *model) verify(_ context.Context, t TransactionalCommit, _ int32) error {
	for _, x := range m.transactions {
		if x.id == t.ProducerID && !x.decided {
			return nil
		}
	}
	return errNotVerified
}

// read lets a client learn where to begin in partitions. Where a transaction may change
// that it asks again later.
func (m *model) read(c *stormClient, partitions []int32) {
	r := &FetchRequest{Group: c.group, MemberEpoch: -1, Stable: true}
	for _, p := range partitions {
		c.unread[p], c.next[p] = true, 0
		r.Queries = append(r.Queries, OffsetQuery{Topic: "orders", Partition: p})
	}
	if len(partitions) == 0 {
		return
	}
	got, err := m.c.FetchOffsets(m.t.Context(), r)
	if err != nil {
		m.failf("fetch of %s: %v", c.group, err)
	}
	for _, f := range got {
		if c.unread[f.Partition] = f.Unstable; !f.Unstable && f.Found {
			c.next[f.Partition] = f.Offset.Offset
		}
	}
}

// commitSome commits for a partition that a client has, in a transaction or by plain.
func (m *model) commitSome(c *stormClient, p int32, plain func(*stormClient, int32)) {
	switch {
	case c.unread[p]:
		c.silent = true
		m.read(c, []int32{p})
	case m.rand.IntN(3) == 0:
		c.silent = true
		m.begin(c, p)
	default:
		plain(c, p)
	}
}

// begin commits an offset in a transaction, which is decided later.
func (m *model) begin(c *stormClient, p int32) {
	m.begun++
	x := &modelTransaction{id: m.begun, group: c.group, partition: p, offset: c.next[p] + 1 + m.rand.Int64N(5)}
	m.transactions = append(m.transactions, x)
	c.txn = x
	r := &TransactionalCommitRequest{
		CommitRequest: CommitRequest{Group: c.group, MemberID: c.id, InstanceID: c.instance, Generation: c.generation, Epochs: c.consumer,
			Commits: []Commit{{Topic: "orders", TopicID: m.topic.ID(), Partition: p, Offset: x.offset}}},
		TransactionalID: fmt.Sprint("t", x.id), ProducerID: x.id,
	}
	modelCall(m, c, func(k *Coordinator) ([]error, error) { return k.CommitTransactionalOffsets(m.t.Context(), r) }, func(errs []error, err error) {
		if err = errors.Join(append(errs, err)...); err == nil {
			m.note("%s would commit %d for %s-%d in transaction %d", c.name, x.offset, c.group, p, x.id)
			return
		}
		c.txn, x.decided = nil, true
		if c.consumer {
			m.failedConsumer(c, "commit", err)
		} else {
			m.failed(c, "commit", err)
		}
	})
}

// decide lets a client commit its transaction, or abort it.
func (m *model) decide(c *stormClient) {
	x := c.txn
	c.txn, x.decided, x.commit = nil, true, m.rand.IntN(3) > 0
	m.note("%s ends transaction %d, commit %v", c.name, x.id, x.commit)
	if x.commit {
		c.next[x.partition] = x.offset
	}
}

// drive does the transaction coordinator's work: aborts what nobody will end, and sends
// markers until they are answered.
func (m *model) drive() {
	for _, x := range m.transactions {
		if !x.decided && !slices.ContainsFunc(m.clients, func(c *stormClient) bool { return c.txn == x }) {
			m.note("transaction %d is aborted", x.id)
			x.decided = true
		}
		if x.decided && x.answer == nil {
			broker, answer := m.c, make(chan error, 1)
			x.answer = answer
			go func() {
				partition, err := broker.PartitionOf(x.group)
				if err == nil {
					err = broker.EndTransaction(m.t.Context(), partition, x.id, 0, record.Marker{Commit: x.commit}, false)
				}
				answer <- err
			}()
		}
	}
	synctest.Wait()
	m.transactions = slices.DeleteFunc(m.transactions, m.driven)
}

// driven looks for the answer to a transaction's end, and says whether there is one.
func (m *model) driven(x *modelTransaction) bool {
	if x.answer == nil {
		return false
	}
	select {
	case err := <-x.answer:
		x.answer = nil
		m.note("transaction %d of %s-%d, commit %v of %d, ended: %v", x.id, x.group, x.partition, x.commit, x.offset, err)
		switch {
		case errors.Is(err, ErrNotAvailable), errors.Is(err, ErrNotCoordinator), errors.Is(err, ErrLoading):
			return false
		case err != nil && !(errors.Is(err, storage.ErrUnknownTopic) && !x.commit):
			m.failf("end of transaction %d: unexpected %v", x.id, err)
		case x.commit:
			m.ended++
			m.committed[x.group][x.partition] = max(m.committed[x.group][x.partition], x.offset)
		}
		return true
	default:
		return false
	}
}

// checkTransactions fails when one is open, or an offset unstable, after everybody had time.
func (m *model) checkTransactions() {
	for _, x := range m.transactions {
		if x.decided {
			m.failf("transaction %d of %s-%d has not ended", x.id, x.group, x.partition)
		}
	}
	for group := range m.committed {
		r := &FetchRequest{Group: group, MemberEpoch: -1, Stable: true}
		for p := range int32(modelPartitions) {
			r.Queries = append(r.Queries, OffsetQuery{Topic: "orders", Partition: p})
		}
		got, err := m.c.FetchOffsets(m.t.Context(), r)
		if err != nil {
			m.failf("fetch of %s: %v", group, err)
		}
		for _, f := range got {
			open := slices.ContainsFunc(m.transactions, func(x *modelTransaction) bool { return x.group == group && x.partition == f.Partition })
			if f.Unstable && !open {
				m.failf("%s-%d is unstable without a transaction", group, f.Partition)
			}
		}
	}
}
