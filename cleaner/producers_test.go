package cleaner

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestProducersAreKnownAfterPassesAndACrash lets passes take the records of the last batches of producers, then the machine
// lose power and the producer snapshots be lost: all that the next start knows of the producers is what the passes left.
func TestProducersAreKnownAfterPassesAndACrash(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{Crashable: true})
	r := &rig{t: t, now: time.UnixMilli(1_700_000_000_000)}
	open := func() {
		s, err := storage.Open("data", storage.Options{FS: fsys, Now: func() time.Time { return r.now }})
		if err != nil {
			t.Fatal(err)
		}
		r.store = s
		r.c = New(Options{Store: s, Now: func() time.Time { return r.now }})
	}
	open()
	l := r.log(small("delete.retention.ms", "1000"))
	type sent struct {
		batch  record.Batch
		offset int64
	}
	last := map[int64]sent{}
	send := func(producer int64, epoch int16, sequence int32, keys ...string) {
		b := record.NewBuilder(record.BuilderOptions{
			LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: producer, ProducerEpoch: epoch, BaseSequence: sequence,
			Transactional: producer >= 10,
		})
		for _, key := range keys {
			b.Append(record.Record{Key: []byte(key), Value: []byte("value"), Timestamp: r.now.UnixMilli()})
		}
		p := sent{batch: bytes.Clone(b.Bytes())}
		p.offset = appendDurably(t, l, b.Bytes(), storage.OriginClient).BaseOffset
		last[producer] = p
	}
	// A batch before the last stays, and would pass for the last if that were gone.
	send(1, 2, 0, "stays 1")
	send(1, 3, 0, "a", "b", "stays 2", "d", "e")
	send(1, 3, 5, "a", "b", "c") // all its records go
	send(2, 4, 7, "stays 3")
	send(2, 4, 8, "a", "b", "stays 4") // the last one stays
	send(3, 0, 0, "a", "a")
	send(3, 0, 2, "stays 5", "stays 6") // it stays whole
	for producer := int64(10); producer < 12; producer++ {
		send(producer, 0, 0, fmt.Sprint("stays if it may ", producer))
		send(producer, 0, 1, "a", "b")
		r.end(l, producer, 0, producer == 10) // the other one is aborted
	}
	for _, key := range []string{"a", "b", "c", "d", "e"} {
		r.put(l, key, []byte("last"), r.now)
	}
	for range 3 {
		r.force(l)
		r.now = r.now.Add(time.Minute)
	}
	want := "0:stays 1 3:stays 2 9:stays 3 12:stays 4 15:stays 5 16:stays 6 17:stays if it may 10 20: 24: 25:a 26:b 27:c 28:d 29:e"
	if got := plainKeys(r.read(l, 0)); got != want {
		t.Errorf("records:\ngot  %s\nwant %s", got, want)
	}

	clone := fsys.CrashClone(1, 0)
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
	fsys = clone
	if loseSnapshots(t, fsys) == 0 {
		t.Error("there are no producer snapshots")
	}
	open()
	topic, _ := r.store.Topic("orders")
	l, _ = topic.Partition(0)
	for producer, p := range last {
		a, err := l.Append(bytes.Clone(p.batch), storage.AppendOptions{Unverified: true})
		if err != nil || !a.Duplicate || a.BaseOffset != p.offset {
			t.Errorf("the last batch of producer %d, sent again: %+v, %v, want the offset %d of before", producer, a, err, p.offset)
		}
		next := func(sequence int32) (storage.Appended, error) {
			b := record.NewBuilder(record.BuilderOptions{
				LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: producer, ProducerEpoch: p.batch.ProducerEpoch(),
				BaseSequence: sequence, Transactional: producer >= 10,
			})
			b.Append(record.Record{Key: []byte("next"), Timestamp: r.now.UnixMilli()})
			return l.Append(b.Bytes(), storage.AppendOptions{Unverified: true})
		}
		want := p.batch.LastSequence() + 1
		for _, wrong := range []int32{want - 1, want + 1} {
			if a, err := next(wrong); !errors.Is(err, storage.ErrOutOfOrderSequence) {
				t.Errorf("producer %d, sequence %d instead of %d: %+v, %v, want that it is refused", producer, wrong, want, a, err)
			}
		}
		if a, err := next(want); err != nil || a.Duplicate {
			t.Errorf("producer %d, sequence %d: %+v, %v, want it appended", producer, want, a, err)
		}
	}
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
}

// loseSnapshots removes the producer snapshots of the topic orders and returns how many there were.
func loseSnapshots(t *testing.T, fsys vfs.FS) int {
	t.Helper()
	const dir = "data/orders-0/"
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	removed := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".snapshot") {
			if err := fsys.Remove(dir + name); err != nil {
				t.Fatal(err)
			}
			removed++
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
	return removed
}
