package compat_test

import (
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// residentKiB is the resident memory of a process, or 0 where it is not told.
func residentKiB(pid int) int {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			n, _ := strconv.Atoi(strings.Fields(rest)[0])
			return n
		}
	}
	return 0
}

func TestFrames(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	// serves fails unless a new connection and an old one are answered.
	other := s.dial(t)
	serves := func(t *testing.T) {
		t.Helper()
		ask[*kmsg.MetadataResponse](other, 9, metadataRequest())
		c := s.dial(t)
		ask[*kmsg.MetadataResponse](c, 9, metadataRequest())
		c.c.Close()
	}

	t.Run("NET-01 giant length prefix", func(t *testing.T) {
		before := 0
		if !s.External() {
			before = residentKiB(s.PID())
		}
		var conns []*conn
		for range 200 {
			c := s.dial(t)
			c.write([]byte{0x7f, 0xff, 0xff, 0xff})
			conns = append(conns, c)
		}
		for _, c := range conns {
			c.wantClosed("length 0x7fffffff")
		}
		if !s.External() {
			if grown := residentKiB(s.PID()) - before; grown > 64<<10 {
				t.Errorf("200 giant frames cost %d KiB of memory", grown)
			}
		}
		c := s.dial(t)
		c.write(binary.BigEndian.AppendUint32(nil, 104857601))
		c.wantClosed("one more than socket.request.max.bytes")
		serves(t)
	})

	t.Run("NET-02 HTTP or TLS hello on the plain port", func(t *testing.T) {
		c := s.dial(t)
		c.write([]byte("GET / HTTP/1.1\r\n\r\n"))
		c.wantClosed("HTTP")
		raw, err := net.Dial("tcp", s.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(waitLimit))
		if err := tls.Client(raw, &tls.Config{InsecureSkipVerify: true}).Handshake(); err == nil {
			t.Error("a TLS handshake on the plain port succeeds")
		} else if os.IsTimeout(err) {
			t.Errorf("the connection is not closed: %v", err)
		}
		serves(t)
	})

	t.Run("NET-03 zero and negative length", func(t *testing.T) {
		for _, length := range []int32{0, -1, 3, -2147483648} {
			c := s.dial(t)
			b := binary.BigEndian.AppendUint32(nil, uint32(length))
			for range length {
				b = append(b, 0)
			}
			c.write(b)
			c.wantClosed(fmt.Sprint("length ", length))
		}
		serves(t)
	})

	t.Run("NET-04 pipelined requests are answered in order", func(t *testing.T) {
		tp := s.createTopic(t, "net-04", 1)
		c := s.dial(t)
		fetching := fetchRequest(tp, 0, 0)
		fetching.MaxWaitMillis = 400
		began := time.Now()
		ids := []int32{
			c.send(12, fetching),
			c.send(9, metadataRequest()),
			c.send(7, listRequest(tp, []int32{0}, latest, 0)),
			c.send(9, produceRequest(-1, part{tp, 0, one("a").bytes(t)})),
			c.send(9, produceRequest(-1, part{tp, 0, one("b").bytes(t)})),
			c.send(9, produceRequest(1, part{tp, 0, one("c").bytes(t)})),
			c.send(12, fetchRequest(tp, 0, 0)),
		}
		for i, id := range ids {
			b, err := c.frame()
			if err != nil {
				t.Fatalf("answer %d: %v", i, err)
			}
			want(t, "correlation id", int32(binary.BigEndian.Uint32(b)), id)
			if i == 1 && time.Since(began) < 390*time.Millisecond {
				t.Error("Metadata did not wait for the Fetch before it")
			}
		}
		got := values(c, tp, 0, 0)
		want(t, "records", strings.Join(got, ""), "abc")
	})

	// an unknown tag: number 9999, 3 bytes
	tag := []byte{1, 0x8f, 0x4e, 3, 1, 2, 3}
	t.Run("NET-08 unknown tagged fields are skipped", func(t *testing.T) {
		tp := s.createTopic(t, "net-08", 1)
		c := s.dial(t)
		meta := metadataRequest(tp.Name)
		meta.Version = 12
		body := meta.AppendTo(nil)
		body = append(body[:len(body)-1], tag...) // in place of the empty tag section
		c.write(framed(append(header(3, 12, 5, ptr("compat"), tag), body...)))
		b, err := c.frame()
		if err != nil {
			t.Fatal(err)
		}
		res := decode[*kmsg.MetadataResponse](t, b, 5, meta)
		want(t, "topics", len(res.Topics), 1)
		wantCode(t, "topic", res.Topics[0].ErrorCode, noError)

		req := produceRequest(-1, part{tp, 0, one("tagged").bytes(t)})
		req.Version = 9
		req.UnknownTags.Set(9999, []byte{1, 2, 3})
		req.Topics[0].UnknownTags.Set(9999, []byte{1, 2, 3})
		req.Topics[0].Partitions[0].UnknownTags.Set(9999, []byte{1, 2, 3})
		c.write(framed(append(header(0, 9, 6, ptr("compat"), tag), req.AppendTo(nil)...)))
		if b, err = c.frame(); err != nil {
			t.Fatal(err)
		}
		wantCode(t, "produce", decode[*kmsg.ProduceResponse](t, b, 6, req).Topics[0].Partitions[0].ErrorCode, noError)
		want(t, "stored", values(c, tp, 0, 0)[0], "tagged")
	})

	t.Run("NET-09 null and empty client id", func(t *testing.T) {
		for _, id := range []*string{nil, ptr(""), ptr(strings.Repeat("x", 300)), ptr("ü\x00\n")} {
			c := s.dial(t)
			for _, v := range versions(1, 12) { // header v1, header v2
				meta := metadataRequest()
				meta.Version = v
				var tags []byte
				if meta.IsFlexible() {
					tags = []byte{0}
				}
				c.write(framed(append(header(3, v, 8, id, tags), meta.AppendTo(nil)...)))
				b, err := c.frame()
				if err != nil {
					t.Fatalf("client id %q: %v", deref(id), err)
				}
				want(t, "brokers", len(decode[*kmsg.MetadataResponse](t, b, 8, meta).Brokers), 1)
			}
		}
	})

	t.Run("a connection that leaves in the middle harms nobody", func(t *testing.T) {
		tp := s.createTopic(t, "leaving", 1)
		for range 20 {
			c := s.dial(t)
			req := fetchRequest(tp, 0, 0)
			req.MaxWaitMillis = int32(waitLimit.Milliseconds())
			c.send(12, req) // parked
			c.c.Close()
			c = s.dial(t)
			c.write([]byte{0, 0, 1})
			c.c.Close()
		}
		serves(t)
	})
}

func TestIdleConnections(t *testing.T) {
	t.Parallel()
	s := newServer(t, "-c", "connections.max.idle.ms=1500") // longer than this test may stand still

	t.Run("NET-07 idle and half-open connections are closed, a parked fetch is not", func(t *testing.T) {
		tp := s.createTopic(t, "net-07", 1)
		live := s.dial(t)
		parked := fetchRequest(tp, 0, 0)
		parked.MaxWaitMillis = int32(waitLimit.Milliseconds()) * 2
		id := live.send(12, parked)
		var idle []*conn
		for i := range 200 {
			c := s.dial(t)
			switch i % 3 {
			case 1:
				c.write([]byte{0, 0})
			case 2:
				c.write([]byte{0, 0, 0, 20, 0, 3})
			}
			idle = append(idle, c)
		}
		for i, c := range idle {
			c.wantClosed(fmt.Sprint("idle connection ", i))
		}
		if s.External() {
			return // Kafka 4.4 cuts a fetch that is parked for longer than the idle limit
		}
		mustProduce(s.dial(t), tp, 0, one("still here"))
		res := receive[*kmsg.FetchResponse](live, id, parked)
		want(t, "batches", len(batches(t, res.Topics[0].Partitions[0].RecordBatches)), 1)
	})
}

func TestListeners(t *testing.T) {
	t.Parallel()
	t.Run("an advertised address apart from the listening one", func(t *testing.T) {
		s := newServer(t, "--advertise", "broker.example:19999")
		b := ask[*kmsg.MetadataResponse](s.dial(t), 9, metadataRequest()).Brokers[0]
		if b.Host != "broker.example" || b.Port != 19999 {
			t.Errorf("Metadata says %s:%d", b.Host, b.Port)
		}
	})

	t.Run("without one, the bound address", func(t *testing.T) {
		s := newServer(t)
		b := ask[*kmsg.MetadataResponse](s.dial(t), 9, metadataRequest()).Brokers[0]
		want(t, "address", net.JoinHostPort(b.Host, fmt.Sprint(b.Port)), s.Addr)
	})

	t.Run("several listeners, each with its own address", func(t *testing.T) {
		s := newServer(t,
			"-c", "listeners=INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
			"-c", "listener.security.protocol.map=INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
			"-c", "inter.broker.listener.name=INSIDE",
			"-c", "advertised.listeners=INSIDE://in.example:1,OUTSIDE://out.example:2")
		want(t, "listeners", len(s.Listeners), 2)
		for i, wanted := range []string{"in.example:1", "out.example:2"} {
			s.Addr = s.Listeners[i]
			c := s.dial(t)
			b := ask[*kmsg.MetadataResponse](c, 9, metadataRequest()).Brokers[0]
			want(t, "address in Metadata", net.JoinHostPort(b.Host, fmt.Sprint(b.Port)), wanted)
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKey = "g"
			f := ask[*kmsg.FindCoordinatorResponse](c, 3, req)
			want(t, "address in FindCoordinator", net.JoinHostPort(f.Host, fmt.Sprint(f.Port)), wanted)
			d := describeCluster(c, 0)
			want(t, "address in DescribeCluster", net.JoinHostPort(d.Brokers[0].Host, fmt.Sprint(d.Brokers[0].Port)), wanted)
		}
	})
}
