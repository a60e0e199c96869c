package storage

import (
	"bytes"
	"context"
	"slices"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// FuzzRecoverSegment starts a log on any bytes as its .log and index files. Whatever they are, the log serves the
// longest run of whole batches at the front, or is offline for damage below the recovery point, and what it serves
// is the same after another start.
func FuzzRecoverSegment(f *testing.F) {
	rig := newLogRig(f, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["index.interval.bytes"] = "50"
	l := rig.start()
	fillLog(f, rig, l)
	rig.stop(l)
	const dir = testLogDir + "/00000000000000000000"
	segment, index, times := fileBytes(f, rig.fs, dir+logSuffix), fileBytes(f, rig.fs, dir+indexSuffix), fileBytes(f, rig.fs, dir+timeIndexSuffix)
	f.Add(segment, index, times, int64(0), false)
	f.Add(segment, index, times, int64(20), false)
	f.Add(segment, index, times, int64(52), true)
	f.Add(segment[:len(segment)-7], index, times, int64(52), false)
	f.Add(append(bytes.Clone(segment), make([]byte, 200)...), append(bytes.Clone(index), make([]byte, 64)...), times, int64(10), false)
	f.Add([]byte{}, index, times, int64(0), true)
	f.Fuzz(func(t *testing.T, segment, index, times []byte, point int64, clean bool) {
		var whole []byte
		next := int64(0)
		for rest := segment; ; {
			b, r, err := record.Cut(rest)
			if err != nil {
				break
			}
			if _, reason := checkHeader(b, next, int64(len(rest))); reason != "" {
				break
			}
			whole, rest, next = append(whole, b...), r, b.NextOffset()
		}
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		rig.configs["index.interval.bytes"] = "50"
		rig.point, rig.clean = max(point, 0), clean
		if err := rig.fs.MkdirAll(testLogDir); err != nil {
			t.Fatal(err)
		}
		setFile(t, rig.fs, dir+logSuffix, segment)
		setFile(t, rig.fs, dir+indexSuffix, index)
		setFile(t, rig.fs, dir+timeIndexSuffix, times)
		l := rig.start()
		offsets, err := l.Offsets()
		if err != nil {
			if rig.point == 0 && !clean {
				t.Fatalf("with nothing below the recovery point: %v", err)
			}
			return
		}
		if rig.point == 0 && offsets.HighWatermark != next {
			t.Fatalf("log ends at %d, the whole batches end at %d", offsets.HighWatermark, next)
		}
		first := readBytes(t, l)
		if rig.point == 0 && !bytes.Equal(first, whole) {
			t.Fatalf("log serves %d bytes, whole are %d", len(first), len(whole))
		}
		for _, ms := range []int64{-1, 0, 1000, 1200} {
			if _, _, err := l.OffsetForTime(ms, ReadCommitted); err != nil {
				t.Logf("offset for time %d: %v", ms, err) // the records of a whole batch may be anything
			}
		}
		if l.Status() == StatusOffline {
			return
		}
		a, err := l.Append(testBatch("more"), AppendOptions{})
		if err == nil {
			err = l.WaitDurable(context.Background(), a)
		}
		if err != nil || a.BaseOffset != offsets.HighWatermark {
			t.Fatalf("append: got %+v, %v, want offset %d", a, err, offsets.HighWatermark)
		}
		second := readBytes(t, l)
		if !bytes.HasPrefix(second, first) {
			t.Fatal("an append changed what was there")
		}
		rig.stop(l)
		l = rig.start()
		if third := readBytes(t, l); !slices.Equal(third, second) {
			t.Fatalf("after a start: %d bytes, want %d", len(third), len(second))
		}
		rig.kill(l)
	})
}

// readBytes reads all of a log.
func readBytes(tb testing.TB, l *Log) []byte {
	tb.Helper()
	offsets, err := l.Offsets()
	if err != nil {
		tb.Fatal(err)
	}
	var all []byte
	for next := offsets.LogStart; next < offsets.HighWatermark; {
		res, err := l.Read(nil, ReadRequest{Offset: next, MaxBytes: 1 << 20, MinOneBatch: true})
		if err != nil {
			tb.Fatalf("read from %d: %v", next, err)
		}
		if len(res.Data) == 0 {
			break
		}
		all = append(all, res.Data...)
		next = lastNextOffset(res.Data)
	}
	return all
}
