package txn

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

var modelSeed = flag.Uint64("model.seed", 0, "the one seed that TestModelOfTransactions runs; 0 runs several")

// The model test runs producers of both versions that begin, write, end, ask again and fence
// each other at random, over crashes of the broker, faults of its disk and timeouts. When
// the storm is over, every transaction must have ended in all of its partitions, in each
// in the same way, and as its producer was told; and no producer was given out twice.

const (
	modelIDs        = 3
	modelPartitions = 4
)

// model is the broker and its clients, and what these were promised.
type model struct {
	t    *testing.T
	rand *rand.Rand
	seed uint64
	w    *world
	// dark is set when the power is cut: what is answered from then on nobody hears.
	dark atomic.Bool

	clients []*modelClient
	serial  int
	// given are the clients that were given a producer.
	given map[Producer]*modelClient
	// wrote are the partitions that hold data of a transaction, for certain, by its serial;
	// told is how it ended.
	wrote   map[int][]Partition
	told    map[int]bool
	ends    map[string]int // answers
	history []string
}

// modelClient is a producer. One transaction of it has one serial.
type modelClient struct {
	name, id string
	v2       bool

	producer Producer // NoProducer before Init
	serial   int
	added    []Partition
	ending   bool // it asked for the end, and asks until it knows
	commit   bool

	busy   bool // a call is not answered
	answer chan func()
}

func (m *model) note(format string, args ...any) {
	m.history = append(m.history, fmt.Sprintf(format, args...))
}

func (m *model) failf(format string, args ...any) {
	m.t.Helper()
	for _, line := range m.history[max(0, len(m.history)-60):] {
		m.t.Log(line)
	}
	m.t.Fatalf("%s\nrepeat with: go test ./txn -run TestModelOfTransactions -model.seed %d", fmt.Sprintf(format, args...), m.seed)
}

// partition is where a number stands.
func modelPartition(n int) Partition {
	if n == 0 {
		return Partition{offsetsTopic, 0}
	}
	return Partition{"orders", int32(n - 1)}
}

// call makes a call of a client, whose answer is taken in a later round.
func modelCall[R any](m *model, c *modelClient, f func(*Coordinator) (R, error), then func(R, error)) {
	c.busy = true
	broker, answer := m.w.c, make(chan func(), 1)
	c.answer = answer
	go func() {
		r, err := f(broker)
		if m.dark.Load() {
			err = ErrNotAvailable
		}
		answer <- func() { then(r, err) }
	}()
}

func (m *model) take(c *modelClient) {
	if !c.busy {
		return
	}
	select {
	case answer := <-c.answer:
		c.busy = false
		answer()
	default:
	}
}

// step does a client's next thing.
func (m *model) step(c *modelClient) {
	switch {
	case c.producer == NoProducer:
		m.init(c, nil)
	case c.ending || len(c.added) > 0 && m.rand.IntN(3) == 0:
		m.end(c)
	case m.rand.IntN(30) == 0:
		m.init(c, nil)
	case m.rand.IntN(30) == 0:
		p := c.producer
		m.init(c, &p)
	case len(c.added) > 0 && m.rand.IntN(2) == 0:
		m.write(c)
	default:
		m.add(c)
	}
}

// begin is a new transaction of a client.
func (m *model) begin(c *modelClient, p Producer) {
	m.serial++
	c.producer, c.serial, c.added, c.ending = p, m.serial, nil, false
}

func (m *model) init(c *modelClient, expected *Producer) {
	timeout := time.Minute
	if m.rand.IntN(3) == 0 {
		timeout = 5 * time.Second
	}
	modelCall(m, c, func(k *Coordinator) (Producer, error) {
		return k.Init(m.t.Context(), InitRequest{TransactionalID: c.id, Timeout: timeout, Expected: expected})
	}, func(p Producer, err error) {
		m.note("%s init %s, %v expected: %s %v", c.name, c.id, expected, producerText(p), err)
		switch {
		case err == nil:
			m.give(c, p)
			m.begin(c, p)
		case errors.Is(err, ErrProducerFenced), expected == nil && errors.Is(err, ErrConcurrentTransactions):
			m.begin(c, NoProducer) // its transaction is being aborted, or is another's by now
		}
	})
}

// give notes that a client has a producer: nobody else had it.
func (m *model) give(c *modelClient, p Producer) {
	if other := m.given[p]; other != nil && other != c {
		m.failf("%s is given %s, which %s has", c.name, producerText(p), other.name)
	}
	m.given[p] = c
}

func (m *model) add(c *modelClient) {
	var in []Partition
	for range 1 + m.rand.IntN(2) {
		in = append(in, modelPartition(m.rand.IntN(modelPartitions)))
	}
	p, serial := c.producer, c.serial
	modelCall(m, c, func(k *Coordinator) (struct{}, error) {
		return struct{}{}, k.Add(m.t.Context(), AddRequest{TransactionalID: c.id, Producer: p, Partitions: in, V2: c.v2})
	}, func(_ struct{}, err error) {
		m.note("%s adds to %d %v: %v", c.name, serial, in, err)
		switch {
		case err == nil:
			c.added = append(c.added, in...)
		case errors.Is(err, ErrProducerFenced), errors.Is(err, ErrInvalidProducerIDMapping):
			m.begin(c, NoProducer)
		}
	})
}

// write produces to a partition that was added, as a log does that has verified it.
func (m *model) write(c *modelClient) {
	at := c.added[m.rand.IntN(len(c.added))]
	errs, err := m.w.c.Verify(m.t.Context(), AddRequest{TransactionalID: c.id, Producer: c.producer, Partitions: []Partition{at}})
	if err = errors.Join(append(errs, err)...); err != nil {
		m.note("%s cannot write to %v in %d: %v", c.name, at, c.serial, err)
		if errors.Is(err, ErrProducerFenced) || errors.Is(err, ErrInvalidProducerIDMapping) || errors.Is(err, ErrNotInTransaction) {
			m.begin(c, NoProducer)
		}
		return
	}
	b := record.NewBuilder(record.BuilderOptions{
		LeaderEpoch: record.NoLeaderEpoch, Transactional: true,
		HasProducer: true, ProducerID: c.producer.ID, ProducerEpoch: c.producer.Epoch, BaseSequence: record.NoSequence,
	})
	b.Append(record.Record{Timestamp: m.w.clock().UnixMilli(), Value: fmt.Append(nil, c.serial)})
	log, serial := m.w.log(at), c.serial
	modelCall(m, c, func(*Coordinator) (struct{}, error) {
		a, err := log.Append(b.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator, Unverified: true})
		if err == nil {
			err = log.WaitDurable(context.Background(), a)
		}
		return struct{}{}, err
	}, func(_ struct{}, err error) {
		m.note("%s writes to %v in %d: %v", c.name, at, serial, err)
		if err == nil {
			m.wrote[serial] = append(m.wrote[serial], at)
		}
	})
}

func (m *model) end(c *modelClient) {
	if !c.ending {
		c.ending, c.commit = true, m.rand.IntN(3) > 0
	}
	p, serial, commit := c.producer, c.serial, c.commit
	modelCall(m, c, func(k *Coordinator) (Producer, error) {
		return k.End(m.t.Context(), EndRequest{TransactionalID: c.id, Producer: p, Commit: commit, V2: c.v2})
	}, func(next Producer, err error) {
		m.note("%s ends %d with commit %t: %s %v", c.name, serial, commit, producerText(next), err)
		m.ends[kafkaName(err)]++
		switch {
		case err == nil && c.v2:
			m.told[serial] = commit
			m.give(c, next)
			m.begin(c, next)
		case err == nil:
			m.told[serial] = commit
			m.begin(c, p)
		case errors.Is(err, ErrProducerFenced), errors.Is(err, ErrInvalidProducerIDMapping), errors.Is(err, ErrInvalidTxnState):
			m.begin(c, NoProducer)
		}
	})
}

// storm is one round: some clients do something, or time goes by, or something breaks.
func (m *model) storm() {
	switch n := m.rand.IntN(100); {
	case n < 3:
		m.crash()
	case n < 4:
		m.restart()
	case n < 6:
		m.breakOnce()
	case n < 16:
		d := time.Duration(m.rand.IntN(4000)) * time.Millisecond
		m.note("%v go by", d)
		m.w.advance(d)
	default:
		for range 1 + m.rand.IntN(4) {
			if c := m.clients[m.rand.IntN(len(m.clients))]; !c.busy {
				m.step(c)
			}
		}
	}
	m.settle()
}

// settle lets what can go on go on, and clients read their answers.
func (m *model) settle() {
	synctest.Wait()
	for _, c := range m.clients {
		m.take(c)
	}
}

// breakOnce lets one of the next syncs fail.
func (m *model) breakOnce() {
	left := 1 + m.rand.IntN(3)
	m.note("the sync after %d fails", left)
	m.w.breakDisk(func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !strings.HasSuffix(op.Name, ".log") {
			return nil
		}
		m.w.mu.Lock()
		defer m.w.mu.Unlock()
		if left--; left == 0 {
			return errors.New("disk on fire")
		}
		return nil
	})
}

// crash cuts the power at one of the next syncs, while clients go on, and starts again.
func (m *model) crash() {
	left, seed, keep := 1+m.rand.IntN(4), m.rand.Uint64(), m.rand.Float64()
	var after *vfs.Mem
	mem := m.w.mem
	m.w.breakDisk(func(op vfs.Op) error {
		m.w.mu.Lock()
		defer m.w.mu.Unlock()
		if after != nil {
			return errors.New("no power")
		}
		if op.Kind != vfs.OpSync && op.Kind != vfs.OpSyncDir {
			return nil
		}
		if left--; left == 0 {
			m.dark.Store(true)
			after = mem.CrashClone(seed, keep)
			return errors.New("no power")
		}
		return nil
	})
	for range 5 {
		for _, c := range m.clients {
			if !c.busy {
				m.step(c)
			}
		}
		m.settle()
	}
	m.w.mu.Lock()
	if after == nil {
		m.dark.Store(true)
		after = mem.CrashClone(seed, keep)
	}
	m.w.mu.Unlock()
	m.note("crash, %.2f kept", keep)
	m.w.kill()
	m.settle()
	m.dark.Store(false)
	m.open(after)
}

func (m *model) restart() {
	m.note("restart")
	m.w.breakDisk(nil)
	m.w.stop()
	m.settle()
	m.open(m.w.mem)
}

// open starts the broker on a disk.
func (m *model) open(mem *vfs.Mem) {
	now := start
	if m.w != nil {
		now = m.w.clock()
	}
	m.w = openWorldAt(m.t, mem, now, func(w *world, ctx context.Context, partition int32, k Marker) error {
		topic, ok := w.store.Topic(offsetsTopic)
		if !ok {
			return storage.ErrUnknownTopic
		}
		log, _ := topic.Partition(partition)
		wait, err := appendMarker(ctx, log, k, w.clock())
		if err != nil {
			return err
		}
		return wait()
	})
	for name, n := range map[string]int32{"orders": modelPartitions - 1, offsetsTopic: 1} {
		if _, ok := m.w.store.Topic(name); !ok {
			m.w.topic(name, n)
		}
	}
}

// check is what must hold when all transactions have ended.
func (m *model) check() {
	outcome := map[int]bool{} // by serial
	for n := range modelPartitions {
		p := modelPartition(n)
		open := map[int64][]int{} // serials by producer id
		found := map[int]bool{}
		m.w.batches(m.w.log(p), func(b record.Batch, r record.Record) {
			if !b.Control() {
				var serial int
				fmt.Sscan(string(r.Value), &serial)
				open[b.ProducerID()] = append(open[b.ProducerID()], serial)
				found[serial] = true
				return
			}
			marker, _, err := record.ParseEndTxnMarker(r)
			if err != nil {
				m.failf("%v: %v", p, err)
			}
			for _, serial := range open[b.ProducerID()] {
				if commit, ok := outcome[serial]; ok && commit != marker.Commit {
					m.failf("transaction %d is committed in one partition and aborted in another, which is %v", serial, p)
				}
				outcome[serial] = marker.Commit
			}
			delete(open, b.ProducerID())
		})
		if len(open) > 0 {
			m.failf("%v has open transactions: %v", p, open)
		}
		for serial, in := range m.wrote {
			if slices.Contains(in, p) && !found[serial] {
				m.failf("%v does not hold what was written in transaction %d", p, serial)
			}
		}
	}
	for serial, commit := range m.told {
		if got, ok := outcome[serial]; ok && got != commit {
			m.failf("transaction %d ended with commit %t, its producer was told %t", serial, got, commit)
		}
	}
	for n := range modelIDs {
		id := fmt.Sprint("id", n)
		d, err := m.w.c.Describe(id)
		if err != nil || d.State != "Empty" && !strings.HasPrefix(d.State, "Complete") {
			m.failf("%s: got %+v, error %v; want it at rest", id, d, err)
		}
	}
}

// rest waits until all transactions have ended, of their own or because their time is over.
func (m *model) rest() {
	m.w.breakDisk(nil)
	m.restart() // a log may be offline
	for range 20 {
		m.w.advance(10 * time.Second)
		m.settle()
	}
	for _, c := range m.clients {
		m.begin(c, NoProducer)
	}
}

func TestModelOfTransactions(t *testing.T) {
	seeds := []uint64{*modelSeed}
	if *modelSeed == 0 {
		seeds = nil
		for seed := range uint64(20) {
			seeds = append(seeds, seed+1)
		}
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &model{t: t, rand: rand.New(rand.NewPCG(seed, 5)), seed: seed,
					given: map[Producer]*modelClient{}, wrote: map[int][]Partition{}, told: map[int]bool{}, ends: map[string]int{}}
				m.open(vfs.NewMem(vfs.MemOptions{Crashable: true}))
				defer func() { m.w.stop() }()
				for n := range 5 {
					m.clients = append(m.clients, &modelClient{name: fmt.Sprint("c", n), id: fmt.Sprint("id", n%modelIDs), v2: n%2 == 0, producer: NoProducer})
				}
				for range 3 {
					for range 150 {
						m.storm()
					}
					m.rest()
					m.check()
				}
				commits := 0
				for _, commit := range slices.Collect(maps.Values(m.told)) {
					if commit {
						commits++
					}
				}
				if commits < 10 || len(m.wrote) < 30 {
					m.failf("%d transactions were committed of %d that wrote, want more; answers to ends: %v", commits, len(m.wrote), m.ends)
				}
			})
		})
	}
}
