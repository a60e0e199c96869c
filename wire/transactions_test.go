package wire

import (
	"context"
	"sync"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/txn"
)

// withTransactions makes __transaction_state for a broker, whose coordinators it makes if need be. It belongs to a
// synctest bubble, since the end of a transaction is written in the background.
func withTransactions(b *broker) *broker {
	b.t.Helper()
	if b.s.txns == nil {
		withGroups(b)
	}
	if _, err := b.s.txns.EnsureTopic(); err != nil {
		b.t.Fatal(err)
	}
	stop := b.stop
	b.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		if err := b.s.txns.Run(ctx); err != nil { // waits for what is on its way to the disk
			b.t.Errorf("run the transaction coordinator: %v", err)
		}
		stop()
	})
	return b
}

// txnProducer is a producer with a transactional id, which knows its producer id, its epoch and its next sequences as a
// client does.
type txnProducer struct {
	b  *broker
	id string
	txn.Producer
	next map[fetchKey]int32
}

// txnProducer makes one, and fences the last one of that id.
func (b *broker) txnProducer(id string) *txnProducer {
	b.t.Helper()
	got, err := b.s.txns.Init(b.t.Context(), txn.InitRequest{TransactionalID: id, Timeout: time.Minute})
	if err != nil {
		b.t.Fatalf("init %q: %v", id, err)
	}
	return &txnProducer{b: b, id: id, Producer: got, next: map[fetchKey]int32{}}
}

// batch builds the producer's next batch for a partition.
func (p *txnProducer) batch(topic string, partition int32, values ...string) produced {
	key := fetchKey{topic: topic, partition: partition}
	o := record.BuilderOptions{HasProducer: true, ProducerID: p.ID, ProducerEpoch: p.Epoch, BaseSequence: p.next[key], Transactional: true}
	p.next[key] += int32(len(values))
	return produced{partition, newBatch(o, p.b.nowMs(), values...)}
}

// request makes a Produce request with the producer's transactional id.
func (p *txnProducer) request(version int16, topic string, batches ...produced) *kmsg.ProduceRequest {
	req := p.b.produceRequest(version, topic, batches...)
	req.TransactionID = &p.id
	return req
}

// produce sends the producer's next batch for a partition.
func (p *txnProducer) produce(version int16, topic string, partition int32, values ...string) kmsg.ProduceResponseTopicPartition {
	p.b.t.Helper()
	req := p.request(version, topic, p.batch(topic, partition, values...))
	return ask[*kmsg.ProduceResponse](p.b, req).Topics[0].Partitions[0]
}

// mustProduce is produce from version 12 on, for a batch that must be taken. It returns the base offset.
func (p *txnProducer) mustProduce(topic string, partition int32, values ...string) int64 {
	p.b.t.Helper()
	got := p.produce(13, topic, partition, values...)
	if got.ErrorCode != 0 {
		p.b.t.Fatalf("produce to %s-%d: error %d", topic, partition, got.ErrorCode)
	}
	return got.BaseOffset
}

// add adds partitions to the transaction, as clients with Produce up to version 11 do.
func (p *txnProducer) add(topic string, partitions ...int32) {
	p.b.t.Helper()
	r := txn.AddRequest{TransactionalID: p.id, Producer: p.Producer}
	for _, partition := range partitions {
		r.Partitions = append(r.Partitions, txn.Partition{Topic: topic, Partition: partition})
	}
	if err := p.b.s.txns.Add(p.b.t.Context(), r); err != nil {
		p.b.t.Fatalf("add %s %v: %v", topic, partitions, err)
	}
}

// end ends the transaction as clients of transaction version 2 do, and waits until its markers are written.
func (p *txnProducer) end(commit bool) {
	p.b.t.Helper()
	got, err := p.b.s.txns.End(p.b.t.Context(), txn.EndRequest{TransactionalID: p.id, Producer: p.Producer, Commit: commit, V2: true})
	if err != nil {
		p.b.t.Fatalf("end: %v", err)
	}
	p.Producer, p.next = got, map[fetchKey]int32{}
	synctest.Wait()
}

// endV1 is end for clients of before.
func (p *txnProducer) endV1(commit bool) {
	p.b.t.Helper()
	_, err := p.b.s.txns.End(p.b.t.Context(), txn.EndRequest{TransactionalID: p.id, Producer: p.Producer, Commit: commit})
	if err != nil {
		p.b.t.Fatalf("end: %v", err)
	}
	synctest.Wait()
}

// partitions are those of the producer's transaction, as the coordinator tells.
func (p *txnProducer) partitions() []txn.Partition {
	p.b.t.Helper()
	d, err := p.b.s.txns.Describe(p.id)
	if err != nil {
		p.b.t.Fatal(err)
	}
	return d.Partitions
}
