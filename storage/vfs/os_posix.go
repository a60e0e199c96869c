//go:build linux || darwin

package vfs

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

func isNoSpace(err error) bool {
	return errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT)
}

func openFileOS(name string, flag int) (*os.File, error) { return os.OpenFile(name, flag, 0o644) }

func renameOS(oldName, newName string) error { return os.Rename(oldName, newName) }

func freeOS(dir string) (free, total int64, err error) {
	var st unix.Statfs_t
	for {
		err = unix.Statfs(dir, &st)
		if err != unix.EINTR {
			break
		}
	}
	if err != nil {
		return 0, 0, pathError("statfs", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), int64(st.Blocks) * int64(st.Bsize), nil
}

func syncDirOS(dir string) error {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) {
		err = nil // a file system, of the network mostly, that has no such thing: nothing can be done for its names
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// lockOS takes the record lock that Java's FileChannel.tryLock takes: exclusive, the whole file however long it gets.
func lockOS(f *os.File) error {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart}
	for {
		err := unix.FcntlFlock(f.Fd(), unix.F_SETLK, &lk)
		switch err {
		case unix.EINTR:
			continue
		case unix.EAGAIN, unix.EACCES:
			return ErrLocked
		}
		return err
	}
}
