package storage

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// logContext is what the logs of one store share. The store fills it in before its first log.
type logContext struct {
	fs     vfs.FS
	now    func() time.Time
	logger *slog.Logger
	// commits makes appends durable; files keeps the number of open files within the budget.
	commits *committer
	files   *openFiles
	// space has room for appends and rewrites; nil is no bound.
	space *space
	// root syncs the directory that the logs' directories are in.
	root sharedSync
	// epoch is the store-wide leader epoch of this start.
	epoch func() int32
	// producerIDExpiration as in Options.
	producerIDExpiration time.Duration
	// answerDuplicatesEarly as in Options.
	answerDuplicatesEarly bool
	// saveLogStart makes a log's new start offset durable in the store's checkpoint before it returns.
	saveLogStart func(l *Log, offset int64) error
	// saveSynced does the same with the offset below which a log that is offline is on disk.
	saveSynced func(l *Log, offset int64) error

	// validators are kept per store, since a decompressor that was made in one synctest bubble must not get into
	// another.
	validators sync.Pool
	// largeBatches has a place for each batch that needs much memory to be validated; nil is no bound.
	largeBatches chan struct{}
	counts       counters
}

// maxLargeBatches is how many batches that need much memory are validated at a time in a store.
const maxLargeBatches = 2

// validator returns a record validator to be put back into validators.
func (c *logContext) validator() *record.Validator {
	if v, ok := c.validators.Get().(*record.Validator); ok {
		return v
	}
	return new(record.Validator)
}

func (c *logContext) putValidator(v *record.Validator) {
	v.Trim()
	c.validators.Put(v)
}

// logOrigin is what the store knows of a log before the log looks at its directory.
type logOrigin struct {
	durability Durability
	// clean: the store was stopped in order, so nothing of the log is scanned.
	clean bool
	// adopted: the directory was written by another broker; nothing in it changes before the first append.
	adopted bool
	// recoveryPoint is the checkpointed offset below which everything is known to be on disk; 0 when there is none.
	recoveryPoint int64
	// synced is the offset below which everything was on disk, caches perhaps not, when the log went offline; 0 when it did
	// not.
	synced int64
	// logStart is the checkpointed log start offset; 0 when there is none.
	logStart int64
	// cleanedTo is the checkpointed offset up to which the log was cleaned; 0 when there is none.
	cleanedTo int64
	// wholeEnds: a segment that is rewritten keeps the last batch of what it was made of, without records if need be, and its
	// note. So where offsets may have gaps, and where a segment ends, can be told from the files; see replayMetadata.
	wholeEnds bool
	// offline, when not nil, keeps the log out of service from the beginning, with this as the cause.
	offline error
}

// Status says whether a log serves.
type Status int8

const (
	// StatusIdle: the log has not been used since the start and has not been recovered yet.
	StatusIdle Status = iota
	// StatusRecovering: recovery is under way; calls wait for it.
	StatusRecovering
	// StatusOnline: the log serves.
	StatusOnline
	// StatusOffline: damage was found; every call answers an *OfflineError.
	StatusOffline
	// StatusDeleted: the topic was deleted; every call answers ErrLogDeleted.
	StatusDeleted
)

// String returns the status as a word for people.
func (s Status) String() string {
	switch s {
	case StatusIdle:
		return "idle"
	case StatusRecovering:
		return "recovering"
	case StatusOnline:
		return "online"
	case StatusOffline:
		return "offline"
	case StatusDeleted:
		return "deleted"
	}
	return fmt.Sprintf("status(%d)", int8(s))
}

// Isolation says how far a reader sees.
type Isolation int8

const (
	// ReadUncommitted reads up to the high watermark.
	ReadUncommitted Isolation = iota
	// ReadCommitted reads up to the last stable offset.
	ReadCommitted
)

// Origin says who made a batch.
type Origin int8

const (
	// OriginClient is a batch from a Produce request; everything about it is checked.
	OriginClient Origin = iota
	// OriginCoordinator is a batch the broker itself made; it may be a control or a transactional batch.
	OriginCoordinator
)

// AppendOptions says how an append is to be treated.
type AppendOptions struct {
	Origin Origin
	// Verification is what StartVerification returned before the transaction coordinator was asked about this batch, which
	// has it among the transaction's. A transactional batch of a client, or of a group's commit, needs it to begin a
	// transaction here.
	Verification *Verification
	// Unverified: the batch needs no Verification (transaction.partition.verification.enable=false).
	Unverified bool
	// TransactionV2: the batch is a marker of transaction version 2, whose epoch is above that of the transaction.
	TransactionV2 bool
}

// Appended is the outcome of an append.
type Appended struct {
	BaseOffset      int64 // of the first record; for a duplicate, of the original
	NextOffset      int64 // after the last record
	LogAppendTimeMs int64 // the broker's time for topics that stamp it, else -1
	LogStartOffset  int64
	Duplicate       bool // nothing was written: the producer sent the batch before

	// cuts is how often the log had been cut when the append was made; see WaitDurable.
	cuts int32
}

// ReadRequest asks for batches.
type ReadRequest struct {
	Offset    int64
	MaxBytes  int
	Isolation Isolation
	// MinOneBatch returns the first batch even when it exceeds MaxBytes.
	MinOneBatch bool
	// VerifyCRC looks for changed bytes within the batches too, where otherwise only their headers are checked.
	VerifyCRC bool
}

// ReadResult is what was read and the offsets at the moment before the read.
type ReadResult struct {
	Data             []byte // the caller's dst, extended by whole batches
	HighWatermark    int64
	LastStableOffset int64
	LogStartOffset   int64
	// Aborted are the aborted transactions that touch Data, by ascending first offset; nil for ReadUncommitted.
	Aborted []AbortedTxn
}

// Offsets is a snapshot of a log's bounds: LogStart <= LastStable <= HighWatermark <= End.
type Offsets struct {
	LogStart      int64
	LastStable    int64
	HighWatermark int64
	End           int64
}

// TimedOffset is the answer of a look-up by time.
type TimedOffset struct {
	Offset      int64
	Timestamp   int64 // milliseconds
	LeaderEpoch int32 // of the batch; -1 when unknown
}

// SegmentInfo describes one segment.
type SegmentInfo struct {
	BaseOffset   int64
	NextOffset   int64 // the base of the next segment, or the log's end
	Size         int64 // bytes of the .log file
	MaxTimestamp int64 // the largest timestamp in it, or the time of its last append when it has none; milliseconds
	// IndexBytes and TimeIndexBytes are the sizes of its indexes.
	IndexBytes, TimeIndexBytes int64
	// Closed: it is not appended to any more, and it and its indexes are on disk, so that it may be rewritten.
	Closed bool
}

// Log is one partition: an append-only sequence of batches in segments. Its methods may be called from any
// goroutine. A log looks at its directory at its first use; until then every call but Watch, Topic, Index,
// LeaderEpoch, Size and Status waits for that. Afterwards calls that only read take no lock that is held over I/O.
type Log struct {
	ctx    *logContext
	topic  string
	index  int32
	id     TopicID
	dir    string
	config *atomic.Pointer[TopicConfig]
	origin logOrigin

	status  atomic.Int32 // a Status
	deleted atomic.Bool
	offline atomic.Pointer[OfflineError]
	view    atomic.Pointer[view] // what readers see; stored with mu held
	end     atomic.Int64         // log end offset; stored with mu held
	cuts    atomic.Int32         // how often appends that had been reported were cut; stored with mu held
	epoch   atomic.Int32         // latest of the leader epoch cache, -1 before recovery
	made    atomic.Bool          // the directory and its partition.metadata exist and are durable; stored with mu held
	hints   hints
	watches watches

	// rewriting is held while segments are being rewritten, over I/O. stopped says that the store is stopping, so that a
	// rewrite is to end.
	rewriting sync.Mutex
	stopped   atomic.Bool

	// cleanedTo is what SetCleanedTo was given; see there.
	cleanedTo atomic.Int64

	// loading is closed when recovery has ended. It is made by the one that recovers.
	loadMu  sync.Mutex
	loading chan struct{} // guarded by loadMu

	// mu is the appender's: held over recovery, the write of a batch, the roll of a segment and the cut after a failure,
	// never over a sync but those of recovery, also of indexes that it could not write, of a cut, of a log's first append, and
	// of the checkpoint when it goes offline. All below is guarded by it.
	mu        sync.Mutex
	segments  []*segment // as in the view; replaced, never changed in place
	active    *segment   // the last of segments; nil when there are none
	closed    bool       // the store is stopping
	logStart  int64
	producers producerState
	// snapshotAt is the offset of the producer snapshot that recovery found at the end of the log, else -1.
	snapshotAt int64
	epochs     leaderEpochs
	commit     commitState
	repair     *repair // not nil while a cut is not on disk yet; appends try it again
	// cutMarks has, for the last cuts, the offset the log was cut to; its end belongs to cuts.
	cutMarks []int64
	cutCause error
	failing  bool         // an append failed, which was logged, and none is durable since
	retried  bool         // a recovery failed, perhaps after it had cut the log
	takeover *recovery    // of an adopted log before its first append
	uncached *recovery    // not nil while indexes that recovery made are not on disk; the recovery point stays meanwhile
	doomed   []doomedFile // waiting for file.delete.delay.ms
	// unsettled: files of a rewrite do not have their plain names yet, or could not be removed; the next start sees to it.
	unsettled bool
}

// newLog returns the log of a partition. It does no I/O: the log looks at its directory at its first use, or when
// the store recovers it in the background.
func newLog(c *logContext, topic string, index int32, id TopicID, dir string, config *atomic.Pointer[TopicConfig], o logOrigin) *Log {
	l := &Log{ctx: c, topic: topic, index: index, id: id, dir: dir, config: config, origin: o}
	l.epoch.Store(-1)
	l.cleanedTo.Store(o.cleanedTo)
	l.snapshotAt = -1
	if o.offline != nil {
		l.offline.Store(&OfflineError{Topic: topic, Partition: index, Cause: o.offline})
		l.status.Store(int32(StatusOffline))
	}
	return l
}

// Topic is the name of the log's topic.
func (l *Log) Topic() string { return l.topic }

// Index is the number of the partition.
func (l *Log) Index() int32 { return l.index }

// Status says whether the log serves. It never waits.
func (l *Log) Status() Status { return Status(l.status.Load()) }

// LeaderEpoch is the epoch that appends are stamped with: the store's, or a later one that another broker left in
// the directory, which is known once the log has been recovered. It never waits.
func (l *Log) LeaderEpoch() int32 { return max(l.ctx.epoch(), l.epoch.Load()) }

func (l *Log) name() string { return fmt.Sprintf("%s-%d", l.topic, l.index) }

func (l *Log) path(name string) string { return filepath.Join(l.dir, name) }

func (l *Log) logger() *slog.Logger { return l.ctx.logger.With("log", l.name()) }

func (l *Log) nowMs() int64 { return l.ctx.now().UnixMilli() }

// visible returns the present view, after recovery if need be.
func (l *Log) visible() (*view, error) {
	if Status(l.status.Load()) != StatusOnline {
		if err := l.recover(); err != nil {
			return nil, err
		}
	}
	return l.view.Load(), nil
}

// recover loads the log if that has not happened yet, and waits for whoever is doing so. The error is ErrLogDeleted or
// an *OfflineError. When it was not damage but the disk, or the want of file descriptors, that kept the log from being
// loaded, the next call tries again.
func (l *Log) recover() error {
	for {
		switch Status(l.status.Load()) {
		case StatusOnline:
			return nil
		case StatusOffline:
			return l.offline.Load()
		case StatusDeleted:
			return ErrLogDeleted
		}
		l.loadMu.Lock()
		wait := l.loading
		if wait == nil {
			l.loading = make(chan struct{})
			l.status.CompareAndSwap(int32(StatusIdle), int32(StatusRecovering))
		}
		l.loadMu.Unlock()
		if wait != nil {
			<-wait
			continue
		}
		err := l.load()
		l.loadMu.Lock()
		done := l.loading
		if err != nil {
			l.loading = nil
		}
		l.loadMu.Unlock()
		close(done)
		if err != nil {
			return err
		}
	}
}

// load recovers the log and puts it into service or takes it out. The error says that neither could be done.
func (l *Log) load() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.deleted.Load() {
		l.status.Store(int32(StatusDeleted))
		return nil
	}
	err := l.loadDirectory()
	var c *CorruptError
	switch {
	case err == nil:
		l.status.Store(int32(StatusOnline))
	case errors.As(err, &c):
		l.setOffline(err)
	default:
		l.logger().Error("partition could not be recovered; its next use tries again", "err", err)
		l.closeFiles()
		l.retried = true
		l.producers, l.epochs, l.commit = producerState{refused: l.producers.refused}, nil, commitState{}
		l.takeover, l.uncached = nil, nil
		l.status.Store(int32(StatusIdle))
		return &OfflineError{Topic: l.topic, Partition: l.index, Cause: err}
	}
	return nil
}

// unrecovered reports whether the log was not recovered although that was tried.
func (l *Log) unrecovered() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.retried && Status(l.status.Load()) == StatusIdle
}

// goOffline takes the log out of service and returns what its callers get from now on.
func (l *Log) goOffline(cause error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.setOffline(cause)
}

// setOffline is goOffline with mu held.
func (l *Log) setOffline(cause error) error {
	if l.deleted.Load() {
		return ErrLogDeleted
	}
	e := &OfflineError{Topic: l.topic, Partition: l.index, Cause: cause}
	if !l.offline.CompareAndSwap(nil, e) {
		return l.offline.Load()
	}
	l.status.Store(int32(StatusOffline))
	attrs := []any{"err", cause}
	var c *CorruptError
	if errors.As(cause, &c) {
		attrs = append(attrs, "file", c.File)
		if c.Position >= 0 {
			attrs = append(attrs, "position", c.Position)
		}
	}
	l.logger().Error("partition is offline", attrs...)
	l.commit.wakeAll()
	l.watches.poke()
	l.saveSynced()
	return e
}

// markDeleted takes the log out of service for good: every call answers ErrLogDeleted, waiters and watchers wake. When
// it returns no append or sync is at work in the directory and none will be; the log's files are closed.
func (l *Log) markDeleted() {
	l.deleted.Store(true)
	l.awaitRewrite()
	l.loadMu.Lock()
	if l.loading == nil {
		l.loading = make(chan struct{})
		close(l.loading)
	}
	wait := l.loading
	l.loadMu.Unlock()
	<-wait
	l.mu.Lock()
	l.status.Store(int32(StatusDeleted))
	l.commit.wakeAll()
	idle := l.commit.idle()
	l.mu.Unlock()
	if idle != nil {
		<-idle
	}
	l.mu.Lock()
	l.closeFiles()
	l.mu.Unlock()
	l.watches.poke()
}

// closeFiles drops the log's references to its segments, whose files are closed when no reader is left. mu is held.
func (l *Log) closeFiles() {
	l.releaseDirty()
	segments := l.segments
	l.segments, l.active, l.doomed = nil, nil, nil
	for _, s := range segments {
		for _, f := range s.fileSet() {
			f.forbid()
		}
		s.drop = (*segment).retire
		s.release()
	}
}

// publish makes the log visible up to m. mu is held.
func (l *Log) publish(m mark) {
	v := &view{segments: l.segments, logStart: l.logStart, end: m, lso: m.next, epochs: l.epochs}
	l.producers.onHighWatermark(m.next)
	if first, ok := l.producers.firstUnstable(); ok {
		v.lso = min(max(first, l.logStart), m.next)
	}
	if s := m.segment; s != nil {
		v.last = len(l.segments) - 1
		for v.last > 0 && l.segments[v.last] != s {
			v.last--
		}
		v.offsets, v.times, v.txns = s.offsets, s.times, s.txns
	}
	old := l.view.Swap(v)
	if old == nil || old.end.next != v.end.next || old.lso != v.lso || old.logStart != v.logStart {
		l.watches.poke()
	}
}

// here is the mark at the end of the log. mu is held.
func (l *Log) here() mark {
	if s := l.active; s != nil {
		return mark{segment: s, next: s.next, size: s.size, maxTime: s.maxTime}
	}
	return mark{next: l.end.Load()}
}

// Offsets returns the log's bounds at one moment.
func (l *Log) Offsets() (Offsets, error) {
	v, err := l.visible()
	if err != nil {
		return Offsets{}, err
	}
	return Offsets{LogStart: v.logStart, LastStable: v.lso, HighWatermark: v.end.next, End: max(l.end.Load(), v.end.next)}, nil
}

// watches are the channels to be poked when something changes that a reader waits for.
type watches struct {
	mu   sync.Mutex
	list []*watch // guarded by mu
}

type watch struct {
	ch chan<- struct{}
	at int // index in list; -1 when stopped
}

func (w *watches) poke() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, x := range w.list {
		select {
		case x.ch <- struct{}{}:
		default:
		}
	}
}

// Watch pokes ch, without blocking, when the high watermark, the last stable offset or the log start moves, and when
// the log is deleted or goes offline. One channel may watch many logs; it should have room for one poke. Register
// before the first read, or what happens in between is missed. stop ends it and may be called more than once.
func (l *Log) Watch(ch chan<- struct{}) (stop func()) {
	w := &l.watches
	x := &watch{ch: ch}
	w.mu.Lock()
	x.at = len(w.list)
	w.list = append(w.list, x)
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if x.at < 0 {
			return
		}
		last := len(w.list) - 1
		w.list[x.at] = w.list[last]
		w.list[x.at].at = x.at
		w.list[last] = nil
		w.list = w.list[:last]
		if last == 0 {
			w.list = nil
		}
		x.at = -1
	}
}
