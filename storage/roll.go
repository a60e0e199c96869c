package storage

import "fmt"

// Roll closes the segment that is appended to, however small it is, and begins another at the end of the log, so that all
// there is can be removed or rewritten. It returns when the closed one is on disk. A log without records, or whose last
// segment is empty, stays as it is. ErrNotRewritable means that the directory is still another broker's. Kafka:
// UnifiedLog.roll.
func (l *Log) Roll() error {
	if _, err := l.visible(); err != nil {
		return err
	}
	wait, err := l.rollNow()
	if err != nil || wait == nil {
		return err
	}
	<-wait
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.commit.flushErr; err != nil {
		return fmt.Errorf("roll %s: %w", l.name(), err)
	}
	if Status(l.status.Load()) == StatusOnline && l.view.Load().end.next == l.end.Load() {
		l.publish(l.here()) // nothing was appended since; readers learn of the new segment
	}
	return nil
}

// rollNow rolls and returns what is closed when that is on disk; nil when there was nothing to roll.
func (l *Log) rollNow() (<-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.takeover != nil {
		return nil, fmt.Errorf("%w: nothing was appended yet to the directory that another broker wrote", ErrNotRewritable)
	}
	if l.active == nil || l.active.size == 0 {
		return nil, nil
	}
	if err := l.mayAppend(); err != nil {
		return nil, err
	}
	if err := l.roll(l.config.Load(), l.nowMs()); err != nil {
		return nil, l.appendFailed("roll", err)
	}
	return l.startFlush(), nil
}
