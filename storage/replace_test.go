package storage

import (
	"slices"
	"strings"
	"testing"

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
