package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// faultLimit is how many errors of a partition, without a record in between, make it one that cannot be read. The waits
	// between them are four seconds, in which a partition of a cluster has found another leader.
	faultLimit = 5
	// faultWait is the wait after the first error; each further one doubles it, up to maxFaultWait.
	faultWait    = 250 * time.Millisecond
	maxFaultWait = 5 * time.Second
)

// allPartitions stands for the topic where the client names a partition.
const allPartitions = -1

// faults counts the errors of partitions that are worth another try. The client tries again for ever, and at once.
type faults struct {
	client *kgo.Client
	topic  string

	mu sync.Mutex
	of map[int32]*fault // without an entry: none since the last record; guarded by mu
}

// fault is a run of errors of one partition.
type fault struct {
	first   error
	count   int
	waiting *time.Timer // nil when the partition is asked
}

// met counts an error, has the client leave the partition alone for a while, and returns the first error of the run
// when this one makes the partition one that cannot be read. Errors during the wait are not counted.
func (f *faults) met(partition int32, err error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	e := f.of[partition]
	if e == nil {
		e = &fault{first: err}
		f.of[partition] = e
	}
	if e.waiting != nil {
		return nil
	}
	wait := min(faultWait<<min(e.count, 10), maxFaultWait)
	e.count++
	one := map[string][]int32{f.topic: {partition}}
	if partition != allPartitions {
		f.client.PauseFetchPartitions(one)
	}
	e.waiting = time.AfterFunc(wait, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if e.waiting = nil; partition != allPartitions {
			f.client.ResumeFetchPartitions(one)
		}
	})
	if e.count == faultLimit {
		return e.first
	}
	return nil
}

// read says that records of the partition came.
func (f *faults) read(partition int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range []int32{partition, allPartitions} {
		if e := f.of[p]; e != nil && e.waiting == nil {
			delete(f.of, p)
		}
	}
}

// stop ends the waits.
func (f *faults) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.of {
		if e.waiting != nil {
			e.waiting.Stop()
		}
	}
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

// giveUp names a partition that cannot be read.
func (c *consumption) giveUp(partition int32, err error) {
	c.failed[partition] = err
	fmt.Fprintf(c.report, "gateway: %s-%d cannot be read: %v\n", c.topic, partition, err)
}

// unread is the error of a run to the stops that not all partitions reached, nil when they did.
func (c *consumption) unread() error {
	if len(c.failed) == 0 {
		return nil
	}
	return &exitError{Code: exitFailed, Err: fmt.Errorf("topic %s: %d of its partitions could not be read", c.topic, len(c.failed))}
}

// failing counts the error of a partition that is still read, or of all, and gives up on those that have too many of
// them. Any error that is not worth another try is returned.
func (c *consumption) failing(partition int32, err error, assign map[int32]kgo.Offset) error {
	name := fmt.Sprintf("%s-%d", c.topic, partition)
	if partition == allPartitions {
		name = "topic " + c.topic
	}
	if !kerr.IsRetriable(err) {
		return &exitError{Code: exitFailed, Err: fmt.Errorf("%s: %w", name, err)}
	}
	cause := c.faults.met(partition, err)
	_, reading := assign[partition]
	switch {
	case cause == nil:
	case errors.Is(cause, kerr.UnknownTopicID), partition == allPartitions && c.bounded():
		// Another topic may have the name by now, which the client would not read.
		return &exitError{Code: exitFailed, Err: fmt.Errorf("%s: %w", name, cause)}
	case partition == allPartitions:
		fmt.Fprintf(c.report, "gateway: %s cannot be read: %v\n", name, cause)
	case reading:
		c.giveUp(partition, cause)
		if c.bounded() {
			delete(assign, partition)
		}
	}
	return nil
}
