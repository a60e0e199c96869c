package storage

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

const testLogDir = "data/orders-0"

// fileBytes returns the content of a file.
func fileBytes(tb testing.TB, fsys vfs.FS, name string) []byte {
	tb.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	n, err := f.Size()
	if err != nil {
		tb.Fatal(err)
	}
	b := make([]byte, n)
	if m, err := f.ReadAt(b, 0); m < len(b) {
		tb.Fatalf("read %s: %d of %d bytes, %v", name, m, n, err)
	}
	return b
}

// setFile makes b the content of a file.
func setFile(tb testing.TB, fsys vfs.FS, name string, b []byte) {
	tb.Helper()
	f, err := fsys.Create(name)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(b, 0); err != nil {
		tb.Fatal(err)
	}
}

// appendFile adds b at the end of a file.
func appendFile(tb testing.TB, fsys vfs.FS, name string, b []byte) {
	tb.Helper()
	setFile(tb, fsys, name, append(fileBytes(tb, fsys, name), b...))
}

// end stops a log, in order or not.
func (r *logRig) end(l *Log, clean bool) {
	if clean {
		r.stop(l)
	} else {
		r.kill(l)
	}
}

// logLines makes the rig's log go to a buffer.
func (r *logRig) logLines() *bytes.Buffer {
	var b bytes.Buffer
	r.logger = slog.New(slog.NewTextHandler(&b, nil))
	return &b
}

func bothStops(t *testing.T, f func(t *testing.T, clean bool)) {
	for _, clean := range []bool{true, false} {
		name := "after kill -9"
		if clean {
			name = "after a clean stop"
		}
		t.Run(name, func(t *testing.T) { f(t, clean) })
	}
}

func TestTornTailIsCutAndKept(t *testing.T) {
	segment := filepath.Join(testLogDir, "00000000000000000000.log")
	whole := testBatch("whole")
	whole.SetBaseOffset(7)
	for _, c := range []struct {
		name    string
		tail    []byte
		batches string
		kept    bool
	}{
		{"REC-01 torn tail", testBatch("torn")[:40], "batches=0", true},
		{"REC-01 torn tail in the records", testBatch("torn")[:66], "batches=0", true},
		{"REC-02 zero-filled tail", make([]byte, 4096), "batches=0", false},
		{"REC-02 zeros after a header", append(bytes.Clone(testBatch("torn")[:61]), make([]byte, 4096)...), "batches=0", true},
		{"whole batches after garbage", slices.Concat([]byte("garbage"), whole, whole[:30]), "batches=1", true},
		{"batch with a wrong crc", append(slices.Concat(whole[:len(whole)-1], []byte{1}), whole...), "batches=1", true},
		{"batch below the end", slices.Concat(testBatch("offset 0")), "batches=0", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothStops(t, func(t *testing.T, clean bool) {
				rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
				l := rig.start()
				appendDurably(t, l, testBatch("a"))
				appendDurably(t, l, testBatch("b", "c"))
				rig.end(l, clean)
				good := fileBytes(t, rig.fs, segment)
				appendFile(t, rig.fs, segment, c.tail)
				lines := rig.logLines()
				l = rig.start()
				wantOffsets(t, l, Offsets{LastStable: 3, HighWatermark: 3, End: 3})
				wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=a", "1=b", "2=c")
				if got := fileBytes(t, rig.fs, segment); !bytes.Equal(got, good) {
					t.Errorf("the segment has %d bytes, want %d", len(got), len(good))
				}
				if got := lines.String(); !strings.Contains(got, c.batches) || !strings.Contains(got, fmt.Sprintf("position=%d", len(good))) {
					t.Errorf("the log line does not say %s at position %d: %s", c.batches, len(good), got)
				}
				kept := fmt.Sprintf("%s.torn-%d", segment, len(good))
				if _, err := rig.fs.Stat(kept); c.kept != (err == nil) {
					t.Errorf("%s: got %v, want kept: %v", kept, err, c.kept)
				} else if c.kept && !bytes.Equal(fileBytes(t, rig.fs, kept), c.tail) {
					t.Errorf("%s does not hold what was cut", kept)
				}
				appendDurably(t, l, testBatch("d"))
				wantValues(t, readValues(t, l, 2, ReadUncommitted), "2=c", "3=d")
				rig.stop(l)
			})
		})
	}
}

// fillLog appends batches, transactions among them, over several segments and returns what a model says of them.
func fillLog(tb testing.TB, rig *logRig, l *Log) *logModel {
	tb.Helper()
	m := &logModel{}
	add := func(b record.Batch, mb modelBatch) {
		a := appendCoordinator(tb, l, b)
		mb.base, mb.next, mb.epoch = a.BaseOffset, a.NextOffset, rig.epoch
		m.batches = append(m.batches, mb)
	}
	var reader record.Reader
	of := func(b record.Batch) (mb modelBatch) {
		mb.producer, mb.txn = b.ProducerID(), b.Transactional()
		for r, err := range reader.Records(b) {
			if err != nil {
				tb.Fatal(err)
			}
			mb.values, mb.times = append(mb.values, string(r.Value)), append(mb.times, r.Timestamp)
		}
		return mb
	}
	for i := range 30 {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
		b.Append(record.Record{Timestamp: 1000 + int64(i*37%30)*10, Value: fmt.Appendf(nil, "value %d", i)})
		plain := bytes.Clone(b.Bytes())
		add(plain, of(plain))
		if i%5 == 0 {
			b := txnBatch(int64(i), 0, 0, 2)
			add(b, of(b))
		}
		if i%5 == 2 {
			commit := i%2 == 0
			add(record.EndTxnMarker(int64(i-2), 0, record.Marker{Commit: commit}, 1000, 0), modelBatch{producer: int64(i - 2), txn: true, marker: true, commit: commit})
		}
	}
	// Times are compared with those of the transactions, which lie far above.
	for i := range m.batches {
		if m.batches[i].txn {
			m.batches[i].times = slices.Clone(m.batches[i].times)
		}
	}
	return m
}

func TestDamagedIndexesAreRebuilt(t *testing.T) {
	damages := []struct {
		name string
		do   func(b []byte) []byte // nil: remove the file
	}{
		{"deleted", nil},
		{"empty", func(b []byte) []byte { return nil }},
		{"cut to an odd size", func(b []byte) []byte { return b[:max(len(b)-5, 0)] }},
		{"padded with zeros", func(b []byte) []byte { return append(b, make([]byte, 240)...) }},
		{"all zeros", func(b []byte) []byte { return make([]byte, len(b)) }},
		{"filled with 0xff", func(b []byte) []byte { return bytes.Repeat([]byte{0xff}, len(b)) }},
		{"shuffled", func(b []byte) []byte {
			b = bytes.Clone(b)
			if len(b) > 40 {
				copy(b[12:], b[24:36])
			}
			return b
		}},
	}
	for _, suffix := range []string{indexSuffix, timeIndexSuffix, txnIndexSuffix} {
		for _, d := range damages {
			if suffix == txnIndexSuffix && (d.do == nil || d.name == "empty") {
				continue // the same as no aborted transaction, as in Kafka
			}
			t.Run("REC-04 "+suffix+" "+d.name, func(t *testing.T) {
				bothStops(t, func(t *testing.T, clean bool) {
					rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
					rig.configs["internal.segment.bytes"] = "900"
					rig.configs["index.interval.bytes"] = "100"
					l := rig.start()
					model := fillLog(t, rig, l)
					checkModel(t, model, l)
					if err := l.flush(); err != nil {
						t.Fatal(err)
					}
					rig.point, _, _ = l.checkpoints()
					rig.end(l, clean)
					names, _ := rig.fs.List(testLogDir)
					n := 0
					for _, name := range names {
						if !strings.HasSuffix(name, suffix) {
							continue
						}
						n++
						name = filepath.Join(testLogDir, name)
						if d.do == nil {
							if err := rig.fs.Remove(name); err != nil {
								t.Fatal(err)
							}
							continue
						}
						setFile(t, rig.fs, name, d.do(fileBytes(t, rig.fs, name)))
					}
					if n < 3 {
						t.Fatalf("%d files %s, want several", n, suffix)
					}
					for range 2 { // what was rebuilt is there again
						rig.epoch++
						l = rig.start()
						checkModel(t, model, l)
						if err := l.flush(); err != nil {
							t.Fatal(err)
						}
						rig.point, _, _ = l.checkpoints()
						rig.end(l, clean)
					}
					l = rig.start()
					appendDurably(t, l, testBatch("more"))
					rig.stop(l)
				})
			})
		}
	}
}

// checkModel compares a log with a model from every offset and for every time.
func checkModel(t *testing.T, model *logModel, l *Log) {
	t.Helper()
	r := newRand(1)
	aborted, lso := model.txns()
	for from := model.start; from <= model.end(); from++ {
		for _, iso := range []Isolation{ReadUncommitted, ReadCommitted} {
			if err := model.checkRead(l, from, iso, aborted, lso, r); err != nil {
				t.Fatalf("read from %d with isolation %d: %v", from, iso, err)
			}
		}
	}
	for range 50 {
		if err := model.checkTimes(l, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := model.check(l, r); err != nil {
		t.Fatal(err)
	}
}

func TestNoAcknowledgedRecordIsLostToKills(t *testing.T) {
	t.Run("REC-05 kill -9 keeps every acknowledged record", func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		rig := newLogRig(t, mem)
		rig.configs["internal.segment.bytes"] = "2000"
		var want []string
		for round := range 50 {
			l := rig.start()
			wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
			for i := range 3 {
				v := fmt.Sprintf("%d-%d", round, i)
				a := appendDurably(t, l, testBatch(v))
				want = append(want, fmt.Sprintf("%d=%s", a.BaseOffset, v))
			}
			rig.kill(l)
			if round%2 == 1 {
				mem = mem.CrashClone(uint64(round), 0.5)
			} else {
				mem = mem.KillClone()
			}
			rig.fs = mem
		}
	})
}

func TestLogStartSurvivesARestart(t *testing.T) {
	t.Run("REC-12 log start survives restart", func(t *testing.T) {
		bothStops(t, func(t *testing.T, clean bool) {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			rig.configs["internal.segment.bytes"] = "300"
			l := rig.start()
			for i := range 20 {
				appendDurably(t, l, testBatch(fmt.Sprint(i)))
			}
			if start, err := l.DeleteBefore(10); err != nil || start != 10 {
				t.Fatalf("delete before 10: got %d, %v", start, err)
			}
			if _, err := l.Read(nil, ReadRequest{Offset: 9, MaxBytes: 1}); !errors.Is(err, ErrOffsetOutOfRange) {
				t.Errorf("read below the log start: got %v, want ErrOffsetOutOfRange", err)
			}
			rig.end(l, clean)
			l = rig.start()
			wantOffsets(t, l, Offsets{LogStart: 10, LastStable: 20, HighWatermark: 20, End: 20})
			if got := readValues(t, l, 10, ReadUncommitted); len(got) != 10 || got[0] != "10=10" {
				t.Errorf("got %v, want 10 records from offset 10", got)
			}
			names, _ := rig.fs.List(testLogDir)
			if slices.Contains(names, "00000000000000000000.log") {
				t.Errorf("the first segment is still there: %v", names)
			}
			rig.stop(l)
		})
	})
}

func TestDamagedSnapshotIsReplaced(t *testing.T) {
	bothStops(t, func(t *testing.T, clean bool) {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		rig.configs["internal.segment.bytes"] = "300"
		l := rig.start()
		for i := range 10 {
			appendDurably(t, l, idempotentBatch(5, 0, int32(i), 1))
		}
		rig.end(l, clean)
		names, _ := rig.fs.List(testLogDir)
		for _, name := range names {
			if strings.HasSuffix(name, snapshotSuffix) {
				name = filepath.Join(testLogDir, name)
				b := fileBytes(t, rig.fs, name)
				b[len(b)-1]++
				setFile(t, rig.fs, name, b)
			}
		}
		l = rig.start()
		if a, err := l.Append(idempotentBatch(5, 0, 9, 1), AppendOptions{}); err != nil || !a.Duplicate || a.BaseOffset != 9 {
			t.Errorf("last batch sent again: got %+v, %v, want a duplicate of offset 9", a, err)
		}
		if _, err := l.Append(idempotentBatch(5, 0, 11, 1), AppendOptions{}); !errors.Is(err, ErrOutOfOrderSequence) {
			t.Errorf("gap in the sequence: got %v, want ErrOutOfOrderSequence", err)
		}
		rig.stop(l)
	})
}

func TestNothingIsReadAfterACleanStop(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, mem)
	l := rig.start()
	for range 200 {
		appendDurably(t, l, testBatch(strings.Repeat("x", 1000)))
	}
	rig.stop(l)
	read := 0
	rig.fs = vfs.Inject(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpReadAt && strings.HasSuffix(op.Name, logSuffix) {
			read += op.Size
		}
		if op.Kind.Mutates() && op.Kind != vfs.OpSync {
			t.Errorf("%v after a clean stop", op)
		}
		return nil
	})
	l = rig.start()
	wantOffsets(t, l, Offsets{LastStable: 200, HighWatermark: 200, End: 200})
	if read > 4*scanHeaders {
		t.Errorf("%d bytes of the .log were read, want the end only", read)
	}
	rig.fs = mem
	rig.stop(l)
}

func TestUnusedLogTouchesNothing(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	rig := newLogRig(t, mem)
	rig.fs = vfs.Inject(mem, func(op vfs.Op) error {
		t.Errorf("%v for a log that nobody used", op)
		return nil
	})
	l := rig.start()
	if l.Status() != StatusIdle || l.Size() != 0 {
		t.Errorf("status %v, size %d, want idle and 0", l.Status(), l.Size())
	}
	stop := l.Watch(make(chan struct{}, 1))
	stop()
	stop()
	rig.stop(l)
	l.markDeleted()
	if _, err := l.Offsets(); !errors.Is(err, ErrLogDeleted) {
		t.Errorf("offsets of a deleted log: got %v, want ErrLogDeleted", err)
	}
}

func TestLeftoversAreTidied(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["internal.segment.bytes"] = "300"
	l := rig.start()
	for i := range 12 {
		appendDurably(t, l, testBatch(fmt.Sprint(i)))
	}
	rig.stop(l)
	at := func(name string) string { return filepath.Join(testLogDir, name) }
	// A compaction that had come as far as .swap: segments 0 and 4 became one.
	first, second := fileBytes(t, rig.fs, at("00000000000000000000.log")), fileBytes(t, rig.fs, at("00000000000000000004.log"))
	setFile(t, rig.fs, at("00000000000000000000.log.swap"), slices.Concat(first, second))
	setFile(t, rig.fs, at("00000000000000000000.index.swap"), nil)
	setFile(t, rig.fs, at("00000000000000000008.log.cleaned"), []byte("half"))
	setFile(t, rig.fs, at("00000000000000000008.log.swap"), []byte("half"))
	setFile(t, rig.fs, at("00000000000000000001.log.deleted"), []byte("old"))
	setFile(t, rig.fs, at("leader-epoch-checkpoint.tmp"), []byte("old"))
	setFile(t, rig.fs, at("00000000000000000099.index"), []byte("orphan"))
	setFile(t, rig.fs, at("notes.txt"), []byte("mine"))
	l = rig.start()
	var want []string
	for i := range 12 {
		want = append(want, fmt.Sprintf("%d=%d", i, i))
	}
	wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
	names, _ := rig.fs.List(testLogDir)
	for _, name := range names {
		if strings.HasSuffix(name, deletedSuffix) || strings.HasSuffix(name, cleanedSuffix) || strings.HasSuffix(name, swapSuffix) || strings.HasSuffix(name, tempSuffix) {
			t.Errorf("%s is still there", name)
		}
	}
	if slices.Contains(names, "00000000000000000004.log") || slices.Contains(names, "00000000000000000099.index") || !slices.Contains(names, "notes.txt") {
		t.Errorf("files: %v", names)
	}
	if infos, err := l.Segments(); err != nil || len(infos) != 2 {
		t.Errorf("segments: got %+v, %v, want 2", infos, err)
	}
	rig.stop(l)
}

func TestFilesOfSegmentsInTheFuture(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{Now: func() time.Time { return time.UnixMilli(42) }}))
	l := rig.start()
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	b.Append(record.Record{Timestamp: record.NoTimestamp, Value: []byte("no time")})
	appendDurably(t, l, bytes.Clone(b.Bytes()))
	rig.stop(l)
	l = rig.start()
	infos, err := l.Segments()
	if err != nil || len(infos) != 1 || infos[0].MaxTimestamp != 42 {
		t.Errorf("a segment without timestamps: got %+v, %v, want the file's time 42", infos, err)
	}
	if got, ok, err := l.MaxTimestamp(ReadUncommitted); err != nil || !ok || got.Offset != 0 || got.Timestamp != record.NoTimestamp {
		t.Errorf("max timestamp: got %+v, %v, %v, want offset 0, without a time", got, ok, err)
	}
	rig.stop(l)
}

func TestSegmentThatEndsBelowTheRecoveryPointIsDamage(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["internal.segment.bytes"] = "300"
	l := rig.start()
	for i := range 6 {
		appendDurably(t, l, testBatch(fmt.Sprint(i)))
	}
	rig.kill(l)
	first := filepath.Join(testLogDir, "00000000000000000000.log")
	size := len(testBatch("0"))
	setFile(t, rig.fs, first, fileBytes(t, rig.fs, first)[:size])
	rig.setPoint(3)
	l = rig.start()
	_, err := l.Offsets()
	if c, ok := errors.AsType[*CorruptError](err); !ok || c.File != first || c.Position != int64(size) {
		t.Errorf("got %v, want damage at position %d of %s", err, size, first)
	}
	rig.kill(l)
}

// A segment was made and the sync of its name was left to the first commit in it, which did not come: the process was
// killed, and the next one could not write indexes, or it was stopped.
func TestNameOfAnEmptySegmentIsDurableBeforeItsRecords(t *testing.T) {
	bothStops(t, func(t *testing.T, clean bool) {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		rig := newLogRig(t, mem)
		rig.configs["internal.segment.bytes"] = "300"
		l := rig.start()
		for i := range 3 {
			appendDurably(t, l, testBatch(fmt.Sprint(i)))
		}
		if err := l.flush(); err != nil {
			t.Fatal(err)
		}
		rig.setPoint(3)
		rig.end(l, clean)
		setFile(t, mem, filepath.Join(testLogDir, "00000000000000000003.log"), nil)
		failing := true
		rig.fs = vfs.Inject(mem, func(op vfs.Op) error {
			if failing && (op.Kind == vfs.OpWriteAt || op.Kind == vfs.OpCreate) && strings.HasSuffix(op.Name, indexSuffix) {
				return vfs.ErrNoSpace
			}
			return nil
		})
		l = rig.start()
		wantOffsets(t, l, Offsets{LastStable: 3, HighWatermark: 3, End: 3})
		failing = false
		appendDurably(t, l, testBatch("3"))
		rig.fs = mem.CrashClone(1, 0)
		rig.kill(l)
		l = rig.start()
		wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=0", "1=1", "2=2", "3=3")
		rig.kill(l)
	})
}

func TestBatchAtTheEndOfAllOffsetsIsNone(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	appendDurably(t, l, testBatch("a"))
	rig.kill(l)
	last := testBatch("b", "c")
	last.SetBaseOffset(math.MaxInt64 - 1)
	appendFile(t, rig.fs, filepath.Join(testLogDir, "00000000000000000000.log"), last)
	l = rig.start()
	wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 1, End: 1})
	wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=a")
	rig.kill(l)
}

// The note of a segment that recovery takes away must not speak of another that gets the same base offset.
func TestNoteOfALostSegmentGoesWithIt(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, values := filledLog(t, rig, 14)
	if _, err := l.Rewrite(3, 1, keepOffsets(3)); err != nil {
		t.Fatal(err)
	}
	rig.kill(l)
	first := filepath.Join(testLogDir, "00000000000000000000.log")
	b := fileBytes(t, rig.fs, first)
	b[len(b)-1] ^= 1
	setFile(t, rig.fs, first, b)
	l = rig.start() // with the recovery point lost
	wantValues(t, readValues(t, l, 0, ReadUncommitted), values[:2]...)
	appendDurably(t, l, testBatch("again"))
	appendDurably(t, l, testBatch("more"))
	rig.kill(l)
	l = rig.start()
	wantOffsets(t, l, Offsets{LastStable: 4, HighWatermark: 4, End: 4})
	wantValues(t, readValues(t, l, 0, ReadUncommitted), append(values[:2:2], "2=again", "3=more")...)
	rig.stop(l)
}

func TestNoteOfASegmentBelowTheLogStartGoesAtTheStart(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l, values := filledLog(t, rig, 14)
	if _, err := l.Rewrite(0, 1, keepOffsets(0)); err != nil {
		t.Fatal(err)
	}
	rig.kill(l)
	rig.logStart = 4 // saved, and then the crash came
	l = rig.start()
	wantValues(t, readValues(t, l, 4, ReadUncommitted), values[4:]...)
	for _, name := range filesOf(t, rig) {
		if strings.HasSuffix(name, noteSuffix) {
			t.Errorf("%s is left", name)
		}
	}
	rig.stop(l)
}
