package txn

import (
	"context"
	"log/slog"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// Options configures a Coordinator. Store, Now and EndOffsets must be set.
type Options struct {
	Store  *storage.Store
	Now    func() time.Time
	Logger *slog.Logger // nil discards
	Config Config
	// EndOffsets appends a marker to a partition of __consumer_offsets through the group
	// coordinator and waits until it is durable. The errors are those of storage, or
	// wrap them: one for a log that does not exist any more ends the wait for it, and
	// after any other it is tried again.
	EndOffsets func(ctx context.Context, partition int32, marker Marker) error
}

// Config is what a broker's configuration says of transactions. Zero fields are Kafka's
// defaults.
type Config struct {
	// Partitions, SegmentBytes and MinInSyncReplicas are used when __transaction_state is
	// made. Default 50, 104857600 and 1. Kafka: transaction.state.log.num.partitions,
	// .segment.bytes and .min.isr.
	Partitions        int32
	SegmentBytes      int32
	MinInSyncReplicas int32
	// MaxTimeout is the longest timeout that a producer may ask for. Default 15 min.
	// Kafka: transaction.max.timeout.ms.
	MaxTimeout time.Duration
	// TimeoutInterval is how often transactions are looked for whose time is over. Default
	// 10 s. Kafka: transaction.abort.timed.out.transaction.cleanup.interval.ms.
	TimeoutInterval time.Duration
	// IDExpiration is how long an id is kept that nobody uses. Default 7 days. Kafka:
	// transactional.id.expiration.ms.
	IDExpiration time.Duration
	// ExpirationInterval is how often ids are looked for that have expired. Default 1 h.
	// Kafka: transaction.remove.expired.transaction.cleanup.interval.ms.
	ExpirationInterval time.Duration
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	c := &o.Config
	fill(&c.Partitions, 50)
	fill(&c.SegmentBytes, 100<<20)
	fill(&c.MinInSyncReplicas, 1)
	fill(&c.MaxTimeout, 15*time.Minute)
	fill(&c.TimeoutInterval, 10*time.Second)
	fill(&c.IDExpiration, 7*24*time.Hour)
	fill(&c.ExpirationInterval, time.Hour)
}

// fill sets what is not set.
func fill[T comparable](v *T, to T) {
	var zero T
	if *v == zero {
		*v = to
	}
}
