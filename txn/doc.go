// Package txn is the transaction coordinator: it gives the producers with a transactional
// id their producer ids and epochs, knows which partitions are in their transactions, and
// ends these with a marker in each. All of it is records in __transaction_state, a real
// compacted topic with Kafka's own key and value schemas, written by the ordinary append
// and read back by replay at the start; there is no other copy.
//
// # States
//
// What is known of an id is one transaction, the record that is stored last. It is not
// changed; each step makes the next:
//
//	          ┌──────Init───────┐
//	          ▼                 │
//	Init ─▶ Empty ──Add──▶ Ongoing ──End──▶ PrepareCommit ─▶ CompleteCommit
//	          │                 └──End, Init, timeout──▶ PrepareAbort ─▶ CompleteAbort
//	          └──End of version 2, abort──────────────────▶┘
//
// A complete transaction goes on like an empty one. The machine is pure: its methods, in
// transaction.go, get the time and say what comes next, or why nothing does.
//
// A client of transaction version 1 keeps its epoch from one transaction to the next. One of
// version 2 gets the next epoch with each end, and after the last a new producer id, so that
// no marker or batch that comes late belongs to the next transaction. What the coordinator
// aborts by itself is of version 2.
//
// # Steps
//
// An id lives in one partition of __transaction_state, whose owner has a lock for all of its
// ids. A step is decided under the lock, its record appended, and it takes effect and is
// answered when the record is durable (runtime.InFlight); one that was cut off again has
// changed nothing. So what is read is always durable, and nothing ever has to be undone.
// Until then the id is pending, and others are told ErrConcurrentTransactions; nobody waits
// in a queue. Whoever made the call need not wait: when its context ends it gets
// ErrNotAvailable, and the step goes on.
//
// A producer id is reserved before the step that takes it, without the lock, since that may
// write to the store's metadata. One that was not needed after all is lost, and none is ever
// given out twice.
//
// # Markers
//
// When it is durable that a transaction ends, a goroutine appends its marker to each of its
// partitions, waits until all are durable, and the owner writes that it is complete; until
// then the id is pending. Partitions of __consumer_offsets are the group coordinator's, which
// is given the marker (Options.EndOffsets). A partition that does not exist any more needs
// none. What fails is tried again with backoff, for ever. A stop does not wait for it: the
// load takes up what is decided and not complete, and writes all markers once more, which
// harms nobody, because no partition takes anything of the next transaction before.
//
// # Time
//
// What is due is decided by Options.Now: one timer wakes Run, which calls Tick, for the next
// try of an end, for transactions whose time is over, and for ids that nobody has used for
// long, which go with a tombstone.
//
// # Locks
//
// In this order: Coordinator.mu, owner.mu, those of the runtime package, then what storage
// takes. Coordinator.making is taken before all of them. The wait for the disk is never
// under a lock; the append to __transaction_state is under owner.mu.
//
// Kafka: TransactionCoordinator, TransactionStateManager, TransactionMarkerChannelManager.
//
// Differs from Kafka: two-phase commit by the client (KIP-939) is not served, which there is
// off by default and unstable in its protocol.
package txn
