package storage

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestDamageBelowTheRecoveryPointTakesTheLogOffline(t *testing.T) {
	bothStops(t, func(t *testing.T, clean bool) {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		l := rig.start()
		appendDurably(t, l, testBatch("a"))
		appendDurably(t, l, testBatch("b"))
		if err := l.flush(); err != nil {
			t.Fatal(err)
		}
		rig.point, _, _ = l.checkpoints()
		rig.end(l, clean)
		name := filepath.Join(testLogDir, "00000000000000000000.log")
		b := fileBytes(t, rig.fs, name)
		size := len(testBatch("a"))
		binary.BigEndian.PutUint32(b[size+record.LengthPos:], 1<<30)
		setFile(t, rig.fs, name, b)
		l = rig.start()
		_, err := l.Read(nil, ReadRequest{MaxBytes: 100})
		var c *CorruptError
		if !errors.Is(err, ErrOffline) || !errors.As(err, &c) || c.File != name || c.Position != int64(size) {
			t.Errorf("read: got %v, want ErrOffline with damage in %s at %d", err, name, size)
		}
		if got := l.Status(); got != StatusOffline {
			t.Errorf("status: got %v, want offline", got)
		}
		if _, err := l.Append(testBatch("c"), AppendOptions{}); !errors.Is(err, ErrOffline) {
			t.Errorf("append: got %v, want ErrOffline", err)
		}
		if got := fileBytes(t, rig.fs, name); !bytes.Equal(got, b) {
			t.Error("the damaged file was changed")
		}
		rig.kill(l)
	})
}

func TestMissingEndBelowTheRecoveryPointIsDamage(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	appendDurably(t, l, testBatch("a"))
	appendDurably(t, l, testBatch("b"))
	rig.stop(l)
	name := filepath.Join(testLogDir, "00000000000000000000.log")
	setFile(t, rig.fs, name, fileBytes(t, rig.fs, name)[:len(testBatch("a"))])
	l = rig.start()
	if _, err := l.Offsets(); !errors.Is(err, ErrOffline) {
		t.Errorf("got %v, want ErrOffline", err)
	}
	rig.kill(l)
}

func TestDamageMetWhileReadingTakesTheLogOffline(t *testing.T) {
	t.Run("header", func(t *testing.T) { testReadMeetsDamage(t, record.MagicPos, false) })
	t.Run("record", func(t *testing.T) { testReadMeetsDamage(t, record.HeaderSize, true) })
}

// testReadMeetsDamage reads the second of two batches, of which the byte at a position is another than was written.
func testReadMeetsDamage(t *testing.T, at int64, verify bool) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	appendDurably(t, l, testBatch("a"))
	appendDurably(t, l, testBatch("b"))
	name := filepath.Join(testLogDir, "00000000000000000000.log")
	f, err := rig.fs.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	size := int64(len(testBatch("a")))
	if _, err := f.WriteAt([]byte{9}, size+at); err != nil {
		t.Fatal(err)
	}
	f.Close()
	poke := make(chan struct{}, 1)
	defer l.Watch(poke)()
	_, err = l.Read(nil, ReadRequest{Offset: 1, MaxBytes: 1000, VerifyCRC: verify})
	var c *CorruptError
	if !errors.Is(err, ErrOffline) || !errors.As(err, &c) || c.File != name || c.Position != size {
		t.Errorf("read: got %v, want ErrOffline with damage in %s at %d", err, name, size)
	}
	select {
	case <-poke:
	default:
		t.Error("watchers were not poked")
	}
	rig.kill(l)
}

func TestDiskFullHealsByItself(t *testing.T) {
	t.Run("REC-08 disk full", func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Capacity: 64 << 10})
		rig := newLogRig(t, mem)
		rig.configs["internal.segment.bytes"] = "10000"
		filler, err := mem.Create("filler")
		if err != nil {
			t.Fatal(err)
		}
		if err := filler.Truncate(20 << 10); err != nil {
			t.Fatal(err)
		}
		l := rig.start()
		var want []string
		value := strings.Repeat("x", 700)
		full := 0
		for i := 0; full < 3; i++ {
			a, err := l.Append(testBatch(value), AppendOptions{})
			if err == nil {
				err = l.WaitDurable(context.Background(), a)
			}
			if err != nil {
				if !errors.Is(err, ErrStorage) || !vfs.IsNoSpace(err) {
					t.Fatalf("append %d: got %v, want ErrStorage for want of space", i, err)
				}
				full++
				continue
			}
			want = append(want, fmt.Sprintf("%d=%s", a.BaseOffset, value))
		}
		wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
		if err := errors.Join(filler.Close(), mem.Remove("filler")); err != nil {
			t.Fatal(err)
		}
		a := appendDurably(t, l, testBatch("there is room"))
		if a.BaseOffset != int64(len(want)) {
			t.Errorf("append after the disk was full: got offset %d, want %d", a.BaseOffset, len(want))
		}
		want = append(want, fmt.Sprintf("%d=there is room", a.BaseOffset))
		rig.kill(l)
		l = rig.start()
		wantValues(t, readValues(t, l, 0, ReadUncommitted), want...)
		rig.stop(l)
	})
}

func TestOutOfFileDescriptors(t *testing.T) {
	t.Run("REC-09 out of file descriptors", func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{})
		rig := newLogRig(t, mem)
		rig.configs["internal.segment.bytes"] = "300"
		var open, limit atomic.Int64 // a commit may be closing files
		limit.Store(3)
		errTooMany := errors.New("too many open files")
		limited := vfs.Inject(mem, func(op vfs.Op) error {
			if (op.Kind == vfs.OpOpen || op.Kind == vfs.OpCreate) && open.Load() >= limit.Load() {
				return &fs.PathError{Op: "open", Path: op.Name, Err: errTooMany}
			}
			return nil
		})
		rig.fs = vfs.After(limited, func(op vfs.Op, err error) {
			switch {
			case err != nil:
			case op.Kind == vfs.OpOpen || op.Kind == vfs.OpCreate:
				open.Add(1)
			case op.Kind == vfs.OpClose:
				open.Add(-1)
			}
		})
		rig.openFiles = 1000
		l := rig.start()
		for i := range 20 {
			appendDurably(t, l, testBatch(fmt.Sprint(i)))
		}
		if got := readValues(t, l, 0, ReadUncommitted); len(got) != 20 {
			t.Errorf("got %d records, want 20", len(got))
		}
		limit.Store(0)
		if _, err := l.Read(nil, ReadRequest{MaxBytes: 100}); err == nil {
			// Its file may be open still; the next segment's is not.
			_, err = l.Read(nil, ReadRequest{Offset: 5, MaxBytes: 100})
			if !errors.Is(err, ErrStorage) {
				t.Errorf("read without file descriptors: got %v, want ErrStorage", err)
			}
		}
		limit.Store(3)
		appendDurably(t, l, testBatch("20"))
		if got := readValues(t, l, 0, ReadUncommitted); len(got) != 21 {
			t.Errorf("got %d records, want 21", len(got))
		}
		rig.kill(l)
		open.Store(0)
		limit.Store(0)
		l = rig.start()
		if _, err := l.Offsets(); !errors.Is(err, ErrOffline) {
			t.Errorf("recovery without file descriptors: got %v, want ErrOffline", err)
		}
		limit.Store(3)
		wantOffsets(t, l, Offsets{LastStable: 21, HighWatermark: 21, End: 21})
		rig.kill(l)
	})
}

// A full disk refuses every append for a long time; the log tells of its beginning and of its end.
func TestRefusedAppendsAreLoggedOnce(t *testing.T) {
	for what, kind := range map[string]vfs.OpKind{"write": vfs.OpWriteAt, "sync": vfs.OpSync, "truncate": vfs.OpTruncate} {
		failing := false
		rig := newLogRig(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
			if failing && (op.Kind == vfs.OpWriteAt && kind != vfs.OpSync || op.Kind == kind) && strings.HasSuffix(op.Name, logSuffix) {
				return vfs.ErrNoSpace
			}
			return nil
		}))
		lines := rig.logLines()
		l := rig.start()
		appendDurably(t, l, testBatch("a"))
		for range 2 {
			lines.Reset()
			failing = true
			for range 20 {
				a, err := l.Append(testBatch("b"), AppendOptions{})
				if err == nil {
					err = l.WaitDurable(context.Background(), a)
				}
				if !errors.Is(err, ErrStorage) {
					t.Fatalf("%s fails: append: got %v, want ErrStorage", what, err)
				}
			}
			got := lines.String()
			if strings.Count(got, "log was cut back") != 1 || strings.Count(got, "\n") > 2 || strings.Contains(got, "again\" offset") || !strings.Contains(got, vfs.ErrNoSpace.Error()) {
				t.Errorf("%s fails: the log has\n%s, want one line with the cause, and perhaps one of the cut", what, got)
			}
			lines.Reset()
			failing = false
			for range 3 {
				appendDurably(t, l, testBatch("c"))
			}
			if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "takes appends again") {
				t.Errorf("%s works again: the log has\n%s, want one line", what, got)
			}
		}
		rig.kill(l)
	}
}

func segmentsOf(t *testing.T, l *Log) []SegmentInfo {
	t.Helper()
	segments, err := l.Segments()
	if err != nil {
		t.Fatal(err)
	}
	return segments
}

// endedLog returns a log of six records in several segments, all of them on disk, that has come to its end.
func endedLog(t *testing.T, clean bool) (*logRig, []SegmentInfo) {
	t.Helper()
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["internal.segment.bytes"] = "200"
	l := rig.start()
	for i := range 6 {
		appendDurably(t, l, testBatch(fmt.Sprint(i)))
	}
	if err := l.flush(); err != nil {
		t.Fatal(err)
	}
	segments := segmentsOf(t, l)
	rig.point, _, _ = l.checkpoints()
	rig.end(l, clean)
	return rig, segments
}

// Kafka's cleaner leaves an empty segment at the beginning of a log whose first records have all gone.
func TestEmptyFirstSegmentIsNoWrongIndex(t *testing.T) {
	bothStops(t, func(t *testing.T, clean bool) {
		rig, segments := endedLog(t, clean)
		second := segments[1].BaseOffset
		for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} {
			setFile(t, rig.fs, segmentFile(testLogDir, 0, suffix), nil)
		}
		rig.adopted = true
		lines := rig.logLines()
		l := rig.start()
		if got := readValues(t, l, 0, ReadUncommitted); len(got) != 6-int(second) {
			t.Errorf("got %v, want the records from offset %d on", got, second)
		}
		if strings.Contains(lines.String(), "index is wrong") || strings.Contains(lines.String(), "err=<nil>") {
			t.Errorf("the log has\n%s", lines)
		}
		rig.kill(l)
	})
}

func TestSegmentThatVanishedIsDamage(t *testing.T) {
	bothStops(t, func(t *testing.T, clean bool) {
		rig, segments := endedLog(t, clean)
		name := segmentFile(testLogDir, segments[1].BaseOffset, logSuffix)
		if err := rig.fs.Remove(name); err != nil {
			t.Fatal(err)
		}
		before := listTree(t, rig.fs, testLogDir)
		l := rig.start()
		_, err := l.Offsets()
		if c, ok := errors.AsType[*CorruptError](err); !ok || c.File != name || strings.Contains(err.Error(), "position") {
			t.Errorf("got %v, want damage in %s at no position", err, name)
		}
		if after := listTree(t, rig.fs, testLogDir); !maps.Equal(before, after) {
			t.Errorf("the directory was changed: %d files, there were %d", len(after), len(before))
		}
		rig.kill(l)
		// Below the log start a crash leaves any part of what was being removed.
		rig.logStart = segments[2].BaseOffset
		l = rig.start()
		wantOffsets(t, l, Offsets{LogStart: rig.logStart, LastStable: 6, HighWatermark: 6, End: 6})
		rig.kill(l)
	})
}

// TestEndOfARewrittenSegmentStays loses the segment after one whose last batches are gone, and the recovery point with it: the
// log then ends where the note says, at each start anew, whatever an append to it leaves.
func TestEndOfARewrittenSegmentStays(t *testing.T) {
	for _, kept := range [][]int64{{1, 4}, {}} {
		bothStops(t, func(t *testing.T, clean bool) {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			l, values := filledLog(t, rig, 11)
			if _, err := l.Rewrite(0, 2, keepOffsets(kept...)); err != nil {
				t.Fatal(err)
			}
			rig.kill(l)
			for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} {
				if err := rig.fs.Remove(segmentFile(testLogDir, 6, suffix)); err != nil {
					t.Fatal(err)
				}
			}
			var left []string
			for _, o := range kept {
				left = append(left, values[o])
			}
			for range 3 {
				l = rig.start()
				wantOffsets(t, l, Offsets{LastStable: 6, HighWatermark: 6, End: 6})
				wantValues(t, readValues(t, l, 0, ReadUncommitted), left...)
				rig.setPoint(6)
				rig.end(l, clean)
			}
			l = rig.start()
			appendDurably(t, l, testBatch("more"))
			wantValues(t, readValues(t, l, 0, ReadUncommitted), append(left, "6=more")...)
			last := segmentsOf(t, l)
			rig.kill(l)
			name := segmentFile(testLogDir, last[len(last)-1].BaseOffset, logSuffix)
			setFile(t, rig.fs, name, []byte("torn"))
			l = rig.start()
			wantOffsets(t, l, Offsets{LastStable: 6, HighWatermark: 6, End: 6})
			rig.kill(l)
		})
	}
}

// overlaps are the ways in which the first segment of endedLog comes to hold what is the others'. The indexes are those of
// before.
var overlaps = map[string]func(segments [][]byte) []byte{
	"a later segment in its place":    func(segments [][]byte) []byte { return segments[2] },
	"the next segment in its place":   func(segments [][]byte) []byte { return segments[1] },
	"the next segment at its end":     func(segments [][]byte) []byte { return slices.Concat(segments[0], segments[1]) },
	"a batch of the last at its end":  func(segments [][]byte) []byte { return slices.Concat(segments[0], segments[2][:len(testBatch("0"))]) },
	"a later segment and a torn tail": func(segments [][]byte) []byte { return slices.Concat(segments[2], []byte("torn")) },
}

func TestOverlappingSegmentIsDamage(t *testing.T) {
	for what, made := range overlaps {
		for _, indexes := range []bool{true, false} {
			for _, adopted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, indexes=%v, adopted=%v", what, indexes, adopted), func(t *testing.T) {
					bothStops(t, func(t *testing.T, clean bool) {
						rig, segments := endedLog(t, clean)
						var logs [][]byte
						for _, s := range segments {
							logs = append(logs, fileBytes(t, rig.fs, segmentFile(testLogDir, s.BaseOffset, logSuffix)))
						}
						name := segmentFile(testLogDir, 0, logSuffix)
						setFile(t, rig.fs, name, made(logs))
						position := int64(0)
						if bytes.HasPrefix(made(logs), logs[0]) {
							position = int64(len(logs[0]))
						}
						if !indexes {
							for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
								if err := rig.fs.Remove(segmentFile(testLogDir, 0, suffix)); err != nil {
									t.Fatal(err)
								}
							}
						}
						before := listTree(t, rig.fs, testLogDir)
						rig.adopted = adopted
						for range 2 {
							l := rig.start()
							_, err := l.Offsets()
							c, ok := errors.AsType[*CorruptError](err)
							if !ok || !errors.Is(err, ErrOffline) || c.File != name || c.Position != position {
								t.Errorf("got %v, want damage in %s at position %d", err, name, position)
							}
							rig.kill(l)
						}
						if after := listTree(t, rig.fs, testLogDir); !maps.Equal(before, after) {
							t.Errorf("the directory was changed: %d files, there were %d", len(after), len(before))
						}
					})
				})
			}
		}
	}
}

// TestRewriteRefusesOffsetsOfAnotherSegment puts one segment's batches into the file of one before it, after the recovery
// has looked at that.
func TestRewriteRefusesOffsetsOfAnotherSegment(t *testing.T) {
	for _, c := range []struct {
		damaged, from int64
		count         int
	}{{0, 3, 1}, {0, 3, 2}, {0, 6, 2}, {3, 6, 2}, {3, 9, 2}} {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		l, _ := filledLog(t, rig, 14)
		name := segmentFile(testLogDir, c.damaged, logSuffix)
		f, err := rig.fs.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(fileBytes(t, rig.fs, segmentFile(testLogDir, c.from, logSuffix)), 0); err != nil {
			t.Fatal(err)
		}
		f.Close()
		before := listTree(t, rig.fs, testLogDir)
		_, err = l.Rewrite(0, c.count, keepOffsets(c.from, c.from+1))
		damage, ok := errors.AsType[*CorruptError](err)
		if !ok || !errors.Is(err, ErrOffline) || damage.File != name || damage.Position != 0 {
			t.Errorf("%d with the batches of %d: got %v, want damage in %s at position 0", c.damaged, c.from, err, name)
		}
		if after := listTree(t, rig.fs, testLogDir); !maps.Equal(before, after) {
			t.Errorf("%d with the batches of %d: the directory was changed: %d files, there were %d", c.damaged, c.from, len(after), len(before))
		}
		rig.kill(l)
	}
}

func TestMissingFirstSegmentIsTold(t *testing.T) {
	for _, c := range []struct {
		name       string
		adopted    bool
		logStart   int64 // that was written down
		told       bool  // after a clean stop
		toldKilled bool
	}{
		{name: "ours", told: true, toldKilled: true},
		{name: "ours with a log start", logStart: 1, told: true, toldKilled: true},
		{name: "deleted in order", logStart: 2},
		// Kafka writes down only a log start that lies within a segment, and may not have come to it before it was killed.
		{name: "adopted", adopted: true},
		{name: "adopted with a log start", adopted: true, logStart: 1, told: true},
		{name: "adopted, deleted in order", adopted: true, logStart: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			bothStops(t, func(t *testing.T, clean bool) {
				rig, segments := endedLog(t, clean)
				first := segments[1].BaseOffset
				if first != 2 {
					t.Fatalf("the second segment begins at offset %d, want 2", first)
				}
				for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} {
					if err := rig.fs.Remove(segmentFile(testLogDir, 0, suffix)); err != nil {
						t.Fatal(err)
					}
				}
				rig.adopted, rig.logStart = c.adopted, c.logStart
				told := clean && c.told || !clean && c.toldKilled
				lines := rig.logLines()
				l := rig.start()
				wantOffsets(t, l, Offsets{LogStart: first, LastStable: 6, HighWatermark: 6, End: 6})
				want := fmt.Sprintf("level=WARN msg=\"segments are missing at the beginning\" log=orders-0 offset=%d want=%d\n", first, c.logStart)
				if got := lines.String(); strings.Contains(got, "missing") != told || told && strings.Count(got, want) != 1 {
					t.Errorf("the log has\n%s, want it told: %v, as\n%s", got, told, want)
				}
				lines.Reset()
				if _, start, ok := l.checkpoints(); ok {
					rig.logStart = start
					rig.end(l, clean)
					l = rig.start()
					wantOffsets(t, l, Offsets{LogStart: first, LastStable: 6, HighWatermark: 6, End: 6})
					if got := lines.String(); strings.Contains(got, "missing") {
						t.Errorf("it is told again:\n%s", got)
					}
				}
				rig.kill(l)
			})
		})
	}
}

// A log of ours has no gap between segments but those of which there are notes.
func TestGapBelowTheRecoveryPointIsDamage(t *testing.T) {
	for _, lost := range []int{0, 1} { // the segment that ends too early
		for _, indexes := range []bool{true, false} {
			bothStops(t, func(t *testing.T, clean bool) {
				rig, segments := endedLog(t, clean)
				base := segments[lost].BaseOffset
				name, size := segmentFile(testLogDir, base, logSuffix), len(testBatch("0"))
				if lost == 1 {
					setFile(t, rig.fs, name, fileBytes(t, rig.fs, name)[:size])
				} else { // of the next one no file is left
					size = int(segments[lost].Size)
					for _, suffix := range []string{logSuffix, indexSuffix, timeIndexSuffix} {
						if err := rig.fs.Remove(segmentFile(testLogDir, segments[1].BaseOffset, suffix)); err != nil {
							t.Fatal(err)
						}
					}
				}
				if !indexes {
					for _, suffix := range []string{indexSuffix, timeIndexSuffix} {
						if err := rig.fs.Remove(segmentFile(testLogDir, base, suffix)); err != nil {
							t.Fatal(err)
						}
					}
				}
				before := listTree(t, rig.fs, testLogDir)
				l := rig.start()
				_, err := l.Offsets()
				if c, ok := errors.AsType[*CorruptError](err); !ok || c.File != name || c.Position != int64(size) {
					t.Errorf("got %v, want damage in %s at position %d", err, name, size)
				}
				if after := listTree(t, rig.fs, testLogDir); !maps.Equal(before, after) {
					t.Errorf("the directory was changed: %d files, there were %d", len(after), len(before))
				}
				rig.kill(l)
			})
		}
	}
}
