package gateway

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs/vfstest"
)

// benchTopic has segments that are removed soon, so that a long benchmark does not fill the disk.
const (
	benchTopic   = "bench"
	benchSegment = 64 << 20
)

// startBench starts a server on the disk, with one topic.
func startBench(b *testing.B, durability string, partitions int32) *Gateway {
	b.Helper()
	g, err := Start(context.Background(), Options{
		Dir: b.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Config: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0", "gateway.durability": durability},
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
	})
	_, err = g.Store().CreateTopic(storage.TopicSpec{Name: benchTopic, Partitions: partitions, Configs: map[string]string{
		"segment.bytes": fmt.Sprint(benchSegment), "file.delete.delay.ms": "0",
	}})
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// benchBatch is a batch of about size bytes, in records of up to 1 KiB.
func benchBatch(size int) []byte {
	build := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	now := time.Now().UnixMilli()
	for left := size - record.HeaderSize; left > 0; left -= 1 << 10 {
		build.Append(record.Record{Timestamp: now, Value: make([]byte, max(min(left, 1<<10)-10, 1))})
	}
	return build.Bytes()
}

// benchConn speaks to a server in frames made before, and looks at nothing of an answer but its size.
type benchConn struct {
	conn net.Conn
	r    *bufio.Reader
}

func dialBench(b *testing.B, g *Gateway) *benchConn {
	conn, err := net.Dial("tcp", g.Addrs()[0].String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	return &benchConn{conn, bufio.NewReaderSize(conn, 64<<10)}
}

func (c *benchConn) send(frame []byte) error {
	_, err := c.conn.Write(frame)
	return err
}

// receive takes an answer and returns its size.
func (c *benchConn) receive() (int, error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(head[:]))
	_, err := c.r.Discard(n)
	return n, err
}

func frameOf(req kmsg.Request) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("bench")).AppendRequest(nil, req, 1)
}

// checkProduce sends a frame by a connection of its own and looks at the answer.
func checkProduce(b *testing.B, g *Gateway, req *kmsg.ProduceRequest) {
	l := &life{addr: g.Addrs()[0].String()}
	c, err := l.dial()
	if err != nil {
		b.Fatal(err)
	}
	defer c.close()
	resp, err := ask[*kmsg.ProduceResponse](c, req)
	if err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
		b.Fatalf("produce: %+v, %v", resp, err)
	}
}

// BenchmarkProduce sends batches over loopback, with as many requests under way as an idempotent producer has.
func BenchmarkProduce(b *testing.B) {
	vfstest.PrintPlace(b)
	const underWay = 5
	for _, size := range []int{1 << 10, 16 << 10, 900 << 10} {
		for _, acks := range []int16{-1, 1} {
			for _, durability := range []string{"sync", "async"} {
				name := map[int16]string{-1: "all", 1: "1"}[acks]
				b.Run(fmt.Sprintf("batch=%dKiB/acks=%s/durability=%s", size>>10, name, durability), func(b *testing.B) {
					g := startBench(b, durability, 1)
					req := produceRequest(acks, []*batch{{part: part{benchTopic, 0}, wire: benchBatch(size)}})
					checkProduce(b, g, req)
					c, frame := dialBench(b, g), frameOf(req)
					topic, _ := g.Store().Topic(benchTopic)
					log, _ := topic.Partition(0)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					sent, got, written := 0, 0, 0
					for b.Loop() {
						if err := c.send(frame); err != nil {
							b.Fatal(err)
						}
						if sent++; sent-got == underWay {
							if _, err := c.receive(); err != nil {
								b.Fatal(err)
							}
							got++
						}
						if written += size; written > 4*benchSegment {
							written = 0
							if _, err := log.DeleteBefore(-1); err != nil {
								b.Fatal(err)
							}
						}
					}
					for ; got < sent; got++ {
						if _, err := c.receive(); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}

// BenchmarkProduceSingles has producers that each wait for one small record before they send the next.
func BenchmarkProduceSingles(b *testing.B) {
	vfstest.PrintPlace(b)
	const partitions = 16
	for _, producers := range []int{1, 64} {
		for _, durability := range []string{"sync", "async"} {
			b.Run(fmt.Sprintf("producers=%d/batch=100B/acks=all/durability=%s", producers, durability), func(b *testing.B) {
				g := startBench(b, durability, partitions)
				var conns []*benchConn
				var frames [][]byte
				for i := range producers {
					req := produceRequest(-1, []*batch{{part: part{benchTopic, int32(i % partitions)}, wire: benchBatch(100)}})
					checkProduce(b, g, req)
					conns, frames = append(conns, dialBench(b, g)), append(frames, frameOf(req))
				}
				b.SetBytes(100)
				b.ReportAllocs()
				todo := make(chan struct{}, producers)
				var wg sync.WaitGroup
				for i, c := range conns {
					wg.Go(func() {
						for range todo {
							if err := c.send(frames[i]); err != nil {
								b.Error(err)
							}
							if _, err := c.receive(); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for b.Loop() {
					todo <- struct{}{}
				}
				close(todo)
				wg.Wait()
			})
		}
	}
}

// BenchmarkFetch reads a partition over loopback from one end to the other, again and again.
func BenchmarkFetch(b *testing.B) {
	vfstest.PrintPlace(b)
	const total = 32 << 20
	for _, size := range []int{1 << 10, 16 << 10, 900 << 10} {
		for _, most := range []int32{64 << 10, 1 << 20} {
			b.Run(fmt.Sprintf("batch=%dKiB/bytes=%dKiB", size>>10, most>>10), func(b *testing.B) {
				g := startBench(b, "async", 1)
				topic, _ := g.Store().Topic(benchTopic)
				log, _ := topic.Partition(0)
				var offsets []int64 // where each fetch begins
				at, since := int64(0), int32(most)
				for written := 0; written < total; written += size {
					wire := benchBatch(size)
					if since += int32(len(wire)); since > most {
						offsets, since = append(offsets, at), int32(len(wire))
					}
					a, err := log.Append(wire, storage.AppendOptions{})
					if err != nil {
						b.Fatal(err)
					}
					at = a.NextOffset
				}
				var frames [][]byte
				for _, offset := range offsets[:len(offsets)-1] {
					req := fetchRequest(part{benchTopic, 0}, offset)
					req.MaxBytes, req.Topics[0].Partitions[0].PartitionMaxBytes = most, most
					frames = append(frames, frameOf(req))
				}
				c := dialBench(b, g)
				b.ReportAllocs()
				i, bytes, fetches := 0, 0, 0
				for b.Loop() {
					if err := c.send(frames[i%len(frames)]); err != nil {
						b.Fatal(err)
					}
					n, err := c.receive()
					if err != nil {
						b.Fatal(err)
					}
					i++
					bytes, fetches = bytes+n, fetches+1
				}
				b.SetBytes(int64(bytes / fetches))
			})
		}
	}
}
