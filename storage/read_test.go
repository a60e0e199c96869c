package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestReadLimits(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	size := len(testBatch("0"))
	for i := range 10 {
		appendDurably(t, l, testBatch(fmt.Sprint(i)))
	}
	for _, c := range []struct {
		offset  int64
		max     int
		least   bool
		batches int
	}{
		{0, 10 * size, false, 10},
		{0, 10*size - 1, false, 9},
		{0, 1 << 20, false, 10},
		{0, size, false, 1},
		{0, size - 1, false, 0},
		{0, size - 1, true, 1},
		{0, 0, true, 1},
		{0, -5, true, 1},
		{0, 0, false, 0},
		{7, 1 << 20, false, 3},
		{7, 2*size + 5, true, 2},
		{10, 1 << 20, true, 0},
	} {
		res, err := l.Read(nil, ReadRequest{Offset: c.offset, MaxBytes: c.max, MinOneBatch: c.least})
		if err != nil || len(res.Data) != c.batches*size {
			t.Errorf("read from %d, at most %d bytes, at least one batch %v: got %d bytes, %v, want %d batches of %d", c.offset, c.max, c.least, len(res.Data), err, c.batches, size)
		}
		if len(res.Data) > 0 && record.Batch(res.Data).BaseOffset() != c.offset {
			t.Errorf("read from %d begins at %d", c.offset, record.Batch(res.Data).BaseOffset())
		}
	}
	rig.stop(l)
}

func TestReadFromTheMiddleOfABatchReturnsAllOfIt(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	b := testBatch("a", "b", "c")
	appendDurably(t, l, b)
	res, err := l.Read(nil, ReadRequest{Offset: 2, MaxBytes: 1, MinOneBatch: true})
	if err != nil || !bytes.Equal(res.Data, b) {
		t.Errorf("got %d bytes, %v, want the whole batch of %d", len(res.Data), err, len(b))
	}
	rig.stop(l)
}

func TestReadSkipsGaps(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["internal.segment.bytes"] = "200"
	l := rig.start()
	// As compaction leaves it: the batch keeps its offsets, the records are gone or few.
	for i := range 6 {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
		b.Append(record.Record{Timestamp: 1000, Value: fmt.Append(nil, i)})
		b.SetLastOffset(9)
		appendCoordinator(t, l, bytes.Clone(b.Bytes()))
	}
	for _, from := range []int64{0, 1, 9, 10, 15, 25, 50} {
		got := readValues(t, l, from, ReadUncommitted)
		want := (59 - from) / 10
		if from%10 == 0 {
			want++
		}
		if int64(len(got)) != want {
			t.Errorf("read from %d: got %v, want %d records", from, got, want)
		}
	}
	rig.stop(l)
}

// TestReadersSeeOnlyWholeRecordsWhileTheLogChanges reads without a lock beside appends, rolls, deletions and cuts.
func TestReadersSeeOnlyWholeRecordsWhileTheLogChanges(t *testing.T) {
	gate := &syncGate{}
	rig := newLogRig(t, gate.wrap(vfs.NewMem(vfs.MemOptions{})))
	rig.configs["internal.segment.bytes"] = "2000"
	rig.configs["index.interval.bytes"] = "100"
	rig.configs["file.delete.delay.ms"] = "0"
	rig.openFiles = 2
	l := rig.start()
	ctx, cancel := context.WithCancel(context.Background())
	var readers sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			var next, last int64
			var reader record.Reader
			buf := make([]byte, 0, 4096)
			for ctx.Err() == nil {
				res, err := l.Read(buf[:0], ReadRequest{Offset: next, MaxBytes: 1500, MinOneBatch: true})
				if errors.Is(err, ErrOffsetOutOfRange) {
					offsets, err := l.Offsets()
					if err != nil || offsets.LogStart <= next {
						t.Errorf("read from %d is out of range of %+v, %v", next, offsets, err)
						return
					}
					next = offsets.LogStart
					continue
				}
				if err != nil {
					t.Errorf("read from %d: %v", next, err)
					return
				}
				if res.HighWatermark < last {
					t.Errorf("high watermark went from %d back to %d", last, res.HighWatermark)
					return
				}
				last = res.HighWatermark
				for rest := res.Data; len(rest) > 0; {
					var b record.Batch
					if b, rest, err = record.Cut(rest); err != nil {
						t.Errorf("read from %d: %v", next, err)
						return
					}
					for rec, err := range reader.Records(b) {
						if err != nil || string(rec.Value) != fmt.Sprint(rec.Offset) {
							t.Errorf("offset %d has value %q, %v", rec.Offset, rec.Value, err)
							return
						}
					}
					next = b.NextOffset()
				}
				if len(res.Data) == 0 {
					next = max(0, next-50)
				}
			}
		})
	}
	acked := int64(0)
	for i := range 1500 {
		a, err := l.Append(testBatch(fmt.Sprint(acked)), AppendOptions{})
		if err == nil {
			err = l.WaitDurable(context.Background(), a)
		}
		switch {
		case err == nil:
			acked = a.NextOffset
		case !errors.Is(err, ErrStorage):
			t.Fatal(err)
		}
		switch {
		case i%50 == 20:
			gate.fail(errInjected)
		case i%50 == 22:
			gate.fail(nil)
		case i%100 == 99:
			if _, err := l.DeleteBefore(acked - 100); err != nil && !errors.Is(err, ErrOffsetOutOfRange) {
				t.Fatal(err)
			}
		}
	}
	cancel()
	readers.Wait()
	rig.stop(l)
}

func TestOffsetForLeaderEpoch(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.epoch = 3
	l := rig.start()
	check := func(asked, epoch int32, end int64) {
		t.Helper()
		if gotEpoch, gotEnd, err := l.EndOffsetForEpoch(asked); err != nil || gotEpoch != epoch || gotEnd != end {
			t.Errorf("end of epoch %d: got (%d, %d), %v, want (%d, %d)", asked, gotEpoch, gotEnd, err, epoch, end)
		}
	}
	check(3, 3, 0)
	if got, err := l.EarliestEpoch(); err != nil || got != 3 {
		t.Errorf("earliest epoch of an empty log: got %d, %v, want 3", got, err)
	}
	appendDurably(t, l, testBatch("a", "b"))
	check(3, 3, 2)
	rig.stop(l)
	rig.epoch = 5
	l = rig.start()
	check(3, 3, 2)
	check(5, 5, 2)
	appendDurably(t, l, testBatch("c"))
	check(2, 2, 0)
	check(3, 3, 2)
	check(4, 3, 2)
	check(5, 5, 3)
	check(6, -1, -1)
	check(-1, -1, -1)
	if got, err := l.EarliestEpoch(); err != nil || got != 3 {
		t.Errorf("earliest epoch: got %d, %v, want 3", got, err)
	}
	if got := l.LeaderEpoch(); got != 5 {
		t.Errorf("leader epoch: got %d, want 5", got)
	}
	rig.stop(l)
	// Another broker had come further.
	rig.epoch = 4
	l = rig.start()
	if _, err := l.Offsets(); err != nil || l.LeaderEpoch() != 5 {
		t.Errorf("leader epoch below the log's: got %d, %v, want 5", l.LeaderEpoch(), err)
	}
	rig.stop(l)
}
