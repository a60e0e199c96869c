package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

var errNotVerified = errors.New("not in the transaction")

// asker is a transaction coordinator that notes what it is asked.
type asker struct {
	asked  []string
	answer error
	during func() // what happens before the answer
}

func (a *asker) verify(_ context.Context, t TransactionalCommit, partition int32) error {
	a.asked = append(a.asked, fmt.Sprintf("%s %d/%d v2 %v in %d", t.TransactionalID, t.ProducerID, t.ProducerEpoch, t.V2, partition))
	if a.during != nil {
		a.during()
	}
	return a.answer
}

// want fails unless the coordinator was asked n times since the last call.
func (a *asker) want(t *testing.T, n int) {
	t.Helper()
	if len(a.asked) != n {
		t.Errorf("asked %q, want %d times", a.asked, n)
	}
	a.asked = nil
}

// withAsker opens a coordinator that verifies transactions.
func withAsker(t *testing.T) (*asker, *Coordinator, *storage.Topic) {
	s, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	a := &asker{}
	c.o.Verify = a.verify
	return a, c, topic(t, s, "orders")
}

func TestTransactionIsVerifiedWhenItReachesThePartition(t *testing.T) {
	a, c, orders := withAsker(t)
	partition, err := c.PartitionOf("g")
	if err != nil {
		t.Fatal(err)
	}
	p := producer{id: 9, epoch: 2}
	p.commit(t, c, "g", orders, 0, 1)
	if want := []string{fmt.Sprintf("t9 9/2 v2 false in %d", partition)}; !slices.Equal(a.asked, want) {
		t.Errorf("asked %q, want %q", a.asked, want)
	}
	a.want(t, 1)
	p.commit(t, c, "g", orders, 1, 1)
	a.want(t, 0) // the transaction is open here
	p.end(t, c, "g", true)
	p.commit(t, c, "g", orders, 0, 2)
	a.want(t, 1)

	r := p.request("g", orders, 0, 3)
	r.ProducerID, r.V2 = 10, true
	if _, err := c.CommitTransactionalOffsets(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if want := []string{fmt.Sprintf("t9 10/2 v2 true in %d", partition)}; !slices.Equal(a.asked, want) {
		t.Errorf("asked %q, want %q", a.asked, want)
	}
}

func TestRefusedTransactionStoresNothing(t *testing.T) {
	a, c, orders := withAsker(t)
	a.answer = errNotVerified
	p := producer{id: 9}
	if err := p.try(t.Context(), c, "g", orders, 0, 1); !errors.Is(err, errNotVerified) {
		t.Errorf("got %v, want %v", err, errNotVerified)
	}
	wantUnstable(t, c, "g", "orders", 0, false)
	if listed, err := c.List(nil, nil); err != nil || len(listed) != 0 {
		t.Errorf("got groups %v, error %v; want none", listed, err)
	}
	a.answer = nil
	p.commit(t, c, "g", orders, 0, 1)
	wantUnstable(t, c, "g", "orders", 0, true)
}

// A transaction that ends between the answer of the transaction coordinator and the write
// must not be opened again by it: nobody would end it.
func TestTransactionThatEndsMeanwhileIsNotOpenedAgain(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprint("v2 ", v2), func(t *testing.T) {
			a, c, orders := withAsker(t)
			p := producer{id: 9, epoch: 2}
			marker := producer{id: 9, epoch: 2}
			want := storage.ErrInvalidTxnState
			if v2 {
				marker.epoch, want = 3, storage.ErrInvalidProducerEpoch
			}
			a.during = func() {
				partition, _ := c.PartitionOf("g")
				if err := c.EndTransaction(t.Context(), partition, 9, marker.epoch, record.Marker{}, v2); err != nil {
					t.Fatal(err)
				}
			}
			r := p.request("g", orders, 0, 1)
			r.V2 = v2
			_, err := c.CommitTransactionalOffsets(t.Context(), r)
			if !errors.Is(err, want) || errors.Is(err, ErrNotCoordinator) {
				t.Errorf("got %v, want %v alone", err, want)
			}
			wantUnstable(t, c, "g", "orders", 0, false)
			a.during = nil
			marker.commit(t, c, "g", orders, 0, 2)
			wantUnstable(t, c, "g", "orders", 0, true)
		})
	}
}

// A commit that has to wait for its group is not written behind the end of its
// transaction either, though that was open when it came.
func TestCommitThatWaitsForItsGroupIsNotWrittenBehindTheMarker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		store, c := coordinator(t, d, Config{})
		a := &asker{}
		c.o.Verify = a.verify
		orders := topic(t, store, "orders")
		p := producer{id: 9}
		p.commit(t, c, "g", orders, 0, 1)
		a.want(t, 1)
		open := d.close()
		var s started
		s.run("raise", func() string { return outcome(raise(t.Context(), c, "g")) }) // the group is busy
		s.run("commit", func() string { return outcome("ok", p.try(t.Context(), c, "g", orders, 0, 2)) })
		s.run("end", func() string { return outcome("ok", p.tryEnd(t.Context(), c, "g", true)) })
		s.want(t)
		open()
		s.wg.Wait()
		for _, done := range s.done {
			if strings.HasPrefix(done, "commit=") && !strings.Contains(done, storage.ErrInvalidTxnState.Error()) {
				t.Errorf("got %s, want %v", done, storage.ErrInvalidTxnState)
			}
		}
		if len(s.done) != 3 {
			t.Errorf("got %q, want three answers", s.done)
		}
		a.want(t, 0)
		wantOffset(t, c, "g", "orders", 0, 1)
		wantUnstable(t, c, "g", "orders", 0, false)
	})
}

func TestVerificationThatIsTurnedOff(t *testing.T) {
	a, c, orders := withAsker(t)
	c.o.Unverified = func() bool { return true }
	p := producer{id: 9}
	p.commit(t, c, "g", orders, 0, 1)
	a.want(t, 0)
	// Who does not add partitions itself needs the transaction coordinator all the same.
	r := producer{id: 10}.request("g", orders, 0, 2)
	r.V2 = true
	if _, err := c.CommitTransactionalOffsets(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	a.want(t, 1)
	for _, nobody := range []producer{{id: -1}, {id: 12, epoch: -1}} {
		if err := nobody.try(t.Context(), c, "g", orders, 0, 1); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("producer %+v: got %v, want %v", nobody, err, ErrInvalidRequest)
		}
	}
	a.answer = errNotVerified
	r.ProducerID = 11
	if _, err := c.CommitTransactionalOffsets(t.Context(), r); !errors.Is(err, errNotVerified) {
		t.Errorf("got %v, want %v", err, errNotVerified)
	}
}

// What is looked at first decides which error a commit with several faults gets.
func TestChecksOfATransactionalCommitComeInKafkasOrder(t *testing.T) {
	a, c, orders := withAsker(t)
	fenced := producer{id: 9, epoch: 5}
	fenced.commit(t, c, "g", orders, 0, 1)
	fenced.end(t, c, "g", true)
	a.want(t, 1)
	for _, x := range []struct {
		name   string
		change func(*TransactionalCommitRequest)
		answer error
		want   error
		asked  int
	}{
		{"empty group id", func(r *TransactionalCommitRequest) { r.Group, r.ProducerEpoch = "", 4 }, errNotVerified, ErrInvalidGroupID, 0},
		{"group id too long", func(r *TransactionalCommitRequest) { r.Group = strings.Repeat("x", 1<<15) }, errNotVerified, ErrInvalidGroupID, 0},
		{"fenced producer", func(r *TransactionalCommitRequest) { r.ProducerEpoch, r.Generation = 4, 3 }, errNotVerified, storage.ErrInvalidProducerEpoch, 0},
		{"not in the transaction", func(r *TransactionalCommitRequest) { r.Generation, r.Group = 3, "g" }, errNotVerified, errNotVerified, 1},
		{"TXN-11 generation of a group without members", func(r *TransactionalCommitRequest) { r.Generation, r.MemberID = 3, "m" }, nil, ErrUnknownMemberID, 1},
		{"generation of a group that is not there", func(r *TransactionalCommitRequest) { r.Group, r.Generation = groupLike("g"), 3 }, nil, ErrIllegalGeneration, 1},
		{"that, when the client knows the error", func(r *TransactionalCommitRequest) { r.Group, r.Generation, r.Epochs = groupLike("g"), 3, true }, nil, ErrGroupIDNotFound, 1},
		{"metadata", func(r *TransactionalCommitRequest) { r.Commits[0].Metadata = strings.Repeat("x", 4097) }, nil, ErrMetadataTooLarge, 1},
		{"nothing", func(r *TransactionalCommitRequest) { r.Commits = nil }, nil, nil, 1},
	} {
		a.answer = x.answer
		r := fenced.request("g", orders, 0, 2)
		x.change(r)
		errs, err := c.CommitTransactionalOffsets(t.Context(), r)
		if err = errors.Join(append(errs, err)...); !errors.Is(err, x.want) {
			t.Errorf("%s: got %v, want %v", x.name, err, x.want)
		}
		if len(a.asked) != x.asked {
			t.Errorf("%s: asked %q, want %d times", x.name, a.asked, x.asked)
		}
		a.asked = nil
	}
	wantUnstable(t, c, "g", "orders", 0, false)
}

// groupLike returns another group in the shard of g.
func groupLike(g string) string {
	for i := 0; ; i++ {
		if other := fmt.Sprint("like ", i); runtime.PartitionFor(other, 3) == runtime.PartitionFor(g, 3) {
			return other
		}
	}
}

// One commit that is refused for its metadata does not keep the others from the transaction.
func TestOversizedMetadataFailsItsPartitionAloneInATransaction(t *testing.T) {
	_, c, orders := withAsker(t)
	p := producer{id: 9}
	r := p.request("g", orders, 0, 2)
	r.Commits = append(r.Commits, r.Commits[0])
	r.Commits[0].Metadata, r.Commits[1].Partition = strings.Repeat("x", 4097), 1
	errs, err := c.CommitTransactionalOffsets(t.Context(), r)
	if err != nil || !errors.Is(errs[0], ErrMetadataTooLarge) || errs[1] != nil {
		t.Fatalf("got %v and %v, want the first alone refused", errs, err)
	}
	p.end(t, c, "g", true)
	wantOffset(t, c, "g", "orders", 0, -1)
	wantOffset(t, c, "g", "orders", 1, 2)
}
