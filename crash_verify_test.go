package gateway

import (
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// verify holds a server that has just started against what is known, and has the producers go on where the crash stopped
// them. It is false when the disk went off before the end, which is no violation.
func (l *load) verify() bool {
	c := l.connect()
	if c == nil || !l.verifyTopics(c) {
		return false
	}
	for _, p := range l.h.existing() {
		if !l.verifyPart(c, p) {
			return false
		}
	}
	l.h.mu.Lock()
	groups := map[string]bool{}
	for k := range l.h.commits {
		groups[k.group] = true
	}
	l.h.mu.Unlock()
	for _, g := range slices.Sorted(maps.Keys(groups)) {
		if !l.checkCommits(c, g) {
			return false
		}
	}
	for _, p := range l.h.producers {
		if p.id >= 0 && !l.goOn(c, p) {
			return false
		}
	}
	return l.producerID(c) >= 0
}

// existing returns the partitions of all topics that certainly exist, in order.
func (h *history) existing() []part {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []part
	for _, name := range slices.Sorted(maps.Keys(h.topics)) {
		f := h.topics[name]
		if !f.exists || f.dropped {
			continue
		}
		for i := range f.partitions {
			out = append(out, part{name, i})
		}
	}
	return out
}

// verifyPart reads a whole partition.
func (l *load) verifyPart(c *client, p part) bool {
	start, ok := l.listOffset(c, p, -2)
	if !ok {
		return false
	}
	end, ok := l.listOffset(c, p, -1)
	if !ok {
		return false
	}
	name := fmt.Sprintf("%s-%d", p.topic, p.index)
	l.h.mu.Lock()
	f := l.h.part(p)
	if start < f.startAcked || start > f.startTried {
		l.h.violateLocked("%s starts at offset %d, records were deleted below %d and perhaps %d", name, start, f.startAcked, f.startTried)
	}
	if end < max(f.end, f.position) {
		l.h.violateLocked("%s ends at offset %d, known are records up to %d, the consumer was at %d", name, end, f.end, f.position)
	}
	l.h.mu.Unlock()
	for next := start; next < end; {
		resp, err := ask[*kmsg.FetchResponse](c, fetchRequest(p, next))
		if err != nil {
			return l.check("fetch", err)
		}
		got := &resp.Topics[0].Partitions[0]
		if !l.check(fmt.Sprintf("fetch %s at offset %d", name, next), nil, resp.ErrorCode, got.ErrorCode) {
			return false
		}
		from := next
		if next, err = l.h.see(p, next, got.RecordBatches); err != nil || next == from {
			l.h.violate("fetch %s at offset %d of %d: got %d bytes, %v", name, from, end, len(got.RecordBatches), err)
			return true
		}
	}
	l.h.verifyBatches(name, f, start, end)
	return true
}

// verifyBatches checks, after everything from start to end was seen, that nothing known is missing and that each
// producer's batches are in order.
func (h *history) verifyBatches(name string, f *partFact, start, end int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var there []*batch
	for _, b := range f.sent {
		if b.offset < start {
			continue
		}
		for i, value := range b.values {
			if at := b.offset + int64(i); at >= end || f.seen[at] != value {
				h.violateLocked("%s: record %d of %s is not at offset %d (acknowledged: %v)", name, i, b.key, at, b.acked)
				break
			}
		}
		there = append(there, b)
	}
	slices.SortFunc(there, func(a, b *batch) int { return int(a.offset - b.offset) })
	last := map[*producer]*batch{}
	for _, b := range there {
		if b.producer == nil {
			continue
		}
		if was := last[b.producer]; was != nil && b.sequence != was.sequence+int32(len(was.values)) {
			h.violateLocked("%s: %s with sequence %d follows %s with %d to %d", name, b.key, b.sequence, was.key,
				was.sequence, was.sequence+int32(len(was.values))-1)
		}
		last[b.producer] = b
	}
	f.position = max(f.position, start)
}

func fetchRequest(p part, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MinBytes, req.SessionEpoch, req.MaxBytes = 11, 1, -1, 1<<20
	t := kmsg.NewFetchRequestTopic()
	t.Topic = p.topic
	q := kmsg.NewFetchRequestTopicPartition()
	q.Partition, q.PartitionMaxBytes, q.CurrentLeaderEpoch, q.FetchOffset = p.index, 1<<20, -1, offset
	t.Partitions = append(t.Partitions, q)
	req.Topics = append(req.Topics, t)
	return req
}

// goOn sends what a producer has no answer for, in order, as it would when it is connected again. What is in the log must
// be answered with its place there; so must the last batch that was answered before. Kafka keeps one batch of each
// producer over a restart, so one that has others of its producer behind it in the log may be out of order instead.
func (l *load) goOn(c *client, p *producer) bool {
	l.h.mu.Lock()
	again := map[part][]*batch{}
	for to, b := range p.last {
		if b.offset >= l.h.part(to).startTried {
			again[to] = append(again[to], b)
		}
	}
	for to, batches := range p.pending {
		again[to] = append(again[to], batches...)
	}
	l.h.mu.Unlock()
	for _, batches := range again {
		for i, b := range batches {
			behind := i+1 < len(batches) && batches[i+1].offset >= 0
			a := <-c.send(produceRequest(-1, []*batch{b}))
			if a.err == nil && behind && b.offset >= 0 {
				code := a.resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
				if code == kerr.OutOfOrderSequenceNumber.Code || code == kerr.DuplicateSequenceNumber.Code {
					l.h.ack(b, b.offset)
					continue
				}
			}
			if !l.produced(a, []*batch{b}, false) {
				return false
			}
		}
	}
	return true
}
