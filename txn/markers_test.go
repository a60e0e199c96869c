package txn

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// coordinatorEpochs are those of the markers in a log.
func (w *world) coordinatorEpochs(p Partition) (out []int32) {
	w.batches(w.log(p), func(b record.Batch, r record.Record) {
		if m, ok, err := record.ParseEndTxnMarker(r); b.Control() && ok && err == nil {
			out = append(out, m.CoordinatorEpoch)
		}
	})
	return out
}

// A marker says which leader of the partition of __transaction_state has decided.
func TestMarkersHaveTheEpochOfTheirCoordinator(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("orders", 1)
		p := w.init("payments")
		var want []int32
		for range 2 {
			want = append(want, w.c.ownerOf("payments").log.LeaderEpoch())
			w.add("payments", p, false, ordersZero)
			w.end("payments", p, true, false)
			synctest.Wait()
			w.stop()
			w.start(Config{})
		}
		if got := w.coordinatorEpochs(ordersZero); !slices.Equal(got, want) || want[0] >= want[1] {
			t.Errorf("got coordinator epochs %v, want %v, which rise", got, want)
		}
	})
}

// A log is told of which version a marker is, because it then must be above the data.
func TestMarkersOfVersion2MustBeAboveTheData(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("orders", 1)
		p := w.init("payments")
		w.produce(ordersZero, p)
		left, err := w.c.writeMarkers(Marker{Producer: p, V2: true}, []Partition{ordersZero}, w.clock())
		if len(left) > 0 || err != nil {
			t.Errorf("left %v, error %v, want nothing to be tried again", left, err)
		}
		w.wantMarkers(ordersZero, "1 data")
		if _, err := w.c.writeMarkers(Marker{Producer: p}, []Partition{ordersZero}, w.clock()); err != nil {
			t.Error(err)
		}
		w.wantMarkers(ordersZero, "1 data, abort of 0.0")
	})
}

// When somebody else has ended the transaction in a partition, as an administrator may, no
// marker of it is waited for there, and the others are written.
func TestAPartitionThatSomebodyElseEndedIsLeftOut(t *testing.T) {
	for name, m := range map[string]record.Marker{
		"by a later epoch":                {},
		"by a later coordinator, by name": {CoordinatorEpoch: 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.topic("orders", 2)
				p := w.init("payments")
				w.add("payments", p, true, ordersZero, ordersOne)
				w.produce(ordersZero, p)
				w.produce(ordersOne, p)
				epoch := p.Epoch
				if m.CoordinatorEpoch == 0 {
					epoch += 5
				}
				a, err := w.log(ordersZero).Append(record.EndTxnMarker(p.ID, epoch, m, w.clock().UnixMilli(), record.NoLeaderEpoch), storage.AppendOptions{Origin: storage.OriginCoordinator})
				if err == nil {
					err = w.log(ordersZero).WaitDurable(t.Context(), a)
				}
				if err != nil {
					t.Fatal(err)
				}
				next := w.end("payments", p, true, true)
				synctest.Wait()
				if d, err := w.c.Describe("payments"); err != nil || d.State != "CompleteCommit" {
					t.Errorf("got %+v, error %v, want it complete", d, err)
				}
				w.wantMarkers(ordersZero, "1 data, "+markerText(false, Producer{p.ID, epoch}))
				w.wantMarkers(ordersOne, "1 data, "+markerText(true, next))
			})
		})
	}
}

// A transaction that a later coordinator's epoch keeps open is not said to be complete: its
// end is tried again, and there when an administrator has ended it.
func TestATransactionThatCannotBeEndedIsNotComplete(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("orders", 1)
		p := w.init("payments")
		outside := func(epoch int16) {
			t.Helper()
			m := record.EndTxnMarker(p.ID, epoch, record.Marker{CoordinatorEpoch: 1 << 20}, w.clock().UnixMilli(), record.NoLeaderEpoch)
			a, err := w.log(ordersZero).Append(m, storage.AppendOptions{Origin: storage.OriginCoordinator})
			if err == nil {
				err = w.log(ordersZero).WaitDurable(t.Context(), a)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		want := func(state string) {
			t.Helper()
			synctest.Wait()
			if d, err := w.c.Describe("payments"); err != nil || d.State != state {
				t.Errorf("got %+v, error %v, want %s", d, err, state)
			}
		}
		outside(p.Epoch)
		w.add("payments", p, true, ordersZero)
		w.produce(ordersZero, p)
		next := w.end("payments", p, true, true)
		want("PrepareCommit")
		outside(next.Epoch)
		w.advance(lastRetry)
		want("CompleteCommit")
	})
}

// What is made, or about to be used again, does not expire.
func TestAnIDWithARecordOnItsWayDoesNotExpire(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.init("payments")
		o := w.c.ownerOf("payments")
		log := StateTopic + "-" + string(rune('0'+o.log.Index()))
		w.hold(log)
		answers := make(chan error, 2)
		for _, id := range []string{"payments", "payments-1"} {
			if w.c.ownerOf(id) != o {
				t.Fatalf("%s is in another partition", id)
			}
			go func() {
				_, err := w.c.Init(t.Context(), InitRequest{TransactionalID: id, Timeout: time.Minute})
				answers <- err
			}()
		}
		synctest.Wait()
		w.advance(8 * 24 * time.Hour)
		w.free(log)
		for range 2 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		got, err := w.c.List(ListRequest{MinDuration: -1})
		if err != nil || len(got.Transactions) != 2 {
			t.Errorf("list: got %+v, error %v, want both ids", got, err)
		}
	})
}
