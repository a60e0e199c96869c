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
	infos := make([]SegmentInfo, 0, len(v.segments))
	for i, s := range v.segments {
		if i > v.last {
			break
		}
		info := SegmentInfo{BaseOffset: s.base, NextOffset: v.end.next, Size: v.size(i), MaxTimestamp: v.maxTime(i).Timestamp}
		if i < v.last {
			info.NextOffset = v.segments[i+1].base
		}
		if info.MaxTimestamp < 0 {
			info.MaxTimestamp = s.modifiedMs
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// Producers returns what the log knows of its idempotent and transactional producers, by id.
func (l *Log) Producers() ([]ProducerInfo, error) {
	if _, err := l.visible(); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.producers.infos(), nil
}
