// Package storage keeps the records of topics in Kafka's own segment files: it is a data directory (Store) of topics
// (Topic) of partitions (Log).
//
// # Layout
//
//	DIR/meta.properties                    who the directory belongs to
//	DIR/recovery-point-offset-checkpoint   per partition: everything below is on disk and need not be scanned
//	DIR/log-start-offset-checkpoint        per partition: where it starts, once that is above 0
//	DIR/cleaner-offset-checkpoint          per partition: up to where compaction has cleaned it
//	DIR/replication-offset-checkpoint      per partition: the high watermark, for people; nothing is decided by it
//	DIR/synced-offset-checkpoint           per partition that went offline: everything below is on disk, indexes perhaps not
//	DIR/.kafka_cleanshutdown               the store was stopped in order
//	DIR/.lock                              held by the process that serves the directory
//	DIR/__gateway_metadata-0/              the metadata log: topics, their ids and configs, users, ACLs, quotas
//	DIR/orders-0/                          partition 0 of topic orders, made by its first append
//	    partition.metadata                 the topic's id
//	    leader-epoch-checkpoint            from which offset on which leader epoch wrote
//	    00000000000000000000.log           record batches back to back; the name is the first offset
//	    00000000000000000000.index         offset -> position, sparse
//	    00000000000000000000.timeindex     timestamp -> offset, sparse
//	    00000000000000000000.txnindex      aborted transactions whose marker is in the segment; only if there are any
//	    00000000000000004711.snapshot      producer state before offset 4711, written when a segment is closed
//	    NNN.MMM.reaches                    the segment of base offset NNN was rewritten and goes up to offset MMM, though its
//	                                       last batch may not
//	    00000000000000000000.log.torn-123  what recovery cut off at position 123; for people
//
// The records are the truth. Indexes, snapshots, epochs and checkpoints are caches: they are made anew from the batches
// when they are missing or wrong.
//
// # Durable, visible, acknowledged
//
// An append is one write at the end of the last segment, made with Log.mu held. The committer then syncs the log: a
// round notes where the log ends, syncs the files that were written (and the directory when a name in it is new), and
// publishes that place as the high watermark. Readers see nothing beyond it, and WaitDurable returns. What is written
// while a round runs is the next round. With Async the high watermark moves at the write, and rounds follow once a
// second.
//
// The recovery point follows when a segment is closed (the round that makes the first batch of the next one visible
// also syncs the closed one's indexes, its producer snapshot and the epochs) and at every checkpoint. It does not follow any
// more when a log goes offline. What is on disk is then written down by itself: the next start reads all from the recovery
// point on, and what is not whole there is damage and no torn write.
//
// # What a crash can leave
//
//	append      any part of what was written after the last round, in 512-byte sectors. Nobody was told of it. The
//	            next start reads every batch from the recovery point on and cuts the log at the first that is not whole.
//	roll        the old segment without the new one (then the log ends with the old), or the new one empty, or with
//	            some of its bytes, or a later one without it: a gap past the recovery point ends the log. Its name is
//	            synced before anything in it is visible.
//	first       a directory with or without partition.metadata, but never with a .log and without partition.metadata:
//	append      that is synced first.
//	cut         after a failed write or sync, the log as it was before or after the cut. What lies beyond was
//	            reported as failed; it may reappear, as it may after any failure. No append follows an unsynced cut.
//	delete      the log start checkpoint is synced before a segment leaves; segments below it that are still there go
//	records     at the next start.
//	recovery    does the same again: it removes what counts for nothing, cuts, syncs, then writes caches.
//	flush       index entries beyond the recovery point, or parts of them: they are dropped and made anew.
//	rewrite     .cleaned files count for nothing, .swap files stand in for what they replace (the name of the .reaches
//	            file says how far they go), .deleted files go.
//
// # Lock order
//
// A lock may be taken while holding one above it.
//
//	wire Server.creating over the creation of topics
//	wire Server.altering over the commit of changed configs
//	wire clientQuotas.mu over the making of what is enforced; no I/O
//	producerIDs.mu       over the commit of a block of producer ids
//	Cleaner.choosing     over the reads by which a log is chosen, and its recovery
//	Cleaner.mu           no I/O
//	retirements.moves    over the moving of directories
//	Log.rewriting        over the rewriting of segments of that log
//	Topic.mu             over the making of a log; no I/O
//	Store.defaultsMu     no I/O
//	Log.loadMu           no I/O
//	Log.mu               over recovery, writes, rolls and cuts of that log, and over the renaming and removal of its files;
//	                     over a sync only in recovery, also of indexes that it could not write, in a cut, in the first
//	                     append and when the log goes offline
//	committer.mu         no I/O
//	watches.mu           no I/O
//	metadataLog.mu       no I/O
//	checkpoints.writing  over the writing of a checkpoint file
//	checkpoints.mu       no I/O
//	Store.mu             no I/O
//	retirements.mu       no I/O
//	file.mu              over the opening of that file
//	openFiles.mu         no I/O
//	sharedSync.mu        no I/O
//	auth usage.mu        no I/O
//
// Readers take file.mu and openFiles.mu only, and those only when a file has to be opened. Nothing that is waited for
// is done by somebody who needs a lock that the waiter holds.
package storage
