package gateway

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// faults are operations that fail: from one on, so many of a kind.
type faults struct {
	name string
	// fails says whether an operation is of the kind, and with what it fails.
	fails func(op vfs.Op, r *rand.Rand) error
	// reads says that reading may fail.
	reads bool

	mu   sync.Mutex
	r    *rand.Rand // guarded by mu
	skip int        // guarded by mu; operations of the kind before the first that fails; -1 for none that does
	n    int        // guarded by mu; that are to fail
	done int        // guarded by mu; that have failed
	hit  func()     // called before the first fails
}

// faultKinds returns one of each kind.
func faultKinds() []*faults {
	return []*faults{
		{name: "full", fails: func(op vfs.Op, r *rand.Rand) error {
			switch op.Kind {
			case vfs.OpWriteAt:
				return &vfs.ShortWrite{N: r.IntN(op.Size + 1)}
			case vfs.OpCreate, vfs.OpMkdirAll:
				return vfs.ErrNoSpace
			case vfs.OpSync:
				if r.IntN(4) == 0 {
					return vfs.ErrNoSpace // delayed allocation
				}
			}
			return nil
		}},
		{name: "broken", fails: func(op vfs.Op, r *rand.Rand) error {
			if op.Kind.Mutates() {
				return syscall.EIO
			}
			return nil
		}},
		{name: "lost sync", fails: func(op vfs.Op, r *rand.Rand) error {
			if op.Kind == vfs.OpSync {
				return &vfs.LostSync{Err: syscall.EIO}
			}
			return nil
		}},
		{name: "unreadable", reads: true, fails: func(op vfs.Op, r *rand.Rand) error {
			switch op.Kind {
			case vfs.OpReadAt, vfs.OpOpen, vfs.OpSize, vfs.OpStat, vfs.OpList:
				return syscall.EIO
			}
			return nil
		}},
	}
}

func (f *faults) inject(op vfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.skip < 0 || f.n == 0 {
		return nil
	}
	err := f.fails(op, f.r)
	if err == nil {
		return nil
	}
	if f.skip > 0 {
		f.skip--
		return nil
	}
	f.hit()
	f.n--
	f.done++
	return err
}

func (f *faults) heal() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n = 0
}

// TestFaultsHeal lets file operations of a whole server fail under load. Meanwhile clients get errors of the disk and
// nothing else, and can read; when the faults are over the server takes everything at once, by itself; and nothing that
// was answered is missing, there and after a power loss.
func TestFaultsHeal(t *testing.T) {
	defer goleak.VerifyNone(t)
	done := map[string]int{}
	for i := range *crashSeeds / 2 {
		seed := *crashSeed + uint64(i)
		f := newFaults(seed)
		if err := faultRun(f, seed); err != nil {
			t.Fatalf("seed %d: %v\nrepeat: go test -run 'TestFaultsHeal$' -crash.seed %d -crash.seeds 2 -count 20 .", seed, err, seed)
		}
		done[f.name] += f.done
	}
	t.Logf("operations that failed: %v", done)
}

// newFaults returns the faults of a seed.
func newFaults(seed uint64) *faults {
	kinds := faultKinds()
	f := kinds[seed%uint64(len(kinds))]
	f.r = rand.New(rand.NewPCG(seed, 5))
	f.skip, f.n = -1, []int{1, 1, 2, 5, 20, 60}[f.r.IntN(6)]
	return f
}

// faultRun is one history with faults, and a power loss at its end.
func faultRun(f *faults, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 2))
	first := r.IntN(400)
	h := newHistory(2)
	d := newDisk(vfs.NewMem(vfs.MemOptions{Crashable: true}), nil)
	d.seed, d.inj = r.Uint64(), f.inject
	if r.IntN(2) == 0 {
		d.keep = r.Float64()
	}
	l, err := startLife(d, nil)
	if err != nil {
		return err
	}
	w := &load{life: l, h: h, seed: r.Uint64(), scale: 1, readsFail: f.reads}
	f.hit = func() { w.faulty.Store(true) }
	w.begun = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.skip = first
	}
	w.run()
	f.heal()
	w.faulty.Store(false)
	w.afterFaults(r)
	w.hangUp()
	select {
	case <-l.g.Done():
		h.violate("the server gave up: %v", l.g.Err())
	default:
	}
	what := fmt.Sprintf("%d faults %q from operation %d on", f.done, f.name, first)
	report := func(where string, l *life) error {
		if !h.broken() {
			return nil
		}
		return fmt.Errorf("%s, %s:\n  %s\nlast operations:\n  %s\nlog:\n%s",
			what, where, strings.Join(h.violations, "\n  "), strings.Join(l.disk.lines(), "\n  "), l.log.tail(40))
	}
	if err := report("at once", l); err != nil {
		_, _ = l.stop()
		return err
	}
	mem, err := l.stop()
	if err != nil {
		return fmt.Errorf("shutdown: %w", err)
	}
	l, err = runLife(newStoppedDisk(mem), h, nil, r.Uint64(), 1, true)
	if err != nil {
		h.violate("start: %v", err)
	}
	err = report("after a power loss", l)
	if _, stopErr := l.stop(); err == nil {
		err = stopErr
	}
	return err
}

// newStoppedDisk returns a disk whose server is stopped in order.
func newStoppedDisk(mem *vfs.Mem) *disk {
	d := newDisk(mem, nil)
	d.end = stopped
	return d
}

// afterFaults does one of everything, which has to succeed, and holds the server against what is known.
func (l *load) afterFaults(r *rand.Rand) {
	c := l.connect()
	if c == nil {
		return
	}
	for _, p := range l.h.existing() {
		for _, by := range append(l.h.producers[:len(l.h.producers):len(l.h.producers)], nil) {
			b := l.h.newBatch(by, p, 1, "after", record.None)
			l.produced(<-c.send(produceRequest(-1, []*batch{b})), []*batch{b}, false)
		}
	}
	for i := range 4 {
		l.commitOffset(c, commitKey{fmt.Sprintf("group-%d", i), part{loadTopics[0], 0}})
	}
	l.deleteRecords(c, r)
	l.createTopic(c, "after", 1)
	b := l.h.newBatch(nil, part{"after", 0}, 1, "", record.None)
	l.produced(<-c.send(produceRequest(-1, []*batch{b})), []*batch{b}, false)
	l.grow(c, "after", 2)
	l.verify()
	l.deleteTopic(c, "after")
}
