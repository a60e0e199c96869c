package cleaner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestRunCleansByTheClock lets time pass over a running cleaner.
func TestRunCleansByTheClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: time.Now}), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		kept := topicLog(t, s, "kept", map[string]string{"retention.ms": "3600000"})
		table := topicLog(t, s, "table", small())
		both := topicLog(t, s, "both", small("cleanup.policy", "compact,delete", "retention.ms", "3600000"))
		for _, l := range []*storage.Log{kept, table, both} {
			fill(t, l, 50, 5, time.Now())
		}
		c := New(Options{Store: s, Now: time.Now})
		stop := run(t, c)
		rig := &rig{t: t, store: s}
		starts := func(want string) {
			t.Helper()
			synctest.Wait()
			var got []string
			for _, l := range []*storage.Log{kept, table, both} {
				o, _ := l.Offsets()
				got = append(got, fmt.Sprintf("%d+%d", o.LogStart, len(strings.Fields(rig.read(l, o.LogStart)))))
			}
			if s := strings.Join(got, " "); s != want {
				t.Errorf("log starts and sizes: got %s, want %s", s, want)
			}
		}
		starts("0+50 0+50 0+50")
		time.Sleep(16 * time.Second) // the backoff of the cleaner
		starts("0+50 0+7 0+7")
		time.Sleep(time.Hour)
		starts("0+50 0+7 50+0") // deletion of compacted logs follows each turn of the cleaner
		time.Sleep(5 * time.Minute)
		starts("50+0 0+7 50+0") // that of others comes every five minutes, from half a minute after the start on
		stop()
		if st := c.Stats(); st.Passes != 2 || st.SegmentsDeleted == 0 || st.BytesDeleted < 50*70 || st.RetentionErrors != 0 || len(st.SetAside) > 0 {
			t.Errorf("stats %+v, want 2 passes", st)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestPolicyChangesWhileRunning(t *testing.T) {
	r := newRig(t)
	l := r.log(small("cleanup.policy", "", "retention.ms", "1000"))
	fill(t, l, 30, 3, r.now)
	r.now = r.now.Add(time.Hour)
	policy := func(value string) {
		t.Helper()
		topic, _ := r.store.Topic("orders")
		configs := topic.Overrides()
		configs["cleanup.policy"] = value
		if err := r.store.SetTopicConfigs(topic.ID(), configs); err != nil {
			t.Fatal(err)
		}
		r.c.Retain(context.Background())
		r.c.Compact(context.Background())
	}
	policy("")
	if n := len(strings.Fields(r.read(l, 0))); n != 30 {
		t.Errorf("no policy: %d records are left, want 30", n)
	}
	policy("compact")
	n := len(strings.Fields(r.read(l, 0)))
	if n >= 30 || n < 3 {
		t.Errorf("compact: %d records are left, want a few", n)
	}
	policy("delete")
	if o, _ := l.Offsets(); o.LogStart != 30 || o.End != 30 || l.Size() != 0 {
		t.Errorf("delete: log is %+v and has %d bytes, want nothing in it", o, l.Size())
	}
}

func TestDirtiestLogComesFirst(t *testing.T) {
	r := newRig(t)
	some := topicLog(t, r.store, "a-few", small()) // is looked at first
	most := topicLog(t, r.store, "most", small())
	fill(t, some, 40, 5, r.now)
	r.c.Compact(context.Background())
	fill(t, some, 10, 5, r.now)
	fill(t, most, 40, 5, r.now)
	l, ch, ok := r.c.dirtiest()
	if !ok || l != most || ch.ratio() != 1 {
		t.Errorf("got %v with %+v, want most-0", l, ch)
	}
	r.c.give(most)
	r.c.Compact(context.Background())
	st := r.c.Stats()
	if st.Passes != 3 {
		t.Errorf("%d passes, want one more of each log", st.Passes)
	}
	if st.RecordsKept == 0 || st.RecordsRead <= st.RecordsKept || st.BytesRead <= st.BytesKept || !st.LastPass.Equal(r.now) {
		t.Errorf("stats %+v, want fewer records and bytes kept than read, and the last pass now", st)
	}
}

func TestLogThatFailsIsSetAside(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	broken := errors.New("no medium")
	tried := 0
	fsys := vfs.Inject(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.Contains(op.Name, "bad-0") && strings.HasSuffix(op.Name, ".cleaned") {
			tried++
			return broken
		}
		return nil
	})
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	bad, good := topicLog(t, s, "bad", small()), topicLog(t, s, "good", small())
	fill(t, bad, 40, 5, now)
	fill(t, good, 30, 5, now)
	c := New(Options{Store: s, Now: clock})
	c.Compact(context.Background())
	once := tried
	c.Compact(context.Background())
	if once == 0 || tried != once {
		t.Errorf("files of bad-0 were made %d times, then %d, want that it is left alone after the first turn", once, tried)
	}
	st := c.Stats()
	if st.Passes != 1 || st.Errors != 1 || len(st.SetAside) != 1 || st.SetAside[0].Topic != "bad" || !errors.Is(st.SetAside[0].Cause, broken) {
		t.Errorf("stats %+v, want one pass and bad-0 set aside", st)
	}
	if n := bad.Size() / 70; n < 40 {
		t.Errorf("bad-0 has about %d records, want all", n)
	}
	topic, _ := s.Topic("bad")
	if err := s.SetTopicConfigs(topic.ID(), map[string]string{"cleanup.policy": "delete", "retention.bytes": "0"}); err != nil {
		t.Fatal(err)
	}
	c.Retain(context.Background())
	if o, err := bad.Offsets(); err != nil || o.LogStart != o.End {
		t.Errorf("bad-0 is %+v, %v after it is not compacted any more, want its records gone", o, err)
	}
	if err := s.DeleteTopic(topic.ID()); err != nil {
		t.Fatal(err)
	}
	if st := c.Stats(); len(st.SetAside) != 0 {
		t.Errorf("set aside after its topic was deleted: %+v", st.SetAside)
	}
	c.Compact(context.Background())
	if len(c.setAside) != 0 {
		t.Errorf("%d logs are kept in mind after their topics were deleted", len(c.setAside))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestFullDiskSetsNoLogAside has no room for a pass, and makes some: a pass is what frees it.
func TestFullDiskSetsNoLogAside(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	full := true
	fsys := vfs.Inject(mem, func(op vfs.Op) error {
		if full && op.Kind == vfs.OpWriteAt && strings.HasSuffix(op.Name, ".cleaned") {
			return vfs.ErrNoSpace
		}
		return nil
	})
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	l := topicLog(t, s, "orders", small())
	fill(t, l, 40, 5, now)
	var lines strings.Builder
	c := New(Options{Store: s, Now: clock, Logger: slog.New(slog.NewTextHandler(&lines, nil))})
	c.Compact(context.Background())
	if st := c.Stats(); st.Passes != 0 || st.GivenUp != 1 || len(st.SetAside) != 0 || strings.Count(lines.String(), vfs.ErrNoSpace.Error()) != 1 {
		t.Errorf("full disk: stats %+v and log\n%s, want no pass, nothing set aside and one line", st, lines.String())
	}
	full = false
	c.Compact(context.Background())
	if st := c.Stats(); st.Passes != 1 {
		t.Errorf("stats %+v when there is room again, want a pass", st)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestSecondPassChangesNothing holds every file of a log before and after passes with the same clock.
func TestSecondPassChangesNothing(t *testing.T) {
	r := newRig(t)
	l := r.log(small("delete.retention.ms", "1000"))
	fill(t, l, 60, 7, r.now)
	r.put(l, "k3", nil, r.now)
	fill(t, l, 10, 2, r.now)
	bytesOf := func() string {
		var out strings.Builder
		batches(t, l, 0, func(b record.Batch) { out.Write(b) })
		return out.String()
	}
	var seen []string
	var replaced []int
	for range 4 {
		st, err := r.c.Force(context.Background(), l)
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, bytesOf())
		replaced = append(replaced, st.Replaced)
	}
	for i, s := range seen[1:] {
		if s != seen[0] {
			t.Errorf("pass %d changed batches", i+2)
		}
	}
	if replaced[2] != 0 || replaced[3] != 0 {
		t.Errorf("segments replaced by the passes: %v, want none from the third on", replaced)
	}
}

func TestRetentionBeginsAfterTheInitialDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: time.Now}), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		old := topicLog(t, s, "old", map[string]string{"retention.ms": "1000"})
		fill(t, old, 5, 5, time.Now())
		c := New(Options{Store: s, Now: time.Now})
		stop := run(t, c)
		start := func() int64 {
			synctest.Wait()
			o, _ := old.Offsets()
			return o.LogStart
		}
		time.Sleep(29 * time.Second)
		if got := start(); got != 0 {
			t.Errorf("log start %d before the initial delay, want 0", got)
		}
		time.Sleep(2 * time.Second)
		if got := start(); got != 5 {
			t.Errorf("log start %d after the initial delay, want 5", got)
		}
		fill(t, old, 5, 5, time.Now())
		time.Sleep(4*time.Minute + 58*time.Second)
		if got := start(); got != 5 {
			t.Errorf("log start %d before the interval is over, want 5", got)
		}
		time.Sleep(3 * time.Second)
		if got := start(); got != 10 {
			t.Errorf("log start %d after the interval, want 10", got)
		}
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestClockThatGoesBackStopsNoLoop sets the clock back by an hour and wants both loops to go on by it.
func TestClockThatGoesBackStopsNoLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Int64 // nanoseconds
		clock := func() time.Time { return time.Now().Add(-time.Duration(back.Load())) }
		s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: clock}), Now: clock})
		if err != nil {
			t.Fatal(err)
		}
		old := topicLog(t, s, "old", map[string]string{"retention.ms": "3600000", "message.timestamp.before.max.ms": "9223372036854775807"})
		table := topicLog(t, s, "table", small())
		c := New(Options{Store: s, Now: clock})
		stop := run(t, c)
		time.Sleep(time.Minute)
		synctest.Wait()
		back.Store(int64(time.Hour))
		fill(t, old, 5, 5, clock().Add(-3*time.Hour))
		fill(t, table, 50, 5, clock())
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if o, _ := old.Offsets(); o.LogStart != 5 {
			t.Errorf("log start %d, want 5", o.LogStart)
		}
		if st := c.Stats(); st.Passes != 1 {
			t.Errorf("%d passes, want one", st.Passes)
		}
		stop()
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// TestPassKeepsToTheRate reads 3.6 megabytes twice and writes 3.3 of them at one a second, less the two that may come at
// once.
func TestPassKeepsToTheRate(t *testing.T) {
	for rate, want := range map[float64][2]time.Duration{0: {0, 0}, 1e6: {8 * time.Second, 9 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: time.Now}), Now: time.Now})
			if err != nil {
				t.Fatal(err)
			}
			r := &rig{t: t, now: time.Now(), store: s}
			l := topicLog(t, s, "orders", small("internal.segment.bytes", "1000000"))
			for i := range 40 {
				key := fmt.Sprint(i)
				if i%8 == 4 {
					key = "again" // a segment of which nothing goes is not written
				}
				r.put(l, key, make([]byte, 100_000), r.now)
			}
			c := New(Options{Store: s, Now: time.Now, Config: func() Config {
				config := DefaultConfig()
				config.MaxIOBytes = rate
				return config
			}})
			began := time.Now()
			c.Compact(context.Background())
			if took := time.Since(began); c.Stats().Passes != 1 || took < want[0] || took > want[1] {
				t.Errorf("at %.0f bytes a second %d passes took %v, want one in %v to %v", rate, c.Stats().Passes, took, want[0], want[1])
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestStopSetsNoLogAside stops a cleaner in the middle of a pass.
func TestStopSetsNoLogAside(t *testing.T) {
	r := newRig(t)
	l := r.log(small())
	fill(t, l, 50, 5, r.now)
	ctx, stop := context.WithCancel(t.Context())
	own := r.c.compactor(DefaultConfig())
	own.pace = func(ctx context.Context, n int) error {
		stop()
		return r.c.pace(ctx, n)
	}
	_, ch, ok := r.c.dirtiest()
	if !ok || r.c.compact(ctx, own, l, ch) {
		t.Errorf("the log is due: %v; want that the pass ends early", ok)
	}
	r.c.give(l)
	if st := r.c.Stats(); st.Passes != 0 || len(st.SetAside) > 0 {
		t.Errorf("stats %+v, want no pass and nothing set aside", st)
	}
}

// TestLogThatChangesIsLeftForLater has a log lose what a pass was to begin with, and two go offline in one: by damage in
// what was clean before, and in what was not.
func TestLogThatChangesIsLeftForLater(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	s, err := storage.Open("data", storage.Options{FS: mem, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	c := New(Options{Store: s, Now: clock})
	l := topicLog(t, s, "shorter", small())
	fill(t, l, 50, 5, now)
	_, ch, _ := c.dirtiest()
	if _, err := l.DeleteBefore(30); err != nil {
		t.Fatal(err)
	}
	if c.compact(context.Background(), c.compactor(DefaultConfig()), l, ch) {
		t.Error("a pass from below the log start was made")
	}
	c.give(l)
	for _, name := range []string{"damaged", "never-clean"} {
		damaged := topicLog(t, s, name, small())
		fill(t, damaged, 50, 50, now)
		if name == "damaged" {
			c.Compact(context.Background())
		}
		f, err := mem.Open("data/" + name + "-0/00000000000000000000.log")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt([]byte("damage"), record.HeaderSize); err != nil {
			t.Fatal(err)
		}
		f.Close()
		fill(t, damaged, 50, 5, now)
		for range 2 {
			c.Compact(context.Background())
		}
		if got := damaged.Status(); got != storage.StatusOffline {
			t.Errorf("status of %s: %v, want offline", name, got)
		}
	}
	if st := c.Stats(); st.Passes != 2 || len(st.SetAside) > 0 {
		t.Errorf("stats %+v, want a pass over each of two logs before that, and nothing set aside", st)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestRetentionOfCompactedLogsFollowsPasses has a log with both policies, all of which is old, beside a dirtier one: it is
// for the turn of compaction, and once the other has had its pass there is nothing left of it to compact.
func TestRetentionOfCompactedLogsFollowsPasses(t *testing.T) {
	r := newRig(t)
	table := topicLog(t, r.store, "table", small())
	both := topicLog(t, r.store, "both", small("cleanup.policy", "compact,delete", "retention.ms", "1000"))
	fill(t, both, 30, 5, r.now)
	if _, err := r.c.Force(context.Background(), both); err != nil {
		t.Fatal(err)
	}
	fill(t, both, 30, 5, r.now)
	fill(t, table, 30, 5, r.now)
	r.now = r.now.Add(time.Hour)
	r.c.Retain(context.Background())
	if o, _ := both.Offsets(); o.LogStart != 0 {
		t.Errorf("log start %d after retention of logs that are not compacted, want 0", o.LogStart)
	}
	r.c.Compact(context.Background())
	if o, _ := both.Offsets(); o.LogStart != 60 || r.c.Stats().Passes != 1 {
		t.Errorf("log start %d after %d passes, want 60 after one", o.LogStart, r.c.Stats().Passes)
	}
}
