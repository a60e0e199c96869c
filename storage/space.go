package storage

import (
	"fmt"
	"sync/atomic"

	"github.com/kaen-log/gateway/storage/vfs"
)

// Space returns the bytes that the volume of the data directory has free for us, and its size.
func (s *Store) Space() (free, total int64, err error) { return s.fs.Free(s.dir) }

// space keeps appends and rewrites from using up the volume. What deletes has to write first, a record of the metadata log and
// checkpoints, so a store that could be filled could not be emptied. Differs from Kafka: it fills the volume and stops.
type space struct {
	fs  vfs.FS
	dir string
	// left is how many bytes may be written before the file system is asked again; below 0 when it is time.
	left atomic.Int64
}

const (
	// maxReserve bytes of the volume, or one part in reserveShare of a small one, are left to deletion.
	maxReserve   = 16 << 20
	reserveShare = 64
	// maxUnasked is how many bytes are written at most without asking: others may be using the volume too.
	maxUnasked = 4 << 20
	// blockSize is what file systems give to a file at a time, as a rule.
	blockSize = 4 << 10
	// directoryBytes is what a partition's directory takes before its first record: itself, partition.metadata and the first
	// leader-epoch-checkpoint.
	directoryBytes = 3 * blockSize
)

// growth returns how many bytes a file takes more, in whole blocks, when n are appended at a position; not less than n, since
// some file systems count bytes.
func growth(position, n int64) int64 {
	blocks := func(size int64) int64 { return (size + blockSize - 1) / blockSize }
	return max(n, (blocks(position+n)-blocks(position))*blockSize)
}

// take notes that n bytes are about to be written. The error is vfs.ErrNoSpace when they would go into the reserve. Where
// the file system does not say what is free, the write finds out. A nil space has no end.
func (s *space) take(n int64) error {
	if s == nil || s.left.Add(-n) >= 0 {
		return nil
	}
	free, total, err := s.fs.Free(s.dir)
	if err != nil {
		return nil
	}
	reserve := min(maxReserve, total/reserveShare)
	spare := free - reserve - n
	if spare < 0 {
		return fmt.Errorf("%w: %d bytes are free, and %d are kept for deletion", vfs.ErrNoSpace, free, reserve)
	}
	s.left.Store(min(spare/2, maxUnasked))
	return nil
}
