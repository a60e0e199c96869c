package storage

// Size is the number of bytes in the .log files of the log's segments, as far as they are visible; 0 before recovery.
// It never waits.
func (l *Log) Size() int64 {
	v := l.view.Load()
	if v == nil {
		return 0
	}
	var n int64
	for i := range v.segments {
		n += v.size(i)
	}
	return n
}

// Segments describes the segments, oldest first, as far as they are visible.
func (l *Log) Segments() ([]SegmentInfo, error) {
	v, err := l.visible()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	point := l.commit.recoveryPoint
	modified := int64(0)
	if l.active != nil {
		modified = l.active.modifiedMs
	}
	l.mu.Unlock()
	infos := make([]SegmentInfo, 0, len(v.segments))
	for i, s := range v.segments {
		if i > v.last {
			break
		}
		info := SegmentInfo{
			BaseOffset: s.base, NextOffset: v.end.next, Size: v.size(i), MaxTimestamp: v.maxTime(i).Timestamp,
			IndexBytes: v.offsetIndex(i).size(), TimeIndexBytes: v.timeIndex(i).size(),
		}
		if i < v.last {
			info.NextOffset = v.segments[i+1].base
			info.Closed = info.NextOffset <= point
		}
		if info.MaxTimestamp < 0 {
			info.MaxTimestamp = modified
			if i < v.last {
				info.MaxTimestamp = s.modifiedMs
			}
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Untouched reports whether the log's directory is as another broker left it, since nothing was appended to it yet. It may
// be a copy that somebody wants to read, however old: neither retention nor compaction is for it.
func (l *Log) Untouched() bool {
	if _, err := l.visible(); err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.takeover != nil
}

// Config is the effective config of the log's topic at the moment.
func (l *Log) Config() *TopicConfig { return l.config.Load() }

// CleanedTo is the offset that SetCleanedTo was last given, also before a restart; 0 when there was none.
func (l *Log) CleanedTo() int64 { return l.cleanedTo.Load() }

// SetCleanedTo remembers up to where the log was cleaned. It reaches the disk with the next checkpoint; after a crash an
// earlier offset may be found, which costs time only. Kafka: cleaner-offset-checkpoint. Differs from Kafka: it writes that
// after each pass.
func (l *Log) SetCleanedTo(offset int64) { l.cleanedTo.Store(offset) }

// ActiveProducers returns what the log knows of its idempotent and transactional producers, by id. Kafka:
// UnifiedLog.activeProducers.
func (l *Log) ActiveProducers() ([]ProducerInfo, error) {
	if _, err := l.visible(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.infos(), nil
}
