package groups

import (
	"context"
	"log/slog"
	"slices"
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
	// life is over when Run ends: nobody answers then.
	life     context.Context
	end      context.CancelFunc
	releases sync.WaitGroup // the goroutines that wait for the disk

	making sync.Mutex // held while __consumer_offsets is made

	mu     sync.Mutex
	owners []*owner        // guarded by mu; one a partition of __consumer_offsets; nil until it exists
	id     storage.TopicID // guarded by mu; of the topic that owners belong to
	ended  bool            // guarded by mu; Run has ended
}

// New returns a Coordinator. It starts nothing: Run does.
func New(o Options) *Coordinator {
	if o.Store == nil || o.Now == nil {
		panic("groups: Options.Store and Options.Now must be set")
	}
	o.setDefaults()
	c := &Coordinator{o: o, alarm: runtime.NewAlarm()}
	c.life, c.end = context.WithCancel(context.Background())
	c.env = newEnv(&c.o.Config, o.Store)
	c.env.initialize = c.initializeStates
	c.sweep = c.alarm.Every(c.o.Config.OffsetsCheckInterval, o.Now())
	if t, ok := o.Store.Topic(OffsetsTopic); ok {
		c.id, c.owners = t.ID(), c.newOwners(t, 0, notLoaded)
	}
	o.Store.OnTopicDeleted(c.topicDeleted)
	return c
}

// Run reads the partitions of __consumer_offsets that exist, and keeps the deadlines
// of the groups that are read until ctx ends. Then it refuses calls, answers those that
// wait or are parked with ErrNotAvailable, and returns when nothing is on its way to the
// disk.
func (c *Coordinator) Run(ctx context.Context) error {
	var loads sync.WaitGroup
	loads.Go(func() { c.load(ctx) })
	c.alarm.Run(ctx, c.o.Now, c.Tick)
	loads.Wait()
	c.mu.Lock()
	c.ended = true
	owners := c.owners
	c.mu.Unlock()
	for _, w := range owners {
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
	}
	c.end()
	c.releases.Wait()
	return nil
}

// EnsureTopic returns __consumer_offsets, made with Kafka's configs when it does
// not exist. Kafka: GroupCoordinatorService.groupMetadataTopicConfigs.
func (c *Coordinator) EnsureTopic() (*storage.Topic, error) {
	if t, ok := c.o.Store.Topic(OffsetsTopic); ok {
		return t, nil
	}
	c.making.Lock()
	defer c.making.Unlock()
	if t, ok := c.o.Store.Topic(OffsetsTopic); ok {
		return t, nil
	}
	return c.o.Store.CreateTopic(storage.TopicSpec{
		Name:       OffsetsTopic,
		Partitions: c.o.OffsetsPartitions,
		Configs:    c.TopicConfigs(),
	})
}

// TopicConfigs are the configs that __consumer_offsets is made with.
func (c *Coordinator) TopicConfigs() map[string]string {
	return map[string]string{
		"cleanup.policy":   "compact",
		"compression.type": "producer",
		"segment.bytes":    strconv.Itoa(int(c.o.OffsetsSegmentBytes)),
	}
}

// TopicPartitions is how many partitions __consumer_offsets is made with.
func (c *Coordinator) TopicPartitions() int32 { return c.o.OffsetsPartitions }

// all returns the owners of the present __consumer_offsets, none when it does not
// exist. What was made since the start is empty, and needs no loading: a new topic,
// or partitions that were added.
func (c *Coordinator) all() []*owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.o.Store.Topic(OffsetsTopic) // under the lock: nobody goes back to an older topic
	if !ok {
		return nil
	}
	if c.id != t.ID() {
		c.drop()
		c.id = t.ID()
	}
	if n := len(c.owners); n < int(t.Partitions()) {
		c.owners = append(slices.Clip(c.owners), c.newOwners(t, int32(n), loaded)...)
	}
	return c.owners
}

// drop forgets the owners of a topic that was deleted, and answers those who wait.
// Caller holds mu.
func (c *Coordinator) drop() {
	for _, w := range c.owners {
		close(w.gone)
	}
	c.id, c.owners = storage.TopicID{}, nil
}

// newOwners returns owners for the partitions of t from first on.
func (c *Coordinator) newOwners(t *storage.Topic, first int32, state loadState) []*owner {
	var out []*owner
	for i := first; i < t.Partitions(); i++ {
		log, _ := t.Partition(i)
		w := &owner{c: c, o: &c.o, log: log, gone: make(chan struct{}), state: state, stopped: c.ended}
		w.inFlight = runtime.NewInFlight(log, &w.mu, &c.releases, w.settled)
		if state == loaded {
			w.shard = newShard(c.env)
		}
		w.counted.Store(&shardStats{ready: state == loaded})
		out = append(out, w)
	}
	return out
}

// ownerOf returns the owner of a group's shard, nil while no __consumer_offsets
// exists.
func (c *Coordinator) ownerOf(groupID string) *owner {
	all := c.all()
	if len(all) == 0 {
		return nil
	}
	return all[runtime.PartitionFor(groupID, int32(len(all)))]
}
