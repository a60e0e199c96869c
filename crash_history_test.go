package gateway

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/kaen-log/gateway/storage/record"
)

// history is what the clients of a server know, over all its lives: what they sent, what they were promised by an
// answer, and what they have seen. A promise stands for ever, so whatever breaks one is noted as a violation.
type history struct {
	nowMs int64 // when it began

	mu         sync.Mutex
	topics     map[string]*topicFact     // guarded by mu
	parts      map[part]*partFact        // guarded by mu
	commits    map[commitKey]*commitFact // guarded by mu
	ids        map[int64]bool            // guarded by mu; producer ids handed out
	producers  []*producer
	violations []string // guarded by mu
	acks       int      // guarded by mu; answers that promised something
	batches    int      // guarded by mu; made so far
}

// part names a partition.
type part struct {
	topic string
	index int32
}

// topicFact is what is known of a topic: that it is there, with so many partitions, and what is being done to it. A change
// under way when the server went may have happened or not.
type topicFact struct {
	exists     bool
	partitions int32
	id         [16]byte
	doing      change
	to         int32 // partitions after the change
	dropped    bool  // a change failed, so that nothing is known any more
}

type change int

const (
	nothing change = iota
	creating
	deleting
	growing
)

// partFact is what is known of a partition.
type partFact struct {
	sent       map[string]*batch // by key: all batches ever sent
	seen       map[int64]string  // what readers were shown, by offset
	end        int64             // no less than this is visible
	startAcked int64             // DeleteRecords that were answered
	startTried int64             // and that were sent
	position   int64             // of the consumer
}

// batch is one batch that was sent.
type batch struct {
	key      string
	part     part
	producer *producer // nil when it is not idempotent
	sequence int32
	values   []string
	wire     []byte
	acked    bool
	offset   int64 // answered, or found in the log; -1 for neither
}

// producer is an idempotent producer. It outlives the servers.
type producer struct {
	index   int
	id      int64 // -1 before it has one
	next    map[part]int32
	pending map[part][]*batch // guarded by history.mu; sent and not answered, in order
	last    map[part]*batch   // guarded by history.mu; the last that was answered
}

type commitKey struct {
	group string
	part  part
}

// commitFact is what is known of a committed offset: the last that was answered, and those sent since.
type commitFact struct {
	acked int64 // -1 for none
	tried []int64
}

func newHistory(producers int) *history {
	h := &history{
		nowMs:  time.Now().UnixMilli(),
		topics: map[string]*topicFact{}, parts: map[part]*partFact{},
		commits: map[commitKey]*commitFact{}, ids: map[int64]bool{},
	}
	for i := range producers {
		h.producers = append(h.producers, &producer{
			index: i, id: -1, next: map[part]int32{}, pending: map[part][]*batch{}, last: map[part]*batch{},
		})
	}
	return h
}

// violate notes a broken promise.
func (h *history) violate(format string, args ...any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.violateLocked(format, args...)
}

func (h *history) violateLocked(format string, args ...any) {
	if len(h.violations) < 20 {
		h.violations = append(h.violations, fmt.Sprintf(format, args...))
	}
}

func (h *history) broken() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.violations) > 0
}

// part returns the facts of a partition, made when there are none.
func (h *history) part(p part) *partFact {
	f := h.parts[p]
	if f == nil {
		f = &partFact{sent: map[string]*batch{}, seen: map[int64]string{}}
		h.parts[p] = f
	}
	return f
}

// partitions returns the partitions of a topic that certainly exists.
func (h *history) partitions(topic string) int32 {
	h.mu.Lock()
	defer h.mu.Unlock()
	if t := h.topics[topic]; t != nil && t.exists {
		return t.partitions
	}
	return 0
}

// newBatch makes a batch of n records for a partition; p is nil for one that is not idempotent.
func (h *history) newBatch(p *producer, to part, n int, pad string, codec record.Codec) *batch {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.batches++
	b := &batch{key: fmt.Sprintf("%s/%d#%d", to.topic, to.index, h.batches), part: to, producer: p, offset: -1}
	o := record.BuilderOptions{Codec: codec, LeaderEpoch: record.NoLeaderEpoch}
	if p != nil {
		b.sequence = p.next[to]
		p.next[to] += int32(n)
		p.pending[to] = append(p.pending[to], b)
		o.HasProducer, o.ProducerID, o.BaseSequence = true, p.id, b.sequence
	}
	build := record.NewBuilder(o)
	for i := range n {
		b.values = append(b.values, fmt.Sprintf("%s.%d|%s", b.key, i, pad))
		build.Append(record.Record{Timestamp: h.nowMs + int64(h.batches), Key: []byte(b.key), Value: []byte(b.values[i])})
	}
	b.wire = build.Bytes()
	h.part(to).sent[b.key] = b
	return b
}

// ack notes that a batch was answered with an offset.
func (h *history) ack(b *batch, offset int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acks++
	if b.offset >= 0 && b.offset != offset {
		h.violateLocked("%s was answered with offset %d, and stands at %d", b.key, offset, b.offset)
		return
	}
	b.acked, b.offset = true, offset
	f := h.part(b.part)
	f.end = max(f.end, offset+int64(len(b.values)))
	p := b.producer
	if p == nil {
		return
	}
	p.pending[b.part] = slices.DeleteFunc(slices.Clone(p.pending[b.part]), func(x *batch) bool { return x == b })
	if last := p.last[b.part]; last == nil || last.sequence < b.sequence {
		p.last[b.part] = b
	}
}

// unanswered returns the batches of a producer that wait for an answer, in order, by partition.
func (h *history) unanswered(p *producer) map[part][]*batch {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(p.pending)
}

// see notes what a reader was shown of a partition: whole batches, from the one that holds offset from on. next is where
// to read on.
func (h *history) see(p part, from int64, data []byte) (next int64, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	f := h.part(p)
	next = from
	var reader record.Reader
	for first := true; len(data) > 0; first = false {
		var b record.Batch
		if b, data, err = record.Cut(data); err != nil {
			if err == record.ErrShort {
				err = nil // the answer was full
			}
			return next, err
		}
		if b.BaseOffset() > next || !first && b.BaseOffset() != next {
			return next, fmt.Errorf("batch at offset %d, want %d", b.BaseOffset(), next)
		}
		next = b.NextOffset()
		if err := h.seeBatch(f, &reader, b); err != nil {
			return next, err
		}
		f.end = max(f.end, next)
	}
	return next, nil
}

func (h *history) seeBatch(f *partFact, reader *record.Reader, b record.Batch) error {
	var sent *batch
	i := 0
	for r, err := range reader.Records(b) {
		if err != nil {
			return fmt.Errorf("batch at offset %d: %w", b.BaseOffset(), err)
		}
		if sent == nil {
			if sent = f.sent[string(r.Key)]; sent == nil {
				return fmt.Errorf("offset %d holds %q, which was not sent", r.Offset, r.Value)
			}
			if sent.offset >= 0 && sent.offset != b.BaseOffset() {
				return fmt.Errorf("%s is at offset %d, and at %d as well or before", sent.key, b.BaseOffset(), sent.offset)
			}
			sent.offset = b.BaseOffset()
		}
		if i >= len(sent.values) || string(r.Value) != sent.values[i] {
			return fmt.Errorf("offset %d holds %.40q, want record %d of %s", r.Offset, r.Value, i, sent.key)
		}
		if was, ok := f.seen[r.Offset]; ok && was != string(r.Value) {
			return fmt.Errorf("offset %d holds %.40q, and was seen as %.40q", r.Offset, r.Value, was)
		}
		f.seen[r.Offset] = sent.values[i]
		i++
	}
	if sent == nil || i != len(sent.values) || b.NextOffset()-b.BaseOffset() != int64(i) {
		return fmt.Errorf("batch at offset %d has %d records, not those of a batch that was sent", b.BaseOffset(), i)
	}
	return nil
}
