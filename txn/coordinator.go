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

// Coordinator owns the transactional ids. Its methods may be called from any goroutine.
type Coordinator struct {
	o     Options
	alarm *runtime.Alarm

	making sync.Mutex // held while __transaction_state is made
}

// New returns a Coordinator. It starts nothing: Run does.
func New(o Options) *Coordinator {
	if o.Store == nil || o.Now == nil || o.EndOffsets == nil {
		panic("txn: Options.Store, Options.Now and Options.EndOffsets must be set")
	}
	o.setDefaults()
	return &Coordinator{o: o, alarm: runtime.NewAlarm()}
}

// Run reads the partitions of __transaction_state that exist, writes the markers that are
// still to be written, aborts transactions whose time is over and forgets ids that nobody
// uses, until ctx ends. Then it refuses calls, answers those that wait with
// ErrNotAvailable, and returns when nothing is on its way to the disk. It does not wait
// for markers that cannot be written: the next start writes them.
func (c *Coordinator) Run(ctx context.Context) error {
	c.alarm.Run(ctx, c.o.Now, c.Tick)
	return nil
}

// Tick does all that is due at Options.Now: it need not be called, but lets those who move
// the clock see what comes of it. It does not wait for the disk.
func (c *Coordinator) Tick() {}

// EnsureTopic returns __transaction_state, made with Kafka's configs when it does not
// exist. Only who looks for a coordinator calls it: no other call makes the topic. Kafka:
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
		"min.insync.replicas":            "1",
		"segment.bytes":                  strconv.Itoa(int(c.o.Config.SegmentBytes)),
		"unclean.leader.election.enable": "false",
	}
}

// TopicPartitions is how many partitions __transaction_state is made with.
func (c *Coordinator) TopicPartitions() int32 { return c.o.Config.Partitions }
