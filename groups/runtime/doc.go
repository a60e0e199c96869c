// Package runtime is what every coordinator needs whose state is records in a topic of
// its own, whatever that state is: groups in __consumer_offsets, share partitions in
// __share_group_state, transactions in __transaction_state. It holds no state machine and
// no kind of record.
//
// A Topic is the topic with an owner of each of its partitions. An Alarm is the one timer
// of a coordinator, a Period something that it does every so often. What is asked of a
// coordinator takes effect when its records are durable: InFlight keeps what is on its way
// to the disk. A Decoder and its counterparts read and write the fields of records;
// PartitionFor says which partition of the topic they are in. NewBatch begins what is
// written of them, Batches reads all back. Parallel does a few things at a time.
//
// Kafka: CoordinatorRuntime and its parts, in coordinator-common.
package runtime
