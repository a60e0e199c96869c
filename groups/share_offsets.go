package groups

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// ShareOffsets is where a share group stands in partitions of one topic.
type ShareOffsets struct {
	Topic      string
	TopicID    storage.TopicID // zero when there is no such topic
	Partitions []ShareOffset
}

// ShareOffset is where a share group stands in one partition.
type ShareOffset struct {
	Partition int32
	Start     int64 // UninitializedStart when there is no state, or nobody has read by it
	Lag       int64 // records that are not done with; -1 when that is not known
	Err       error // the partition cannot be read
}

// ShareTopic names partitions of a topic.
type ShareTopic struct {
	Topic      string
	Partitions []int32
}

// DescribeShareOffsets tells where a share group stands: in the partitions asked for, or,
// when asked is nil, in all that have a state. What does not exist has no state. The
// error, ErrLoading, ErrNotAvailable or ErrNotCoordinator, comes only when asked is nil.
//
// Kafka: GroupCoordinatorService.describeShareGroupOffsets and describeShareGroupAllOffsets.
func (c *Coordinator) DescribeShareOffsets(group string, asked []ShareTopic) ([]ShareOffsets, error) {
	if asked == nil {
		var err error
		if asked, err = c.shareTopics(group); err != nil {
			return nil, err
		}
	}
	out := make([]ShareOffsets, 0, len(asked))
	var unknown []ShareOffsets // Kafka tells of them last
	for _, a := range asked {
		t, ok := c.o.Store.Topic(a.Topic)
		if !ok {
			o := ShareOffsets{Topic: a.Topic}
			for _, p := range a.Partitions {
				o.Partitions = append(o.Partitions, ShareOffset{Partition: p, Start: UninitializedStart, Lag: -1})
			}
			unknown = append(unknown, o)
			continue
		}
		o := ShareOffsets{Topic: a.Topic, TopicID: t.ID()}
		for _, p := range a.Partitions {
			o.Partitions = append(o.Partitions, c.shareOffset(SharePartition{group, t.ID(), p}, t))
		}
		out = append(out, o)
	}
	return append(out, unknown...), nil
}

// shareTopics returns the partitions in which a share group has a state.
func (c *Coordinator) shareTopics(group string) ([]ShareTopic, error) {
	return look(c, group, func(_ time.Time, s *shard, e *entry) ([]ShareTopic, error) {
		var out []ShareTopic
		if g := e.share(); g != nil && g.states != nil {
			for _, id := range g.states.initialized.ids() {
				if t, ok := s.env.topics.byID(id); ok {
					out = append(out, ShareTopic{Topic: t.name, Partitions: g.states.initialized[id].partitions})
				}
			}
		}
		return out, nil
	})
}

// ShareLogs yields the logs whose offsets DescribeShareOffsets needs. It waits for none of
// them.
func (c *Coordinator) ShareLogs(group string, asked []ShareTopic) iter.Seq[*storage.Log] {
	return func(yield func(*storage.Log) bool) {
		if asked == nil {
			asked, _ = c.shareTopics(group) // an error is DescribeShareOffsets'
		}
		for _, a := range asked {
			t, ok := c.o.Store.Topic(a.Topic)
			if !ok {
				continue
			}
			for _, p := range a.Partitions {
				start, done, ok := c.o.ShareState.Summary(SharePartition{group, t.ID(), p})
				if !ok || start == UninitializedStart || done < 0 {
					continue
				}
				if log, ok := t.Partition(p); ok && !yield(log) {
					return
				}
			}
		}
	}
}

// shareOffset tells where a share group stands in one partition. Kafka:
// GroupCoordinatorService.computeShareGroupLagAndBuildResponse.
func (c *Coordinator) shareOffset(p SharePartition, t *storage.Topic) ShareOffset {
	out := ShareOffset{Partition: p.Partition, Start: UninitializedStart, Lag: -1}
	start, done, ok := c.o.ShareState.Summary(p)
	if !ok {
		return out
	}
	out.Start = start
	if start == UninitializedStart || done < 0 {
		return out
	}
	log, ok := t.Partition(p.Partition)
	if !ok {
		out.Err = storage.ErrUnknownTopic
		return out
	}
	offsets, err := log.Offsets()
	if err != nil {
		out.Err = err
		return out
	}
	out.Lag = offsets.HighWatermark - start - int64(done)
	return out
}

// ShareOffsetChange says where a share group is to go on in partitions of one topic.
type ShareOffsetChange struct {
	Topic   string
	Offsets map[int32]int64 // by partition
}

// ShareOffsetsChanged is what became of a ShareOffsetChange.
type ShareOffsetsChanged struct {
	Topic   string
	TopicID storage.TopicID // zero when there is no such topic
	Errs    map[int32]error // by partition: nil, storage.ErrUnknownTopic or the disk's
}

// AlterShareOffsets lets a share group, which is made when it is missing, go on
// elsewhere, and waits until that is durable. Errors: ErrInvalidGroupID,
// ErrGroupIDNotFound for a group of another type, ErrNonEmptyGroup, and those of call.
//
// Kafka: GroupMetadataManager.alterShareGroupOffsets. Differs from Kafka: a negative
// partition is one that does not exist.
func (c *Coordinator) AlterShareOffsets(ctx context.Context, group string, changes []ShareOffsetChange) ([]ShareOffsetsChanged, error) {
	if group == "" {
		return nil, ErrInvalidGroupID
	}
	out := make([]ShareOffsetsChanged, len(changes))
	known := sharedTopics{} // a partition as often as it is asked for
	var starts []ShareStart
	var of []int // by index of starts, the index in out
	for i, change := range changes {
		t, ok := c.o.Store.Topic(change.Topic)
		out[i] = ShareOffsetsChanged{Topic: change.Topic, Errs: make(map[int32]error, len(change.Offsets))}
		if ok {
			out[i].TopicID = t.ID()
		}
		for p, offset := range change.Offsets {
			if !ok || p < 0 || p >= t.Partitions() {
				out[i].Errs[p] = storage.ErrUnknownTopic
				continue
			}
			out[i].Errs[p] = nil
			topic := known[t.ID()]
			known[t.ID()] = sharedTopic{name: t.Name(), partitions: append(topic.partitions, p)}
			starts, of = append(starts, ShareStart{TopicID: t.ID(), Partition: p, Offset: offset}), append(of, i)
		}
	}
	asked := sharedTopics{}.with(known)
	_, err := call(ctx, c, group, func(now time.Time, s *shard, e *entry, reply func(struct{}, error)) step {
		g, err := findShare(e, group)
		if e == nil {
			g, err = newShareGroup(group, s.env), nil
		}
		if err == nil {
			err = g.checkDelete()
		}
		if err != nil {
			reply(struct{}{}, err)
			return step{}
		}
		ch := shareChange{g: g, now: now}
		if len(asked) > 0 {
			ch.add(typeShareStates, "", g.initializing(asked))
		}
		return s.making(g, ch.step(func(err error) { reply(struct{}{}, err) }))
	})
	if err != nil || len(starts) == 0 {
		return out, err
	}
	failed := false
	for i, err := range eachState(len(starts), func(i int) error {
		return c.o.ShareState.SetStart(ctx, SharePartition{group, starts[i].TopicID, starts[i].Partition}, starts[i].Offset)
	}) {
		out[of[i]].Errs[starts[i].Partition] = err
		failed = failed || err != nil
	}
	if failed {
		return out, nil // what is asked for is asked for again by the next member
	}
	return out, c.initialized(ctx, group, asked, true)
}

// ShareOffsetsDeleted is what became of the states of one topic.
type ShareOffsetsDeleted struct {
	Topic   string
	TopicID storage.TopicID // zero when there is nothing to delete
	Err     error           // nil, storage.ErrUnknownTopic or the disk's
}

// DeleteShareOffsets forgets where a share group stands in topics, and waits until that
// is durable. Errors: ErrInvalidGroupID, ErrGroupIDNotFound, ErrNonEmptyGroup, and those
// of call. Topics that were deleted come first.
//
// Kafka: GroupCoordinatorShard.initiateDeleteShareGroupOffsets and
// completeDeleteShareGroupOffsets.
func (c *Coordinator) DeleteShareOffsets(ctx context.Context, group string, topics []string) ([]ShareOffsetsDeleted, error) {
	if group == "" {
		return nil, ErrInvalidGroupID
	}
	var refused []ShareOffsetsDeleted
	gone, err := c.deleteStates(ctx, group, func(g *shareGroup, next *shareStates) sharedTopics {
		gone := sharedTopics{}
		if g.states == nil {
			return gone // Kafka answers for no topic then
		}
		for _, name := range topics {
			t, ok := g.env.topics.byName(name)
			states, has := next.initialized[t.id]
			_, deleting := next.deleting[t.id]
			switch {
			case !ok:
				refused = append(refused, ShareOffsetsDeleted{Topic: name, Err: storage.ErrUnknownTopic})
			case has:
				gone[t.id] = states
			case deleting: // an earlier attempt failed
				gone[t.id] = t.shared()
			default:
				refused = append(refused, ShareOffsetsDeleted{Topic: name, Err: fmt.Errorf("no offsets of the group to delete: %w", storage.ErrUnknownTopic)})
			}
		}
		next.initialized = next.initialized.without(gone)
		return gone
	})
	if err != nil {
		return nil, err
	}
	return append(gone, refused...), nil
}

// deleteAllStates removes every state of a share group that is to be deleted, if it is
// one. Kafka: GroupCoordinatorShard.sharePartitionDeleteRequests.
func (c *Coordinator) deleteAllStates(ctx context.Context, group string) error {
	has, err := look(c, group, func(_ time.Time, _ *shard, e *entry) (bool, error) {
		g := e.share()
		return g != nil && g.states != nil, nil
	})
	if err != nil || !has {
		return err
	}
	gone, err := c.deleteStates(ctx, group, func(g *shareGroup, next *shareStates) sharedTopics {
		gone := next.initialized.with(next.initializing)
		for id := range next.deleting {
			if t, ok := g.env.topics.byID(id); ok {
				gone = gone.with(sharedTopics{id: t.shared()})
			}
		}
		next.initialized, next.initializing, next.deleting = sharedTopics{}, sharedTopics{}, map[storage.TopicID]string{}
		return gone
	})
	for _, d := range gone {
		if d.Err != nil {
			return d.Err
		}
	}
	return err
}

// deleteStates deletes states of a share group without members. choose says which, and
// takes them out of next; they are noted as being deleted, deleted, and then forgotten
// where that went well.
func (c *Coordinator) deleteStates(ctx context.Context, group string, choose func(g *shareGroup, next *shareStates) sharedTopics) ([]ShareOffsetsDeleted, error) {
	chosen, err := call(ctx, c, group, func(now time.Time, _ *shard, e *entry, reply func(sharedTopics, error)) step {
		g, err := findShare(e, group)
		if err == nil {
			err = g.checkDelete()
		}
		if err != nil {
			reply(nil, err)
			return step{}
		}
		ch, next := shareChange{g: g, now: now}, g.has()
		gone := choose(g, next)
		for id, t := range gone {
			next.deleting[id] = t.name
		}
		if g.states != nil {
			ch.add(typeShareStates, "", next)
		}
		return ch.step(func(err error) { reply(gone, err) })
	})
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	ids := chosen.ids()
	out := make([]ShareOffsetsDeleted, len(ids))
	var partitions []SharePartition
	var of []int
	for i, id := range ids {
		out[i] = ShareOffsetsDeleted{Topic: chosen[id].name, TopicID: id}
		for _, p := range chosen[id].partitions {
			partitions, of = append(partitions, SharePartition{group, id, p}), append(of, i)
		}
	}
	for i, err := range eachState(len(partitions), func(i int) error { return c.o.ShareState.Delete(ctx, partitions[i]) }) {
		if err != nil {
			out[of[i]].Err = err
		}
	}
	_, err = call(ctx, c, group, func(now time.Time, _ *shard, e *entry, reply func(struct{}, error)) step {
		g, err := findShare(e, group)
		if err != nil {
			reply(struct{}{}, err)
			return step{}
		}
		ch, next := shareChange{g: g, now: now}, g.has()
		for i, id := range ids {
			if out[i].Err == nil {
				delete(next.deleting, id)
			}
		}
		ch.add(typeShareStates, "", next)
		return ch.step(func(err error) { reply(struct{}{}, err) })
	})
	return out, err
}

// shared is a topic with all its partitions.
func (t topicInfo) shared() sharedTopic {
	out := sharedTopic{name: t.name}
	for p := range t.partitions {
		out.partitions = append(out.partitions, p)
	}
	return out
}
