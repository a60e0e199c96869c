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
	var none R
	w, err := c.makeOwner(group)
	if err != nil {
		return none, err
	}
	answers := make(chan answer[R], 1)
	err = w.enter(group, waiting{exclusive: exclusive, run: func(now time.Time, s *shard, e *entry) step {
		return f(now, s, e, func(r R, err error) { answers <- answer[R]{r, err} })
	}})
	if err != nil {
		return none, err
	}
	a, err := await(ctx, w, answers)
	if err != nil {
		return none, fmt.Errorf("group %q: %w", group, err)
	}
	return a.r, a.err
}

// answer is what a call comes to.
type answer[R any] struct {
	r   R
	err error
}

// await waits for the answer of a shard. The error says that there will be none.
func await[R any](ctx context.Context, w *owner, answers <-chan answer[R]) (answer[R], error) {
	select {
	case a := <-answers:
		return a, nil
	default:
	}
	select {
	case a := <-answers:
		return a, nil
	case <-ctx.Done():
		return answer[R]{}, fmt.Errorf("%w: %w", ErrNotAvailable, ctx.Err())
	case <-w.gone:
		return answer[R]{}, fmt.Errorf("%s was deleted: %w", OffsetsTopic, ErrNotCoordinator)
	case <-w.c.topic.Life().Done():
		return answer[R]{}, fmt.Errorf("the coordinator stops: %w", ErrNotAvailable)
	}
}

// makeOwner returns the owner of a group's shard; __consumer_offsets is made when it does
// not exist. The error is ErrInvalidGroupID or ErrNotAvailable.
func (c *Coordinator) makeOwner(group string) (*owner, error) {
	if err := tooLong(group); err != nil {
		return nil, fmt.Errorf("group id of %w: %w", err, ErrInvalidGroupID)
	}
	if _, err := c.EnsureTopic(); err != nil && !errors.Is(err, storage.ErrTopicExists) {
		return nil, fmt.Errorf("make %s: %w: %v", OffsetsTopic, ErrNotAvailable, err)
	}
	w := c.ownerOf(group)
	if w == nil {
		return nil, fmt.Errorf("%s is being deleted: %w", OffsetsTopic, ErrNotAvailable)
	}
	return w, nil
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
