package storage

import "sync/atomic"

// counters count what the logs of a store do. They are written anywhere, without a lock.
type counters struct {
	batches, bytes, records atomic.Int64
	failedWrites            atomic.Int64
	commits, failedCommits  atomic.Int64
}

// appended counts a batch that was written.
func (c *counters) appended(size, records int64) {
	c.batches.Add(1)
	c.bytes.Add(size)
	c.records.Add(records)
}

// committed counts a round.
func (c *counters) committed(err error) {
	c.commits.Add(1)
	if err != nil {
		c.failedCommits.Add(1)
	}
}

// Counts is a snapshot of what the logs of a store have done since it was opened, the metadata log among them.
type Counts struct {
	// Appends are batches that were written, with their bytes on disk and their records. A sync that fails may cut them off
	// again.
	Appends, AppendedBytes, AppendedRecords int64
	// FailedAppends could not be written.
	FailedAppends int64
	// Commits are the rounds that sync a log, each for all that was appended since the one before; FailedCommits are those
	// of them that failed.
	Commits, FailedCommits int64
	// OpenFiles are the data files that are open, of OpenFilesLimit that may be for longer than they are used.
	OpenFiles, OpenFilesLimit int64
}

// Counts returns a snapshot. It waits for no disk.
func (s *Store) Counts() Counts {
	c := &s.logs.counts
	return Counts{
		Appends: c.batches.Load(), AppendedBytes: c.bytes.Load(), AppendedRecords: c.records.Load(),
		FailedAppends: c.failedWrites.Load(), Commits: c.commits.Load(), FailedCommits: c.failedCommits.Load(),
		OpenFiles: int64(s.logs.files.count()), OpenFilesLimit: int64(s.logs.files.budget),
	}
}
