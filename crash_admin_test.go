package gateway

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// ended is a context that is over.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// administer creates topics, writes a little to them, grows and deletes them, deletes records, and asks for producer ids.
func (l *load) administer(r *rand.Rand) {
	c := l.connect()
	if c == nil {
		return
	}
	for range int(l.scale * 30) {
		var good bool
		name := fmt.Sprintf("topic-%d", r.IntN(4))
		n, usable := l.topic(name)
		switch what := r.IntN(12); {
		case what == 0:
			good = l.producerID(c) >= 0
		case what < 4:
			good = l.deleteRecords(c, r)
		case what == 4:
			if n, ok := l.topic(loadTopics[0]); ok && n < 6 {
				good = l.grow(c, loadTopics[0], n+1)
			}
		case !usable: // nothing is known of it any more
			continue
		case n == 0:
			good = l.createTopic(c, name, 1+r.Int32N(2))
		case what < 6:
			good = l.deleteTopic(c, name)
		case what == 6:
			good = l.grow(c, name, n+1)
		default:
			b := l.h.newBatch(nil, part{name, r.Int32N(n)}, 1+r.IntN(2), "", record.None)
			good = l.produced(<-c.send(produceRequest(-1, []*batch{b})), []*batch{b}, false)
		}
		if !good && l.disk.off.Load() {
			return
		}
	}
}

// topic returns the partitions of a topic, 0 when it does not exist; usable is false when that is not known.
func (l *load) topic(name string) (partitions int32, usable bool) {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	f := l.h.topics[name]
	switch {
	case f == nil:
		return 0, true
	case f.dropped || f.doing != nothing:
		return 0, false
	case !f.exists:
		return 0, true
	}
	return f.partitions, true
}

// begin notes that a topic is about to change.
func (l *load) begin(name string, c change, to int32) *topicFact {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	f := l.h.topics[name]
	if f == nil {
		f = &topicFact{}
		l.h.topics[name] = f
	}
	f.doing, f.to = c, to
	return f
}

// end notes how the change went.
func (l *load) end(name string, f *topicFact, good bool, done func()) bool {
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	switch {
	case good:
		f.doing = nothing
		l.h.acks++
		done()
	case !l.disk.off.Load():
		f.dropped = true // a fault: who knows
	}
	return good
}

func (l *load) createTopic(c *client, name string, partitions int32) bool {
	f := l.begin(name, creating, partitions)
	req := kmsg.NewPtrCreateTopicsRequest()
	req.Version, req.TimeoutMillis = 7, 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, 1
	for k, v := range map[string]string{
		"internal.segment.bytes": segmentBytes, "index.interval.bytes": "300", "file.delete.delay.ms": "0",
	} {
		config := kmsg.NewCreateTopicsRequestTopicConfig()
		config.Name, config.Value = k, &v
		t.Configs = append(t.Configs, config)
	}
	req.Topics = append(req.Topics, t)
	resp, err := ask[*kmsg.CreateTopicsResponse](c, req)
	if err != nil {
		return l.end(name, f, l.check("create topic", err), nil)
	}
	return l.end(name, f, l.check("create topic "+name, nil, resp.Topics[0].ErrorCode), func() {
		f.exists, f.partitions, f.id = true, partitions, resp.Topics[0].TopicID
		l.h.forget(name)
	})
}

// forget drops what is known of the records of a topic.
func (h *history) forget(topic string) {
	for p := range h.parts {
		if p.topic == topic {
			delete(h.parts, p)
		}
	}
}

func (l *load) deleteTopic(c *client, name string) bool {
	f := l.begin(name, deleting, 0)
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = 6, 10_000
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &name
	req.Topics = append(req.Topics, t)
	resp, err := ask[*kmsg.DeleteTopicsResponse](c, req)
	if err != nil {
		return l.end(name, f, l.check("delete topic", err), nil)
	}
	return l.end(name, f, l.check("delete topic "+name, nil, resp.Topics[0].ErrorCode), func() {
		f.exists, f.partitions = false, 0
		l.h.forget(name)
	})
}

func (l *load) grow(c *client, name string, to int32) bool {
	f := l.begin(name, growing, to)
	req := kmsg.NewPtrCreatePartitionsRequest()
	req.Version, req.TimeoutMillis = 3, 10_000
	t := kmsg.NewCreatePartitionsRequestTopic()
	t.Topic, t.Count = name, to
	req.Topics = append(req.Topics, t)
	resp, err := ask[*kmsg.CreatePartitionsResponse](c, req)
	if err != nil {
		return l.end(name, f, l.check("create partitions", err), nil)
	}
	return l.end(name, f, l.check("create partitions of "+name, nil, resp.Topics[0].ErrorCode), func() { f.partitions = to })
}

// listOffset asks for the first (-2) or the next (-1) offset of a partition.
func (l *load) listOffset(c *client, p part, which int64) (int64, bool) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.Version, req.ReplicaID = 6, -1
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic = p.topic
	q := kmsg.NewListOffsetsRequestTopicPartition()
	q.Partition, q.Timestamp, q.CurrentLeaderEpoch = p.index, which, -1
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	resp, err := ask[*kmsg.ListOffsetsResponse](c, req)
	if err != nil {
		return 0, l.check("list offsets", err)
	}
	got := resp.Topics[0].Partitions[0]
	return got.Offset, l.check(fmt.Sprintf("list offsets of %s-%d", p.topic, p.index), nil, got.ErrorCode)
}

// deleteRecords deletes the beginning of a partition.
func (l *load) deleteRecords(c *client, r *rand.Rand) bool {
	p := part{loadTopics[0], r.Int32N(max(l.h.partitions(loadTopics[0]), 1))}
	end, ok := l.listOffset(c, p, -1)
	if !ok {
		return false
	}
	l.h.mu.Lock()
	f := l.h.part(p)
	to := f.startAcked + r.Int64N(max(end-f.startAcked, 0)+1)
	f.startTried = max(f.startTried, to)
	l.h.mu.Unlock()
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.Version, req.TimeoutMillis = 2, 10_000
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic = p.topic
	q := kmsg.NewDeleteRecordsRequestTopicPartition()
	q.Partition, q.Offset = p.index, to
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	resp, err := ask[*kmsg.DeleteRecordsResponse](c, req)
	if err != nil {
		return l.check("delete records", err)
	}
	got := resp.Topics[0].Partitions[0]
	if !l.check(fmt.Sprintf("delete records of %s-%d below %d", p.topic, p.index, to), nil, got.ErrorCode) {
		return false
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	l.h.acks++
	f.startAcked = max(f.startAcked, to)
	if got.LowWatermark < to || got.LowWatermark > f.startTried {
		l.h.violateLocked("delete records of %s-%d below %d: got low watermark %d", p.topic, p.index, to, got.LowWatermark)
	}
	return true
}

// verifyTopics compares the topics with what is known, and takes in how the changes under way went.
func (l *load) verifyTopics(c *client) bool {
	req := kmsg.NewPtrMetadataRequest()
	req.Version, req.Topics = 12, nil
	resp, err := ask[*kmsg.MetadataResponse](c, req)
	if err != nil {
		return l.check("metadata", err)
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	there := map[string]*kmsg.MetadataResponseTopic{}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		if t.IsInternal {
			continue
		}
		there[*t.Topic] = t
		if l.h.topics[*t.Topic] == nil {
			l.h.violateLocked("topic %s is there, and nobody made it", *t.Topic)
		}
	}
	for name, f := range l.h.topics {
		l.h.verifyTopic(name, f, there[name])
	}
	return true
}

func (h *history) verifyTopic(name string, f *topicFact, got *kmsg.MetadataResponseTopic) {
	doing := f.doing
	exists := f.exists || doing == creating
	switch {
	case f.dropped:
		return
	case got == nil && f.exists && doing != deleting:
		h.violateLocked("topic %s is gone", name)
		return
	case got == nil:
		h.forget(name)
		*f = topicFact{}
		return
	case !exists:
		h.violateLocked("topic %s is there, and was deleted", name)
		return
	}
	f.doing = nothing
	n := int32(len(got.Partitions))
	want := []int32{f.partitions}
	switch doing {
	case creating:
		f.id = got.TopicID
		want = []int32{f.to}
		h.forget(name)
	case growing:
		want = append(want, f.to)
	}
	f.exists, f.partitions = true, n
	if got.TopicID != f.id || !slices.Contains(want, n) {
		h.violateLocked("topic %s has id %x and %d partitions, want %x and one of %v", name, got.TopicID, n, f.id, want)
	}
}
