package groups

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

// OffsetsTopic is the topic that committed offsets are kept in.
const OffsetsTopic = "__consumer_offsets"

// Options configures a Coordinator. Store must be set.
type Options struct {
	Store  *storage.Store
	Now    func() time.Time // must be set
	Logger *slog.Logger     // nil discards
	// OffsetsPartitions and OffsetsSegmentBytes are used when __consumer_offsets is
	// made. Default 50 and 104857600. Kafka: offsets.topic.num.partitions,
	// offsets.topic.segment.bytes.
	OffsetsPartitions   int32
	OffsetsSegmentBytes int32
	// MaxMetadataLength bounds the text of a commit in UTF-16 units. Default 4096.
	// Kafka: offset.metadata.max.bytes.
	MaxMetadataLength int
	// CommitTimeout bounds the wait for a commit to be durable. Default 5 s. Kafka:
	// offsets.commit.timeout.ms.
	CommitTimeout time.Duration
	// Config is what the broker's configuration says of groups.
	Config Config
	// ShareState is where the states of share partitions are kept; without it no share
	// groups are served.
	ShareState ShareState
	// Verify asks the transaction coordinator whether a partition of __consumer_offsets is in a transaction, or, for a
	// commit of V2, adds it. Its errors go to the producer as they are. Nil lets every commit pass.
	Verify func(ctx context.Context, t TransactionalCommit, partition int32) error
	// Unverified says that transactions are not verified now; those of V2 are asked for all the same. Nil verifies them.
	// Kafka: transaction.partition.verification.enable.
	Unverified func() bool
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.OffsetsPartitions == 0 {
		o.OffsetsPartitions = 50
	}
	if o.OffsetsSegmentBytes == 0 {
		o.OffsetsSegmentBytes = 100 << 20
	}
	if o.MaxMetadataLength == 0 {
		o.MaxMetadataLength = 4096
	}
	if o.CommitTimeout == 0 {
		o.CommitTimeout = 5 * time.Second
	}
	o.Config.setDefaults()
}

// Coordinator owns the shards. Its methods may be called from any goroutine.
type Coordinator struct {
	o     Options
	env   *env
	alarm *runtime.Alarm
	// sweep is when offsets are looked at for their expiry. Kafka:
	// GroupCoordinatorShard.scheduleGroupMetadataExpiration.
	sweep *runtime.Period
	topic *runtime.Topic[*owner]
}

// New returns a Coordinator. It starts nothing: Run does.
func New(o Options) *Coordinator {
	if o.Store == nil || o.Now == nil {
		panic("groups: Options.Store and Options.Now must be set")
	}
	o.setDefaults()
	c := &Coordinator{o: o, alarm: runtime.NewAlarm()}
	c.env = newEnv(&c.o.Config, o.Store)
	c.env.initialize = c.initializeStates
	c.sweep = c.alarm.Every(c.o.Config.OffsetsCheckInterval, o.Now())
	c.topic = runtime.NewTopic(runtime.TopicOptions[*owner]{
		Store: o.Store, Spec: c.topicSpec(), Owner: c.newOwner, Stop: (*owner).stop, Deleted: func(w *owner) { close(w.gone) },
	})
	o.Store.OnTopicDeleted(c.topicDeleted)
	return c
}

// Run reads the partitions of __consumer_offsets that exist, and keeps the deadlines
// of the groups that are read until ctx ends. Then it refuses calls, answers those that
// wait or are parked with ErrNotAvailable, and returns when nothing is on its way to the
// disk.
func (c *Coordinator) Run(ctx context.Context) error {
	var loads sync.WaitGroup
	loads.Go(func() { c.topic.Load(ctx, (*owner).load) })
	c.alarm.Run(ctx, c.o.Now, c.Tick)
	loads.Wait()
	c.topic.Stop()
	return nil
}

// EnsureTopic returns __consumer_offsets, made with Kafka's configs when it does not
// exist.
func (c *Coordinator) EnsureTopic() (*storage.Topic, error) { return c.topic.Ensure() }

// TopicSpec is what __consumer_offsets is made with.
func (c *Coordinator) TopicSpec() storage.TopicSpec { return c.topic.Spec() }

// topicSpec is Kafka's. Kafka: GroupCoordinatorService.groupMetadataTopicConfigs.
func (c *Coordinator) topicSpec() storage.TopicSpec {
	return storage.TopicSpec{
		Name:       OffsetsTopic,
		Partitions: c.o.OffsetsPartitions,
		Configs: map[string]string{
			"cleanup.policy":   "compact",
			"compression.type": "producer",
			"segment.bytes":    strconv.Itoa(int(c.o.OffsetsSegmentBytes)),
		},
	}
}

// newOwner returns the owner of a partition of __consumer_offsets.
func (c *Coordinator) newOwner(log *storage.Log, fresh bool) *owner {
	w := &owner{c: c, o: &c.o, log: log, gone: make(chan struct{})}
	w.inFlight = runtime.NewInFlight(log, &w.mu, c.topic.Waits(), w.settled)
	if fresh {
		w.shard, w.state = newShard(c.env), loaded
	}
	w.counted.Store(&shardStats{ready: fresh})
	return w
}

// all returns the owners of the present __consumer_offsets, none when it does not exist.
func (c *Coordinator) all() []*owner { return c.topic.Owners() }

// ownerOf returns the owner of a group's shard, nil while no __consumer_offsets exists.
func (c *Coordinator) ownerOf(groupID string) *owner { return c.topic.Of(groupID) }
