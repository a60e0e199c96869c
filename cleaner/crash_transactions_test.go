package cleaner

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestCrashInPassesOverTransactions takes crash clones after every operation of several passes that changes something. The
// log has committed and aborted transactions of several producers, in both versions, some of which overlap, and tombstones in
// and outside of them. Between the passes more is written and the clock jumps, beyond delete horizons and, before the last
// passes, beyond the time after which producers are forgotten.
//
// Whatever a clone leaves: a read_committed client ends with the same state and sees nothing that was aborted; each record is
// what was written at its offset; none that was gone before the pass comes back, and none that the pass keeps is gone; the
// producers have the sequences that they had, also when their snapshots are lost. Another pass over what is left changes none of
// that.
func TestCrashInPassesOverTransactions(t *testing.T) {
	type point struct {
		mem   *vfs.Mem
		label string
		pass  int
	}
	var points []point
	var passes []txnSnapshot
	r := &txnRig{rig: &rig{t: t, now: time.UnixMilli(1_700_000_000_000)}, wrote: map[int64]*written{}, senders: map[int64]*sender{}, aborts: map[int64]storage.AbortedTxn{}}
	mem := vfs.NewMem(vfs.MemOptions{Now: r.clock, Crashable: true})
	armed, seed := false, uint64(0)
	fsys := vfs.After(mem, func(op vfs.Op, err error) {
		if !armed || err != nil || !op.Kind.Mutates() {
			return
		}
		for _, keep := range []float64{0, 0.5, 1} {
			seed++
			label := fmt.Sprintf("pass %d, after %v, keeping %.1f, seed %d", len(passes), op, keep, seed)
			points = append(points, point{mem.CrashClone(seed, keep), label, len(passes)})
		}
	})
	r.open(fsys)
	r.log = topicLog(t, r.store, "orders", small("delete.retention.ms", "1000"))
	pass := func(want string) {
		t.Helper()
		if err := r.log.Roll(); err != nil {
			t.Fatal(err)
		}
		p := r.snapshot()
		armed = true
		if _, err := r.c.Force(context.Background(), r.log); err != nil {
			t.Fatal(err)
		}
		armed = false
		p.after = r.read()
		passes = append(passes, p)
		if got := strings.Trim(fmt.Sprint(slices.Sorted(maps.Keys(p.after))), "[]"); got != want {
			t.Errorf("pass %d leaves offsets %s, want %s", len(passes), got, want)
		}
		r.now = r.now.Add(time.Minute)
	}
	r.write(4, "a=0", "b=0") // 0
	r.end(4, false, false)   // 2: the producer sends nothing more
	r.write(1, "a=1", "b=1") // 3
	r.end(1, true, false)    // 5
	r.write(2, "a=2", "c=2") // 6
	r.end(2, false, false)   // 8
	r.write(0, "d=3")        // 9
	r.write(3, "d", "e=4")   // 10
	r.end(3, true, true)     // 12
	r.write(1, "f=5")        // 13
	r.write(2, "f=6", "a")   // 14
	r.write(1, "g=7")        // 16
	r.end(2, false, true)    // 17
	r.end(1, true, false)    // 18
	r.write(0, "e")          // 19
	r.write(2, "b")          // 20
	r.end(2, true, false)    // 21
	pass("2 3 5 8 10 12 13 16 17 18 19 20 21")
	r.write(3, "h=8")     // 22
	r.write(3, "b=9")     // 23
	r.end(3, false, true) // 24
	r.write(0, "a=10")    // 25
	r.write(1, "c=11")    // 26
	r.end(1, true, true)  // 27
	pass("2 5 8 12 13 16 17 18 21 24 25 26 27")
	r.write(2, "g")            // 28
	r.end(2, true, false)      // 29
	r.write(0, "h=12")         // 30
	r.write(3, "i=13", "h=13") // 31: open during a pass
	r.write(0, "j=14")         // 33
	pass("2 5 12 13 16 18 21 24 25 26 27 28 29 30 31 32 33")
	r.end(3, false, true) // 34
	pass("2 13 18 21 25 26 27 28 29 30 33 34")
	r.now = r.now.Add(25 * time.Hour)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	r.open(fsys)       // it forgets the producers
	r.write(0, "k=15") // 35
	pass("2 13 18 25 26 27 29 30 33 34 35")
	pass("2 13 18 25 26 27 29 30 33 35")
	pass("13 18 25 26 27 30 33 35")
	if err := r.store.Close(); err != nil {
		t.Error(err)
	}
	if len(points) < 1000 {
		t.Fatalf("%d crashes, want more", len(points))
	}
	for i, p := range points {
		t.Run(p.label, func(t *testing.T) {
			want := &passes[p.pass]
			again := &txnRig{rig: &rig{t: t, now: want.now}, wrote: r.wrote, aborts: r.aborts}
			if i%2 == 0 {
				loseSnapshots(t, p.mem)
			}
			again.open(p.mem)
			got := again.snapshot()
			got.within(t, want)
			for offset, rec := range want.after {
				if got.before[offset] != rec {
					t.Errorf("offset %d: got %q, want %q, which the pass kept", offset, got.before[offset], rec)
				}
			}
			if _, err := again.c.Force(context.Background(), again.log); err != nil {
				t.Error(err)
			}
			got = again.snapshot()
			got.within(t, want)
			if err := again.store.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// txnRig is a log with transactions beside what was written to it.
type txnRig struct {
	*rig
	log     *storage.Log
	wrote   map[int64]*written
	senders map[int64]*sender
	aborts  map[int64]storage.AbortedTxn // by offset of the marker
}

func (r *txnRig) clock() time.Time { return r.now }

func (r *txnRig) open(fsys vfs.FS) {
	r.t.Helper()
	var err error
	r.store, err = storage.Open("data", storage.Options{FS: fsys, Now: r.clock, ProducerIDExpiration: 24 * time.Hour})
	if err != nil {
		r.t.Fatal(err)
	}
	r.c = New(Options{Store: r.store, Now: r.clock})
	if topic, ok := r.store.Topic("orders"); ok {
		r.log, _ = topic.Partition(0)
	}
}

// write appends a batch, of a transaction of a producer unless that is 0. A record is key=value; a key alone is a tombstone.
func (r *txnRig) write(producer int64, records ...string) {
	r.t.Helper()
	o := record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch}
	s, ok := r.senders[producer]
	if !ok {
		s = &sender{}
		r.senders[producer] = s
	}
	if producer != 0 {
		o.HasProducer, o.Transactional, o.ProducerID, o.ProducerEpoch, o.BaseSequence = true, true, producer, s.epoch, s.next
		s.next += int32(len(records))
	}
	b := record.NewBuilder(o)
	for _, text := range records {
		key, value, found := strings.Cut(text, "=")
		rec := record.Record{Key: []byte(key), Timestamp: r.now.UnixMilli()}
		if found {
			rec.Value = []byte(value)
		}
		b.Append(rec)
	}
	offset := appendDurably(r.t, r.log, b.Bytes(), storage.OriginClient).BaseOffset
	for _, text := range records {
		w := &written{timestamp: r.now.UnixMilli(), producer: -1, txn: o.Transactional}
		var found bool
		if w.key, w.value, found = strings.Cut(text, "="); !found {
			w.null = true
		}
		if o.Transactional {
			w.producer, w.state = producer, open
			s.txn = append(s.txn, offset)
		}
		r.wrote[offset] = w
		offset++
	}
}

// end ends the transaction of a producer, with the next epoch as in version 2 or without.
func (r *txnRig) end(producer int64, commit, v2 bool) {
	r.t.Helper()
	s := r.senders[producer]
	for _, offset := range s.txn {
		if r.wrote[offset].state = aborted; commit {
			r.wrote[offset].state = committed
		}
	}
	first := s.txn[0]
	if s.txn = nil; v2 {
		s.epoch, s.next = s.epoch+1, 0
	}
	r.rig.end(r.log, producer, s.epoch, commit)
	if !commit {
		o, err := r.log.Offsets()
		if err != nil {
			r.t.Fatal(err)
		}
		r.aborts[o.End-1] = storage.AbortedTxn{ProducerID: producer, FirstOffset: first, LastOffset: o.End - 1}
	}
}

// txnSnapshot is what a log says of itself.
type txnSnapshot struct {
	now           time.Time
	offsets       storage.Offsets
	producers     []storage.ProducerInfo // that have data, without what an emptied marker does not say
	before, after map[int64]string       // a pass: records and markers by offset
}

// snapshot compares what a log has with what was written to it.
func (r *txnRig) snapshot() txnSnapshot {
	r.t.Helper()
	s := txnSnapshot{now: r.now, before: r.read()}
	var err error
	if s.offsets, err = r.log.Offsets(); err != nil {
		r.t.Fatal(err)
	}
	if s.producers, err = r.log.ActiveProducers(); err != nil {
		r.t.Fatal(err)
	}
	s.producers = slices.DeleteFunc(s.producers, func(p storage.ProducerInfo) bool { return p.LastOffset < 0 })
	for i := range s.producers {
		s.producers[i].CoordinatorEpoch, s.producers[i].LastTimestamp = 0, 0
	}
	r.checkAborted(s.before, s.offsets.End)
	want := map[string]string{}
	for offset := range s.offsets.LastStable {
		w := r.wrote[offset]
		if w == nil || w.state != committed {
			continue
		}
		if want[w.key] = w.value; w.null {
			delete(want, w.key)
		}
	}
	for _, maxBytes := range []int{1, 1 << 20} {
		if got := endState(r.t, r.log, s.offsets.LastStable, maxBytes); !maps.Equal(got, want) {
			r.t.Errorf("a consumer that reads %d bytes at a time ends with %v, want %v", maxBytes, got, want)
		}
	}
	consume(r.t, r.log, s.offsets.LastStable, 1, func(_ record.Batch, rec record.Record) {
		if w := r.wrote[rec.Offset]; w == nil || w.state != committed {
			r.t.Errorf("a consumer sees %s at offset %d, which was not committed", rec.Key, rec.Offset)
		}
	})
	return s
}

// checkAborted compares the transaction index with the markers that were found. A start may leave out what has no batch left.
func (r *txnRig) checkAborted(found map[int64]string, logEnd int64) {
	r.t.Helper()
	txns, err := r.log.AbortedTxns(0, math.MaxInt64)
	if err != nil {
		r.t.Fatal(err)
	}
	named := map[int64]bool{}
	for _, a := range txns {
		a.LastStableOffset = 0
		if named[a.LastOffset] = true; a != r.aborts[a.LastOffset] || found[a.LastOffset] == "" {
			r.t.Errorf("the index names %+v, want %+v or nothing: at its end is %q", a, r.aborts[a.LastOffset], found[a.LastOffset])
		}
	}
	batches(r.t, r.log, 0, func(b record.Batch) {
		for end, a := range r.aborts {
			if of := b.ProducerID() == a.ProducerID && a.FirstOffset <= b.BaseOffset() && b.BaseOffset() < end; of && end < logEnd && !named[end] {
				r.t.Errorf("the index does not name %+v, of which there is a batch at offset %d", a, b.BaseOffset())
			}
		}
	})
}

// read returns the records and markers of the log.
func (r *txnRig) read() map[int64]string {
	r.t.Helper()
	found := map[int64]string{}
	last := int64(-1)
	records(r.t, r.log, 0, func(b record.Batch, rec record.Record) {
		if rec.Offset <= last {
			r.t.Errorf("offset %d after %d", rec.Offset, last)
		}
		last = rec.Offset
		found[rec.Offset] = fmt.Sprintf("%q=%q", rec.Key, rec.Value)
		got := written{
			key: string(rec.Key), value: string(rec.Value), null: rec.Value == nil,
			timestamp: rec.Timestamp, producer: b.ProducerID(), txn: b.Transactional(),
		}
		if w := r.wrote[rec.Offset]; b.Control() != (w == nil) || w != nil && !w.matches(&got) {
			r.t.Errorf("offset %d: got %+v, want %+v", rec.Offset, got, w)
		}
	})
	return found
}

// within reports what a log says that it did not say before the pass.
func (s *txnSnapshot) within(t *testing.T, was *txnSnapshot) {
	t.Helper()
	if s.offsets != was.offsets {
		t.Errorf("offsets: got %+v, want %+v", s.offsets, was.offsets)
	}
	if !slices.Equal(s.producers, was.producers) {
		t.Errorf("producers: got %+v, want %+v", s.producers, was.producers)
	}
	for offset, rec := range s.before {
		if was.before[offset] != rec {
			t.Errorf("offset %d: got %q, and there was %q before", offset, rec, was.before[offset])
		}
	}
}
