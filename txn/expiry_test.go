package txn

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
)

// However many ids expire, no batch of tombstones is larger than the topic allows.
func TestTombstonesOfManyIDsGoIntoSeveralBatches(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		topic, _ := w.store.Topic(StateTopic)
		const most, ids = 2000, 60
		if err := w.store.SetTopicConfigs(topic.ID(), map[string]string{"cleanup.policy": "compact", "max.message.bytes": fmt.Sprint(most)}); err != nil {
			t.Fatal(err)
		}
		for i := range ids {
			w.init(fmt.Sprint(strings.Repeat("x", i*20), i))
		}
		w.advance(8 * 24 * time.Hour)
		if got, err := w.c.List(ListRequest{MinDuration: -1}); err != nil || len(got.Transactions) != 0 {
			t.Errorf("list: got %+v, error %v, want none", got, err)
		}
		batches, tombstones := 0, 0
		for i := range topic.Partitions() {
			log, _ := topic.Partition(i)
			for b, err := range runtime.Batches(log) {
				if err != nil {
					t.Fatal(err)
				}
				if b.MaxTimestamp() != w.clock().UnixMilli() {
					continue
				}
				batches++
				tombstones += int(b.Count())
				if len(b) > most {
					t.Errorf("a batch of %d bytes, want at most %d", len(b), most)
				}
			}
		}
		if tombstones != ids || batches < 10 || batches > ids/2 {
			t.Errorf("%d tombstones in %d batches, want %d in some", tombstones, batches, ids)
		}
	})
}

// The abort of a timed out transaction may have to wait for a producer id. When its client
// commits meanwhile, it is committed.
func TestATransactionThatEndsWhileItsAbortWaitsIsNotAborted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("orders", 1)
		p := w.init("payments")
		o := w.c.ownerOf("payments")
		o.mu.Lock()
		next := *o.entries["payments"].t
		next.Epoch = highestEpoch
		o.write(w.clock(), o.entries["payments"], &next, func(error) {})
		o.inFlight.Settle()
		o.mu.Unlock()
		synctest.Wait()
		p.Epoch = highestEpoch
		w.add("payments", p, false, ordersZero)
		for id := p.ID; id%1000 != 999; { // no id is left of the block
			var err error
			if id, err = w.store.NextProducerID(); err != nil {
				t.Fatal(err)
			}
		}
		const metadata = "__gateway_metadata-0"
		w.hold(metadata)
		w.advance(2 * time.Minute)
		if d, err := w.c.Describe("payments"); err != nil || d.State != "Ongoing" {
			t.Fatalf("got %+v, error %v, want the abort to wait", d, err)
		}
		w.end("payments", p, true, false)
		synctest.Wait()
		w.free(metadata)
		if d, err := w.c.Describe("payments"); err != nil || d.State != "CompleteCommit" {
			t.Errorf("got %+v, error %v, want it committed", d, err)
		}
		w.wantMarkers(ordersZero, "0 data, "+markerText(true, p))
	})
}
