package cleaner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// topicLog makes a topic of one partition in any store and returns that.
func topicLog(t testing.TB, s *storage.Store, name string, configs map[string]string) *storage.Log {
	t.Helper()
	topic, err := s.CreateTopic(storage.TopicSpec{Name: name, Partitions: 1, Configs: configs})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := topic.Partition(0)
	return l
}

// fill appends n records over the keys k0, k1, … in turn, each in a batch of its own.
func fill(t testing.TB, l *storage.Log, n, keys int, at time.Time) {
	t.Helper()
	for i := range n {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		b.Append(record.Record{Key: fmt.Appendf(nil, "k%d", i%keys), Value: fmt.Appendf(nil, "value %d", i), Timestamp: at.UnixMilli()})
		a, err := l.Append(b.Bytes(), storage.AppendOptions{})
		if err == nil {
			err = l.WaitDurable(context.Background(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// small is a compacted topic with small segments that is due as soon as anything is dirty.
func small(more ...string) map[string]string {
	c := map[string]string{
		"cleanup.policy": "compact", "internal.segment.bytes": "500", "min.cleanable.dirty.ratio": "0.01",
		"message.timestamp.before.max.ms": "9223372036854775807",
	}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}

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
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
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
		<-ended
		if st := c.Stats(); st.Passes != 2 || st.SegmentsDeleted == 0 || len(st.SetAside) > 0 {
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
	if o, _ := l.Offsets(); o.LogStart != 30 || o.End != 30 {
		t.Errorf("delete: log is %+v, want nothing in it", o)
	}
}

func TestDirtiestLogComesFirst(t *testing.T) {
	r := newRig(t)
	some := topicLog(t, r.store, "some", small())
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
}

func TestLogThatFailsIsSetAside(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	broken := errors.New("no medium")
	fsys := vfs.Inject(mem, func(op vfs.Op) error {
		if strings.Contains(op.Name, "bad-0") && strings.HasSuffix(op.Name, ".cleaned") {
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
	for range 2 {
		c.Compact(context.Background())
	}
	st := c.Stats()
	if st.Passes != 1 || len(st.SetAside) != 1 || st.SetAside[0].Topic != "bad" || !errors.Is(st.SetAside[0].Cause, broken) {
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
	c.Compact(context.Background())
	if st := c.Stats(); len(st.SetAside) != 0 {
		t.Errorf("set aside after its topic was deleted: %+v", st.SetAside)
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
	if st := c.Stats(); st.Passes != 0 || len(st.SetAside) != 0 || strings.Count(lines.String(), vfs.ErrNoSpace.Error()) != 1 {
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
		for offset := int64(0); ; {
			res, err := l.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(res.Data) == 0 {
				return out.String()
			}
			for rest := res.Data; len(rest) > 0; {
				var b record.Batch
				b, rest, _ = record.Cut(rest)
				out.Write(b)
				offset = b.NextOffset()
			}
		}
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

// TestCrashInAPass takes a crash clone after every operation of a pass. Whatever is left holds the last value of each key,
// no key that was deleted, and no record that was not written.
func TestCrashInAPass(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	type point struct {
		mem   *vfs.Mem
		label string
	}
	var points []point
	armed, seed := false, uint64(0)
	fsys := vfs.After(mem, func(op vfs.Op, err error) {
		if armed && err == nil {
			for _, keep := range []float64{0, 0.5, 1} {
				seed++
				points = append(points, point{mem.CrashClone(seed, keep), fmt.Sprintf("after %v, keeping %.1f, seed %d", op, keep, seed)})
			}
		}
	})
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	l := topicLog(t, s, "orders", small("delete.retention.ms", "1000"))
	rig := &rig{t: t, now: now, store: s}
	fill(t, l, 40, 6, now)
	rig.put(l, "k1", nil, now)
	rig.put(l, "k2", nil, now)
	fill(t, l, 20, 1, now)
	c := New(Options{Store: s, Now: clock})
	armed = true
	for range 2 {
		if _, err := c.Force(context.Background(), l); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Hour) // the second pass drops the tombstones
	}
	armed = false
	if len(points) < 100 {
		t.Fatalf("%d crashes, want more", len(points))
	}
	for _, p := range points {
		again, err := storage.Open("data", storage.Options{FS: p.mem, Now: clock})
		if err != nil {
			t.Fatalf("%s: %v", p.label, err)
		}
		topic, _ := again.Topic("orders")
		l, _ := topic.Partition(0)
		state := map[string]string{}
		var reader record.Reader
		for offset := int64(0); ; {
			res, err := l.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
			if err != nil {
				t.Fatalf("%s: %v", p.label, err)
			}
			if len(res.Data) == 0 {
				break
			}
			for rest := res.Data; len(rest) > 0; {
				var b record.Batch
				if b, rest, err = record.Cut(rest); err != nil {
					t.Fatalf("%s: %v", p.label, err)
				}
				for r, err := range reader.Records(b) {
					if err != nil {
						t.Fatalf("%s: %v", p.label, err)
					}
					if state[string(r.Key)] = string(r.Value); r.Value == nil {
						delete(state, string(r.Key))
					}
				}
				offset = b.NextOffset()
			}
		}
		if got, want := fmt.Sprint(state), "map[k0:value 19 k3:value 39 k4:value 34 k5:value 35]"; got != want {
			t.Errorf("%s: a consumer ends with %s, want %s", p.label, got, want)
		}
		if err := again.Close(); err != nil {
			t.Errorf("%s: %v", p.label, err)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestADayStaysBounded writes a day's records, a minute at a time, and lets the cleaner look every minute.
func TestADayStaysBounded(t *testing.T) {
	for _, c := range []struct {
		policy string
		most   int64 // bytes
	}{{"delete", 60_000}, {"compact", 25_000}, {"compact,delete", 25_000}} {
		t.Run(c.policy, func(t *testing.T) {
			r := newRig(t)
			l := r.log(map[string]string{
				"cleanup.policy": c.policy, "internal.segment.bytes": "5000", "retention.ms": "3600000", "segment.ms": "600000",
				"min.cleanable.dirty.ratio": "0.5", "file.delete.delay.ms": "0",
			})
			largest := int64(0)
			for minute := range 24 * 60 {
				r.now = r.now.Add(time.Minute)
				for i := range 8 {
					r.put(l, fmt.Sprintf("k%d", (minute*8+i)%50), []byte("some value"), r.now)
				}
				r.c.Retain(context.Background())
				r.c.Compact(context.Background())
				if minute > 120 {
					largest = max(largest, l.Size())
				}
			}
			if largest > c.most {
				t.Errorf("the log reached %d bytes, want at most %d", largest, c.most)
			}
			o, _ := l.Offsets()
			if o.End != 8*24*60 || (o.LogStart > 0) != (c.policy == "delete") {
				t.Errorf("the log is %+v", o)
			}
		})
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
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			c.Run(ctx)
		}()
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
		<-ended
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}
