package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// faultScenario appends, rolls, flushes, deletes, stops and starts, sending again what was refused, and keeps what was
// acknowledged.
type faultScenario struct {
	rig   *logRig
	l     *Log
	acked []string // "offset=value"
	start int64
	stage string
	// aborted are the producers of the aborted transactions at the end.
	aborted string
}

// send appends a batch until it is acknowledged. What is refused must not be in the log.
func (f *faultScenario) send(b record.Batch, o AppendOptions, values ...string) error {
	var failures []error
	for range 5 {
		var err error
		if b.Transactional() && !b.Control() {
			o.Verification, err = f.l.StartVerification(b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), true)
		}
		var a Appended
		if err == nil {
			a, err = f.l.Append(bytes.Clone(b), o)
		}
		if err == nil {
			err = f.l.WaitDurable(context.Background(), a)
		}
		if err == nil {
			for i, v := range values {
				f.acked = append(f.acked, fmt.Sprintf("%d=%s", a.BaseOffset+int64(i), v))
			}
			return nil
		}
		var offline *OfflineError
		if !errors.Is(err, ErrStorage) && !errors.As(err, &offline) {
			return fmt.Errorf("append %v: got %w, want ErrStorage", values, err)
		}
		failures = append(failures, err)
	}
	return fmt.Errorf("append %v was refused too often: %w", values, errors.Join(failures...))
}

// transactions goes on with the transactions of producers 8 and 9. Odd ones of 8 commit.
func (f *faultScenario) transactions(i int) error {
	marker := func(id int64, epoch int, commits bool) error {
		b := record.EndTxnMarker(id, int16(epoch), record.Marker{Commit: commits}, 1, 0)
		return f.send(b, AppendOptions{Origin: OriginCoordinator, TransactionV2: true})
	}
	for _, p := range []struct {
		id    int64
		every int
	}{{8, 4}, {9, 3}} {
		epoch, n := i/p.every, i%p.every
		v := fmt.Sprintf("%d/0", n)
		if err := f.send(txnBatch(p.id, int16(epoch), int32(n), 1), AppendOptions{}, v); err != nil {
			return err
		}
		if n+1 < p.every {
			continue
		}
		if err := marker(p.id, epoch+1, p.id == 8 && epoch%2 == 1); err != nil {
			return err
		}
	}
	return nil
}

// checkTransactions looks at the outcome of all that transactions did.
func (f *faultScenario) checkTransactions() error {
	return f.again(func() error {
		infos, err := f.l.ActiveProducers()
		if err != nil {
			return err
		}
		var open []int64
		for _, p := range infos {
			if p.TxnFirstOffset >= 0 {
				open = append(open, p.ProducerID)
			}
		}
		aborted, err := f.l.AbortedTxns(f.start, 1<<40)
		if err != nil {
			return err
		}
		var of []int64
		for _, a := range aborted {
			of = append(of, a.ProducerID)
		}
		slices.Sort(of)
		// All that were aborted reach beyond the log start, and producer 8 is in its third.
		if fmt.Sprint(open) != "[8]" || fmt.Sprint(of) != f.aborted {
			return fmt.Errorf("open are the transactions of producers %v, aborted are those of %v, want %s", open, of, f.aborted)
		}
		return nil
	})
}

// again calls a function until it works.
func (f *faultScenario) again(do func() error) error {
	var err error
	for range 5 {
		if err = do(); err == nil {
			return nil
		}
	}
	return err
}

func (f *faultScenario) check() error {
	return f.again(func() error {
		var got []string
		var reader record.Reader
		for offset := f.start; ; {
			res, err := f.l.Read(nil, ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
			if err != nil {
				return err
			}
			if len(res.Data) == 0 {
				break
			}
			for rest := res.Data; len(rest) > 0; {
				var b record.Batch
				if b, rest, err = record.Cut(rest); err != nil {
					return err
				}
				for rec, err := range reader.Records(b) {
					if err != nil {
						return err
					}
					if rec.Offset >= f.start && !b.Control() {
						got = append(got, fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
					}
				}
				offset = b.NextOffset()
			}
		}
		var want []string
		for _, v := range f.acked {
			var o int64
			fmt.Sscanf(v, "%d=", &o)
			if o >= f.start {
				want = append(want, v)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("log has %v, acknowledged is %v", got, want)
		}
		return nil
	})
}

func (f *faultScenario) run() error {
	f.l = f.rig.start()
	sequence := int32(0)
	for i := range 9 {
		f.stage = fmt.Sprintf("append %d", i)
		v := fmt.Sprintf("v%d", i)
		if err := f.send(testBatch(v), AppendOptions{}, v); err != nil {
			return err
		}
		w := fmt.Sprintf("%d/0", sequence)
		if err := f.send(idempotentBatch(7, 0, sequence, 1), AppendOptions{}, w); err != nil {
			return err
		}
		sequence++
		// Two transactions are open most of the time; the one of producer 9 aborts every third time.
		f.stage = fmt.Sprintf("transactions %d", i)
		if err := f.transactions(i); err != nil {
			return err
		}
		if i == 4 {
			f.stage = "flush"
			if err := f.again(f.l.flush); err != nil {
				return err
			}
			if point, _, ok := f.l.checkpoints(); ok {
				f.rig.setPoint(point)
			}
		}
		if i == 6 {
			f.stage = "delete"
			if err := f.again(func() error { _, err := f.l.DeleteBefore(5); return err }); err != nil {
				return err
			}
			f.start = 5
		}
		if i == 7 {
			f.stage = "kill"
			f.rig.kill(f.l)
			f.l = f.rig.start()
			if err := f.check(); err != nil {
				return err
			}
		}
	}
	f.stage = "check"
	if err := f.check(); err != nil {
		return err
	}
	if err := f.checkTransactions(); err != nil {
		return err
	}
	if got, ok, err := f.l.OffsetForTime(0, ReadUncommitted); err != nil && !errors.Is(err, ErrStorage) && !errors.Is(err, ErrOffline) || err == nil && (!ok || got.Offset != f.start) {
		return fmt.Errorf("offset for time 0: got %+v, %v, %v", got, ok, err)
	}
	f.stage = "stop"
	if err := f.l.close(); err == nil {
		if point, _, ok := f.l.checkpoints(); ok {
			f.rig.setPoint(point)
		}
		f.rig.clean = true
	}
	f.rig.ctx.commits.close()
	f.stage = "start again"
	f.l = f.rig.start()
	if err := f.check(); err != nil {
		return err
	}
	if err := f.checkTransactions(); err != nil {
		return err
	}
	v := "last"
	if err := f.send(testBatch(v), AppendOptions{}, v); err != nil {
		return err
	}
	return f.check()
}

// TestEveryOperationMayFail fails the i-th file operation of a scenario, for every i: nothing acknowledged is lost,
// nothing refused appears, and the log works again by itself.
func TestEveryOperationMayFail(t *testing.T) {
	for _, kind := range []struct {
		name string
		err  func(op vfs.Op) error
	}{
		{"error", func(vfs.Op) error { return errInjected }},
		{"no space", func(vfs.Op) error { return vfs.ErrNoSpace }},
		{"short write", func(op vfs.Op) error {
			if op.Kind == vfs.OpWriteAt {
				return &vfs.ShortWrite{N: op.Size / 2}
			}
			return nil
		}},
		{"lost sync", func(op vfs.Op) error {
			if op.Kind == vfs.OpSync {
				return &vfs.LostSync{Err: errInjected}
			}
			return nil
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			for i := int64(0); ; i++ {
				mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
				var failed *vfs.Op
				fsys := vfs.Inject(mem, func(op vfs.Op) error {
					if op.Index != i {
						return nil
					}
					err := kind.err(op)
					if err != nil {
						failed = &op
					}
					return err
				})
				if i == 0 {
					i = 2 // the rig's own
				}
				f := &faultScenario{rig: newLogRig(t, fsys), aborted: "[8 9 9 9]"}
				f.rig.configs["internal.segment.bytes"] = "300"
				f.rig.configs["index.interval.bytes"] = "100"
				f.rig.configs["file.delete.delay.ms"] = "0"
				if err := f.run(); err != nil {
					t.Fatalf("operation %d (%v) failed; at %s: %v", i, failed, f.stage, err)
				}
				// What was acknowledged is on disk, whatever failed before.
				f.rig.fs, f.rig.clean = mem.CrashClone(uint64(i), 0), false
				f.rig.kill(f.l)
				f.l = f.rig.start()
				if err := errors.Join(f.check(), f.checkTransactions()); err != nil {
					t.Fatalf("operation %d (%v) failed; after a crash: %v", i, failed, err)
				}
				if failed == nil && i > 400 {
					break
				}
			}
		})
	}
}

// A producer with several batches under way, whose first one fails, gets nothing in behind it: it can send all of them
// again, in order.
func TestNothingGoesAheadOfAFirstBatchThatFailed(t *testing.T) {
	for _, fails := range []vfs.OpKind{vfs.OpList, vfs.OpCreate, vfs.OpWriteAt, vfs.OpSync} {
		t.Run(fails.String(), func(t *testing.T) {
			armed := false
			fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
				if armed && op.Kind == fails && (fails == vfs.OpList || strings.HasSuffix(op.Name, logSuffix)) {
					armed = false
					return errInjected
				}
				return nil
			})
			rig := newLogRig(t, fsys)
			l := rig.start()
			if fails == vfs.OpWriteAt || fails == vfs.OpSync {
				appendDurably(t, l, testBatch("before"))
			}
			armed = true
			a, err := l.Append(idempotentBatch(7, 0, 0, 2), AppendOptions{})
			if err == nil {
				err = l.WaitDurable(context.Background(), a)
			}
			if !errors.Is(err, ErrStorage) && !errors.Is(err, ErrOffline) {
				t.Fatalf("first batch: got %v, want ErrStorage or ErrOffline", err)
			}
			if _, err := l.Append(idempotentBatch(7, 0, 2, 1), AppendOptions{}); !errors.Is(err, ErrOutOfOrderSequence) {
				t.Errorf("batch behind it: got %v, want ErrOutOfOrderSequence", err)
			}
			appendDurably(t, l, idempotentBatch(7, 0, 0, 2))
			appendDurably(t, l, idempotentBatch(7, 0, 2, 1))
			rig.stop(l)
		})
	}
}

// The last segment is closed by an append and leaves the log while a flush syncs its indexes, which is no failure of the
// disk.
func TestSegmentLeavesTheLogWhileItIsFlushed(t *testing.T) {
	for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
		t.Run(suffix, func(t *testing.T) {
			var once func() // at the next sync of such a file
			fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
				if do := once; do != nil && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, suffix) {
					once = nil
					do()
				}
				return nil
			})
			rig := newLogRig(t, fsys)
			rig.configs["internal.segment.bytes"] = "300"
			rig.configs["file.delete.delay.ms"] = "0"
			l := rig.start()
			large := strings.Repeat("x", 150)
			appendDurably(t, l, testBatch(large))
			var behind Appended
			once = func() {
				behind = appendTo(t, l, testBatch(large))
				if start, err := l.DeleteBefore(1); start != 1 || err != nil {
					t.Errorf("delete before 1: got %d, %v", start, err)
				}
			}
			if err := l.flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
			if err := l.WaitDurable(context.Background(), behind); err != nil {
				t.Errorf("append meanwhile: %v", err)
			}
			wantOffsets(t, l, Offsets{LogStart: 1, LastStable: 2, HighWatermark: 2, End: 2})
			rig.stop(l)
		})
	}
}

// The sync of a cut fails as well, and what the disk still has beyond the cut must not come back: neither when the log
// goes on in the same file nor when it goes on in the next.
func TestCutWhoseSyncFailedIsMadeAgain(t *testing.T) {
	for _, size := range []int{10, 200} {
		t.Run(fmt.Sprintf("%d bytes follow", size), func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
			var lost []string // endings of the files whose next syncs lose what they were to sync
			var first sync.Once
			syncing, goOn := make(chan struct{}), make(chan struct{})
			rig := newLogRig(t, vfs.Inject(mem, func(op vfs.Op) error {
				if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, logSuffix) {
					first.Do(func() { close(syncing); <-goOn })
				}
				if len(lost) > 0 && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, lost[0]) {
					lost = lost[1:]
					return &vfs.LostSync{Err: errInjected}
				}
				return nil
			}))
			rig.configs["internal.segment.bytes"] = "300"
			l := rig.start()
			appendTo(t, l, testBatch("first"))
			<-syncing
			// The round after the one that is held up brings the records to disk, not the index.
			a := appendTo(t, l, testBatch("failed"))
			l.mu.Lock()
			flushed := l.startFlush()
			l.mu.Unlock()
			lost = []string{indexSuffix, logSuffix}
			close(goOn)
			<-flushed
			l.mu.Lock()
			err := l.commit.flushErr
			l.mu.Unlock()
			if err == nil {
				t.Error("flush: got nil, want an error")
			}
			if err := l.WaitDurable(context.Background(), a); !errors.Is(err, ErrStorage) {
				t.Fatalf("append: got %v, want ErrStorage", err)
			}
			appendDurably(t, l, testBatch(strings.Repeat("x", size)))
			appendDurably(t, l, testBatch("last"))
			if err := l.flush(); err != nil {
				t.Fatal(err)
			}
			if len(lost) > 0 {
				t.Errorf("%v: not synced since, want the failed flush and the cut to have tried", lost)
			}
			want := readValues(t, l, 0, ReadUncommitted)
			point, _, _ := l.checkpoints()
			rig.kill(l)
			rig.fs = mem.CrashClone(1, 0)
			rig.setPoint(point)
			l = rig.start()
			wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
			rig.kill(l)
		})
	}
}

// As before, for the cut of a torn tail while the log is recovered.
func TestTornTailWhoseCutFailedIsCutAgain(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	var lost bool
	rig := newLogRig(t, vfs.Inject(mem, func(op vfs.Op) error {
		if lost && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, logSuffix) {
			lost = false
			return &vfs.LostSync{Err: errInjected}
		}
		return nil
	}))
	rig.configs["internal.segment.bytes"] = "300"
	l := rig.start()
	appendDurably(t, l, testBatch("first"))
	rig.kill(l)
	f, err := mem.Open(l.path("00000000000000000000.log"))
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	if _, err := f.WriteAt(bytes.Repeat([]byte("torn"), 20), size); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}

	l, lost = rig.start(), true
	if _, err := l.Offsets(); !errors.Is(err, ErrOffline) {
		t.Fatalf("first use: got %v, want ErrOffline", err)
	}
	appendDurably(t, l, testBatch(strings.Repeat("x", 200)))
	appendDurably(t, l, testBatch("last"))
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	want := readValues(t, l, 0, ReadUncommitted)
	point, _, _ := l.checkpoints()
	rig.kill(l)
	rig.fs = mem.CrashClone(1, 0)
	rig.setPoint(point)
	l = rig.start()
	wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
	rig.kill(l)
}

// A write fails while a round syncs a segment that the cut takes away: its file is closed when the round ends.
func TestFilesOfACutSegmentAreClosedAfterTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failing := false
		var hold chan struct{}
		second := "00000000000000000001.log"
		rig := newLogRig(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
			if wait := hold; wait != nil && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, second) {
				<-wait
			}
			if failing && op.Kind == vfs.OpWriteAt {
				return errInjected
			}
			return nil
		}))
		rig.configs["internal.segment.bytes"] = "300"
		l := rig.start()
		large := strings.Repeat("x", 150)
		appendDurably(t, l, testBatch(large))
		hold = make(chan struct{})
		appendTo(t, l, testBatch(large)) // begins a segment
		synctest.Wait()
		failing = true
		if _, err := l.Append(testBatch("y"), AppendOptions{}); !errors.Is(err, ErrStorage) {
			t.Errorf("append: got %v, want ErrStorage", err)
		}
		failing = false
		close(hold)
		synctest.Wait()
		rig.ctx.files.mu.Lock()
		for _, f := range rig.ctx.files.open {
			if _, err := rig.fs.Stat(f.name); err != nil {
				t.Errorf("%s is still open: %v", f.name, err)
			}
		}
		rig.ctx.files.mu.Unlock()
		appendDurably(t, l, testBatch("y"))
		rig.stop(l)
	})
}

// As before, and the first commit of the new last segment fails: the log ends where that begins, and goes on.
func TestCommitFailsAfterASegmentLeftTheLogWhileItWasFlushed(t *testing.T) {
	var once func() // at the next sync of an index
	failing := false
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		if op.Kind != vfs.OpSync {
			return nil
		}
		if do := once; do != nil && strings.HasSuffix(op.Name, indexSuffix) {
			once = nil
			do()
		}
		if failing && strings.HasSuffix(op.Name, "00000000000000000001.log") {
			failing = false
			return errInjected
		}
		return nil
	})
	rig := newLogRig(t, fsys)
	rig.configs["internal.segment.bytes"] = "300"
	rig.configs["file.delete.delay.ms"] = "0"
	l := rig.start()
	large := strings.Repeat("x", 150)
	appendDurably(t, l, testBatch(large))
	var behind Appended
	once = func() {
		behind = appendTo(t, l, testBatch(large))
		if start, err := l.DeleteBefore(1); start != 1 || err != nil {
			t.Errorf("delete before 1: got %d, %v", start, err)
		}
		failing = true
	}
	if err := l.flush(); err != nil {
		t.Errorf("flush: %v", err)
	}
	if err := l.WaitDurable(context.Background(), behind); !errors.Is(err, ErrStorage) {
		t.Errorf("wait: got %v, want ErrStorage", err)
	}
	wantOffsets(t, l, Offsets{LogStart: 1, LastStable: 1, HighWatermark: 1, End: 1})
	appendDurably(t, l, testBatch("y"))
	wantValues(t, readValues(t, l, 1, ReadUncommitted), "1=y")
	rig.stop(l)
}
