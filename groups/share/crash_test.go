package share

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

// crash is what a power loss could have left, and what had been answered until then.
type crash struct {
	fs     *vfs.Mem
	what   string
	answer map[int64]AckType
}

// What was acknowledged is so after a crash at that instant, and at every later one: a
// record that was accepted is never delivered again, one released is, with its count.
func TestAnsweredAcknowledgementsSurviveACrashAtEverySync(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	r := rand.New(rand.NewPCG(11, 1))
	var (
		mu      sync.Mutex
		answers = map[int64]AckType{}
		crashes []crash
		taking  bool
	)
	take := func(what string) {
		mu.Lock()
		defer mu.Unlock()
		if !taking {
			return
		}
		for _, keep := range []float64{0, r.Float64()} {
			crashes = append(crashes, crash{mem.CrashClone(r.Uint64(), keep), fmt.Sprintf("%s, %.2f kept", what, keep), maps.Clone(answers)})
		}
	}
	w := open(t, vfs.Inject(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir {
			take(fmt.Sprint("before ", op.Kind, " of ", op.Name))
		}
		return nil
	}), Config{UpdatesPerSnapshot: 4})
	w.produce(0, 20)
	w.initialize(0, 0)
	w.want("fetch", w.fetch(w.request("a", 0)), "0:0-19×1")
	mu.Lock()
	taking = true
	mu.Unlock()
	for _, o := range r.Perm(20) {
		as := []AckType{Accept, Release, Reject}[r.IntN(3)]
		if err := w.ack("a", 0, int64(o), int64(o), as); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		answers[int64(o)] = as
		mu.Unlock()
		take("after an answer")
	}
	mu.Lock()
	taking = false
	mu.Unlock()
	if len(crashes) < 60 {
		t.Fatalf("took %d crashes, want more", len(crashes))
	}
	for _, c := range crashes {
		w := open(t, c.fs, Config{})
		got := map[int64]int16{}
		fetched, err := w.st.Fetch(t.Context(), w.request("b", 0))
		if err == nil {
			err = fetched[0].Err
		}
		if err != nil {
			t.Fatalf("%s: %v", c.what, err)
		}
		for _, a := range fetched[0].Acquired {
			for o := a.First; o <= a.Last; o++ {
				got[o] = a.Deliveries
			}
		}
		for o, as := range c.answer {
			if want := map[AckType]int16{Accept: 0, Reject: 0, Release: 2}[as]; got[o] != want {
				t.Errorf("%s: offset %d, answered as %d, is delivered as %d, want %d", c.what, o, as, got[o], want)
			}
		}
	}
}

// When the disk refuses a change, the records stay with their member, and what is stored
// is read again.
func TestAFailedWriteChangesNothing(t *testing.T) {
	var broken bool
	var mu sync.Mutex
	w := open(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if broken && op.Kind == vfs.OpSync {
			return errors.New("disk on fire")
		}
		return nil
	}), Config{})
	w.produce(0, 10)
	w.initialize(0, 0)
	w.fetch(w.request("a", 0))
	mu.Lock()
	broken = true
	mu.Unlock()
	err := w.ack("a", 0, 0, 4, Accept)
	if !errors.Is(err, ErrNotAvailable) {
		t.Fatalf("acknowledge: got %v, want %v", err, ErrNotAvailable)
	}
	mu.Lock()
	broken = false
	mu.Unlock()
	if err = w.ack("a", 0, 0, 4, Accept); err != nil && !errors.Is(err, ErrNotAvailable) {
		t.Fatalf("acknowledge again: got %v, want none or %v", err, ErrNotAvailable)
	}
	want := "0 0 true"
	if err == nil {
		want = "0 5 true"
	}
	if got := w.summary(0); got != want && got != "-1 -1 false" {
		t.Errorf("summary: got %q, want %q, or nothing while the log is offline", got, want)
	}
}
