package vfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"
)

// ErrSkip, returned by the function given to Inject, makes the operation report success and do nothing. It is for
// operations with no result but their error: Remove, RemoveAll, Rename, MkdirAll, SetModTime, SyncDir, Truncate, Sync
// and Close of a lock; WriteAt reports all bytes written.
var ErrSkip = errors.New("operation left out")

// ShortWrite, returned by the function given to Inject for OpWriteAt, makes the write stop early, as one does that
// fills the file system.
type ShortWrite struct {
	N   int   // bytes that are written first; no more than there are
	Err error // the error of the write; nil means ErrNoSpace
}

func (e *ShortWrite) Error() string {
	return fmt.Sprintf("write stopped after %d bytes: %v", e.N, e.Unwrap())
}

// Unwrap returns Err, or what it stands for.
func (e *ShortWrite) Unwrap() error {
	if e.Err == nil {
		return ErrNoSpace
	}
	return e.Err
}

// LostSync, returned by the function given to Inject for OpSync, makes the sync fail as it does when the disk refuses
// the pages: the file still reads as written, but what was not synced is lost to the disk for good, so that a later
// Sync that succeeds does not bring it there. Only a Mem that is Crashable knows the difference. Any other error for
// OpSync leaves the unsynced bytes to the next Sync.
type LostSync struct {
	Err error // what went wrong; nil means that nothing more is known
}

func (e *LostSync) Error() string {
	if e.Err == nil {
		return "sync failed, unsynced writes are lost"
	}
	return fmt.Sprintf("sync failed, unsynced writes are lost: %v", e.Err)
}

// Unwrap returns Err.
func (e *LostSync) Unwrap() error { return e.Err }

// Inject returns fsys with faults. Before each operation f is called with it; when f returns an error the operation
// fails with that error, and nothing is done but what ShortWrite, LostSync and ErrSkip say. Close of a file or a lock
// closes it even when it fails. f is called by the goroutine of the operation, several at once if there are; no lock
// is held meanwhile, so f may use fsys itself, and may take a crash clone of the Mem below.
func Inject(fsys FS, f func(Op) error) FS {
	return &hooked{inner: fsys, before: f}
}

// After returns fsys with f called after each operation, with its error. As with Inject, f may use fsys itself. A
// crash clone that f takes after OpSync or OpSyncDir holds what that sync made durable.
func After(fsys FS, f func(Op, error)) FS {
	return &hooked{inner: fsys, after: f}
}

// Log returns fsys with line called after each operation that changes something or syncs, with the line that
// Op.String gives; a failed one ends in ": " and what went wrong. The lines of a scenario, in a golden file, show what it
// makes durable and in which order.
func Log(fsys FS, line func(string)) FS {
	return After(fsys, func(o Op, err error) {
		switch {
		case !o.Kind.Mutates():
		case err != nil:
			line(o.String() + ": " + cause(err).Error())
		default:
			line(o.String())
		}
	})
}

// cause returns what an error of a file system says beside the operation and the name.
func cause(err error) error {
	switch e := err.(type) {
	case *fs.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}

// SkipSyncs returns fsys whose Sync and SyncDir report success and do nothing where skip returns true. It is for
// proofs that a crash test would notice: with the sync left out, it has to fail.
func SkipSyncs(fsys FS, skip func(Op) bool) FS {
	return Inject(fsys, func(o Op) error {
		if (o.Kind == OpSync || o.Kind == OpSyncDir) && skip(o) {
			return ErrSkip
		}
		return nil
	})
}

// hooked is an FS with a function called before or after each operation. Either may be nil.
type hooked struct {
	inner  FS
	before func(Op) error
	after  func(Op, error)
	n      atomic.Int64
}

// do runs one operation that returns no more than an error.
func (h *hooked) do(o Op, run func() error) error {
	err := h.begin(&o)
	switch {
	case err == nil:
		err = run()
	case err == ErrSkip:
		err = nil
	}
	h.end(o, err)
	return err
}

func (h *hooked) begin(o *Op) error {
	o.Index = h.n.Add(1) - 1
	if h.before == nil {
		return nil
	}
	return h.before(*o)
}

func (h *hooked) end(o Op, err error) {
	if h.after != nil {
		h.after(o, err)
	}
}

func (h *hooked) Create(name string) (File, error) {
	return h.file(Op{Kind: OpCreate, Name: name}, h.inner.Create)
}

func (h *hooked) Open(name string) (File, error) {
	return h.file(Op{Kind: OpOpen, Name: name}, h.inner.Open)
}

func (h *hooked) file(o Op, open func(string) (File, error)) (File, error) {
	var f File
	err := h.begin(&o)
	if err == nil {
		f, err = open(o.Name)
	}
	h.end(o, err)
	if err != nil {
		return nil, err
	}
	return &hookedFile{inner: f, h: h, name: o.Name}, nil
}

func (h *hooked) Remove(name string) error {
	return h.do(Op{Kind: OpRemove, Name: name}, func() error { return h.inner.Remove(name) })
}

func (h *hooked) RemoveAll(name string) error {
	return h.do(Op{Kind: OpRemoveAll, Name: name}, func() error { return h.inner.RemoveAll(name) })
}

func (h *hooked) Rename(oldName, newName string) error {
	return h.do(Op{Kind: OpRename, Name: oldName, NewName: newName}, func() error { return h.inner.Rename(oldName, newName) })
}

func (h *hooked) MkdirAll(dir string) error {
	return h.do(Op{Kind: OpMkdirAll, Name: dir}, func() error { return h.inner.MkdirAll(dir) })
}

func (h *hooked) List(dir string) (names []string, err error) {
	o := Op{Kind: OpList, Name: dir}
	if err = h.begin(&o); err == nil {
		names, err = h.inner.List(dir)
	}
	h.end(o, err)
	return names, err
}

func (h *hooked) Stat(name string) (info Info, err error) {
	o := Op{Kind: OpStat, Name: name}
	if err = h.begin(&o); err == nil {
		info, err = h.inner.Stat(name)
	}
	h.end(o, err)
	return info, err
}

func (h *hooked) SetModTime(name string, t time.Time) error {
	return h.do(Op{Kind: OpSetModTime, Name: name, ModTime: t}, func() error { return h.inner.SetModTime(name, t) })
}

func (h *hooked) Free(dir string) (free, total int64, err error) {
	o := Op{Kind: OpFree, Name: dir}
	if err = h.begin(&o); err == nil {
		free, total, err = h.inner.Free(dir)
	}
	h.end(o, err)
	return free, total, err
}

func (h *hooked) SyncDir(dir string) error {
	return h.do(Op{Kind: OpSyncDir, Name: dir}, func() error { return h.inner.SyncDir(dir) })
}

func (h *hooked) Lock(name string) (io.Closer, error) {
	var c io.Closer
	o := Op{Kind: OpLock, Name: name}
	err := h.begin(&o)
	if err == nil {
		c, err = h.inner.Lock(name)
	}
	h.end(o, err)
	if err != nil {
		return nil, err
	}
	return &hookedLock{inner: c, h: h, name: name}, nil
}

type hookedLock struct {
	inner io.Closer
	h     *hooked
	name  string
}

func (l *hookedLock) Close() error { return l.h.close(Op{Kind: OpUnlock, Name: l.name}, l.inner) }

// close closes c even when the hook fails the operation.
func (h *hooked) close(o Op, c io.Closer) error {
	err := h.begin(&o)
	if cerr := c.Close(); err == nil || err == ErrSkip {
		err = cerr
	}
	h.end(o, err)
	return err
}

type hookedFile struct {
	inner File
	h     *hooked
	name  string
}

func (f *hookedFile) ReadAt(p []byte, off int64) (n int, err error) {
	o := Op{Kind: OpReadAt, Name: f.name, Offset: off, Size: len(p)}
	if err = f.h.begin(&o); err == nil {
		n, err = f.inner.ReadAt(p, off)
	}
	f.h.end(o, err)
	return n, err
}

func (f *hookedFile) WriteAt(p []byte, off int64) (n int, err error) {
	o := Op{Kind: OpWriteAt, Name: f.name, Offset: off, Size: len(p)}
	err = f.h.begin(&o)
	var short *ShortWrite
	switch {
	case err == nil:
		n, err = f.inner.WriteAt(p, off)
	case err == ErrSkip:
		n, err = len(p), nil
	case errors.As(err, &short):
		var werr error
		if n, werr = f.inner.WriteAt(p[:min(max(short.N, 0), len(p))], off); werr != nil {
			err = werr
		}
	}
	f.h.end(o, err)
	return n, err
}

func (f *hookedFile) Close() error { return f.h.close(Op{Kind: OpClose, Name: f.name}, f.inner) }

func (f *hookedFile) Size() (size int64, err error) {
	o := Op{Kind: OpSize, Name: f.name}
	if err = f.h.begin(&o); err == nil {
		size, err = f.inner.Size()
	}
	f.h.end(o, err)
	return size, err
}

func (f *hookedFile) Truncate(size int64) error {
	return f.h.do(Op{Kind: OpTruncate, Name: f.name, Offset: size}, func() error { return f.inner.Truncate(size) })
}

func (f *hookedFile) Sync() error {
	o := Op{Kind: OpSync, Name: f.name}
	err := f.h.begin(&o)
	var lost *LostSync
	switch {
	case err == nil:
		err = f.inner.Sync()
	case err == ErrSkip:
		err = nil
	case errors.As(err, &lost):
		loseUnsynced(f.inner)
	}
	f.h.end(o, err)
	return err
}

func (f *hookedFile) loseUnsynced() { loseUnsynced(f.inner) }

// loseUnsynced makes what was written to f and not synced lost to the disk, where f's file system knows how.
func loseUnsynced(f File) {
	if l, ok := f.(interface{ loseUnsynced() }); ok {
		l.loseUnsynced()
	}
}
