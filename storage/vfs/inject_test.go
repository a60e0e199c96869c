package vfs

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"
)

var errInjected = errors.New("injected")

// everything calls each method of FS and File once and stops at the first error.
func everything(fsys FS) (err error) {
	var f File
	var l io.Closer
	steps := []func() error{
		func() error { return fsys.MkdirAll("d") },
		func() error { f, err = fsys.Create("d/f"); return err },
		func() error { _, err := f.WriteAt([]byte("text"), 0); return err },
		func() error { _, err := f.ReadAt(make([]byte, 4), 0); return err },
		func() error { _, err := f.Size(); return err },
		func() error { return f.Truncate(2) },
		func() error { return f.Sync() },
		func() error { return f.Close() },
		func() error { return fsys.SetModTime("d/f", time.Unix(1, 0)) },
		func() error { return fsys.SyncDir("d") },
		func() error { f, err = fsys.Open("d/f"); return err },
		func() error { return f.Close() },
		func() error { _, err := fsys.List("d"); return err },
		func() error { _, err := fsys.Stat("d/f"); return err },
		func() error { _, _, err := fsys.Free("d"); return err },
		func() error { l, err = fsys.Lock("d/l"); return err },
		func() error { return l.Close() },
		func() error { return fsys.Rename("d/f", "d/g") },
		func() error { return fsys.Remove("d/g") },
		func() error { return fsys.RemoveAll("d") },
	}
	for _, s := range steps {
		if err := s(); err != nil {
			return err
		}
	}
	return nil
}

func TestInjectFailsEachOperation(t *testing.T) {
	kinds := map[OpKind]bool{}
	for i := int64(0); ; i++ {
		if i > 100 {
			t.Fatal("the scenario does not end")
		}
		var failed, after Op
		fsys := After(Inject(NewMem(MemOptions{}), func(o Op) error {
			if o.Index == i {
				failed = o
				kinds[o.Kind] = true
				return errInjected
			}
			return nil
		}), func(o Op, err error) {
			if err != nil {
				after = o
			}
		})
		err := everything(fsys)
		if err == nil {
			break
		}
		if !errors.Is(err, errInjected) {
			t.Fatalf("operation %d (%v): got %v, want the injected error", i, failed, err)
		}
		if after != failed {
			t.Errorf("operation %d: Inject saw %+v, After saw %+v fail", i, failed, after)
		}
	}
	for k := OpCreate; k <= OpUnlock; k++ {
		if !kinds[k] {
			t.Errorf("%v was never injected", k)
		}
	}
}

func TestInjectedFailureDoesNothing(t *testing.T) {
	mem := NewMem(MemOptions{Crashable: true})
	f, err := mem.Create("f")
	check(t, err)
	_, err = f.WriteAt([]byte("text"), 0)
	check(t, err)
	before := texts(t, mem)
	for k := OpCreate; k <= OpUnlock; k++ {
		if k == OpClose || k == OpUnlock {
			continue
		}
		fsys := Inject(mem, func(o Op) error {
			if o.Kind == k {
				return errInjected
			}
			return nil
		})
		switch k {
		case OpCreate:
			fsys.Create("f")
		case OpRemove:
			fsys.Remove("f")
		case OpRemoveAll:
			fsys.RemoveAll("f")
		case OpRename:
			fsys.Rename("f", "g")
		case OpMkdirAll:
			fsys.MkdirAll("d")
		case OpLock:
			fsys.Lock("l")
		case OpWriteAt, OpTruncate, OpSync:
			f, err := fsys.Open("f")
			check(t, err)
			if k == OpWriteAt {
				f.WriteAt([]byte("new"), 0)
			}
			if k == OpTruncate {
				f.Truncate(0)
			}
			if k == OpSync {
				f.Sync()
			}
		}
		if got := texts(t, mem); got != before {
			t.Errorf("after a failed %v: got %q, want %q", k, got, before)
		}
	}
	if got := texts(t, mem.CrashClone(1, 0)); got != "nothing\n" {
		t.Errorf("durable after failed syncs: %q, want nothing", got)
	}
}

func TestInjectedShortWriteWritesSome(t *testing.T) {
	for _, c := range []struct {
		fault ShortWrite
		want  string
		is    error
	}{
		{ShortWrite{N: 3}, "f [tex]\n", ErrNoSpace},
		{ShortWrite{N: 0, Err: errInjected}, "f []\n", errInjected},
		{ShortWrite{N: 100, Err: errInjected}, "f [text]\n", errInjected},
	} {
		mem := NewMem(MemOptions{})
		fsys := Inject(mem, func(o Op) error {
			if o.Kind == OpWriteAt {
				return &c.fault
			}
			return nil
		})
		f, err := fsys.Create("f")
		check(t, err)
		n, err := f.WriteAt([]byte("text"), 0)
		if want := min(c.fault.N, 4); n != want || !errors.Is(err, c.is) {
			t.Errorf("%+v: got %d, %v; want %d, %v", c.fault, n, err, want, c.is)
		}
		if got := texts(t, mem); got != c.want {
			t.Errorf("%+v: the file system holds %q, want %q", c.fault, got, c.want)
		}
	}
}

func TestSkippedOperationsSucceed(t *testing.T) {
	mem := NewMem(MemOptions{})
	fsys := Inject(mem, func(o Op) error {
		switch o.Kind {
		case OpRemove, OpRename, OpMkdirAll, OpTruncate, OpWriteAt, OpRemoveAll, OpSetModTime:
			return ErrSkip
		}
		return nil
	})
	f, err := fsys.Create("f")
	check(t, err)
	n, err := f.WriteAt([]byte("text"), 0)
	check(t, err)
	if n != 4 {
		t.Errorf("skipped write: got %d bytes, want 4", n)
	}
	check(t, f.Truncate(9))
	check(t, fsys.MkdirAll("d"))
	check(t, fsys.Rename("f", "g"))
	check(t, fsys.SetModTime("f", time.Unix(1, 0)))
	check(t, fsys.Remove("f"))
	check(t, fsys.RemoveAll("f"))
	if got, want := texts(t, mem), "f []\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOpStrings(t *testing.T) {
	for _, c := range []struct {
		op   Op
		want string
	}{
		{Op{Kind: OpReadAt, Name: "f", Offset: 7, Size: 3}, "read f 7+3"},
		{Op{Kind: OpUnlock, Name: "f"}, "unlock f"},
		{Op{Kind: OpKind(99), Name: "f"}, "op(99) f"},
	} {
		if got := c.op.String(); got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	for k := OpCreate; k <= OpUnlock; k++ {
		if k.String() == "" || k.String() == fmt.Sprintf("op(%d)", k) {
			t.Errorf("kind %d has no word", k)
		}
	}
}
