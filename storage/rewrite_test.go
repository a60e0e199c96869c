package storage

import (
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// keepOffsets is a keep function that drops every batch but those that begin at the given offsets.
func keepOffsets(offsets ...int64) func(record.Batch) (record.Batch, error) {
	return func(b record.Batch) (record.Batch, error) {
		if slices.Contains(offsets, b.BaseOffset()) {
			return b, nil
		}
		return nil, nil
	}
}

// filledLog returns a log with n single-record batches in segments of three, all on disk, and their values.
func filledLog(t *testing.T, rig *logRig, n int) (*Log, []string) {
	t.Helper()
	rig.configs["internal.segment.bytes"] = "250"
	l := rig.start()
	var values []string
	for i := range n {
		v := fmt.Sprintf("v%02d", i)
		appendDurably(t, l, testBatch(v))
		values = append(values, fmt.Sprintf("%d=%s", i, v))
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	if infos, _ := l.Segments(); len(infos) < 3 || infos[1].BaseOffset != 3 || !infos[0].Closed {
		t.Fatalf("segments %+v, want several of three records, closed", infos)
	}
	return l, values
}

// bases are the base offsets of the log's segments.
func bases(t *testing.T, l *Log) (out []int64) {
	t.Helper()
	infos, err := l.Segments()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range infos {
		out = append(out, s.BaseOffset)
	}
	return out
}

// filesOf lists the log's directory.
func filesOf(t *testing.T, rig *logRig) []string {
	t.Helper()
	names, err := rig.fs.List(rig.dir + "/orders-0")
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestRewriteReplacesSegments(t *testing.T) {
	for _, stop := range []string{"", "clean", "kill"} {
		t.Run("stop="+stop, func(t *testing.T) {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			l, values := filledLog(t, rig, 11)
			res, err := l.Rewrite(0, 2, keepOffsets(1, 4))
			if err != nil || !res.Replaced || res.SizeAfter*3 != res.SizeBefore {
				t.Fatalf("rewrite: %+v, %v, want a third of the bytes", res, err)
			}
			if info, err := rig.fs.Stat(segmentFile(testLogDir, 0, logSuffix)); err != nil || !info.ModTime.Equal(rig.now()) {
				t.Errorf("time of the new file: %v, %v, want that of the last append to the old ones, %v", info.ModTime, err, rig.now())
			}
			switch stop {
			case "clean":
				rig.stop(l)
				l = rig.start()
			case "kill":
				rig.setPoint(9)
				rig.kill(l)
				l = rig.start()
			}
			want := append([]string{values[1], values[4]}, values[6:]...)
			wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
			for from, rest := range map[int64]int{1: 0, 2: 1, 4: 1, 5: 2, 6: 2, 8: 4} {
				wantValues(t, readValues(t, l, from, ReadUncommitted), want[rest:]...)
			}
			wantOffsets(t, l, Offsets{LastStable: 11, HighWatermark: 11, End: 11})
			if got := bases(t, l); !slices.Equal(got, []int64{0, 6, 9}) {
				t.Errorf("segments at %v, want 0, 6 and 9", got)
			}
			for _, name := range filesOf(t, rig) {
				if strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, swapSuffix) {
					t.Errorf("%s is left", name)
				}
			}
			appendDurably(t, l, testBatch("more"))
			wantValues(t, readValues(t, l, 10, ReadUncommitted), values[10], "11=more")
			rig.stop(l)
		})
	}
}

func TestRewriteThatKeepsEverythingChangesNoFile(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, fsys)
	var ops []string
	rig.fs = vfs.Log(fsys, func(line string) { ops = append(ops, line) })
	l, _ := filledLog(t, rig, 11)
	ops = nil
	res, err := l.Rewrite(3, 1, func(b record.Batch) (record.Batch, error) { return b, nil })
	if err != nil || res.Replaced || res.SizeBefore != res.SizeAfter || len(ops) > 0 {
		t.Errorf("rewrite: %+v, %v and operations %q, want nothing done", res, err, ops)
	}
	rig.stop(l)
}

func TestRewriteMayLeaveNothing(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, values := filledLog(t, rig, 11)
	for _, base := range []int64{0, 3, 6} {
		if _, err := l.Rewrite(base, 1, keepOffsets()); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		wantValues(t, readValues(t, l, 0, ReadUncommitted), values[9:]...)
		wantValues(t, readValues(t, l, 7, ReadUncommitted), values[9:]...)
		rig.stop(l)
		l = rig.start()
	}
	if res, err := l.Rewrite(0, 3, keepOffsets()); err != nil || res.SizeAfter != 0 {
		t.Errorf("merge of empty segments: %+v, %v", res, err)
	}
	wantValues(t, readValues(t, l, 0, ReadUncommitted), values[9:]...)
	rig.stop(l)
}

func TestRewriteIsRefusedWhereItCannotBe(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, values := filledLog(t, rig, 11)
	for _, c := range []struct {
		base  int64
		count int
	}{{1, 1}, {0, 0}, {9, 1}, {6, 2}, {0, 9}} {
		if _, err := l.Rewrite(c.base, c.count, keepOffsets()); !errors.Is(err, ErrNotRewritable) {
			t.Errorf("%d segments from offset %d on: got %v, want ErrNotRewritable", c.count, c.base, err)
		}
	}
	point := l.commit.recoveryPoint
	l.commit.recoveryPoint = 5
	if _, err := l.Rewrite(0, 2, keepOffsets()); !errors.Is(err, ErrNotRewritable) {
		t.Errorf("segments that end beyond the recovery point: got %v, want ErrNotRewritable", err)
	}
	l.commit.recoveryPoint = point
	own := errors.New("my own")
	if _, err := l.Rewrite(0, 1, func(record.Batch) (record.Batch, error) { return nil, own }); !errors.Is(err, own) {
		t.Errorf("error of keep: got %v", err)
	}
	_, err := l.Rewrite(0, 2, func(b record.Batch) (record.Batch, error) {
		if b.BaseOffset() == 5 {
			if _, err := l.DeleteBefore(4); err != nil {
				t.Error(err)
			}
		}
		return nil, nil
	})
	if !errors.Is(err, ErrNotRewritable) {
		t.Errorf("log start moved meanwhile: got %v, want ErrNotRewritable", err)
	}
	wantValues(t, readValues(t, l, 4, ReadUncommitted), values[4:]...)
	for _, name := range filesOf(t, rig) {
		if strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, swapSuffix) {
			t.Errorf("%s is left", name)
		}
	}
	rig.stop(l)
	if _, err := l.Rewrite(6, 1, keepOffsets()); !errors.Is(err, ErrClosed) {
		t.Errorf("rewrite of a closed log: got %v, want ErrClosed", err)
	}
}

func TestReaderFinishesInAReplacedSegment(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.openFiles = 1 // files are opened again and again, by the names they have
	l, values := filledLog(t, rig, 11)
	v := l.view.Load()
	old := v.segments[0]
	if !old.acquire() {
		t.Fatal("segment is gone")
	}
	if _, err := l.Rewrite(0, 2, keepOffsets(4)); err != nil {
		t.Fatal(err)
	}
	readValues(t, l, 6, ReadUncommitted) // takes the one place for an open file
	res, again, err := l.readView(v, nil, ReadRequest{Offset: 0, MaxBytes: 1 << 20})
	if err != nil || again || len(res.Data) != int(old.size) {
		t.Errorf("read in the old segment: %d bytes, %v, %v, want %d", len(res.Data), again, err, old.size)
	}
	deleted := func() (n int) {
		for _, name := range filesOf(t, rig) {
			if strings.HasSuffix(name, logSuffix+deletedSuffix) {
				n++
			}
		}
		return n
	}
	if n := deleted(); n != 1 {
		t.Errorf("%d .log files are kept for the reader, want the one it reads", n)
	}
	old.release()
	if n := deleted(); n != 0 {
		t.Errorf("%d .log files are left when nobody reads them", n)
	}
	wantValues(t, readValues(t, l, 0, ReadUncommitted), append([]string{values[4]}, values[6:]...)...)
	rig.stop(l)
}

// TestReaderFinishesInAReplacementThatGoesAtOnce has the log start move past a replacement before its files have their plain
// names, while a reader is in it.
func TestReaderFinishesInAReplacementThatGoesAtOnce(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["file.delete.delay.ms"] = "0"
	rig.openFiles = 1 // files are opened again and again, by the names they have
	var l *Log
	var v *view
	syncs := 0
	armed := false
	rig.fs = vfs.Inject(rig.fs, func(op vfs.Op) error {
		if !armed || op.Kind != vfs.OpSyncDir {
			return nil
		}
		if syncs++; syncs == 3 { // the sources have gone, for good after this
			armed = false
			v = l.view.Load()
			v.segments[0].acquire()
			if _, err := l.DeleteBefore(6); err != nil {
				t.Error(err)
			}
		}
		return nil
	})
	l, _ = filledLog(t, rig, 11)
	armed = true
	if _, err := l.Rewrite(0, 2, keepOffsets(4)); err != nil {
		t.Fatal(err)
	}
	if v == nil || v.segments[0].reach != 6 {
		t.Fatal("the log start did not move while the replacement had no plain names")
	}
	readValues(t, l, 6, ReadUncommitted) // takes the one place for an open file
	res, again, err := l.readView(v, nil, ReadRequest{Offset: 0, MaxBytes: 1 << 20})
	if err != nil || again || len(res.Data) != int(v.segments[0].size) {
		t.Errorf("read in the replacement: %d bytes, %v, %v, want %d", len(res.Data), again, err, v.segments[0].size)
	}
	v.segments[0].release()
	for _, name := range filesOf(t, rig) {
		if base, _, _, ok := parseSegmentFile(name); ok && base < 6 || strings.HasSuffix(name, noteSuffix) {
			t.Errorf("%s is left when nobody reads it", name)
		}
	}
	rig.stop(l)
}

func TestDeletionAndStopEndARewrite(t *testing.T) {
	for _, how := range []string{"delete", "stop"} {
		t.Run(how, func(t *testing.T) {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			l, values := filledLog(t, rig, 11)
			ended := make(chan struct{})
			_, err := l.Rewrite(0, 2, func(b record.Batch) (record.Batch, error) {
				if b.BaseOffset() != 2 {
					return nil, nil
				}
				go func() {
					defer close(ended)
					if how == "delete" {
						l.markDeleted()
					} else {
						rig.stop(l)
					}
				}()
				for !l.stopping() {
					runtime.Gosched()
				}
				return nil, nil
			})
			if !errors.Is(err, ErrNotRewritable) {
				t.Errorf("got %v, want ErrNotRewritable", err)
			}
			<-ended
			if how == "stop" {
				l = rig.start()
				wantValues(t, readValues(t, l, 0, ReadUncommitted), values...)
				rig.stop(l)
			}
		})
	}
}

// abortedLog returns a log that begins with an aborted transaction, whose marker is at offset 1, and has records up to offset
// 6 in more than one segment.
func abortedLog(t *testing.T, rig *logRig) *Log {
	t.Helper()
	rig.configs["internal.segment.bytes"] = "300"
	l := rig.start()
	appendCoordinator(t, l, txnBatch(9, 0, 0, 1))
	appendCoordinator(t, l, record.EndTxnMarker(9, 0, record.Marker{}, 1, 0))
	for i := range 5 {
		appendDurably(t, l, testBatch(fmt.Sprintf("b%d", i)))
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	return l
}

func TestRewriteKeepsAbortedTransactions(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := abortedLog(t, rig)
	if _, err := l.Rewrite(0, 1, func(b record.Batch) (record.Batch, error) {
		if b.BaseOffset() == 2 {
			return nil, nil
		}
		return b, nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		res, err := l.Read(nil, ReadRequest{Offset: 0, MaxBytes: 1 << 20, Isolation: ReadCommitted})
		if err != nil || len(res.Aborted) != 1 || res.Aborted[0].LastOffset != 1 {
			t.Errorf("aborted: %+v, %v, want the transaction whose marker is at 1", res.Aborted, err)
		}
		rig.stop(l)
		l = rig.start()
	}
	rig.stop(l)
}

// A marker that was emptied ends nothing for those who read it: were its transaction still named, what the producer commits
// later would be taken for aborted, by readers and by the next pass of compaction.
func TestRewriteForgetsAbortedTransactionsOfEmptiedMarkers(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := abortedLog(t, rig)
	if _, err := l.Rewrite(0, 1, func(b record.Batch) (record.Batch, error) {
		switch {
		case b.Control():
			return record.AppendEmpty(nil, b), nil
		case b.Transactional():
			return nil, nil
		}
		return b, nil
	}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if got, err := l.AbortedTxns(0, 7); err != nil || len(got) > 0 {
			t.Errorf("aborted: %+v, %v, want none", got, err)
		}
		rig.stop(l)
		l = rig.start()
	}
	rig.stop(l)
}

// TestLeftoversOfARewriteLoseNothing has files of a rewrite that failed stay, because they cannot be removed, and crashes
// after every operation of the next.
func TestLeftoversOfARewriteLoseNothing(t *testing.T) {
	for _, stuck := range []string{logSuffix, indexSuffix, timeIndexSuffix, noteSuffix} {
		for i := range 4 {
			when, next := []string{cleanedSuffix, swapSuffix}[i%2], []int64{0, 9}[i/2]
			mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
			rig := newLogRig(t, mem)
			failing, armed := false, false
			var clones []*vfs.Mem
			syncs := 0
			rig.fs = vfs.After(vfs.Inject(mem, func(op vfs.Op) error {
				if failing && op.Kind == vfs.OpSyncDir {
					if syncs++; syncs == 1 && when == cleanedSuffix || syncs == 2 && when == swapSuffix {
						return errInjected
					}
				}
				if failing && op.Kind == vfs.OpRemove && strings.Contains(op.Name, stuck) {
					return errInjected
				}
				return nil
			}), func(op vfs.Op, err error) {
				if armed && err == nil {
					clones = append(clones, mem.CrashClone(1, 1))
				}
			})
			l, values := filledLog(t, rig, 14)
			failing = true
			if _, err := l.Rewrite(0, 3, keepOffsets(1, 7)); err == nil {
				t.Fatal("rewrite: got no error")
			}
			failing, armed = false, true
			_, err := l.Rewrite(next, 1, keepOffsets(1, 9))
			armed = false
			rig.kill(l)
			outcomes := []string{
				fmt.Sprint(values),
				fmt.Sprint(append([]string{values[1], values[7]}, values[9:]...)), // the first, after all
			}
			if next == 0 {
				outcomes = append(outcomes, fmt.Sprint(append([]string{values[1]}, values[3:]...)))
			} else {
				outcomes = append(outcomes, fmt.Sprint(append(values[:10:10], values[12:]...)))
			}
			for i, c := range append(clones, mem.CrashClone(1, 1)) {
				again := newLogRigAt(t, c, rig.dir)
				again.configs = rig.configs
				again.setPoint(12)
				l := again.start()
				if got := fmt.Sprint(readValues(t, l, 0, ReadUncommitted)); !slices.Contains(outcomes, got) {
					t.Errorf("%s%s is stuck, next rewrite at %d: %v, crash %d: got %s, want one of %v", stuck, when, next, err, i, got, outcomes)
				}
				again.stop(l)
			}
		}
	}
}

// TestAbandonedRewriteLeavesTheNoteOfItsSource gives up a rewrite of a segment that has a note already.
func TestAbandonedRewriteLeavesTheNoteOfItsSource(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, values := filledLog(t, rig, 11)
	if _, err := l.Rewrite(3, 1, keepOffsets(3, 4)); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Rewrite(3, 1, func(b record.Batch) (record.Batch, error) {
		if b.BaseOffset() == 4 {
			return nil, errInjected
		}
		return nil, nil
	}); !errors.Is(err, errInjected) {
		t.Fatalf("rewrite: got %v, want the error of keep", err)
	}
	rig.kill(l)
	l = rig.start() // with the recovery point lost
	wantValues(t, readValues(t, l, 0, ReadUncommitted), append(values[:5:5], values[6:]...)...)
	rig.stop(l)
}

// TestCrashLeavesOldOrNewSegments takes a crash clone after every operation of a rewrite, keeping nothing or a share of
// what was not synced, and wants the records of the old segments or of the new one.
func TestCrashLeavesOldOrNewSegments(t *testing.T) {
	for _, kept := range [][]int64{{1, 5}, {1}, {}, {0, 1, 2, 3, 4, 5}} {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		type point struct {
			mem   *vfs.Mem
			label string
		}
		var points []point
		armed := false
		rig := newLogRig(t, mem)
		seed := uint64(0)
		rig.fs = vfs.After(mem, func(op vfs.Op, err error) {
			if !armed || err != nil {
				return
			}
			for _, keep := range []float64{0, 0.3, 0.7, 1} {
				seed++
				points = append(points, point{mem.CrashClone(seed, keep), fmt.Sprintf("after %v, keeping %.1f, seed %d", op, keep, seed)})
			}
		})
		l, values := filledLog(t, rig, 11)
		armed = true
		if _, err := l.Rewrite(0, 2, keepOffsets(kept...)); err != nil {
			t.Fatal(err)
		}
		armed = false
		recoveryPoint, _, _ := l.checkpoints()
		rig.stop(l)
		var rewritten []string
		for _, o := range kept {
			rewritten = append(rewritten, values[o])
		}
		rewritten = append(rewritten, values[6:]...)
		seen := map[string]int{}
		for i, p := range points {
			again := newLogRigAt(t, p.mem, rig.dir)
			again.configs = rig.configs
			if i%2 == 0 { // else the checkpoint was lost, or not written yet
				again.point = recoveryPoint
			}
			l := again.start()
			got := fmt.Sprint(readValues(t, l, 0, ReadUncommitted))
			switch got {
			case fmt.Sprint(values):
				seen["old"]++
			case fmt.Sprint(rewritten):
				seen["new"]++
			default:
				t.Errorf("kept %v, %s: got %v, want %v or %v", kept, p.label, got, values, rewritten)
			}
			again.stop(l)
		}
		if len(kept) < 6 && (seen["old"] == 0 || seen["new"] == 0) {
			t.Errorf("kept %v: outcomes %v of %d crashes, want both", kept, seen, len(points))
		}
	}
}

// TestRewriteFailsWhole fails the i-th operation of a rewrite for every i, and wants the log to serve what it did or what
// it was to, then and after a restart.
func TestRewriteFailsWhole(t *testing.T) {
	for i := 0; ; i++ {
		mem := vfs.NewMem(vfs.MemOptions{})
		rig := newLogRig(t, mem)
		n, armed := 0, false
		failed := ""
		rig.fs = vfs.Inject(mem, func(op vfs.Op) error {
			if !armed {
				return nil
			}
			if n++; n-1 == i {
				failed = fmt.Sprint(op)
				return errors.New("no medium")
			}
			return nil
		})
		l, values := filledLog(t, rig, 11)
		armed = true
		_, err := l.Rewrite(0, 2, keepOffsets(1))
		armed = false
		old, rewritten := fmt.Sprint(values), fmt.Sprint(append([]string{values[1]}, values[6:]...))
		got := fmt.Sprint(readValues(t, l, 0, ReadUncommitted))
		if got != rewritten && (got != old || err == nil) {
			t.Errorf("operation %d, %s: rewrite %v, got %v, want %v or %v", i, failed, err, got, old, rewritten)
		}
		rig.setPoint(11)
		rig.stop(l)
		rig.clean = false
		l = rig.start()
		if again := fmt.Sprint(readValues(t, l, 0, ReadUncommitted)); again != got && again != rewritten {
			t.Errorf("operation %d, %s: after a restart got %v, before it %v", i, failed, again, got)
		}
		rig.stop(l)
		if failed == "" {
			if i < 15 {
				t.Errorf("only %d operations were failed", i)
			}
			return
		}
	}
}

// TestRewriteUpToTheHighWatermark leaves the segment alone in which it stands until something behind it is on the disk.
func TestRewriteUpToTheHighWatermark(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, values := filledLog(t, rig, 11)
	closed, err := l.rollNow()
	if err != nil {
		t.Fatal(err)
	}
	<-closed
	if _, err := l.Rewrite(6, 2, keepOffsets(7)); !errors.Is(err, ErrNotRewritable) {
		t.Errorf("the log may be cut back into the segment: got %v, want ErrNotRewritable", err)
	}
	appendDurably(t, l, testBatch("more"))
	if _, err := l.Rewrite(6, 2, keepOffsets(7)); err != nil {
		t.Fatal(err)
	}
	want := append(values[:6:6], values[7], "11=more")
	wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
	appendDurably(t, l, testBatch("again"))
	wantOffsets(t, l, Offsets{LastStable: 13, HighWatermark: 13, End: 13})
	wantValues(t, readValues(t, l, 0, ReadUncommitted), append(want, "12=again")...)
	rig.stop(l)
}

// What another broker wrote stays as it is until the first append, however much of it is known to be on disk.
func TestUntouchedLogIsNotRewritten(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, _ := filledLog(t, rig, 11)
	rig.kill(l)
	rig.adopted = true
	rig.setPoint(11)
	before := listTree(t, rig.fs, testLogDir)
	l = rig.start()
	if _, err := l.Rewrite(0, 2, keepOffsets(4)); !errors.Is(err, ErrNotRewritable) {
		t.Errorf("got %v, want ErrNotRewritable", err)
	}
	if after := listTree(t, rig.fs, testLogDir); !maps.Equal(before, after) {
		t.Errorf("files %v, want them as they were", filesOf(t, rig))
	}
	rig.kill(l)
}
