package gateway

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs/vfstest"
)

var benchPassCount = flag.Int("bench.passes", 5, "passes of compaction that BenchmarkCleaning covers at least")

// BenchmarkCleaning measures what a client waits over loopback for the answer to a Produce of one record of 1 KiB, acks=-1,
// and to a Fetch of that record by another connection, with and without passes of compaction over another topic of the
// server: of 500,000 keys half are written again before each pass, which makes 55 MB of 82. It reports medians, 99th
// percentiles and the longest. The files are on the disk.
//
// What begins while a pass is under way is measured, whatever -benchtime is: over -bench.passes whole passes at least, and at
// least 3000 requests of each kind. Results are compared by benchstat, of
//
//	go test . -run '^$' -bench Cleaning -bench.passes 10 -count 6
func BenchmarkCleaning(b *testing.B) {
	vfstest.PrintPlace(b)
	for _, cleaning := range []bool{false, true} {
		b.Run(fmt.Sprintf("cleaning=%v/batch=1KiB/acks=all", cleaning), func(b *testing.B) {
			g := startCleaned(b)
			p := newBenchPasses(b, g)
			to := part{benchTopic, 0}
			build := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
			build.Append(record.Record{Timestamp: time.Now().UnixMilli(), Value: make([]byte, 1<<10)})
			req := produceRequest(-1, []*batch{{part: to, wire: build.Bytes()}})
			checkProduce(b, g, req)
			produce, producer, consumer := frameOf(req), dialBench(b, g), dialBench(b, g)
			sent := int64(1)
			var produces, fetches []time.Duration
			once := func() {
				if cleaning {
					p.keep()
				}
				fetch := frameOf(fetchRequest(to, sent))
				began := time.Now()
				producer.exchange(b, produce)
				produced := time.Now()
				if n := consumer.exchange(b, fetch); n < 1<<10 {
					b.Fatalf("fetch at offset %d: %d bytes", sent, n)
				}
				sent++
				produces, fetches = append(produces, produced.Sub(began)), append(fetches, time.Since(produced))
			}
			for b.Loop() {
				once()
			}
			for cleaning && !p.enough() || len(produces) < 3000 {
				once()
			}
			p.end()
			reportLatency(b, "produce", produces)
			reportLatency(b, "fetch", fetches)
			b.ReportMetric(float64(p.ended), "passes")
			b.ReportMetric(p.took.Seconds()/float64(max(p.ended, 1)), "s/pass")
			b.ReportMetric(0, "ns/op") // it has what is between the passes
		})
	}
}

// exchange sends a frame, takes the answer and returns its size.
func (c *benchConn) exchange(b *testing.B, frame []byte) int {
	err := c.send(frame)
	n := 0
	if err == nil {
		n, err = c.receive()
	}
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// reportLatency reports what requests took, in microseconds.
func reportLatency(b *testing.B, what string, took []time.Duration) {
	slices.Sort(took)
	us := func(d time.Duration) float64 { return float64(d.Microseconds()) }
	b.ReportMetric(us(took[len(took)/2]), what+"-p50-us")
	b.ReportMetric(us(took[len(took)*99/100]), what+"-p99-us")
	b.ReportMetric(us(took[len(took)-1]), what+"-max-us")
}

// benchPasses makes passes over a topic, one after the other.
type benchPasses struct {
	b       *testing.B
	g       *Gateway
	table   *storage.Log
	running chan struct{} // closed when the pass is over; nil when there is none
	began   time.Time
	ended   int
	took    time.Duration // by those that ended
}

const (
	cleanedTopic = "table"
	cleanedKeys  = 500_000
)

// startCleaned starts a server on the disk with a topic and another that is compacted, though not by itself.
func startCleaned(b *testing.B) *Gateway {
	b.Helper()
	g, err := Start(context.Background(), Options{
		Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Config: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "log.cleaner.backoff.ms": "3600000"},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	for name, configs := range map[string]map[string]string{
		benchTopic: nil,
		cleanedTopic: {
			"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.1", "segment.bytes": fmt.Sprint(256 << 20), "file.delete.delay.ms": "0",
		},
	} {
		if _, err := g.Store().CreateTopic(storage.TopicSpec{Name: name, Partitions: 1, Configs: configs}); err != nil {
			b.Fatal(err)
		}
	}
	return g
}

func newBenchPasses(b *testing.B, g *Gateway) *benchPasses {
	b.Helper()
	topic, _ := g.Store().Topic(cleanedTopic)
	table, _ := topic.Partition(0)
	p := &benchPasses{b: b, g: g, table: table}
	p.appendKeys(cleanedKeys, 1)
	table.SetCleanedTo(cleanedKeys)
	return p
}

// appendKeys appends a record of 100 bytes for each of n keys of 16 bytes, which are step apart, and closes the segment. n is
// a multiple of 1000.
func (p *benchPasses) appendKeys(n, step int) {
	p.b.Helper()
	build := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	key, value, now := make([]byte, 16), make([]byte, 84), time.Now().UnixMilli()
	for i := 0; i < n; {
		build.Reset(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		for range 1000 {
			binary.BigEndian.PutUint64(key, uint64(i*step)*0x9E3779B97F4A7C15) // spread, and each only once
			build.Append(record.Record{Key: key, Value: value, Timestamp: now})
			i++
		}
		a, err := p.table.Append(build.Bytes(), storage.AppendOptions{})
		if err == nil && (i%100_000 == 0 || i == n) {
			err = p.table.WaitDurable(context.Background(), a)
		}
		if err != nil {
			p.b.Fatal(err)
		}
	}
	if err := p.table.Roll(); err != nil {
		p.b.Fatal(err)
	}
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
	p.appendKeys(cleanedKeys/2, 2)
	running := make(chan struct{})
	p.running, p.began = running, time.Now()
	go func() { // end waits for it
		defer close(running)
		p.g.cleaner.Compact(context.Background())
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
	if st := p.g.cleaner.Stats(); st.Passes != int64(p.ended) {
		p.b.Fatalf("%+v after %d turns, want a pass in each", st, p.ended)
	}
}
