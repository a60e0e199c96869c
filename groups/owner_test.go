package groups

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// started runs calls one after the other, each as far as it gets, and keeps what
// they come to in order.
type started struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	done []string
}

func (s *started) run(name string, f func() string) {
	s.wg.Go(func() {
		out := f()
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done = append(s.done, name+"="+out)
	})
	synctest.Wait()
}

func (s *started) want(t *testing.T, want ...string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := slices.Clone(s.done); !slices.Equal(got, want) {
		t.Errorf("answered so far: got %q, want %q", got, want)
	}
}

// sameShard returns names of groups that live in the shard of the first.
func sameShard(n int) []string {
	out := []string{"g0"}
	for i := 1; len(out) < n; i++ {
		if g := fmt.Sprint("g", i); runtime.PartitionFor(g, 3) == runtime.PartitionFor("g0", 3) {
			out = append(out, g)
		}
	}
	return out
}

func TestCallsOfABusyGroupWaitInOrderAndOthersGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, c := coordinator(t, d, Config{})
		if _, err := c.EnsureTopic(); err != nil {
			t.Fatal(err)
		}
		g := sameShard(2)
		var s started
		open := d.close()
		s.run("raise", func() string { return outcome(raise(t.Context(), c, g[0])) })
		s.run("peek", func() string { return outcome(peek(t.Context(), c, g[0])) })
		s.run("raise again", func() string { return outcome(raise(t.Context(), c, g[0])) })
		s.run("peek again", func() string { return outcome(peek(t.Context(), c, g[0])) })
		s.want(t)
		s.run("other", func() string { return outcome(peek(t.Context(), c, g[1])) })
		s.want(t, "other=-1")
		open()
		s.wg.Wait()
		got := s.done[1:]
		slices.Sort(got) // those that wait are woken in any order
		if want := []string{"peek again=2", "peek=1", "raise again=2", "raise=1"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// Steps of different groups of a shard are on their way to the disk together.
func TestGroupsShareASync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, c := coordinator(t, d, Config{})
		groups := sameShard(20)
		if _, err := raise(t.Context(), c, groups[0]); err != nil {
			t.Fatal(err)
		}
		open := d.close()
		var s started
		for _, g := range groups {
			s.run(g, func() string { return outcome(raise(t.Context(), c, g)) })
		}
		w := c.ownerOf(groups[0])
		w.mu.Lock()
		if got := w.inFlight.Len(); got != 20 {
			t.Errorf("steps on their way: got %d, want 20", got)
		}
		w.mu.Unlock()
		open()
		s.wg.Wait()
		if len(s.done) != 20 {
			t.Errorf("answers: got %d, want 20", len(s.done))
		}
	})
}

func TestStepIsReleasedWithoutAnybodyWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, c := coordinator(t, d, Config{})
		if _, err := c.EnsureTopic(); err != nil {
			t.Fatal(err)
		}
		open := d.close()
		ctx, cancel := context.WithCancel(t.Context())
		var s started
		s.run("raise", func() string { return outcome(raise(ctx, c, "g")) })
		cancel()
		s.wg.Wait()
		s.want(t, "raise="+ErrNotAvailable.Error())
		open()
		synctest.Wait()
		if got := outcome(peek(t.Context(), c, "g")); got != "1" {
			t.Errorf("after the sync: got %s, want 1", got)
		}
	})
}

func TestFailedStepChangesNothingAndSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, c := coordinator(t, d, Config{})
		if got := outcome(raise(t.Context(), c, "g")); got != "1" {
			t.Fatalf("got %s, want 1", got)
		}
		mend := d.breaks()
		if got := outcome(raise(t.Context(), c, "g")); got != ErrNotCoordinator.Error() {
			t.Errorf("a disk that fails: got %s, want %s", got, ErrNotCoordinator)
		}
		mend()
		if got := outcome(raiseBy(t.Context(), c, "g", 2<<20)); got != ErrCommitTooLarge.Error() {
			t.Errorf("a batch that is too large: got %s, want %s", got, ErrCommitTooLarge)
		}
		if got := outcome(peek(t.Context(), c, "g")); got != "1" {
			t.Errorf("value: got %s, want 1", got)
		}
		if got := outcome(raise(t.Context(), c, "g")); got != "2" {
			t.Errorf("after it: got %s, want 2", got)
		}
	})
}

func TestFailuresOfTheLogAreKafkas(t *testing.T) {
	w := &owner{log: &storage.Log{}}
	for _, c := range []struct{ err, want error }{
		{storage.ErrBatchTooLarge, ErrCommitTooLarge},
		{storage.ErrSegmentTooSmall, ErrCommitTooLarge},
		{storage.ErrLogDeleted, ErrNotAvailable},
		{context.DeadlineExceeded, ErrNotAvailable},
		{storage.ErrStorage, ErrNotCoordinator},
		{storage.ErrClosed, ErrNotCoordinator},
	} {
		got := w.failure(c.err)
		for _, kind := range []error{ErrCommitTooLarge, ErrNotAvailable, ErrNotCoordinator} {
			if errors.Is(got, kind) != (kind == c.want) {
				t.Errorf("%v: got %v, want %v alone", c.err, got, c.want)
			}
		}
	}
}

func TestCommitsPassEachOtherAndRemovalsWaitForThem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		store, c := coordinator(t, d, Config{})
		orders := topic(t, store, "orders")
		commit(t, c, "g", orders, 0, 1)
		open := d.close()
		var s started
		store1 := func(offset int64) func() string {
			return func() string {
				_, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Retention: -1,
					Commits: []Commit{{Topic: "orders", TopicID: orders.ID(), Partition: 1, Offset: offset}}})
				return outcome("ok", err)
			}
		}
		s.run("first", store1(5))
		s.run("second", store1(6))
		w := c.ownerOf("g")
		w.mu.Lock()
		if got := w.inFlight.Len(); got != 2 {
			t.Errorf("commits on their way: got %d, want 2", got)
		}
		w.mu.Unlock()
		s.run("delete", func() string { return outcome("ok", c.DeleteGroup(t.Context(), "g")) })
		s.run("third", store1(7)) // comes after the deletion
		s.run("stable fetch", func() string {
			got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: "g", MemberEpoch: -1, Stable: true})
			return outcome(fmt.Sprint(len(got), got[0].Partition, got[0].Offset.Offset), err)
		})
		wantOffset(t, c, "g", "orders", 1, -1)
		s.want(t)
		open()
		s.wg.Wait()
		slices.Sort(s.done)
		s.want(t, "delete=ok", "first=ok", "second=ok", "stable fetch=1 1 7", "third=ok")
		wantOffset(t, c, "g", "orders", 0, -1)
		wantOffset(t, c, "g", "orders", 1, 7)
	})
}

func TestStopAnswersThoseWhoWaitAndLeavesNothingBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDisk()
		_, c := coordinator(t, d, Config{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		synctest.Wait()
		if got := outcome(raise(t.Context(), c, "g")); got != "1" {
			t.Fatalf("got %s, want 1", got)
		}
		open := d.close()
		var s started
		s.run("parked", func() string { return outcome(park(context.Background(), c, "parks")) })
		s.run("on its way", func() string { return outcome(raise(context.Background(), c, "g")) })
		s.run("waits", func() string { return outcome(peek(context.Background(), c, "g")) })
		s.want(t)
		stop()
		s.wg.Wait()
		na := ErrNotAvailable.Error()
		slices.Sort(s.done)
		s.want(t, "on its way="+na, "parked="+na, "waits="+na)
		if got := outcome(peek(t.Context(), c, "g")); got != na {
			t.Errorf("a call after the stop: got %s, want %s", got, na)
		}
		select {
		case <-ended:
			t.Error("Run returned with a step on its way to the disk")
		default:
		}
		open()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}) // which fails when a goroutine is left
}

func TestDeletedOffsetsTopicIsMadeAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, c := coordinator(t, vfs.NewMem(vfs.MemOptions{}), Config{})
		orders := topic(t, store, "orders")
		commit(t, c, "g", orders, 0, 3)
		var s started
		s.run("parked", func() string { return outcome(park(t.Context(), c, "parks")) })
		offsets, _ := store.Topic(OffsetsTopic)
		if err := store.DeleteTopic(offsets.ID()); err != nil {
			t.Fatal(err)
		}
		s.wg.Wait()
		s.want(t, "parked="+ErrNotCoordinator.Error())
		wantOffset(t, c, "g", "orders", 0, -1)
		if got := outcome(peek(t.Context(), c, "parks")); got != "-1" {
			t.Errorf("membership after the deletion: got %s, want none", got)
		}
		commit(t, c, "g", orders, 0, 4)
		wantOffset(t, c, "g", "orders", 0, 4)
		if again, ok := store.Topic(OffsetsTopic); !ok || again.ID() == offsets.ID() {
			t.Error("there is no new __consumer_offsets")
		}
	})
}

func TestGroupThatHoldsNothingIsForgotten(t *testing.T) {
	_, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	for _, g := range sameShard(5) {
		if got := outcome(peek(t.Context(), c, g)); got != "-1" {
			t.Errorf("%s: got %s, want no group", g, got)
		}
	}
	for _, w := range c.all() {
		if n := len(w.shard.entries); n != 0 {
			t.Errorf("partition %d: got %d entries, want none", w.log.Index(), n)
		}
	}
}
