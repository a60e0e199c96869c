package runtime

import (
	"fmt"
	"iter"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// loadBytes is how much of a log one step of a load reads.
const loadBytes = 1 << 20

// NewBatch begins a batch of records that a coordinator writes. Kafka: CoordinatorRuntime
// begins its batches with a base sequence of 0 and no producer.
func NewBatch() *record.Builder {
	return record.NewBuilder(record.BuilderOptions{
		LeaderEpoch: record.NoLeaderEpoch,
		HasProducer: true, ProducerID: record.NoProducerID, ProducerEpoch: record.NoProducerEpoch,
	})
}

// NewTransactionalBatch begins a batch of records that a coordinator writes within a
// producer's transaction. The producer gives no sequence for it: Kafka begins at 0 here too.
func NewTransactionalBatch(producerID int64, epoch int16) *record.Builder {
	return record.NewBuilder(record.BuilderOptions{
		LeaderEpoch: record.NoLeaderEpoch, Transactional: true,
		HasProducer: true, ProducerID: producerID, ProducerEpoch: epoch,
	})
}

// Batches reads a log from its start to its high watermark, once it has recovered. Each
// batch is good until the next; an error is the last. Kafka: CoordinatorLoaderImpl.
func Batches(log *storage.Log) iter.Seq2[record.Batch, error] {
	return func(yield func(record.Batch, error) bool) {
		offsets, err := log.Offsets()
		if err != nil {
			yield(nil, err)
			return
		}
		var buffer []byte
		for next := offsets.LogStart; next < offsets.HighWatermark; {
			res, err := log.Read(buffer[:0], storage.ReadRequest{Offset: next, MaxBytes: loadBytes, MinOneBatch: true})
			if err != nil {
				yield(nil, fmt.Errorf("read at offset %d: %w", next, err))
				return
			}
			if buffer = res.Data; len(buffer) == 0 {
				return // only compacted-away offsets are left
			}
			for rest := buffer; len(rest) > 0; {
				var b record.Batch
				if b, rest, err = record.Cut(rest); err != nil {
					yield(nil, fmt.Errorf("read at offset %d: %w", next, err))
					return
				}
				if !yield(b, nil) {
					return
				}
				next = b.NextOffset()
			}
		}
	}
}
