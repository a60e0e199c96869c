// Package groups is the group coordinator: it keeps the offsets that consumers
// commit. A commit is a record in __consumer_offsets, a real compacted topic with
// Kafka's own key and value schemas, written by the ordinary append and read back
// by replay at the start; there is no other copy.
//
// # Shards
//
// A group lives in the shard of one partition of __consumer_offsets, chosen as
// Kafka chooses it (partitionFor). A shard answers ErrLoading until its partition
// is replayed.
//
// # Released when durable
//
// A commit is appended under the shard's lock, so that the order in the log is the
// order of the commits, and takes effect when its batch is durable: only then is it
// answered, and only then does a fetch return it. What waits in between stands in
// the shard's list of staged commits, in log order. A commit whose append failed,
// or was cut off again after a failed sync, leaves no trace.
//
// Lock order: shard.mu, then what storage takes. No lock is held while waiting for
// the disk to sync.
package groups
