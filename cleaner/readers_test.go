package cleaner

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestReadersBesidePassesAndRetention has readers at offsets of their choice while passes rewrite the segments of a log and
// retention deletes some. A pass goes on from batch to batch only when a reader has begun another read, so that reads meet
// every state of a log, on any machine. Each gives batches that were written, with all records in them that stay for good, or
// says that the offset is below the log start.
func TestReadersBesidePassesAndRetention(t *testing.T) {
	var nowMs atomic.Int64 // a reader may be the one that removes a file, at that time
	nowMs.Store(1_700_000_000_000)
	clock := func() time.Time { return time.UnixMilli(nowMs.Load()) }
	s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: clock}), Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	c := New(Options{Store: s, Now: clock})
	l := topicLog(t, s, "orders", small(
		"cleanup.policy", "compact,delete", "internal.segment.bytes", "3000", "file.delete.delay.ms", "0",
		"index.interval.bytes", "200", "retention.ms", "250000",
	))
	next := int64(0)
	appendSome := func() {
		for range 40 {
			b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, Codec: record.Codec(next % 5)})
			for range 1 + next%7 {
				b.Append(recordAt(next, clock()))
				next++
			}
			appendDurably(t, l, b.Bytes(), storage.OriginClient)
		}
	}
	turns := make(chan struct{}) // a reader takes one for each read
	var reads, below atomic.Int64
	var readers sync.WaitGroup
	for i := range uint64(4) {
		readers.Go(func() {
			x := reader{t: t, log: l, seed: i, rand: rand.New(rand.NewPCG(i, 4)), below: &below}
			for range turns {
				x.read()
				reads.Add(1)
			}
		})
	}
	stop := sync.OnceFunc(func() {
		close(turns)
		readers.Wait()
	})
	defer stop()
	own := c.compactor(DefaultConfig())
	own.pace = func(context.Context, int) error {
		turns <- struct{}{}
		return nil
	}
	replaced := 0
	for range 12 {
		appendSome()
		if err := l.Roll(); err != nil {
			t.Fatal(err)
		}
		ch, err := choose(l, l.CleanedTo(), nowMs.Load())
		if err != nil {
			t.Fatal(err)
		}
		st, err := own.pass(t.Context(), l, ch, nowMs.Load())
		if err != nil {
			t.Fatal(err)
		}
		replaced += st.Replaced
		nowMs.Add(time.Minute.Milliseconds())
		for range 4 {
			turns <- struct{}{}
		}
		if err := c.RetainLog(l); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	deleted := c.Stats().SegmentsDeleted
	t.Logf("%d reads, %d of them below the log start, beside %d replacements and %d deletions", reads.Load(), below.Load(), replaced, deleted)
	if replaced < 20 || deleted < 5 || below.Load() < 20 || reads.Load()-below.Load() < 500 {
		t.Error("that is too few")
	}
}

// staysAt is whether the record at an offset is the only one of its key.
func staysAt(offset int64) bool { return offset%5 == 0 }

// recordAt is the record that the test writes at an offset.
func recordAt(offset int64, at time.Time) record.Record {
	r := record.Record{Key: fmt.Appendf(nil, "k%d", offset%11), Value: fmt.Appendf(nil, "value %d", offset), Timestamp: at.UnixMilli()}
	if staysAt(offset) {
		r.Key = fmt.Appendf(nil, "stays %d", offset)
	}
	return r
}

// reader reads a log whose records are those of recordAt.
type reader struct {
	t     *testing.T
	log   *storage.Log
	seed  uint64
	rand  *rand.Rand
	below *atomic.Int64 // reads below the log start
	data  []byte
}

// read reads once and reports what should not be.
func (x *reader) read() {
	before, err := x.log.Offsets()
	if err != nil {
		x.t.Error(err)
		return
	}
	offset := x.rand.Int64N(before.HighWatermark)
	if x.rand.IntN(2) == 0 { // near the log start, which moves
		offset = max(0, before.LogStart-20+x.rand.Int64N(40))
	}
	what := fmt.Sprintf("seed %d, offset %d", x.seed, offset)
	res, err := x.log.Read(x.data[:0], storage.ReadRequest{Offset: offset, MaxBytes: 1 + x.rand.IntN(4000), MinOneBatch: true})
	after, err2 := x.log.Offsets()
	if err2 != nil {
		x.t.Errorf("%s: %v", what, err2)
		return
	}
	if errors.Is(err, storage.ErrOffsetOutOfRange) && offset < after.LogStart {
		x.below.Add(1)
		return
	}
	if err != nil || offset < before.LogStart || len(res.Data) == 0 && offset < before.HighWatermark {
		x.t.Errorf("%s: %d bytes, %v, where the log starts at offset %d before and at %d after", what, len(res.Data), err, before.LogStart, after.LogStart)
		return
	}
	x.data = res.Data
	x.check(what, offset, res.Data)
}

// check looks at the batches of a read.
func (x *reader) check(what string, offset int64, data []byte) {
	found := map[int64]bool{}
	var records record.Reader
	last, end := int64(-1), offset
	for first := true; len(data) > 0; first = false {
		b, rest, err := record.Cut(data)
		if err == nil {
			err = b.VerifyCRC()
		}
		if err != nil {
			x.t.Errorf("%s: batch behind offset %d: %v", what, last, err)
			return
		}
		data = rest
		if b.BaseOffset() <= last || first && b.LastOffset() < offset {
			x.t.Errorf("%s: a batch of offsets %d to %d behind offset %d", what, b.BaseOffset(), b.LastOffset(), last)
		}
		for r, err := range records.Records(b) {
			if err != nil {
				x.t.Errorf("%s: %v", what, err)
				return
			}
			want := recordAt(r.Offset, time.Time{})
			if r.Offset <= last || string(r.Key) != string(want.Key) || string(r.Value) != string(want.Value) {
				x.t.Errorf("%s: offset %d, behind %d, has %s=%s, want %s=%s", what, r.Offset, last, r.Key, r.Value, want.Key, want.Value)
			}
			last = r.Offset
			found[r.Offset] = true
		}
		last, end = b.LastOffset(), b.NextOffset()
	}
	for o := offset; o < end; o++ {
		if staysAt(o) && !found[o] {
			x.t.Errorf("%s: read up to offset %d, and the record at offset %d is missing", what, end, o)
		}
	}
}
