package share

import (
	"fmt"
	"sync"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// shard is the share partitions of one partition of __share_group_state.
type shard struct {
	st  *State
	log *storage.Log

	loading  sync.Mutex // held while the log is read; before mu
	failed   error      // guarded by loading; why the log could not be read
	failedAt time.Time  // guarded by loading

	mu       sync.Mutex
	loaded   bool                       // guarded by mu; entries say what the log says
	ended    bool                       // guarded by mu; no call is taken any more
	entries  map[Key]*entry             // guarded by mu
	inFlight *runtime.InFlight[written] // guarded by mu
}

// entry is one share partition. All of it is guarded by the shard's mu.
type entry struct {
	key Key
	// stored is what the log says, what is on its way to the disk included; durable
	// without that. nil: nothing.
	stored, durable *stored
	// p is who has which records; nil until somebody fetches.
	p *Partition
	// fetching is set while somebody reads for the partition: one at a time.
	fetching bool
	watches  map[chan<- struct{}]bool // who waits for something to acquire
}

// written is a record that was appended: after is what is stored once it is durable.
type written struct {
	e     *entry
	after *stored
	done  func(error)
}

// newShard returns the shard of a partition of __share_group_state, which is read when it
// is first used.
func (st *State) newShard(log *storage.Log, _ bool) *shard {
	s := &shard{st: st, log: log, entries: make(map[Key]*entry)}
	s.inFlight = runtime.NewInFlight(log, &s.mu, st.topic.Waits(), s.settled)
	return s
}

// stop has the shard take no more calls.
func (s *shard) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// lock takes mu, once the log is read. After an error it is not held.
func (s *shard) lock() error {
	s.mu.Lock()
	if s.loaded && !s.ended {
		return nil
	}
	s.mu.Unlock()
	s.loading.Lock()
	defer s.loading.Unlock()
	s.mu.Lock()
	switch {
	case s.ended:
		s.mu.Unlock()
		return fmt.Errorf("the server stops: %w", ErrNotAvailable)
	case s.loaded:
		return nil
	case s.inFlight.Len() > 0:
		s.mu.Unlock()
		return fmt.Errorf("%s-%d was not written to: %w", StateTopic, s.log.Index(), ErrNotAvailable)
	}
	s.mu.Unlock()
	found, err := s.load() // nobody else passes while loading is held
	if err != nil {
		return fmt.Errorf("read %s-%d: %w: %w", StateTopic, s.log.Index(), ErrNotAvailable, err)
	}
	s.mu.Lock()
	for _, e := range s.entries {
		e.stored, e.durable = nil, nil
	}
	for k, is := range found {
		e := s.ensure(k)
		e.stored, e.durable = is, is
	}
	s.loaded = true
	return nil
}

// unlock lets what has become durable take effect, and gives mu back.
func (s *shard) unlock() {
	s.inFlight.Settle()
	s.mu.Unlock()
}

// ensure returns the entry of a share partition. Caller holds mu.
func (s *shard) ensure(k Key) *entry {
	e := s.entries[k]
	if e == nil {
		e = &entry{key: k, watches: make(map[chan<- struct{}]bool)}
		s.entries[k] = e
	}
	return e
}

// drop forgets who has which records: the next fetch takes up what is stored.
func (e *entry) drop() {
	e.p, e.fetching = nil, false
	e.wake()
}

// wake tells those who wait for something to acquire.
func (e *entry) wake() {
	for ch := range e.watches {
		select {
		case ch <- struct{}{}:
		default:
		}
	}
}

// snapshot writes all that is known of a share partition. Caller holds mu.
func (s *shard) snapshot(now time.Time, e *entry, after *stored, done func(error)) {
	s.append(now, e, logRecord{appendKey(nil, typeSnapshot, e.key), appendSnapshot(nil, after)}, after, done)
}

// change writes a change of a Partition, which takes effect when it is durable; done
// is told then. Caller holds mu.
func (s *shard) change(now time.Time, e *entry, c *Change, done func(error)) {
	p := e.p
	finish := func(err error) {
		p.Finish(c, err == nil)
		if e.p == p {
			e.wake()
			s.st.schedule(p)
		}
		done(err)
	}
	if e.stored == nil {
		finish(fmt.Errorf("group %q, partition %d of topic %v: %w", e.key.Group, e.key.Partition, e.key.TopicID, ErrNotInitialized))
		return
	}
	u, after := e.stored.change(c, max(0, s.st.o.Config.UpdatesPerSnapshot), now.UnixMilli())
	if u == nil {
		s.snapshot(now, e, after, finish)
		return
	}
	s.append(now, e, logRecord{appendKey(nil, typeUpdate, e.key), appendUpdate(nil, u)}, after, finish)
}

// append writes a record; after is what is stored then. Caller holds mu.
func (s *shard) append(now time.Time, e *entry, r logRecord, after *stored, done func(error)) {
	b := runtime.NewBatch()
	b.Append(record.Record{Timestamp: now.UnixMilli(), Key: r.key, Value: r.value})
	appended, err := s.log.Append(b.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator})
	if err != nil {
		done(s.failure(err))
		return
	}
	if after != nil && after.updates == 0 {
		after.snapshot = appended.BaseOffset
	}
	e.stored = after
	s.inFlight.Add(appended, written{e, after, done})
}

func (s *shard) failure(err error) error {
	return fmt.Errorf("write to %s-%d: %w: %w", StateTopic, s.log.Index(), ErrNotAvailable, err)
}

// settled tells those whose record has become durable, or was cut off again. Caller
// holds mu.
func (s *shard) settled(_ storage.Appended, f written, err error) {
	if err != nil {
		s.loaded = false // entries say what the log does not: it is read again
		err = s.failure(err)
	} else {
		f.e.durable = f.after
	}
	f.done(err)
	s.forget(f.e)
}

// forget removes an entry that holds nothing. Caller holds mu.
func (s *shard) forget(e *entry) {
	if e.stored == nil && e.durable == nil && e.p == nil && len(e.watches) == 0 && s.entries[e.key] == e {
		delete(s.entries, e.key)
	}
}
