package cleaner

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestThreadsWorkSideBySide has two passes wait for each other.
func TestThreadsWorkSideBySide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var met sync.WaitGroup
		met.Add(2)
		mem := vfs.NewMem(vfs.MemOptions{Now: time.Now})
		fsys := vfs.Inject(mem, func(op vfs.Op) error {
			if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, ".log.cleaned") {
				met.Done()
				met.Wait()
			}
			return nil
		})
		s, err := storage.Open("data", storage.Options{FS: fsys, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"a", "b"} {
			fill(t, topicLog(t, s, name, small("internal.segment.bytes", "4000")), 60, 5, time.Now())
		}
		c := New(Options{Store: s, Now: time.Now, Config: func() Config {
			config := DefaultConfig()
			config.Threads = 2
			return config
		}})
		c.Compact(t.Context())
		if st := c.Stats(); st.Passes != 2 {
			t.Errorf("%d passes, want 2", st.Passes)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestThreadsShareTheOffsetMap(t *testing.T) {
	for threads, slots := range map[int]int64{0: 64, 1: 64, 4: 16} {
		if got := mapBytes(Config{DedupeBytes: 64 * slotBytes, Threads: threads}); got != slots*slotBytes {
			t.Errorf("%d threads: %d slots each, want %d", threads, got, slots)
		}
	}
}

// heldUp is a store in memory and a cleaner that runs, in a bubble of synctest. Each pass over a log named slow is held up
// where it begins to write, until release is closed.
type heldUp struct {
	t       *testing.T
	store   *storage.Store
	c       *Cleaner
	config  atomic.Pointer[Config]
	release chan struct{}
}

func newHeldUp(t *testing.T, threads int) *heldUp {
	h := &heldUp{t: t, release: make(chan struct{})}
	config := DefaultConfig()
	config.Threads = threads
	h.config.Store(&config)
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{Now: time.Now}), func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.Contains(op.Name, "slow") && strings.HasSuffix(op.Name, ".log.cleaned") {
			<-h.release
		}
		return nil
	})
	var err error
	if h.store, err = storage.Open("data", storage.Options{FS: fsys, Now: time.Now}); err != nil {
		t.Fatal(err)
	}
	h.c = New(Options{Store: h.store, Now: time.Now, Config: func() Config { return *h.config.Load() }})
	return h
}

// dirty makes a topic that has something to compact.
func (h *heldUp) dirty(name string, configs ...string) *storage.Log {
	h.t.Helper()
	l := topicLog(h.t, h.store, name, small(append([]string{"internal.segment.bytes", "4000"}, configs...)...))
	fill(h.t, l, 60, 5, time.Now())
	return l
}

// passes wants so many passes to have ended after a while.
func (h *heldUp) passes(after time.Duration, want int64) {
	h.t.Helper()
	time.Sleep(after)
	synctest.Wait()
	if got := h.c.Stats().Passes; got != want {
		h.t.Errorf("%d passes, want %d", got, want)
	}
}

func (h *heldUp) close() {
	h.t.Helper()
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
}

// TestNoThreadIsHeldUpByAnother has a pass that does not end for a long time, and another thread that meanwhile had nothing
// to do. What becomes due then is compacted, and retention of logs with both policies goes on.
func TestNoThreadIsHeldUpByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeldUp(t, 2)
		h.dirty("slow")
		stop := run(t, h.c)
		h.passes(time.Minute, 0)
		h.dirty("later")
		both := h.dirty("both", "cleanup.policy", "compact,delete", "retention.ms", "60000")
		h.passes(20*time.Second, 2)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if o, _ := both.Offsets(); o.LogStart != o.HighWatermark {
			t.Errorf("log start %d beside a pass that does not end, want %d", o.LogStart, o.HighWatermark)
		}
		close(h.release)
		h.passes(time.Second, 3)
		stop()
		h.close()
	})
}

// TestThreadsComeAndGo has one thread that is held up, then two, then one again.
func TestThreadsComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeldUp(t, 1)
		h.dirty("slow")
		stop := run(t, h.c)
		time.Sleep(20 * time.Second)
		h.dirty("other")
		h.passes(time.Minute, 0)

		two := *h.config.Load()
		two.Threads, two.DedupeBytes = 2, two.DedupeBytes/2
		h.config.Store(&two)
		h.passes(time.Minute, 0) // the first thread's map takes what there is for all
		two.DedupeBytes *= 4
		h.config.Store(&two)
		h.passes(20*time.Second, 1)

		one := *h.config.Load()
		one.Threads = 1
		h.config.Store(&one)
		time.Sleep(time.Second)
		h.dirty("last")
		h.passes(time.Minute, 1)
		close(h.release)
		h.passes(20*time.Second, 3)
		stop()
		h.close()
		if h.c.claimed != 0 {
			t.Errorf("%d bytes of offset maps are not given back", h.c.claimed)
		}
	})
}

// TestPassIsGivenUpOnceThePolicyIsAnother takes compact off the policy in the middle of a pass: what is not replaced yet
// stays.
func TestPassIsGivenUpOnceThePolicyIsAnother(t *testing.T) {
	r := newRig(t)
	l := r.log(small())
	fill(t, l, 200, 5, r.now)
	topic, _ := r.store.Topic("orders")
	own := r.c.compactor(DefaultConfig())
	steps, left := 0, ""
	own.pace = func(context.Context, int) error {
		if steps++; steps == 60 {
			if err := r.store.SetTopicConfigs(topic.ID(), map[string]string{"cleanup.policy": "delete"}); err != nil {
				t.Fatal(err)
			}
			left = r.read(l, 0)
		}
		return nil
	}
	_, ch, ok := r.c.dirtiest()
	if !ok || r.c.compact(t.Context(), own, l, ch) {
		t.Fatalf("the log is due: %v; want that the pass ends early", ok)
	}
	r.c.give(l)
	if steps != 60 {
		t.Errorf("the pass went on for %d steps after the change of the policy", steps-60)
	}
	before := strings.Fields(left)
	if got := r.read(l, 0); got != left || len(before) >= 200 || !slices.Contains(before, "199:k4") {
		t.Errorf("%d records when the policy changed in the middle of a pass, then %d; want the same, and fewer than 200", len(before), len(strings.Fields(got)))
	}
	if st := r.c.Stats(); st.Passes != 0 || st.GivenUp != 1 || len(st.SetAside) > 0 {
		t.Errorf("stats %+v, want a pass that was given up", st)
	}
	r.c.Compact(t.Context())
	if got := r.read(l, 0); got != left {
		t.Error("a log is compacted whose policy is delete")
	}
}

// TestAnotherRateIsFeltByAPass slows a pass down to where it would take hours, and then lets it go.
func TestAnotherRateIsFeltByAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHeldUp(t, 1)
		close(h.release)
		slow := *h.config.Load()
		slow.MaxIOBytes = 1000
		h.config.Store(&slow)
		l := topicLog(t, h.store, "orders", small("internal.segment.bytes", "1000000"))
		r := &rig{t: t, store: h.store}
		for range 60 {
			r.put(l, "key", make([]byte, 100_000), time.Now())
		}
		stop := run(t, h.c)
		h.passes(10*time.Minute, 0)
		fast := slow
		fast.MaxIOBytes = 1e9
		h.config.Store(&fast)
		h.passes(3*time.Second, 1)
		stop()
		h.close()
	})
}
