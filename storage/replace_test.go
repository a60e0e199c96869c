package storage

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// TestReaderOutlivesItsLog lets go of a replaced segment when the directory is that of another topic of the name.
func TestReaderOutlivesItsLog(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, _ := filledLog(t, rig, 11)
	old := l.view.Load().segments[0]
	old.acquire()
	if _, err := l.Rewrite(0, 2, keepOffsets(4)); err != nil {
		t.Fatal(err)
	}
	l.markDeleted()
	before := filesOf(t, rig)
	old.release()
	if after := filesOf(t, rig); !slices.Equal(before, after) {
		t.Errorf("files %v after the reader let go, want %v", after, before)
	}
	rig.ctx.commits.close()
}

// TestNoteStaysWhileItSaysMore rewrites a segment again and again.
func TestNoteStaysWhileItSaysMore(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, _ := filledLog(t, rig, 14)
	for _, c := range []struct {
		count int
		kept  []int64
		want  []string
	}{
		{1, []int64{0, 1}, []string{noteName(0, 3)}},
		{1, []int64{0}, []string{noteName(0, 3)}}, // the note is the source's and the replacement's
		{2, []int64{0, 4}, []string{noteName(0, 6)}},
		{2, []int64{0, 8}, nil}, // it ends where the next begins
		{1, []int64{0}, []string{noteName(0, 9)}},
	} {
		if _, err := l.Rewrite(0, c.count, keepOffsets(c.kept...)); err != nil {
			t.Fatal(err)
		}
		notes := slices.DeleteFunc(filesOf(t, rig), func(name string) bool { return !strings.HasSuffix(name, noteSuffix) })
		if !slices.Equal(notes, c.want) {
			t.Errorf("%d segments rewritten to offsets %v: notes %v, want %v", c.count, c.kept, notes, c.want)
		}
	}
	rig.stop(l)
}

// TestReadersOfSegmentsOfOneBaseKeepTheirFiles has a reader in each of the segments that took one another's place, the last
// of which left the log with its start. Their files may be closed and opened by name at any time.
func TestReadersOfSegmentsOfOneBaseKeepTheirFiles(t *testing.T) {
	for _, stop := range []bool{false, true} {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{Crashable: true}))
		rig.configs["file.delete.delay.ms"] = "1"
		l, _ := filledLog(t, rig, 11)
		var held []*segment
		var want []string
		hold := func() {
			s := l.view.Load().segments[0]
			s.acquire()
			held = append(held, s)
			want = append(want, string(fileBytes(t, rig.fs, segmentFile(testLogDir, 0, logSuffix))))
		}
		hold()
		for _, kept := range [][]int64{{1, 4}, {4}} {
			if _, err := l.Rewrite(0, len(kept), keepOffsets(kept...)); err != nil {
				t.Fatal(err)
			}
			hold()
		}
		if _, err := l.DeleteBefore(6); err != nil {
			t.Fatal(err)
		}
		check := func(i int, s *segment) {
			if err := s.log.close(); err != nil {
				t.Fatal(err)
			}
			h, err := s.log.acquire()
			if err != nil {
				t.Fatalf("segment %d: %v", i, err)
			}
			b := make([]byte, len(want[i])+1)
			if n, _ := h.ReadAt(b, 0); string(b[:n]) != want[i] {
				t.Errorf("segment %d: %d bytes are not those that it had, %d", i, n, len(want[i]))
			}
			s.log.release()
		}
		if stop {
			for _, s := range held {
				defer s.release()
			}
			rig.fs = rig.fs.(*vfs.Mem).KillClone()
		}
		for i := len(held) - 1; i >= 0 && !stop; i-- {
			for j, s := range held[:i+1] {
				check(j, s)
			}
			held[i].release()
		}
		if stop {
			rig.clean = false
			l = rig.start()
			wantOffsets(t, l, Offsets{LogStart: 6, LastStable: 11, HighWatermark: 11, End: 11})
		} else {
			rig.now = func() time.Time { return time.UnixMilli(1_700_000_001_000) }
			rig.ctx.now = rig.now
			l.removeDeleted()
		}
		for _, name := range filesOf(t, rig) {
			if strings.HasSuffix(name, deletedSuffix) {
				t.Errorf("stopped: %v; %s is left", stop, name)
			}
		}
		rig.stop(l)
	}
}

// TestRewriteEndsWhenTheLogGoesOffline has the log go out of service when the replacement is complete and does not count yet.
func TestRewriteEndsWhenTheLogGoesOffline(t *testing.T) {
	var l *Log
	mem := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, vfs.After(mem, func(op vfs.Op, _ error) {
		if op.Kind == vfs.OpRename && strings.HasSuffix(op.NewName, logSuffix+swapSuffix) {
			l.goOffline(&CorruptError{File: "elsewhere", Position: -1, Reason: "for the test"})
		}
	}))
	l, _ = filledLog(t, rig, 11)
	before := listTree(t, mem, testLogDir)
	if res, err := l.Rewrite(0, 2, keepOffsets(4)); !errors.Is(err, ErrOffline) || res.Replaced {
		t.Errorf("got %+v, %v, want ErrOffline", res, err)
	}
	if after := listTree(t, mem, testLogDir); !maps.Equal(before, after) {
		t.Errorf("files %v, want them as they were", filesOf(t, rig))
	}
	rig.kill(l)
}

// TestAbandonedReplacementGoesBeforeItsNote fails the sync that makes a replacement count. A power loss while it is removed
// must not leave it without what says how far it reaches.
func TestAbandonedReplacementGoesBeforeItsNote(t *testing.T) {
	renamed, failed := false, false
	var done []string
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		renamed = renamed || op.Kind == vfs.OpRename && strings.HasSuffix(op.NewName, logSuffix+swapSuffix)
		if renamed && !failed && op.Kind == vfs.OpSyncDir {
			failed = true
			return errInjected
		}
		return nil
	})
	rig := newLogRig(t, vfs.After(fsys, func(op vfs.Op, err error) {
		if failed && err == nil && op.Kind.Mutates() {
			done = append(done, strings.ReplaceAll(op.String(), testLogDir+"/00000000000000000000.", ""))
		}
	}))
	l, _ := filledLog(t, rig, 11)
	if _, err := l.Rewrite(0, 2, keepOffsets(4)); !errors.Is(err, errInjected) {
		t.Fatalf("got %v, want the error of the sync", err)
	}
	want := []string{"remove log.swap", "sync-dir " + testLogDir, "remove index.swap", "remove timeindex.swap", "remove 00000000000000000006.reaches"}
	if !slices.Equal(done, want) {
		t.Errorf("got %q, want %q", done, want)
	}
	rig.stop(l)
}
