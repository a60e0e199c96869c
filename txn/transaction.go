package txn

// Producer is a producer id with its epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer stands where there is none.
var NoProducer = Producer{ID: -1, Epoch: -1}

// Partition is a partition of a topic.
type Partition struct {
	Topic     string
	Partition int32
}

// Marker is what ends a transaction in a partition.
type Marker struct {
	Producer
	Commit           bool  // false is abort
	CoordinatorEpoch int32 // the leader epoch of the partition of __transaction_state
	V2               bool  // of transaction version 2: its epoch is above that of the data
}
