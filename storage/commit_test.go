package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// syncGate holds back the syncs of .log files.
type syncGate struct {
	mu    sync.Mutex
	wait  chan struct{} // guarded by mu; nil: syncs pass
	syncs int           // guarded by mu
	err   error         // guarded by mu; of the next syncs
}

func (g *syncGate) wrap(fsys vfs.FS) vfs.FS {
	return vfs.Inject(fsys, func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !strings.HasSuffix(op.Name, logSuffix) {
			return nil
		}
		g.mu.Lock()
		g.syncs++
		wait := g.wait
		g.mu.Unlock()
		if wait != nil {
			<-wait
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.err
	})
}

func (g *syncGate) close() (open func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	ch := make(chan struct{})
	g.wait = ch
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		close(ch)
		g.wait = nil
	}
}

// count is the number of syncs so far.
func (g *syncGate) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.syncs
}

func (g *syncGate) fail(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.err = err
}

// TestGoldenTraceOfSyncs shows in which order the operations of a log make things durable.
func TestGoldenTraceOfSyncs(t *testing.T) {
	var trace []string
	mem := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, mem)
	rig.fs = vfs.Log(mem, func(line string) {
		if !strings.Contains(line, "no such file") {
			trace = append(trace, line)
		}
	})
	rig.configs["internal.segment.bytes"] = "200"
	l := rig.start()
	datadriven.RunTest(t, "testdata/log_syncs.txt", func(t *testing.T, d *datadriven.TestData) string {
		trace = nil
		var err error
		switch d.Cmd {
		case "append":
			appendDurably(t, l, testBatch(d.CmdArgs[0].Key))
		case "flush":
			err = l.flush()
		case "delete-before":
			var offset int64
			d.ScanArgs(t, "offset", &offset)
			_, err = l.DeleteBefore(offset)
		case "rewrite":
			var base, count, keep int64
			d.ScanArgs(t, "base", &base)
			d.ScanArgs(t, "count", &count)
			d.ScanArgs(t, "keep", &keep)
			_, err = l.Rewrite(base, int(count), keepOffsets(keep))
		case "stop":
			rig.stop(l)
		case "kill":
			rig.kill(l)
		case "start":
			l = rig.start()
			_, err = l.Offsets()
		default:
			t.Fatalf("unknown command %s", d.Cmd)
		}
		if err != nil {
			trace = append(trace, err.Error())
		}
		return strings.Join(trace, "\n") + "\n"
	})
	rig.kill(l)
}

func TestOneSyncServesAllWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
		l := rig.start()
		appendDurably(t, l, testBatch("first"))
		before := gate.count()
		open := gate.close()
		var done sync.WaitGroup
		appended := make([]Appended, 20)
		for i := range appended {
			appended[i] = appendTo(t, l, testBatch(fmt.Sprint(i)))
			done.Go(func() {
				if err := l.WaitDurable(context.Background(), appended[i]); err != nil {
					t.Errorf("wait for append %d: %v", i, err)
				}
			})
			if i == 0 {
				synctest.Wait() // its sync has begun
			}
		}
		synctest.Wait()
		wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 1, End: 21})
		if got := readValues(t, l, 0, ReadUncommitted); len(got) != 1 {
			t.Errorf("read %v before the sync ended, want the first record only", got)
		}
		open()
		done.Wait()
		if n := gate.count() - before; n != 2 {
			t.Errorf("%d syncs for 20 appends, want 2: the first append's and one for all the others", n)
		}
		rig.stop(l)
	})
}

func TestDuplicateWaitsForItsOriginal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
		l := rig.start()
		open := gate.close()
		appendTo(t, l, idempotentBatch(1, 0, 0, 1))
		a, err := l.Append(idempotentBatch(1, 0, 0, 1), AppendOptions{})
		if err != nil || !a.Duplicate {
			t.Fatalf("got %+v, %v, want a duplicate", a, err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := l.WaitDurable(ctx, a); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("wait while the original is not durable: got %v, want DeadlineExceeded", err)
		}
		open()
		if err := l.WaitDurable(context.Background(), a); err != nil {
			t.Errorf("wait: %v", err)
		}
		rig.stop(l)
	})
}

func TestFailedSyncCutsTheLogBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
		rig.configs["internal.segment.bytes"] = "300"
		l := rig.start()
		appendDurably(t, l, idempotentBatch(1, 0, 0, 1))
		poke := make(chan struct{}, 1)
		defer l.Watch(poke)()
		open := gate.close()
		var lost []Appended
		for i := range int32(8) {
			lost = append(lost, appendTo(t, l, idempotentBatch(1, 0, i+1, 1)))
		}
		var waits sync.WaitGroup
		for _, a := range lost {
			waits.Go(func() {
				if err := l.WaitDurable(context.Background(), a); !errors.Is(err, ErrStorage) || !errors.Is(err, errInjected) {
					t.Errorf("wait for offset %d: got %v, want ErrStorage with its cause", a.NextOffset, err)
				}
			})
		}
		synctest.Wait()
		gate.fail(errInjected)
		open()
		waits.Wait()
		wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 1, End: 1})
		wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=0/0")
		// The cut cannot be synced either.
		if _, err := l.Append(idempotentBatch(1, 0, 1, 1), AppendOptions{}); !errors.Is(err, ErrStorage) {
			t.Errorf("append while the disk fails: got %v, want ErrStorage", err)
		}
		wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=0/0")
		gate.fail(nil)
		for i := range int32(3) {
			if a := appendDurably(t, l, idempotentBatch(1, 0, i+1, 1)); a.BaseOffset != int64(i+1) || a.Duplicate {
				t.Errorf("sequence %d again: got %+v, want it written at offset %d", i+1, a, i+1)
			}
		}
		// Who asks late is not told that the later append's durability is theirs.
		for _, a := range lost {
			if err := l.WaitDurable(context.Background(), a); !errors.Is(err, ErrStorage) {
				t.Errorf("late wait for offset %d: got %v, want ErrStorage", a.NextOffset, err)
			}
		}
		wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=0/0", "1=1/0", "2=2/0", "3=3/0")
		select {
		case <-poke:
		default:
			t.Error("watchers were not poked")
		}
		rig.stop(l)
		l = rig.start()
		wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=0/0", "1=1/0", "2=2/0", "3=3/0")
		rig.stop(l)
	})
}

func TestFailedSyncTakesBackATransactionsEnd(t *testing.T) {
	gate := &syncGate{}
	rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
	l := rig.start()
	appendCoordinator(t, l, txnBatch(3, 0, 0, 1))
	gate.fail(errInjected)
	a, err := l.Append(record.EndTxnMarker(3, 0, record.Marker{}, 1, 0), AppendOptions{Origin: OriginCoordinator})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if !errors.Is(err, ErrStorage) {
		t.Errorf("marker: got %v, want ErrStorage", err)
	}
	wantOffsets(t, l, Offsets{LastStable: 0, HighWatermark: 1, End: 1})
	gate.fail(nil)
	appendCoordinator(t, l, record.EndTxnMarker(3, 0, record.Marker{Commit: true}, 1, 0))
	wantOffsets(t, l, Offsets{LastStable: 2, HighWatermark: 2, End: 2})
	if res, err := l.Read(nil, ReadRequest{MaxBytes: 1000, Isolation: ReadCommitted}); err != nil || len(res.Aborted) != 0 {
		t.Errorf("aborted: got %+v, %v, want none: it was committed in the end", res.Aborted, err)
	}
	rig.stop(l)
}

func TestAsyncIsVisibleAtOnceAndSyncsLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
		rig.durability = Async
		rig.configs["message.timestamp.after.max.ms"] = "9223372036854775807"
		l := rig.start()
		a := appendTo(t, l, testBatch("a"))
		if err := l.WaitDurable(context.Background(), a); err != nil {
			t.Fatal(err)
		}
		wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=a")
		synctest.Wait()
		if n := gate.count(); n != 0 {
			t.Errorf("%d syncs before the delay", n)
		}
		time.Sleep(asyncDelay)
		synctest.Wait()
		if n := gate.count(); n != 1 {
			t.Errorf("%d syncs after the delay, want 1", n)
		}
		rig.stop(l)
	})
}

func TestAsyncFailedSyncTakesTheLogOffline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
		rig.durability = Async
		rig.configs["message.timestamp.after.max.ms"] = "9223372036854775807"
		l := rig.start()
		appendDurably(t, l, testBatch("a"))
		gate.fail(errInjected)
		time.Sleep(asyncDelay)
		synctest.Wait()
		if _, err := l.Append(testBatch("b"), AppendOptions{}); !errors.Is(err, ErrOffline) || !errors.Is(err, errInjected) {
			t.Errorf("append: got %v, want ErrOffline with its cause", err)
		}
		rig.kill(l)
	})
}

func TestDeletedLogLetsGoOfEverybody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
		l := rig.start()
		open := gate.close()
		a := appendTo(t, l, testBatch("a"))
		poke := make(chan struct{}, 1)
		defer l.Watch(poke)()
		var waits sync.WaitGroup
		waits.Go(func() {
			if err := l.WaitDurable(context.Background(), a); !errors.Is(err, ErrLogDeleted) {
				t.Errorf("wait: got %v, want ErrLogDeleted", err)
			}
		})
		synctest.Wait()
		waits.Go(l.markDeleted)
		synctest.Wait()
		open()
		waits.Wait()
		<-poke
		if _, err := l.Append(testBatch("b"), AppendOptions{}); !errors.Is(err, ErrLogDeleted) {
			t.Errorf("append: got %v, want ErrLogDeleted", err)
		}
		if _, err := l.Read(nil, ReadRequest{MaxBytes: 1}); !errors.Is(err, ErrLogDeleted) {
			t.Errorf("read: got %v, want ErrLogDeleted", err)
		}
		if n := rig.ctx.files.count(); n != 0 {
			t.Errorf("%d files are open", n)
		}
		rig.ctx.commits.close()
	})
}

func TestWatchersArePokedWhenRecordsBecomeVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
		l := rig.start()
		wantOffsets(t, l, Offsets{})
		poke := make(chan struct{}, 1)
		stop := l.Watch(poke)
		open := gate.close()
		appendTo(t, l, testBatch("a"))
		synctest.Wait()
		select {
		case <-poke:
			t.Error("poked before the record was durable")
		default:
		}
		open()
		<-poke
		stop()
		appendDurably(t, l, testBatch("b"))
		select {
		case <-poke:
			t.Error("poked after stop")
		default:
		}
		rig.stop(l)
	})
}

func TestQueueOfABusyCommitterStaysSmall(t *testing.T) {
	c := newCommitter(0)
	c.enqueue(nil)
	for range 10_000 {
		c.enqueue(nil)
		c.front++ // as a worker does, and there is always one more
	}
	if n := cap(c.queue); n > 100 {
		t.Errorf("the queue of two logs has room for %d", n)
	}
}

// What was written and not synced when the topic goes is of no use; its file is closed, or its space would not be free.
func TestAsyncLogThatIsDeletedClosesItsFiles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		rig.durability = Async
		rig.configs["message.timestamp.after.max.ms"] = "9223372036854775807"
		l := rig.start()
		appendDurably(t, l, testBatch("a"))
		l.markDeleted()
		if n := rig.ctx.files.count(); n != 0 {
			t.Errorf("%d files are open, want 0", n)
		}
		time.Sleep(2 * asyncDelay)
		synctest.Wait()
		rig.ctx.commits.close()
	})
}

// A clean stop that came while a commit was about to fail waits for its own flush and tells of what became of that.
func TestCloseTellsOfAFlushBehindAFailedCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var failures map[string]chan struct{} // by ending; the next sync waits and fails
		rig := newLogRig(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
			suffix := filepath.Ext(op.Name)
			if op.Kind != vfs.OpSync || failures[suffix] == nil {
				return nil
			}
			<-failures[suffix]
			delete(failures, suffix)
			return errInjected
		}))
		l := rig.start()
		appendDurably(t, l, testBatch("a"))
		failures = map[string]chan struct{}{logSuffix: make(chan struct{}), indexSuffix: make(chan struct{})}
		a := appendTo(t, l, testBatch("b"))
		synctest.Wait()
		var closing sync.WaitGroup
		closing.Go(func() {
			if err := l.close(); !errors.Is(err, errInjected) {
				t.Errorf("close: got %v, want the error of its flush", err)
			}
		})
		for _, suffix := range []string{logSuffix, indexSuffix} {
			synctest.Wait()
			close(failures[suffix])
		}
		closing.Wait()
		if err := l.WaitDurable(context.Background(), a); !errors.Is(err, ErrStorage) {
			t.Errorf("append: got %v, want ErrStorage", err)
		}
		rig.kill(l)
	})
}
