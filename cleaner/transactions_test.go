package cleaner

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestEmptiedMarkerAbortsNothingLater lets the marker of an aborted transaction lose its record while it is still the last
// that is known of its producer, which then commits another transaction.
func TestEmptiedMarkerAbortsNothingLater(t *testing.T) {
	r := newRig(t)
	l := r.log(small("delete.retention.ms", "1000"))
	r.transaction(l, 7, 0, "a", false)
	r.put(l, "k", []byte("v"), r.now)
	r.force(l) // the data goes
	r.force(l) // the marker gets its horizon
	r.now = r.now.Add(time.Minute)
	r.force(l) // and loses its record
	res, err := l.Read(nil, storage.ReadRequest{MaxBytes: 1 << 20, MinOneBatch: true, Isolation: storage.ReadCommitted})
	if err != nil {
		t.Fatal(err)
	}
	if b, _, err := record.Cut(res.Data); err != nil || !b.Control() || b.Count() != 0 || b.BaseOffset() != 1 {
		t.Fatalf("the log begins with %v, %v, want the marker without its record", b, err)
	}
	if len(res.Aborted) != 0 {
		t.Errorf("a reader is told of %+v, and nothing would tell it where that ends", res.Aborted)
	}
	r.transaction(l, 7, 1, "b", true)
	r.force(l)
	r.force(l)
	if got, want := r.read(l, 0), "2:k 3:b"; !strings.HasPrefix(got, want) {
		t.Errorf("records: got %s, want %s and the marker", got, want)
	}
}

// TestEmptiedMarkerEndsWhatBegan is the same where the transaction index still names the transaction, as that of another
// broker may.
func TestEmptiedMarkerEndsWhatBegan(t *testing.T) {
	marker := record.Batch(record.AppendEmpty(nil, record.EndTxnMarker(7, 1, record.Marker{}, 1500, 4)))
	marker.SetBaseOffset(5)
	txns := newTransactions([]storage.AbortedTxn{{ProducerID: 7, FirstOffset: 2, LastOffset: 5}})
	if over, err := txns.control(marker); err != nil || !over {
		t.Errorf("an emptied marker: over %v, %v, want true", over, err)
	}
	later := batchOf(record.BuilderOptions{HasProducer: true, ProducerID: 7, ProducerEpoch: 1, Transactional: true}, "a=1")
	if txns.data(later) {
		t.Error("data after the emptied marker counts as aborted")
	}
	txns.control(marker)
	if over, err := txns.control(record.EndTxnMarker(7, 1, record.Marker{Commit: true}, 1500, 4)); err != nil || !over {
		t.Errorf("a commit marker with no data since the emptied one: over %v, %v, want true", over, err)
	}
}

func TestOtherControlRecordsStay(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{Control: true})
	b.Append(record.Record{Key: []byte{0, 0, 0, 2}}) // Kafka: ControlRecordType.LEADER_CHANGE
	f := filterFor(100, nil)
	got, err := f.batch(b.Bytes())
	if err != nil || got.HasDeleteHorizon() || got.Count() != 1 {
		t.Errorf("got %s, %v, want the batch as it is", show(t, got), err)
	}
}

// TestClientsTransactionsAreCleaned has the same keys written in a committed, an aborted and an open transaction of producers
// that asked the coordinator, in both versions.
func TestClientsTransactionsAreCleaned(t *testing.T) {
	for _, v2 := range []bool{false, true} {
		r := newRig(t)
		l := r.log(small("delete.retention.ms", "1000"))
		write := func(producer int64, epoch int16, sequence int32, keys ...string) {
			t.Helper()
			b := record.NewBuilder(record.BuilderOptions{
				LeaderEpoch: record.NoLeaderEpoch, HasProducer: true, ProducerID: producer, ProducerEpoch: epoch,
				BaseSequence: sequence, Transactional: true,
			})
			for _, key := range keys {
				b.Append(record.Record{Key: []byte(key), Value: []byte("value"), Timestamp: r.now.UnixMilli()})
			}
			v, err := l.StartVerification(producer, epoch, sequence, v2)
			if err != nil {
				t.Fatal(err)
			}
			a, err := l.Append(b.Bytes(), storage.AppendOptions{Verification: v})
			if err == nil {
				err = l.WaitDurable(t.Context(), a)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		markerEpoch := int16(0)
		if v2 {
			markerEpoch = 1
		}
		write(1, 0, 0, "a", "b") // 0, 1: committed, and a again below
		r.end(l, 1, markerEpoch, true)
		write(2, 0, 0, "a", "b", "c") // 3 to 5: aborted
		r.end(l, 2, markerEpoch, false)
		r.put(l, "a", []byte("v"), r.now) // 7
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		write(3, 0, 0, "a", "b", "d") // 8 to 10: open
		r.force(l)
		if got, want := r.read(l, 0), "1:b 2: 6: 7:a 8:a 9:b 10:d"; plainKeys(got) != want {
			t.Errorf("v2 %t: while a transaction is open: got %s, want %s", v2, plainKeys(got), want)
		}
		r.put(l, "e", []byte("v"), r.now) // 11
		r.force(l)
		if got, want := r.read(l, 8), "8:a 9:b 10:d 11:e"; got != want {
			t.Errorf("v2 %t: got %s, want %s: nothing of an open transaction goes", v2, got, want)
		}
		r.end(l, 3, markerEpoch, true) // 12
		r.put(l, "f", []byte("v"), r.now)
		r.force(l)
		if got, want := plainKeys(r.read(l, 0)), "2: 6: 8:a 9:b 10:d 11:e 12: 13:f"; got != want {
			t.Errorf("v2 %t: when it is committed: got %s, want %s", v2, got, want)
		}
	}
}

// plainKeys is what rig.read returns, with markers shown by their offsets alone.
func plainKeys(read string) string {
	fields := strings.Fields(read)
	for i, f := range fields {
		offset, key, _ := strings.Cut(f, ":")
		if strings.HasPrefix(key, "\x00") {
			fields[i] = offset + ":"
		}
	}
	return strings.Join(fields, " ")
}

// TestTransactionStateIsCleaned cleans the topic of the transaction coordinator by the cleaner's own choice: of each id the
// last record stays, and nothing of one that expired.
func TestTransactionStateIsCleaned(t *testing.T) {
	r := newRig(t)
	l := topicLog(t, r.store, "__transaction_state", map[string]string{"cleanup.policy": "compact", "compression.type": "uncompressed", "delete.retention.ms": "1000"})
	put := func(id string, value []byte) {
		t.Helper()
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		b.Append(record.Record{Key: []byte(id), Value: value, Timestamp: r.now.UnixMilli()})
		appendDurably(t, l, b.Bytes(), storage.OriginCoordinator)
	}
	for range 10 {
		put("id-1", []byte("Ongoing"))
		put("id-2", []byte("Empty"))
	}
	put("id-2", nil)
	for range 2 { // the tombstone gets its horizon, and goes when that is reached
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		r.c.Compact(t.Context())
		r.now = r.now.Add(time.Minute)
		for range 5 { // enough that the next pass is due
			put("id-3", []byte("Empty"))
		}
	}
	if got, want := r.read(l, 0), "18:id-1 25:id-3 26:id-3 27:id-3 28:id-3 29:id-3 30:id-3"; got != want {
		t.Errorf("got %s, want %s: the last of each id, and the open segment", got, want)
	}
	if st := r.c.Stats(); len(st.SetAside) > 0 {
		t.Errorf("set aside: %+v", st.SetAside)
	}
}

// reopened has write make a log in a store that is then closed, or stops without that where crash is set, lets change have
// its way with the files, and opens it again.
func reopened(t *testing.T, crash bool, write func(*rig, *storage.Log), change func(*vfs.Mem)) (*rig, *storage.Log) {
	t.Helper()
	r := &rig{t: t, now: time.UnixMilli(1_700_000_000_000)}
	clock := func() time.Time { return r.now }
	mem := vfs.NewMem(vfs.MemOptions{Now: clock, Crashable: true})
	open := func() {
		var err error
		if r.store, err = storage.Open("data", storage.Options{FS: mem, Now: clock}); err != nil {
			t.Fatal(err)
		}
		r.c = New(Options{Store: r.store, Now: clock})
	}
	open()
	write(r, r.log(small("delete.retention.ms", "1000")))
	clone := mem.CrashClone(1, 1)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	if crash {
		mem = clone
	}
	change(mem)
	open()
	t.Cleanup(func() {
		if err := r.store.Close(); err != nil {
			t.Error(err)
		}
	})
	topic, _ := r.store.Topic("orders")
	l, _ := topic.Partition(0)
	if _, err := l.Offsets(); err != nil {
		t.Fatal(err)
	}
	return r, l
}

// loseTxnIndexes removes the transaction indexes of a log.
func loseTxnIndexes(t *testing.T, mem *vfs.Mem) {
	t.Helper()
	names, err := mem.List("data/orders-0")
	n := 0
	for _, name := range names {
		if strings.HasSuffix(name, ".txnindex") {
			n++
			err = errors.Join(err, mem.Remove("data/orders-0/"+name))
		}
	}
	if err != nil || n == 0 {
		t.Fatalf("%d transaction indexes removed, %v", n, err)
	}
}

// TestLostTransactionIndexSetsTheLogAside takes the transaction indexes of a log that was closed. A key that was committed
// and written again in an aborted transaction keeps what was committed.
func TestLostTransactionIndexSetsTheLogAside(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(*rig, *storage.Log)
		want  string
	}{
		{"in one segment", func(r *rig, l *storage.Log) {
			r.transaction(l, 7, 0, "a", true)
			r.transaction(l, 7, 1, "b", true)
			r.transaction(l, 7, 2, "a", false) // 4, 5
		}, "producer 7 aborted offsets 4 to 4 with the marker at offset 5, and the transaction index has no such"},
		{"over segments", func(r *rig, l *storage.Log) {
			r.transaction(l, 7, 0, "a", true)
			r.data(l, 7, 1, "a") // 2
			r.data(l, 8, 0, "b")
			fill(r.t, l, 20, 5, r.now)
			r.data(l, 7, 1, "a") // 24
			r.end(l, 8, 1, true)
			r.end(l, 7, 2, false) // 26
		}, "producer 7 aborted offsets 2 to 24 with the marker at offset 26, and"},
		{"with the marker behind what is cleaned", func(r *rig, l *storage.Log) {
			r.transaction(l, 7, 0, "a", true)
			r.data(l, 7, 1, "a") // 2
			r.put(l, "b", []byte("v"), r.now)
			if err := l.Roll(); err != nil {
				r.t.Fatal(err)
			}
			r.end(l, 7, 2, false) // 4
		}, "producer 7 aborted offsets 2 to 2 with the marker at offset 4, and"},
	} {
		for _, crash := range []bool{false, true} {
			r, l := reopened(t, crash, func(r *rig, l *storage.Log) {
				c.write(r, l)
				if !strings.Contains(c.name, "behind") {
					fill(t, l, 1, 1, r.now)
					if err := l.Roll(); err != nil {
						t.Fatal(err)
					}
				}
			}, func(mem *vfs.Mem) {
				if !crash {
					loseTxnIndexes(t, mem)
				}
			})
			before := r.read(l, 0)
			r.c.Compact(t.Context())
			st := r.c.Stats()
			if crash {
				if st.Passes != 1 || len(st.SetAside) > 0 {
					t.Errorf("%s: with its indexes: stats %+v, want a pass", c.name, st)
				}
				continue
			}
			if len(st.SetAside) != 1 || st.SetAside[0].Topic != "orders" || !strings.Contains(st.SetAside[0].Cause.Error(), c.want) {
				t.Errorf("%s: stats %+v, want orders-0 set aside: %s", c.name, st, c.want)
			}
			if got := r.read(l, 0); got != before {
				t.Errorf("%s: got %s, want all as it was: %s", c.name, got, before)
			}
		}
	}
}

// TestAbortedBelowTheLogStartIsNoDamage has the log start move past the data of a transaction and a recovery that begins
// there: no index names the transaction, whose data still lies in the first segment.
func TestAbortedBelowTheLogStartIsNoDamage(t *testing.T) {
	r, l := reopened(t, true, func(r *rig, l *storage.Log) {
		r.data(l, 7, 0, "a")
		r.put(l, "b", []byte("v"), r.now)
		if _, err := l.DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
		r.end(l, 7, 1, false)
	}, func(*vfs.Mem) {})
	if aborted, err := l.AbortedTxns(0, 3); err != nil || len(aborted) > 0 {
		t.Fatalf("aborted %+v, %v, want none to be known", aborted, err)
	}
	fill(t, l, 12, 1, r.now)
	r.force(l)
	r.transaction(l, 7, 1, "a", false)
	r.end(l, 7, 2, false) // it has no data
	r.transaction(l, 7, 2, "a", true)
	fill(t, l, 12, 1, r.now)
	r.force(l)
	r.c.Compact(t.Context())
	if st := r.c.Stats(); len(st.SetAside) > 0 {
		t.Errorf("set aside: %+v", st.SetAside)
	}
}
