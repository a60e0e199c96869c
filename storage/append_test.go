package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestAppendRefuses(t *testing.T) {
	good := func() record.Batch { return testBatch("value") }
	for _, c := range []struct {
		name    string
		configs map[string]string
		batch   []byte
		want    error
	}{
		{"PROD-09 zero-length record set", nil, nil, ErrNotOneBatch},
		{"a batch that is cut off", nil, good()[:70], ErrNotOneBatch},
		{"PROD-08 two batches", nil, append(good(), good()...), ErrNotOneBatch},
		{"magic 1", nil, func() []byte { b := good(); b[record.MagicPos] = 1; return b }(), ErrNotOneBatch},
		{"magic 3", nil, func() []byte { b := good(); b[record.MagicPos] = 3; return b }(), ErrCorruptBatch},
		{"length below a header", nil, func() []byte { b := good(); binary.BigEndian.PutUint32(b[record.LengthPos:], 7); return b }(), ErrCorruptBatch},
		{"transactional, not verified", nil, txnBatch(1, 0, 0, 1), ErrInvalidTxnState},
		{"base offset", nil, func() []byte { b := good(); b.SetBaseOffset(5); return b }(), ErrBaseOffset},
		{"negative base offset", nil, func() []byte { b := good(); b.SetBaseOffset(-5); return b }(), ErrBaseOffset},
		{"PROD-04 size before the crc", map[string]string{"max.message.bytes": "70"}, func() []byte { b := good(); b[70]++; return b }(), ErrBatchTooLarge},
		{"PROD-06 bad crc", nil, func() []byte { b := good(); b[70]++; return b }(), ErrCorruptBatch},
		{"larger than a segment", map[string]string{"internal.segment.bytes": "70"}, good(), ErrSegmentTooSmall},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
			for k, v := range c.configs {
				rig.configs[k] = v
			}
			l := rig.start()
			if a, err := l.Append(c.batch, AppendOptions{}); !errors.Is(err, c.want) {
				t.Errorf("got %+v, %v, want %v", a, err, c.want)
			}
			if offsets, err := l.Offsets(); err != nil || offsets.End != 0 {
				t.Errorf("offsets: got %+v, %v, want an empty log", offsets, err)
			}
			rig.kill(l)
		})
	}
}

func TestAppendOverlooksAFragmentAfterTheBatch(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	b := testBatch("a")
	if _, err := l.Append(append(bytes.Clone(b), b[:30]...), AppendOptions{}); err != nil {
		t.Errorf("a batch and a fragment: %v", err)
	}
	if _, err := l.Append(append(bytes.Clone(b), 1, 2, 3), AppendOptions{}); err != nil {
		t.Errorf("a batch and three bytes: %v", err)
	}
	rig.stop(l)
	rig.start()
}

func TestAppendStampsInPlace(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.epoch = 7
	l := rig.start()
	appendDurably(t, l, testBatch("a", "b", "c"))
	b := testBatch("d")
	sum := b.CRC()
	a := appendDurably(t, l, b)
	if b.BaseOffset() != 3 || b.LeaderEpoch() != 7 || b.CRC() != sum || a.LogAppendTimeMs != -1 || a.LogStartOffset != 0 {
		t.Errorf("got offset %d, epoch %d, crc %#x, %+v, want 3, 7, %#x and no append time", b.BaseOffset(), b.LeaderEpoch(), b.CRC(), a, sum)
	}
	res, err := l.Read(nil, ReadRequest{Offset: 3, MaxBytes: 1 << 20})
	if err != nil || !bytes.Equal(res.Data, b) {
		t.Errorf("read: got %x, %v, want %x", res.Data, err, b)
	}
	rig.stop(l)
}

func TestLogAppendTimeIsStamped(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["message.timestamp.type"] = "LogAppendTime"
	rig.now = func() time.Time { return time.UnixMilli(4242) }
	l := rig.start()
	a := appendDurably(t, l, testBatch("a", "b"))
	if a.LogAppendTimeMs != 4242 {
		t.Errorf("append time: got %d, want 4242", a.LogAppendTimeMs)
	}
	got, ok, err := l.OffsetForTime(4242, ReadUncommitted)
	if want := (TimedOffset{Offset: 0, Timestamp: 4242}); err != nil || !ok || got != want {
		t.Errorf("offset for 4242: got %+v, %v, %v, want %+v", got, ok, err, want)
	}
	if got, ok, err := l.MaxTimestamp(ReadUncommitted); err != nil || !ok || got.Offset != 0 || got.Timestamp != 4242 {
		t.Errorf("max timestamp: got %+v, %v, %v, want offset 0 at 4242", got, ok, err)
	}
	rig.stop(l)
}

func TestMaxTimestampMayLieBelowTheLogStart(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	at := func(times ...int64) []byte {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
		for _, ms := range times {
			b.Append(record.Record{Timestamp: ms, Value: []byte("v")})
		}
		return b.Bytes()
	}
	appendDurably(t, l, at(1000, 5000, 3000))
	appendDurably(t, l, at(2000, 5000))
	for _, start := range []int64{0, 1, 2, 5} {
		if _, err := l.DeleteBefore(start); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := l.MaxTimestamp(ReadUncommitted); err != nil || !ok || got.Offset != 1 || got.Timestamp != 5000 {
			t.Errorf("log start %d: got %+v, %v, %v, want offset 1 at 5000", start, got, ok, err)
		}
	}
	if got, ok, err := l.OffsetForTime(5000, ReadUncommitted); ok || err != nil {
		t.Errorf("offset for 5000: got %+v, %v, %v, want none, all are deleted", got, ok, err)
	}
	rig.stop(l)
}

// The clock goes on while the batch is validated, without the log's lock.
func TestLogAppendTimeIsThatOfTheWrite(t *testing.T) {
	for _, codec := range []string{"producer", "gzip"} {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		rig.configs["message.timestamp.type"], rig.configs["compression.type"] = "LogAppendTime", codec
		now := int64(4242)
		rig.now = func() time.Time { now++; return time.UnixMilli(now) }
		l := rig.start()
		a := appendDurably(t, l, testBatch("a", "b"))
		res, err := l.Read(nil, ReadRequest{MaxBytes: 1000})
		if err != nil {
			t.Fatal(err)
		}
		b, _, err := record.Cut(res.Data)
		if err != nil || !b.LogAppendTime() || b.MaxTimestamp() != a.LogAppendTimeMs {
			t.Errorf("compression.type=%s: stored with timestamp %d, LogAppendTime %v, %v; want that of the append, %d", codec, b.MaxTimestamp(), b.LogAppendTime(), err, a.LogAppendTimeMs)
		}
		if got, ok, err := l.MaxTimestamp(ReadUncommitted); err != nil || !ok || got.Timestamp != a.LogAppendTimeMs {
			t.Errorf("compression.type=%s: max timestamp %+v, %v, %v, want %d", codec, got, ok, err, a.LogAppendTimeMs)
		}
		rig.stop(l)
	}
}

func TestBatchThatUnpacksToTooMuchIsTooLarge(t *testing.T) {
	b := record.NewBuilder(record.BuilderOptions{Codec: record.Gzip})
	b.Append(record.Record{Timestamp: 1_700_000_000_000, Value: make([]byte, 3<<20)})
	batch := b.Bytes()
	for _, c := range []struct {
		configs map[string]string
		want    error
	}{
		{map[string]string{"compression.type": "uncompressed"}, ErrBatchTooLarge},
		{map[string]string{"compression.type": "zstd", "max.decompressed.message.bytes": "3000000"}, ErrBatchTooLarge},
		{map[string]string{"max.decompressed.message.bytes": "3000000"}, ErrBatchTooLarge},
		{map[string]string{"compression.type": "zstd"}, nil},
		{nil, nil},
	} {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		for name, value := range c.configs {
			rig.configs[name] = value
		}
		l := rig.start()
		if _, err := l.Append(bytes.Clone(batch), AppendOptions{}); !errors.Is(err, c.want) {
			t.Errorf("with %v: got %v, want %v", c.configs, err, c.want)
		}
		rig.kill(l)
	}
}

func TestRecompression(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["compression.type"] = "gzip"
	l := rig.start()
	appendDurably(t, l, testBatch("a", "b"))
	res, err := l.Read(nil, ReadRequest{MaxBytes: 1000})
	if err != nil {
		t.Fatal(err)
	}
	if got := record.Batch(res.Data).Codec(); got != record.Gzip {
		t.Errorf("stored codec: got %v, want gzip", got)
	}
	wantValues(t, readValues(t, l, 0, ReadUncommitted), "0=a", "1=b")
	rig.stop(l)
}

func TestIdempotentProducer(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	for i := range 7 {
		appendDurably(t, l, idempotentBatch(1, 0, int32(2*i), 2))
	}
	t.Run("PROD-20 duplicate within the last five batches returns the first offset", func(t *testing.T) {
		for i := 2; i < 7; i++ {
			a, err := l.Append(idempotentBatch(1, 0, int32(2*i), 2), AppendOptions{})
			if err != nil || !a.Duplicate || a.BaseOffset != int64(2*i) || a.NextOffset != int64(2*i+2) || a.LogAppendTimeMs != 1_700_000_000_000 {
				t.Errorf("batch %d again: got %+v, %v, want a duplicate of offset %d with the batch's timestamp", i, a, err, 2*i)
			}
		}
		if _, err := l.Append(idempotentBatch(1, 0, 2, 2), AppendOptions{}); !errors.Is(err, ErrOutOfOrderSequence) {
			t.Errorf("an older one: got %v, want ErrOutOfOrderSequence", err)
		}
	})
	t.Run("PROD-23 epoch rules", func(t *testing.T) {
		if _, err := l.Append(idempotentBatch(1, 1, 3, 1), AppendOptions{}); !errors.Is(err, ErrOutOfOrderSequence) {
			t.Errorf("new epoch from sequence 3: got %v, want ErrOutOfOrderSequence", err)
		}
		appendDurably(t, l, idempotentBatch(1, 1, 0, 1))
		if _, err := l.Append(idempotentBatch(1, 0, 14, 1), AppendOptions{}); !errors.Is(err, ErrInvalidProducerEpoch) {
			t.Errorf("old epoch: got %v, want ErrInvalidProducerEpoch", err)
		}
	})
	infos, err := l.ActiveProducers()
	if err != nil || len(infos) != 1 || infos[0].Epoch != 1 || infos[0].LastSequence != 0 {
		t.Errorf("producers: got %+v, %v", infos, err)
	}
	rig.stop(l)
}

func TestTransactionsBoundTheLastStableOffset(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	appendDurably(t, l, testBatch("before"))
	appendCoordinator(t, l, txnBatch(5, 0, 0, 2))
	appendDurably(t, l, testBatch("after"))
	wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 4, End: 4})
	if _, err := l.Append(idempotentBatch(5, 0, 2, 1), AppendOptions{}); !errors.Is(err, ErrInvalidTxnState) {
		t.Errorf("batch outside the transaction: got %v, want ErrInvalidTxnState", err)
	}
	wantValues(t, readValues(t, l, 0, ReadCommitted), "0=before")
	rig.kill(l)
	l = rig.start()
	wantOffsets(t, l, Offsets{LastStable: 1, HighWatermark: 4, End: 4})
	appendCoordinator(t, l, record.EndTxnMarker(5, 0, record.Marker{}, 1, 0))
	wantOffsets(t, l, Offsets{LastStable: 5, HighWatermark: 5, End: 5})
	res, err := l.Read(nil, ReadRequest{MaxBytes: 10000, Isolation: ReadCommitted})
	if err != nil || len(res.Aborted) != 1 || res.Aborted[0].ProducerID != 5 || res.Aborted[0].FirstOffset != 1 {
		t.Errorf("aborted: got %+v, %v, want producer 5 from offset 1", res.Aborted, err)
	}
	if res, err := l.Read(nil, ReadRequest{MaxBytes: 10000}); err != nil || res.Aborted != nil {
		t.Errorf("aborted for read_uncommitted: got %+v, %v, want nil", res.Aborted, err)
	}
	rig.stop(l)
}

func TestSegmentRollsByRecordTime(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["segment.ms"] = "1000"
	rig.configs["message.timestamp.after.max.ms"] = "9223372036854775807"
	l := rig.start()
	at := func(ms int64) record.Batch {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
		b.Append(record.Record{Timestamp: ms, Value: []byte("x")})
		return bytes.Clone(b.Bytes())
	}
	for _, ms := range []int64{5000, 6000, 6001, 100, 7001, 7002} {
		appendDurably(t, l, at(ms))
	}
	infos, err := l.Segments()
	if err != nil {
		t.Fatal(err)
	}
	var bases []int64
	for _, s := range infos {
		bases = append(bases, s.BaseOffset)
	}
	if fmt.Sprint(bases) != "[0 2 5]" {
		t.Errorf("segments begin at %v, want [0 2 5]", bases)
	}
	rig.stop(l)
}

func TestSegmentRollsWhenAnIndexIsFull(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	rig.configs["segment.index.bytes"] = "24"
	rig.configs["index.interval.bytes"] = "0"
	l := rig.start()
	for range 12 {
		appendDurably(t, l, testBatch("x"))
	}
	infos, err := l.Segments()
	if err != nil || len(infos) < 3 {
		t.Errorf("got %d segments, %v, want several", len(infos), err)
	}
	if got := readValues(t, l, 0, ReadUncommitted); len(got) != 12 {
		t.Errorf("got %d records, want 12", len(got))
	}
	rig.stop(l)
}

func TestSegmentOfTheSmallestIndexIsNotTakenForDamaged(t *testing.T) {
	for _, indexBytes := range []string{"4", "11", "12"} {
		rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
		rig.configs["segment.index.bytes"] = indexBytes
		l := rig.start()
		for range 3 {
			appendDurably(t, l, testBatch("x"))
		}
		infos, err := l.Segments()
		if err != nil || len(infos) != 3 || infos[0].TimeIndexBytes != timeEntrySize {
			t.Errorf("%s bytes: got %+v, %v, want three segments, and in a closed one's time index its largest timestamp", indexBytes, infos, err)
		}
		rig.stop(l)
		lines := rig.logLines()
		l = rig.start()
		if got := readValues(t, l, 0, ReadUncommitted); len(got) != 3 || strings.Contains(lines.String(), "rebuilt") {
			t.Errorf("%s bytes: got %d records and said %q, want 3 and nothing rebuilt", indexBytes, len(got), lines)
		}
		rig.stop(l)
	}
}

func TestSegmentRollsBeforeRelativeOffsetsOverflow(t *testing.T) {
	rig := newLogRig(t, vfs.NewMem(vfs.MemOptions{}))
	l := rig.start()
	wide := record.NewBuilder(record.BuilderOptions{LeaderEpoch: -1})
	wide.Append(record.Record{Timestamp: 1, Value: []byte("first")})
	wide.SetLastOffset(1<<31 - 2)
	for range 2 {
		appendCoordinator(t, l, bytes.Clone(wide.Bytes()))
	}
	infos, err := l.Segments()
	if err != nil || len(infos) != 2 || infos[1].BaseOffset != 1<<31-1 {
		t.Errorf("segments: got %+v, %v, want a second one from offset 2147483647", infos, err)
	}
	rig.stop(l)
}

// A coordinator takes the records of its topic into memory, so a client may not bring it small batches of large ones.
func TestClientsBatchForAnInternalTopicThatDecompressesToMuch(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	for name, want := range map[string]error{"__consumer_offsets": ErrBatchTooLarge, "orders": nil} {
		topic := createTopic(t, s, name, 1)
		l, _ := topic.Partition(0)
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch, Codec: record.Zstd})
		b.Append(record.Record{Key: []byte("k"), Value: make([]byte, MaxInternalBytes)})
		if _, err := l.Append(b.Bytes(), AppendOptions{Origin: OriginClient}); !errors.Is(err, want) {
			t.Errorf("%s: got %v, want %v", name, err, want)
		}
	}
	closeStore(t, s)
}
