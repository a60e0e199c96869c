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
// Kafka: SharePartition, which keeps a map of batches that turn into maps of offsets
// once a part of them changes; runs give the same answers.
//
// Differs from Kafka: rejected records go nowhere else (no dead letter queue, KIP-1191).
package share
