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
	topic    *runtime.Topic[*owner]
}

// New returns a Coordinator. It starts nothing: Run does.
func New(o Options) *Coordinator {
	if o.Store == nil || o.Now == nil || o.EndOffsets == nil {
		panic("txn: Options.Store, Options.Now and Options.EndOffsets must be set")
	}
	o.setDefaults()
	c := &Coordinator{o: o, alarm: runtime.NewAlarm()}
	c.timeouts = c.alarm.Every(o.Config.TimeoutInterval, o.Now())
	c.expiry = c.alarm.Every(o.Config.ExpirationInterval, o.Now())
	// An id must not change its partition under its transaction. Kafka:
	// TransactionStateManager.validateTransactionTopicPartitionCountIsStable.
	c.topic = runtime.NewTopic(runtime.TopicOptions[*owner]{
		Store: o.Store, Spec: c.topicSpec(), Owner: c.newOwner, Stop: (*owner).stop, Deleted: func(w *owner) { close(w.gone) }, Fixed: true,
	})
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
	loads.Go(func() { c.topic.Load(ctx, (*owner).load) })
	c.alarm.Run(ctx, c.o.Now, c.Tick)
	loads.Wait()
	c.topic.Stop()
	return nil
}

// EnsureTopic returns __transaction_state, made with Kafka's configs when it does not
// exist. It is for who looks for a coordinator: no call makes the topic.
func (c *Coordinator) EnsureTopic() (*storage.Topic, error) { return c.topic.Ensure() }

// TopicSpec is what __transaction_state is made with.
func (c *Coordinator) TopicSpec() storage.TopicSpec { return c.topic.Spec() }

// topicSpec is Kafka's. Kafka: TransactionCoordinator.transactionStateTopicConfigs.
func (c *Coordinator) topicSpec() storage.TopicSpec {
	return storage.TopicSpec{
		Name:       StateTopic,
		Partitions: c.o.Config.Partitions,
		Configs: map[string]string{
			"cleanup.policy":                 "compact",
			"compression.type":               "uncompressed",
			"min.insync.replicas":            strconv.Itoa(int(c.o.Config.MinInSyncReplicas)),
			"segment.bytes":                  strconv.Itoa(int(c.o.Config.SegmentBytes)),
			"unclean.leader.election.enable": "false",
		},
	}
}

// newOwner returns the owner of a partition of __transaction_state.
func (c *Coordinator) newOwner(log *storage.Log, fresh bool) *owner {
	w := &owner{c: c, log: log, gone: make(chan struct{}), entries: map[string]*entry{}, retries: map[*entry]bool{}}
	w.inFlight = runtime.NewInFlight(log, &w.mu, c.topic.Waits(), w.settled)
	if fresh {
		w.is = loaded
	}
	w.counted.Store(&ownerStats{loaded: fresh})
	return w
}

// all returns the owners of the present __transaction_state, none when it does not exist.
func (c *Coordinator) all() []*owner { return c.topic.Owners() }

// ownerOf returns the owner of an id's partition, nil while no __transaction_state exists.
func (c *Coordinator) ownerOf(id string) *owner { return c.topic.Of(id) }

// topicDeleted forgets all transactions when __transaction_state is deleted. Any other
// topic needs no marker any more: what waits to be tried again is tried now.
func (c *Coordinator) topicDeleted(t *storage.Topic) {
	if c.topic.Drop(t) {
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
