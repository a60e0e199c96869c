package storage

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestRollMakesAllSegmentsButAnEmptyOneClosed(t *testing.T) {
	for _, d := range []Durability{Sync, Async} {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		rig.durability = d
		l := rig.start()
		if err := l.Roll(); err != nil || len(bases(t, l)) != 0 {
			t.Errorf("roll of a log without records: %v, segments %v", err, bases(t, l))
		}
		appendDurably(t, l, testBatch("a", "b"))
		for range 2 {
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
			infos, _ := l.Segments()
			if len(infos) != 2 || !infos[0].Closed || infos[1].Size != 0 || infos[1].BaseOffset != 2 {
				t.Fatalf("segments %+v, want a closed one and an empty one at 2", infos)
			}
		}
		if start, err := l.DeleteBefore(-1); err != nil || start != 2 {
			t.Errorf("log start %d, %v, want 2", start, err)
		}
		if got := bases(t, l); !slices.Equal(got, []int64{2}) {
			t.Errorf("segments at %v, want 2", got)
		}
		appendDurably(t, l, testBatch("c"))
		rig.stop(l)
		l = rig.start()
		wantValues(t, readValues(t, l, 2, ReadUncommitted), "2=c")
		rig.stop(l)
	}
}

// TestRollShowsNothingThatIsNotOnDisk appends while a roll is being synced.
func TestRollShowsNothingThatIsNotOnDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := &syncGate{}
		var wait chan struct{} // not nil: syncs of offset indexes wait for it
		rig := newLogRig(t, vfs.Inject(gate.wrap(vfs.NewMem(vfs.MemOptions{})), func(op vfs.Op) error {
			if wait != nil && op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, indexSuffix) {
				<-wait
			}
			return nil
		}))
		l := rig.start()
		appendDurably(t, l, testBatch("a"))
		wait = make(chan struct{})
		var rolling sync.WaitGroup
		rolling.Go(func() {
			if err := l.Roll(); err != nil {
				t.Errorf("roll: %v", err)
			}
		})
		synctest.Wait()
		open := gate.close()
		appendTo(t, l, testBatch("b"))
		close(wait)
		rolling.Wait()
		wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 1, End: 2})
		open()
		rig.stop(l)
	})
}
