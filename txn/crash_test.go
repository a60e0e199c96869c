package txn

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

var (
	ordersZero = Partition{"orders", 0}
	ordersOne  = Partition{"orders", 1}
)

// promises are what a client was told.
type promises struct {
	producer  Producer   // it goes on as
	markers   [][]string // by partition: the data that was written and the ends that were answered
	open      bool       // a transaction was begun that was not ended
	undecided bool       // it was asked to end
}

// crash is what a power loss could have left, and what was promised until then.
type crash struct {
	mem  *vfs.Mem
	what string
	promises
}

// crashes are taken before every sync.
type crashes struct {
	rand *rand.Rand

	mu    sync.Mutex
	now   promises
	taken []crash
}

func (c *crashes) take(mem *vfs.Mem, what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, keep := range []float64{0, c.rand.Float64()} {
		c.taken = append(c.taken, crash{mem.CrashClone(c.rand.Uint64(), keep), fmt.Sprintf("%s, %.2f kept", what, keep), c.now})
	}
}

// hook takes crashes of a world.
func (c *crashes) hook(mem *vfs.Mem) func(op vfs.Op) error {
	return func(op vfs.Op) error {
		if op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir {
			c.take(mem, fmt.Sprint("before ", op.Kind, " of ", op.Name))
		}
		return nil
	}
}

// promise notes an answer, and takes a crash at that instant.
func (c *crashes) promise(w *world, f func(p *promises)) {
	c.mu.Lock()
	p := c.now
	p.markers = [][]string{slices.Clone(p.markers[0]), slices.Clone(p.markers[1])}
	f(&p)
	c.now = p
	c.mu.Unlock()
	c.take(w.mem, "after an answer")
}

// What was answered holds after a crash at that instant and at every later one, and after a
// crash of the recovery: the producer, and each end in every partition. A transaction that
// was to end ends in all partitions in the same way, or in none.
func TestAnsweredStepsSurviveACrashAtEverySync(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		t.Run(fmt.Sprint("v2=", v2), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := &crashes{rand: rand.New(rand.NewPCG(3, 9)), now: promises{producer: NoProducer, markers: make([][]string, 2)}}
				w := newWorld(t)
				defer func() { w.stop() }()
				w.topic("orders", 2)
				w.breakDisk(c.hook(w.mem))
				p := w.init("payments")
				c.promise(w, func(n *promises) { n.producer = p })
				for i := range 3 {
					w.add("payments", p, v2, ordersZero, ordersOne)
					w.produce(ordersZero, p)
					w.produce(ordersOne, p)
					c.promise(w, func(n *promises) { n.open = true })
					c.promise(w, func(n *promises) { n.undecided = true })
					commit := i%2 == 0
					next := w.end("payments", p, commit, v2)
					if !v2 {
						next = p
					}
					c.promise(w, func(n *promises) {
						n.open, n.undecided, n.producer = false, false, next
						for at := range n.markers {
							n.markers[at] = append(n.markers[at], "1 data, "+markerText(commit, next))
						}
					})
					p = next
					synctest.Wait()
				}
				w.breakDisk(nil)
				if len(c.taken) < 60 {
					t.Fatalf("took %d crashes, want more", len(c.taken))
				}
				for _, after := range c.taken {
					after.check(t)
				}
			})
		})
	}
}

// check starts on what the crash left, cuts the power again while that is recovered, and
// starts once more.
func (c crash) check(t *testing.T) {
	again := &crashes{rand: rand.New(rand.NewPCG(uint64(len(c.what)), 1)), now: c.promises}
	w := openWorld(t, c.mem)
	again.take(w.mem, c.what+", then while it was recovered")
	w.check(c)
	w.stop()
	for _, second := range again.taken[:1] {
		w := openWorld(t, second.mem)
		w.check(second)
		w.stop()
	}
}

func (w *world) check(c crash) {
	w.t.Helper()
	if c.producer == NoProducer {
		return
	}
	d, err := w.c.Describe("payments")
	if err != nil || d.Producer.ID != c.producer.ID || d.Epoch < c.producer.Epoch || d.Epoch > c.producer.Epoch+1 {
		w.t.Errorf("%s: got %+v, error %v; want the producer %s, or the next epoch", c.what, d, err, producerText(c.producer))
		return
	}
	if strings.HasPrefix(d.State, "Prepare") {
		w.t.Errorf("%s: got %+v, want its markers written", c.what, d)
	}
	var rest [2]string
	for i, p := range []Partition{ordersZero, ordersOne} {
		got := w.ends(p)
		want := c.markers[i]
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			w.t.Errorf("%s: %v has %q, want %q first", c.what, p, got, want)
			continue
		}
		rest[i] = strings.Join(got[len(want):], "; ")
	}
	if !c.undecided {
		if c.open && (rest[0] != "1 data" || rest[1] != "1 data") {
			w.t.Errorf("%s: after what ended there is %q, want open transactions", c.what, rest)
		}
		return
	}
	if rest[0] != rest[1] {
		w.t.Errorf("%s: the partitions differ: %q", c.what, rest)
	}
}

// ends are the markers of a partition, those that came again left out.
func (w *world) ends(p Partition) []string {
	return slices.DeleteFunc(w.markers(p), func(s string) bool { return strings.HasPrefix(s, "0 data, ") })
}

// When any one operation of the disk fails, whoever was told that it did may try again, and
// in the end all partitions have the same.
func TestAFaultAtAnyOperationLeavesAllPartitionsAlike(t *testing.T) {
	const attempts = 40
	operations := 0
	for fault := 0; ; fault++ {
		left, fired := fault, false
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			defer func() { w.kill() }() // it may be the one that fails
			w.topic("orders", 2)
			p := w.init("payments")
			w.breakDisk(func(op vfs.Op) error {
				if op.Kind != vfs.OpSync && op.Kind != vfs.OpWriteAt && op.Kind != vfs.OpCreate && op.Kind != vfs.OpSyncDir {
					return nil
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				if left--; left == -1 {
					fired = true
					return errors.New("disk on fire")
				}
				return nil
			})
			ctx := context.Background()
			until := func(what string, f func() error) {
				t.Helper()
				for n := range attempts {
					err := f()
					switch {
					case err == nil:
						return
					case !errors.Is(err, ErrNotCoordinator) && !errors.Is(err, ErrConcurrentTransactions) && !errors.Is(err, ErrNotAvailable):
						t.Fatalf("fault %d, %s: %v", fault, what, err)
					case n == attempts/2: // a log may be offline now
						w.breakDisk(nil)
						w.kill()
						now := w.clock()
						w = openWorldAt(t, w.mem, now, (*world).endOffsets)
					}
					w.advance(100 * time.Millisecond)
				}
				t.Fatalf("fault %d: %s does not come to pass", fault, what)
			}
			until("add", func() error {
				return w.c.Add(ctx, AddRequest{TransactionalID: "payments", Producer: p, Partitions: []Partition{ordersZero, ordersOne}, V2: true})
			})
			until("commit", func() error {
				_, err := w.c.End(ctx, EndRequest{TransactionalID: "payments", Producer: p, Commit: true, V2: true})
				return err
			})
			until("the end", func() error {
				synctest.Wait()
				if d, err := w.c.Describe("payments"); err != nil || d.State != "CompleteCommit" {
					return fmt.Errorf("%s: %w", d.State, ErrConcurrentTransactions)
				}
				return nil
			})
			if a, b := w.markers(ordersZero), w.markers(ordersOne); len(a) == 0 || len(b) == 0 {
				t.Errorf("fault %d: the markers are %q and %q, want one in each", fault, a, b)
			}
		})
		if !fired {
			break
		}
		operations++
	}
	if operations < 8 {
		t.Errorf("met %d operations, want more", operations)
	}
}
