package cleaner

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"path/filepath"
	"slices"
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

// benchTable returns a store with a closed log in which each of so many keys of 16 bytes has two records of 100 bytes, of
// which the first were cleaned before.
func benchTable(b *testing.B, fsys vfs.FS, dir string, keys int) (*storage.Store, *storage.Log) {
	b.Helper()
	s, err := storage.Open(dir, storage.Options{FS: fsys, Now: benchClock})
	if err != nil {
		b.Fatal(err)
	}
	l := topicLog(b, s, "table", map[string]string{"cleanup.policy": "compact", "segment.bytes": fmt.Sprint(64 << 20), "file.delete.delay.ms": "0"})
	builder := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	key, value := make([]byte, 16), make([]byte, 84)
	for n := 0; n < 2*keys; {
		builder.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		for range 1000 {
			binary.BigEndian.PutUint64(key, uint64(n%keys)*0x9E3779B97F4A7C15) // spread, and each only once
			builder.Append(record.Record{Key: key, Value: value, Timestamp: benchClock().UnixMilli()})
			n++
		}
		a, err := l.Append(builder.Bytes(), storage.AppendOptions{})
		if err == nil && n%100_000 == 0 {
			err = l.WaitDurable(context.Background(), a)
		}
		if err == nil && n == keys {
			err = l.Roll()
			l.SetCleanedTo(int64(n))
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	if err := l.Roll(); err != nil {
		b.Fatal(err)
	}
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

// BenchmarkLatency measures durable appends of 1 KiB to a log, and reads of its last record, with and without passes over
// another log of the store. It reports the 99th percentiles. The files are on the disk.
func BenchmarkLatency(b *testing.B) {
	for _, cleaning := range []bool{false, true} {
		b.Run(fmt.Sprintf("cleaning=%v/fs=disk", cleaning), func(b *testing.B) {
			s, table := benchTable(b, vfs.OS(), filepath.Join(b.TempDir(), "data"), 500_000)
			l := topicLog(b, s, "orders", nil)
			c := New(Options{Store: s, Now: benchClock})
			ctx, stop := context.WithCancel(context.Background())
			ended := make(chan struct{})
			passes := 0
			go func() {
				defer close(ended)
				for ; cleaning && ctx.Err() == nil; passes++ {
					if _, err := c.Force(ctx, table); err != nil && ctx.Err() == nil {
						b.Error(err)
						return
					}
				}
			}()
			builder := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
			value, buffer := make([]byte, 1024), []byte(nil)
			var appends, reads []time.Duration
			for b.Loop() {
				builder.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
				builder.Append(record.Record{Value: value, Timestamp: benchClock().UnixMilli()})
				began := time.Now()
				a, err := l.Append(builder.Bytes(), storage.AppendOptions{})
				if err == nil {
					err = l.WaitDurable(context.Background(), a)
				}
				if err != nil {
					b.Fatal(err)
				}
				appended := time.Now()
				res, err := l.Read(buffer[:0], storage.ReadRequest{Offset: a.BaseOffset, MaxBytes: 1 << 20, MinOneBatch: true})
				if err != nil || len(res.Data) == 0 {
					b.Fatalf("read %d bytes: %v", len(res.Data), err)
				}
				buffer = res.Data
				appends, reads = append(appends, appended.Sub(began)), append(reads, time.Since(appended))
			}
			stop()
			<-ended
			p99 := func(d []time.Duration) float64 {
				slices.Sort(d)
				return float64(d[len(d)*99/100].Microseconds())
			}
			b.ReportMetric(p99(appends), "append-p99-us")
			b.ReportMetric(p99(reads), "read-p99-us")
			b.ReportMetric(float64(passes), "passes")
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
