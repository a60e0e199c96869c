package cleaner

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/kaen-log/gateway/storage"
)

// runThreads has as many threads as Config says until ctx ends, and keeps to what they may read and write a second.
func (c *Cleaner) runThreads(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	for n, more := 0, true; more; more = sleep(ctx, wakeInterval) {
		config := c.o.Config()
		c.setLimit(config)
		for ; n < config.threads(); n++ {
			running.Go(func() { c.compactLoop(ctx) })
		}
	}
}

// compactLoop is one thread, which waits for no other: it compacts what is due, then leaves it for Backoff. Where Config
// wants fewer threads than there are, no more find memory for a pass. Kafka: LogCleaner.CleanerThread.
func (c *Cleaner) compactLoop(ctx context.Context) {
	last := c.o.Now()
	for sleep(ctx, min(c.o.Config().Backoff, wakeInterval)) {
		if now := c.o.Now(); now.Sub(last) >= c.o.Config().Backoff || now.Before(last) {
			c.turn(ctx, c.o.Config())
			last = c.o.Now()
		}
	}
}

// threads is how many there are.
func (config *Config) threads() int { return max(config.Threads, 1) }

// Compact compacts what is due by the clock of Options, the dirtiest log first, with as many threads as Config says, and
// applies retention to the logs that have both policies, after each pass and at the end. It returns when nothing is due any
// more or ctx ends, or when Run's threads have all the memory for offset maps. It is for tests and for those who move the
// clock: Run does the same by itself. Kafka: LogCleaner.cleanFilthiestLog.
func (c *Cleaner) Compact(ctx context.Context) {
	config := c.o.Config()
	c.setLimit(config)
	var threads sync.WaitGroup
	for range config.threads() {
		threads.Go(func() { c.turn(ctx, config) })
	}
	threads.Wait()
}

// turn is what one thread does until nothing is due that no other works at.
func (c *Cleaner) turn(ctx context.Context, config Config) {
	c.forgetDeleted()
	c.compactSome(ctx, config)
	c.retainCompacted(ctx)
}

// compactSome makes passes, the dirtiest log first.
func (c *Cleaner) compactSome(ctx context.Context, config Config) {
	var own *compactor
	var postponed []*storage.Log // to the next turn
	defer func() {
		for _, l := range postponed {
			c.give(l)
		}
	}()
	for ctx.Err() == nil {
		l, ch, ok := c.dirtiest()
		if !ok {
			return
		}
		if own == nil {
			bytes := mapBytes(config)
			if !c.claim(bytes, config.DedupeBytes) {
				c.give(l)
				return
			}
			defer c.unclaim(bytes)
			own = c.compactor(config)
		}
		if c.compact(ctx, own, l, ch) {
			c.give(l)
		} else {
			postponed = append(postponed, l)
		}
		c.retainCompacted(ctx)
	}
}

// mapBytes is a thread's part of the memory for offset maps.
func mapBytes(config Config) int64 { return config.DedupeBytes / int64(config.threads()) }

// claim takes a thread's part of all the memory for offset maps; false while others have too much of it, as those that
// began under another Config may.
func (c *Cleaner) claim(bytes, all int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.claimed+bytes > all {
		return false
	}
	c.claimed += bytes
	return true
}

func (c *Cleaner) unclaim(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.claimed -= bytes
}

// compactor returns what a thread works with.
func (c *Cleaner) compactor(config Config) *compactor {
	return &compactor{offsets: newOffsetMap(mapBytes(config), config.LoadFactor), pace: c.pace, large: c.large}
}

// setLimit sets what all threads together may read and write a second.
func (c *Cleaner) setLimit(config Config) {
	limit := rate.Inf
	if config.MaxIOBytes > 0 && config.MaxIOBytes < unlimitedBytes {
		limit = rate.Limit(config.MaxIOBytes)
	}
	c.limiter.SetLimit(limit)
}

// paceStep is about how long one wait for the limit is at most, so that another limit is soon felt.
const paceStep = time.Second / 4

// pace waits as long as the limit of bytes per second demands.
func (c *Cleaner) pace(ctx context.Context, bytes int) error {
	for bytes > 0 {
		limit := c.limiter.Limit()
		if limit == rate.Inf {
			break
		}
		n := min(bytes, c.limiter.Burst(), max(1, int(float64(limit)*paceStep.Seconds())))
		if err := c.limiter.WaitN(ctx, n); err != nil {
			return err
		}
		bytes -= n
	}
	return ctx.Err()
}

// compacted returns an error once the policy of a log does not say compact any more: from then on no record may go for the
// sake of another. Kafka: LogManager.updateTopicConfig, LogCleaner.abortCleaning.
func compacted(l *storage.Log) error {
	if !l.Config().Compact {
		return fmt.Errorf("cleanup.policy does not say compact any more: %w", storage.ErrNotRewritable)
	}
	return nil
}

// compact makes one pass over a log that was taken; false when that is to be left alone for the rest of the turn, because it
// changed meanwhile, there is no room or no file descriptor for the pass, or ctx ended.
func (c *Cleaner) compact(ctx context.Context, own *compactor, l *storage.Log, ch choice) bool {
	own.check = func() error { return compacted(l) }
	s, err := own.pass(ctx, l, ch, c.o.Now().UnixMilli())
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		if passing(err) {
			c.giveUp(l, err)
			return false
		}
		c.putAside(l, err)
		return true
	}
	c.o.Logger.Info("log compacted", "log", name(l), "from", s.FirstDirty, "to", s.End, "keys", s.Keys,
		"records_before", s.RecordsRead, "records", s.RecordsKept, "bytes_before", s.SizeBefore, "bytes", s.SizeAfter)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Passes++
	c.stats.BytesRead += s.BytesRead
	c.stats.BytesKept += s.BytesKept
	c.stats.RecordsRead += s.RecordsRead
	c.stats.RecordsKept += s.RecordsKept
	c.stats.LastPass = c.o.Now()
	return true
}
