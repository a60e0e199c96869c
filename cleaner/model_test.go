package cleaner

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

var (
	modelSeeds = flag.Int("model.seeds", 6, "runs of the model test")
	modelSeed  = flag.Uint64("model.seed", 0, "the one seed that the model test runs, instead")
)

// TestModel makes random writes, transactions, sweeps, restarts, crashes and jumps of the clock. It compares what a consumer
// finds after each sweep with a plain list of what was written, and what becomes of a batch that a producer sends again, or
// out of order, with what it sent last.
func TestModel(t *testing.T) {
	if *modelSeed != 0 {
		runModel(t, *modelSeed)
		return
	}
	for i := range *modelSeeds {
		t.Run(fmt.Sprintf("seed=%d", i+1), func(t *testing.T) { runModel(t, uint64(i+1)) })
	}
}

// written is a record as it was appended.
type written struct {
	key, value string
	null       bool // a tombstone
	headers    string
	timestamp  int64
	producer   int64
	txn        bool // in a transaction
	state      int8 // open, committed or aborted
}

// firstSender is the least of the producer ids.
const firstSender = 100

const (
	committed int8 = iota // or outside of any transaction
	open
	aborted
)

// matches is whether a record that was read is this one.
func (w *written) matches(got *written) bool {
	return w != nil && *got == written{w.key, w.value, w.null, w.headers, w.timestamp, w.producer, w.txn, got.state}
}

// sender is an idempotent producer.
type sender struct {
	epoch     int16 // a marker may bring the next
	next      int32 // sequence
	timestamp int64 // of its last batch or marker, by which the log forgets it
	last      record.Batch
	offset    int64   // of last, which is nil when nothing was sent in this epoch
	txn       []int64 // offsets of its open transaction
}

// model is a log beside a list of what was written to it.
type model struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	fs      *vfs.Mem
	now     time.Time
	latest  time.Time // that the clock was at
	expiry  time.Duration
	configs map[string]string
	store   *storage.Store
	c       *Cleaner
	log     *storage.Log

	wrote   map[int64]*written
	next    int64
	senders []*sender // by producer id less firstSender
	starts  int
}

func runModel(t *testing.T, seed uint64) {
	m := &model{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), now: time.UnixMilli(1_700_000_000_000),
		wrote: map[int64]*written{},
	}
	m.latest = m.now
	m.fs = vfs.NewMem(vfs.MemOptions{Now: m.clock, Crashable: true})
	for range 8 {
		m.senders = append(m.senders, &sender{})
	}
	m.expiry = []time.Duration{time.Hour, 10 * time.Minute}[m.rand.IntN(2)]
	m.configs = map[string]string{
		"cleanup.policy": "compact", "delete.retention.ms": "60000", "max.compaction.lag.ms": "600000",
		"internal.segment.bytes":    fmt.Sprint(2000 + m.rand.IntN(30000)),
		"min.cleanable.dirty.ratio": []string{"0", "0.1", "0.5"}[m.rand.IntN(3)],
		"min.compaction.lag.ms":     []string{"0", "0", "20000"}[m.rand.IntN(3)],
		"index.interval.bytes":      []string{"0", "100", "4096"}[m.rand.IntN(3)],
		"file.delete.delay.ms":      []string{"0", "1000"}[m.rand.IntN(2)],
	}
	m.start()
	defer func() {
		if t.Failed() {
			t.Logf("repeat with: go test ./cleaner -run 'TestModel$' -model.seed %d", seed)
		}
	}()
	for range 300 {
		switch p := m.rand.IntN(100); {
		case p < 70:
			m.append()
		case p < 78:
			m.endTxn()
		case p < 88:
			m.sweep()
		case p < 94:
			m.restart()
		default:
			m.now = m.now.Add(time.Duration(m.rand.IntN(200_000)-40_000) * time.Millisecond)
			if m.now.After(m.latest) {
				m.latest = m.now
			}
		}
		if t.Failed() {
			return
		}
	}
	m.sweep()
	if err := m.store.Close(); err != nil {
		t.Error(err)
	}
}

func (m *model) clock() time.Time { return m.now }

func (m *model) fatal(err error) {
	m.t.Helper()
	if err != nil {
		m.t.Fatal(err)
	}
}

func (m *model) start() {
	m.t.Helper()
	store, err := storage.Open("data", storage.Options{FS: m.fs, Now: m.clock, ProducerIDExpiration: m.expiry})
	m.fatal(err)
	if m.starts == 0 {
		_, err = store.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 1, Configs: m.configs})
		m.fatal(err)
	}
	m.starts++
	topic, ok := store.Topic("orders")
	if !ok {
		m.t.Fatal("the topic is gone")
	}
	m.store = store
	m.log, _ = topic.Partition(0)
	_, err = m.log.Offsets()
	m.fatal(err)
	m.c = New(Options{Store: store, Now: m.clock, Config: func() Config {
		c := DefaultConfig()
		c.DedupeBytes = 100 * slotBytes
		return c
	}})
	if m.seed%2 == 1 { // some batches stay whole
		m.c.large = func(b record.Batch, _ int) bool { return b.BaseOffset()%23 == 0 }
	}
}

// restart stops the store in order, or lets the machine lose power, and may lose the producer snapshots.
func (m *model) restart() {
	m.t.Helper()
	_, before := m.read()
	after := m.fs
	if m.rand.IntN(2) == 0 {
		after = m.fs.CrashClone(m.rand.Uint64(), []float64{0, 0.5, 1}[m.rand.IntN(3)])
	}
	m.fatal(m.store.Close())
	m.fs = after
	if m.next > 0 && m.rand.IntN(2) == 0 {
		loseSnapshots(m.t, m.fs)
	}
	m.start()
	_, found := m.read()
	m.same("after a restart", before, found, 0)
	m.sendAgain()
}

// append writes a batch of some records, sometimes of a producer or in a transaction.
func (m *model) append() {
	o := record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, BaseSequence: record.NoSequence}
	o.Codec = record.Codec(m.rand.IntN(5))
	var s *sender
	state := committed
	if m.rand.IntN(3) == 0 {
		i := m.rand.IntN(len(m.senders))
		if s = m.senders[i]; m.forgotten(s) {
			*s = sender{epoch: s.epoch + 1}
		}
		o.HasProducer, o.ProducerID, o.ProducerEpoch, o.BaseSequence = true, firstSender+int64(i), s.epoch, s.next
		if i >= 4 {
			o.Transactional, state = true, open
		}
	}
	b := record.NewBuilder(o)
	n, keys := 1+m.rand.IntN(20), 10_000.0
	if m.rand.IntN(2) == 0 { // one that others soon replace as a whole
		n, keys = 1+m.rand.IntN(3), 20
	}
	for i := range n {
		k := int(keys * m.rand.Float64() * m.rand.Float64() * m.rand.Float64())
		w := &written{key: fmt.Sprintf("key-%d%s", k, strings.Repeat("-", k%3*30)), producer: -1, txn: o.Transactional, state: state}
		if o.HasProducer {
			w.producer = o.ProducerID
		}
		w.timestamp = m.now.UnixMilli() - int64(m.rand.IntN(100_000))
		r := record.Record{Key: []byte(w.key), Timestamp: w.timestamp}
		if w.null = m.rand.IntN(5) == 0; !w.null {
			w.value = strings.Repeat(fmt.Sprint(m.next+int64(i), " "), 1+m.rand.IntN(10))
			r.Value = []byte(w.value)
		}
		for h := range m.rand.IntN(3) {
			r.Headers = append(r.Headers, record.Header{Key: fmt.Append(nil, "header ", h), Value: fmt.Append(nil, m.next)[:m.rand.IntN(2)]})
		}
		w.headers = fmt.Sprintf("%q", r.Headers)
		b.Append(r)
		m.wrote[m.next+int64(i)] = w
		if state == open {
			s.txn = append(s.txn, m.next+int64(i))
		}
	}
	if s != nil {
		s.last, s.offset, s.timestamp = bytes.Clone(b.Bytes()), m.next, record.Batch(b.Bytes()).MaxTimestamp()
		s.next += int32(n)
	}
	m.write(b.Bytes(), n, storage.OriginClient)
}

func (m *model) write(b record.Batch, n int, from storage.Origin) {
	m.t.Helper()
	a := appendDurably(m.t, m.log, b, from)
	if a.BaseOffset != m.next || a.Duplicate {
		m.t.Fatalf("appended at offset %d, as a duplicate: %v, want %d", a.BaseOffset, a.Duplicate, m.next)
	}
	m.next += int64(n)
}

// forgotten is whether the log may know a producer no more.
func (m *model) forgotten(s *sender) bool {
	return len(s.txn) == 0 && m.latest.UnixMilli()-s.timestamp >= m.expiry.Milliseconds()
}

// sendAgain sends the last batch of each producer again, and one behind it that leaves some out.
func (m *model) sendAgain() {
	m.t.Helper()
	for i, s := range m.senders {
		if s.last == nil || m.forgotten(s) {
			continue
		}
		a, err := m.log.Append(bytes.Clone(s.last), storage.AppendOptions{Unverified: true})
		if err != nil || !a.Duplicate || a.BaseOffset != s.offset {
			m.t.Errorf("the last batch of producer %d, sent again: %+v, %v, want the offset %d of before", firstSender+i, a, err, s.offset)
		}
		b := record.NewBuilder(record.BuilderOptions{
			LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: firstSender + int64(i), ProducerEpoch: s.epoch,
			BaseSequence: s.next + 1, Transactional: s.last.Transactional(),
		})
		b.Append(record.Record{Key: []byte("too far"), Timestamp: m.now.UnixMilli()})
		if a, err := m.log.Append(b.Bytes(), storage.AppendOptions{Unverified: true}); !errors.Is(err, storage.ErrOutOfOrderSequence) {
			m.t.Errorf("sequence %d of producer %d, want %d: %+v, %v, want that it is refused", s.next+1, firstSender+i, s.next, a, err)
		}
	}
}

// endTxn commits or aborts an open transaction.
func (m *model) endTxn() {
	for i, s := range m.senders {
		if len(s.txn) == 0 {
			continue
		}
		commit := m.rand.IntN(2) == 0
		for _, o := range s.txn {
			if m.wrote[o].state = committed; !commit {
				m.wrote[o].state = aborted
			}
		}
		s.txn, s.timestamp = nil, m.now.UnixMilli()
		if m.rand.IntN(2) == 0 { // transactions of version 2
			s.epoch, s.next, s.last = s.epoch+1, 0, nil
		}
		marker := record.EndTxnMarker(firstSender+int64(i), s.epoch, record.Marker{Commit: commit}, m.now.UnixMilli(), 0)
		m.write(marker, 1, storage.OriginCoordinator)
		return
	}
}

// sweep cleans what is due, or everything, and looks at the outcome.
func (m *model) sweep() {
	m.t.Helper()
	before, bytesBefore := m.read()
	ceiling := int64(0)
	if m.rand.IntN(2) == 0 {
		ceiling = m.ceiling(m.log.CleanedTo())
		m.c.Compact(context.Background())
		if s := m.c.Stats(); len(s.SetAside) > 0 {
			m.t.Fatalf("set aside: %+v", s.SetAside)
		}
	} else {
		ceiling = m.ceiling(0)
		if _, err := m.c.Force(context.Background(), m.log); err != nil {
			m.t.Fatal(err)
		}
	}
	after, bytesAfter := m.read()
	m.check(before, after)
	m.same("after a sweep", bytesBefore, bytesAfter, ceiling)
	m.sendAgain()
}

// ceiling is the offset from which on a sweep has to leave everything as it is: the open segment, that of the last stable
// offset, and the first segment above what is clean in which a record is younger than min.compaction.lag.ms.
func (m *model) ceiling(cleanedTo int64) int64 {
	m.t.Helper()
	o, err := m.log.Offsets()
	m.fatal(err)
	segments, err := m.log.Segments()
	m.fatal(err)
	lag, err := strconv.ParseInt(m.configs["min.compaction.lag.ms"], 10, 64)
	m.fatal(err)
	largest := map[int64]int64{} // timestamp of each segment, by base offset
	i := 0
	batches(m.t, m.log, 0, func(b record.Batch) {
		for segments[i].NextOffset <= b.BaseOffset() {
			i++
		}
		largest[segments[i].BaseOffset] = max(largest[segments[i].BaseOffset], b.MaxTimestamp())
	})
	for i, s := range segments {
		young := lag > 0 && s.NextOffset > cleanedTo && largest[s.BaseOffset] > m.now.UnixMilli()-lag
		if i == len(segments)-1 || s.NextOffset > o.LastStable || young {
			return s.BaseOffset
		}
	}
	return 0
}

// read returns the records of the log by offset, as a reader of everything sees them, and the bytes of its batches by base
// offset.
func (m *model) read() (found map[int64]*written, raw map[int64]string) {
	m.t.Helper()
	found, raw = map[int64]*written{}, map[int64]string{}
	last := int64(-1)
	batches(m.t, m.log, 0, func(b record.Batch) { raw[b.BaseOffset()] = string(b) })
	records(m.t, m.log, 0, func(b record.Batch, r record.Record) {
		if r.Offset <= last {
			m.t.Errorf("offset %d after %d", r.Offset, last)
		}
		last = r.Offset
		if !b.Control() {
			found[r.Offset] = &written{
				key: string(r.Key), value: string(r.Value), null: r.Value == nil, headers: fmt.Sprintf("%q", r.Headers),
				timestamp: r.Timestamp, producer: b.ProducerID(), txn: b.Transactional(),
			}
		}
	})
	return found, raw
}

// same compares the bytes of batches from an offset on.
func (m *model) same(when string, before, after map[int64]string, from int64) {
	m.t.Helper()
	maps.DeleteFunc(before, func(base int64, _ string) bool { return base < from })
	maps.DeleteFunc(after, func(base int64, _ string) bool { return base < from })
	for base, b := range before {
		if after[base] != b {
			m.t.Errorf("%s: the batch at offset %d is %q, want %q as before", when, base, after[base], b)
		}
	}
	if len(after) != len(before) {
		m.t.Errorf("%s: %d batches from offset %d on, want %d", when, len(after), from, len(before))
	}
}

// check compares what a reader finds with what was written.
func (m *model) check(before, after map[int64]*written) {
	m.t.Helper()
	o, err := m.log.Offsets()
	m.fatal(err)
	if o.End != m.next {
		m.t.Errorf("log ends at %d, want %d", o.End, m.next)
	}
	for offset, got := range after {
		want := m.wrote[offset]
		if !want.matches(got) {
			m.t.Errorf("offset %d: got %+v, want %+v", offset, got, want)
		}
		if before[offset] == nil {
			m.t.Errorf("offset %d came back", offset)
		}
	}
	want, last := map[string]string{}, map[string]int64{}
	for offset := range m.next {
		w := m.wrote[offset]
		if w == nil {
			continue
		}
		if offset >= o.LastStable || w.state == aborted {
			continue
		}
		last[w.key] = offset
		if want[w.key] = w.value; w.null {
			delete(want, w.key)
		}
	}
	for key, offset := range last {
		if !m.wrote[offset].null && after[offset] == nil {
			m.t.Errorf("the last value of %s, at offset %d, is gone", key, offset)
		}
	}
	if got := endState(m.t, m.log, o.LastStable, 4<<10); !maps.Equal(got, want) {
		m.t.Errorf("a consumer ends with %d keys, want %d:%s", len(got), len(want), difference(got, want))
	}
}

// difference names the first few keys in which the states differ.
func difference(got, want map[string]string) string {
	var b bytes.Buffer
	n := 0
	for k := range got {
		if w, ok := want[k]; (!ok || w != got[k]) && n < 5 {
			fmt.Fprintf(&b, "\n  %s: got %q, want %q (%v)", k, got[k], w, ok)
			n++
		}
	}
	for k, w := range want {
		if _, ok := got[k]; !ok && n < 10 {
			fmt.Fprintf(&b, "\n  %s: got nothing, want %q", k, w)
			n++
		}
	}
	return b.String()
}
