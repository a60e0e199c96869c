package storage

// Space returns the bytes that the volume of the data directory has free for us, and its size.
func (s *Store) Space() (free, total int64, err error) { return s.fs.Free(s.dir) }
