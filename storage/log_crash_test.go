package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// crashPoint is a moment at which the power could go, and what must hold afterwards.
type crashPoint struct {
	mem      *vfs.Mem // what is left
	label    string
	wrote    []modelBatch // what had been handed to the log
	acked    int64        // what had been acknowledged
	point    int64
	logStart int64
	epoch    int32
}

// crashRun is a modelRun on a file system that may lose its power after every sync.
type crashRun struct {
	*modelRun
	mem *vfs.Mem

	mu      sync.Mutex
	rand    *rand.Rand   // guarded by mu
	written []modelBatch // guarded by mu
	durable int64        // guarded by mu
	points  []crashPoint // guarded by mu
	share   float64      // of the syncs after which a crash is tried
}

// newCrashRun wraps the memory file system with wrap, which may leave out syncs.
func newCrashRun(tb testing.TB, seed uint64, wrap func(vfs.FS) vfs.FS) *crashRun {
	c := &crashRun{mem: vfs.NewMem(vfs.MemOptions{Crashable: true}), rand: rand.New(rand.NewPCG(seed, 3)), share: 0.3}
	fsys := vfs.After(wrap(c.mem), func(op vfs.Op, err error) {
		if (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir) && err == nil {
			c.crash(op)
		}
	})
	c.modelRun = newModelRun(tb, fsys, rand.New(rand.NewPCG(seed, 2)))
	c.modelRun.wrote = func(b modelBatch) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for len(c.written) > 0 && c.written[len(c.written)-1].next > b.base {
			c.written = c.written[:len(c.written)-1]
		}
		c.written = append(c.written, b)
	}
	c.modelRun.acked = func(end int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.durable = max(c.durable, end)
	}
	return c
}

// crash takes a crash clone.
func (c *crashRun) crash(op vfs.Op) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.rand.Float64() > c.share || c.modelRun == nil {
		return
	}
	keep := 0.0
	if c.rand.IntN(2) == 0 {
		keep = c.rand.Float64()
	}
	p := crashPoint{
		mem: c.mem.CrashClone(c.rand.Uint64(), keep), label: fmt.Sprintf("after %v, keeping %.2f", op, keep),
		acked: c.durable, epoch: c.rig.epoch + 1,
	}
	p.wrote = append(p.wrote, c.written...)
	c.rig.mu.Lock()
	p.point, p.logStart = c.rig.point, c.rig.logStart
	c.rig.mu.Unlock()
	c.points = append(c.points, p)
}

// verify starts a log on what is left of the moment and checks it, and then the same for crashes of that start.
func (p *crashPoint) verify(tb testing.TB, c *crashRun, r *rand.Rand, deeper bool) error {
	var inner []crashPoint
	recovered := false
	var fsys vfs.FS = p.mem
	if deeper {
		fsys = vfs.After(p.mem, func(op vfs.Op, err error) {
			if (op.Kind == vfs.OpSync || op.Kind == vfs.OpSyncDir) && err == nil && !recovered {
				q := *p
				q.label = "recovery " + op.String()
				q.mem = p.mem.CrashClone(r.Uint64(), r.Float64()*float64(r.IntN(2)))
				inner = append(inner, q)
			}
		})
	}
	var lines bytes.Buffer
	rig := newLogRig(tb, fsys)
	rig.logger = slog.New(slog.NewTextHandler(&lines, nil))
	rig.configs, rig.point, rig.logStart, rig.epoch, rig.now = c.rig.configs, p.point, p.logStart, p.epoch, c.rig.now
	l := rig.start()
	err := l.recover()
	recovered = true
	if err == nil {
		err = p.verifyLog(l, r)
	}
	if err != nil {
		return fmt.Errorf("%s, recovery point %d: %w\n%s", p.label, p.point, err, lines.String())
	}
	rig.kill(l)
	for i := range inner {
		if err := inner[i].verify(tb, c, r, false); err != nil {
			return fmt.Errorf("%s: %w", p.label, err)
		}
	}
	return nil
}

func (p *crashPoint) verifyLog(l *Log, r *rand.Rand) error {
	offsets, err := l.Offsets()
	if err != nil {
		return err
	}
	model := &logModel{batches: append([]modelBatch{}, p.wrote...), start: p.logStart}
	model.cut(offsets.HighWatermark)
	if model.end() != offsets.HighWatermark && !(len(model.batches) == 0 && offsets.HighWatermark == p.logStart) {
		return fmt.Errorf("high watermark %d is in the middle of a batch, or above what was written", offsets.HighWatermark)
	}
	if offsets.HighWatermark < p.acked {
		return fmt.Errorf("high watermark is %d, acknowledged was %d", offsets.HighWatermark, p.acked)
	}
	if err := model.check(l, r); err != nil {
		return err
	}
	if err := verifyProducers(l, model); err != nil {
		return err
	}
	a, err := l.Append(testBatch("after the crash"), AppendOptions{})
	if err == nil {
		err = l.WaitDurable(context.Background(), a)
	}
	if err != nil || a.BaseOffset != offsets.HighWatermark {
		return fmt.Errorf("append after the crash: got %+v, %w", a, err)
	}
	return endAll(l, model)
}

// verifyProducers looks whether what each producer sent last is known again, and which transactions are open.
func verifyProducers(l *Log, model *logModel) error {
	last, epoch, ended := map[int64]modelBatch{}, map[int64]int16{}, map[int64]bool{}
	for _, b := range model.batches {
		if b.producer < 0 || b.base < model.start {
			continue
		}
		if epoch[b.producer], ended[b.producer] = b.pepoch, b.marker; !b.marker {
			last[b.producer] = b
		}
	}
	for _, b := range last {
		a, err := l.Append(bytes.Clone(b.raw), AppendOptions{})
		if stale := epoch[b.producer] > b.pepoch; stale && !errors.Is(err, ErrInvalidProducerEpoch) ||
			!stale && (err != nil || !a.Duplicate || a.BaseOffset != b.base) {
			return fmt.Errorf("batch at %d of epoch %d sent again, marker has epoch %d: got %+v, %v", b.base, b.pepoch, epoch[b.producer], a, err)
		}
		if !b.txn {
			continue
		}
		v, err := l.StartVerification(b.producer, epoch[b.producer], b.sequence+int32(len(b.values)), false)
		if err != nil || (v != nil) != ended[b.producer] {
			return fmt.Errorf("verification of producer %d, last batch at %d, ended %t: got %v, %v", b.producer, b.base, ended[b.producer], v, err)
		}
	}
	return nil
}

// endAll aborts what is open, as the coordinator does after a start.
func endAll(l *Log, model *logModel) error {
	_, open := model.allTxns()
	for producer := range open {
		marker := record.EndTxnMarker(producer, 100, record.Marker{}, 1000, 0)
		a, err := l.Append(marker, AppendOptions{Origin: OriginCoordinator, TransactionV2: true})
		if err == nil {
			err = l.WaitDurable(context.Background(), a)
		}
		if err != nil {
			return fmt.Errorf("marker of producer %d after the crash: %w", producer, err)
		}
	}
	if o, err := l.Offsets(); err != nil || o.LastStable != o.End {
		return fmt.Errorf("with all transactions ended: got %+v, %v, want all of it stable", o, err)
	}
	aborted, _ := model.allTxns()
	got, err := l.AbortedTxns(model.start, 1<<40)
	if err != nil || len(got) < len(open) || len(got) > len(open)+len(aborted) {
		return fmt.Errorf("aborted: got %+v, %v, want the %d that were open and at most %d others", got, err, len(open), len(aborted))
	}
	return nil
}

// run does steps and verifies every crash on the way.
func (c *crashRun) run(tb testing.TB, steps int) error {
	verified := 0
	for i := range steps {
		err := c.step()
		if err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
		c.mu.Lock()
		points := c.points
		c.points = nil
		c.mu.Unlock()
		for j := range points {
			if err := points[j].verify(tb, c, c.r, verified%4 == 0); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
			verified++
		}
	}
	c.rig.kill(c.l)
	return nil
}

// TestCrashAfterEverySync loses the power after syncs of random operations, and checks what a start makes of what is
// left: everything acknowledged is there, nothing is that was not written, offsets have no gap, indexes, transactions
// and producers are as if nothing had happened.
func TestCrashAfterEverySync(t *testing.T) {
	seeds := uint64(20)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		faults := new(syncFaults)
		c := newCrashRun(t, seed, faults.wrap)
		if seed%2 == 1 {
			c.modelRun.faults = faults
		}
		if err := c.run(t, 40); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// TestCrashTestNoticesMissingSyncs leaves out syncs that the log relies on: the crash test has to fail then.
func TestCrashTestNoticesMissingSyncs(t *testing.T) {
	for _, c := range []struct {
		name string
		skip func(vfs.Op) bool
	}{
		{"batches are not synced", func(op vfs.Op) bool { return op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, logSuffix) }},
		{"names are not synced", func(op vfs.Op) bool { return op.Kind == vfs.OpSyncDir }},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(30) {
				run := newCrashRun(t, seed, func(f vfs.FS) vfs.FS { return vfs.SkipSyncs(f, c.skip) })
				if err := run.run(t, 40); err != nil {
					return
				}
			}
			t.Error("30 seeds found nothing wrong")
		})
	}
}

var errInjected = errors.New("injected fault")
