package cleaner

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// Config is what the broker's configuration says. It is asked for again before each turn; MaxIOBytes holds for those
// under way too, and another number of Threads as soon as they leave memory. Kafka's names and defaults stand beside each.
type Config struct {
	CheckInterval time.Duration // log.retention.check.interval.ms, 5 min
	InitialDelay  time.Duration // log.initial.task.delay.ms, 30 s; read once
	Threads       int           // log.cleaner.threads, 1
	Backoff       time.Duration // log.cleaner.backoff.ms, 15 s
	DedupeBytes   int64         // log.cleaner.dedupe.buffer.size, 128 MiB, shared by the threads
	LoadFactor    float64       // log.cleaner.io.buffer.load.factor, 0.9
	MaxIOBytes    float64       // log.cleaner.io.max.bytes.per.second; 0 is no limit
}

// unlimitedBytes is more than any disk reads and writes a second; Kafka's default is above it.
const unlimitedBytes = 1e15

// DefaultConfig is Kafka's.
func DefaultConfig() Config {
	return Config{
		CheckInterval: 5 * time.Minute, InitialDelay: 30 * time.Second,
		Threads: 1, Backoff: 15 * time.Second, DedupeBytes: 128 << 20, LoadFactor: 0.9,
	}
}

// Options configures a Cleaner. Store and Now must be set.
type Options struct {
	Store  *storage.Store
	Now    func() time.Time // decides what is old
	Logger *slog.Logger     // nil discards
	Config func() Config    // nil is DefaultConfig
}

// Cleaner deletes and compacts. Its methods may be called from any goroutine.
type Cleaner struct {
	o       Options
	limiter *rate.Limiter                       // shared by the threads
	large   func(b record.Batch, size int) bool // as in filter

	// choosing is held while a thread chooses a log, and over the reads that this takes: to choose it takes all that is due,
	// and another must not find nothing because of that. Before mu.
	choosing sync.Mutex

	mu       sync.Mutex
	busy     map[*storage.Log]bool  // guarded by mu; being cleaned
	setAside map[*storage.Log]error // guarded by mu; not compacted again before a restart, and why
	claimed  int64                  // guarded by mu; bytes that the threads' offset maps may take
	stats    Stats                  // guarded by mu
}

// New returns a Cleaner. It starts nothing: Run does.
func New(o Options) *Cleaner {
	if o.Store == nil || o.Now == nil {
		panic("cleaner: Options.Store and Options.Now must be set")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Config == nil {
		o.Config = DefaultConfig
	}
	return &Cleaner{o: o, limiter: rate.NewLimiter(rate.Inf, 2*readBytes), large: unpacksToMuch, busy: map[*storage.Log]bool{}, setAside: map[*storage.Log]error{}}
}

// wakeInterval bounds how long the loops sleep, since the clock that decides may move by itself.
const wakeInterval = time.Second

// Run deletes and compacts until ctx ends, and returns when all has stopped. It is called once.
func (c *Cleaner) Run(ctx context.Context) error {
	var running sync.WaitGroup
	running.Go(func() { c.retainLoop(ctx) })
	running.Go(func() { c.runThreads(ctx) })
	running.Wait()
	return nil
}

// retainLoop sweeps after InitialDelay, and every CheckInterval from then on.
func (c *Cleaner) retainLoop(ctx context.Context) {
	last, first := c.o.Now(), true
	interval := c.o.Config().InitialDelay
	for sleep(ctx, min(interval, wakeInterval)) {
		if !first {
			interval = c.o.Config().CheckInterval
		}
		if now := c.o.Now(); now.Sub(last) >= interval || now.Before(last) {
			c.Retain(ctx)
			last, first = now, false
		}
	}
}

// leastSleep keeps a loop whose config has no pause from using a processor for itself.
const leastSleep = 10 * time.Millisecond

// sleep returns false when ctx ended.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(max(d, leastSleep))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Retain applies retention once to every log that is not compacted, by the clock of Options, also to one that was set aside
// while it was. It returns when that is done or ctx ends. Kafka: LogCleanerManager.pauseCleaningForNonCompactedPartitions.
func (c *Cleaner) Retain(ctx context.Context) {
	for _, l := range c.o.Store.Logs() {
		if ctx.Err() != nil {
			return
		}
		if !l.Config().Compact && c.take(l) {
			c.retain(l)
			c.give(l)
		}
	}
}

// retain applies retention to one log.
func (c *Cleaner) retain(l *storage.Log) {
	err := c.RetainLog(l)
	if err != nil && (!passing(err) || storage.OutOfDescriptors(err)) {
		c.o.Logger.Warn("retention failed", "log", name(l), "err", err)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stats.RetentionErrors++
	}
}

// RetainLog applies retention to one log now, as its config and the clock of Options say. Errors are those of storage.
func (c *Cleaner) RetainLog(l *storage.Log) error {
	segments, err := l.Segments()
	if err != nil {
		return err
	}
	offsets, err := l.Offsets()
	if err != nil {
		return err
	}
	r := retain(segments, offsets, l.Config(), c.o.Now().UnixMilli())
	if r.before <= offsets.LogStart {
		return nil
	}
	if r.roll {
		if err := l.Roll(); err != nil {
			return err
		}
	}
	start, err := l.DeleteBefore(r.before)
	if err != nil {
		return err
	}
	c.o.Logger.Info("segments deleted", "log", name(l), "by_size", r.bySize, "by_time", r.byTime, "log_start", start)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.SegmentsDeleted += int64(r.bySize + r.byTime)
	for _, s := range segments[:r.bySize+r.byTime] {
		c.stats.BytesDeleted += s.Size
	}
	return nil
}

// retainCompacted applies retention once to every log that has both policies and is not being worked at.
func (c *Cleaner) retainCompacted(ctx context.Context) {
	for _, l := range c.o.Store.Logs() {
		if ctx.Err() != nil {
			return
		}
		if g := l.Config(); g.Compact && g.Delete && c.takeCompacted(l) {
			c.retain(l)
			c.give(l)
		}
	}
}

// take marks a log as being worked at; false when it is already, or is in a directory as another broker left it.
func (c *Cleaner) take(l *storage.Log) bool {
	if l.Untouched() {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy[l] {
		return false
	}
	c.busy[l] = true
	return true
}

// takeCompacted is take for a log that is compacted, which must not have been set aside either.
func (c *Cleaner) takeCompacted(l *storage.Log) bool {
	c.mu.Lock()
	_, aside := c.setAside[l]
	c.mu.Unlock()
	return !aside && c.take(l)
}

func (c *Cleaner) give(l *storage.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.busy, l)
}

// dirtiest takes the log with the highest share of dirty bytes among those that are due. Kafka:
// LogCleanerManager.grabFilthiestCompactedLog. Where there are no file descriptors to look at a log it takes none.
func (c *Cleaner) dirtiest() (best *storage.Log, ch choice, ok bool) {
	c.choosing.Lock()
	defer c.choosing.Unlock()
	nowMs := c.o.Now().UnixMilli()
	for _, l := range c.o.Store.Logs() {
		if !l.Config().Compact || !c.takeCompacted(l) {
			continue
		}
		x, err := choose(l, l.CleanedTo(), nowMs)
		if err != nil || !x.due(l.Config()) || best != nil && x.ratio() <= ch.ratio() {
			c.give(l)
			if storage.OutOfDescriptors(err) {
				if best != nil {
					c.give(best)
				}
				c.giveUp(l, err)
				return nil, choice{}, false
			}
			if err != nil && !passing(err) {
				c.putAside(l, err)
			}
			continue
		}
		if best != nil {
			c.give(best)
		}
		best, ch = l, x
	}
	return best, ch, best != nil
}

// choose assesses a log.
func choose(l *storage.Log, cleanedTo, nowMs int64) (choice, error) {
	segments, err := l.Segments()
	if err != nil {
		return choice{}, err
	}
	offsets, err := l.Offsets()
	if err != nil {
		return choice{}, err
	}
	return assess(segments, offsets, cleanedTo, l.Config(), nowMs, l.FirstTimestamp)
}

// putAside keeps a log from being cleaned again before a restart. Kafka: LogCleanerManager.markPartitionUncleanable.
func (c *Cleaner) putAside(l *storage.Log, err error) {
	c.mu.Lock()
	c.setAside[l] = err
	c.stats.Errors++
	c.mu.Unlock()
	c.o.Logger.Error("log cannot be cleaned and is set aside until the next start", "log", name(l), "err", err)
}

// giveUp notes that a log was not cleaned this time. A later turn tries again.
func (c *Cleaner) giveUp(l *storage.Log, err error) {
	c.o.Logger.Info("compaction was given up for now", "log", name(l), "err", err)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.GivenUp++
}

// forgetDeleted lets go of logs that were set aside and whose topics have been deleted since.
func (c *Cleaner) forgetDeleted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.setAside, func(l *storage.Log, _ error) bool { return l.Status() == storage.StatusDeleted })
}

// passing reports whether err says that the log changed or went while it was worked at, cannot be rewritten for now, or could
// not be read for want of file descriptors.
func passing(err error) bool {
	return errors.Is(err, storage.ErrNotRewritable) || errors.Is(err, storage.ErrLogDeleted) || errors.Is(err, storage.ErrClosed) ||
		errors.Is(err, storage.ErrOffline) || errors.Is(err, storage.ErrOffsetOutOfRange) || storage.OutOfDescriptors(err)
}

// Force makes one pass over the whole part of a log that may be cleaned, whether it is due or not, and whatever the config
// says of compaction. It is for tests, demonstrations and people; in service a log without dirty records is left alone.
// Errors are those of storage.
func (c *Cleaner) Force(ctx context.Context, l *storage.Log) (PassStats, error) {
	nowMs := c.o.Now().UnixMilli()
	ch, err := choose(l, 0, nowMs)
	if err != nil {
		return PassStats{}, err
	}
	return c.compactor(c.o.Config()).pass(ctx, l, ch, nowMs)
}
