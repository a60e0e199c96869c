package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// resolve turns the flags into offsets for each partition.
func (c *consumption) resolve(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.flags.timeout)
	defer cancel()
	earliest, err := c.list(c.admin.ListStartOffsets(ctx, c.topic))
	if err != nil {
		return err
	}
	listEnd := c.admin.ListEndOffsets
	if c.flags.committed {
		listEnd = c.admin.ListCommittedOffsets
	}
	latest, err := c.list(listEnd(ctx, c.topic))
	if err != nil {
		return err
	}
	start, err := c.offsets(ctx, "--offset", c.flags.offset, earliest, latest)
	if err != nil {
		return err
	}
	c.start, c.stop = start, map[int32]int64{}
	if c.flags.until != "" {
		if c.stop, err = c.offsets(ctx, "--until", c.flags.until, earliest, latest); err != nil {
			return err
		}
	}
	c.end = map[int32]int64{}
	latest.Each(func(o kadm.ListedOffset) {
		first, _ := earliest.Lookup(o.Topic, o.Partition)
		// What is gone is passed over; what is yet to come is waited for.
		c.start[o.Partition] = max(c.start[o.Partition], first.Offset)
		c.end[o.Partition] = o.Offset
	})
	return c.choose()
}

// offsets resolves one offset expression for every partition.
func (c *consumption) offsets(ctx context.Context, flag, expr string, earliest, latest kadm.ListedOffsets) (map[int32]int64, error) {
	out := map[int32]int64{}
	at := func(f func(first, end int64) int64) map[int32]int64 {
		latest.Each(func(o kadm.ListedOffset) {
			first, _ := earliest.Lookup(o.Topic, o.Partition)
			out[o.Partition] = f(first.Offset, o.Offset)
		})
		return out
	}
	if ms, ok := strings.CutPrefix(expr, "@"); ok {
		n, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, badOffset(flag, expr)
		}
		found, err := c.list(c.admin.ListOffsetsAfterMilli(ctx, n, c.topic))
		if err != nil {
			return nil, err
		}
		found.Each(func(o kadm.ListedOffset) {
			// Without such a record it is the end of all, which for --read-committed may lie beyond the end.
			end, _ := latest.Lookup(o.Topic, o.Partition)
			out[o.Partition] = min(o.Offset, end.Offset)
		})
		return out, nil
	}
	switch expr {
	case "start", "beginning":
		return at(func(first, _ int64) int64 { return first }), nil
	case "end":
		return at(func(_, end int64) int64 { return end }), nil
	}
	n, err := strconv.ParseInt(expr, 10, 64)
	if err != nil {
		return nil, badOffset(flag, expr)
	}
	if n < 0 {
		return at(func(first, end int64) int64 { return max(first, end+n) }), nil
	}
	return at(func(_, _ int64) int64 { return n }), nil
}

func badOffset(flag, expr string) error {
	return &exitError{Code: exitUsage, Err: fmt.Errorf("%s: got %q, want start, end, N, -N or @MS", flag, expr)}
}

// list passes on what was listed, or says why nothing was. Partitions that were not are kept in unlisted.
func (c *consumption) list(listed kadm.ListedOffsets, err error) (kadm.ListedOffsets, error) {
	if shards, ok := errors.AsType[*kadm.ShardErrors](err); ok {
		err = nil
		for _, s := range shards.Errs {
			req, ok := s.Req.(*kmsg.ListOffsetsRequest)
			if !ok {
				err = s.Err
				continue
			}
			for _, t := range req.Topics {
				for _, p := range t.Partitions {
					c.unlisted[p.Partition] = s.Err
				}
			}
		}
	}
	listed.Each(func(o kadm.ListedOffset) {
		switch {
		case o.Err == nil:
		case o.Partition < 0:
			err = o.Err
		default:
			c.unlisted[o.Partition] = o.Err
			delete(listed[o.Topic], o.Partition)
		}
	})
	if err != nil {
		return nil, &exitError{Code: exitFailed, Err: fmt.Errorf("offsets of topic %s: %w", c.topic, err)}
	}
	return listed, nil
}

// choose leaves the partitions that were asked for in start, and gives up those of them that have no offsets.
func (c *consumption) choose() error {
	for p := range c.unlisted {
		delete(c.start, p)
	}
	partitions := len(c.start) + len(c.unlisted)
	chosen := map[int32]int64{}
	for p := range int32(partitions) {
		if len(c.flags.partitions) > 0 && !slices.Contains(c.flags.partitions, p) {
			continue
		}
		if err := c.unlisted[p]; err != nil {
			c.giveUp(p, err)
			continue
		}
		chosen[p] = c.start[p]
	}
	for _, p := range c.flags.partitions {
		if p < 0 || int(p) >= partitions {
			return &exitError{Code: exitFailed, Err: fmt.Errorf("topic %s has no partition %d, it has %d", c.topic, p, partitions)}
		}
	}
	if c.start = chosen; len(chosen) == 0 {
		return c.unread()
	}
	return nil
}
