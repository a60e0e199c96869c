package storage

// Stats is a snapshot of a store.
type Stats struct {
	Topics     int
	Partitions int64
	// Logs by status. Idle ones were not used since the start: they have no data, or wait for their recovery.
	Idle, Recovering, Online, Offline int64
	// Recovered: every partition that had a directory at the start has been recovered.
	Recovered bool
	// Bytes in the segments of the logs that are online.
	Bytes int64
	// OfflinePartitions names the logs that do not serve, with the reason, by topic and partition.
	OfflinePartitions []OfflineError
	// RetiredDirs is how many directories of deleted topics wait to be removed.
	RetiredDirs int
	// MetadataBytes is the size of the metadata log.
	MetadataBytes int64
	LeaderEpoch   int32
}

// Stats returns a snapshot. It never waits for a log.
func (s *Store) Stats() Stats {
	st := Stats{
		LeaderEpoch:   s.epoch,
		Recovered:     s.started.recovered.Load(),
		MetadataBytes: s.metadata.log.Size(),
	}
	for _, t := range s.Topics() {
		st.Topics++
		st.Partitions += int64(t.Partitions())
		t.opened(func(l *Log) {
			switch l.Status() {
			case StatusRecovering:
				st.Recovering++
			case StatusOnline:
				st.Online++
				st.Bytes += l.Size()
			case StatusOffline:
				st.Offline++
				if e := l.offline.Load(); e != nil {
					st.OfflinePartitions = append(st.OfflinePartitions, *e)
				}
			}
		})
	}
	st.Idle = st.Partitions - st.Recovering - st.Online - st.Offline
	s.retiring.mu.Lock()
	st.RetiredDirs = len(s.retiring.dirs)
	s.retiring.mu.Unlock()
	return st
}
