package groups

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
)

// DeleteGroup removes a group that has no members, with its offsets, and waits until
// that is durable. Errors: ErrGroupIDNotFound, ErrNonEmptyGroup, and those of call.
//
// Kafka: GroupCoordinatorShard.deleteGroups. Differs from Kafka: a group with more
// offsets than one batch can remove is removed all the same.
func (c *Coordinator) DeleteGroup(ctx context.Context, group string) error {
	if err := c.deleteAllStates(ctx, group); err != nil {
		return err
	}
	_, err := callAlone(ctx, c, group, func(_ time.Time, s *shard, e *entry, reply func(struct{}, error)) step {
		if e == nil {
			reply(struct{}{}, fmt.Errorf("group %q: %w", group, ErrGroupIDNotFound))
			return step{}
		}
		if e.machine != nil {
			if err := e.machine.checkDelete(); err != nil {
				reply(struct{}{}, err)
				return step{}
			}
		}
		keys := e.keys()
		for k := range e.unstable {
			if _, ok := e.offsets[k]; !ok {
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, compareKeys)
		return s.removal(e, keys, true, func(err error) { reply(struct{}{}, err) })
	})
	return err
}

// deleting bounds the groups of one call that are deleted at a time.
const deleting = 64

// DeleteGroups is DeleteGroup for several; the error of each is at its index. Groups
// share the waits for the disk.
func (c *Coordinator) DeleteGroups(ctx context.Context, groups []string) []error {
	errs := make([]error, len(groups))
	runtime.Parallel(len(groups), deleting, func(i int) { errs[i] = c.DeleteGroup(ctx, groups[i]) })
	return errs
}

// OffsetDelete names an offset to be removed.
type OffsetDelete struct {
	Topic     string
	Partition int32
}

// DeleteOffsets removes committed offsets and waits until that is durable. The error
// of each is at its index in the result: ErrSubscribed, or nil, also when nothing was
// committed. An error that concerns them all is err: ErrGroupIDNotFound,
// ErrNonEmptyGroup, and those of call.
//
// Kafka: OffsetMetadataManager.deleteOffsets.
func (c *Coordinator) DeleteOffsets(ctx context.Context, group string, offsets []OffsetDelete) ([]error, error) {
	return callAlone(ctx, c, group, func(_ time.Time, s *shard, e *entry, reply func([]error, error)) step {
		if e == nil {
			reply(nil, fmt.Errorf("group %q: %w", group, ErrGroupIDNotFound))
			return step{}
		}
		if e.machine != nil {
			if err := e.machine.checkOffsetDelete(); err != nil {
				reply(nil, err)
				return step{}
			}
		}
		errs := make([]error, len(offsets))
		var keys []offsetKey
		for i, o := range offsets {
			k := offsetKey{o.Topic, o.Partition}
			_, stored := e.offsets[k]
			switch {
			case e.machine != nil && e.machine.subscribed(o.Topic):
				errs[i] = fmt.Errorf("group %q, topic %q: %w", group, o.Topic, ErrSubscribed)
			case stored || len(e.unstable[k]) > 0:
				keys = append(keys, k)
			}
		}
		slices.SortFunc(keys, compareKeys)
		keys = slices.Compact(keys)
		if len(keys) == 0 {
			reply(errs, nil)
			return step{}
		}
		return s.removal(e, keys, false, func(err error) { reply(errs, err) })
	})
}
