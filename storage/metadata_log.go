package storage

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/kaen-log/gateway/storage/record"
)

const (
	// metadataSegmentBytes keeps the segments of the metadata log small: the open one is not compacted.
	metadataSegmentBytes = 1 << 20
	// metadataBatchBytes is about the largest batch written to it.
	metadataBatchBytes = 256 << 10
	// metadataRecordFrame is what a record of it has around its key and value at most.
	metadataRecordFrame = 16
)

// metadataTopicID is the id of the store's own log, in every data directory.
var metadataTopicID = TopicID{14: 'g', 15: 'w'}

// metadataLog is the log of the store's own records and what they add up to. Changes come in one by one and are
// committed in groups: whoever finds no commit under way leads one for all that are waiting. The leader makes the
// records of each change against the state that the changes before it lead to, appends all as one batch, waits until
// that is durable, and publishes the changes in their order. When the batch fails all of them are undone, so the state
// is never ahead of the log by more than the group in flight.
type metadataLog struct {
	log    *Log
	now    func() int64 // milliseconds
	config atomic.Pointer[TopicConfig]

	mu      sync.Mutex
	idle    sync.Cond // of mu; signalled when a commit has ended
	queue   []*metadataChange
	leading bool
	closed  bool

	state *metadataState // only the leader's
}

// metadataChange is one change of the metadata log.
type metadataChange struct {
	// build returns the records against the state; without any the change is done. It may not keep the state.
	build func(*metadataState) ([]metadataRecord, error)
	// publish is called when the records are durable, in the order of the log, before commit returns; may be nil.
	publish func()
	// undone is called when build was called without error and the records did not become durable; may be nil.
	undone func()

	err  error
	done bool // guarded by metadataLog.mu
}

// metadataLogConfig is the config of the metadata log: Kafka's of a compacted topic but for the size of its segments, which
// are closed by nothing else. Of a former format it is not compacted.
func metadataLogConfig(former bool) *TopicConfig {
	policy := "compact"
	if former {
		policy = ""
	}
	c := newTopicConfig(map[string]string{
		"cleanup.policy":       policy,
		"file.delete.delay.ms": "0",
		"max.message.bytes":    "2147483647",
		"segment.ms":           "9223372036854775807",
	}, nil)
	c.SegmentBytes = metadataSegmentBytes
	return c
}

// commit makes a change. It returns when that is durable and published, or failed.
func (m *metadataLog) commit(c *metadataChange) error {
	m.enqueue(c)
	return m.wait(c)
}

// enqueue hands a change to the next group.
func (m *metadataLog) enqueue(c *metadataChange) {
	m.mu.Lock()
	defer m.mu.Unlock()
	c.err, c.done = nil, false
	m.queue = append(m.queue, c)
}

// wait returns when a change is done, after leading a commit if need be.
func (m *metadataLog) wait(c *metadataChange) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for !c.done {
		if m.leading {
			m.idle.Wait()
			continue
		}
		m.leading = true
		group := m.queue
		m.queue = nil
		closed := m.closed
		m.mu.Unlock()
		if closed {
			for _, c := range group {
				c.err = ErrClosed
			}
		} else {
			group = m.commitGroup(group)
		}
		m.mu.Lock()
		for _, c := range group {
			c.done = true
		}
		m.leading = false
		m.idle.Broadcast()
	}
	return c.err
}

// close lets the commit under way end and refuses all later ones.
func (m *metadataLog) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	for m.leading {
		m.idle.Wait()
	}
}

// commitGroup commits the changes of a group and sets their errors. It returns those it has dealt with; what does not
// fit into one batch is put back.
func (m *metadataLog) commitGroup(group []*metadataChange) []*metadataChange {
	builder := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	var building []*metadataChange
	var undo []func()
	now := m.now()
	for i, c := range group {
		if builder.UncompressedSize() >= metadataBatchBytes {
			m.mu.Lock()
			m.queue = append(append([]*metadataChange(nil), group[i:]...), m.queue...)
			m.mu.Unlock()
			group = group[:i]
			break
		}
		records, err := c.build(m.state)
		if err != nil {
			c.err = err
			continue
		}
		building = append(building, c)
		for _, r := range records {
			undo = append(undo, m.state.undo(r.key))
			if err := m.state.apply(r.key, r.value); err != nil {
				panic(fmt.Sprintf("storage: metadata record %x=%x that was just made: %v", r.key, r.value, err))
			}
			builder.Append(record.Record{Timestamp: now, Key: r.key, Value: r.value})
		}
	}
	var err error
	if builder.Count() > 0 {
		_, err = m.append(builder.Bytes())
	}
	if err != nil {
		for i := len(undo) - 1; i >= 0; i-- {
			undo[i]()
		}
	}
	for _, c := range building {
		switch c.err = err; {
		case err == nil && c.publish != nil:
			c.publish()
		case err != nil && c.undone != nil:
			c.undone()
		}
	}
	return group
}

// append writes one batch and waits until it is durable.
func (m *metadataLog) append(batch record.Batch) (Appended, error) {
	a, err := m.log.Append(batch, AppendOptions{Origin: OriginCoordinator})
	if err == nil {
		err = m.log.WaitDurable(context.Background(), a)
	}
	return a, err
}

// renew writes the whole state to the end of a log of a former format, in segments of its own, and moves the log's start
// there. A crash on the way leaves the old start, and the next start does it all again. It is called before any change.
// Where it would need what is left to deletion it writes nothing.
func (m *metadataLog) renew() error {
	batches := stateBatches(m.state, m.now())
	size := int64(0)
	for _, batch := range batches {
		size += int64(len(batch))
	}
	if err := m.log.ctx.space.take(growth(0, size)); err != nil {
		return err
	}
	if err := m.log.Roll(); err != nil {
		return err
	}
	start := int64(-1)
	for _, batch := range batches {
		// Never two at a time: only the last batch of this log can be torn.
		a, err := m.append(batch)
		if err != nil {
			return err
		}
		if start < 0 {
			start = a.BaseOffset
		}
	}
	_, err := m.log.DeleteBefore(start)
	return err
}

// stateBatches returns the whole state as batches with base offset 0.
func stateBatches(st *metadataState, nowMs int64) []record.Batch {
	var batches []record.Batch
	builder := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	flush := func() {
		if builder.Count() > 0 {
			batches = append(batches, append(record.Batch(nil), builder.Bytes()...))
			builder.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		}
	}
	for _, r := range st.records() {
		builder.Append(record.Record{Timestamp: nowMs, Key: r.key, Value: r.value})
		if builder.UncompressedSize() >= metadataBatchBytes {
			flush()
		}
	}
	flush()
	return batches
}
