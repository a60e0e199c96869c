package cleaner

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
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

// TestModel makes random writes, transactions, sweeps, restarts and jumps of the clock, and compares what a consumer finds
// after each sweep with a plain list of what was written.
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
	timestamp  int64
	producer   int64
	state      int8 // open, committed or aborted
}

const (
	committed int8 = iota // or outside of any transaction
	open
	aborted
)

// model is a log beside a list of what was written to it.
type model struct {
	t       *testing.T
	seed    uint64
	rand    *rand.Rand
	fs      *vfs.Mem
	now     time.Time
	configs map[string]string
	store   *storage.Store
	c       *Cleaner
	log     *storage.Log

	wrote     map[int64]*written
	next      int64
	sequences map[int64]int32   // of idempotent producers
	epochs    map[int64]int16   // likewise; a marker may bring the next
	txns      map[int64][]int64 // offsets of open transactions
	starts    int
}

func runModel(t *testing.T, seed uint64) {
	m := &model{
		t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), now: time.UnixMilli(1_700_000_000_000),
		wrote: map[int64]*written{}, sequences: map[int64]int32{}, epochs: map[int64]int16{}, txns: map[int64][]int64{},
	}
	m.fs = vfs.NewMem(vfs.MemOptions{Now: m.clock})
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
		case p < 92:
			m.restart()
		default:
			m.now = m.now.Add(time.Duration(m.rand.IntN(200_000)-40_000) * time.Millisecond)
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
	store, err := storage.Open("data", storage.Options{FS: m.fs, Now: m.clock, ProducerIDExpiration: time.Hour})
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
}

func (m *model) restart() {
	m.t.Helper()
	m.fatal(m.store.Close())
	m.start()
}

// append writes a batch of some records, sometimes of a producer or in a transaction.
func (m *model) append() {
	o := record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, BaseSequence: record.NoSequence}
	o.Codec = record.Codec(m.rand.IntN(5))
	producer := int64(-1)
	state := committed
	if m.rand.IntN(3) == 0 {
		producer = int64(100 + m.rand.IntN(4))
		o.HasProducer, o.ProducerID, o.ProducerEpoch, o.BaseSequence = true, producer, m.epochs[producer], m.sequences[producer]
		if producer >= 102 {
			o.Transactional, state = true, open
		}
	}
	b := record.NewBuilder(o)
	n := 1 + m.rand.IntN(20)
	for i := range n {
		k := int(10_000 * m.rand.Float64() * m.rand.Float64() * m.rand.Float64())
		w := &written{key: fmt.Sprintf("key-%d%s", k, strings.Repeat("-", k%3*30)), producer: producer, state: state}
		w.timestamp = m.now.UnixMilli() - int64(m.rand.IntN(100_000))
		r := record.Record{Key: []byte(w.key), Timestamp: w.timestamp}
		if w.null = m.rand.IntN(5) == 0; !w.null {
			w.value = strings.Repeat(fmt.Sprint(m.next+int64(i), " "), 1+m.rand.IntN(10))
			r.Value = []byte(w.value)
		}
		b.Append(r)
		m.wrote[m.next+int64(i)] = w
		if state == open {
			m.txns[producer] = append(m.txns[producer], m.next+int64(i))
		}
	}
	if producer >= 0 {
		m.sequences[producer] += int32(n)
	}
	m.write(b.Bytes(), n)
}

func (m *model) write(b record.Batch, n int) {
	m.t.Helper()
	a := appendDurably(m.t, m.log, b, storage.OriginCoordinator)
	if a.BaseOffset != m.next {
		m.t.Fatalf("appended at offset %d, want %d", a.BaseOffset, m.next)
	}
	m.next += int64(n)
}

// endTxn commits or aborts an open transaction.
func (m *model) endTxn() {
	for _, producer := range []int64{102, 103} {
		offsets := m.txns[producer]
		if len(offsets) == 0 {
			continue
		}
		commit := m.rand.IntN(2) == 0
		for _, o := range offsets {
			if m.wrote[o].state = committed; !commit {
				m.wrote[o].state = aborted
			}
		}
		delete(m.txns, producer)
		if m.rand.IntN(2) == 0 { // transactions of version 2
			m.epochs[producer]++
			m.sequences[producer] = 0
		}
		m.write(record.EndTxnMarker(producer, m.epochs[producer], record.Marker{Commit: commit}, m.now.UnixMilli(), 0), 1)
		return
	}
}

// sweep cleans what is due, or everything, and looks at the outcome.
func (m *model) sweep() {
	m.t.Helper()
	before := m.read()
	if m.rand.IntN(2) == 0 {
		m.c.Compact(context.Background())
		if s := m.c.Stats(); len(s.SetAside) > 0 {
			m.t.Fatalf("set aside: %+v", s.SetAside)
		}
	} else if _, err := m.c.Force(context.Background(), m.log); err != nil {
		m.t.Fatal(err)
	}
	after := m.read()
	m.check(before, after)
}

// read returns the records of the log by offset, as a reader of everything sees them.
func (m *model) read() map[int64]*written {
	m.t.Helper()
	found := map[int64]*written{}
	last := int64(-1)
	records(m.t, m.log, 0, func(b record.Batch, r record.Record) {
		if r.Offset <= last {
			m.t.Errorf("offset %d after %d", r.Offset, last)
		}
		last = r.Offset
		if !b.Control() {
			found[r.Offset] = &written{key: string(r.Key), value: string(r.Value), null: r.Value == nil, timestamp: r.Timestamp, producer: b.ProducerID()}
		}
	})
	return found
}

// check compares what a reader finds with what was written.
func (m *model) check(before, after map[int64]*written) {
	m.t.Helper()
	o, err := m.log.Offsets()
	m.fatal(err)
	segments, err := m.log.Segments()
	m.fatal(err)
	if o.End != m.next {
		m.t.Errorf("log ends at %d, want %d", o.End, m.next)
	}
	for offset, got := range after {
		want := m.wrote[offset]
		if want == nil || got.key != want.key || got.value != want.value || got.null != want.null || got.timestamp != want.timestamp || got.producer != want.producer {
			m.t.Errorf("offset %d: got %+v, want %+v", offset, got, want)
		}
		if before[offset] == nil {
			m.t.Errorf("offset %d came back", offset)
		}
	}
	ceiling := o.LastStable
	if n := len(segments); n > 0 {
		ceiling = min(ceiling, segments[n-1].BaseOffset)
	}
	want, last := map[string]string{}, map[string]int64{}
	for offset := range m.next {
		w := m.wrote[offset]
		if w == nil {
			continue
		}
		if offset >= ceiling && after[offset] == nil {
			m.t.Errorf("offset %d is gone, at or above the ceiling %d", offset, ceiling)
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
	if got := m.consume(o.LastStable); !equal(got, want) {
		m.t.Errorf("a consumer ends with %d keys, want %d:%s", len(got), len(want), difference(got, want))
	}
}

// consume reads as a read_committed client from the beginning does: what a producer wrote in an aborted transaction is
// dropped until a marker says that it ended. It returns the state it ends with.
func (m *model) consume(to int64) map[string]string {
	m.t.Helper()
	state := map[string]string{}
	var reader record.Reader
	for offset := int64(0); offset < to; {
		res, err := m.log.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: 4 << 10, MinOneBatch: true, Isolation: storage.ReadCommitted})
		m.fatal(err)
		if len(res.Data) == 0 {
			break
		}
		dropped := map[int64]bool{} // producers whose data is of an aborted transaction
		for rest := res.Data; len(rest) > 0; {
			var b record.Batch
			b, rest, err = record.Cut(rest)
			m.fatal(err)
			offset = b.NextOffset()
			for len(res.Aborted) > 0 && res.Aborted[0].FirstOffset <= b.LastOffset() {
				dropped[res.Aborted[0].ProducerID] = true
				res.Aborted = res.Aborted[1:]
			}
			if b.Control() {
				for r, err := range reader.Records(b) {
					m.fatal(err)
					if end, ok, err := record.ParseEndTxnMarker(r); err == nil && ok && !end.Commit {
						delete(dropped, b.ProducerID())
					}
				}
				continue
			}
			if b.Transactional() && dropped[b.ProducerID()] {
				continue
			}
			for r, err := range reader.Records(b) {
				m.fatal(err)
				if state[string(r.Key)] = string(r.Value); r.Value == nil {
					delete(state, string(r.Key))
				}
			}
		}
	}
	return state
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
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
