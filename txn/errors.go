package txn

import "errors"

// Errors of the package. wire/errors.go maps each to a Kafka code; what wraps them says
// what was got and what was wanted.
var (
	// ErrLoading: the partition of __transaction_state is still being read.
	ErrLoading = errors.New("transaction coordinator is loading")
	// ErrNotAvailable: __transaction_state was deleted under the call, the call's time was
	// over before its record was durable, or the coordinator stops.
	ErrNotAvailable = errors.New("transaction coordinator is not available")
	// ErrNotCoordinator: there is no __transaction_state, or the partition cannot be read
	// or written, as when it is offline or the disk fails.
	ErrNotCoordinator = errors.New("not the coordinator of the transactional id")
	// ErrTooLarge: the record of the transaction does not fit into __transaction_state.
	// Kafka: UNKNOWN_SERVER_ERROR.
	ErrTooLarge = errors.New("transaction too large")

	// ErrInvalidRequest: the transactional id is empty, or too long for a record.
	ErrInvalidRequest = errors.New("invalid transaction request")
	// ErrInvalidTimeout: the timeout is not positive or above Config.MaxTimeout.
	ErrInvalidTimeout = errors.New("invalid transaction timeout")
	// ErrInvalidProducerIDMapping: the transactional id is not known, or has another
	// producer id.
	ErrInvalidProducerIDMapping = errors.New("producer id is not that of the transactional id")
	// ErrProducerFenced: a newer producer has the transactional id. Kafka answers old
	// versions of requests with INVALID_PRODUCER_EPOCH.
	ErrProducerFenced = errors.New("producer is fenced")
	// ErrConcurrentTransactions: a record of the transactional id is on its way to the
	// disk, or the markers of its transaction are; ask again.
	ErrConcurrentTransactions = errors.New("transaction is being changed")
	// ErrInvalidTxnState: the transaction's state does not allow it.
	ErrInvalidTxnState = errors.New("transaction state does not allow it")
	// ErrNotInTransaction: a partition that was to be verified was not added to the
	// transaction. Kafka: TRANSACTION_ABORTABLE, INVALID_TXN_STATE to old versions.
	ErrNotInTransaction = errors.New("partition is not in the transaction")

	// ErrTransactionalIDNotFound: nothing is known of the transactional id.
	ErrTransactionalIDNotFound = errors.New("transactional id not found")
	// ErrInvalidRegex: the pattern for transactional ids does not compile.
	ErrInvalidRegex = errors.New("invalid regular expression for transactional ids")
)
