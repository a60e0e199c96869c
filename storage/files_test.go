package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"testing"
	"unsafe"

	"github.com/kaen-log/gateway/storage/vfs"
)

// testFiles are n files with their number in them.
func testFiles(t *testing.T, o *openFiles, n int) []*file {
	t.Helper()
	files := make([]*file, n)
	for i := range files {
		files[i] = new(file)
		files[i].init(o, fmt.Sprint(i))
		h, err := files[i].create()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.WriteAt([]byte{byte(i)}, 0); err != nil {
			t.Fatal(err)
		}
		files[i].release()
	}
	return files
}

func TestOpenFilesStayWithinTheBudget(t *testing.T) {
	o := newOpenFiles(vfs.NewMem(vfs.MemOptions{}), 5)
	files := testFiles(t, o, 50)
	if n := o.count(); n != 5 {
		t.Errorf("%d files are open, want 5", n)
	}
	for i, f := range files {
		var b [1]byte
		if _, err := f.ReadAt(b[:], 0); err != nil || b[0] != byte(i) {
			t.Errorf("file %d: got %d, %v", i, b[0], err)
		}
	}
	if n := o.count(); n != 5 {
		t.Errorf("%d files are open, want 5", n)
	}
	// Those in use are not closed.
	for _, f := range files[:8] {
		if _, err := f.acquire(); err != nil {
			t.Fatal(err)
		}
	}
	if n := o.count(); n != 8 {
		t.Errorf("%d files are open with 8 in use, want 8", n)
	}
	for i, f := range files[:8] {
		if f.handle == nil {
			t.Errorf("file %d was closed while in use", i)
		}
		f.release()
	}
	for _, f := range files {
		if err := f.retire(); err != nil {
			t.Error(err)
		}
	}
	if n := o.count(); n != 0 {
		t.Errorf("%d files are open, want none", n)
	}
	if _, err := files[0].acquire(); !errors.Is(err, errFileGone) {
		t.Errorf("use of a file that is gone: got %v, want errFileGone", err)
	}
}

func TestFilesAreUsedAndClosedAtTheSameTime(t *testing.T) {
	o := newOpenFiles(vfs.NewMem(vfs.MemOptions{}), 2)
	files := testFiles(t, o, 6)
	var users sync.WaitGroup
	for u := range 4 {
		users.Go(func() {
			var b [1]byte
			for i := range 2000 {
				n := (i*7 + u*3) % len(files)
				if _, err := files[n].ReadAt(b[:], 0); err != nil || b[0] != byte(n) {
					t.Errorf("file %d: got %d, %v", n, b[0], err)
					return
				}
			}
		})
	}
	users.Wait()
	// Several users at a time may have exceeded the budget; what is opened next makes up for it.
	for _, f := range files {
		var b [1]byte
		if _, err := f.ReadAt(b[:], 0); err != nil {
			t.Error(err)
		}
	}
	if n := o.count(); n > 2 {
		t.Errorf("%d files are open, want at most 2", n)
	}
}

func TestMissingFileIsNotMade(t *testing.T) {
	o := newOpenFiles(vfs.NewMem(vfs.MemOptions{}), 2)
	var f file
	f.init(o, "missing")
	if _, err := f.acquire(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v, want fs.ErrNotExist", err)
	}
}

// An unused log is this and its place in a slice.
func TestUnusedLogIsSmall(t *testing.T) {
	if n := unsafe.Sizeof(Log{}); n > 1<<10 {
		t.Errorf("a Log takes %d bytes, want at most 1024", n)
	}
}

// Only what could not be opened is done again when files were closed: a sync that failed is a failure.
func TestFailedSyncOfNamesIsNotMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		fails bool
	}{
		{"sync", errInjected, true},
		{"open", &fs.PathError{Op: "open", Path: testLogDir, Err: errors.New("too many open files")}, false},
	} {
		for _, epochs := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/epochs=%v", c.name, epochs), func(t *testing.T) {
				armed := false
				rig := newLogRig(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
					if armed && op.Kind == vfs.OpSyncDir && op.Name == testLogDir {
						armed = false
						return c.err
					}
					return nil
				}))
				rig.configs["internal.segment.bytes"] = "300"
				l := rig.start()
				for range 4 {
					appendDurably(t, l, testBatch("x"))
				}
				if !epochs {
					if err := l.flush(); err != nil {
						t.Fatal(err)
					}
				}
				armed = true
				err := l.WaitDurable(context.Background(), appendTo(t, l, testBatch("x"))) // begins a segment
				if errors.Is(err, ErrStorage) != c.fails || armed {
					t.Errorf("got %v, want ErrStorage: %v", err, c.fails)
				}
				rig.stop(l)
			})
		}
	}
}
