package groups

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// setDeadline gives a group's machine a deadline, as a call would.
func setDeadline(t *testing.T, c *Coordinator, group string, at time.Time, change func(*fakeMachine)) {
	t.Helper()
	_, err := call(t.Context(), c, group, func(_ time.Time, s *shard, _ *entry, reply func(int, error)) step {
		m := fake(s, group)
		m.deadline = at
		if change != nil {
			change(m)
		}
		reply(0, nil)
		return step{}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wantTicks fails unless the deadlines that a group met are those.
func wantTicks(t *testing.T, c *Coordinator, group string, want ...time.Duration) {
	t.Helper()
	w := c.ownerOf(group)
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := fake(w.shard, group).ticks; !slices.Equal(got, want) {
		t.Errorf("%s met its deadlines at %v, want %v", group, got, want)
	}
}

// pass lets the bubble's time pass and what is due happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// running starts a coordinator with a clock of package time, in a bubble where that
// begins at start.
func running(t *testing.T, f func(t *testing.T, c *Coordinator, d *disk)) {
	synctest.Test(t, func(t *testing.T) {
		pass(time.Until(start))
		d := newDisk()
		_, c := coordinator(t, d, Config{})
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		synctest.Wait()
		f(t, c, d)
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestDeadlinesAreMetInTheirOrder(t *testing.T) {
	running(t, func(t *testing.T, c *Coordinator, _ *disk) {
		g := sameShard(3)
		setDeadline(t, c, g[0], start.Add(9*time.Second), nil)
		setDeadline(t, c, g[1], start.Add(4*time.Second), func(m *fakeMachine) { m.tickFor = 4 * time.Second })
		setDeadline(t, c, g[2], start.Add(5*time.Second), nil)
		setDeadline(t, c, g[2], start.Add(7*time.Second), nil) // a heartbeat moves it later
		setDeadline(t, c, g[0], start.Add(6*time.Second), nil) // and this one comes nearer
		pass(10 * time.Second)
		wantTicks(t, c, g[0], 6*time.Second)
		wantTicks(t, c, g[1], 4*time.Second, 8*time.Second)
		wantTicks(t, c, g[2], 7*time.Second)
	})
}

func TestDeadlineOfABusyGroupWaits(t *testing.T) {
	running(t, func(t *testing.T, c *Coordinator, d *disk) {
		if _, err := raise(t.Context(), c, "g"); err != nil {
			t.Fatal(err)
		}
		setDeadline(t, c, "g", start.Add(2*time.Second), nil)
		open := d.close()
		var s started
		s.run("raise", func() string { return outcome(raise(t.Context(), c, "g")) })
		pass(3 * time.Second)
		wantTicks(t, c, "g")
		open()
		s.wg.Wait()
		synctest.Wait()
		wantTicks(t, c, "g", 3*time.Second)
	})
}

// A deadline that cannot be written is met late, and is not tried again without end.
func TestDeadlineThatCannotBeWrittenIsTriedAgain(t *testing.T) {
	running(t, func(t *testing.T, c *Coordinator, d *disk) {
		if _, err := raise(t.Context(), c, "g"); err != nil {
			t.Fatal(err)
		}
		setDeadline(t, c, "g", start.Add(2*time.Second), func(m *fakeMachine) { m.writes = true })
		mend := d.breaks()
		pass(4500 * time.Millisecond) // tried at 2, 3 and 4 s
		if got := outcome(peek(t.Context(), c, "g")); got != "1" {
			t.Errorf("value: got %s, want 1", got)
		}
		wantTicks(t, c, "g")
		w := c.ownerOf("g")
		w.mu.Lock()
		if m := fake(w.shard, "g"); m.tries != 3 || m.asked > 50 {
			t.Errorf("tried %d times and asked %d times, want 3 times and no more than is needed", m.tries, m.asked)
		}
		w.mu.Unlock()
		mend()
		pass(time.Second)
		wantTicks(t, c, "g", 5*time.Second) // tried at 5 s again
	})
}

// Whoever moves the clock sees what is due, without a timer.
func TestTickDoesWhatIsDueAtTheClock(t *testing.T) {
	clock := start
	s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{}), Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c := New(Options{Store: s, Now: func() time.Time { return clock }, OffsetsPartitions: 3})
	setDeadline(t, c, "g", start.Add(time.Hour), func(m *fakeMachine) { m.refuse = ErrNonEmptyGroup })
	c.Tick()
	wantTicks(t, c, "g")
	clock = start.Add(2 * time.Hour)
	c.Tick()
	wantTicks(t, c, "g", 2*time.Hour)
}
