package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// loopback starts a server on a loopback socket, over a store in memory or on the disk, and connects to it.
func loopback(b *testing.B, where string) (*broker, net.Conn) {
	b.Helper()
	r := withGroups(newBenchBroker(b, where))
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	r.s.listeners = []Listener{{Name: "PLAINTEXT", Listener: ln, AdvertisedHost: "127.0.0.1", AdvertisedPort: 9092}}
	ended := make(chan error, 1)
	go func() { ended <- r.s.Run(context.Background()) }()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = c.Close()
		if err := r.s.Shutdown(context.Background()); err != nil {
			b.Error(err)
		}
		<-ended
	})
	return r, c
}

// exchange writes a frame and reads its answer into buf.
func exchange(b *testing.B, c net.Conn, frame, buf []byte) []byte {
	if _, err := c.Write(frame); err != nil {
		b.Fatal(err)
	}
	if _, err := io.ReadFull(c, buf[:lengthSize]); err != nil {
		b.Fatal(err)
	}
	n := binary.BigEndian.Uint32(buf)
	if _, err := io.ReadFull(c, buf[:n]); err != nil {
		b.Fatal(err)
	}
	return buf[:n]
}

func BenchmarkLoopback(b *testing.B) {
	bytesOf := func(size int) string { return strings.Repeat("v", size) }
	type bench struct {
		name    string
		bytes   int64
		request func(*broker) kmsg.Request
	}
	benches := []bench{{"ApiVersions", 0, func(*broker) kmsg.Request { return versions() }}}
	for _, size := range []int{100, 16 << 10, 900 << 10} {
		benches = append(benches, bench{fmt.Sprintf("Produce/batch=%dB", size), int64(size), func(r *broker) kmsg.Request {
			batch := newBatch(record.BuilderOptions{}, r.nowMs(), bytesOf(size))
			return r.produceRequest(9, "t", produced{0, batch})
		}})
	}
	benches = append(benches, bench{"Fetch/batch=900KiB", 900 << 10, func(r *broker) kmsg.Request {
		r.mustProduce("t", 0, newBatch(record.BuilderOptions{}, r.nowMs(), bytesOf(900<<10)))
		return parkedFetch("t", 0)
	}})
	for _, where := range []string{"mem", "os"} {
		for _, bench := range benches {
			b.Run(bench.name+"/fs="+where, func(b *testing.B) {
				r, c := loopback(b, where)
				r.topic("t", 1, "retention.ms", "1")
				frame, buf := frameOf(bench.request(r), 1), make([]byte, 2<<20)
				b.SetBytes(bench.bytes)
				b.ReportAllocs()
				for b.Loop() {
					exchange(b, c, frame, buf)
				}
			})
		}
	}
}
