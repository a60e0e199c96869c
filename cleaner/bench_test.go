package cleaner

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

var (
	benchKeys = flag.Int("bench.keys", 1_000_000, "keys of BenchmarkPass")
	benchDir  = flag.String("bench.dir", "", "directory of the disk for BenchmarkPass; in memory without one")
)

func benchClock() time.Time { return time.UnixMilli(1_700_000_000_000) }

// benchStore opens a store for a benchmark.
func benchStore(b *testing.B, fsys vfs.FS, dir string) *storage.Store {
	b.Helper()
	s, err := storage.Open(dir, storage.Options{FS: fsys, Now: benchClock})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// appendKeys appends a record of 100 bytes for each of n keys of 16 bytes, which are step apart, and closes the segment. n is
// a multiple of 1000.
func appendKeys(b *testing.B, l *storage.Log, n, step int) {
	b.Helper()
	builder := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	key, value := make([]byte, 16), make([]byte, 84)
	for i := 0; i < n; {
		builder.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		for range 1000 {
			binary.BigEndian.PutUint64(key, uint64(i*step)*0x9E3779B97F4A7C15) // spread, and each only once
			builder.Append(record.Record{Key: key, Value: value, Timestamp: benchClock().UnixMilli()})
			i++
		}
		a, err := l.Append(builder.Bytes(), storage.AppendOptions{})
		if err == nil && (i%100_000 == 0 || i == n) {
			err = l.WaitDurable(context.Background(), a)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Roll(); err != nil {
		b.Fatal(err)
	}
}

// benchTable returns a store with a closed log in which each of so many keys has two records, of which the first were
// cleaned before.
func benchTable(b *testing.B, fsys vfs.FS, dir string, keys int) (*storage.Store, *storage.Log) {
	b.Helper()
	s := benchStore(b, fsys, dir)
	l := topicLog(b, s, "table", map[string]string{"cleanup.policy": "compact", "segment.bytes": fmt.Sprint(64 << 20), "file.delete.delay.ms": "0"})
	appendKeys(b, l, keys, 1)
	l.SetCleanedTo(int64(keys))
	appendKeys(b, l, keys, 1)
	return s, l
}

// BenchmarkPass compacts a log that was clean until every record in it was replaced by a later one. It reports the bytes of
// the log a second, and those of the offset map a key.
func BenchmarkPass(b *testing.B) {
	b.ReportAllocs()
	turns := 0
	var perKey float64
	for b.Loop() {
		b.StopTimer()
		var fsys vfs.FS = vfs.NewMem(vfs.MemOptions{Now: benchClock})
		dir := "data"
		if *benchDir != "" {
			fsys, dir = vfs.OS(), filepath.Join(*benchDir, fmt.Sprint(turns))
		}
		s, l := benchTable(b, fsys, dir, *benchKeys)
		c := New(Options{Store: s, Now: benchClock})
		config := DefaultConfig()
		config.DedupeBytes = 2 << 30
		own := c.compactor(config)
		b.SetBytes(l.Size())
		ch, err := choose(l, l.CleanedTo(), benchClock().UnixMilli())
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		st, err := own.pass(context.Background(), l, ch, benchClock().UnixMilli())
		b.StopTimer()
		if err != nil || st.RecordsKept != int64(*benchKeys) || st.Keys != *benchKeys {
			b.Fatalf("pass %+v, %v, want %d keys", st, err, *benchKeys)
		}
		perKey = float64(own.offsets.taken()) / float64(st.Keys)
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		turns++
		b.StartTimer()
	}
	b.ReportMetric(perKey, "map-B/key")
}

// BenchmarkRetentionSweep looks at 10,000 partitions of which none has anything to forget.
func BenchmarkRetentionSweep(b *testing.B) {
	s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{Now: benchClock}), Now: benchClock})
	if err != nil {
		b.Fatal(err)
	}
	topic, err := s.CreateTopic(storage.TopicSpec{Name: "many", Partitions: 10_000})
	if err != nil {
		b.Fatal(err)
	}
	for p := range topic.Partitions() {
		l, _ := topic.Partition(p)
		fill(b, l, 1, 1, benchClock())
	}
	c := New(Options{Store: s, Now: benchClock})
	b.ReportAllocs()
	for b.Loop() {
		c.Retain(context.Background())
	}
	b.StopTimer()
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
