package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// producer commits offsets in transactions of version 1, for a group without members.
type producer struct {
	id    int64
	epoch int16
}

// request asks for one offset of a topic to be committed.
func (p producer) request(group string, to *storage.Topic, partition int32, offset int64) *TransactionalCommitRequest {
	return &TransactionalCommitRequest{
		CommitRequest: CommitRequest{Group: group, Generation: -1, Commits: []Commit{
			{Topic: to.Name(), TopicID: to.ID(), Partition: partition, Offset: offset, LeaderEpoch: -1},
		}},
		TransactionalID: fmt.Sprint("t", p.id), ProducerID: p.id, ProducerEpoch: p.epoch,
	}
}

func (p producer) try(ctx context.Context, c *Coordinator, group string, to *storage.Topic, partition int32, offset int64) error {
	errs, err := c.CommitTransactionalOffsets(ctx, p.request(group, to, partition, offset))
	return errors.Join(append(errs, err)...)
}

func (p producer) commit(t *testing.T, c *Coordinator, group string, to *storage.Topic, partition int32, offset int64) {
	t.Helper()
	if err := p.try(t.Context(), c, group, to, partition, offset); err != nil {
		t.Fatalf("producer %d commits %d for %s %s-%d: %v", p.id, offset, group, to.Name(), partition, err)
	}
}

// tryEnd ends the producer's transaction where a group's offsets are.
func (p producer) tryEnd(ctx context.Context, c *Coordinator, group string, commit bool) error {
	partition, err := c.PartitionOf(group)
	if err != nil {
		return err
	}
	return c.EndTransaction(ctx, partition, p.id, p.epoch, record.Marker{Commit: commit}, false)
}

func (p producer) end(t *testing.T, c *Coordinator, group string, commit bool) {
	t.Helper()
	if err := p.tryEnd(t.Context(), c, group, commit); err != nil {
		t.Fatalf("producer %d ends, commit %v: %v", p.id, commit, err)
	}
}

// wantUnstable fails unless a transaction would change the group's offset, or not.
func wantUnstable(t *testing.T, c *Coordinator, group, topic string, partition int32, want bool) {
	t.Helper()
	got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: group, MemberEpoch: -1, Stable: true, Queries: []OffsetQuery{{Topic: topic, Partition: partition}}})
	if err != nil || got[0].Unstable != want {
		t.Errorf("%s %s-%d: unstable %v, error %v; want %v", group, topic, partition, got[0].Unstable, err, want)
	}
}

func TestOffsetsOfATransactionCountOnceItCommits(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s, c := open(t, fsys)
	orders := topic(t, s, "orders")
	commit(t, c, "g", orders, 0, 1)
	p := producer{id: 9}
	for _, x := range []struct {
		name   string
		group  string
		commit bool
		before int64
		after  int64
	}{
		{"TXN-11 an abort leaves the old value", "g", false, 1, 1},
		{"TXN-11 a commit brings the new value", "g", true, 1, 5},
		{"TXN-11 an abort leaves nothing of a group that was not there", "new", false, -1, -1},
		{"TXN-11 a commit for a group that was not there", "other", true, -1, 5},
	} {
		t.Run(x.name, func(t *testing.T) {
			p.commit(t, c, x.group, orders, 0, 4)
			p.commit(t, c, x.group, orders, 0, 5)
			wantOffset(t, c, x.group, "orders", 0, x.before)
			wantUnstable(t, c, x.group, "orders", 0, true)
			wantUnstable(t, c, x.group, "orders", 1, false)
			_, again := open(t, fsys.CrashClone(1, 0))
			wantOffset(t, again, x.group, "orders", 0, x.before)
			wantUnstable(t, again, x.group, "orders", 0, true)

			p.end(t, c, x.group, x.commit)
			wantOffset(t, c, x.group, "orders", 0, x.after)
			wantUnstable(t, c, x.group, "orders", 0, false)
			p.end(t, c, x.group, !x.commit) // sent again, it finds nothing to end
			_, again = open(t, fsys.CrashClone(1, 0))
			wantOffset(t, again, x.group, "orders", 0, x.after)
			wantUnstable(t, again, x.group, "orders", 0, false)
		})
	}
	// An aborted transaction makes a simple group.
	for _, c := range []*Coordinator{c, second(open(t, fsys.CrashClone(1, 0)))} {
		listed, err := c.List(nil, nil)
		if err != nil || !slices.Contains(listed, Listed{ID: "new", State: "Empty", Kind: KindClassic}) {
			t.Errorf("got %v, error %v; want the group that an aborted transaction made", listed, err)
		}
	}
}

func second[A, B any](_ A, b B) B { return b }

// Of a plain commit and one in a transaction, that which is later in the log counts.
func TestTransactionsAndPlainCommitsCountInTheOrderOfTheLog(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s, c := open(t, fsys)
	orders := topic(t, s, "orders")
	p, q := producer{id: 9}, producer{id: 10}

	p.commit(t, c, "g", orders, 0, 30)
	commit(t, c, "g", orders, 0, 20)
	p.end(t, c, "g", true)

	commit(t, c, "g", orders, 1, 20)
	p.commit(t, c, "g", orders, 1, 30)
	q.commit(t, c, "g", orders, 1, 10)
	q.end(t, c, "g", true)
	wantUnstable(t, c, "g", "orders", 1, true)
	wantOffset(t, c, "g", "orders", 1, 10)
	p.end(t, c, "g", true)

	for _, c := range []*Coordinator{c, second(open(t, fsys.CrashClone(1, 0)))} {
		wantOffset(t, c, "g", "orders", 0, 20)
		wantOffset(t, c, "g", "orders", 1, 10)
		wantUnstable(t, c, "g", "orders", 0, false)
		wantUnstable(t, c, "g", "orders", 1, false)
	}
}

// What is written are Kafka's batches.
func TestTransactionalBatchesCarryTheProducer(t *testing.T) {
	s, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	p := producer{id: 77, epoch: 3}
	p.commit(t, c, "g", topic(t, s, "orders"), 0, 5)
	p.end(t, c, "g", true)
	w := c.ownerOf("g")
	var got []string
	var reader record.Reader
	for b, err := range runtime.Batches(w.log) {
		if err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprintf("producer %d/%d sequence %d transactional %v control %v", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Transactional(), b.Control())
		for r, err := range reader.Records(b) {
			if err != nil {
				t.Fatal(err)
			}
			if b.Control() {
				m, _, err := record.ParseEndTxnMarker(r)
				text += fmt.Sprintf(", commit %v by %d at %d, error %v", m.Commit, m.CoordinatorEpoch, r.Timestamp-start.UnixMilli(), err)
			}
		}
		got = append(got, text)
	}
	want := []string{
		"producer 77/3 sequence 0 transactional true control false",
		"producer 77/3 sequence -1 transactional true control true, commit true by 0 at 0, error <nil>",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// A removal takes along what an open transaction would set; the rest of it counts.
func TestRemovedOffsetsAreRemovedFromTransactions(t *testing.T) {
	for name, remove := range map[string]func(*testing.T, *storage.Store, *Coordinator) error{
		"offsets": func(t *testing.T, _ *storage.Store, c *Coordinator) error {
			_, err := c.DeleteOffsets(t.Context(), "g", []OffsetDelete{{Topic: "orders"}, {Topic: "orders", Partition: 1}})
			return err
		},
		"group": func(t *testing.T, _ *storage.Store, c *Coordinator) error { return c.DeleteGroup(t.Context(), "g") },
		"topic": func(t *testing.T, s *storage.Store, _ *Coordinator) error {
			orders, _ := s.Topic("orders")
			return s.DeleteTopic(orders.ID())
		},
	} {
		t.Run(name, func(t *testing.T) {
			fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
			s, c := open(t, fsys)
			orders, other := topic(t, s, "orders"), topic(t, s, "other")
			p := producer{id: 9}
			commit(t, c, "g", orders, 0, 1)
			p.commit(t, c, "g", orders, 0, 5)
			p.commit(t, c, "g", orders, 1, 6) // nothing is committed for this one
			if err := remove(t, s, c); err != nil {
				t.Fatal(err)
			}
			wantUnstable(t, c, "g", "orders", 0, false)
			p.commit(t, c, "g", other, 0, 7)
			p.end(t, c, "g", true)
			for _, c := range []*Coordinator{c, second(open(t, fsys.CrashClone(1, 0)))} {
				wantOffset(t, c, "g", "orders", 0, -1)
				wantOffset(t, c, "g", "orders", 1, -1)
				wantOffset(t, c, "g", "other", 0, 7)
				if w := c.ownerOf("g"); len(w.shard.transactions) != 0 {
					t.Errorf("got %d open transactions, want none", len(w.shard.transactions))
				}
			}
		})
	}
}

// What a transaction would set for a topic that is made anew stays; a replay goes by the
// same records.
func TestDeletedTopicLeavesTransactionsOfTheNextOne(t *testing.T) {
	s := newShard(nil)
	id, next := storage.TopicID{1}, storage.TopicID{2}
	old, anew := set("g", "t", 0, 5, 1), set("g", "t", 1, 6, 2)
	old.offset.TopicID, anew.offset.TopicID = id, next
	s.stage(9, old)
	s.stage(9, anew)
	if got := s.offsetsOf(s.entries["g"], "t", id); !slices.Equal(got, []offsetKey{{"t", 0}}) {
		t.Errorf("got %v, want t-0 alone", got)
	}
	if got := s.ofTopic("t", id); !slices.Equal(got, []string{"g"}) {
		t.Errorf("got groups %q, want g", got)
	}
	if got := s.ofTopic("u", id); len(got) != 0 {
		t.Errorf("got groups %q, want none", got)
	}
}

// A transaction keeps its group and the offset that it would change from expiring.
func TestOpenTransactionKeepsAnOffsetFromExpiring(t *testing.T) {
	tr := newTravel(t, vfs.NewMem(vfs.MemOptions{}))
	orders, _ := tr.c.o.Store.Topic("orders")
	p := producer{id: 9}
	tr.commit("kitchen", "orders", 3)
	tr.commit("kitchen", "other", 4)
	p.commit(t, tr.c, "kitchen", orders, 0, 5)
	p.commit(t, tr.c, "courier", orders, 0, 6)
	tr.to(2 * week)
	tr.wantGroups("courier", "kitchen")
	wantOffset(t, tr.c, "kitchen", "orders", 0, 3)
	wantOffset(t, tr.c, "kitchen", "other", 0, -1)
	p.end(t, tr.c, "kitchen", false)
	p.end(t, tr.c, "courier", false)
	tr.wantGroups("courier", "kitchen")
	tr.to(3 * week)
	tr.wantGroups()
}

func TestMarkerGoesBehindWhatIsOnItsWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		store, c := coordinator(t, d, Config{})
		orders := topic(t, store, "orders")
		commit(t, c, "g", orders, 0, 1)
		p := producer{id: 9}
		open := d.close()
		var s started
		s.run("commit", func() string { return outcome("ok", p.try(t.Context(), c, "g", orders, 0, 5)) })
		s.run("end", func() string { return outcome("ok", p.tryEnd(t.Context(), c, "g", true)) })
		s.run("next", func() string { return outcome("ok", p.try(t.Context(), c, "g", orders, 0, 6)) })
		s.want(t)
		wantOffset(t, c, "g", "orders", 0, 1)
		open()
		s.wg.Wait()
		slices.Sort(s.done)
		s.want(t, "commit=ok", "end=ok", "next=ok")
		wantOffset(t, c, "g", "orders", 0, 5)
		wantUnstable(t, c, "g", "orders", 0, true) // by the next
	})
}

// Who wants stable offsets waits for the end of a transaction that is on its way to the
// disk, and gets what it brings.
func TestStableFetchWaitsForAMarkerOnItsWay(t *testing.T) {
	for _, x := range []struct {
		name       string
		commit     bool
		first, all string
	}{
		{"commit", true, "5", "5 7"},
		{"abort", false, "1", "1"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newDisk()
				store, c := coordinator(t, d, Config{})
				orders := topic(t, store, "orders")
				fetch := func(group string, stable bool, queries ...OffsetQuery) func() string {
					return func() string {
						got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: group, MemberEpoch: -1, Stable: stable, Queries: queries})
						var out []string
						for _, f := range got {
							if f.Unstable {
								out = append(out, "unstable")
							} else {
								out = append(out, fmt.Sprint(f.Offset.Offset))
							}
						}
						return outcome(strings.Join(out, " "), err)
					}
				}
				commit(t, c, "g", orders, 0, 1)
				p, q := producer{id: 9}, producer{id: 10}
				p.commit(t, c, "g", orders, 0, 5)
				q.commit(t, c, "g", orders, 2, 8) // not about to end
				open := d.close()
				var s started
				s.run("commit", func() string { return outcome("ok", p.try(t.Context(), c, "g", orders, 1, 7)) })
				s.run("end", func() string { return outcome("ok", p.tryEnd(t.Context(), c, "g", x.commit)) })
				s.run("one", fetch("g", true, OffsetQuery{Topic: "orders"}))
				s.run("open", fetch("g", true, OffsetQuery{Topic: "orders", Partition: 2}))
				s.run("all", fetch("g", true))
				s.want(t)
				s.run("not stable", fetch("g", false, OffsetQuery{Topic: "orders"}))
				s.run("nothing unstable", fetch("h", true))
				s.want(t, "not stable=unstable", "nothing unstable=")
				open()
				s.wg.Wait()
				slices.Sort(s.done)
				s.want(t, "all="+x.all, "commit=ok", "end=ok", "not stable=unstable", "nothing unstable=", "one="+x.first, "open=unstable")
			})
		})
	}
}

// A stable fetch that waits for a marker that is lost finds the transaction open.
func TestStableFetchBehindALostMarkerIsUnstable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var broken atomic.Bool
		store, c := coordinator(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{Crashable: true}), func(op vfs.Op) error {
			if broken.Load() && op.Kind == vfs.OpSync && strings.Contains(op.Name, OffsetsTopic) {
				<-gate
				return errMedium
			}
			return nil
		}), Config{})
		orders := topic(t, store, "orders")
		p := producer{id: 9}
		p.commit(t, c, "g", orders, 0, 5)
		broken.Store(true)
		var s started
		s.run("end", func() string { return outcome("ok", p.tryEnd(t.Context(), c, "g", true)) })
		s.run("fetch", func() string {
			got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: "g", MemberEpoch: -1, Stable: true, Queries: []OffsetQuery{{Topic: "orders"}}})
			return outcome(fmt.Sprint(got[0].Unstable), err)
		})
		s.want(t)
		close(gate)
		s.wg.Wait()
		slices.Sort(s.done)
		s.want(t, "end="+ErrNotCoordinator.Error(), "fetch=true")
		broken.Store(false)
		p.end(t, c, "g", true)
		wantUnstable(t, c, "g", "orders", 0, false)
		wantOffset(t, c, "g", "orders", 0, 5)
	})
}

func TestFailedMarkerLeavesTheTransactionOpen(t *testing.T) {
	for _, kind := range []vfs.OpKind{vfs.OpSync, vfs.OpWriteAt} {
		t.Run(kind.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var broken atomic.Bool
				mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
				store, c := coordinator(t, vfs.Inject(mem, func(op vfs.Op) error {
					if broken.Load() && op.Kind == kind && strings.Contains(op.Name, OffsetsTopic) {
						return errMedium
					}
					return nil
				}), Config{})
				orders := topic(t, store, "orders")
				p := producer{id: 9}
				p.commit(t, c, "g", orders, 0, 5)
				broken.Store(true)
				if got := outcome("ok", p.tryEnd(t.Context(), c, "g", true)); got != ErrNotCoordinator.Error() {
					t.Errorf("end: got %s, want %s", got, ErrNotCoordinator)
				}
				wantOffset(t, c, "g", "orders", 0, -1)
				if got := outcome("ok", p.try(t.Context(), c, "g", orders, 1, 6)); got != ErrNotCoordinator.Error() {
					t.Errorf("commit: got %s, want %s", got, ErrNotCoordinator)
				}
				broken.Store(false)
				for _, c := range []*Coordinator{c, second(open(t, mem.CrashClone(1, 0)))} {
					wantUnstable(t, c, "g", "orders", 0, true)
					wantUnstable(t, c, "g", "orders", 1, false)
					p.end(t, c, "g", true)
					wantOffset(t, c, "g", "orders", 0, 5)
					wantOffset(t, c, "g", "orders", 1, -1)
				}
			})
		})
	}
}

// Whoever waits for a marker may give up; it takes effect all the same.
func TestMarkerTakesEffectWithoutAnybodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		store, c := coordinator(t, d, Config{})
		orders := topic(t, store, "orders")
		p := producer{id: 9}
		p.commit(t, c, "g", orders, 0, 5)
		open := d.close()
		ctx, cancel := context.WithCancel(t.Context())
		var s started
		s.run("end", func() string { return outcome("ok", p.tryEnd(ctx, c, "g", true)) })
		cancel()
		s.wg.Wait()
		s.want(t, "end="+ErrNotAvailable.Error())
		wantOffset(t, c, "g", "orders", 0, -1)
		open()
		synctest.Wait()
		wantOffset(t, c, "g", "orders", 0, 5)
	})
}

func TestWhereTransactionsCannotEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
		store, c := open(t, fsys)
		end := func(c *Coordinator, partition int32, epoch int16, m record.Marker, v2 bool) error {
			return c.EndTransaction(t.Context(), partition, 9, epoch, m, v2)
		}
		if err := end(c, 0, 0, record.Marker{}, false); !errors.Is(err, storage.ErrUnknownTopic) {
			t.Errorf("there is no %s: got %v, want %v", OffsetsTopic, err, storage.ErrUnknownTopic)
		}
		partition, err := c.PartitionOf("g")
		if err != nil || partition != runtime.PartitionFor("g", 3) {
			t.Fatalf("got partition %d, error %v; want %d", partition, err, runtime.PartitionFor("g", 3))
		}
		if _, err := c.PartitionOf(strings.Repeat("x", 1<<15)); !errors.Is(err, ErrInvalidGroupID) {
			t.Errorf("a group id that no record has room for: got %v, want %v", err, ErrInvalidGroupID)
		}
		for _, unknown := range []int32{-1, 3} {
			if err := end(c, unknown, 0, record.Marker{}, false); !errors.Is(err, storage.ErrUnknownTopic) {
				t.Errorf("partition %d: got %v, want %v", unknown, err, storage.ErrUnknownTopic)
			}
		}
		p := producer{id: 9, epoch: 5}
		p.commit(t, c, "g", topic(t, store, "orders"), 0, 5)
		for _, x := range []struct {
			name  string
			epoch int16
			m     record.Marker
			v2    bool
			want  error
		}{
			{name: "epoch below", epoch: 4, m: record.Marker{CoordinatorEpoch: 2}, want: storage.ErrInvalidProducerEpoch},
			{name: "version 2 does not raise the epoch", epoch: 5, m: record.Marker{CoordinatorEpoch: 2}, v2: true, want: storage.ErrInvalidProducerEpoch},
			{name: "version 2", epoch: 6, m: record.Marker{CoordinatorEpoch: 2, Commit: true}, v2: true},
			{name: "version 2 again", epoch: 6, m: record.Marker{CoordinatorEpoch: 2}, v2: true},
			{name: "older coordinator", epoch: 7, m: record.Marker{CoordinatorEpoch: 1}, want: storage.ErrCoordinatorFenced},
		} {
			err := end(c, partition, x.epoch, x.m, x.v2)
			if !errors.Is(err, x.want) || errors.Is(err, ErrNotCoordinator) || errors.Is(err, ErrNotAvailable) {
				t.Errorf("%s: got %v, want %v alone", x.name, err, x.want)
			}
		}
		wantOffset(t, c, "g", "orders", 0, 5)

		again, err := storage.Open("data", storage.Options{FS: fsys.KillClone(), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		c = New(Options{Store: again, Now: now})
		if err := end(c, partition, 6, record.Marker{CoordinatorEpoch: 2}, true); !errors.Is(err, ErrLoading) {
			t.Errorf("before the load: got %v, want %v", err, ErrLoading)
		}
		ctx, stop := context.WithCancel(t.Context())
		stop()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := end(c, partition, 6, record.Marker{CoordinatorEpoch: 2}, true); !errors.Is(err, ErrNotAvailable) {
			t.Errorf("after the stop: got %v, want %v", err, ErrNotAvailable)
		}
	})
}
