package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// adopt makes the rig's directory one that another broker wrote; changes are the operations that change it from then
// on.
func (r *logRig) adopt(mem *vfs.Mem) (changes *[]string) {
	changes = new([]string)
	r.adopted = true
	r.fs = vfs.After(mem, func(op vfs.Op, _ error) {
		if op.Kind.Mutates() && op.Kind != vfs.OpSync {
			*changes = append(*changes, op.String())
		}
	})
	return changes
}

func TestAdoptedLogIsNotTouchedBeforeItsFirstAppend(t *testing.T) {
	at := func(name string) string { return filepath.Join(testLogDir, name) }
	bothStops(t, func(t *testing.T, clean bool) {
		mem := vfs.NewMem(vfs.MemOptions{})
		rig := newLogRig(t, mem)
		rig.configs["internal.segment.bytes"] = "300"
		rig.configs["index.interval.bytes"] = "50"
		l := rig.start()
		var want []string
		for i := range 14 {
			appendDurably(t, l, testBatch(fmt.Sprint(i)))
			want = append(want, fmt.Sprintf("%d=%d", i, i))
		}
		rig.end(l, clean)
		// What Kafka may leave: preallocated indexes, a compaction under way, a torn tail, indexes that are gone.
		newest := at("00000000000000000012.log")
		appendFile(t, mem, newest, testBatch("torn")[:50])
		if clean {
			appendFile(t, mem, at("00000000000000000012.index"), make([]byte, 800))
			appendFile(t, mem, at("00000000000000000012.timeindex"), make([]byte, 1200))
		}
		setFile(t, mem, at("00000000000000000000.log.swap"), fileBytes(t, mem, at("00000000000000000000.log")))
		setFile(t, mem, at("00000000000000000000.timeindex.swap"), nil)
		setFile(t, mem, at("00000000000000000004.log.deleted"), []byte("old"))
		if err := mem.Remove(at("00000000000000000008.index")); err != nil {
			t.Fatal(err)
		}
		before, _ := mem.List(testLogDir)
		changes := rig.adopt(mem)
		for range 2 {
			l = rig.start()
			wantOffsets(t, l, Offsets{LastStable: 14, HighWatermark: 14, End: 14})
			wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
			for i := range int64(14) {
				if got := readValues(t, l, i, ReadUncommitted); !slices.Equal(got, want[i:]) {
					t.Errorf("read from %d: got %v", i, got)
				}
			}
			if got, ok, err := l.OffsetForTime(0, ReadUncommitted); err != nil || !ok || got.Offset != 0 {
				t.Errorf("offset for time 0: got %+v, %v, %v, want 0", got, ok, err)
			}
			if err := l.flush(); err != nil {
				t.Error(err)
			}
			if start, err := l.DeleteBefore(5); err != nil || start != 5 {
				t.Errorf("delete before 5: got %d, %v", start, err)
			}
			rig.mu.Lock()
			rig.logStart = 0
			rig.mu.Unlock()
			rig.end(l, clean)
		}
		after, _ := mem.List(testLogDir)
		if len(*changes) != 0 || !slices.Equal(before, after) {
			t.Fatalf("before the first append: %v", *changes)
		}

		l = rig.start()
		appendDurably(t, l, testBatch("14"))
		want = append(want, "14=14")
		wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
		names, _ := mem.List(testLogDir)
		for _, name := range names {
			if strings.HasSuffix(name, swapSuffix) || strings.HasSuffix(name, deletedSuffix) {
				t.Errorf("%s is still there after the first append", name)
			}
		}
		kept := fmt.Sprintf("%s.torn-%d", newest, len(testBatch("12"))+len(testBatch("13")))
		if got := fileBytes(t, mem, kept); !bytes.Equal(got, testBatch("torn")[:50]) {
			t.Errorf("%s holds %d bytes, want the 50 that were cut", kept, len(got))
		}
		rig.stop(l)
		l = rig.start()
		wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
		for i := range int64(15) {
			if got := readValues(t, l, i, ReadUncommitted); !slices.Equal(got, want[i:]) {
				t.Errorf("read from %d: got %v", i, got)
			}
		}
		rig.stop(l)
	})
}

func TestAdoptionThatFailsIsTriedAgain(t *testing.T) {
	for i := int64(0); ; i++ {
		mem := vfs.NewMem(vfs.MemOptions{})
		rig := newLogRig(t, mem)
		rig.configs["internal.segment.bytes"] = "300"
		l := rig.start()
		for i := range 14 {
			appendDurably(t, l, testBatch(fmt.Sprint(i)))
		}
		rig.kill(l)
		at := func(name string) string { return filepath.Join(testLogDir, name) }
		appendFile(t, mem, at("00000000000000000012.log"), testBatch("torn")[:50])
		setFile(t, mem, at("00000000000000000000.log.swap"), fileBytes(t, mem, at("00000000000000000000.log")))
		rig.adopted = true
		hit, armed, n := false, false, int64(0)
		rig.fs = vfs.Inject(mem, func(op vfs.Op) error {
			if !armed {
				return nil
			}
			n++
			if n-1 == i {
				hit = true
				return errInjected
			}
			return nil
		})
		l = rig.start()
		wantOffsets(t, l, Offsets{LastStable: 14, HighWatermark: 14, End: 14})
		armed = true
		f := &faultScenario{rig: rig, l: l}
		for i := range 14 {
			f.acked = append(f.acked, fmt.Sprintf("%d=%d", i, i))
		}
		if err := f.send(testBatch("14"), AppendOptions{}, "14"); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
		if err := f.check(); err != nil {
			t.Fatalf("operation %d: %v", i, err)
		}
		rig.kill(l)
		f.l = rig.start()
		if err := f.check(); err != nil {
			t.Fatalf("operation %d, after a start: %v", i, err)
		}
		rig.kill(f.l)
		if !hit {
			break
		}
	}
}

func TestAdoptedLogWithOldBatchesStaysOffline(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, mem)
	l := rig.start()
	appendDurably(t, l, testBatch("a"))
	appendDurably(t, l, testBatch("b"))
	rig.stop(l)
	name := filepath.Join(testLogDir, "00000000000000000000.log")
	b := fileBytes(t, mem, name)
	b[record.MagicPos] = 1
	binary.BigEndian.PutUint32(b[record.LengthPos:], 50)
	setFile(t, mem, name, b)
	changes := rig.adopt(mem)
	l = rig.start()
	if _, err := l.Offsets(); !errors.Is(err, ErrOffline) || !strings.Contains(err.Error(), "magic 1") {
		t.Errorf("got %v, want ErrOffline that names magic 1", err)
	}
	if len(*changes) != 0 {
		t.Errorf("changes: %v", *changes)
	}
	rig.kill(l)
}

// Readers look at the indexes of closed segments without a lock, also while those are brought in order.
func TestAdoptedLogIsReadWhileItIsTakenOver(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, mem)
	rig.configs["internal.segment.bytes"] = "2000"
	rig.configs["index.interval.bytes"] = "300"
	l := rig.start()
	for i := range int64(100) {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
		b.Append(record.Record{Timestamp: i, Value: fmt.Append(nil, i)})
		appendDurably(t, l, bytes.Clone(b.Bytes()))
	}
	rig.kill(l)
	rig.adopted = true
	var taken atomic.Bool
	read := make(chan struct{}, 1<<16) // with room for all, so that the reader never learns what others have done
	rig.fs = vfs.After(mem, func(op vfs.Op, _ error) {
		if !taken.Load() && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, timeIndexSuffix) {
			for range 2 {
				<-read
			}
		}
	})
	l = rig.start()
	wantOffsets(t, l, Offsets{LastStable: 100, HighWatermark: 100, End: 100})
	var readers sync.WaitGroup
	readers.Go(func() {
		for !taken.Load() {
			for i := range int64(100) {
				if got, ok, err := l.OffsetForTime(i, ReadUncommitted); err != nil || !ok || got.Offset != i {
					t.Errorf("offset for time %d: got %+v, %v, %v", i, got, ok, err)
				}
			}
			read <- struct{}{}
		}
	})
	a := appendTo(t, l, testBatch("100"))
	taken.Store(true)
	readers.Wait()
	if err := l.WaitDurable(context.Background(), a); err != nil {
		t.Error(err)
	}
	rig.stop(l)
}

// Kafka's compaction leaves gaps between segments and no notes of them. After the takeover a lost recovery point must not
// make the first of them the end of the log.
func TestGapsOfAnAdoptedLogAreNotedAtTakeover(t *testing.T) {
	bothStops(t, func(t *testing.T, clean bool) {
		for _, known := range []bool{true, false} {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			l, values := filledLog(t, rig, 14)
			for base, kept := range map[int64]int64{0: 1, 3: 5, 6: -1} {
				if _, err := l.Rewrite(base, 1, keepOffsets(kept)); err != nil {
					t.Fatal(err)
				}
			}
			rig.stop(l)
			for _, name := range filesOf(t, rig) {
				if strings.HasSuffix(name, noteSuffix) {
					if err := rig.fs.Remove(filepath.Join(testLogDir, name)); err != nil {
						t.Fatal(err)
					}
				}
			}
			rig.adopted, rig.clean = true, clean
			if !known {
				rig.setPoint(0)
			}
			l = rig.start()
			want := append([]string{values[1], values[5]}, values[9:]...)
			wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
			appendDurably(t, l, testBatch("v14"))
			want = append(want, "14=v14")
			rig.kill(l)
			var notes []string
			for _, name := range filesOf(t, rig) {
				if strings.HasSuffix(name, noteSuffix) {
					notes = append(notes, name)
				}
			}
			if all := []string{noteName(0, 3), noteName(6, 9)}; !slices.Equal(notes, all) {
				t.Errorf("recovery point known: %v: got notes %v, want %v", known, notes, all)
			}
			rig.adopted = false
			rig.setPoint(0)
			l = rig.start()
			wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
			wantOffsets(t, l, Offsets{LastStable: 15, HighWatermark: 15, End: 15})
			rig.stop(l)
		}
	})
}
