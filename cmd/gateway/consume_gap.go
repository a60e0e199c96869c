package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// gapWait is how long nothing comes before the partitions that are still read are looked at for a gap.
const gapWait = 500 * time.Millisecond

// gapBytes is how much a look for a gap fetches at a time.
const gapBytes = 1 << 20

// pastGaps takes the partitions out of assign that have no record left before their stop: compaction takes the last
// records of a log away too, and then no record says that the stop is reached.
func (c *consumption) pastGaps(ctx context.Context, assign map[int32]kgo.Offset) error {
	topics, err := c.admin.ListTopics(ctx, c.topic)
	topic := topics[c.topic]
	if err == nil {
		err = topic.Err
	}
	if err != nil {
		return &exitError{Code: exitFailed, Err: fmt.Errorf("topic %s: %w", c.topic, err)}
	}
	for p := range assign {
		stop, bounded := c.stop[p]
		leader := topic.Partitions[p].Leader
		if !bounded || leader < 0 {
			continue
		}
		req := kmsg.NewPtrFetchRequest()
		req.MaxBytes = gapBytes
		if c.flags.committed {
			req.IsolationLevel = 1
		}
		t := kmsg.NewFetchRequestTopic()
		t.Topic, t.TopicID = c.topic, topic.ID
		part := kmsg.NewFetchRequestTopicPartition()
		part.Partition, part.PartitionMaxBytes = p, gapBytes
		t.Partitions = append(t.Partitions, part)
		req.Topics = append(req.Topics, t)
		empty, err := emptyUpTo(ctx, c.client.Broker(int(leader)), req, c.next[p], stop)
		if err == nil {
			if empty {
				delete(assign, p)
			}
		} else if err := c.failing(p, err, assign); err != nil {
			return err
		}
	}
	return nil
}

// emptyUpTo reports whether the partition that req fetches has batches up to stop, and no record in [from, stop).
func emptyUpTo(ctx context.Context, leader *kgo.Broker, req *kmsg.FetchRequest, from, stop int64) (bool, error) {
	var reader record.Reader
	for next := from; next < stop; {
		req.Topics[0].Partitions[0].FetchOffset = next
		resp, err := leader.RetriableRequest(ctx, req)
		if err != nil {
			return false, err
		}
		fetched := resp.(*kmsg.FetchResponse)
		if err := kerr.ErrorForCode(fetched.ErrorCode); err != nil {
			return false, err
		}
		if len(fetched.Topics) != 1 || len(fetched.Topics[0].Partitions) != 1 {
			return false, fmt.Errorf("got %d topics in the answer to a fetch of one partition", len(fetched.Topics))
		}
		part := fetched.Topics[0].Partitions[0]
		if err := kerr.ErrorForCode(part.ErrorCode); err != nil {
			return false, err
		}
		before := next
		for rest := part.RecordBatches; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				break // the answer's end may lie in a batch
			}
			for r, err := range reader.Times(b) {
				if err != nil || r.Offset >= from && r.Offset < stop {
					return false, err
				}
			}
			next = max(next, b.NextOffset())
		}
		if next == before {
			return false, nil
		}
	}
	return true, nil
}
