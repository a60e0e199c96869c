package storage

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// wantProducers compares what the log knows of its producers: id, epoch, last sequence, last timestamp, epoch of the
// coordinator and first offset of the open transaction.
func wantProducers(t *testing.T, l *Log, want ...string) {
	t.Helper()
	infos, err := l.ActiveProducers()
	var got []string
	for _, p := range infos {
		got = append(got, fmt.Sprint(p.ProducerID, p.Epoch, p.LastSequence, p.LastTimestamp, p.CoordinatorEpoch, p.TxnFirstOffset))
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("producers: got %q, %v, want %q", got, err, want)
	}
}

func TestActiveProducersAreDescribed(t *testing.T) {
	const at, marked = 1_700_000_000_000, 1_700_000_000_500
	bothStops(t, func(t *testing.T, clean bool) {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		l := rig.start()
		wantProducers(t, l)
		appendDurably(t, l, idempotentBatch(3, 0, 0, 2))
		transact(t, l, txnBatch(5, 2, 0, 3), true)
		transact(t, l, txnBatch(4, 0, 7, 1), false)
		marker := record.EndTxnMarker(4, 0, record.Marker{Commit: true, CoordinatorEpoch: 9}, marked, 0)
		appendCoordinator(t, l, marker)
		appendCoordinator(t, l, record.EndTxnMarker(8, 1, record.Marker{CoordinatorEpoch: 9}, marked, 0)) // of a transaction without data
		want := []string{
			fmt.Sprint(3, 0, 1, at, -1, -1), fmt.Sprint(4, 0, 7, marked, 9, -1),
			fmt.Sprint(5, 2, 2, at, -1, 2), fmt.Sprint(8, 1, -1, marked, 9, -1),
		}
		wantProducers(t, l, want...)
		rig.end(l, clean)
		l = rig.start()
		wantProducers(t, l, want...)
		rig.stop(l)
	})
}

// TestTransactionsOverSegments has one transaction over several segments, aborted, and others within it, and loses the process
// while it is open, between its data and its end, and after it.
func TestTransactionsOverSegments(t *testing.T) {
	bothStops(t, func(t *testing.T, clean bool) {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		rig.configs["internal.segment.bytes"] = "300"
		l := rig.start()
		again := func() {
			t.Helper()
			before, err := l.Offsets()
			if err != nil {
				t.Fatal(err)
			}
			aborted, err := l.AbortedTxns(0, before.End)
			if err != nil {
				t.Fatal(err)
			}
			rig.end(l, clean)
			l = rig.start()
			wantOffsets(t, l, before)
			if got, err := l.AbortedTxns(0, before.End); err != nil || !slices.Equal(got, aborted) {
				t.Errorf("aborted after a start: %v, %v, want %v", got, err, aborted)
			}
		}
		var want []string // what is committed
		for i := range int32(8) {
			transact(t, l, txnBatch(1, 0, i, 1), false)
			a := transact(t, l, txnBatch(2, int16(i), 0, 1), true)
			if i == 3 {
				again()
			}
			if v, err := l.StartVerification(1, 0, i+1, false); v != nil || err != nil {
				t.Fatalf("after batch %d: verification %v, %v, want none: it is open", i, v, err)
			}
			endTransaction(t, l, 2, int16(i)+1, i%2 == 0, true)
			if i%2 == 0 {
				want = append(want, fmt.Sprintf("%d=0/0", a.BaseOffset))
			}
			wantOffsets(t, l, Offsets{LastStable: 0, HighWatermark: a.NextOffset + 1, End: a.NextOffset + 1})
		}
		again()
		wantValues(t, readValues(t, l, 0, ReadCommitted))
		if segments, err := l.Segments(); err != nil || len(segments) < 4 {
			t.Fatalf("%d segments, %v, want several", len(segments), err)
		}
		endTransaction(t, l, 1, 0, false, false)
		again()
		o, err := l.Offsets()
		if err != nil || o.LastStable != o.End {
			t.Errorf("offsets: %+v, %v, want all of it stable", o, err)
		}
		// A reader that begins in any segment is told of the transaction.
		for from := int64(0); from < o.End; from += 3 {
			aborted, err := l.AbortedTxns(from, from+1)
			if err != nil || !slices.ContainsFunc(aborted, func(a AbortedTxn) bool { return a.ProducerID == 1 && a.FirstOffset == 0 }) {
				t.Errorf("aborted at offset %d: %v, %v, want that of producer 1", from, aborted, err)
			}
		}
		var committed []string
		for _, v := range readValues(t, l, 0, ReadUncommitted) {
			if slices.Contains(want, v) {
				committed = append(committed, v)
			}
		}
		if !slices.Equal(committed, want) {
			t.Errorf("committed: %v, want %v", committed, want)
		}
		rig.stop(l)
	})
}

// The log start moves over an open transaction: by DeleteRecords, up to anywhere, or by retention, at a segment's end. The
// last stable offset goes with it, and the transaction still ends with its marker.
func TestLogStartMovesOverAnOpenTransaction(t *testing.T) {
	for _, before := range []int64{2, 4, 5, 7} {
		t.Run(fmt.Sprint(before), func(t *testing.T) {
			bothStops(t, func(t *testing.T, clean bool) {
				rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
				rig.configs["internal.segment.bytes"] = "300"
				l := rig.start()
				appendDurably(t, l, testBatch("before"))
				transact(t, l, txnBatch(1, 0, 0, 3), false) // offsets 1 to 3
				appendDurably(t, l, testBatch("between"))
				transact(t, l, txnBatch(1, 0, 3, 1), false) // offset 5
				appendDurably(t, l, testBatch("after"))
				wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 7, End: 7})
				if start, err := l.DeleteBefore(before); start != before || err != nil {
					t.Fatalf("got %d, %v", start, err)
				}
				wantOffsets(t, l, Offsets{LogStart: before, LastStable: before, HighWatermark: 7, End: 7})
				if v, err := l.StartVerification(1, 0, 4, false); v != nil || err != nil {
					t.Errorf("verification: %v, %v, want none: the transaction is open", v, err)
				}
				rig.end(l, clean)
				l = rig.start()
				// A snapshot knows it from its beginning. Without one it begins with what is left of it.
				if got, err := l.Offsets(); err != nil || got.LastStable != before && (clean || before != 4 || got.LastStable != 5) {
					t.Errorf("offsets after a start: %+v, %v", got, err)
				}
				// The producer goes on. Of a producer that is not known the first batch may have any sequence.
				transact(t, l, txnBatch(1, 0, 4, 1), false)
				endTransaction(t, l, 1, 0, false, false)
				wantOffsets(t, l, Offsets{LogStart: before, LastStable: 9, HighWatermark: 9, End: 9})
				aborted, err := l.AbortedTxns(before, 9)
				if err != nil || len(aborted) != 1 || aborted[0].LastOffset != 8 || aborted[0].FirstOffset > max(before, 7) {
					t.Errorf("aborted: %+v, %v, want what begins by offset %d and ends at 8", aborted, err, max(before, 7))
				}
				if before <= 5 && len(aborted) == 1 && aborted[0].FirstOffset > 5 {
					t.Errorf("aborted from offset %d on, although there is data at 5", aborted[0].FirstOffset)
				}
				rig.stop(l)
			})
		})
	}
}

// A roll while a transaction is open leaves its state in the producer snapshot, and a start that begins there knows it.
func TestSnapshotKnowsAnOpenTransaction(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	transact(t, l, txnBatch(1, 3, 0, 2), true)
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	appendDurably(t, l, testBatch("a"))
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	rig.point, _, _ = l.checkpoints()
	rig.kill(l)
	l = rig.start()
	wantOffsets(t, l, Offsets{LastStable: 0, HighWatermark: 3, End: 3})
	_, err := l.Append(txnBatch(1, 3, 2, 1), AppendOptions{})
	if err != nil {
		t.Errorf("next batch of the transaction: %v", err)
	}
	_, err = l.Append(txnBatch(1, 4, 0, 1), AppendOptions{})
	if !errors.Is(err, ErrInvalidTxnState) {
		t.Errorf("batch of the next epoch: got %v, want ErrInvalidTxnState, as nobody was asked", err)
	}
	endTransaction(t, l, 1, 4, true, true)
	wantOffsets(t, l, Offsets{LastStable: 5, HighWatermark: 5, End: 5})
	rig.stop(l)
}
