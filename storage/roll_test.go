package storage

import (
	"slices"
	"testing"

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
