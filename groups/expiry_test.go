package groups

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// kept is an offset that was committed at a time after start.
func kept(at time.Duration) stored {
	return stored{Offset: Offset{Offset: 7, CommitMs: start.Add(at).UnixMilli(), ExpireMs: -1}}
}

func TestWhatExpires(t *testing.T) {
	const retention = time.Hour
	explicit := kept(0)
	explicit.ExpireMs = start.Add(10 * time.Minute).UnixMilli()
	late := kept(0)
	late.ExpireMs = start.Add(10 * time.Hour).UnixMilli()
	never := &fakeMachine{expiry: func(string, int64, time.Duration) (time.Time, bool) { return time.Time{}, false }}
	emptied := &fakeMachine{expiry: func(_ string, _ int64, retention time.Duration) (time.Time, bool) {
		return start.Add(30 * time.Minute).Add(retention), true // since the group became empty
	}}
	for _, c := range []struct {
		name     string
		machine  machine
		offset   stored
		unstable int
		at       time.Duration
		want     bool
	}{
		{name: "simple, a moment before", offset: kept(0), at: retention - time.Millisecond},
		{name: "simple, on time", offset: kept(0), at: retention, want: true},
		{name: "simple, committed later", offset: kept(time.Minute), at: retention},
		{name: "explicit expiry before the retention", offset: explicit, at: 10 * time.Minute, want: true},
		{name: "explicit expiry, a moment before", offset: explicit, at: 10*time.Minute - time.Millisecond},
		{name: "explicit expiry after the retention", offset: late, at: 2 * retention},
		{name: "OFFS-16 an open transaction would change it", offset: kept(0), unstable: 1, at: 2 * retention},
		{name: "group that keeps it", machine: never, offset: kept(0), at: 100 * retention},
		{name: "group that keeps it, explicit expiry", machine: never, offset: explicit, at: 100 * retention},
		{name: "empty group, since the commit", machine: emptied, offset: kept(0), at: retention},
		{name: "empty group, since it is empty", machine: emptied, offset: kept(0), at: retention + 30*time.Minute, want: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := offsetKey{"t", 0}
			e := &entry{id: "g", machine: c.machine, offsets: map[offsetKey]stored{k: c.offset}}
			if c.unstable > 0 {
				e.unstable = map[offsetKey][]int64{k: make([]int64, c.unstable)}
			}
			keys, all := e.expired(start.Add(c.at), retention)
			if got := slices.Contains(keys, k); got != c.want || all != c.want {
				t.Errorf("after %v: expired %v, all %v; want %v", c.at, got, all, c.want)
			}
		})
	}
	if keys, all := (&entry{}).expired(start, retention); len(keys) != 0 || !all {
		t.Errorf("group without offsets: got %v, %v; want nothing, all", keys, all)
	}
	if _, all := (&entry{unstable: map[offsetKey][]int64{{"t", 0}: {9}}}).expired(start, retention); all {
		t.Error("group with an open transaction only: got all, want it kept")
	}
}

// travel is a coordinator whose clock the test moves.
type travel struct {
	t     *testing.T
	c     *Coordinator
	clock time.Time
}

func newTravel(t *testing.T, fsys vfs.FS) *travel {
	tr := &travel{t: t, clock: start}
	s, c := openAt(t, fsys, func() time.Time { return tr.clock }, Config{})
	tr.c = c
	for _, name := range []string{"orders", "other"} {
		if _, ok := s.Topic(name); !ok {
			topic(t, s, name)
		}
	}
	return tr
}

// to moves the clock to a time after start, does what is due, and waits for the disk.
func (tr *travel) to(d time.Duration) {
	tr.t.Helper()
	tr.clock = start.Add(d)
	tr.c.Tick()
	tr.c.topic.Waits().Wait()
}

func (tr *travel) commit(group, name string, offset int64) {
	tr.t.Helper()
	to, _ := tr.c.o.Store.Topic(name)
	commit(tr.t, tr.c, group, to, 0, offset)
}

func (tr *travel) wantGroups(want ...string) {
	tr.t.Helper()
	listed, err := tr.c.List(nil, nil)
	var got []string
	for _, l := range listed {
		got = append(got, l.ID)
	}
	if err != nil || !slices.Equal(got, want) {
		tr.t.Errorf("%v after the start: groups %q, error %v; want %q", tr.clock.Sub(start), got, err, want)
	}
}

const week = 7 * 24 * time.Hour

func TestSimpleGroupsExpireWithTheirLastOffset(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	tr := newTravel(t, fsys)
	tr.commit("kitchen", "orders", 3)
	tr.commit("courier", "orders", 4)
	tr.to(24 * time.Hour)
	tr.commit("kitchen", "other", 5)
	tr.to(week - time.Minute)
	tr.wantGroups("courier", "kitchen")
	tr.to(week + 10*time.Minute)
	tr.wantGroups("kitchen")
	wantOffset(t, tr.c, "kitchen", "orders", 0, -1)
	wantOffset(t, tr.c, "kitchen", "other", 0, 5)
	tr.to(week + 25*time.Hour)
	tr.wantGroups()
	after := newTravel(t, fsys.CrashClone(1, 0))
	after.wantGroups()
}

// A group that nobody joined is known without its last offset, until the sweep finds
// nothing in it.
func TestSimpleGroupIsKnownWithoutOffsetsUntilTheSweep(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	tr := newTravel(t, fsys)
	tr.commit("g", "orders", 3)
	if _, err := tr.c.DeleteOffsets(t.Context(), "g", []OffsetDelete{{Topic: "orders"}}); err != nil {
		t.Fatal(err)
	}
	tr.wantGroups("g")
	newTravel(t, fsys.CrashClone(1, 0)).wantGroups("g")
	tr.to(10 * time.Minute)
	tr.wantGroups()
	newTravel(t, fsys.CrashClone(1, 0)).wantGroups()
}

func TestSweepComesEveryCheckInterval(t *testing.T) {
	tr := newTravel(t, vfs.NewMem(vfs.MemOptions{}))
	tr.commit("g", "orders", 3)
	tr.to(week - time.Minute) // a sweep
	tr.to(week + time.Minute) // none: the last was two minutes ago
	tr.wantGroups("g")
	tr.to(week + 9*time.Minute)
	tr.wantGroups()
}

func TestEmptyGroupGoesWithItsMembership(t *testing.T) {
	tr := newTravel(t, vfs.NewMem(vfs.MemOptions{}))
	tr.commit("g", "orders", 3)
	var m *fakeMachine
	setDeadline(t, tr.c, "g", time.Time{}, func(made *fakeMachine) { m = made })
	m.refuse = ErrNonEmptyGroup
	tr.to(2 * week)
	tr.wantGroups("g") // its offset is gone, its members are not
	wantOffset(t, tr.c, "g", "orders", 0, -1)
	m.refuse = nil
	tr.to(3 * week)
	tr.wantGroups()
}

func TestOffsetsThatCannotBeRemovedAreTriedAgain(t *testing.T) {
	d := newDisk()
	tr := newTravel(t, d)
	tr.commit("g", "orders", 3)
	mend := d.breaks()
	tr.to(2 * week)
	tr.wantGroups("g")
	mend()
	tr.to(2*week + 10*time.Minute)
	tr.wantGroups()
}

// A group with more offsets than a batch has room for is removed all the same.
func TestLargeGroupIsDeletedInParts(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s, c := open(t, fsys)
	many, err := s.CreateTopic(storage.TopicSpec{Name: "many", Partitions: 50000})
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < 50000; i += 5000 {
		commits := make([]Commit, 5000)
		for j := range commits {
			commits[j] = Commit{Topic: "many", TopicID: many.ID(), Partition: int32(i + j), Offset: 1}
		}
		if _, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: "g", Generation: -1, Retention: -1, Commits: commits}); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.DeleteGroup(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteGroup(t.Context(), "g"); !errors.Is(err, ErrGroupIDNotFound) {
		t.Errorf("deleting again: got %v, want ErrGroupIDNotFound", err)
	}
	_, c = open(t, fsys.CrashClone(1, 0))
	wantOffset(t, c, "g", "many", 49999, -1)
}
