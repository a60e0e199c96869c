package main

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// faultLimit is how many errors of a partition, without a record in between, make it one that cannot be read. The waits
	// between them are 12.75 seconds: Kafka takes a broker for dead, and gives its partitions other leaders, when it was not
	// heard of for 9 (broker.session.timeout.ms).
	faultLimit = 7
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
	limit  int // faultLimit, but in tests

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
	if e.count == f.limit {
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
			// A pause ends with the wait, and records that come then would be printed.
			c.client.RemoveConsumePartitions(map[string][]int32{c.topic: {partition}})
		}
	}
	return nil
}
