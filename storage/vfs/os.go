package vfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
	"time"
)

// OS returns the file system of the operating system. Files are made with mode 0644 and directories with 0755,
// less the process's umask.
func OS() FS { return osFS{} }

type osFS struct{}

func (osFS) Create(name string) (File, error) {
	return openOS(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
}

func (osFS) Open(name string) (File, error) {
	f, err := openOS(name, os.O_RDWR)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS) {
		return openOS(name, os.O_RDONLY)
	}
	return f, err
}

func (osFS) Remove(name string) error    { return os.Remove(name) }
func (osFS) RemoveAll(name string) error { return os.RemoveAll(name) }

func (osFS) Rename(oldName, newName string) error {
	return withNoSpace(renameOS(oldName, newName))
}

func (osFS) MkdirAll(dir string) error {
	return withNoSpace(os.MkdirAll(dir, 0o755))
}

func (osFS) List(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (osFS) Stat(name string) (Info, error) {
	fi, err := os.Stat(name)
	if err != nil {
		return Info{}, err
	}
	return Info{Size: fi.Size(), ModTime: fi.ModTime(), IsDir: fi.IsDir()}, nil
}

func (osFS) SetModTime(name string, t time.Time) error { return os.Chtimes(name, t, t) }

func (osFS) Free(dir string) (free, total int64, err error) { return freeOS(dir) }

func (osFS) SyncDir(dir string) error { return withNoSpace(syncDirOS(dir)) }

// osFile is a file of the operating system.
type osFile struct {
	*os.File
	raw syscall.RawConn // of File; holds the descriptor open while Sync uses it
}

func openOS(name string, flag int) (File, error) {
	f, err := openFileOS(name, flag)
	if err != nil {
		return nil, withNoSpace(err)
	}
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, err
	}
	return &osFile{File: f, raw: raw}, nil
}

func (f *osFile) WriteAt(p []byte, off int64) (int, error) {
	n, err := f.File.WriteAt(p, off)
	return n, withNoSpace(err)
}

func (f *osFile) Size() (int64, error) {
	fi, err := f.File.Stat()
	if err != nil {
		return 0, err
	}
	return fi.Size(), nil
}

func (f *osFile) Truncate(size int64) error { return withNoSpace(f.File.Truncate(size)) }

func (f *osFile) Sync() error { return withNoSpace(f.syncData()) }

// osLocks are the locks that this process holds. The operating system's record locks belong to the process, so they
// do not exclude it from itself, and closing any descriptor of a locked file releases its lock: a second Lock must
// be turned away before it opens the file.
var osLocks struct {
	mu   sync.Mutex
	held []*osLock // guarded by mu
}

type osLock struct {
	f    *os.File
	info fs.FileInfo // what f is, whatever name leads to it
}

// Lock opens and locks under osLocks.mu; neither waits.
func (osFS) Lock(name string) (io.Closer, error) {
	osLocks.mu.Lock()
	defer osLocks.mu.Unlock()
	if fi, err := os.Stat(name); err == nil {
		for _, l := range osLocks.held {
			if os.SameFile(fi, l.info) {
				return nil, pathError("lock", name, ErrLocked)
			}
		}
	}
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, withNoSpace(err)
	}
	fi, err := f.Stat()
	if err == nil {
		err = lockOS(f)
	}
	if err != nil {
		f.Close()
		return nil, pathError("lock", name, err)
	}
	l := &osLock{f: f, info: fi}
	osLocks.held = append(osLocks.held, l)
	return l, nil
}

// Close releases the lock. The operating system does so with the descriptor.
func (l *osLock) Close() error {
	osLocks.mu.Lock()
	defer osLocks.mu.Unlock()
	for i, h := range osLocks.held {
		if h == l {
			osLocks.held = append(osLocks.held[:i], osLocks.held[i+1:]...)
		}
	}
	return l.f.Close()
}
