package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// logRig is what stands in for a store around one log: the checkpoints that survive in memory from one start of the
// log to the next.
type logRig struct {
	tb         testing.TB
	fs         vfs.FS
	dir        string
	now        func() time.Time
	logger     *slog.Logger
	configs    map[string]string
	durability Durability
	openFiles  int
	epoch      int32
	adopted    bool
	clean      bool

	mu       sync.Mutex
	point    int64 // guarded by mu
	logStart int64 // guarded by mu; saved durably

	ctx *logContext
}

func newLogRig(tb testing.TB, fsys vfs.FS) *logRig {
	tb.Helper()
	if err := errors.Join(fsys.MkdirAll("data"), fsys.SyncDir(".")); err != nil {
		tb.Fatal(err)
	}
	return newLogRigAt(tb, fsys, "data")
}

// newLogRigAt is newLogRig in a directory that exists.
func newLogRigAt(tb testing.TB, fsys vfs.FS, dir string) *logRig {
	return &logRig{tb: tb, fs: fsys, dir: dir, now: func() time.Time { return time.UnixMilli(1_700_000_000_000) }, logger: slog.New(slog.DiscardHandler), configs: map[string]string{}, openFiles: 64}
}

var testTopicID = TopicID{1, 2, 3}

// start returns the log as after a start of the store.
func (r *logRig) start() *Log {
	r.ctx = &logContext{
		fs: r.fs, now: r.now, logger: r.logger, commits: newCommitter(4), files: newOpenFiles(r.fs, r.openFiles),
		epoch: func() int32 { return r.epoch }, producerIDExpiration: 24 * time.Hour,
		saveLogStart: func(_ *Log, offset int64) error {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.logStart = max(r.logStart, offset)
			return nil
		},
	}
	var config atomic.Pointer[TopicConfig]
	config.Store(newTopicConfig(r.configs, nil))
	r.mu.Lock()
	defer r.mu.Unlock()
	return newLog(r.ctx, "orders", 0, testTopicID, filepath.Join(r.dir, "orders-0"), &config, logOrigin{
		durability: r.durability, clean: r.clean, adopted: r.adopted, recoveryPoint: r.point, logStart: r.logStart,
	})
}

// setPoint keeps a recovery point as the store's checkpoint does.
func (r *logRig) setPoint(point int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.point = point
}

// stop closes the log as a clean stop does, and keeps its checkpoints.
func (r *logRig) stop(l *Log) {
	r.tb.Helper()
	if err := l.close(); err != nil {
		r.tb.Fatalf("close: %v", err)
	}
	r.ctx.commits.close()
	if point, _, ok := l.checkpoints(); ok {
		r.setPoint(point)
	}
	r.clean = true
	if n := r.ctx.files.count(); n != 0 {
		r.tb.Errorf("%d files are open after a clean stop", n)
	}
}

// kill forgets the log as kill -9 does: what was written is in the files, synced or not.
func (r *logRig) kill(l *Log) {
	l.markDeleted()
	r.ctx.commits.close()
	r.clean = false
}

// testBatch is a batch of records as a client sends it.
func testBatch(values ...string) record.Batch {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	for i, v := range values {
		b.Append(record.Record{Timestamp: 1_700_000_000_000 + int64(i), Key: []byte("k"), Value: []byte(v)})
	}
	return bytes.Clone(b.Bytes())
}

// idempotentBatch is a batch of n records of an idempotent producer.
func idempotentBatch(id int64, epoch int16, sequence int32, n int) record.Batch {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, HasProducer: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence})
	for i := range n {
		b.Append(record.Record{Timestamp: 1_700_000_000_000, Value: fmt.Appendf(nil, "%d/%d", sequence, i)})
	}
	return bytes.Clone(b.Bytes())
}

// txnBatch is a transactional batch, as the coordinator's side may append it.
func txnBatch(id int64, epoch int16, sequence int32, n int) record.Batch {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1, HasProducer: true, ProducerID: id, ProducerEpoch: epoch, BaseSequence: sequence, Transactional: true})
	for i := range n {
		b.Append(record.Record{Timestamp: 1_700_000_000_000, Value: fmt.Appendf(nil, "%d/%d", sequence, i)})
	}
	return bytes.Clone(b.Bytes())
}

func appendTo(tb testing.TB, l *Log, b record.Batch) Appended {
	tb.Helper()
	a, err := l.Append(b, AppendOptions{})
	if err != nil {
		tb.Fatalf("append: %v", err)
	}
	return a
}

// appendDurably appends and waits.
func appendDurably(tb testing.TB, l *Log, b record.Batch) Appended {
	tb.Helper()
	a := appendTo(tb, l, b)
	if err := l.WaitDurable(context.Background(), a); err != nil {
		tb.Fatalf("wait for offset %d: %v", a.NextOffset, err)
	}
	return a
}

func appendCoordinator(tb testing.TB, l *Log, b record.Batch) Appended {
	tb.Helper()
	a, err := l.Append(b, AppendOptions{Origin: OriginCoordinator, Unverified: true})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if err != nil {
		tb.Fatalf("append: %v", err)
	}
	return a
}

// readValues reads the records from offset on, as "offset=value".
func readValues(tb testing.TB, l *Log, offset int64, iso Isolation) []string {
	tb.Helper()
	var out []string
	var reader record.Reader
	for {
		res, err := l.Read(nil, ReadRequest{Offset: offset, MaxBytes: 1 << 20, Isolation: iso, MinOneBatch: true})
		if err != nil {
			tb.Fatalf("read from offset %d: %v", offset, err)
		}
		if len(res.Data) == 0 {
			return out
		}
		for rest := res.Data; len(rest) > 0; {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				tb.Fatalf("read from offset %d: %v", offset, err)
			}
			for rec, err := range reader.Records(b) {
				if err != nil {
					tb.Fatalf("records of the batch at offset %d: %v", b.BaseOffset(), err)
				}
				if rec.Offset >= offset && !b.Control() {
					out = append(out, fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
				}
			}
			offset = max(offset, b.NextOffset())
		}
	}
}

func wantValues(tb testing.TB, got []string, want ...string) {
	tb.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		tb.Errorf("records: got %v, want %v", got, want)
	}
}

func wantOffsets(tb testing.TB, l *Log, want Offsets) {
	tb.Helper()
	got, err := l.Offsets()
	if err != nil || got != want {
		tb.Errorf("offsets: got %+v, %v, want %+v", got, err, want)
	}
}

func TestAppendIsReadBackAfterEveryKindOfStop(t *testing.T) {
	for _, how := range []string{"clean", "kill"} {
		t.Run(how, func(t *testing.T) {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			l := rig.start()
			wantOffsets(t, l, Offsets{})
			if a := appendDurably(t, l, testBatch("a", "b")); a.BaseOffset != 0 || a.NextOffset != 2 {
				t.Errorf("first append: got %+v, want offsets 0 to 2", a)
			}
			appendDurably(t, l, testBatch("c"))
			wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=a", "1=b", "2=c")
			wantValues(t, readValues(t, l, 1, ReadUncommitted), "1=b", "2=c")
			if how == "clean" {
				rig.stop(l)
			} else {
				rig.kill(l)
			}
			rig.epoch++
			l = rig.start()
			wantOffsets(t, l, Offsets{LastStable: 3, HighWatermark: 3, End: 3})
			wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=a", "1=b", "2=c")
			appendDurably(t, l, testBatch("d"))
			wantValues(t, readValues(t, l, 2, ReadUncommitted), "2=c", "3=d")
			rig.stop(l)
		})
	}
}

func TestReadOutOfRange(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	appendDurably(t, l, testBatch("a"))
	for _, offset := range []int64{-1, 2} {
		if _, err := l.Read(nil, ReadRequest{Offset: offset, MaxBytes: 1}); !errors.Is(err, ErrOffsetOutOfRange) {
			t.Errorf("read at offset %d: got %v, want ErrOffsetOutOfRange", offset, err)
		}
	}
	if res, err := l.Read(nil, ReadRequest{Offset: 1, MaxBytes: 1}); err != nil || len(res.Data) != 0 {
		t.Errorf("read at the end: got %d bytes, %v, want none", len(res.Data), err)
	}
	rig.stop(l)
}

func TestSegmentsRollAndRecover(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["internal.segment.bytes"] = "300"
	l := rig.start()
	var want []string
	for i := range 20 {
		v := fmt.Sprintf("v%d", i)
		appendDurably(t, l, testBatch(v))
		want = append(want, fmt.Sprintf("%d=%s", i, v))
	}
	infos, err := l.Segments()
	if err != nil || len(infos) != 5 {
		t.Errorf("got %d segments, %v, want 5: %+v", len(infos), err, infos)
	}
	wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
	rig.kill(l)
	l = rig.start()
	wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
	rig.stop(l)
	l = rig.start()
	wantValues(t, readValues(t, l, 7, ReadUncommitted), want[7:]...)
	rig.stop(l)
}

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0)) }
