package vfs

import "time"

// Now is the clock of the operating system, for the packages above that take the clock as an option.
func Now() time.Time { return time.Now() }
