package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"
)

// committer makes appends durable. A log that was written to stands in its queue at most once. A worker takes it,
// syncs what was written until then and so serves all who wait for it at once; what was written meanwhile is the next
// round. There is no window in which it waits for more: under load the rounds themselves are the window.
//
// Workers are started when there is work and end when there is none; close waits for them.
type committer struct {
	threads int

	mu      sync.Mutex
	queue   []*Log // guarded by mu; taken from the front
	front   int    // guarded by mu
	workers int    // guarded by mu
	wg      sync.WaitGroup
}

// newCommitter returns a committer that syncs up to threads logs at a time.
func newCommitter(threads int) *committer { return &committer{threads: threads} }

// enqueue has l committed.
func (c *committer) enqueue(l *Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.front > len(c.queue)/2 {
		// Under load the queue is never empty; its front gives the room for its end.
		c.queue = slices.Delete(c.queue, 0, c.front)
		c.front = 0
	}
	c.queue = append(c.queue, l)
	if c.workers < c.threads {
		c.workers++
		c.wg.Go(c.work)
	}
}

// work commits logs until there are no more.
func (c *committer) work() {
	for {
		c.mu.Lock()
		if c.front == len(c.queue) {
			c.queue, c.front = c.queue[:0], 0
			c.workers--
			c.mu.Unlock()
			return
		}
		l := c.queue[c.front]
		c.queue[c.front] = nil
		c.front++
		c.mu.Unlock()
		l.commitRound()
	}
}

// close waits for the workers. All logs must be closed or deleted before.
func (c *committer) close() { c.wg.Wait() }

// asyncDelay is how long an asynchronous log waits before it syncs what was written.
const asyncDelay = time.Second

// commitPhase is where a log is with its committer.
type commitPhase int8

const (
	commitIdle commitPhase = iota
	commitQueued
	commitRunning
)

// commitState is a log's side of the commits. All is guarded by Log.mu.
type commitState struct {
	phase commitPhase
	// What the next round has to sync.
	dirty  []*segment      // .log files with unsynced bytes; each is in use until synced
	rolled []rolledSegment // closed segments
	names  bool            // names in the directory
	epochs bool            // the leader epoch cache
	flush  bool            // bring the recovery point to the end

	// target is the end of what the running round makes durable. running is closed when it ends, waiting when the one
	// after it ends; each is made by the first that waits.
	target  int64
	running chan struct{}
	waiting chan struct{}
	quiet   chan struct{} // closed when no round is queued or running
	timer   *time.Timer   // of an asynchronous log; starts the next round

	generation    int64 // counts cuts; a round that began before one means nothing
	synced        int64 // everything below is on disk
	recoveryPoint int64 // everything below is, indexes, snapshots and names included
	flushErr      error // of the last round that was to flush
}

// rolledSegment is a closed segment whose files and snapshot are not synced yet; next is the base of the one after it.
type rolledSegment struct {
	segment *segment
	next    int64
	txns    bool // see segment.syncIndexes; set by the round
}

// round is one commit of a log.
type round struct {
	end        mark
	dirty      []*segment
	rolled     []rolledSegment
	active     *segment // whose indexes are to be synced too; nil when they are not
	activeTxns bool     // see segment.syncIndexes
	epochs     leaderEpochs
	writeEpoch bool
	names      bool
	flush      bool
	generation int64
}

// hold keeps the files of the round's segments until letGo, should they leave the log meanwhile. Log.mu is held, so
// none of them has gone yet.
func (r *round) hold() {
	for _, s := range r.dirty {
		s.acquire()
	}
	for _, rs := range r.rolled {
		rs.segment.acquire()
	}
	if r.active != nil {
		r.active.acquire()
	}
}

func (r *round) letGo() {
	for _, s := range r.dirty {
		s.release()
	}
	for _, rs := range r.rolled {
		rs.segment.release()
	}
	if r.active != nil {
		r.active.release()
	}
}

// wakeAll wakes all who wait for a commit. mu is held.
func (c *commitState) wakeAll() {
	for _, ch := range []*chan struct{}{&c.running, &c.waiting} {
		if *ch != nil {
			close(*ch)
			*ch = nil
		}
	}
}

// wait returns the channel that is closed when the round that covers next has ended. mu is held.
func (c *commitState) wait(next int64) <-chan struct{} {
	ch := &c.waiting
	if c.phase == commitRunning && next <= c.target {
		ch = &c.running
	}
	if *ch == nil {
		*ch = make(chan struct{})
	}
	return *ch
}

// idle returns a channel that is closed when no round is queued or running, nil when none is. mu is held.
func (c *commitState) idle() <-chan struct{} {
	if c.phase == commitIdle {
		return nil
	}
	if c.quiet == nil {
		c.quiet = make(chan struct{})
	}
	return c.quiet
}

// schedule has the log committed: at once, or for an asynchronous log soon. mu is held.
func (l *Log) schedule() {
	c := &l.commit
	if c.phase != commitIdle {
		return // the round that ends sees to the next
	}
	if l.origin.durability == Async && !c.flush && !l.closed {
		if c.timer == nil {
			delay := min(asyncDelay.Milliseconds(), l.config.Load().FlushMs)
			c.timer = time.AfterFunc(time.Duration(delay)*time.Millisecond, l.commitLater)
		}
		return
	}
	l.enqueue()
}

// commitLater is what the timer of an asynchronous log does.
func (l *Log) commitLater() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commit.timer = nil
	if l.commit.phase == commitIdle && !l.closed && !l.deleted.Load() {
		l.enqueue()
	}
}

func (l *Log) enqueue() {
	c := &l.commit
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
	c.phase = commitQueued
	l.ctx.commits.enqueue(l)
}

// commitRound syncs what was written so far and makes it visible. It is called by a worker of the committer.
func (l *Log) commitRound() {
	r, ok := l.beginRound()
	if ok {
		l.endRound(r, l.syncRound(r))
	}
}

// beginRound takes over what is to be synced; false when there is nothing left to do.
func (l *Log) beginRound() (r round, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.commit
	if Status(l.status.Load()) != StatusOnline || l.deleted.Load() {
		l.releaseDirty()
		l.roundDone()
		return r, false
	}
	r = round{end: l.here(), dirty: c.dirty, rolled: c.rolled, names: c.names, flush: c.flush, generation: c.generation}
	for _, s := range r.dirty {
		s.dirty = false
	}
	for i := range r.rolled { // while the round runs, the log may be cut back into one of them
		r.rolled[i].txns = r.rolled[i].segment.hasTxnsFile()
	}
	c.dirty, c.rolled, c.names, c.flush = nil, nil, false, false
	if (r.flush || len(r.rolled) > 0) && c.epochs {
		r.epochs, r.writeEpoch = l.epochs, true
		c.epochs = false
	}
	if r.flush && l.active != nil {
		made, err := l.active.writeIndexes()
		if err != nil {
			// They are a cache: the recovery point stays where it is.
			l.logger().Warn("indexes could not be written", "err", err)
			c.flushErr, r.flush = err, false
		} else {
			r.active, r.activeTxns = l.active, l.active.hasTxnsFile()
			r.names = r.names || made
		}
	}
	r.hold()
	c.phase, c.target = commitRunning, r.end.next
	c.running, c.waiting = c.waiting, nil
	return r, true
}

// syncRound does the round's I/O. No lock is held.
func (l *Log) syncRound(r round) error {
	for _, s := range r.dirty {
		if err := s.syncLog(); err != nil {
			return err
		}
	}
	for _, rs := range r.rolled {
		if err := rs.segment.syncIndexes(rs.txns); err != nil {
			return err
		}
		// Without it the next start replays from the snapshot before.
		if err := l.syncFile(producerSnapshotName(rs.next)); err != nil && !notExist(err) {
			return err
		}
	}
	if r.active != nil {
		if err := r.active.syncIndexes(r.activeTxns); err != nil {
			return err
		}
	}
	if r.writeEpoch {
		// This syncs the directory as well.
		return l.ctx.files.withRoom(func() error { return writeLeaderEpochs(l.ctx.fs, l.dir, r.epochs) })
	}
	if r.names || len(r.rolled) > 0 {
		return l.ctx.files.syncDir(l.dir)
	}
	return nil
}

// endRound publishes what the round made durable, or cuts the log back when it failed.
func (l *Log) endRound(r round, err error) {
	l.settleRound(r, err)
	// Whoever lets go of a segment last may have to remove its files, which takes mu. Who waits until there is no round
	// finds no file in use.
	r.letGo()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roundDone()
}

// settleRound is endRound but for letting go.
func (l *Log) settleRound(r round, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := &l.commit
	l.ctx.counts.committed(err)
	for _, s := range r.dirty {
		s.log.release()
	}
	switch {
	case l.deleted.Load():
	case r.generation != c.generation:
		// The log was cut meanwhile, for a write that failed. What this round synced counts for nothing, and what it
		// had to sync besides is for the next.
		c.names = c.names || r.names
		c.epochs = c.epochs || r.writeEpoch
		if err != nil && l.origin.durability == Async {
			l.syncFailed(err)
		}
	case err != nil:
		c.names, c.epochs = c.names || r.names, c.epochs || r.writeEpoch
		if r.flush {
			c.flushErr = err
		}
		l.syncFailed(err)
	default:
		l.committed(r)
	}
}

// committed takes in a round that succeeded. mu is held.
func (l *Log) committed(r round) {
	c := &l.commit
	c.synced = max(c.synced, r.end.next)
	switch {
	case l.uncached != nil:
		c.flushErr = nil
	case r.flush:
		c.recoveryPoint, c.flushErr = max(c.recoveryPoint, r.end.next), nil
	case len(r.rolled) > 0:
		c.recoveryPoint = max(c.recoveryPoint, r.rolled[len(r.rolled)-1].next)
	}
	if Status(l.status.Load()) == StatusOffline {
		l.saveSynced() // it went offline while the round ran
	}
	// A round that made nothing more visible may end in a segment that has left the log meanwhile.
	if l.origin.durability == Sync && r.end.next > l.view.Load().end.next {
		l.works()
		l.publish(r.end)
	}
}

// roundDone ends the round and begins the next if something was written meanwhile. mu is held.
func (l *Log) roundDone() {
	c := &l.commit
	if c.running != nil {
		close(c.running)
		c.running = nil
	}
	c.phase = commitIdle
	if Status(l.status.Load()) == StatusOnline && !l.deleted.Load() && (len(c.dirty) > 0 || c.flush) {
		l.schedule()
		if c.phase != commitIdle {
			return
		}
	} else if c.waiting != nil {
		close(c.waiting)
		c.waiting = nil
	}
	if c.quiet != nil {
		close(c.quiet)
		c.quiet = nil
	}
}

// releaseDirty ends the use of files whose bytes will not be synced any more. mu is held.
func (l *Log) releaseDirty() {
	for _, s := range l.commit.dirty {
		s.dirty = false
		s.log.release()
	}
	l.commit.dirty = nil
}

// syncFile syncs a small file of the log's directory.
func (l *Log) syncFile(name string) error {
	var f file
	f.init(l.ctx.files, l.path(name))
	h, err := f.acquire()
	if err != nil {
		return err
	}
	err = h.Sync()
	f.release()
	return errors.Join(err, f.retire())
}

// WaitDurable waits until what an append wrote is durable and visible. It takes the whole outcome of the append and
// not an offset: after a failed sync the log is cut, and the same offsets may belong to a later append. A duplicate
// waits for its original. The error is ErrStorage when the append was cut off again, ErrLogDeleted or an
// *OfflineError when the log goes out of service, and ctx's when that ends first; the append may then still become
// durable.
func (l *Log) WaitDurable(ctx context.Context, a Appended) error {
	for {
		if v := l.view.Load(); v != nil && v.end.next >= a.NextOffset && l.cuts.Load() == a.cuts {
			return nil
		}
		l.mu.Lock()
		done, err := l.outcome(a)
		var wait <-chan struct{}
		if !done {
			wait = l.commit.wait(a.NextOffset)
		}
		l.mu.Unlock()
		if done {
			return err
		}
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// outcome says what became of an append, if that is known. mu is held.
func (l *Log) outcome(a Appended) (done bool, err error) {
	if n := int(l.cuts.Load() - a.cuts); n > 0 {
		// It survived when the first cut after it was made above it.
		if n <= len(l.cutMarks) && a.NextOffset <= l.cutMarks[len(l.cutMarks)-n] {
			return true, nil
		}
		return true, l.cutCause
	}
	switch {
	case l.deleted.Load():
		return true, ErrLogDeleted
	case Status(l.status.Load()) == StatusOffline:
		return true, l.offline.Load()
	case l.view.Load() == nil || l.view.Load().end.next >= a.NextOffset:
		return true, nil
	case l.closed && l.commit.phase == commitIdle:
		return true, ErrClosed
	}
	return false, nil
}

// flush brings the recovery point to the log's end: all that was appended before is then on disk with its indexes, and
// a crash after it scans nothing before it. A log that was not used, or not since the last flush, does nothing.
func (l *Log) flush() error {
	if err := l.trySaveCaches(); err != nil {
		return err
	}
	l.mu.Lock()
	c := &l.commit
	if l.closed || Status(l.status.Load()) != StatusOnline || l.repair != nil || l.takeover != nil || c.recoveryPoint >= l.end.Load() {
		l.mu.Unlock()
		return nil
	}
	wait := l.startFlush()
	l.mu.Unlock()
	<-wait
	l.mu.Lock()
	defer l.mu.Unlock()
	return c.flushErr
}

// startFlush asks for a round that brings the recovery point to the end, and returns what is closed when it has ended.
// mu is held.
func (l *Log) startFlush() <-chan struct{} {
	c := &l.commit
	c.flush = true
	if c.phase == commitIdle {
		l.enqueue()
	}
	// A round that is running began without the wish.
	if c.waiting == nil {
		c.waiting = make(chan struct{})
	}
	return c.waiting
}

// checkpoints are what the store's two checkpoint files are to say of the log; ok is false when it was not used or is
// offline, and they keep what they say. It flushes the log first.
func (l *Log) checkpoints() (recoveryPoint, logStart int64, ok bool) {
	if Status(l.status.Load()) != StatusOnline {
		return 0, 0, false
	}
	if err := l.flush(); err != nil {
		l.logger().Warn("recovery point stays where it is", "err", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.takeover != nil {
		return 0, 0, false
	}
	return l.commit.recoveryPoint, l.logStart, true
}

// saveSynced has the next start know what is on disk of a log that is going offline: damage there is not to pass for a torn
// write, for which the bytes from it on would be cut. When it cannot be written now, it is with the next checkpoint. mu is
// held.
func (l *Log) saveSynced() {
	save := l.ctx.saveSynced
	if save == nil {
		return
	}
	if err := save(l, l.commit.synced); err != nil {
		l.logger().Warn("what is on disk of the partition is not checkpointed", "err", err)
	}
}

// close makes everything durable, writes a producer snapshot at the end and closes the files: part of a clean stop.
// Appends get ErrClosed from its beginning. A log that was never used does nothing.
func (l *Log) close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stopped.Store(true)
	l.awaitRewrite()
	if Status(l.status.Load()) == StatusRecovering {
		l.recover()
	}
	l.mu.Lock()
	flushing := Status(l.status.Load()) == StatusOnline && l.repair == nil && l.takeover == nil && l.commit.recoveryPoint < l.end.Load()
	if flushing {
		l.startFlush() // it has ended when all rounds have
	}
	if idle := l.commit.idle(); idle != nil {
		l.mu.Unlock()
		<-idle
		l.mu.Lock()
	}
	defer l.mu.Unlock()
	var err error
	if flushing {
		err = l.commit.flushErr
	}
	if t := l.commit.timer; t != nil {
		t.Stop()
		l.commit.timer = nil
	}
	if Status(l.status.Load()) != StatusOnline {
		return nil
	}
	if err == nil && l.takeover == nil && l.active != nil {
		if l.repair != nil {
			err = l.mend()
		}
		if err == nil && l.uncached != nil {
			err = l.saveCaches()
		}
		if end := l.end.Load(); err == nil && l.snapshotAt != end {
			err = writeProducerSnapshot(l.ctx.fs, l.dir, end, l.producers.snapshot(), true)
		}
	}
	for _, s := range l.segments {
		for _, f := range s.fileSet() {
			f.close()
		}
	}
	if err != nil {
		return fmt.Errorf("close %s: %w", l.name(), err)
	}
	return nil
}

// notExist reports whether err is that of a file that is not there.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
