package txn

import "time"

// Description is what DescribeTransactions tells of a transactional id.
type Description struct {
	TransactionalID string
	State           string // by its name on the wire
	Producer
	Timeout    time.Duration
	StartMs    int64       // when the transaction began, -1 for none
	Partitions []Partition // in order
}

// Describe returns what is known of an id. Errors: ErrInvalidRequest for an empty id,
// those of Available, ErrTransactionalIDNotFound.
//
// Kafka: TransactionCoordinator.handleDescribeTransactions.
func (c *Coordinator) Describe(id string) (Description, error) {
	return Description{}, ErrNotCoordinator
}

// ListRequest says which ids List returns; all of its conditions must be met.
type ListRequest struct {
	States      []string // names of states, all states when empty
	ProducerIDs []int64  // all producers when empty
	// MinDuration is how long the transaction must have been running, and a bit more;
	// negative for any. One that never began has been running since 1970.
	MinDuration time.Duration
	Pattern     string // a regular expression for the whole of the id; "" for any
}

// Listed is a transactional id as ListTransactions tells of it.
type Listed struct {
	TransactionalID string
	ProducerID      int64
	State           string
}

// ListResult is the answer of List.
type ListResult struct {
	Transactions  []Listed // by id
	UnknownStates []string // those of the request that are no states
}

// List returns the transactional ids that meet conditions. A partition that cannot be
// read has none. Errors: ErrNotAvailable, ErrLoading when any partition is being read,
// ErrInvalidRegex.
//
// Kafka: TransactionStateManager.listTransactionStates.
func (c *Coordinator) List(r ListRequest) (ListResult, error) {
	return ListResult{}, ErrNotAvailable
}

// Available says whether the coordinator of an id answers: nil, ErrLoading,
// ErrNotCoordinator or ErrNotAvailable.
func (c *Coordinator) Available(id string) error { return ErrNotCoordinator }
