package groups

import (
	"context"
	"fmt"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
)

// ShareState is where the states of share partitions are kept: what members have got and
// acknowledged. Its functions may be called from any goroutine; those with a context wait
// until what they did is durable. Set none of them, and there are no share groups. Kafka:
// Persister.
type ShareState struct {
	// Initialize makes the state of a partition, at UninitializedStart so that its first
	// reader decides where it begins. SetStart moves one, which it makes when it is missing.
	Initialize func(ctx context.Context, p SharePartition, start int64) error
	SetStart   func(ctx context.Context, p SharePartition, start int64) error
	// Delete removes a state; one that is missing is no error.
	Delete func(ctx context.Context, p SharePartition) error
	// Summary tells where a state stands: the first offset that is not done with, and how
	// many records beyond it are, -1 when that is not known.
	Summary func(p SharePartition) (start int64, done int32, ok bool)
}

// SharePartition is a partition as one share group sees it.
type SharePartition struct {
	Group     string
	TopicID   storage.TopicID
	Partition int32
}

// UninitializedStart is the start offset of a state that no member has read by yet.
const UninitializedStart = -1

// ShareStart is where the state of a partition is to begin.
type ShareStart struct {
	TopicID   storage.TopicID
	Partition int32
	Offset    int64
}

// statesAtATime bounds the states of one call that are written at a time, so that they
// share the waits for the disk.
const statesAtATime = 64

// eachState runs f for n states and returns their errors by index.
func eachState(n int, f func(i int) error) []error {
	errs := make([]error, n)
	runtime.Parallel(n, statesAtATime, func(i int) { errs[i] = f(i) })
	return errs
}

// initializeStates makes states that a share group has asked for, and tells the group,
// without anybody waiting for it. It is called under the lock of the group's shard.
// Kafka: GroupCoordinatorService.persisterInitialize.
func (c *Coordinator) initializeStates(group string, asked sharedTopics, starts []ShareStart) {
	c.topic.Waits().Go(func() {
		ctx, cancel := context.WithTimeout(c.topic.Life(), c.o.CommitTimeout)
		defer cancel()
		var failed error
		for _, err := range eachState(len(starts), func(i int) error {
			s := starts[i]
			return c.o.ShareState.Initialize(ctx, SharePartition{group, s.TopicID, s.Partition}, s.Offset)
		}) {
			if err != nil {
				failed = err
			}
		}
		if err := c.initialized(c.topic.Life(), group, asked, failed == nil); failed == nil {
			failed = err
		}
		if failed != nil && c.topic.Life().Err() == nil {
			c.o.Logger.Warn("states of share partitions were not made", "group", group, "error", failed)
		}
	})
}

// initialized tells a share group that states are there, or that they could not be made.
func (c *Coordinator) initialized(ctx context.Context, group string, made sharedTopics, ok bool) error {
	_, err := call(ctx, c, group, func(now time.Time, _ *shard, e *entry, reply func(struct{}, error)) step {
		g, err := findShare(e, group)
		if err != nil {
			reply(struct{}{}, fmt.Errorf("deleted meanwhile: %w", err))
			return step{}
		}
		return g.initialized(now, made, ok, func(err error) { reply(struct{}{}, err) })
	})
	return err
}
