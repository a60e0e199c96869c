package gateway

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/kaen-log/gateway/storage/vfs"
)

// TestClientGoesOnOverCrashes has a franz-go producer with its default settings and a consumer at work, over several
// crashes of the server. They never learn of a new server but by lost connections: what the producer was told is
// acknowledged is there once, in the order it was produced in, and the consumer sees every offset of every partition
// once, from the first to the last.
func TestClientGoesOnOverCrashes(t *testing.T) {
	defer goleak.VerifyNone(t)
	for i := range max(*crashSeeds/10, 1) {
		seed := *crashSeed + uint64(i)
		if err := clientRun(t.Context(), seed); err != nil {
			t.Fatalf("seed %d: %v\nrepeat: go test -run 'TestClientGoesOnOverCrashes$' -crash.seed %d -crash.seeds 10 -count 20 .", seed, err, seed)
		}
	}
}

// address is where the server of the moment listens.
type address struct {
	mu      sync.Mutex
	addr    string        // guarded by mu; "" while there is none
	changed chan struct{} // guarded by mu; closed when addr changes
}

func (a *address) set(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.addr = addr
	close(a.changed)
	a.changed = make(chan struct{})
}

// dial connects to the server of the moment, and waits while there is none.
func (a *address) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	for {
		a.mu.Lock()
		addr, changed := a.addr, a.changed
		a.mu.Unlock()
		if addr != "" {
			var d net.Dialer
			conn, err := d.DialContext(ctx, "tcp", addr)
			if err == nil {
				return conn, nil
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// told is a record that was acknowledged.
type told struct {
	value     string
	partition int32
	offset    int64
}

const (
	clientTopic      = "t"
	clientPartitions = 4
	clientRecords    = 400
)

func clientRun(ctx context.Context, seed uint64) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	r := rand.New(rand.NewPCG(seed, 3))
	at := &address{changed: make(chan struct{})}
	options := []kgo.Opt{
		kgo.SeedBrokers("gateway:9092"), kgo.Dialer(at.dial),
		kgo.RetryBackoffFn(func(int) time.Duration { return time.Millisecond }),
		kgo.MetadataMinAge(10 * time.Millisecond),
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	producer, err := kgo.NewClient(append(options, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(2000))...)
	if err != nil {
		return err
	}
	defer producer.Close()
	consumer, err := kgo.NewClient(append(options, kgo.ConsumeTopics(clientTopic), kgo.FetchMaxWait(time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer consumer.Close()

	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	done := make(chan error, 1)
	var lives []string
	for n, crashes := 0, 2+r.IntN(3); ; n++ {
		d := newDisk(mem, nil)
		if n < crashes {
			d.choose(r, n > 0)
			d.at = 20 + d.at/2
			if n == 0 {
				d.at += 100 // the topic is made before that
			}
		} else {
			d.end = stopped
		}
		l, err := startLife(d, func(o *Options) {
			o.Config["advertised.listeners"] = "PLAINTEXT://gateway:9092"
			o.Config["num.partitions"] = fmt.Sprint(clientPartitions)
		})
		if err != nil && !d.off.Load() {
			return fmt.Errorf("start after %v: %w", lives, err)
		}
		if err == nil {
			at.set(l.addr)
		}
		if n == 0 {
			if err := makeClientTopic(l); err != nil && !d.off.Load() {
				return err
			}
			wg.Go(func() { // a crash may come while the consumer is still on its way
				acked, err := produceAll(ctx, producer, seed)
				if err == nil {
					err = consumeAll(ctx, consumer, acked)
				}
				done <- err
			})
		}
		var over error
		all := false
		select {
		case <-d.gone:
		case over = <-done:
			all = true
			producer.Close()
			consumer.Close()
		}
		at.set("")
		lives = append(lives, fmt.Sprintf("%v at operation %d of %d, keeping %.2f", d.end, d.at, d.ops.Load(), d.keep))
		var stopErr error
		mem, stopErr = l.stop()
		switch {
		case over != nil:
			return fmt.Errorf("%s: %w", strings.Join(lives, ", "), over)
		case stopErr != nil:
			return fmt.Errorf("%s: %w", strings.Join(lives, ", "), stopErr)
		case all:
			return nil
		}
	}
}

// makeClientTopic makes the topic, with segments of a few batches.
func makeClientTopic(l *life) error {
	h := newHistory(0)
	w := &load{life: l, h: h}
	defer w.hangUp()
	if c := w.connect(); c != nil {
		w.createTopic(c, clientTopic, clientPartitions)
	}
	if h.broken() {
		return fmt.Errorf("%s", strings.Join(h.violations, ", "))
	}
	return nil
}

// produceAll produces records in bursts, each burst in several batches, and returns those acknowledged when all are, or,
// if the client cannot know, given up.
func produceAll(ctx context.Context, c *kgo.Client, seed uint64) ([]told, error) {
	r := rand.New(rand.NewPCG(seed, 4))
	var (
		mu     sync.Mutex
		acked  []told // guarded by mu
		failed error  // guarded by mu
		burst  sync.WaitGroup
	)
	for i := range clientRecords {
		value := fmt.Sprintf("%06d %s", i, strings.Repeat("x", r.IntN(400)))
		burst.Add(1)
		c.Produce(ctx, &kgo.Record{Topic: clientTopic, Partition: r.Int32N(clientPartitions), Value: []byte(value)}, func(rec *kgo.Record, err error) {
			defer burst.Done()
			mu.Lock()
			defer mu.Unlock()
			if wentAsItCame(err) {
				return // franz-go gives its records up then
			}
			if err != nil {
				failed = fmt.Errorf("record %.6s: %w", rec.Value, err)
				return
			}
			acked = append(acked, told{string(rec.Value), rec.Partition, rec.Offset})
		})
		if r.IntN(40) == 0 {
			burst.Wait()
		}
	}
	burst.Wait()
	mu.Lock()
	defer mu.Unlock()
	return acked, failed
}

// wentAsItCame reports whether the server went as the client connected to it. franz-go takes that for a listener that wants
// TLS or SASL, and says so once.
func wentAsItCame(err error) bool {
	_, gone := errors.AsType[*kgo.ErrFirstReadEOF](err)
	return gone
}

// consumeAll lets the consumer go on to the end and compares what it has seen, from the first record on, with what was
// acknowledged.
func consumeAll(ctx context.Context, c *kgo.Client, acked []told) error {
	var ends [clientPartitions]int64
	for _, k := range acked {
		ends[k.partition] = max(ends[k.partition], k.offset+1)
	}
	var seen [clientPartitions][]string
	for slices.ContainsFunc([]int{0, 1, 2, 3}, func(p int) bool { return int64(len(seen[p])) < ends[p] }) {
		fetches := c.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("consumer has seen %d, %d, %d, %d records, want %v: %w", len(seen[0]), len(seen[1]), len(seen[2]), len(seen[3]), ends, ctx.Err())
		}
		var err error
		fetches.EachError(func(topic string, p int32, e error) {
			if !wentAsItCame(e) {
				err = fmt.Errorf("fetch %s-%d: %w", topic, p, e)
			}
		})
		fetches.EachRecord(func(rec *kgo.Record) {
			if want := int64(len(seen[rec.Partition])); rec.Offset != want {
				err = fmt.Errorf("partition %d: consumer was given offset %d, want %d", rec.Partition, rec.Offset, want)
				return
			}
			seen[rec.Partition] = append(seen[rec.Partition], string(rec.Value))
		})
		if err != nil {
			return err
		}
	}
	for _, k := range acked {
		if got := seen[k.partition][k.offset]; got != k.value {
			return fmt.Errorf("partition %d offset %d holds %.6s, acknowledged was %.6s", k.partition, k.offset, got, k.value)
		}
	}
	total := 0
	for p, values := range seen {
		total += len(values)
		for i := range values[:max(len(values), 1)-1] {
			if values[i] >= values[i+1] {
				return fmt.Errorf("partition %d: record %.6s at offset %d comes before %.6s", p, values[i], i, values[i+1])
			}
		}
	}
	if total < len(acked) || total > clientRecords {
		return fmt.Errorf("partitions hold %d records, %d were acknowledged of %d", total, len(acked), clientRecords)
	}
	return nil
}
