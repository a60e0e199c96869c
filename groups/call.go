package groups

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/kaen-log/gateway/storage"
)

// call runs f for a group under its shard's lock as soon as the group is not busy,
// and waits for the answer or the end of ctx; then the error is ErrNotAvailable, and
// what waits or is parked stays so. f gets the group's entry, nil when there is no
// such group: s.ensure makes it. reply must be called exactly once, by f or by what
// it started; it does not block.
//
// The other errors are ErrInvalidGroupID for an id that no record has room for,
// ErrLoading, ErrNotAvailable when __consumer_offsets cannot be
// made or the coordinator stops, and ErrNotCoordinator when the partition cannot be
// read or is deleted.
func call[R any](ctx context.Context, c *Coordinator, group string, f func(now time.Time, s *shard, e *entry, reply func(R, error)) step) (R, error) {
	return enter(ctx, c, group, false, f)
}

// callAlone is call for what removes offsets: it also waits for commits that are on
// their way to the disk, which other calls pass by.
func callAlone[R any](ctx context.Context, c *Coordinator, group string, f func(now time.Time, s *shard, e *entry, reply func(R, error)) step) (R, error) {
	return enter(ctx, c, group, true, f)
}

func enter[R any](ctx context.Context, c *Coordinator, group string, exclusive bool, f func(now time.Time, s *shard, e *entry, reply func(R, error)) step) (R, error) {
	type answer struct {
		r   R
		err error
	}
	var none R
	if err := tooLong(group); err != nil {
		return none, fmt.Errorf("group id of %w: %w", err, ErrInvalidGroupID)
	}
	if _, err := c.EnsureTopic(); err != nil && !errors.Is(err, storage.ErrTopicExists) {
		return none, fmt.Errorf("make %s: %w: %v", OffsetsTopic, ErrNotAvailable, err)
	}
	w := c.ownerOf(group)
	if w == nil {
		return none, fmt.Errorf("%s is being deleted: %w", OffsetsTopic, ErrNotAvailable)
	}
	answers := make(chan answer, 1)
	err := w.enter(group, waiting{exclusive: exclusive, run: func(now time.Time, s *shard, e *entry) step {
		return f(now, s, e, func(r R, err error) { answers <- answer{r, err} })
	}})
	if err != nil {
		return none, err
	}
	select {
	case a := <-answers:
		return a.r, a.err
	default:
	}
	select {
	case a := <-answers:
		return a.r, a.err
	case <-ctx.Done():
		return none, fmt.Errorf("group %q: %w: %w", group, ErrNotAvailable, ctx.Err())
	case <-w.gone:
		return none, fmt.Errorf("group %q: %s was deleted: %w", group, OffsetsTopic, ErrNotCoordinator)
	case <-c.life.Done():
		return none, fmt.Errorf("group %q: the coordinator stops: %w", group, ErrNotAvailable)
	}
}

// maxText is how many bytes the texts may have that go into keys and into records of
// classic groups: the lengths there have 16 bits. A flexible request has room for more.
const maxText = math.MaxInt16

// tooLong says which of the texts no record has room for. Differs from Kafka: there
// such a request ends its connection.
func tooLong(texts ...string) error {
	for _, s := range texts {
		if len(s) > maxText {
			return fmt.Errorf("%d bytes, want at most %d", len(s), maxText)
		}
	}
	return nil
}

// look runs f under the lock at once, for reads: what it sees is durable. e is nil
// when there is no such group. f must change nothing.
func look[R any](c *Coordinator, group string, f func(now time.Time, s *shard, e *entry) (R, error)) (R, error) {
	w := c.ownerOf(group)
	if w == nil {
		return f(c.o.Now(), newShard(c.env), nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s, err := w.ready()
	if err != nil {
		var none R
		return none, err
	}
	return f(c.o.Now(), s, s.entries[group].known())
}

// Available says whether a group's coordinator answers: nil, ErrLoading or
// ErrNotCoordinator.
func (c *Coordinator) Available(group string) error {
	_, err := look(c, group, func(time.Time, *shard, *entry) (struct{}, error) { return struct{}{}, nil })
	return err
}
