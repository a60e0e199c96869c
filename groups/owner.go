package groups

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// owner adds to a shard its log, a lock, and the wait for the disk.
type owner struct {
	o   *Options
	log *storage.Log

	mu      sync.Mutex
	state   loadState // guarded by mu
	loadErr error     // why the load failed; guarded by mu
	shard   *shard    // guarded by mu; nil until loaded
	staged  []staged  // guarded by mu; what was appended and is not known to be durable, in log order
}

type loadState int8

const (
	notLoaded loadState = iota
	loading
	loaded
)

// staged is a batch that was appended.
type staged struct {
	appended storage.Appended
	changes  []change
}

// ready returns the shard with everything applied that is durable, or why there is
// none yet. Caller holds mu.
func (w *owner) ready() (*shard, error) {
	switch {
	case w.state == loaded:
		w.settle()
		return w.shard, nil
	case w.loadErr != nil:
		return nil, fmt.Errorf("partition %s-%d: %w: %w", OffsetsTopic, w.log.Index(), ErrNotCoordinator, w.loadErr)
	}
	return nil, ErrLoading
}

// settle lets every staged batch that has become durable take effect, and drops
// those that were cut off again. Caller holds mu.
func (w *owner) settle() {
	for len(w.staged) > 0 {
		err := w.log.WaitDurable(ended, w.staged[0].appended)
		if errors.Is(err, context.Canceled) {
			return
		}
		if err == nil {
			for _, c := range w.staged[0].changes {
				w.shard.apply(c)
			}
		}
		w.staged = w.staged[1:]
	}
	w.staged = nil
}

// ended is a context that is over: a wait under it only looks.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// commit appends changes as one batch, waits until it is durable, and lets it take
// effect.
func (w *owner) commit(ctx context.Context, changes []change) error {
	appended, err := w.append(changes)
	if err != nil {
		return err
	}
	return w.wait(ctx, appended)
}

// wait waits until what was appended is durable and lets it take effect.
func (w *owner) wait(ctx context.Context, appended storage.Appended) error {
	if err := w.log.WaitDurable(ctx, appended); err != nil {
		return w.failed(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.settle()
	return nil
}

// failed says what the log's error means for those who commit. Kafka: CoordinatorOperationExceptionHelper.
func (w *owner) failed(err error) error {
	kind := ErrNotCoordinator
	switch {
	case errors.Is(err, storage.ErrBatchTooLarge), errors.Is(err, storage.ErrSegmentTooSmall):
		kind = ErrCommitTooLarge
	case errors.Is(err, storage.ErrLogDeleted), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		kind = ErrNotAvailable
	}
	return fmt.Errorf("commit to %s-%d: %w: %w", OffsetsTopic, w.log.Index(), kind, err)
}

// append writes changes as one batch and stages it.
func (w *owner) append(changes []change) (storage.Appended, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := w.ready(); err != nil {
		return storage.Appended{}, err
	}
	batch := newBuilder()
	nowMs := w.o.Now().UnixMilli()
	var key, value []byte
	for i := range changes {
		c := &changes[i]
		key = appendOffsetKey(key[:0], c.group, c.key)
		r := record.Record{Timestamp: nowMs, Key: key}
		if c.offset != nil {
			value = appendOffsetValue(value[:0], c.offset)
			r.Value = value
		}
		batch.Append(r)
	}
	appended, err := w.log.Append(batch.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator})
	if err != nil {
		return appended, w.failed(err)
	}
	for i := range changes {
		changes[i].recordOffset = appended.BaseOffset + int64(i)
	}
	w.staged = append(w.staged, staged{appended: appended, changes: changes})
	return appended, nil
}

// fetch answers queries from what is durable. An offset counts for the topic it was
// committed for: one of a topic that was deleted and made anew is not found, also
// when it is asked for by name.
func (w *owner) fetch(groupID string, queries []OffsetQuery) ([]FetchedOffset, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.ready()
	if err != nil {
		return nil, err
	}
	all := queries == nil
	if all {
		for _, k := range s.keys(groupID) {
			queries = append(queries, OffsetQuery{Topic: k.topic, Partition: k.partition})
		}
	}
	out := make([]FetchedOffset, 0, len(queries))
	for _, q := range queries {
		if q.TopicID.IsZero() {
			if t, ok := w.o.Store.Topic(q.Topic); ok {
				q.TopicID = t.ID()
			}
		}
		f := FetchedOffset{Topic: q.Topic, Partition: q.Partition}
		f.Offset, f.Unstable, f.Found = s.lookup(groupID, offsetKey{q.Topic, q.Partition}, q.TopicID)
		if f.Found || !all {
			out = append(out, f)
		}
	}
	return out, nil
}

// removeTopic appends tombstones for what was committed for a deleted topic, and
// returns what to wait for; nothing is to be waited for when ok is false.
func (w *owner) removeTopic(t *storage.Topic) (appended storage.Appended, ok bool, err error) {
	w.mu.Lock()
	s, err := w.ready()
	if err != nil {
		w.mu.Unlock()
		return appended, false, err
	}
	changes := s.ofTopic(t.Name(), t.ID())
	w.mu.Unlock()
	if len(changes) == 0 {
		return appended, false, nil
	}
	appended, err = w.append(changes)
	return appended, err == nil, err
}
