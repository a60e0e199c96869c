package groups

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
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
}

// Coordinator owns the shards. Its methods may be called from any goroutine.
type Coordinator struct {
	o Options

	making sync.Mutex // held while __consumer_offsets is made

	mu     sync.Mutex
	owners []*owner        // one a partition of __consumer_offsets; nil until it exists
	id     storage.TopicID // of the topic that owners belong to
}

// New returns a Coordinator. It starts nothing: Run does.
func New(o Options) *Coordinator {
	if o.Store == nil || o.Now == nil {
		panic("groups: Options.Store and Options.Now must be set")
	}
	o.setDefaults()
	c := &Coordinator{o: o}
	if t, ok := o.Store.Topic(OffsetsTopic); ok {
		c.id, c.owners = t.ID(), c.newOwners(t, 0, notLoaded)
	}
	o.Store.OnTopicDeleted(c.topicDeleted)
	return c
}

// Run reads the partitions of __consumer_offsets that exist. It returns when all
// are read, or ctx ends.
func (c *Coordinator) Run(ctx context.Context) error {
	for _, w := range c.all() {
		if ctx.Err() != nil {
			return nil
		}
		w.load()
	}
	<-ctx.Done()
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
	t, ok := c.o.Store.Topic(OffsetsTopic)
	if !ok {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.id != t.ID() {
		c.id, c.owners = t.ID(), nil
	}
	if n := len(c.owners); n < int(t.Partitions()) {
		c.owners = append(slices.Clip(c.owners), c.newOwners(t, int32(n), loaded)...)
	}
	return c.owners
}

// newOwners returns owners for the partitions of t from first on.
func (c *Coordinator) newOwners(t *storage.Topic, first int32, state loadState) []*owner {
	var out []*owner
	for i := first; i < t.Partitions(); i++ {
		log, _ := t.Partition(i)
		w := &owner{o: &c.o, log: log, state: state}
		if state == loaded {
			w.shard = newShard()
		}
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
	return all[partitionFor(groupID, int32(len(all)))]
}

// topicDeleted removes what was committed for a topic and waits until that is
// durable. Where it cannot, as in a partition that is still loading, the offsets stay
// in the log and are not found by the new topic of the name, which has another id.
func (c *Coordinator) topicDeleted(t *storage.Topic) {
	if t.Name() == OffsetsTopic {
		return
	}
	type removal struct {
		owner    *owner
		appended storage.Appended
	}
	var waits []removal
	for _, w := range c.all() {
		appended, ok, err := w.removeTopic(t)
		if ok {
			waits = append(waits, removal{w, appended})
		} else if err != nil && !errors.Is(err, ErrLoading) {
			c.notRemoved(t, w, err)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.o.CommitTimeout)
	defer cancel()
	for _, r := range waits {
		if err := r.owner.wait(ctx, r.appended); err != nil {
			c.notRemoved(t, r.owner, err)
		}
	}
}

func (c *Coordinator) notRemoved(t *storage.Topic, w *owner, err error) {
	c.o.Logger.Warn("offsets of a deleted topic were not removed", "topic", t.Name(), "partition", w.log.Index(), "error", err)
}

// Commit is one offset to be committed.
type Commit struct {
	Topic       string
	TopicID     storage.TopicID
	Partition   int32
	Offset      int64
	LeaderEpoch int32
	Metadata    string
}

// CommitOffsets stores what a consumer that is no member of its group commits.
// The error of each commit is at its index in the result: ErrMetadataTooLarge, or
// nil once it is durable. retention is the client's explicit retention, negative
// for the broker's. An error that concerns them all is err: ErrLoading,
// ErrNotAvailable, ErrNotCoordinator or ErrCommitTooLarge; then nothing is stored, or
// after a timeout it may yet be.
// It blocks until the commits are durable, the commit timeout, or the end of ctx.
func (c *Coordinator) CommitOffsets(ctx context.Context, groupID string, commits []Commit, retention time.Duration) ([]error, error) {
	if _, err := c.EnsureTopic(); err != nil && !errors.Is(err, storage.ErrTopicExists) {
		return nil, fmt.Errorf("make %s: %w: %w", OffsetsTopic, ErrNotAvailable, err)
	}
	w := c.ownerOf(groupID)
	if w == nil {
		return nil, fmt.Errorf("%s is being deleted: %w", OffsetsTopic, ErrNotAvailable)
	}
	nowMs := c.o.Now().UnixMilli()
	errs := make([]error, len(commits))
	changes := make([]change, 0, len(commits))
	for i := range commits {
		k := &commits[i]
		if n := javaLength(k.Metadata); n > c.o.MaxMetadataLength {
			errs[i] = fmt.Errorf("metadata of %d characters, want at most %d: %w", n, c.o.MaxMetadataLength, ErrMetadataTooLarge)
			continue
		}
		o := &Offset{Offset: k.Offset, LeaderEpoch: k.LeaderEpoch, Metadata: k.Metadata, CommitMs: nowMs, ExpireMs: -1, TopicID: k.TopicID}
		if retention >= 0 {
			o.ExpireMs = nowMs + retention.Milliseconds()
		}
		changes = append(changes, change{group: groupID, key: offsetKey{k.Topic, k.Partition}, offset: o})
	}
	if len(changes) == 0 {
		return errs, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.o.CommitTimeout)
	defer cancel()
	return errs, w.commit(ctx, changes)
}

// FetchedOffset is the answer for one partition.
type FetchedOffset struct {
	Topic     string
	Partition int32
	Offset    Offset
	Found     bool // false: nothing is committed
	Unstable  bool // an open transaction would change it
}

// OffsetQuery asks for one partition's offset; a zero TopicID accepts any.
type OffsetQuery struct {
	Topic     string
	TopicID   storage.TopicID
	Partition int32
}

// FetchOffsets returns committed offsets in the order asked; all of the group's, by
// topic and partition, when queries is nil. A group that is unknown has committed
// nothing. Errors: ErrLoading, ErrNotCoordinator. It does not wait for the disk.
func (c *Coordinator) FetchOffsets(groupID string, queries []OffsetQuery) ([]FetchedOffset, error) {
	w := c.ownerOf(groupID)
	if w == nil {
		out := make([]FetchedOffset, len(queries))
		for i, q := range queries {
			out[i] = FetchedOffset{Topic: q.Topic, Partition: q.Partition}
		}
		return out, nil
	}
	return w.fetch(groupID, queries)
}

// newBuilder begins a batch of records that the coordinator writes.
func newBuilder() *record.Builder {
	return record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
}
