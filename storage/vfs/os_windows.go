package vfs

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

func isNoSpace(err error) bool {
	return errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) ||
		errors.Is(err, windows.ERROR_DISK_QUOTA_EXCEEDED)
}

// openFileOS opens with FILE_SHARE_DELETE, which os.OpenFile does not: an open file can be removed and renamed, as
// it can elsewhere.
func openFileOS(name string, flag int) (*os.File, error) {
	if fi, err := os.Stat(name); err == nil && fi.IsDir() {
		return nil, pathError("open", name, windows.ERROR_ACCESS_DENIED)
	}
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	access := uint32(windows.GENERIC_READ)
	if flag&os.O_RDWR != 0 {
		access |= windows.GENERIC_WRITE
	}
	disposition := uint32(windows.OPEN_EXISTING)
	if flag&os.O_CREATE != 0 {
		disposition = windows.CREATE_ALWAYS
	}
	h, err := windows.CreateFile(path, access,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, disposition, windows.FILE_ATTRIBUTE_NORMAL, 0)
	if err != nil {
		return nil, pathError("open", name, err)
	}
	return os.NewFile(uintptr(h), name), nil
}

// renameOS returns when the rename is on the disk, since SyncDir can do nothing for it.
func renameOS(oldName, newName string) error {
	if fi, err := os.Stat(newName); err == nil && fi.IsDir() {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: windows.ERROR_ALREADY_EXISTS}
	}
	from, err := windows.UTF16PtrFromString(oldName)
	if err == nil {
		var to *uint16
		if to, err = windows.UTF16PtrFromString(newName); err == nil {
			err = windows.MoveFileEx(from, to, windows.MOVEFILE_REPLACE_EXISTING|windows.MOVEFILE_WRITE_THROUGH)
		}
	}
	if err != nil {
		return &os.LinkError{Op: "rename", Old: oldName, New: newName, Err: err}
	}
	return nil
}

func freeOS(dir string) (free, total int64, err error) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, 0, pathError("free", dir, err)
	}
	var toCaller, all, unused uint64
	if err := windows.GetDiskFreeSpaceEx(path, &toCaller, &all, &unused); err != nil {
		return 0, 0, pathError("free", dir, err)
	}
	return int64(toCaller), int64(all), nil
}

// syncDirOS does nothing but look: NTFS journals names by itself and Windows has no call that waits for one directory.
func syncDirOS(dir string) error {
	fi, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !fi.IsDir() {
		return pathError("sync", dir, windows.ERROR_DIRECTORY)
	}
	return nil
}

// syncData is FlushFileBuffers, by os.File.Sync.
func (f *osFile) syncData() error { return f.File.Sync() }

// lockOS locks the range that Java's FileChannel.tryLock locks: as long as a signed 64-bit length can be.
func lockOS(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY,
		0, 0xffffffff, 0x7fffffff, new(windows.Overlapped))
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}
