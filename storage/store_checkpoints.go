package storage

import (
	"cmp"
	"path/filepath"
	"slices"
	"sync"

	"github.com/kaen-log/gateway/storage/vfs"
)

// partitionKey names a partition in a checkpoint file.
type partitionKey struct {
	topic     string
	partition int32
}

// checkpoints are the offset checkpoint files of a store: for each partition the recovery point, the log start offset,
// the high watermark, and up to where it was cleaned. A log that was not used since the start keeps the lines it had, and
// so does one that goes offline: the next start is to look at what it cannot vouch for. What it knows to be on disk, though
// its caches may not be, is in a file of its own, so that this start does not take damage for a torn write.
//
// A line of a topic that is gone must never meet a new topic of the same name: its log start would cut the new log.
// So the lines of partitions that do not exist are dropped at Open and when a topic is deleted, and the files are
// written without them before the name can be used again.
type checkpoints struct {
	dir string
	fs  vfs.FS

	writing sync.Mutex // held over the writing of a file
	mu      sync.Mutex // never held over I/O
	files   [5]checkpointFile
}

// checkpointFile is one of the files; guarded by checkpoints.mu.
type checkpointFile struct {
	name    string
	offsets map[partitionKey]int64
	stale   bool // the file may have a line that offsets lacks
	changed bool // the file may differ from offsets otherwise
}

// Places in checkpoints.files.
const (
	recoveryPoints = iota
	logStarts
	highWatermarks
	cleanedOffsets
	syncedOffsets
)

// open reads the files. A damaged file is as good as what could be read of it, and is reported to warn.
func (c *checkpoints) open(fsys vfs.FS, dir string, warn func(error)) error {
	c.fs, c.dir = fsys, dir
	for i, name := range [...]string{recoveryPointCheckpoint, logStartCheckpoint, replicationCheckpoint, cleanerCheckpoint, syncedCheckpoint} {
		lines, err := readOffsetCheckpoint(fsys, filepath.Join(dir, name))
		if err != nil {
			if !isCorrupt(err) {
				return err
			}
			warn(err)
		}
		f := &c.files[i]
		f.name = name
		f.offsets = make(map[partitionKey]int64, len(lines))
		for _, l := range lines {
			f.offsets[partitionKey{l.Topic, l.Partition}] = l.Offset
		}
	}
	return nil
}

// keep drops the lines of partitions that do not exist.
func (c *checkpoints) keep(exists func(partitionKey) bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.files {
		f := &c.files[i]
		for k := range f.offsets {
			if !exists(k) {
				delete(f.offsets, k)
				f.stale = true
			}
		}
	}
}

// drop drops the lines of a topic's partitions and makes sure that the files are without them, and without all others
// that were dropped before. High watermarks, which nothing is decided by, can wait. What was cleaned cannot: it would
// keep the new log from being cleaned.
func (c *checkpoints) drop(topic string, partitions int32) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	c.mu.Lock()
	var stale [len(c.files)]bool
	for i := range c.files {
		f := &c.files[i]
		for p := range partitions {
			k := partitionKey{topic, p}
			if _, ok := f.offsets[k]; ok {
				delete(f.offsets, k)
				f.stale = true
			}
		}
		stale[i] = f.stale && i != highWatermarks
	}
	c.mu.Unlock()
	for i := range stale {
		if stale[i] {
			if err := c.write(&c.files[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// origin returns what the files say of a partition.
func (c *checkpoints) origin(topic string, partition int32) logOrigin {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := partitionKey{topic, partition}
	return logOrigin{
		recoveryPoint: c.files[recoveryPoints].offsets[k], logStart: c.files[logStarts].offsets[k], cleanedTo: c.files[cleanedOffsets].offsets[k],
		synced: c.files[syncedOffsets].offsets[k],
	}
}

// saveLogStart makes the log start offset of a partition durable. live is asked under the lock, so that a log whose
// topic is being deleted leaves no line behind.
func (c *checkpoints) saveLogStart(topic string, partition int32, offset int64, live func() bool) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	f := &c.files[logStarts]
	c.mu.Lock()
	ok := live()
	if ok {
		f.raise(partitionKey{topic, partition}, offset)
	}
	c.mu.Unlock()
	if !ok {
		return ErrLogDeleted
	}
	return c.write(f)
}

// raiseSynced takes over the offset below which a log that is offline is on disk; it reaches the disk with the next write.
// live as in saveLogStart.
func (c *checkpoints) raiseSynced(topic string, partition int32, offset int64, live func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if live() {
		c.files[syncedOffsets].raise(partitionKey{topic, partition}, offset)
	}
}

// save takes over the offsets of a log; they reach the disk with the next write. live as in saveLogStart.
func (c *checkpoints) save(topic string, partition int32, recoveryPoint, logStart, highWatermark, cleanedTo int64, live func() bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !live() {
		return
	}
	k := partitionKey{topic, partition}
	c.files[recoveryPoints].set(k, recoveryPoint)
	c.files[highWatermarks].set(k, highWatermark)
	c.files[logStarts].raise(k, logStart)
	if cleanedTo > 0 {
		c.files[cleanedOffsets].set(k, cleanedTo)
	}
	// The log may have gone offline since it was looked at.
	if f := &c.files[syncedOffsets]; f.offsets[k] <= recoveryPoint {
		f.unset(k)
	}
}

// raise sets an offset that never goes back: who comes last need not have looked last.
func (f *checkpointFile) raise(k partitionKey, offset int64) {
	if offset > f.offsets[k] {
		f.set(k, offset)
	}
}

func (f *checkpointFile) set(k partitionKey, offset int64) {
	if old, ok := f.offsets[k]; !ok || old != offset {
		f.offsets[k] = offset
		f.changed = true
	}
}

// unset drops a line that says nothing any more. In the file it does no harm as long as the topic is there.
func (f *checkpointFile) unset(k partitionKey) {
	if _, ok := f.offsets[k]; ok {
		delete(f.offsets, k)
		f.stale = true
	}
}

// flush writes the files that have changed.
func (c *checkpoints) flush() error {
	for i := range c.files {
		if err := c.flushFile(i); err != nil {
			return err
		}
	}
	return nil
}

// flushFile writes a file that has changed. Of many that call it at about the same time one writes for all.
func (c *checkpoints) flushFile(i int) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	f := &c.files[i]
	c.mu.Lock()
	due := f.stale || f.changed
	c.mu.Unlock()
	if !due {
		return nil
	}
	return c.write(f)
}

// write replaces a file; writing is held, mu is not.
func (c *checkpoints) write(f *checkpointFile) error {
	c.mu.Lock()
	lines := make([]PartitionOffset, 0, len(f.offsets))
	for k, offset := range f.offsets {
		lines = append(lines, PartitionOffset{Topic: k.topic, Partition: k.partition, Offset: offset})
	}
	stale, changed := f.stale, f.changed
	f.stale, f.changed = false, false
	c.mu.Unlock()
	slices.SortFunc(lines, func(a, b PartitionOffset) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	err := writeOffsetCheckpoint(c.fs, filepath.Join(c.dir, f.name), lines)
	if err != nil {
		c.mu.Lock()
		f.stale, f.changed = f.stale || stale, f.changed || changed
		c.mu.Unlock()
	}
	return err
}
