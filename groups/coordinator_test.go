package groups

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// start is when the tests' clock stands.
var start = time.UnixMilli(1700000000000)

func now() time.Time { return start }

// open opens a store on fsys with a coordinator that has loaded what is there.
func open(t testing.TB, fsys vfs.FS) (*storage.Store, *Coordinator) {
	t.Helper()
	return openAt(t, fsys, now, Config{})
}

// openAt is open with a clock and a configuration.
func openAt(t testing.TB, fsys vfs.FS, now func() time.Time, config Config) (*storage.Store, *Coordinator) {
	t.Helper()
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := New(Options{Store: s, Now: now, OffsetsPartitions: 3, Config: config})
	for _, w := range c.all() {
		w.load()
	}
	return s, c
}

func topic(t testing.TB, s *storage.Store, name string) *storage.Topic {
	t.Helper()
	made, err := s.CreateTopic(storage.TopicSpec{Name: name, Partitions: 2})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func commit(t *testing.T, c *Coordinator, group string, to *storage.Topic, partition int32, offset int64) {
	t.Helper()
	errs, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: group, Generation: -1, Commits: []Commit{{Topic: to.Name(), TopicID: to.ID(), Partition: partition, Offset: offset, LeaderEpoch: -1}}, Retention: -1})
	if err != nil || errs[0] != nil {
		t.Fatalf("commit %s %s-%d %d: %v %v", group, to.Name(), partition, offset, errs, err)
	}
}

// wantOffset fails unless the group has committed offset; -1 is none.
func wantOffset(t *testing.T, c *Coordinator, group, topic string, partition int32, offset int64) {
	t.Helper()
	got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: group, MemberEpoch: -1, Queries: []OffsetQuery{{Topic: topic, Partition: partition}}})
	if err != nil {
		t.Fatalf("fetch %s %s-%d: %v", group, topic, partition, err)
	}
	if !got[0].Found {
		got[0].Offset.Offset = -1
	}
	if got[0].Offset.Offset != offset {
		t.Errorf("%s %s-%d: got %d, want %d", group, topic, partition, got[0].Offset.Offset, offset)
	}
}

func TestCommittedOffsetsSurviveARestart(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s, c := open(t, fsys)
	orders := topic(t, s, "orders")
	commit(t, c, "kitchen", orders, 0, 3)
	commit(t, c, "kitchen", orders, 0, 7)
	commit(t, c, "kitchen", orders, 1, 5)
	commit(t, c, "courier", orders, 0, 4)

	for name, after := range map[string]vfs.FS{"power loss": fsys.CrashClone(1, 0), "kill": fsys.KillClone()} {
		t.Run(name, func(t *testing.T) {
			_, c := open(t, after)
			wantOffset(t, c, "kitchen", "orders", 0, 7)
			wantOffset(t, c, "kitchen", "orders", 1, 5)
			wantOffset(t, c, "courier", "orders", 0, 4)
			wantOffset(t, c, "ghost", "orders", 0, -1)
			all, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: "kitchen", MemberEpoch: -1})
			if err != nil || len(all) != 2 || all[0].Offset.Offset != 7 || all[1].Offset.Offset != 5 {
				t.Errorf("all of kitchen: got %+v, error %v; want 7 and 5", all, err)
			}
		})
	}
}

func TestCallsAreRefusedUntilTheLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
		s, c := open(t, fsys)
		commit(t, c, "g", topic(t, s, "orders"), 0, 1)

		again, err := storage.Open("data", storage.Options{FS: fsys.KillClone(), Now: now})
		if err != nil {
			t.Fatal(err)
		}
		defer again.Close()
		c = New(Options{Store: again, Now: now})
		if _, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: "g", MemberEpoch: -1}); !errors.Is(err, ErrLoading) {
			t.Errorf("fetch before the load: got %v, want ErrLoading", err)
		}
		if _, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Commits: []Commit{{Topic: "orders"}}, Retention: -1}); !errors.Is(err, ErrLoading) {
			t.Errorf("commit before the load: got %v, want ErrLoading", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		wantOffset(t, c, "g", "orders", 0, 1)
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestPartitionThatCannotBeReadHasNoCoordinator(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s, c := open(t, fsys)
	commit(t, c, "g", topic(t, s, "orders"), 0, 1)
	broken := errors.New("no medium")
	_, c = open(t, vfs.Inject(fsys.KillClone(), func(op vfs.Op) error {
		if strings.Contains(op.Name, OffsetsTopic) && strings.HasSuffix(op.Name, ".log") {
			return broken
		}
		return nil
	}))
	if _, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: "g", MemberEpoch: -1}); !errors.Is(err, ErrNotCoordinator) {
		t.Errorf("fetch: got %v, want ErrNotCoordinator", err)
	}
	if _, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Commits: []Commit{{Topic: "orders"}}, Retention: -1}); !errors.Is(err, ErrNotCoordinator) {
		t.Errorf("commit: got %v, want ErrNotCoordinator", err)
	}
	if err := (producer{id: 9}).tryEnd(t.Context(), c, "g", true); !errors.Is(err, ErrNotCoordinator) {
		t.Errorf("end of a transaction: got %v, want ErrNotCoordinator", err)
	}
}

// A commit that no batch can hold must not be answered as if it could be tried again.
func TestCommitLargerThanABatchIsFinal(t *testing.T) {
	s, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	orders := topic(t, s, "orders")
	commits := make([]Commit, 300)
	for i := range commits {
		commits[i] = Commit{Topic: "orders", TopicID: orders.ID(), Partition: int32(i), Metadata: strings.Repeat("x", 4096)}
	}
	if _, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Commits: commits, Retention: -1}); !errors.Is(err, ErrCommitTooLarge) || errors.Is(err, ErrNotAvailable) {
		t.Errorf("got %v, want ErrCommitTooLarge", err)
	}
	wantOffset(t, c, "g", "orders", 0, -1)
}

func TestCommitThatIsNotDurableInTimeIsNotAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		var held atomic.Bool
		fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
			if op.Kind == vfs.OpSync && held.Load() {
				<-gate
			}
			return nil
		})
		s, c := open(t, fsys)
		orders := topic(t, s, "orders")
		commit(t, c, "g", orders, 0, 1)
		held.Store(true)
		began := time.Now()
		_, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Commits: []Commit{{Topic: "orders", TopicID: orders.ID(), Offset: 2}}, Retention: -1})
		if d := time.Since(began); !errors.Is(err, ErrNotAvailable) || d != 5*time.Second {
			t.Errorf("got %v after %v, want ErrNotAvailable after 5s", err, d)
		}
		wantOffset(t, c, "g", "orders", 0, 1)
		held.Store(false)
		close(gate)
		synctest.Wait()
		wantOffset(t, c, "g", "orders", 0, 2) // it was in time for the disk, after all
	})
}

func TestOversizedMetadataFailsItsPartitionAlone(t *testing.T) {
	s, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	orders := topic(t, s, "orders")
	errs, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Retention: -1, Commits: []Commit{
		{Topic: "orders", TopicID: orders.ID(), Partition: 0, Offset: 1, Metadata: strings.Repeat("x", 4097)},
		{Topic: "orders", TopicID: orders.ID(), Partition: 1, Offset: 2, Metadata: strings.Repeat("ö", 4096)},
	}})
	if err != nil || !errors.Is(errs[0], ErrMetadataTooLarge) || errs[1] != nil {
		t.Fatalf("got %v and %v, want the first alone refused", errs, err)
	}
	wantOffset(t, c, "g", "orders", 0, -1)
	wantOffset(t, c, "g", "orders", 1, 2)
}

// A member that has not heard of its epoch may not commit for what it got since; where the metadata is too long that is
// not asked.
func TestOversizedMetadataFailsBeforeTheMemberEpoch(t *testing.T) {
	clock := start
	s, c := openAt(t, vfs.NewMem(vfs.MemOptions{}), func() time.Time { return clock }, Config{})
	orders, other := topic(t, s, "orders"), topic(t, s, "other")
	beat := ConsumerHeartbeatRequest{Group: "g", MemberID: "m", RebalanceTimeoutMs: 60_000, Topics: []string{"orders"}, Owned: []TopicPartitions{}, OwnMemberID: true}
	joined, err := c.ConsumerGroupHeartbeat(t.Context(), &beat)
	if err != nil {
		t.Fatal(err)
	}
	clock = clock.Add(time.Minute) // a new assignment may be made
	beat.MemberEpoch, beat.Topics = joined.MemberEpoch, []string{"orders", "other"}
	beat.Owned = []TopicPartitions{{TopicID: orders.ID(), Partitions: []int32{0, 1}}}
	if h, err := c.ConsumerGroupHeartbeat(t.Context(), &beat); err != nil || h.MemberEpoch <= joined.MemberEpoch {
		t.Fatalf("got epoch %d, error %v; want a higher one than %d", h.MemberEpoch, err, joined.MemberEpoch)
	}
	old := CommitRequest{Group: "g", MemberID: "m", Generation: joined.MemberEpoch, Epochs: true, Retention: -1, Commits: []Commit{
		{Topic: "other", TopicID: other.ID(), Partition: 0, Offset: 1, Metadata: strings.Repeat("x", 4097)},
		{Topic: "orders", TopicID: orders.ID(), Partition: 1, Offset: 2},
	}}
	for name, commit := range map[string]func(CommitRequest) ([]error, error){
		"plain": func(r CommitRequest) ([]error, error) { return c.CommitOffsets(t.Context(), &r) },
		"in a transaction": func(r CommitRequest) ([]error, error) {
			return c.CommitTransactionalOffsets(t.Context(), &TransactionalCommitRequest{CommitRequest: r, TransactionalID: "t", ProducerID: 9})
		},
	} {
		if errs, err := commit(old); err != nil || !errors.Is(errs[0], ErrMetadataTooLarge) || errs[1] != nil {
			t.Errorf("%s: got %v and %v, want the first alone refused", name, errs, err)
		}
		short := old
		short.Commits = slices.Clone(old.Commits)
		short.Commits[0].Metadata = "x"
		if _, err := commit(short); !errors.Is(err, ErrStaleMemberEpoch) {
			t.Errorf("%s, with short metadata: got %v, want %v", name, err, ErrStaleMemberEpoch)
		}
	}
}

func TestDeletedTopicTakesItsOffsetsAlong(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s, c := open(t, fsys)
	orders, other := topic(t, s, "orders"), topic(t, s, "other")
	commit(t, c, "g", orders, 0, 7)
	commit(t, c, "g", other, 0, 8)
	if err := s.DeleteTopic(orders.ID()); err != nil {
		t.Fatal(err)
	}
	topic(t, s, "orders")
	wantOffset(t, c, "g", "orders", 0, -1)
	wantOffset(t, c, "g", "other", 0, 8)
	_, c = open(t, fsys.CrashClone(3, 0))
	wantOffset(t, c, "g", "orders", 0, -1)
	wantOffset(t, c, "g", "other", 0, 8)
}

func TestFailedCommitLeavesNoTrace(t *testing.T) {
	var failing bool
	broken := errors.New("no medium")
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		if failing && op.Kind == vfs.OpSync {
			return broken
		}
		return nil
	})
	s, c := open(t, fsys)
	orders := topic(t, s, "orders")
	commit(t, c, "g", orders, 0, 1)
	failing = true
	if _, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Commits: []Commit{{Topic: "orders", TopicID: orders.ID(), Offset: 2}}, Retention: -1}); !errors.Is(err, ErrNotCoordinator) {
		t.Fatalf("commit to a broken disk: got %v, want ErrNotCoordinator", err)
	}
	wantOffset(t, c, "g", "orders", 0, 1)
	failing = false
	commit(t, c, "g", orders, 0, 3)
	wantOffset(t, c, "g", "orders", 0, 3)
}

func TestExplicitRetentionIsKeptInTheRecord(t *testing.T) {
	s, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	orders := topic(t, s, "orders")
	if _, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Commits: []Commit{{Topic: "orders", TopicID: orders.ID(), Offset: 2}}, Retention: time.Minute}); err != nil {
		t.Fatal(err)
	}
	got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: "g", MemberEpoch: -1})
	if err != nil || got[0].Offset.ExpireMs != start.Add(time.Minute).UnixMilli() || got[0].Offset.CommitMs != start.UnixMilli() {
		t.Errorf("got %+v, error %v; want expiry a minute after %d", got, err, start.UnixMilli())
	}
}

func TestReplayReadsTransactionsAndSkipsWhatItCannotRead(t *testing.T) {
	_, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	offsets, err := c.EnsureTopic()
	if err != nil {
		t.Fatal(err)
	}
	log, _ := offsets.Partition(0)
	add := func(b record.Batch) {
		t.Helper()
		a, err := log.Append(b, storage.AppendOptions{Origin: storage.OriginCoordinator, Unverified: true})
		if err == nil {
			err = log.WaitDurable(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	offset := func(o int64) record.Record {
		return record.Record{
			Timestamp: start.UnixMilli(), Key: appendOffsetKey(nil, "g", offsetKey{"t", 0}),
			Value: appendOffsetValue(nil, &Offset{Offset: o, LeaderEpoch: -1, ExpireMs: -1}),
		}
	}
	batch := func(o record.BuilderOptions, records ...record.Record) record.Batch {
		b := record.NewBuilder(o)
		for _, r := range records {
			b.Append(r)
		}
		return b.Bytes()
	}
	transactional := record.BuilderOptions{HasProducer: true, ProducerID: 9, Transactional: true}
	add(batch(record.BuilderOptions{}, offset(1), record.Record{Key: []byte{0, 1, 0}, Value: []byte{1}}, record.Record{Key: []byte{0, 2, 0, 1, 'g'}}))
	add(batch(transactional, offset(5)))
	var skipped []int64
	sh := newShard(c.env)
	err = sh.replay(log, func(o int64, _ error) { skipped = append(skipped, o) })
	if err != nil || len(skipped) != 1 || skipped[0] != 1 {
		t.Fatalf("skipped %v, error %v; want offset 1 alone", skipped, err)
	}
	if o, unstable, ok := sh.entries["g"].lookup(offsetKey{"t", 0}, storage.TopicID{}); o.Offset != 1 || !unstable || !ok {
		t.Errorf("open transaction: got %d unstable %v, want 1, unstable", o.Offset, unstable)
	}
	add(record.EndTxnMarker(9, 0, record.Marker{Commit: true}, start.UnixMilli(), 0))
	sh = newShard(c.env)
	if err := sh.replay(log, func(int64, error) {}); err != nil {
		t.Fatal(err)
	}
	if o, unstable, _ := sh.entries["g"].lookup(offsetKey{"t", 0}, storage.TopicID{}); o.Offset != 5 || unstable {
		t.Errorf("committed: got %d unstable %v, want 5", o.Offset, unstable)
	}
}
