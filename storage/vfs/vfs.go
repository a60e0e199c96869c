// Package vfs is the file system as storage sees it: two small interfaces, the operating system behind them
// (OS), a file system in memory that serves as a store of its own and can show what a power loss leaves (Mem),
// and wrappers that fail operations (Inject), tell of them (After, Log) or leave out syncs (SkipSyncs).
//
// # What is durable when
//
// Three promises, and no more, are made by every implementation, and Mem takes away all else in a crash clone:
//
//   - The bytes and the size of a file are durable once File.Sync has returned nil.
//   - A name (made, replaced, removed, renamed) is durable once FS.SyncDir of the directory that holds the name
//     has returned nil. Sync of the file does not do it, and SyncDir of a directory does not make the
//     directory's own name durable: that stands in its parent.
//   - A rename is never half done. A name that is replaced by a rename is the old file or the new one; a file
//     whose name was durable is still found by its old or its new name.
//
// What was not synced may be there or not, in any part and in any order.
package vfs

import (
	"errors"
	"io"
	"io/fs"
	"time"
)

// ErrLocked is the error of Lock when another process, or another part of this one, holds the lock.
var ErrLocked = errors.New("locked by another process")

// ErrNoSpace is the error of writing to a full file system or beyond a quota. Errors of the operating system that
// mean it satisfy errors.Is(err, ErrNoSpace) too.
var ErrNoSpace = errors.New("no space left on the file system")

// IsNoSpace reports whether err, or one that it wraps, says that the file system is full or a quota used up. It
// also knows errors of the operating system that did not come through this package.
func IsNoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || isNoSpace(err)
}

// A File is an open file. Its methods may be called by several goroutines at once: a ReadAt beside a WriteAt of the
// same bytes may see some of the new ones and some of the old, and nothing else. After Close every method gives an
// error that is fs.ErrClosed.
type File interface {
	// ReadAt gives io.EOF when it meets the end of the file before p is full.
	io.ReaderAt
	// WriteAt makes the file longer where needed; a gap that it leaves reads as zeros. When it fails it says how
	// many bytes it wrote first: a full file system often takes some.
	io.WriterAt
	// Close does not sync.
	io.Closer
	// Size returns the length of the file in bytes.
	Size() (int64, error)
	// Truncate makes the file size bytes long; what it adds reads as zeros.
	Truncate(size int64) error
	// Sync makes all that was written and cut before it durable: fdatasync where there is one, so the
	// modification time may be left out. After it failed, what was written since the last Sync that did not
	// fail may be lost although it still can be read, and a later Sync that succeeds says nothing about it.
	Sync() error
}

// Info tells about a name.
type Info struct {
	Size    int64 // in bytes; of no meaning for a directory
	ModTime time.Time
	IsDir   bool
}

// An FS is a tree of directories and files. All methods may be called by several goroutines at once. Names are paths
// in the form of the operating system. Errors satisfy errors.Is for fs.ErrNotExist, fs.ErrExist, fs.ErrPermission and
// fs.ErrClosed.
type FS interface {
	// Create opens a file for reading and writing. It makes the file, or empties the one that is there. The
	// directory must exist.
	Create(name string) (File, error)
	// Open opens an existing file for reading and writing, or for reading only where the file system or the
	// mode of the file forbids writing.
	Open(name string) (File, error)
	// Remove removes a file or an empty directory. Open handles of the file stay of use.
	Remove(name string) error
	// RemoveAll removes a file, or a directory with all in it. That nothing is there is no error. It is not one
	// step: after a failure or a crash some may be left.
	RemoveAll(name string) error
	// Rename gives a file or a directory a new name, which may lie in another directory. A file that has the new
	// name is replaced in the same step; a directory never is.
	Rename(oldName, newName string) error
	// MkdirAll makes a directory and those above it where they are missing.
	MkdirAll(dir string) error
	// List returns the base names in a directory, sorted.
	List(dir string) ([]string, error)
	// Stat tells about a name.
	Stat(name string) (Info, error)
	// SetModTime sets the modification time of a file or a directory.
	SetModTime(name string, t time.Time) error
	// Free returns the bytes that can still be written to the file system that holds dir, and its whole size.
	Free(dir string) (free, total int64, err error)
	// SyncDir makes the names in a directory durable.
	SyncDir(dir string) error
	// Lock takes an exclusive lock on a file, which it makes where it is missing and which stays when the lock is
	// released by Close or by the end of the process. It does not wait: the error is ErrLocked when the lock is
	// held. A process that runs Java's FileChannel.tryLock on the file and one that runs Lock exclude each other.
	Lock(name string) (io.Closer, error)
}

// noSpaceError makes the operating system's own error errors.Is(err, ErrNoSpace).
type noSpaceError struct{ error }

func (e noSpaceError) Unwrap() error        { return e.error }
func (e noSpaceError) Is(target error) bool { return target == ErrNoSpace }

// withNoSpace returns err, as a noSpaceError when it is one.
func withNoSpace(err error) error {
	if err != nil && isNoSpace(err) {
		return noSpaceError{err}
	}
	return err
}

func pathError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: err}
}
