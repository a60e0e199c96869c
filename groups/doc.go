// Package groups is the group coordinator: it keeps the members of consumer groups and
// the offsets that consumers commit. All of it is records in __consumer_offsets, a real
// compacted topic with Kafka's own key and value schemas, written by the ordinary
// append and read back by replay at the start; there is no other copy.
//
// # Shards
//
// A group lives in the shard of one partition of __consumer_offsets, chosen as Kafka
// chooses it (runtime.PartitionFor). A shard answers ErrLoading until its partition is
// replayed, which Run does for a few at a time. It holds an entry for each group: the
// offsets, and a machine, which is the membership: classicGroup, consumerGroup (KIP-848)
// or shareGroup (KIP-932). An entry without a machine is a simple group, which only has
// offsets; one that holds nothing is dropped. Groups change their kind by another machine
// in the same entry.
//
// # Steps
//
// Machines are pure: they get the time, and know neither locks nor the disk. What is
// asked of a group goes through call, which runs it under the shard's lock and waits
// for the answer, or look, which reads. A machine answers with a step. One without
// records is done when it is returned. One with records has changed nothing yet: its
// records are appended as one batch, and when that is durable, or failed, the step is
// told, makes its effects and gives its answers. So what is read is always durable, and
// nothing ever has to be undone. An answer may be kept for later, as that of a join that
// waits for others.
//
// While a step is on its way to the disk its group is busy: other calls and deadlines
// wait in the group's queue, in order. Steps of different groups are on their way
// together, so that they share a sync. Commits of offsets do not make a group busy and
// pass each other by; what removes offsets (deletion, expiry) waits for them, so that
// none comes back behind a tombstone.
//
// A goroutine for each shard with something in flight waits for the disk and releases
// what has become durable (runtime.InFlight). It ends when there is nothing left, and Run
// waits for it. Whoever made the call need not wait: when its context ends it gets
// ErrNotAvailable, and the step goes on.
//
// # Transactions
//
// Offsets that a producer commits within a transaction go into a batch with its id and
// epoch, once the transaction coordinator knows that the partition is part of the
// transaction (Options.Verify). They are pending, and the group's offsets unstable, until
// the transaction coordinator ends the transaction in the partition. The marker is
// appended in order with everything else and takes effect when it is durable. What counts
// then is decided by where the offsets stand in the log, against those of other commits,
// and a removal takes pending ones along.
//
// # Share groups
//
// Where a share group stands in a partition is a state that is kept elsewhere
// (Options.ShareState). The group only knows which partitions have one: it asks for those
// that it misses when a heartbeat names their topic, a goroutine that Run waits for makes
// them and tells the group, and then they are assigned.
//
// # Time
//
// What is due is decided by Options.Now. A shard keeps the deadlines of its groups in a
// heap, and one timer for all shards wakes Run, which calls Tick. A member's heartbeat
// moves its deadline later without touching the heap: when the earlier one comes, the
// machine is asked again. Expired offsets are looked for by the same Tick.
//
// # Files
//
// coordinator.go, call.go, owner.go, deadlines.go and entry.go are what every kind of
// group needs; shard.go and load.go, the state and its replay; offsets.go,
// offsets_removal.go, transactions.go, expiry.go, delete.go and list.go, what is done with
// offsets and whole groups. classic_*.go is the classic protocol, consumer_*.go that of KIP-848 and
// share_*.go that of KIP-932, modern_*.go what these two have alike, with the assignors in
// their own package. What share partitions' coordinator needs too is in package runtime.
//
// # Locks
//
// In this order: Coordinator.mu, owner.mu, those of the runtime package, then what
// storage takes. Coordinator.making is taken before all of them. The wait for the disk is
// never under a lock; the first append to a partition, which makes its directory, is under
// owner.mu.
package groups
