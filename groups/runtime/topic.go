package runtime

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/kaen-log/gateway/storage"
)

// TopicOptions says what a coordinator's topic is. Store, Spec and Owner must be set. Owner,
// Stop and Deleted may be called under a lock: of the Topic they may call Waits and Life only.
type TopicOptions[O any] struct {
	Store *storage.Store
	// Spec is what the topic is made with.
	Spec storage.TopicSpec
	// Owner returns the owner of a partition. fresh: it was made since the start, and so
	// there is nothing to load.
	Owner func(log *storage.Log, fresh bool) O
	// Stop makes an owner take no more calls. Nil does nothing.
	Stop func(O)
	// Deleted tells an owner that its partition is no more. Nil does nothing.
	Deleted func(O)
	// Fixed leaves out the partitions that are added until the next start: to a topic that
	// NewTopic found, since then, and to another since its owners were first asked for.
	Fixed bool
}

// Topic is the topic that a coordinator keeps its state in, with an owner of each of its
// partitions: what the coordinator has besides the log. Its methods may be called from
// any goroutine.
type Topic[O any] struct {
	o TopicOptions[O]
	// life is over once the owners are stopped: nobody answers then.
	life  context.Context
	end   context.CancelFunc
	waits sync.WaitGroup // what Stop waits for

	making sync.Mutex // held while the topic is made

	mu     sync.Mutex
	id     storage.TopicID // guarded by mu; of the topic that owners belong to
	old    int32           // guarded by mu; how many partitions of it were there at the start
	owners []O             // guarded by mu; one a partition
	ended  bool            // guarded by mu; the owners are stopped
}

// NewTopic returns the topic, which need not exist yet. It starts nothing.
func NewTopic[O any](o TopicOptions[O]) *Topic[O] {
	x := &Topic[O]{o: o}
	x.life, x.end = context.WithCancel(context.Background())
	if t, ok := o.Store.Topic(o.Spec.Name); ok {
		x.id, x.old = t.ID(), t.Partitions()
	}
	return x
}

// Spec is what the topic is made with. The caller may change it.
func (x *Topic[O]) Spec() storage.TopicSpec {
	spec := x.o.Spec
	spec.Configs = maps.Clone(spec.Configs)
	return spec
}

// Life is over when the owners are stopped.
func (x *Topic[O]) Life() context.Context { return x.life }

// Waits are the goroutines that Stop waits for.
func (x *Topic[O]) Waits() *sync.WaitGroup { return &x.waits }

// Ensure returns the topic, made when it does not exist. The errors are those of
// storage.Store.CreateTopic.
func (x *Topic[O]) Ensure() (*storage.Topic, error) {
	if t, ok := x.o.Store.Topic(x.o.Spec.Name); ok {
		return t, nil
	}
	x.making.Lock()
	defer x.making.Unlock()
	if t, ok := x.o.Store.Topic(x.o.Spec.Name); ok {
		return t, nil
	}
	return x.o.Store.CreateTopic(x.Spec())
}

// Owners returns the owners of the topic that is there now, by partition, none when it
// does not exist. The list is not to be changed.
func (x *Topic[O]) Owners() []O {
	x.mu.Lock()
	defer x.mu.Unlock()
	t, ok := x.o.Store.Topic(x.o.Spec.Name) // under the lock: nobody goes back to an older topic
	if !ok {
		return nil
	}
	if x.id != t.ID() {
		x.drop()
		x.id = t.ID()
	}
	if have, want := int32(len(x.owners)), x.partitions(t); have < want {
		x.owners = append(slices.Clip(x.owners), x.more(t, have, want)...)
	}
	return x.owners
}

// partitions returns how many partitions of t are to have owners. Caller holds mu.
func (x *Topic[O]) partitions(t *storage.Topic) int32 {
	switch {
	case x.o.Fixed && x.old > 0:
		return x.old
	case x.o.Fixed && len(x.owners) > 0:
		return int32(len(x.owners))
	}
	return t.Partitions()
}

// more returns owners for the partitions [first, end) of t. Caller holds mu.
func (x *Topic[O]) more(t *storage.Topic, first, end int32) (out []O) {
	for i := first; i < end; i++ {
		log, _ := t.Partition(i)
		w := x.o.Owner(log, i >= x.old)
		if x.ended && x.o.Stop != nil {
			x.o.Stop(w)
		}
		out = append(out, w)
	}
	return out
}

// drop forgets the owners of a topic that was deleted. Caller holds mu.
func (x *Topic[O]) drop() {
	if x.o.Deleted != nil {
		for _, w := range x.owners {
			x.o.Deleted(w)
		}
	}
	x.id, x.old, x.owners = storage.TopicID{}, 0, nil
}

// Drop forgets the owners if t is the coordinator's topic, and reports whether it was
// one. It is for storage.Store.OnTopicDeleted.
func (x *Topic[O]) Drop(t *storage.Topic) bool {
	if t.Name() != x.o.Spec.Name {
		return false
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.id == t.ID() {
		x.drop()
	}
	return true
}

// Of returns the owner of what has a name, the zero O while the topic does not exist.
func (x *Topic[O]) Of(name string) (w O) {
	if all := x.Owners(); len(all) > 0 {
		w = all[PartitionFor(name, int32(len(all)))]
	}
	return w
}

// loading is how many partitions are loaded at a time. Kafka: group.coordinator.threads.
const loading = 4

// Load runs load for every owner, for a few at a time, but begins with none once ctx is
// over.
func (x *Topic[O]) Load(ctx context.Context, load func(O)) {
	owners := x.Owners()
	Parallel(len(owners), loading, func(i int) {
		if ctx.Err() == nil {
			load(owners[i])
		}
	})
}

// Stop has the owners take no more calls, ends Life, and blocks until nothing is left to
// wait for.
func (x *Topic[O]) Stop() {
	x.mu.Lock()
	x.ended = true
	owners := x.owners
	x.mu.Unlock()
	if x.o.Stop != nil {
		for _, w := range owners {
			x.o.Stop(w)
		}
	}
	x.end()
	x.waits.Wait()
}
