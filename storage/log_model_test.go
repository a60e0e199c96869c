package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// modelBatch is a batch that was appended.
type modelBatch struct {
	base, next int64
	values     []string
	times      []int64
	producer   int64 // -1 for none
	pepoch     int16 // the producer's
	sequence   int32
	txn        bool
	marker     bool
	commit     bool
	epoch      int32        // leader epoch
	raw        record.Batch // as it was sent
}

// logModel is what a log must be like: a slice.
type logModel struct {
	batches []modelBatch
	start   int64
}

func (m *logModel) end() int64 {
	if n := len(m.batches); n > 0 {
		return m.batches[n-1].next
	}
	return 0
}

// cut drops what is not below end.
func (m *logModel) cut(end int64) {
	for len(m.batches) > 0 && m.batches[len(m.batches)-1].next > end {
		m.batches = m.batches[:len(m.batches)-1]
	}
}

// txns returns the aborted transactions, and the first offset of the earliest that is open, or the end.
func (m *logModel) txns() (aborted []AbortedTxn, lso int64) {
	aborted, open := m.allTxns()
	lso = m.end()
	for _, first := range open {
		lso = min(lso, first)
	}
	return aborted, lso
}

// allTxns returns the aborted transactions, and the first offsets of the open ones by producer.
func (m *logModel) allTxns() (aborted []AbortedTxn, open map[int64]int64) {
	open = map[int64]int64{}
	for _, b := range m.batches {
		first, isOpen := open[b.producer]
		switch {
		case b.marker && isOpen:
			if !b.commit {
				aborted = append(aborted, AbortedTxn{ProducerID: b.producer, FirstOffset: first, LastOffset: b.base})
			}
			delete(open, b.producer)
		case b.txn && !b.marker && !isOpen:
			open[b.producer] = b.base
		}
	}
	return aborted, open
}

// checkOpen compares the transactions that are open.
func (m *logModel) checkOpen(l *Log) error {
	infos, err := l.ActiveProducers()
	if err != nil {
		return err
	}
	got := map[int64]int64{}
	for _, p := range infos {
		if p.TxnFirstOffset >= 0 {
			got[p.ProducerID] = p.TxnFirstOffset
		}
	}
	if _, want := m.allTxns(); !maps.Equal(got, want) {
		return fmt.Errorf("open transactions by producer: got %v, want %v", got, want)
	}
	return nil
}

// check compares a log, at rest, with the model.
func (m *logModel) check(l *Log, r *rand.Rand) error {
	aborted, lso := m.txns()
	got, err := l.Offsets()
	if want := (Offsets{LogStart: m.start, LastStable: lso, HighWatermark: m.end(), End: m.end()}); err != nil || got != want {
		return fmt.Errorf("offsets: got %+v, %v, want %+v", got, err, want)
	}
	from := m.start
	if m.end() > m.start {
		from += r.Int64N(m.end() - m.start + 1)
	}
	for _, from := range []int64{m.start, from} {
		for _, iso := range []Isolation{ReadUncommitted, ReadCommitted} {
			if err := m.checkRead(l, from, iso, aborted, lso, r); err != nil {
				return fmt.Errorf("read from %d with isolation %d: %w", from, iso, err)
			}
		}
	}
	if err := m.checkTimes(l, r); err != nil {
		return err
	}
	if err := m.checkOpen(l); err != nil {
		return err
	}
	return m.checkEpochs(l)
}

func (m *logModel) checkRead(l *Log, from int64, iso Isolation, aborted []AbortedTxn, lso int64, r *rand.Rand) error {
	var want, got []string
	bound := m.end()
	if iso == ReadCommitted {
		bound = lso
	}
	for _, b := range m.batches {
		if b.marker || b.next <= from || b.base >= bound {
			continue
		}
		if iso == ReadCommitted && b.txn && slices.ContainsFunc(aborted, func(a AbortedTxn) bool {
			return a.ProducerID == b.producer && a.FirstOffset <= b.base && b.base < a.LastOffset
		}) {
			continue
		}
		for i, v := range b.values {
			if o := b.base + int64(i); o >= from {
				want = append(want, fmt.Sprintf("%d=%s", o, v))
			}
		}
	}
	var reader record.Reader
	for offset := from; ; {
		req := ReadRequest{Offset: offset, MaxBytes: 1 + r.IntN(2000), Isolation: iso, MinOneBatch: true}
		readable, err := l.Readable(offset, iso, 1<<30)
		if err != nil {
			return fmt.Errorf("readable at %d: %w", offset, err)
		}
		res, err := l.Read([]byte("prefix"), req)
		if err != nil {
			return err
		}
		if !bytes.HasPrefix(res.Data, []byte("prefix")) {
			return errors.New("read overwrote what was in the buffer")
		}
		rest := res.Data[len("prefix"):]
		if len(rest) > readable {
			return fmt.Errorf("at %d: read %d bytes, readable said %d", offset, len(rest), readable)
		}
		if len(rest) == 0 {
			if readable != 0 {
				return fmt.Errorf("at %d: nothing to read, readable says %d", offset, readable)
			}
			break
		}
		for len(rest) > 0 {
			var b record.Batch
			if b, rest, err = record.Cut(rest); err != nil {
				return fmt.Errorf("at %d: %w", offset, err)
			}
			skip := b.Control()
			if iso == ReadCommitted && b.Transactional() {
				skip = skip || slices.ContainsFunc(res.Aborted, func(a AbortedTxn) bool {
					return a.ProducerID == b.ProducerID() && a.FirstOffset <= b.BaseOffset() && b.BaseOffset() < a.LastOffset
				})
			}
			for rec, err := range reader.Records(b) {
				if err != nil {
					return fmt.Errorf("batch at %d: %w", b.BaseOffset(), err)
				}
				if rec.Offset >= from && !skip {
					got = append(got, fmt.Sprintf("%d=%s", rec.Offset, rec.Value))
				}
			}
			offset = b.NextOffset()
		}
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			return fmt.Errorf("record %d of %d: got %v, want %d records with %v there", i, len(got), got[min(i, len(got)):min(i+2, len(got))], len(want), want[min(i, len(want)):min(i+2, len(want))])
		}
	}
	return nil
}

// checkTimes compares the look-up by time with a scan.
func (m *logModel) checkTimes(l *Log, r *rand.Rand) error {
	ms := 1000 + r.Int64N(1200)
	want, wantMax := TimedOffset{Offset: -1}, TimedOffset{Offset: -1, Timestamp: -1}
	for _, b := range m.batches {
		for i, t := range b.times {
			o := b.base + int64(i)
			if o < m.start {
				continue
			}
			if t >= ms && want.Offset < 0 {
				want = TimedOffset{Offset: o, Timestamp: t, LeaderEpoch: b.epoch}
			}
			if t > wantMax.Timestamp {
				wantMax = TimedOffset{Offset: o, Timestamp: t, LeaderEpoch: b.epoch}
			}
		}
	}
	got, ok, err := l.OffsetForTime(ms, ReadUncommitted)
	if err != nil || ok != (want.Offset >= 0) || ok && got != want {
		return fmt.Errorf("offset for time %d: got %+v, %v, %v, want %+v", ms, got, ok, err, want)
	}
	if m.start > 0 {
		return nil // the largest timestamp may lie below the log start, in a segment that is or is not there
	}
	got, ok, err = l.MaxTimestamp(ReadUncommitted)
	if err != nil || ok != (wantMax.Offset >= 0) || ok && got != wantMax {
		return fmt.Errorf("max timestamp: got %+v, %v, %v, want %+v", got, ok, err, wantMax)
	}
	return nil
}

// checkEpochs compares where each leader epoch ends.
func (m *logModel) checkEpochs(l *Log) error {
	for i, b := range m.batches {
		if b.next <= m.start || i+1 < len(m.batches) && m.batches[i+1].epoch == b.epoch {
			continue
		}
		want := b.next
		if epoch, end, err := l.EndOffsetForEpoch(b.epoch); err != nil || epoch != b.epoch || end != want {
			return fmt.Errorf("end of epoch %d: got epoch %d, offset %d, %v, want %d", b.epoch, epoch, end, err, want)
		}
	}
	return nil
}

// modelRun drives a log and its model with random operations.
type modelRun struct {
	r     *rand.Rand
	rig   *logRig
	l     *Log
	model *logModel
	seq   map[int64]int32
	epoch map[int64]int16
	txn   map[int64]bool
	ended map[int64]bool          // with a marker that may not be durable
	old   map[int64]*Verification // the last that was used
	n     int
	// acked is called when an append was acknowledged, wrote before it is made.
	wrote func(b modelBatch)
	acked func(end int64)
	// faults, when not nil, makes syncs of a log fail.
	faults *syncFaults
}

func newModelRun(tb testing.TB, fsys vfs.FS, r *rand.Rand) *modelRun {
	rig := newLogRig(tb, fsys)
	rig.configs["internal.segment.bytes"] = strconv.Itoa(600 + r.IntN(3000))
	rig.configs["index.interval.bytes"] = strconv.Itoa(r.IntN(500))
	rig.configs["file.delete.delay.ms"] = strconv.Itoa(r.IntN(2) * 1000)
	rig.configs["message.timestamp.after.max.ms"] = "9223372036854775807"
	rig.openFiles = 1 + r.IntN(12)
	rig.now = func() time.Time { return time.UnixMilli(5000) }
	m := &modelRun{r: r, rig: rig, model: &logModel{}, old: map[int64]*Verification{}, wrote: func(modelBatch) {}, acked: func(int64) {}}
	m.recount()
	m.l = rig.start()
	return m
}

// Of the producers below transactional none has transactions, and of the others those of odd ids have them in version 2.
const transactional = 10

// next makes a random batch that the log should take.
func (m *modelRun) next() (record.Batch, modelBatch) {
	r, base := m.r, m.model.end()
	o := record.BuilderOptions{LeaderEpoch: -1}
	mb := modelBatch{base: base, producer: -1, epoch: m.rig.epoch}
	switch k := r.IntN(10); {
	case k < 4:
	case k < 7:
		mb.producer = r.Int64N(3)
	default:
		id := transactional + r.Int64N(4)
		if m.ended[id] {
			break // the coordinator waits until the marker is durable
		}
		mb.producer, mb.txn, mb.pepoch = id, true, m.epoch[id]
		if m.txn[mb.producer] && r.IntN(2) == 0 || r.IntN(30) == 0 {
			mb.marker, mb.commit = true, r.IntN(2) == 0
			mb.next, mb.times = base+1, []int64{1000}
			if mb.producer%2 == 1 {
				mb.pepoch++
			}
			return bytes.Clone(record.EndTxnMarker(mb.producer, mb.pepoch, record.Marker{Commit: mb.commit}, 1000, -1)), mb
		}
	}
	if mb.producer >= 0 {
		mb.sequence = m.seq[mb.producer]
		o.HasProducer, o.ProducerID, o.ProducerEpoch, o.BaseSequence, o.Transactional = true, mb.producer, mb.pepoch, mb.sequence, mb.txn
	}
	if r.IntN(4) == 0 {
		o.Codec = record.Codec(1 + r.IntN(3))
	}
	b := record.NewBuilder(o)
	for range 1 + r.IntN(5) {
		m.n++
		v := fmt.Sprintf("%d-%s", m.n, bytes.Repeat([]byte("x"), r.IntN(60)))
		t := 1000 + r.Int64N(1000)
		b.Append(record.Record{Timestamp: t, Value: []byte(v)})
		mb.values, mb.times = append(mb.values, v), append(mb.times, t)
	}
	mb.next = base + int64(len(mb.values))
	mb.raw = bytes.Clone(b.Bytes())
	return mb.raw, mb
}

// took notes that the log took a batch.
func (m *modelRun) took(mb modelBatch) {
	m.model.batches = append(m.model.batches, mb)
	m.count(mb)
}

func (m *modelRun) count(mb modelBatch) {
	if mb.producer < 0 {
		return
	}
	if mb.pepoch != m.epoch[mb.producer] {
		m.epoch[mb.producer], m.seq[mb.producer] = mb.pepoch, 0
	}
	m.seq[mb.producer] += int32(len(mb.values))
	if mb.txn {
		m.txn[mb.producer] = !mb.marker
	}
}

// recount says again where the producers are, after batches were cut off.
func (m *modelRun) recount() {
	m.seq, m.epoch, m.txn = map[int64]int32{}, map[int64]int16{}, map[int64]bool{}
	for _, mb := range m.model.batches {
		m.count(mb)
	}
}

// forgotten reports whether nothing but markers is left of the producer's epoch. A start then leaves it with an epoch and
// without a sequence, as in Kafka.
func (m *modelRun) forgotten(mb modelBatch) bool {
	return !slices.ContainsFunc(m.model.batches, func(b modelBatch) bool {
		return b.producer == mb.producer && !b.marker && b.pepoch == mb.pepoch && b.next > m.model.start
	})
}

// append appends a batch, after attempts that must fail.
func (m *modelRun) append(b record.Batch, mb modelBatch) (Appended, error) {
	var o AppendOptions
	switch {
	case mb.marker:
		o.Origin, o.TransactionV2 = OriginCoordinator, mb.producer%2 == 1
	case mb.txn:
		v, err := m.l.StartVerification(mb.producer, mb.pepoch, mb.sequence, mb.producer%2 == 1)
		if err != nil || (v == nil) != m.txn[mb.producer] {
			return Appended{}, fmt.Errorf("verification of producer %d: got %v, %w, transaction open %t", mb.producer, v, err, m.txn[mb.producer])
		}
		if old := m.old[mb.producer]; v != nil && m.r.IntN(3) == 0 {
			if old == v {
				old = nil // it was cut off, and stands
			}
			_, err := m.l.Append(bytes.Clone(b), AppendOptions{Verification: old})
			if !errors.Is(err, ErrInvalidTxnState) && !(m.faults != nil && errors.Is(err, ErrStorage)) {
				return Appended{}, fmt.Errorf("append with verification %v of before: got %v, want ErrInvalidTxnState", old, err)
			}
		}
		if v != nil {
			m.old[mb.producer] = v
		}
		o.Verification = v
	}
	return m.l.Append(bytes.Clone(b), o)
}

// appendSome appends a few batches and waits for them.
func (m *modelRun) appendSome() error {
	var waits []Appended
	m.ended = map[int64]bool{}
	fails := m.faults != nil && m.r.IntN(3) == 0
	if fails {
		m.faults.hold(1 + m.r.IntN(3))
		defer m.faults.stop()
	}
	for range 1 + m.r.IntN(4) {
		b, mb := m.next()
		m.wrote(mb)
		a, err := m.append(b, mb)
		if errors.Is(err, ErrOutOfOrderSequence) && mb.txn && m.model.start > 0 && m.forgotten(mb) {
			m.epoch[mb.producer], m.seq[mb.producer] = mb.pepoch+1, 0 // as who asks for a new epoch
			continue
		}
		if err != nil {
			return fmt.Errorf("append at offset %d: %w", mb.base, err)
		}
		if a.BaseOffset != mb.base || a.NextOffset != mb.next || a.Duplicate {
			return fmt.Errorf("append: got %+v, want offsets %d to %d", a, mb.base, mb.next)
		}
		m.took(mb)
		m.ended[mb.producer] = mb.marker
		waits = append(waits, a)
		if mb.producer >= 0 && !mb.marker && m.r.IntN(3) == 0 {
			again, err := m.l.Append(bytes.Clone(b), AppendOptions{})
			if err != nil || !again.Duplicate || again.BaseOffset != a.BaseOffset || again.NextOffset != a.NextOffset {
				return fmt.Errorf("duplicate of offset %d: got %+v, %w", a.BaseOffset, again, err)
			}
		}
	}
	if fails {
		m.faults.goOn()
	}
	for _, a := range waits {
		err := m.l.WaitDurable(context.Background(), a)
		if fails && errors.Is(err, ErrStorage) {
			m.model.cut(a.BaseOffset)
			m.recount()
			break
		}
		if err != nil {
			return fmt.Errorf("wait for offset %d: %w", a.NextOffset, err)
		}
		m.acked(a.NextOffset)
	}
	return nil
}

// step does one random operation.
func (m *modelRun) step() error {
	switch k := m.r.IntN(20); {
	case k < 12:
		return m.appendSome()
	case k < 14:
		if err := m.l.flush(); err != nil {
			return fmt.Errorf("flush: %w", err)
		}
		point, _, ok := m.l.checkpoints()
		if ok {
			m.rig.setPoint(point)
		}
		return nil
	case k < 15:
		// An open transaction whose beginning is deleted is forgotten by a start after a crash, as in Kafka.
		_, lso := m.model.txns()
		offset := m.model.start + m.r.Int64N(lso-m.model.start+1)
		start, err := m.l.DeleteBefore(offset)
		if err != nil || start != offset {
			return fmt.Errorf("delete before %d: got %d, %w", offset, start, err)
		}
		m.model.start = start
		m.l.removeDeleted()
		return nil
	case k < 17:
		return m.model.check(m.l, m.r)
	case k < 18:
		m.rig.stop(m.l)
	default:
		m.rig.kill(m.l)
	}
	m.rig.epoch++
	m.l = m.rig.start()
	return m.model.check(m.l, m.r)
}

// syncFaults lets one sync of a log fail, and holds up all until it is told to go on.
type syncFaults struct {
	mu   sync.Mutex
	wait chan struct{} // guarded by mu; nil: syncs pass
	left int           // guarded by mu; the how manyth sync from now on fails; below 1 none does
}

func (f *syncFaults) wrap(fsys vfs.FS) vfs.FS {
	return vfs.Inject(fsys, func(op vfs.Op) error {
		if op.Kind != vfs.OpSync || !strings.HasSuffix(op.Name, logSuffix) {
			return nil
		}
		f.mu.Lock()
		wait := f.wait
		f.mu.Unlock()
		if wait != nil {
			<-wait
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.left--; f.left == 0 {
			return errInjected
		}
		return nil
	})
}

// hold holds up all syncs; the nth will fail.
func (f *syncFaults) hold(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wait, f.left = make(chan struct{}), n
}

func (f *syncFaults) goOn() {
	f.mu.Lock()
	defer f.mu.Unlock()
	close(f.wait)
	f.wait = nil
}

func (f *syncFaults) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left = 0
}

// TestLogAgainstModel runs random operations under random options and compares the log with a slice.
func TestLogAgainstModel(t *testing.T) {
	seeds := uint64(60)
	if testing.Short() {
		seeds = 20
	}
	for seed := range seeds {
		if err := modelSeed(t, seed); err != nil {
			t.Fatalf("seed %d: %v\nrepeat: go test ./storage -run TestLogAgainstModel -count=1, with only seed %d", seed, err, seed)
		}
	}
}

func modelSeed(t *testing.T, seed uint64) error {
	r := rand.New(rand.NewPCG(seed, 1))
	var faults *syncFaults
	var fsys vfs.FS = vfs.NewMem(vfs.MemOptions{})
	if seed%4 >= 2 {
		faults = new(syncFaults)
		fsys = faults.wrap(fsys)
	}
	m := newModelRun(t, fsys, r)
	switch seed % 4 {
	case 1:
		m.rig.durability = Async
	case 2, 3:
		m.faults = faults
	}
	for i := range 60 {
		if err := m.step(); err != nil {
			return fmt.Errorf("step %d: %w", i, err)
		}
	}
	if err := m.model.check(m.l, m.r); err != nil {
		return fmt.Errorf("at the end: %w", err)
	}
	m.rig.kill(m.l)
	return nil
}
