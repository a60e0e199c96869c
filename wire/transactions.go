package wire

import (
	"context"
	"time"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/txn"
)

// Transactions is what the configuration says of transactions. None of it changes while the broker runs.
//
// Kafka: TransactionLogConfig, TransactionStateManagerConfig.
func (c *BrokerConfig) Transactions() txn.Config {
	duration := func(name string) time.Duration { return time.Duration(c.Int(name)) * time.Millisecond }
	return txn.Config{
		Partitions:         int32(c.Int("transaction.state.log.num.partitions")),
		SegmentBytes:       int32(c.Int("transaction.state.log.segment.bytes")),
		MinInSyncReplicas:  int32(c.Int("transaction.state.log.min.isr")),
		MaxTimeout:         duration("transaction.max.timeout.ms"),
		TimeoutInterval:    duration("transaction.abort.timed.out.transaction.cleanup.interval.ms"),
		IDExpiration:       duration("transactional.id.expiration.ms"),
		ExpirationInterval: duration("transaction.remove.expired.transaction.cleanup.interval.ms"),
	}
}

// Unverified reports whether transactional batches are taken without a look at whether their partition is in the
// transaction. Clients with transaction.version 2 are not asked this: their batches add it.
func (c *BrokerConfig) Unverified() bool { return !c.Bool("transaction.partition.verification.enable") }

// VerifyOffsets is how the group coordinator asks a transaction coordinator whether its partition is in a transaction, or
// adds it.
func VerifyOffsets(c *txn.Coordinator) func(ctx context.Context, t groups.TransactionalCommit, partition int32) error {
	return func(ctx context.Context, t groups.TransactionalCommit, partition int32) error {
		r := txn.AddRequest{
			TransactionalID: t.TransactionalID, Producer: txn.Producer{ID: t.ProducerID, Epoch: t.ProducerEpoch},
			Partitions: []txn.Partition{{Topic: groups.OffsetsTopic, Partition: partition}}, V2: t.V2,
		}
		if t.V2 {
			return c.Add(ctx, r)
		}
		errs, err := c.Verify(ctx, r)
		if err == nil {
			err = errs[0]
		}
		return err
	}
}

// EndOffsets is how the transaction coordinator ends a transaction in a partition of __consumer_offsets.
func EndOffsets(ctx context.Context, c *groups.Coordinator, partition int32, m txn.Marker) error {
	return c.EndTransaction(ctx, partition, m.ID, m.Epoch, record.Marker{Commit: m.Commit, CoordinatorEpoch: m.CoordinatorEpoch}, m.V2)
}
