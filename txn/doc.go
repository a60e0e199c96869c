// Package txn is the transaction coordinator: it gives the producers with a transactional
// id their producer ids and epochs, knows which partitions are in their transactions, and
// ends these with a marker in each. All of it is records in __transaction_state, a real
// compacted topic with Kafka's own key and value schemas, written by the ordinary append
// and read back by replay at the start; there is no other copy.
package txn
