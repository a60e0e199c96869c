package storage

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Run does what must happen in the background, until ctx ends: it recovers the partitions, writes checkpoints, expires
// producers, and removes the files and directories whose time has come. It is called once, after Open and before Close. The
// error is nil.
func (s *Store) Run(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// What is removed and forgotten later goes by what was found.
	found, ok := s.findDirs(ctx)
	if !ok {
		return nil
	}
	running.Go(func() { s.recoverAll(ctx, found) })
	s.housekeeping(ctx)
	return nil
}

// findDirs is scanDirs, again and again while the data directory cannot be read; false when ctx ends. Partitions that are
// used meanwhile are recovered by that.
func (s *Store) findDirs(ctx context.Context) (found []partitionKey, ok bool) {
	timer := time.NewTimer(housekeepingInterval)
	defer timer.Stop()
	for {
		found, err := s.scanDirs()
		if err == nil {
			return found, true
		}
		s.o.Logger.Error("data directory could not be read; trying again", "err", err)
		timer.Reset(housekeepingInterval)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return nil, false
		}
	}
}

// recoverAll recovers the partitions that have directories, the broker's own topics first: clients wait for them.
func (s *Store) recoverAll(ctx context.Context, found []partitionKey) {
	slices.SortStableFunc(found, func(a, b partitionKey) int {
		switch ia, ib := IsInternalTopic(a.topic), IsInternalTopic(b.topic); {
		case ia == ib:
			return strings.Compare(a.topic, b.topic)
		case ia:
			return -1
		}
		return 1
	})
	work := make(chan partitionKey)
	var workers sync.WaitGroup
	for range s.o.RecoveryThreads {
		workers.Go(func() {
			for k := range work {
				s.recoverPartition(k)
			}
		})
	}
	done := ctx.Done()
	complete := true
	for _, k := range found {
		select {
		case work <- k:
			continue
		case <-done:
		}
		complete = false
		break
	}
	close(work)
	workers.Wait()
	if complete {
		s.started.recovered.Store(true)
	}
}

func (s *Store) recoverPartition(k partitionKey) {
	t, ok := s.Topic(k.topic)
	if !ok {
		return
	}
	l, ok := t.Partition(k.partition)
	if !ok {
		return
	}
	l.recover() // the log tells of what it finds, and every call on it does
}

// housekeepingInterval is how often removed files are looked for; a directory of a deleted topic is removed when it is
// due.
const housekeepingInterval = 5 * time.Second

// housekeeping does what is due, again and again, until ctx ends. Timers only wake it; what is due is decided by the
// store's own clock.
func (s *Store) housekeeping(ctx context.Context) {
	now := s.o.Now()
	checkpoint, expire := now.Add(s.o.CheckpointInterval), now.Add(s.o.ProducerIDExpirationInterval)
	timer := time.NewTimer(housekeepingInterval)
	defer timer.Stop()
	for {
		next := s.removeRetired()
		s.eachOpened(func(l *Log) {
			if due := l.removeDeleted(); !due.IsZero() && (next.IsZero() || due.Before(next)) {
				next = due
			}
		})
		now := s.o.Now()
		if !now.Before(checkpoint) {
			s.saveCheckpoints()
			checkpoint = now.Add(s.o.CheckpointInterval)
		}
		if !now.Before(expire) {
			s.eachOpened((*Log).expireProducers)
			expire = now.Add(s.o.ProducerIDExpirationInterval)
		}
		wait := housekeepingInterval
		if !next.IsZero() {
			wait = min(wait, max(next.Sub(now), 0))
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-s.retiring.poke:
		}
	}
}

// eachOpened calls f for every log of a topic that was asked for since the start.
func (s *Store) eachOpened(f func(*Log)) {
	for _, t := range s.Topics() {
		t.opened(f)
	}
}

// Logs returns the logs that are in service, the store's own metadata log among them: those that hold data, once they
// were recovered, in no order. It never waits.
func (s *Store) Logs() []*Log {
	var logs []*Log
	add := func(l *Log) {
		if l.Status() == StatusOnline {
			logs = append(logs, l)
		}
	}
	s.eachOpened(add)
	add(s.metadata.log)
	return logs
}

// saveCheckpoints writes the checkpoint files.
func (s *Store) saveCheckpoints() error {
	save := func(l *Log) {
		recoveryPoint, logStart, ok := l.checkpoints()
		if !ok {
			return
		}
		o, err := l.Offsets()
		if err != nil {
			return
		}
		s.checkpoints.save(l.topic, l.index, recoveryPoint, logStart, o.HighWatermark, l.CleanedTo(), func() bool { return s.live(l) })
	}
	s.eachOpened(save)
	save(s.metadata.log)
	err := s.checkpoints.flush()
	if err != nil {
		s.o.Logger.Warn("checkpoints are not written", "err", err)
	}
	return err
}

// Close stops the store in order: every log is flushed and leaves its snapshot, the checkpoints are written, and then
// the marker that saves the next start from recovering anything. Run must have ended. Close returns what went wrong;
// the directory is unlocked in any case, and what was acknowledged is safe.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.metadata.close()
	clean := s.started.clean || s.started.recovered.Load()
	var faults []error
	var logs []*Log
	s.eachOpened(func(l *Log) { logs = append(logs, l) })
	clean = s.stopLogs(logs, &faults) && clean
	clean = s.stopLogs([]*Log{s.metadata.log}, &faults) && clean
	s.logs.commits.close()
	if err := s.saveCheckpoints(); err != nil {
		faults = append(faults, err)
		clean = false
	}
	if clean {
		if err := writeCleanShutdown(s.fs, s.dir, -1); err != nil {
			faults = append(faults, err)
		}
	}
	return errors.Join(append(faults, s.lock.Close())...)
}

// stopLogs closes logs, several at a time. It reports whether the next start can do without looking for what they lost,
// and adds to faults.
func (s *Store) stopLogs(logs []*Log, faults *[]error) bool {
	var mu sync.Mutex // guards clean and faults
	clean := true
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(s.o.SyncThreads, len(logs)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(logs)); i = next.Add(1) - 1 {
				l := logs[i]
				err := l.close()
				// A log that went out of service, in the stop perhaps, is looked at again; one that never was in it is not,
				// unless that was tried.
				if err != nil || l.Status() == StatusOffline && l.origin.offline == nil || l.unrecovered() {
					mu.Lock()
					clean = false
					if err != nil {
						*faults = append(*faults, err)
					}
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	return clean
}
