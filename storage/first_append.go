package storage

import (
	"errors"
	"io/fs"
	"path/filepath"
	"sync"
	"sync/atomic"
)

// A partition gets its directory with its first append: made, with the topic's id in it, and durable before a record
// is. That takes three syncs one after the other, so when many partitions are written to for the first time they are
// made side by side, and the sync of the data directory, which all need, is shared.

// Made reports whether the log has its directory, so that an append need not make it. It never waits; a log that was
// not used since the start has not looked yet.
func (l *Log) Made() bool { return l.made.Load() }

// MakeDirectories makes the directories of logs that have none, several at a time. It is not needed before Append,
// which does the same for its log and tells of the errors that are passed over here.
func (s *Store) MakeDirectories(logs []*Log) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.o.SyncThreads, len(logs)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(logs)); i = next.Add(1) - 1 {
				logs[i].prepare()
			}
		})
	}
	workers.Wait()
}

// prepare makes the directory of a log that is about to get its first append. The directory of another broker is left
// as it is: the append may yet be refused.
func (l *Log) prepare() {
	if l.recover() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if Status(l.status.Load()) != StatusOnline || l.deleted.Load() || l.closed || l.made.Load() || l.takeover != nil {
		return
	}
	_ = l.makeDirectory() // the append tries again
}

// makeDirectory makes the partition's directory, durably and with the topic's id in it: a directory that holds records
// always says whose they are. mu is held.
func (l *Log) makeDirectory() error {
	_, err := l.ctx.fs.Stat(filepath.Join(l.dir, partitionMetadataFile))
	missing := errors.Is(err, fs.ErrNotExist)
	if missing {
		if err := l.takeSpace(directoryBytes); err != nil {
			return err
		}
	}
	if err := l.ctx.fs.MkdirAll(l.dir); err != nil {
		return err
	}
	if missing {
		err = l.ctx.files.withRoom(func() error { return writePartitionMetadata(l.ctx.fs, l.dir, l.id) })
	}
	if err != nil {
		return err
	}
	err = l.ctx.root.sync(func() error { return l.ctx.files.syncDir(filepath.Dir(l.dir)) })
	if err == nil {
		l.made.Store(true)
	}
	return err
}

// sharedSync is a sync that serves all who ask for it at about the same time: one that begins after a call covers
// what its caller did before. The zero value is ready to use.
type sharedSync struct {
	mu      sync.Mutex
	running *syncCall // guarded by mu; the last that began, until it has ended
	next    *syncCall // guarded by mu; has not begun, and may be joined
}

type syncCall struct {
	done chan struct{} // closed when it has ended
	err  error         // set before
}

// sync returns the outcome of a call of do that begins after sync was called. Calls of do never overlap.
func (s *sharedSync) sync(do func() error) error {
	s.mu.Lock()
	if c := s.next; c != nil {
		s.mu.Unlock()
		<-c.done
		return c.err
	}
	c, before := &syncCall{done: make(chan struct{})}, s.running
	s.next = c
	s.mu.Unlock()
	if before != nil {
		<-before.done
	}
	s.mu.Lock()
	s.running, s.next = c, nil
	s.mu.Unlock()
	c.err = do()
	close(c.done)
	s.mu.Lock()
	if s.running == c {
		s.running = nil
	}
	s.mu.Unlock()
	return c.err
}
