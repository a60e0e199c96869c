package cleaner

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// rig is a store in memory with a clock that tests move.
type rig struct {
	t     *testing.T
	now   time.Time
	store *storage.Store
	c     *Cleaner
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, now: time.UnixMilli(1_700_000_000_000)}
	clock := func() time.Time { return r.now }
	s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: clock}), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	r.store = s
	r.c = New(Options{Store: s, Now: clock})
	return r
}

// log makes a topic of one partition and returns that.
func (r *rig) log(configs map[string]string) *storage.Log {
	r.t.Helper()
	return topicLog(r.t, r.store, "orders", configs)
}

// put appends one record in a batch of its own; a nil value is a tombstone.
func (r *rig) put(l *storage.Log, key string, value []byte, at time.Time) int64 {
	r.t.Helper()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	b.Append(record.Record{Key: []byte(key), Value: value, Timestamp: at.UnixMilli()})
	return appendDurably(r.t, l, b.Bytes(), storage.OriginClient).BaseOffset
}

// read returns the records from offset on as offset:key.
func (r *rig) read(l *storage.Log, offset int64) string {
	r.t.Helper()
	var out []string
	records(r.t, l, offset, func(_ record.Batch, rec record.Record) {
		if rec.Offset >= offset {
			out = append(out, fmt.Sprintf("%d:%s", rec.Offset, rec.Key))
		}
	})
	return strings.Join(out, " ")
}

// transaction appends a record of a producer and the marker that ends its transaction, which has the next epoch as with
// transactions of version 2.
func (r *rig) transaction(l *storage.Log, producer int64, epoch int16, key string, commit bool) {
	r.t.Helper()
	r.data(l, producer, epoch, key)
	r.end(l, producer, epoch+1, commit)
}

// data appends a record of a transaction.
func (r *rig) data(l *storage.Log, producer int64, epoch int16, key string) {
	r.t.Helper()
	b := record.NewBuilder(record.BuilderOptions{
		LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: producer, ProducerEpoch: epoch, Transactional: true,
	})
	b.Append(record.Record{Key: []byte(key), Value: []byte("value"), Timestamp: r.now.UnixMilli()})
	appendDurably(r.t, l, b.Bytes(), storage.OriginCoordinator)
}

// end appends a marker.
func (r *rig) end(l *storage.Log, producer int64, epoch int16, commit bool) {
	r.t.Helper()
	appendDurably(r.t, l, record.EndTxnMarker(producer, epoch, record.Marker{Commit: commit}, r.now.UnixMilli(), 0), storage.OriginCoordinator)
}

// force makes a pass over all but the open segment, which it rolls.
func (r *rig) force(l *storage.Log) PassStats {
	r.t.Helper()
	if err := l.Roll(); err != nil {
		r.t.Fatal(err)
	}
	st, err := r.c.Force(context.Background(), l)
	if err != nil {
		r.t.Fatal(err)
	}
	return st
}

// topicLog makes a topic of one partition in any store and returns that.
func topicLog(t testing.TB, s *storage.Store, name string, configs map[string]string) *storage.Log {
	t.Helper()
	topic, err := s.CreateTopic(storage.TopicSpec{Name: name, Partitions: 1, Configs: configs})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := topic.Partition(0)
	return l
}

// appendDurably appends a batch and waits until it is durable.
func appendDurably(t testing.TB, l *storage.Log, b record.Batch, from storage.Origin) storage.Appended {
	t.Helper()
	a, err := l.Append(b, storage.AppendOptions{Origin: from, Unverified: true})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// batches calls do with each batch of a log from the one that holds offset on.
func batches(t testing.TB, l *storage.Log, offset int64, do func(record.Batch)) {
	t.Helper()
	for {
		res, err := l.Read(nil, storage.ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
		if err != nil {
			t.Fatal(err)
		}
		if len(res.Data) == 0 {
			return
		}
		for rest := res.Data; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				t.Fatal(err)
			}
			do(b)
			offset = b.NextOffset()
		}
	}
}

// records calls do with each record of a log from the batch that holds offset on.
func records(t testing.TB, l *storage.Log, offset int64, do func(record.Batch, record.Record)) {
	t.Helper()
	var reader record.Reader
	batches(t, l, offset, func(b record.Batch) {
		for r, err := range reader.Records(b) {
			if err != nil {
				t.Fatal(err)
			}
			do(b, r)
		}
	})
}

// run starts a cleaner, in a bubble of synctest, and returns what stops it.
func run(t *testing.T, c *Cleaner) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	return func() {
		cancel()
		running.Wait()
	}
}

// fill appends n records over the keys k0, k1, … in turn, each in a batch of its own.
func fill(t testing.TB, l *storage.Log, n, keys int, at time.Time) {
	t.Helper()
	for i := range n {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		b.Append(record.Record{Key: fmt.Appendf(nil, "k%d", i%keys), Value: fmt.Appendf(nil, "value %d", i), Timestamp: at.UnixMilli()})
		appendDurably(t, l, b.Bytes(), storage.OriginClient)
	}
}

// small is a compacted topic with small segments that is due as soon as anything is dirty.
func small(more ...string) map[string]string {
	c := map[string]string{
		"cleanup.policy": "compact", "internal.segment.bytes": "500", "min.cleanable.dirty.ratio": "0.01",
		"message.timestamp.before.max.ms": "9223372036854775807",
	}
	for i := 0; i < len(more); i += 2 {
		c[more[i]] = more[i+1]
	}
	return c
}
