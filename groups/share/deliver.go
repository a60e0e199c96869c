package share

import (
	"context"
	"fmt"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// Acknowledgement is what a member says of records of one partition.
type Acknowledgement struct {
	TopicID   storage.TopicID
	Partition int32
	Acks      []Ack
}

// Acknowledge takes what a member of a group says and writes it. wait waits until it is
// durable or ctx ends; its errors stand where the acknowledgements do: ErrUnknownPartition,
// ErrRecordState, ErrInvalidRequest, ErrNotInitialized, ErrNotAvailable. Kafka:
// SharePartitionManager.acknowledge.
func (st *State) Acknowledge(group, member string, list []Acknowledgement) (wait func(context.Context) []error) {
	answers := make([]chan error, len(list))
	for i, a := range list {
		answers[i] = make(chan error, 1)
		st.acknowledge(Key{group, a.TopicID, a.Partition}, member, a.Acks, func(err error) { answers[i] <- err })
	}
	return func(ctx context.Context) []error {
		errs := make([]error, len(list))
		for i := range errs {
			errs[i] = st.wait(ctx, answers[i])
		}
		return errs
	}
}

// acknowledge begins to acknowledge.
func (st *State) acknowledge(k Key, member string, acks []Ack, reply func(error)) {
	s := st.shardOf(k)
	if s == nil {
		reply(k.unknown())
		return
	}
	if err := s.lock(); err != nil {
		reply(err)
		return
	}
	defer s.unlock()
	e := s.entries[k]
	if e == nil || e.p == nil {
		reply(k.unknown())
		return
	}
	now := st.o.Now()
	c, err := e.p.Acknowledge(now, member, acks)
	st.schedule(e.p)
	if c == nil {
		reply(err)
		return
	}
	s.change(now, e, c, reply)
}

func (k Key) unknown() error {
	return fmt.Errorf("group %q has fetched nothing of partition %d of topic %v: %w", k.Group, k.Partition, k.TopicID, ErrUnknownPartition)
}

// Leave gives back what a member of a group holds and ends its session. It does not
// wait for the disk.
func (st *State) Leave(group, member string) {
	st.sessions.remove(sessionKey{group, member})
	now := st.o.Now()
	st.each(func(s *shard, e *entry) {
		if e.key.Group != group || e.p == nil {
			return
		}
		if c := e.p.Release(member); c != nil {
			s.change(now, e, c, func(error) {})
		}
	})
}

// abandon forgets who has which records of a group that nobody uses any more. Kafka:
// SharePartitionManager.ShareGroupListenerImpl.onGroupEmpty.
func (st *State) abandon(group string) {
	st.each(func(s *shard, e *entry) {
		if e.key.Group == group {
			e.drop()
			s.forget(e)
		}
	})
}

// each runs f for every share partition under its shard's lock.
func (st *State) each(f func(*shard, *entry)) {
	for _, s := range st.all() {
		if s.lock() != nil {
			continue
		}
		for _, e := range s.entries {
			f(s, e)
		}
		s.unlock()
	}
}

// take returns who has which records of a share partition, taken up from what is stored
// when nobody has fetched since the start. Errors: ErrNotInitialized, ErrNotAvailable,
// ErrNoOffset, and the log's.
func (st *State) take(k Key, log *storage.Log) (*Partition, error) {
	s := st.shardOf(k)
	if s == nil {
		return nil, fmt.Errorf("group %q: %w", k.Group, ErrNotInitialized)
	}
	start := int64(-1)
	for range 2 {
		if err := s.lock(); err != nil {
			return nil, err
		}
		p, found := s.take(k, start)
		s.unlock()
		switch {
		case !found:
			return nil, fmt.Errorf("group %q, partition %d of topic %v: %w", k.Group, k.Partition, k.TopicID, ErrNotInitialized)
		case p != nil:
			return p, nil
		}
		var err error
		if start, err = st.begin(k.Group, log); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("group %q: %w", k.Group, ErrNotAvailable) // not reached: start is known the second time
}

// take is State.take where start is known to the log or the caller; nil when it is not.
// found is false when nothing is stored. Caller holds mu.
func (s *shard) take(k Key, start int64) (p *Partition, found bool) {
	e := s.entries[k]
	if e == nil || e.stored == nil {
		return nil, false
	}
	if e.p == nil {
		if e.stored.start >= 0 {
			start = e.stored.start
		}
		if start < 0 {
			return nil, true
		}
		e.p = NewPartition(start, e.stored.batches, func() Limits { return s.st.o.Config.Group(k.Group).Limits })
	}
	return e.p, true
}

// begin is where a group begins to read a log. Kafka:
// SharePartition.startOffsetDuringInitialization.
func (st *State) begin(group string, log *storage.Log) (int64, error) {
	offsets, err := log.Offsets()
	if err != nil {
		return 0, err
	}
	switch config := st.o.Config.Group(group); config.Reset {
	case ResetEarliest:
		return offsets.LogStart, nil
	case ResetByDuration:
		at, ok, err := log.OffsetForTime(st.o.Now().Add(-config.ResetAge).UnixMilli(), storage.ReadUncommitted)
		if err == nil && !ok {
			err = fmt.Errorf("no record is younger than %v: %w", config.ResetAge, ErrNoOffset)
		}
		return at.Offset, err
	}
	return offsets.HighWatermark, nil
}

// watch has ch poked when something of a share partition may be acquired that could
// not be before. stop ends that.
func (st *State) watch(k Key, ch chan<- struct{}) (stop func()) {
	s := st.shardOf(k)
	if s == nil {
		return func() {}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.ensure(k)
	e.watches[ch] = true
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(e.watches, ch)
		s.forget(e)
	}
}

// attempt is a share partition that one fetch reads for, alone, until finish.
type attempt struct {
	s      *shard
	e      *entry
	p      *Partition
	offset int64 // where to read
}

// reserve begins an attempt when there may be something to acquire and nobody else
// reads for the partition; nil when not. With look it only says what would be. Kafka:
// DelayedShareFetch.acquirablePartitions.
func (st *State) reserve(k Key, look bool) *attempt {
	s := st.shardOf(k)
	if s == nil || s.lock() != nil {
		return nil
	}
	defer s.unlock()
	e := s.entries[k]
	if e == nil || e.p == nil || e.fetching || !e.p.CanAcquire() {
		return nil
	}
	e.fetching = !look
	return &attempt{s, e, e.p, e.p.NextFetch()}
}

// finish lets others read for the partition and tells them. f acquires before, unless
// the partition was dropped meanwhile; nil for nothing.
func (a *attempt) finish(f func(now time.Time, p *Partition)) {
	a.s.mu.Lock()
	defer a.s.mu.Unlock()
	if a.e.p != a.p {
		return
	}
	if f != nil {
		f(a.s.st.o.Now(), a.p)
		a.s.st.schedule(a.p)
	}
	a.e.fetching = false
	a.e.wake()
}
