package storage

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

// The power goes when an entry of the transaction index has its place in the file and not its bytes. In the first segment
// zeros look like a transaction of producer 0 that began and ended at offset 0.
func TestTornTransactionIndexNamesNothing(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	appendDurably(t, l, testBatch("a", "b"))
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	rig.point, _, _ = l.checkpoints()
	transact(t, l, txnBatch(7, 0, 0, 1), false)
	endTransaction(t, l, 7, 0, false, false)
	rig.kill(l)
	setFile(t, rig.fs, filepath.Join(testLogDir, "00000000000000000000.txnindex"), make([]byte, txnEntrySize))
	l = rig.start()
	if got, err := l.AbortedTxns(0, 100); err != nil || len(got) != 1 || got[0].ProducerID != 7 || got[0].FirstOffset != 2 {
		t.Errorf("aborted: got %+v, %v, want that of producer 7 from offset 2", got, err)
	}
	rig.stop(l)
}

// An entry that is whole and names offsets of no batch in the segment is the cause that the log line has.
func TestRebuiltTransactionIndexNamesItsCause(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.stop(abortedLog(t, rig))
	name := segmentFile(testLogDir, 0, txnIndexSuffix)
	appendFile(t, rig.fs, name, appendTxnEntry(nil, AbortedTxn{ProducerID: 9, FirstOffset: 5000, LastOffset: 6000, LastStableOffset: 6001}))
	lines := rig.logLines()
	l := rig.start()
	if got, err := l.AbortedTxns(0, 100); err != nil || len(got) != 1 || got[0].LastOffset != 1 {
		t.Errorf("aborted: got %+v, %v, want that which ends at offset 1", got, err)
	}
	if got := lines.String(); !strings.Contains(got, "transaction index is rebuilt") || !strings.Contains(got, "marker at offset 6000") {
		t.Errorf("the log has\n%s, want a line with the offset of the wrong entry", got)
	}
	rig.stop(l)
}

// The transaction index of a segment that was closed before a crash cannot be written by the recovery. What readers learn from
// it must not be lost when the recovery point has moved on, or when the store has stopped in order.
func TestTransactionIndexIsWrittenAfterTheRecovery(t *testing.T) {
	for _, kind := range []struct {
		name string
		err  error
	}{{"error", errInjected}, {"lost sync", &vfs.LostSync{Err: errInjected}}} {
		for _, then := range []string{"flush", "roll", "stop"} {
			t.Run(kind.name+", "+then, func(t *testing.T) {
				mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
				failures := 0
				rig := newLogRig(t, vfs.Inject(mem, func(op vfs.Op) error {
					if failures > 0 && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, txnIndexSuffix) {
						failures--
						return kind.err
					}
					return nil
				}))
				rig.configs["internal.segment.bytes"] = "300"
				l := rig.start()
				fill := func(id int64) {
					transact(t, l, txnBatch(id, 0, 0, 1), false)
					endTransaction(t, l, id, 0, false, false)
					appendDurably(t, l, testBatch(strings.Repeat("x", 150)))
				}
				for id := range int64(3) {
					fill(id)
				}
				rig.kill(l)
				// The recovery point is 0, so that the recovery makes the indexes from the batches.
				names, err := mem.List(testLogDir)
				for _, name := range names {
					if err == nil && strings.HasSuffix(name, txnIndexSuffix) {
						err = mem.Remove(filepath.Join(testLogDir, name))
					}
				}
				if err := errors.Join(err, mem.SyncDir(testLogDir)); err != nil {
					t.Fatal(err)
				}
				failures = 1
				l = rig.start()
				fill(3)
				if failures > 0 {
					t.Fatal("the recovery has not tried to write the index")
				}
				switch then {
				case "flush":
					if err := l.flush(); err != nil {
						t.Fatal(err)
					}
					if point, _, _ := l.checkpoints(); point != 12 {
						t.Errorf("recovery point %d after the indexes were written, want 12", point)
					}
				case "roll": // two segments are closed and no index of those before them is written
					fill(4)
					fill(5)
				}
				l.mu.Lock()
				point := l.commit.recoveryPoint
				l.mu.Unlock()
				want, err := l.AbortedTxns(0, 100)
				if err != nil || len(want) < 4 {
					t.Fatalf("aborted: %v, %v, want at least 4", want, err)
				}
				if then == "stop" {
					rig.stop(l)
				} else {
					rig.kill(l)
					rig.setPoint(point)
				}
				rig.fs = mem.CrashClone(1, 0)
				l = rig.start()
				if got, err := l.AbortedTxns(0, 100); err != nil || !slices.Equal(got, want) {
					t.Errorf("recovery point %d: aborted %v, %v, want %v", point, got, err, want)
				}
				rig.kill(l)
			})
		}
	}
}

// The sync of a transaction index fails in a commit; the log is cut back and goes on in the same segment.
func TestTransactionIndexIsWrittenAgainAfterAFailedSync(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	lose := false
	rig := newLogRig(t, vfs.Inject(mem, func(op vfs.Op) error {
		if lose && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, txnIndexSuffix) {
			lose = false
			return &vfs.LostSync{Err: errInjected}
		}
		return nil
	}))
	l := rig.start()
	transact(t, l, txnBatch(1, 0, 0, 1), false)
	endTransaction(t, l, 1, 0, false, false)
	lose = true
	if err := l.flush(); err == nil || lose {
		t.Fatalf("flush: got %v, index synced %t, want an error", err, !lose)
	}
	appendDurably(t, l, testBatch("more"))
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	point, _, _ := l.checkpoints()
	if point != 3 {
		t.Errorf("recovery point %d, want 3", point)
	}
	rig.kill(l)
	rig.setPoint(point)
	rig.fs = mem.CrashClone(1, 0)
	l = rig.start()
	if got, err := l.AbortedTxns(0, 100); err != nil || len(got) != 1 {
		t.Errorf("aborted: %v, %v, want one", got, err)
	}
	rig.kill(l)
}
