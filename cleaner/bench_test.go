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
	"github.com/kaen-log/gateway/storage/vfs/vfstest"
)

var (
	benchKeys = flag.Int("bench.keys", 1_000_000, "keys of BenchmarkPass")
	benchDir  = flag.String("bench.dir", "", "directory of the disk for BenchmarkPass; in memory without one")

	benchPassCount = flag.Int("bench.passes", 5, "passes that BenchmarkLatency covers at least")
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

// BenchmarkLatency measures durable appends of 1 KiB to a log, and reads of its last record, with and without passes over
// another log of the store: of 500,000 keys half are written again before each pass, which makes 55 MB of 82. It reports
// medians, 99th percentiles and the longest. The files are on the disk.
//
// What begins while a pass is under way is measured, whatever -benchtime is: over -bench.passes whole passes at least, and at
// least 3000 appends. Results are compared by benchstat, of
//
//	go test ./cleaner -run '^$' -bench Latency -bench.passes 10 -count 6
func BenchmarkLatency(b *testing.B) {
	vfstest.PrintPlace(b)
	for _, cleaning := range []bool{false, true} {
		b.Run(fmt.Sprintf("cleaning=%v/fs=disk", cleaning), func(b *testing.B) {
			s := benchStore(b, vfs.OS(), filepath.Join(b.TempDir(), "data"))
			l := topicLog(b, s, "orders", nil)
			p := newBenchPasses(b, s)
			builder := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
			value, buffer := make([]byte, 1024), []byte(nil)
			var appends, reads []time.Duration
			once := func() {
				if cleaning {
					p.keep()
				}
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
			for b.Loop() {
				once()
			}
			for cleaning && !p.enough() || len(appends) < 3000 {
				once()
			}
			p.end()
			reportLatency(b, "append", appends)
			reportLatency(b, "read", reads)
			b.ReportMetric(float64(p.ended), "passes")
			b.ReportMetric(p.took.Seconds()/float64(max(p.ended, 1)), "s/pass")
			b.ReportMetric(0, "ns/op") // it has what is between the passes
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// reportLatency reports what operations took, in microseconds.
func reportLatency(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) }
	b.ReportMetric(us(took[len(took)/2]), what+"-p50-us")
	b.ReportMetric(us(took[len(took)*99/100]), what+"-p99-us")
	b.ReportMetric(us(took[len(took)-1]), what+"-max-us")
}

// benchPasses makes passes over a log, one after the other.
type benchPasses struct {
	b       *testing.B
	cleaner *Cleaner
	table   *storage.Log
	running chan struct{} // closed when the pass is over; nil when there is none
	began   time.Time
	ended   int
	took    time.Duration // by those that ended
}

const latencyKeys = 500_000

func newBenchPasses(b *testing.B, s *storage.Store) *benchPasses {
	b.Helper()
	table := topicLog(b, s, "table", map[string]string{
		"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.bytes": fmt.Sprint(256 << 20), "file.delete.delay.ms": "0",
	})
	appendKeys(b, table, latencyKeys, 1)
	table.SetCleanedTo(latencyKeys)
	return &benchPasses{b: b, cleaner: New(Options{Store: s, Now: benchClock}), table: table}
}

// keep begins a pass when none is under way; there is something to clean first.
func (p *benchPasses) keep() {
	if p.running != nil {
		select {
		case <-p.running:
			p.end()
		default:
			return
		}
	}
	appendKeys(p.b, p.table, latencyKeys/2, 2)
	running := make(chan struct{})
	p.running, p.began = running, time.Now()
	go func() { // end waits for it
		defer close(running)
		p.cleaner.Compact(context.Background())
		p.took += time.Since(p.began)
	}()
}

// enough reports whether the last pass is over and there were as many as are wanted.
func (p *benchPasses) enough() bool {
	select {
	case <-p.running:
		p.end()
		return p.ended >= *benchPassCount
	default:
		return false
	}
}

// end waits for the pass that is under way.
func (p *benchPasses) end() {
	if p.running == nil {
		return
	}
	<-p.running
	p.running = nil
	p.ended++
	if st := p.cleaner.Stats(); st.Passes != int64(p.ended) {
		p.b.Fatalf("%+v after %d turns, want a pass in each", st, p.ended)
	}
}
