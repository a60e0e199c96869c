package txn

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func (w *world) wantStats(what, want string) {
	w.t.Helper()
	if got := fmt.Sprintf("%+v", w.c.Stats()); got != want {
		w.t.Errorf("%s: got %s, want %s", what, got, want)
	}
}

func TestIDsAreCountedByState(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("orders", 2)
		w.topic(offsetsTopic, 2)
		w.wantStats("before the first id", "{States:[] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:0}")
		w.init("idle")
		w.init("idle-2")
		w.add("open", w.init("open"), true, ordersZero)
		done, stuck := w.init("done"), w.init("stuck")
		w.add("done", done, true, ordersZero)
		w.end("done", done, false, true)
		w.add("stuck", stuck, true, ordersZero, Partition{offsetsTopic, 0}, Partition{offsetsTopic, 1})
		w.mu.Lock()
		w.refuse = errors.New("not now")
		w.mu.Unlock()
		w.end("stuck", stuck, true, true)
		synctest.Wait()
		w.wantStats("while a group coordinator takes no marker",
			"{States:[{State:Empty Count:2} {State:Ongoing Count:1} {State:PrepareCommit Count:1} {State:CompleteAbort Count:1}] Retrying:1 Markers:2 Loading:0 Failed:0 Unreadable:0}")
		w.mu.Lock()
		w.refuse = nil
		w.mu.Unlock()
		w.advance(time.Second)
		w.wantStats("afterwards",
			"{States:[{State:Empty Count:2} {State:Ongoing Count:1} {State:CompleteCommit Count:1} {State:CompleteAbort Count:1}] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:0}")
	})
}

// A partition that is at work, perhaps with the disk, is not waited for.
func TestStatsWaitForNoLockThatIsHeldOverTheDisk(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.c.ownerOf("payments")
		o.mu.Lock()
		w.wantStats("new, and at work at once", "{States:[] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:0}")
		o.mu.Unlock()
		p := w.init("payments")
		w.wantStats("at rest", "{States:[{State:Empty Count:1}] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:0}")
		w.add("payments", p, true, ordersZero)
		o.mu.Lock()
		w.wantStats("at work", "{States:[{State:Empty Count:1}] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:0}")
		o.mu.Unlock()
		w.wantStats("at rest again", "{States:[{State:Ongoing Count:1}] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:0}")
		w.stop()
		w.start(Config{})
		o = w.c.ownerOf("payments")
		o.mu.Lock()
		w.wantStats("at work since it was loaded", "{States:[{State:Ongoing Count:1}] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:0}")
		o.mu.Unlock()
	})
}

func TestWhatCannotBeReadIsCounted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.init("payments")
		log := w.c.ownerOf("payments").log
		batch := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		for _, r := range []record.Record{
			{Key: appendKey(nil, "payments"), Value: []byte{0, 9}},
			{Key: appendKey(nil, "payments"), Value: []byte{0, 8}},
			{Key: appendKey(nil, "mended"), Value: []byte{0, 9}},
			{Key: appendKey(nil, "mended"), Value: appendValue(nil, samples()["v1 ongoing"])},
		} {
			batch.Append(r)
		}
		a, err := log.Append(batch.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator})
		if err == nil {
			err = log.WaitDurable(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.start(Config{})
		w.wantStats("with records that cannot be read", "{States:[{State:Empty Count:1} {State:Ongoing Count:1}] Retrying:0 Markers:0 Loading:0 Failed:0 Unreadable:1}")
		w.stop()
		broken := fmt.Sprintf("/%s-%d/", StateTopic, log.Index())
		w.breakDisk(func(op vfs.Op) error {
			if op.Kind == vfs.OpReadAt && strings.Contains(op.Name, broken) {
				return errors.New("disk on fire")
			}
			return nil
		})
		w.start(Config{})
		w.wantStats("with a partition that cannot be read", "{States:[] Retrying:0 Markers:0 Loading:0 Failed:1 Unreadable:0}")
	})
}

// Stats may be asked for while everything else goes on; nothing is counted twice.
func TestStatsWhileIDsAreUsed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var users, asker sync.WaitGroup
		over, end := context.WithCancel(t.Context())
		asker.Go(func() {
			for over.Err() == nil {
				n := 0
				for _, s := range w.c.Stats().States {
					n += s.Count
				}
				if n > 4 {
					t.Errorf("%d ids are counted, there are 4", n)
				}
			}
		})
		for i := range 4 {
			users.Go(func() {
				for range 50 {
					if _, err := w.c.Init(t.Context(), InitRequest{TransactionalID: fmt.Sprint("id-", i), Timeout: time.Minute}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		users.Wait()
		end()
		asker.Wait()
	})
}
