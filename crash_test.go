package gateway

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/kaen-log/gateway/storage/vfs"
)

var (
	crashSeeds = flag.Int("crash.seeds", 200, "how many seeds TestCrashLosesNothing tries; the other crash tests try a share of that")
	crashSeed  = flag.Uint64("crash.seed", 0, "the first seed; with -crash.seeds 1 the only one")
)

// TestCrashLosesNothing has clients at work on a whole server whose disk goes off at a random file operation, starts a
// new server on what is left, and holds that against what the clients know; and then again, also while it recovers.
// A seed decides what the clients do and where the disk goes off, not how the goroutines interleave: a failure may
// take a few runs of its seed to show again.
func TestCrashLosesNothing(t *testing.T) {
	defer goleak.VerifyNone(t)
	var all crashStats
	for i := range *crashSeeds {
		seed := *crashSeed + uint64(i)
		stats, err := crashRun(crashSetup{}, seed)
		if err != nil {
			t.Fatalf("seed %d: %v\nrepeat: go test -run 'TestCrashLosesNothing$' -crash.seed %d -crash.seeds 1 -count 20 .", seed, err, seed)
		}
		all.ops += stats.ops
		all.acks += stats.acks
		all.batches += stats.batches
		all.crashes += stats.crashes
	}
	t.Logf("%d seeds: %d crashes, %d batches, %d answers that promise something, %d changing file operations",
		*crashSeeds, all.crashes, all.batches, all.acks, all.ops)
}

// crashSetup is what the runs of a test have in common.
type crashSetup struct {
	// options, when not nil, changes the options of each server.
	options func(*Options)
	// wrap, when not nil, makes for each life what stands between the server and the disk.
	wrap func() func(vfs.FS) vfs.FS
	// ends says how the lives end; by turns as the seed has it when it is empty.
	ends []crashKind
}

// crashRun is one history with its crashes. The error tells what was broken.
func crashRun(setup crashSetup, seed uint64) (stats crashStats, err error) {
	r := rand.New(rand.NewPCG(seed, 1))
	h := newHistory(2)
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	lives := max(1+r.IntN(3), len(setup.ends))
	var before []string // what was done last in the life before
	what := "new"
	for n := 0; n <= lives; n++ {
		var wrap func(vfs.FS) vfs.FS
		if setup.wrap != nil {
			wrap = setup.wrap()
		}
		d := newDisk(mem, wrap)
		if n < lives {
			d.choose(r, n > 0)
			if len(setup.ends) > 0 {
				d.end = setup.ends[n%len(setup.ends)]
			}
		} else {
			d.end = stopped
		}
		l, err := runLife(d, h, setup.options, r.Uint64(), n, n == lives)
		stats.ops += int(d.ops.Load())
		if err != nil && !d.off.Load() {
			h.violate("life %d, after %s: %v", n, what, err)
		}
		mem, err = l.stop()
		if err != nil {
			h.violate("shutdown of life %d: %v", n, err)
		}
		if h.broken() {
			return stats, fmt.Errorf("life %d, after %s:\n  %s\nthe life before did last:\n  %s\nthis one did last:\n  %s\nand logged:\n%s",
				n, what, strings.Join(h.violations, "\n  "), strings.Join(before, "\n  "), strings.Join(d.lines(), "\n  "), l.log.tail(40))
		}
		before = d.lines()
		what = fmt.Sprintf("%v at operation %d of %d, keeping %.2f", d.end, d.at, d.ops.Load(), d.keep)
	}
	stats.acks, stats.batches, stats.crashes = h.acks, h.batches, lives
	return stats, nil
}

// crashStats say how much a run did.
type crashStats struct{ ops, acks, batches, crashes int }

// choose decides how the life on this disk ends.
func (d *disk) choose(r *rand.Rand, again bool) {
	d.seed = r.Uint64()
	switch r.IntN(8) {
	case 0:
		d.end = stopped
	case 1, 2:
		d.end = killed
	}
	if r.IntN(2) == 0 {
		d.keep = r.Float64()
	}
	d.at = r.Int64N(800)
	if again && r.IntN(2) == 0 {
		d.at = r.Int64N(60) // while it recovers
	}
}

// runLife starts a server, verifies it, and puts it under load until its disk goes off or all is done.
func runLife(d *disk, h *history, options func(*Options), seed uint64, n int, last bool) (*life, error) {
	var running atomic.Pointer[load]
	d.hang = func() {
		if w := running.Load(); w != nil {
			w.poke()
		}
	}
	l, err := startLife(d, options)
	if err != nil {
		return l, err
	}
	w := &load{life: l, h: h, seed: seed, scale: 1}
	defer w.hangUp()
	running.Store(w)
	if n > 0 && !w.verify() || last {
		return l, nil
	}
	w.run()
	return l, nil
}
