package groups

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// removalBytes is how much is written at once of what removes the offsets of a group:
// a group may have more of them than a batch has room for.
const removalBytes = 256 << 10

// removal removes offsets of a group, and then its membership when whole is set, of
// which the group must be empty. What does not fit into one batch is removed in
// several; the group is busy until the last is durable. done gets the error of the
// batch that failed.
func (s *shard) removal(e *entry, keys []offsetKey, whole bool, done func(err error)) step {
	var records []logRecord
	n, size := 0, 0
	for ; n < len(keys) && size < removalBytes; n++ {
		key := appendOffsetKey(nil, e.id, keys[n])
		records = append(records, logRecord{key: key})
		size += len(key)
	}
	last := n == len(keys)
	switch {
	case !last || !whole:
	case e.machine != nil:
		records = append(records, e.machine.tombstones()...)
	default: // so that a replay forgets it, which knows it by its offsets
		records = append(records, logRecord{key: classicKey(e.id)})
	}
	return step{records: records, then: func(_ time.Time, err error) step {
		if err != nil {
			done(err)
			return step{}
		}
		for i, k := range keys[:n] {
			s.apply(change{group: e.id, key: k, recordOffset: s.base + int64(i)})
		}
		if !last {
			return s.removal(e, keys[n:], whole, done)
		}
		if whole {
			e.machine, e.simple = nil, false
		}
		done(nil)
		return step{}
	}}
}

// topicDeleted removes what was committed for a topic and waits until that is
// durable. Where it cannot, as in a partition that is still loading, the offsets stay
// in the log and are not found by the new topic of the name, which has another id.
func (c *Coordinator) topicDeleted(t *storage.Topic) {
	if c.topic.Drop(t) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), c.o.CommitTimeout)
	defer cancel()
	var waits []func() error
	for _, w := range c.all() {
		removed, err := w.removeTopic(t)
		if err != nil && !errors.Is(err, ErrLoading) {
			c.notRemoved(t, w, err)
		}
		for _, answer := range removed {
			waits = append(waits, func() error {
				var err error
				select {
				case err = <-answer:
				case <-w.gone:
				case <-c.topic.Life().Done():
				case <-ctx.Done():
					err = fmt.Errorf("%w: %w", ErrNotAvailable, ctx.Err())
				}
				if err != nil {
					c.notRemoved(t, w, err)
				}
				return err
			})
		}
	}
	for _, wait := range waits {
		if wait() != nil {
			return // what stops one stops the others
		}
	}
}

func (c *Coordinator) notRemoved(t *storage.Topic, w *owner, err error) {
	c.o.Logger.Warn("offsets of a deleted topic were not removed", "topic", t.Name(), "partition", w.log.Index(), "error", err)
}

// removeTopic starts to remove what the shard's groups have committed for a deleted
// topic, and returns where each of them answers.
func (w *owner) removeTopic(t *storage.Topic) ([]<-chan error, error) {
	w.mu.Lock()
	s, err := w.ready()
	var groups []string
	if err == nil {
		groups = s.ofTopic(t.Name(), t.ID())
	}
	w.mu.Unlock()
	var out []<-chan error
	for _, group := range groups {
		answer := make(chan error, 1)
		err = w.enter(group, waiting{exclusive: true, run: func(now time.Time, s *shard, e *entry) step {
			if g := e.share(); g != nil {
				return g.topicDeleted(now, t.ID(), func(err error) { answer <- err })
			}
			keys := s.offsetsOf(e, t.Name(), t.ID())
			if len(keys) == 0 {
				answer <- nil
				return step{}
			}
			return s.removal(e, keys, false, func(err error) { answer <- err })
		}})
		if err != nil {
			return out, err
		}
		out = append(out, answer)
	}
	return out, err
}
