package wire

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
)

// TestReadersSeeWhatProducersCommitted lets producers with transactions write to shared partitions, each on a connection
// of its own and without waiting for each answer, over a disk that takes its time. Who reads committed records finds
// those of the committed transactions, whole and in the order in which they were sent.
func TestReadersSeeWhatProducersCommitted(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newTransactionsModel(t, seed).run(300) })
		})
	}
}

// transactionsModel is the producers and what readers are to find.
type transactionsModel struct {
	t         *testing.T
	s         *server
	rng       *rand.Rand
	producers []*modelProducer
	committed map[string][][]string // by producer: of each committed transaction its values, "partition value"
}

// modelProducer is a producer on its connection.
type modelProducer struct {
	*txnProducer
	c       *client
	version int16
	added   map[int32]bool         // partitions of the transaction; for versions that add none
	sent    []*kmsg.ProduceRequest // whose answers are not read yet
	first   int32                  // correlation id of the first of them
	values  []string               // of the transaction
	count   int
}

const modelPartitions = 3

func newTransactionsModel(t *testing.T, seed uint64) *transactionsModel {
	m := &transactionsModel{
		t: t, s: newServer(t, nil), rng: rand.New(rand.NewPCG(seed, 0)), committed: map[string][][]string{},
	}
	withTransactions(m.s.broker)
	m.s.topic("t", modelPartitions)
	for i, version := range []int16{9, 11, 12, 13} {
		p := &modelProducer{txnProducer: m.s.txnProducer(fmt.Sprint("tx", i)), c: m.s.dial(t), version: version, added: map[int32]bool{}}
		m.producers = append(m.producers, p)
	}
	var mu sync.Mutex // the disk has random numbers of its own, since it is used at any time
	disk := rand.New(rand.NewPCG(seed, 1))
	hook := func(o vfs.Op) error {
		if o.Kind == vfs.OpSync && strings.HasSuffix(o.Name, ".log") {
			mu.Lock()
			took := time.Duration(disk.IntN(30)) * time.Millisecond
			mu.Unlock()
			<-time.After(took)
		}
		return nil
	}
	m.s.onOp.Store(&hook)
	return m
}

// run lets producers do something, by turns at random, and then reads.
func (m *transactionsModel) run(steps int) {
	for range steps {
		p := m.producers[m.rng.IntN(len(m.producers))]
		switch {
		case len(p.sent) == 0 && len(p.values) > 0 && m.rng.IntN(3) == 0:
			m.end(p, m.rng.IntN(3) > 0)
		case len(p.sent) == 0:
			m.send(p)
		default:
			m.receive(p)
		}
	}
	for _, p := range m.producers {
		m.receive(p)
		if len(p.values) > 0 {
			m.end(p, true)
		}
	}
	<-time.After(time.Second) // for the markers
	m.s.onOp.Store(nil)
	m.check()
}

// send sends a few batches at once.
func (m *transactionsModel) send(p *modelProducer) {
	var reqs []kmsg.Request
	for range 1 + m.rng.IntN(4) {
		partition := int32(m.rng.IntN(modelPartitions))
		if p.version < produceAdds && !p.added[partition] {
			m.until(p, func() error {
				return m.s.s.txns.Add(m.t.Context(), txn.AddRequest{
					TransactionalID: p.id, Producer: p.Producer, Partitions: []txn.Partition{{Topic: "t", Partition: partition}},
				})
			})
			p.added[partition] = true
		}
		value := fmt.Sprintf("%d %s-%d", partition, p.id, p.count)
		p.count++
		p.values = append(p.values, value)
		req := p.request(p.version, "t", p.batch("t", partition, value))
		p.sent, reqs = append(p.sent, req), append(reqs, req)
	}
	p.first = p.c.id + 1
	p.c.pipeline(reqs...)
}

// receive reads the answers, and sends again, one after the other, what was not taken.
func (m *transactionsModel) receive(p *modelProducer) {
	var again []*kmsg.ProduceRequest
	for i, req := range p.sent {
		if code := m.code(p.c.receive(req, p.first+int32(i))); code != 0 {
			again = append(again, req)
		}
	}
	p.sent = nil
	for _, req := range again {
		m.until(p, func() error {
			if code := m.code(p.c.call(req)); code != 0 {
				return txn.ErrConcurrentTransactions
			}
			return nil
		})
	}
}

// code returns the code of an answer: 0, or one after which a producer sends again.
func (m *transactionsModel) code(resp kmsg.Response) int16 {
	code := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode
	if !slices.Contains([]int16{0, 19, 45, 51}, code) {
		m.t.Fatalf("produce answers error %d", code)
	}
	return code
}

// until calls f until the producer's last transaction is over.
func (m *transactionsModel) until(p *modelProducer, f func() error) {
	for range 100 {
		err := f()
		if err == nil {
			return
		}
		if !errors.Is(err, txn.ErrConcurrentTransactions) {
			m.t.Fatalf("%s: %v", p.id, err)
		}
		<-time.After(10 * time.Millisecond)
	}
	m.t.Fatalf("%s: its last transaction does not end", p.id)
}

// end ends the transaction, and does not wait for its markers.
func (m *transactionsModel) end(p *modelProducer, commit bool) {
	v2 := p.version >= produceAdds
	got, err := m.s.s.txns.End(m.t.Context(), txn.EndRequest{TransactionalID: p.id, Producer: p.Producer, Commit: commit, V2: v2})
	if err != nil {
		m.t.Fatalf("end of %s: %v", p.id, err)
	}
	if v2 {
		p.Producer, p.next = got, map[fetchKey]int32{}
	}
	if commit {
		m.committed[p.id] = append(m.committed[p.id], p.values)
	}
	p.values, p.added = nil, map[int32]bool{}
}

// check reads all partitions as a consumer of committed records does.
func (m *transactionsModel) check() {
	for partition := range int32(modelPartitions) {
		var want []string
		for _, p := range m.producers {
			for _, values := range m.committed[p.id] {
				for _, v := range values {
					if strings.HasPrefix(v, fmt.Sprint(partition, " ")) {
						want = append(want, v)
					}
				}
			}
		}
		var got []string
		for _, p := range m.producers {
			got = append(got, m.read(partition, p.id)...)
		}
		if !slices.Equal(got, want) {
			m.t.Errorf("partition %d: a reader finds\n%v, want\n%v", partition, got, want)
		}
		if o := m.s.offsets("t", partition); o.LastStable != o.End {
			m.t.Errorf("partition %d: last stable offset %d of %d, want no open transaction", partition, o.LastStable, o.End)
		}
	}
	for _, p := range m.producers {
		if len(m.committed[p.id]) == 0 {
			m.t.Errorf("%s committed nothing, want some", p.id)
		}
	}
}

// read returns the committed values of one transactional id in a partition.
func (m *transactionsModel) read(partition int32, id string) (values []string) {
	req := m.s.fetchRequest(12, asked{"t", partition, 0})
	req.IsolationLevel = 1
	got := m.s.fetchOne(req)
	slices.SortFunc(got.AbortedTransactions, func(a, b kmsg.FetchResponseTopicPartitionAbortedTransaction) int {
		return int(a.FirstOffset - b.FirstOffset)
	})
	aborting := map[int64]bool{} // by producer id
	var r record.Reader
	for _, batch := range m.s.batches(got.RecordBatches) {
		for len(got.AbortedTransactions) > 0 && got.AbortedTransactions[0].FirstOffset <= batch.LastOffset() {
			aborting[got.AbortedTransactions[0].ProducerID] = true
			got.AbortedTransactions = got.AbortedTransactions[1:]
		}
		for rec, err := range r.Records(batch) {
			switch {
			case err != nil:
				m.t.Fatal(err)
			case batch.Control():
				marker, _, err := record.ParseEndTxnMarker(rec)
				if err != nil {
					m.t.Fatal(err)
				}
				if !marker.Commit {
					delete(aborting, batch.ProducerID())
				}
			case !aborting[batch.ProducerID()] && strings.Contains(string(rec.Value), " "+id+"-"):
				values = append(values, string(rec.Value))
			}
		}
	}
	return values
}
