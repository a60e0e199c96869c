package vfs

// syncData is F_FULLFSYNC, which os.File.Sync uses here: fsync alone leaves the bytes in the drive's own cache.
func (f *osFile) syncData() error { return f.File.Sync() }
