package gateway

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// loadTopics are the topics that producers write to and the consumer reads.
var loadTopics = []string{"orders", "audit"}

const segmentBytes = "1500" // a few batches

// load is what the clients of one life do.
type load struct {
	*life
	h     *history
	seed  uint64
	scale float64 // share of the usual number of steps

	// begun, when not nil, is called when topics and producers are there and the load begins.
	begun func()
	// faulty is set while faults are injected: errors of the disk are answers too, and what failed is sent again.
	faulty atomic.Bool
	// readsFail says that the faults concern reads too.
	readsFail bool

	wg       sync.WaitGroup // who waits for answers that nobody else waits for
	mu       sync.Mutex
	clients  []*client // guarded by mu; closed at the end
	underWay []*batch  // guarded by mu; sent just now and perhaps not answered

	poking sync.Mutex // held while poke is at it
	over   bool       // guarded by poking; hangUp was called
}

// rand returns a source of its own for each of the clients.
func (l *load) rand(n uint64) *rand.Rand { return rand.New(rand.NewPCG(l.seed, n)) }

// excused reports whether an error is to be expected: the disk is off, or has faults of which it tells.
func (l *load) excused(err error) bool {
	return l.disk.off.Load() || l.faulty.Load() && slices.ContainsFunc([]error{
		kerr.KafkaStorageError, kerr.CoordinatorNotAvailable, kerr.NotCoordinator,
		kerr.OutOfOrderSequenceNumber, // a batch before it failed
	}, func(e error) bool { return e == err })
}

// connect dials; nil means that the server is gone.
func (l *load) connect() *client {
	c, err := l.dial()
	if err != nil {
		if !l.excused(err) {
			l.h.violate("dial: %v", err)
		}
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clients = append(l.clients, c)
	return c
}

// check reports whether an answer is good. An error that is not excused is a violation.
func (l *load) check(what string, err error, codes ...int16) bool {
	for _, code := range codes {
		if err == nil && code != 0 {
			err = kerr.ErrorForCode(code)
		}
	}
	if err != nil && !l.excused(err) {
		l.h.violate("%s: %v", what, err)
	}
	return err == nil
}

// run has the clients at work until each has done its steps, or the disk goes off.
func (l *load) run() {
	if l.prepare() {
		if l.begun != nil {
			l.begun()
		}
		var clients sync.WaitGroup
		for i, p := range l.h.producers {
			clients.Go(func() { l.produce(p, l.rand(10+uint64(i))) })
		}
		clients.Go(func() { l.produce(nil, l.rand(1)) })
		clients.Go(func() { l.commit(l.rand(2)) })
		clients.Go(func() { l.administer(l.rand(3)) })
		tail := l.connect()
		var consumer sync.WaitGroup
		if tail != nil {
			consumer.Go(func() { l.consume(tail, l.rand(4)) })
		}
		clients.Wait()
		if tail != nil {
			_ = tail.conn.Close() // ends the consumer
		}
		consumer.Wait()
	}
	l.hangUp()
}

// hangUp ends what waits for answers that may never come.
func (l *load) hangUp() {
	l.poking.Lock()
	l.over = true
	l.poking.Unlock()
	if l.disk.off.Load() {
		_ = l.g.server.Shutdown(ended) // answers, or cuts off, all that is under way
	}
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.clients {
		c.close()
	}
	l.clients = nil
}

// prepare makes the topics and gives the producers their ids.
func (l *load) prepare() bool {
	c := l.connect()
	if c == nil {
		return false
	}
	for i, name := range loadTopics {
		if l.h.partitions(name) == 0 && !l.createTopic(c, name, int32(3-2*i)) {
			return false
		}
	}
	for _, p := range l.h.producers {
		if p.id < 0 {
			if p.id = l.producerID(c); p.id < 0 {
				return false
			}
		}
	}
	return true
}

// producerID asks for a producer id, which nobody may have had before; -1 means an error.
func (l *load) producerID(c *client) int64 {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.TransactionTimeoutMillis, req.ProducerID, req.ProducerEpoch = 4, 1000, -1, -1
	resp, err := ask[*kmsg.InitProducerIDResponse](c, req)
	if err != nil || resp.ErrorCode != 0 {
		code := int16(0)
		if resp != nil {
			code = resp.ErrorCode
		}
		l.check("init producer id", err, code)
		return -1
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	if l.h.ids[resp.ProducerID] {
		l.h.violateLocked("producer id %d was handed out twice", resp.ProducerID)
	}
	l.h.ids[resp.ProducerID] = true
	l.h.acks++
	return resp.ProducerID
}

// produceRequest holds the batches, which are of different partitions.
func produceRequest(acks int16, batches []*batch) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = 9, acks, 30_000
	for _, b := range batches {
		i := slices.IndexFunc(req.Topics, func(t kmsg.ProduceRequestTopic) bool { return t.Topic == b.part.topic })
		if i < 0 {
			i = len(req.Topics)
			t := kmsg.NewProduceRequestTopic()
			t.Topic = b.part.topic
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewProduceRequestTopicPartition()
		p.Partition, p.Records = b.part.index, b.wire
		req.Topics[i].Partitions = append(req.Topics[i].Partitions, p)
	}
	return req
}

// produced takes in the answer to a produce request; false when a batch got an error or there was no answer. again says
// that the batches were sent by another connection too, so that they may come before those which precede them, or too
// late.
func (l *load) produced(a answer, batches []*batch, again bool) bool {
	if a.err != nil {
		return l.check("produce", a.err)
	}
	good := true
	for _, t := range a.resp.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			i := slices.IndexFunc(batches, func(b *batch) bool { return b.part == part{t.Topic, p.Partition} })
			if i < 0 {
				l.h.violate("answer for %s-%d, which was not sent", t.Topic, p.Partition)
				return false
			}
			b := batches[i]
			if p.ErrorCode == 0 {
				l.h.ack(b, p.BaseOffset)
				continue
			}
			good = false
			if again && (p.ErrorCode == kerr.OutOfOrderSequenceNumber.Code || p.ErrorCode == kerr.DuplicateSequenceNumber.Code) {
				continue
			}
			l.check("produce "+b.key, nil, p.ErrorCode)
		}
	}
	return good
}

// produce sends batches with several requests under way: those of an idempotent producer, or with nil some that are
// not, with acks=1. Some are sent twice, by two connections.
func (l *load) produce(p *producer, r *rand.Rand) {
	c, twice := l.connect(), l.connect()
	if c == nil || twice == nil {
		return
	}
	type flight struct {
		batches []*batch
		answer  <-chan answer
	}
	var window []flight
	depth := 1 + r.IntN(4)
	acks := int16(-1)
	if p == nil {
		acks = 1
	}
	land := func(n int) bool {
		good := true
		for len(window) > n {
			f := window[0]
			window = window[1:]
			good = l.produced(<-f.answer, f.batches, false) && good
		}
		return good
	}
	for range int(l.scale * float64(25+r.IntN(20))) {
		f := flight{batches: l.someBatches(p, r)}
		f.answer = c.send(produceRequest(acks, f.batches))
		window = append(window, f)
		l.sending(f.batches)
		if p != nil && r.IntN(4) == 0 {
			l.resend(twice, f.batches)
		}
		if land(depth-1) || l.disk.off.Load() {
			continue
		}
		land(0)
		if !l.faulty.Load() || p != nil && !l.recover(c, p, r) {
			return
		}
	}
	if !land(0) && l.faulty.Load() && p != nil {
		l.recover(c, p, r)
	}
}

// someBatches makes a batch for one or two partitions.
func (l *load) someBatches(p *producer, r *rand.Rand) []*batch {
	var out []*batch
	topic := loadTopics[0]
	if r.IntN(4) == 0 {
		topic = loadTopics[1]
	}
	n := l.h.partitions(topic)
	for _, i := range r.Perm(int(n))[:1+r.IntN(min(2, int(n)))] {
		codec := record.None
		if r.IntN(4) == 0 {
			codec = record.Codec(r.IntN(4)) // zstd is dear to set up
		}
		out = append(out, l.h.newBatch(p, part{topic, int32(i)}, 1+r.IntN(3), strings.Repeat("x", r.IntN(120)), codec))
	}
	return out
}

// sending keeps the batches for whoever wants to send them again while they are under way.
func (l *load) sending(batches []*batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.underWay) > 16 {
		l.underWay = append(l.underWay[:0], l.underWay[8:]...)
	}
	l.underWay = append(l.underWay, batches...)
}

// resend sends batches once more, by another connection, and takes in the answer whenever it comes. It leaves out those
// that wait for others before them: a server that knows nothing of a producer takes any sequence for its first.
func (l *load) resend(c *client, batches []*batch) {
	l.h.mu.Lock()
	batches = slices.DeleteFunc(slices.Clone(batches), func(b *batch) bool {
		pending := b.producer.pending[b.part]
		return len(pending) == 0 || pending[0] != b
	})
	l.h.mu.Unlock()
	if len(batches) == 0 {
		return
	}
	a := c.send(produceRequest(-1, batches))
	l.wg.Go(func() { l.produced(<-a, batches, true) })
}

// recover sends what failed again, in order, until it is through. The faults are counted in operations, so they end.
func (l *load) recover(c *client, p *producer, r *rand.Rand) bool {
	for range 300 {
		failed := false
		for _, batches := range l.h.unanswered(p) {
			for _, b := range batches {
				if !l.produced(<-c.send(produceRequest(-1, []*batch{b})), []*batch{b}, false) {
					failed = true
					break
				}
			}
		}
		if !failed {
			return true
		}
		if l.disk.off.Load() {
			return false
		}
	}
	l.h.violate("producer %d is refused after the faults are over", p.index)
	return false
}

// poke does, while a sync hangs, what must not be answered before it is over: it sends again what is under way; the
// consumer reads on by itself. Then it goes back and forth with the server a few times, so that an answer that is wrong
// has its chance.
func (l *load) poke() {
	l.poking.Lock()
	defer l.poking.Unlock()
	if l.over {
		return
	}
	l.mu.Lock()
	under := slices.Clone(l.underWay)
	l.mu.Unlock()
	c, other := l.connect(), l.connect()
	if c == nil || other == nil {
		return
	}
	for i, b := range under {
		if b.producer != nil && i < maxUnderWay/2 {
			l.resend(c, []*batch{b})
		}
	}
	for range 3 {
		req := kmsg.NewPtrApiVersionsRequest()
		if _, err := ask[*kmsg.ApiVersionsResponse](other, req); err != nil {
			return
		}
	}
}

// consume reads the load's topics on and on, until its connection ends.
func (l *load) consume(c *client, r *rand.Rand) {
	for {
		req := kmsg.NewPtrFetchRequest()
		req.Version, req.MaxWaitMillis, req.MinBytes, req.SessionEpoch = 11, 10_000, 1, -1
		req.MaxBytes = int32(200 + r.IntN(8000))
		for _, name := range loadTopics {
			t := kmsg.NewFetchRequestTopic()
			t.Topic = name
			for i := range l.h.partitions(name) {
				p := kmsg.NewFetchRequestTopicPartition()
				p.Partition, p.PartitionMaxBytes, p.CurrentLeaderEpoch = i, int32(100+r.IntN(4000)), -1
				l.h.mu.Lock()
				p.FetchOffset = l.h.part(part{name, i}).position
				l.h.mu.Unlock()
				t.Partitions = append(t.Partitions, p)
			}
			req.Topics = append(req.Topics, t)
		}
		resp, err := ask[*kmsg.FetchResponse](c, req)
		if err != nil {
			return // the load is over, or the server
		}
		failed := resp.ErrorCode != 0
		for _, t := range resp.Topics {
			for i := range t.Partitions {
				failed = !l.consumed(part{t.Topic, t.Partitions[i].Partition}, &t.Partitions[i]) || failed
			}
		}
		if failed && (l.disk.off.Load() || !l.faulty.Load()) {
			return
		}
	}
}

// consumed takes in what was fetched of one partition.
func (l *load) consumed(p part, got *kmsg.FetchResponseTopicPartition) bool {
	l.h.mu.Lock()
	f := l.h.part(p)
	from, deleted := f.position, f.startTried
	l.h.mu.Unlock()
	switch {
	case got.ErrorCode == kerr.OffsetOutOfRange.Code && from < deleted:
		l.h.mu.Lock()
		defer l.h.mu.Unlock()
		f.position = f.startTried
		return true
	case got.ErrorCode != 0:
		if l.disk.off.Load() || l.faulty.Load() && l.readsFail {
			return false
		}
		l.h.violate("fetch %s-%d at offset %d: %v", p.topic, p.index, from, kerr.ErrorForCode(got.ErrorCode))
		return false
	}
	next, err := l.h.see(p, from, got.RecordBatches)
	if err != nil {
		l.h.violate("fetch %s-%d at offset %d: %v", p.topic, p.index, from, err)
		return false
	}
	if next > got.HighWatermark {
		l.h.violate("fetch %s-%d gave records to offset %d, the high watermark is %d", p.topic, p.index, next, got.HighWatermark)
	}
	l.h.mu.Lock()
	defer l.h.mu.Unlock()
	f.position = next
	return true
}

// commit commits offsets, ever larger ones, and reads them back.
func (l *load) commit(r *rand.Rand) {
	c := l.connect()
	if c == nil {
		return
	}
	for range int(l.scale * 25) {
		k := commitKey{fmt.Sprintf("group-%d", r.IntN(4)), part{loadTopics[0], r.Int32N(2)}}
		good := l.commitOffset(c, k)
		if good && r.IntN(3) == 0 {
			good = l.checkCommits(c, k.group)
		}
		if !good && (l.disk.off.Load() || !l.faulty.Load()) {
			return
		}
	}
}

// commitOffset commits the next offset.
func (l *load) commitOffset(c *client, k commitKey) bool {
	l.h.mu.Lock()
	f := l.h.commits[k]
	if f == nil {
		f = &commitFact{acked: -1}
		l.h.commits[k] = f
	}
	offset := f.acked + 1
	if n := len(f.tried); n > 0 {
		offset = f.tried[n-1] + 1
	}
	f.tried = append(f.tried, offset)
	l.h.mu.Unlock()

	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, k.group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = k.part.topic
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = k.part.index, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	for {
		resp, err := ask[*kmsg.OffsetCommitResponse](c, req)
		if err != nil {
			return l.check("commit", err)
		}
		code := resp.Topics[0].Partitions[0].ErrorCode
		if code == kerr.CoordinatorLoadInProgress.Code && !l.disk.off.Load() {
			continue
		}
		if !l.check(fmt.Sprintf("commit %v", k), nil, code) {
			return false
		}
		l.h.mu.Lock()
		defer l.h.mu.Unlock()
		l.h.acks++
		f.acked, f.tried = offset, nil
		return true
	}
}

// checkCommits compares what the group is said to have committed with what is known. What it finds is known from then on:
// an offset that was answered is durable.
func (l *load) checkCommits(c *client, group string) bool {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.Topics = 7, group, nil
	for {
		resp, err := ask[*kmsg.OffsetFetchResponse](c, req)
		if err != nil {
			return l.check("fetch offsets", err)
		}
		if resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code && !l.disk.off.Load() {
			continue
		}
		if !l.check("fetch offsets of "+group, nil, resp.ErrorCode) {
			return false
		}
		found := map[part]int64{}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				found[part{t.Topic, p.Partition}] = p.Offset
			}
		}
		l.h.mu.Lock()
		defer l.h.mu.Unlock()
		for k, f := range l.h.commits {
			if k.group != group {
				continue
			}
			got, ok := found[k.part]
			if !ok {
				got = -1
			}
			if got != f.acked && !slices.Contains(f.tried, got) {
				l.h.violateLocked("committed offset of %v is %d, answered was %d, sent since %v", k, got, f.acked, f.tried)
			}
			if got > f.acked {
				f.acked = got
				f.tried = slices.DeleteFunc(f.tried, func(o int64) bool { return o <= got })
			}
		}
		return true
	}
}
