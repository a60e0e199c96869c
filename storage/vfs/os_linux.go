package vfs

import (
	"io/fs"

	"golang.org/x/sys/unix"
)

// syncData is fdatasync: the bytes, and of the inode only what is needed to find them, the size included.
func (f *osFile) syncData() error {
	var err error
	cerr := f.raw.Control(func(fd uintptr) {
		for {
			err = unix.Fdatasync(int(fd))
			if err != unix.EINTR {
				return
			}
		}
	})
	if cerr != nil {
		err = fs.ErrClosed // there is no other cause
	}
	if err != nil {
		return pathError("sync", f.Name(), err)
	}
	return nil
}
