//go:build linux || darwin

package vfs

import "golang.org/x/sys/unix"

// Descriptors returns how many files and sockets the process may have open, 0 when there is no such limit. The runtime
// has raised the limit as far as it may before.
func Descriptors() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Cur > 1<<31-1 {
		return 0
	}
	return int64(l.Cur)
}
