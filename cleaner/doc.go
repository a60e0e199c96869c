// Package cleaner decides what a log may forget, and when. Two mechanisms forget, each for its own reason:
//
//   - Retention drops whole segments from the beginning of a log and never chooses a record: by the age of a segment's
//     newest record, or by the size of the log (cleanup.policy has delete).
//   - Compaction rewrites closed segments and promises that the last value of each key is still there: presence, not
//     uniqueness (cleanup.policy has compact).
//
// # One pass of compaction
//
// The cleanable part of a log ends at its ceiling: before the open segment, before the last stable offset, and before
// what is younger than min.compaction.lag.ms. From the offset up to which the log was cleaned, the first pass over the
// batches notes the last offset of each key in an OffsetMap of bounded size; when that is full, the pass ends there and
// another follows. The second goes over all segments from the log's beginning to the map's end, in groups that fit into
// one segment, and writes anew what stays: see filter.
//
// A record with a null value, a tombstone, says that its key is gone. Readers have their own pace, so it stays for
// delete.retention.ms after the first pass that met it, which stamps that time into the batch: its delete horizon.
//
// # Who does what
//
// Retention and compaction are decided by pure functions of segments, offsets, config and time. A Cleaner adds the loop,
// the threads and the clock; Log.DeleteBefore, Log.Roll and Log.Rewrite do what was decided. The cleaner knows no topic by
// name, and touches no file. No lock is held while it reads or writes.
//
// Kafka: LogManager.cleanupLogs, UnifiedLog.deleteOldSegments, LogCleaner, LogCleanerManager, Cleaner.
package cleaner
