package compat_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// load is a producer with the client's default settings (idempotent, acks=all,
// compressed) that writes numbers into each partition, and remembers what was
// acknowledged where.
type load struct {
	topic topic
	sent  []int64 // next number of each partition; the producing goroutine's
	acked chan int64

	mu      sync.Mutex
	offsets []map[int64]int64 // number to offset, by partition; guarded by mu
	total   int64             // guarded by mu
	errs    []error           // guarded by mu
}

func newLoad(tp topic, partitions int) *load {
	l := &load{topic: tp, sent: make([]int64, partitions), acked: make(chan int64, 1)}
	for range partitions {
		l.offsets = append(l.offsets, map[int64]int64{})
	}
	return l
}

// run produces until ctx ends and then waits until all is acknowledged.
func (l *load) run(ctx context.Context, cl *kgo.Client) {
	for ctx.Err() == nil {
		p := rand.IntN(len(l.sent))
		n := l.sent[p]
		l.sent[p]++
		r := &kgo.Record{Topic: l.topic.Name, Partition: int32(p), Key: strconv.AppendInt(nil, n%7, 10), Value: strconv.AppendInt(nil, n, 10)}
		cl.Produce(context.Background(), r, func(r *kgo.Record, err error) { l.done(p, n, r.Offset, err) })
	}
	if err := cl.Flush(context.Background()); err != nil {
		l.fail(err)
	}
}

func (l *load) done(p int, n, offset int64, err error) {
	if err != nil {
		l.fail(fmt.Errorf("record %d of partition %d: %w", n, p, err))
		return
	}
	l.mu.Lock()
	l.offsets[p][n] = offset
	l.total++
	total := l.total
	l.mu.Unlock()
	select { // the newest total is what is waited for
	case <-l.acked:
	default:
	}
	select {
	case l.acked <- total:
	default:
	}
}

func (l *load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.errs = append(l.errs, err)
}

// waitFor returns when total records are acknowledged.
func (l *load) waitFor(t testing.TB, total int64) {
	t.Helper()
	ctx := within(t)
	for {
		l.mu.Lock()
		have, errs := l.total, errors.Join(l.errs...)
		l.mu.Unlock()
		if errs != nil {
			t.Fatal(errs)
		}
		if have >= total {
			return
		}
		select {
		case <-l.acked:
		case <-ctx.Done():
			t.Fatalf("%d records are acknowledged, want %d", have, total)
		}
	}
}

// tail is a consumer that checks what it sees: each partition's numbers from 0 on
// without a gap, a repetition or a change of order.
type tail struct {
	next []int64 // number that each partition must bring next
	last []int64 // offset of the one before
}

// run consumes until every partition has brought until(p) numbers, or ctx ends.
func (c *tail) run(ctx context.Context, cl *kgo.Client, until func(p int) int64) error {
	for {
		finished := true
		for p := range c.next {
			finished = finished && c.next[p] >= until(p)
		}
		if finished {
			return nil
		}
		fs := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			return fmt.Errorf("consumed up to %v: %w", c.next, ctx.Err())
		}
		var fault error
		fs.EachRecord(func(r *kgo.Record) {
			n, err := strconv.ParseInt(string(r.Value), 10, 64)
			if p := r.Partition; err != nil || n != c.next[p] || r.Offset <= c.last[p] {
				fault = errors.Join(fault, fmt.Errorf("partition %d at offset %d holds %q after %d at %d", p, r.Offset, r.Value, c.next[p]-1, c.last[p]))
				return
			}
			c.next[r.Partition]++
			c.last[r.Partition] = r.Offset
		})
		if fault != nil {
			return fault
		}
	}
}

// impatient makes a client try again at once, so that rounds are short.
var impatient = []kgo.Opt{
	kgo.RetryBackoffFn(func(int) time.Duration { return 10 * time.Millisecond }),
	kgo.MetadataMinAge(20 * time.Millisecond),
}

func TestKillLoop(t *testing.T) {
	t.Parallel()
	for _, durability := range []string{"sync", "async"} {
		t.Run("REC-05 kill -9 keeps every acknowledged record/"+durability, func(t *testing.T) {
			t.Parallel()
			const partitions = 3
			s := newServer(t, "-c", "gateway.durability="+durability)
			tp := s.createTopic(t, "rec-05", partitions, "internal.segment.bytes", "100000")
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			var running sync.WaitGroup
			defer running.Wait()
			l := newLoad(tp, partitions)
			producer := s.client(t, append([]kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(500)}, impatient...)...)
			producing, stopProducing := context.WithCancel(ctx)
			defer stopProducing()
			running.Go(func() { l.run(producing, producer) })

			// a consumer reads along, over every kill
			tailer := s.client(t, append([]kgo.Opt{fromStart(tp.Name)}, impatient...)...)
			seen := &tail{next: make([]int64, partitions), last: []int64{-1, -1, -1}}
			tailing, stopTailing := context.WithCancel(ctx)
			defer stopTailing()
			tailed := make(chan error, 1)
			running.Go(func() { tailed <- seen.run(tailing, tailer, func(int) int64 { return 1 << 62 }) })

			for round := range *rounds {
				l.mu.Lock()
				have := l.total
				l.mu.Unlock()
				l.waitFor(t, have+1+rand.Int64N(3000))
				c := s.dial(t)
				made := fresh("round")
				wantCode(t, "create", create(c, 7, false, newTopic(made, 1, 1)).ErrorCode, noError)
				wantCode(t, "commit", commitOffsets(s, c, 8, "g", commit{tp, 0, int64(round), nil})[0], noError)
				s.Restart(t, killed)
				c = s.dial(t)
				want(t, "committed offset", fetchOffsets(s, c, 8, "g", tp)[0].offset, int64(round))
				want(t, "the topic made before the kill is there", exists(c, made), true)
			}
			l.waitFor(t, 1)
			stopProducing()
			flushed := within(t)
			if err := producer.Flush(flushed); err != nil {
				t.Fatalf("flush: %v", err)
			}
			stopTailing()
			if err := <-tailed; !errors.Is(err, context.Canceled) {
				t.Fatalf("the consumer that read along: %v", err)
			}
			running.Wait()
			if err := errors.Join(l.errs...); err != nil {
				t.Fatal(err)
			}

			// and one that reads it all again
			again := &tail{next: make([]int64, partitions), last: []int64{-1, -1, -1}}
			if err := again.run(within(t), s.client(t, fromStart(tp.Name)), func(p int) int64 { return l.sent[p] }); err != nil {
				t.Fatal(err)
			}
			c := s.dial(t)
			for p := range partitions {
				want(t, fmt.Sprint("acknowledged of partition ", p), int64(len(l.offsets[p])), l.sent[p])
				wantEnd(c, tp, int32(p), l.sent[p]) // offsets are dense, nothing is there twice
				for n, offset := range l.offsets[p] {
					if n != offset {
						t.Fatalf("record %d of partition %d was acknowledged at offset %d", n, p, offset)
					}
				}
			}
			t.Logf("%d rounds, %d records", *rounds, l.total)
		})
	}
}
