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
// batches notes the last offset of each key in an offsetMap of bounded size; when that is full, the pass ends there and
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
// name: the broker's own topics, and the log of the store's own metadata, are logs like any other. It touches no file. A
// thread keeps the others from choosing a log while it reads what it needs to choose one, and holds no lock otherwise while
// it reads or writes.
//
// # Where Kafka differs
//
//   - Its offset map knows a key by its MD5 digest, and takes two keys with one digest for one. Here keys are compared, so
//     a long one takes more of log.cleaner.dedupe.buffer.size than a short one, and one that is larger than all of it
//     exceeds it for a pass.
//   - A segment of which nothing is left has no timestamp, so Kafka takes its file's: ListOffsets by a time finds the empty
//     segment, and nothing in it, and answers -1. Here the search goes on.
//   - The transaction index of a rewritten segment keeps an aborted transaction as long as its marker has its record;
//     Kafka's as long as its data is there. Clients end a transaction at the marker, so they see the same.
//   - A file that cannot be written or read, on a full disk too, takes the whole log directory offline, and with the last
//     directory the broker; only what is read for the offset map, or to choose a log, makes it set aside that log alone.
//     Here a log that found the disk full, or the process out of file descriptors, is tried again in the next turn, one that
//     failed otherwise is set aside until the next start, and retention tries again at its next sweep. The others are cleaned
//     and served as ever.
//   - A log with a batch that cannot be taken apart is set aside and goes on being served. CRCs are not looked at: changed
//     bytes are copied, and a batch with such that is written anew gets a CRC that is right. Here all are looked at, and
//     damage takes the partition offline. Records that cannot be taken apart in a batch whose CRC is right set the log aside
//     here too.
//   - Segments that were replaced stay for file.delete.delay.ms. Here they go with their last reader.
//   - How far a log was cleaned is written after each pass. Here it is with the other checkpoints, every
//     log.flush.offset.checkpoint.interval.ms: a crash costs a pass over what was clean already.
//   - An empty segment joins any group. Here it counts like the others for the 2^31 offsets that a segment may span, so of a
//     log of which nothing is left one segment stays for each 2^31.
//   - With log.cleaner.enable=false, until Kafka 5.0, or log.cleaner.threads=0 nothing is compacted, and logs with both
//     policies know no retention either. Here the first says nothing, and the second is one thread.
//   - Data of an aborted transaction that the transaction index lacks is taken for committed. Here the log is set aside, which
//     names the transaction.
//   - A batch that needs much memory to be made anew is. Here it stays whole as long as one of its records is not replaced in
//     the pass at hand, and the tombstones behind it with it; a key of more than 16 MiB in a compressed batch sets the log
//     aside, which then has no retention either.
//   - Retention warns at each sweep of a segment that stays for a timestamp of the future. Here it does not.
//   - Forced compaction by max.compaction.lag.ms looks at the segments that may be cleaned; Kafka also at those above the
//     ceiling, which it then does not clean.
//
// Kafka: LogManager.cleanupLogs, UnifiedLog.deleteOldSegments, LogCleaner, LogCleanerManager, Cleaner.
package cleaner
