// Package share is the delivery side of share groups (KIP-932): which records of a
// partition are handed to which member of a group, and what became of them.
//
// A Partition is the state machine of one partition in one group; it is pure. It keeps
// runs of records that share a fate, in the order of their offsets:
//
//	Available ──acquire──▶ Acquired ──accept──▶ Acknowledged
//	    ▲                     │ └─────reject, gap──▶ Archived
//	    └──release, time out──┘ (Archived, too, when it was the last delivery allowed)
//
// Before the first run everything has been dealt with: that is the start offset, which
// only grows. After the last run nothing has been fetched yet.
//
// What a change writes is a list of Batches. A change has taken effect when its record
// is durable, not before; until then its records can be neither acquired nor
// acknowledged, while others of the same partition can.
//
// A State owns the partitions. What is stored of them are records in
// __share_group_state, a real topic: snapshots, updates and tombstones, each partition's
// in the partition of the topic that its name hashes to. A shard is one partition of the
// topic: its lock guards all that is known of its share partitions, and is not held over
// reads or while waiting for the disk. Who holds which records is not stored, and lasts
// as long as the process.
//
// A member fetches and acknowledges within a session, which dies with its connection.
//
// Kafka: SharePartition, which keeps a map of batches that turn into maps of offsets
// once a part of them changes; runs give the same answers. ShareCoordinatorShard,
// SharePartitionManager, DelayedShareFetch.
//
// Differs from Kafka: rejected records go nowhere else (no dead letter queue, KIP-1191).
// A lock whose time is over ends when that is durable, not at once. The leader epoch that
// is stored stays that of the first write: there is one broker.
package share
