package txn

import (
	"context"
	"strconv"
	"sync"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

// StateTopic is the topic that transactions are kept in.
const StateTopic = "__transaction_state"

// offsetsTopic is the topic that offsets are committed to, which is another coordinator's.
const offsetsTopic = "__consumer_offsets"

// Coordinator owns the transactional ids. Its methods may be called from any goroutine.
type Coordinator struct {
	o        Options
	alarm    *runtime.Alarm
	timeouts *runtime.Period // when transactions are looked for whose time is over
	expiry   *runtime.Period // when ids are looked for that have expired
	// life is over when Run ends: nobody answers then, and no marker is waited for.
	life  context.Context
	end   context.CancelFunc
	works sync.WaitGroup // the goroutines that wait for the disk

	making sync.Mutex // held while __transaction_state is made

	mu     sync.Mutex
	owners []*owner        // guarded by mu; one a partition of __transaction_state; nil until it exists
	id     storage.TopicID // guarded by mu; of the topic that owners belong to
	ended  bool            // guarded by mu; Run has ended
}

// New returns a Coordinator. It starts nothing: Run does.
func New(o Options) *Coordinator {
	if o.Store == nil || o.Now == nil || o.EndOffsets == nil {
		panic("txn: Options.Store, Options.Now and Options.EndOffsets must be set")
	}
	o.setDefaults()
	c := &Coordinator{o: o, alarm: runtime.NewAlarm()}
	c.life, c.end = context.WithCancel(context.Background())
	c.timeouts = c.alarm.Every(o.Config.TimeoutInterval, o.Now())
	c.expiry = c.alarm.Every(o.Config.ExpirationInterval, o.Now())
	if t, ok := o.Store.Topic(StateTopic); ok {
		c.id, c.owners = t.ID(), c.newOwners(t, notLoaded)
	}
	o.Store.OnTopicDeleted(c.topicDeleted)
	return c
}

// Run reads the partitions of __transaction_state that exist, writes the markers that are
// still to be written, aborts transactions whose time is over and forgets ids that nobody
// uses, until ctx ends. Then it refuses calls, answers those that wait with
// ErrNotAvailable, and returns when nothing is on its way to the disk. It does not wait
// for markers that cannot be written: the next start writes them.
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
	c.works.Wait()
	return nil
}

// EnsureTopic returns __transaction_state, made with Kafka's configs when it does not
// exist. It is for who looks for a coordinator: no call makes the topic. Kafka:
// TransactionCoordinator.transactionStateTopicConfigs.
func (c *Coordinator) EnsureTopic() (*storage.Topic, error) {
	if t, ok := c.o.Store.Topic(StateTopic); ok {
		return t, nil
	}
	c.making.Lock()
	defer c.making.Unlock()
	if t, ok := c.o.Store.Topic(StateTopic); ok {
		return t, nil
	}
	return c.o.Store.CreateTopic(storage.TopicSpec{Name: StateTopic, Partitions: c.o.Config.Partitions, Configs: c.TopicConfigs()})
}

// TopicConfigs are the configs that __transaction_state is made with.
func (c *Coordinator) TopicConfigs() map[string]string {
	return map[string]string{
		"cleanup.policy":                 "compact",
		"compression.type":               "uncompressed",
		"min.insync.replicas":            strconv.Itoa(int(c.o.Config.MinInSyncReplicas)),
		"segment.bytes":                  strconv.Itoa(int(c.o.Config.SegmentBytes)),
		"unclean.leader.election.enable": "false",
	}
}

// TopicPartitions is how many partitions __transaction_state is made with.
func (c *Coordinator) TopicPartitions() int32 { return c.o.Config.Partitions }

// all returns the owners of the present __transaction_state, none when it does not exist. A
// topic that was made since the start is empty, and needs no loading. Partitions that are
// added to one are not used before the next start, since an id must not change its
// partition under its transaction. Kafka:
// TransactionStateManager.validateTransactionTopicPartitionCountIsStable.
func (c *Coordinator) all() []*owner {
	c.mu.Lock()
	defer c.mu.Unlock()
	t, ok := c.o.Store.Topic(StateTopic) // under the lock: nobody goes back to an older topic
	if !ok {
		return nil
	}
	if c.id != t.ID() {
		c.drop()
		c.id, c.owners = t.ID(), c.newOwners(t, loaded)
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

// newOwners returns owners for the partitions of t.
func (c *Coordinator) newOwners(t *storage.Topic, is loadState) []*owner {
	var out []*owner
	for i := range t.Partitions() {
		log, _ := t.Partition(i)
		w := &owner{c: c, log: log, gone: make(chan struct{}), is: is, stopped: c.ended, entries: map[string]*entry{}, retries: map[*entry]bool{}}
		w.inFlight = runtime.NewInFlight(log, &w.mu, &c.works, w.settled)
		w.counted.Store(&ownerStats{loaded: is == loaded})
		out = append(out, w)
	}
	return out
}

// ownerOf returns the owner of an id's partition, nil while no __transaction_state exists.
func (c *Coordinator) ownerOf(id string) *owner {
	all := c.all()
	if len(all) == 0 {
		return nil
	}
	return all[runtime.PartitionFor(id, int32(len(all)))]
}

// topicDeleted forgets all transactions when __transaction_state is deleted. Any other
// topic needs no marker any more: what waits to be tried again is tried now.
func (c *Coordinator) topicDeleted(t *storage.Topic) {
	if t.Name() == StateTopic {
		c.mu.Lock()
		if c.id == t.ID() {
			c.drop()
		}
		c.mu.Unlock()
		return
	}
	now := c.o.Now()
	for _, w := range c.all() {
		w.mu.Lock()
		for e := range w.retries {
			e.end.at = now
			c.alarm.Set(now)
		}
		w.mu.Unlock()
	}
}
