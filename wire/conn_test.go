package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage/vfs"
)

// pipeListener hands out the server's ends of pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }

// server is a running server over a store in memory, reached by pipes. It belongs to a synctest bubble.
type server struct {
	*broker
	listener *pipeListener
	ended    chan error // Run's result
}

// newServer starts one.
func newServer(t *testing.T, config map[string]string) *server {
	t.Helper()
	return serveBroker(t, newRunningBroker(t, config))
}

// newServerOn starts one on a file system.
func newServerOn(t *testing.T, fs vfs.FS, config map[string]string) *server {
	t.Helper()
	b := &broker{t: t, dir: "data", fs: fs}
	b.open(config)
	return serveBroker(t, b)
}

// withGroups gives a broker a group coordinator.
func withGroups(b *broker) *broker {
	b.s.groups = groups.New(groups.Options{Store: b.store, Now: b.time})
	return b
}

func serveBroker(t *testing.T, b *broker) *server {
	t.Helper()
	s := &server{broker: withGroups(b), listener: newPipeListener(), ended: make(chan error, 1)}
	b.s.listeners = []Listener{{Name: "PLAINTEXT", Listener: s.listener, AdvertisedHost: "gateway.example", AdvertisedPort: 9092}}
	go func() { s.ended <- b.s.Run(context.Background()) }()
	stop := b.stop
	b.stop = sync.OnceFunc(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = b.s.Shutdown(ctx)
		if err := <-s.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		stop()
	})
	return s
}

// client is one connection to a server.
type client struct {
	t *testing.T
	net.Conn
	id int32 // of the last request
}

// dial connects.
func (s *server) dial(t *testing.T) *client {
	t.Helper()
	near, far := net.Pipe()
	s.listener.conns <- far
	t.Cleanup(func() { _ = near.Close() })
	return &client{t: t, Conn: near}
}

// frameOf encodes a request with client id "test".
func frameOf(req kmsg.Request, id int32) []byte {
	return kmsg.NewRequestFormatter(kmsg.FormatterClientID("test")).AppendRequest(nil, req, id)
}

// send sends a request and returns its correlation id. The server reads while it is sent.
func (c *client) send(req kmsg.Request) int32 {
	c.t.Helper()
	c.id++
	c.write(frameOf(req, c.id))
	return c.id
}

// pipeline sends requests in the background, without waiting for answers. Nothing else may be sent meanwhile.
func (c *client) pipeline(reqs ...kmsg.Request) {
	go func() {
		for _, req := range reqs {
			c.id++
			if _, err := c.Write(frameOf(req, c.id)); err != nil {
				c.t.Errorf("write key %d: %v", req.Key(), err)
				return
			}
		}
	}()
}

func (c *client) write(b []byte) {
	c.t.Helper()
	if _, err := c.Write(b); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// frame reads an answer: its correlation id and what follows.
func (c *client) frame() (id int32, rest []byte) {
	c.t.Helper()
	var head [8]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	rest = make([]byte, binary.BigEndian.Uint32(head[:])-4)
	if _, err := io.ReadFull(c, rest); err != nil {
		c.t.Fatalf("read an answer: %v", err)
	}
	return int32(binary.BigEndian.Uint32(head[4:])), rest
}

// receive reads the answer to a request and checks its correlation id.
func (c *client) receive(req kmsg.Request, id int32) kmsg.Response {
	c.t.Helper()
	got, body := c.frame()
	if got != id {
		c.t.Fatalf("answer to correlation id %d, want %d", got, id)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if resp.IsFlexible() && resp.Key() != 18 {
		if body[0] != 0 {
			c.t.Fatalf("answer's tag section begins with %d, want 0", body[0])
		}
		body = body[1:]
	}
	if err := resp.ReadFrom(body); err != nil {
		c.t.Fatalf("decode the answer to key %d version %d: %v", req.Key(), req.GetVersion(), err)
	}
	return resp
}

// call sends a request and returns its answer.
func (c *client) call(req kmsg.Request) kmsg.Response {
	c.t.Helper()
	return c.receive(req, c.send(req))
}

// expectClosed checks that the server closes the connection without another answer.
func (c *client) expectClosed(what string) {
	c.t.Helper()
	b, err := io.ReadAll(c)
	if len(b) > 0 || err != nil {
		c.t.Fatalf("%s: read %d bytes and error %v, want the connection closed", what, len(b), err)
	}
}

// idle checks that nothing comes from the server until everything waits for something.
func (c *client) idle(what string) {
	c.t.Helper()
	synctest.Wait()
	if err := c.SetReadDeadline(time.Now()); err != nil {
		c.t.Fatal(err)
	}
	var b [1]byte
	if n, err := c.Read(b[:]); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("%s: read %d bytes and error %v, want nothing", what, n, err)
	}
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		c.t.Fatal(err)
	}
}

// versions makes a request of version 4 for ApiVersions.
func versions() *kmsg.ApiVersionsRequest {
	req := kmsg.NewPtrApiVersionsRequest()
	req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 4, "test", "1.0"
	return req
}

func metadataOf(version int16, names ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Version = version
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, t)
	}
	return req
}

// parkedFetch makes a request that waits for records of partition 0 of a topic.
func parkedFetch(topic string, wait time.Duration) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 11, int32(wait.Milliseconds()), 1, 1<<20
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

func TestRequestsAreAnsweredInOrder(t *testing.T) { // NET-04
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		c := s.dial(t)
		began := time.Now()
		fetch, meta, offsets, produce := parkedFetch("orders", 2*time.Second), metadataOf(9, "orders"),
			kmsg.NewPtrListOffsetsRequest(), s.produceRequest(9, "orders", produced{0, s.batch("a")})
		offsets.Version = 5
		c.pipeline(fetch, meta, offsets, produce)
		c.receive(fetch, 1)
		if waited := time.Since(began); waited != 2*time.Second {
			t.Errorf("the fetch was answered after %v, want 2s: the produce behind it must not have started", waited)
		}
		c.receive(meta, 2)
		c.receive(offsets, 3)
		c.receive(produce, 4)
	})
}

func TestImpossibleLengthsCloseTheConnection(t *testing.T) { // NET-01, NET-02, NET-03
	frame := func(length uint32, rest ...byte) []byte {
		return append(binary.BigEndian.AppendUint32(nil, length), rest...)
	}
	tests := []struct {
		name string
		sent []byte
	}{
		{"zero", frame(0)},
		{"minus one", frame(0xffffffff)},
		{"three", frame(3)},
		{"the largest", frame(0x7fffffff)},
		{"above socket.request.max.bytes", frame(104857601)},
		{"Metadata above its limit", frame(otherFrameLimit+1, 0, 3)},
		{"CreateTopics above its limit", frame(groupFrameLimit+1, 0, 19)},
		{"unknown key", frame(20, 3, 231)},
		{"HTTP", []byte("GET / HTTP/1.1\r\n\r\n")},
		{"TLS hello", []byte{0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3}},
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		other := s.dial(t)
		for _, test := range tests {
			c := s.dial(t)
			go func() { _, _ = c.Write(test.sent) }() // the server may not read all of it
			c.expectClosed(test.name)
			other.call(versions())
		}
		synctest.Wait()
		if got := s.s.Stats(); got.Malformed != int64(len(tests)) || got.RequestBytes != 0 {
			t.Errorf("Stats %+v, want %d malformed and no request bytes held", got, len(tests))
		}
	})
}

func TestUnservableRequestsCloseTheConnection(t *testing.T) { // VER-06
	bad := map[string]func(*kmsg.MetadataRequest) []byte{
		"unknown version":      func(r *kmsg.MetadataRequest) []byte { r.Version = 14; return frameOf(r, 2) },
		"negative version":     func(r *kmsg.MetadataRequest) []byte { r.Version = -1; return frameOf(r, 2) },
		"body cut short":       func(r *kmsg.MetadataRequest) []byte { return shorten(frameOf(r, 2), 3) },
		"client id runs over":  func(r *kmsg.MetadataRequest) []byte { f := frameOf(r, 2); f[12] = 0x7f; return f },
		"header tags run over": func(r *kmsg.MetadataRequest) []byte { f := frameOf(r, 2); f[18] = 0x7f; return f },
	}
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		for name, make := range bad {
			c := s.dial(t)
			parked := parkedFetch("orders", time.Hour)
			c.send(parked)
			synctest.Wait()
			go func() { _, _ = c.Write(make(metadataOf(9, "orders"))) }()
			c.receive(parked, 1) // what was good is answered first, and the wait is over
			c.expectClosed(name)
		}
	})
}

// shorten cuts n bytes off the end of a frame.
func shorten(frame []byte, n int) []byte {
	frame = frame[:len(frame)-n]
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-lengthSize))
	return frame
}

func TestOldProduceVersionsCloseTheConnection(t *testing.T) { // VER-04
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		for version := range int16(3) {
			c := s.dial(t)
			frame := frameOf(s.produceRequest(version, "orders", produced{0, s.batch("a")}), 1)
			go func() { _, _ = c.Write(frame) }()
			c.expectClosed("Produce")
		}
	})
}

func TestHeadersOfAllKinds(t *testing.T) { // NET-08, NET-09
	head := func(version int16, client []byte, tags ...byte) []byte {
		f := []byte{0, 0, 0, 0, 0, 3}
		f = binary.BigEndian.AppendUint16(f, uint16(version))
		f = binary.BigEndian.AppendUint32(f, 7)
		if client == nil {
			f = append(f, 0xff, 0xff)
		} else {
			f = append(binary.BigEndian.AppendUint16(f, uint16(len(client))), client...)
		}
		return append(f, tags...)
	}
	extra := []byte{1, 0x8f, 0x4e, 2, 0xab, 0xcd} // one tag, 9999, of two bytes
	body := append([]byte{1, 0, 0, 0}, extra...)  // no topics, three booleans, tags
	tests := []struct {
		name    string
		version int16
		frame   []byte
	}{
		{"null client id", 1, append(head(1, nil), 0, 0, 0, 0)},
		{"empty client id", 1, append(head(1, []byte{}), 0, 0, 0, 0)},
		{"client id of 300 bytes", 1, append(head(1, []byte(strings.Repeat("x", 300))), 0, 0, 0, 0)},
		{"unknown tags in header and body", 9, append(head(9, []byte("t"), extra...), append([]byte{1, 0, 0, 0}, extra...)...)},
		{"unknown tags, version 12", 12, append(head(12, nil, extra...), body[:3:3]...)},
	}
	tests[4].frame = append(tests[4].frame, extra...)
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		c := s.dial(t)
		for _, test := range tests {
			binary.BigEndian.PutUint32(test.frame, uint32(len(test.frame)-lengthSize))
			c.write(test.frame)
			resp := c.receive(metadataOf(test.version), 7).(*kmsg.MetadataResponse)
			if len(resp.Brokers) != 1 || len(resp.Topics) != 0 {
				t.Errorf("%s: answer %+v, want one broker and no topic", test.name, resp)
			}
		}
	})
}

func TestApiVersionsTooNewIsAnsweredInVersion0(t *testing.T) { // VER-01
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		for _, version := range []int16{6, 9, 32767, -1} {
			c := s.dial(t)
			f := []byte{0, 0, 0, 0, 0, 18}
			f = binary.BigEndian.AppendUint16(f, uint16(version))
			f = append(f, 0, 0, 0, 5, 0, 1, 'c', 0)
			f = append(f, "any body"...)
			binary.BigEndian.PutUint32(f, uint32(len(f)-lengthSize))
			c.write(f)
			id, body := c.frame()
			want := []byte{0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 5}
			if id != 5 || string(body) != string(want) {
				t.Errorf("version %d: answer %d %x, want 5 %x", version, id, body, want)
			}
			if resp := c.call(versions()).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 0 {
				t.Errorf("version %d: ApiVersions v4 afterwards answers %d, want 0", version, resp.ErrorCode)
			}
		}
	})
}

// heldSync is a file system whose syncs can be made to wait. Opening a store is not held up.
type heldSync struct {
	mu   sync.Mutex
	gate chan struct{} // guarded by mu; nil lets syncs through
}

func (h *heldSync) on(fs vfs.FS) vfs.FS {
	return vfs.Inject(fs, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") {
			h.mu.Lock()
			gate := h.gate
			h.mu.Unlock()
			if gate != nil {
				<-gate
			}
		}
		return nil
	})
}

// hold makes syncs wait until the returned function is called.
func (h *heldSync) hold() (release func()) {
	gate := make(chan struct{})
	h.mu.Lock()
	h.gate = gate
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		h.gate = nil
		h.mu.Unlock()
		close(gate)
	}
}

func TestProduceOverlapsProduceOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk heldSync
		s := newServerOn(t, disk.on(vfs.NewMem(vfs.MemOptions{})), nil)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch("first")) // directories are made
		c := s.dial(t)
		release := disk.hold()
		one := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		two := s.produceRequest(9, "orders", produced{0, s.batch("b")})
		unacked := s.produceRequest(9, "orders", produced{0, s.batch("c")})
		unacked.Acks = 0
		meta, three := metadataOf(9, "made-on-demand"), s.produceRequest(9, "orders", produced{0, s.batch("d")})
		c.pipeline(one, two, unacked, meta, three)
		c.idle("while the disk is held")
		if o := s.offsets("orders", 0); o.End != 4 || o.HighWatermark != 1 {
			t.Errorf("end %d and high watermark %d, want 4 and 1: the produces before Metadata have started, the one behind has not", o.End, o.HighWatermark)
		}
		if _, ok := s.store.Topic("made-on-demand"); ok {
			t.Error("Metadata has started before the produces were answered")
		}
		release()
		for i, req := range []*kmsg.ProduceRequest{one, two} {
			p := c.receive(req, int32(i+1)).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
			if p.ErrorCode != 0 || p.BaseOffset != int64(i+1) {
				t.Errorf("produce %d: code %d and offset %d, want 0 and %d", i, p.ErrorCode, p.BaseOffset, i+1)
			}
		}
		c.receive(meta, 4)
		if p := c.receive(three, 5).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 || p.BaseOffset != 4 {
			t.Errorf("last produce: code %d and offset %d, want 0 and 4", p.ErrorCode, p.BaseOffset)
		}
	})
}

func TestPipelineIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk heldSync
		s := newServerOn(t, disk.on(vfs.NewMem(vfs.MemOptions{})), nil)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch("first"))
		c := s.dial(t)
		release := disk.hold()
		req := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		const sent = 3 * pipelineDepth
		c.pipeline(slices.Repeat([]kmsg.Request{req}, sent)...)
		synctest.Wait()
		// One is with the writer and one waits for a place in the queue.
		if o := s.offsets("orders", 0); o.End > pipelineDepth+3 {
			t.Errorf("%d produces have started, want at most %d", o.End-1, pipelineDepth+2)
		}
		release()
		for i := range int32(sent) {
			c.receive(req, i+1)
		}
	})
}

func TestUnacknowledgedProduce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		c := s.dial(t)
		req := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		req.Acks = 0
		c.send(req)
		c.send(req)
		c.call(versions()) // the only answer
		if o := s.offsets("orders", 0); o.End != 2 {
			t.Errorf("end offset %d, want 2", o.End)
		}
		ghost := s.produceRequest(9, "ghost", produced{0, s.batch("a")})
		ghost.Acks = 0
		c.send(ghost)
		c.expectClosed("acks=0 to a topic that does not exist")
	})
}

func TestIdleConnectionsAreClosed(t *testing.T) { // NET-07
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"connections.max.idle.ms": "10000"})
		s.topic("orders", 1)
		began := time.Now()
		silent, half, parked, busy := s.dial(t), s.dial(t), s.dial(t), s.dial(t)
		half.write([]byte{0, 0})
		fetch := parkedFetch("orders", 25*time.Second)
		parked.send(fetch)
		closed := func(c *client, want time.Duration) {
			t.Helper()
			c.expectClosed("idle")
			if d := time.Since(began); d < want || d > want+time.Second {
				t.Errorf("closed after %v, want %v", d, want)
			}
		}
		for range 3 {
			wait(5 * time.Second)
			if time.Since(began) < 15*time.Second {
				busy.call(versions())
			}
			if time.Since(began) == 10*time.Second {
				closed(silent, 10*time.Second)
				closed(half, 10*time.Second)
			}
		}
		closed(busy, 20*time.Second)
		parked.receive(fetch, 1)
		if d := time.Since(began); d != 25*time.Second {
			t.Errorf("the parked fetch was answered after %v, want 25s", d)
		}
		closed(parked, 35*time.Second)
	})
}

// wait lets time pass in a bubble.
func wait(d time.Duration) { <-time.After(d) }

func TestSlowReaderStallsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"connections.max.idle.ms": "60000"})
		slow, other := s.dial(t), s.dial(t)
		slow.send(versions()) // and never reads the answer
		synctest.Wait()
		for range 3 {
			other.call(versions())
		}
		wait(59 * time.Second)
		if n := s.s.Stats().Connections; n != 2 {
			t.Errorf("%d connections after 59s, want 2", n)
		}
		other.call(versions())
		wait(2 * time.Second)
		synctest.Wait()
		if n := s.s.Stats().Connections; n != 1 {
			t.Errorf("%d connections after 61s, want the one that reads", n)
		}
		other.call(versions())
	})
}

func TestPeerThatLeavesEndsItsParkedRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		c := s.dial(t)
		c.send(parkedFetch("orders", time.Hour))
		synctest.Wait()
		began := time.Now()
		_ = c.Close()
		synctest.Wait()
		if n := s.s.Stats().Connections; n != 0 || time.Since(began) != 0 {
			t.Errorf("%d connections %v after the peer left, want none at once", n, time.Since(began))
		}
	})
}

func TestShutdownAnswersWhatWasReceived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk heldSync
		s := newServerOn(t, disk.on(vfs.NewMem(vfs.MemOptions{})), nil)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch("first"))
		s.topic("empty", 1)
		release := disk.hold()
		parked, producing, silent := s.dial(t), s.dial(t), s.dial(t)
		fetch := parkedFetch("empty", time.Hour)
		parked.send(fetch)
		produce := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		producing.send(produce)
		synctest.Wait()
		stopped := make(chan error)
		go func() { stopped <- s.s.Shutdown(context.Background()) }()
		parked.receive(fetch, 1)
		parked.expectClosed("shutdown")
		silent.expectClosed("shutdown")
		producing.idle("while the disk is held")
		release()
		if p := producing.receive(produce, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Errorf("produce answers code %d, want 0", p.ErrorCode)
		}
		producing.expectClosed("shutdown")
		if err := <-stopped; err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-s.ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		s.ended <- nil
	})
}

func TestShutdownEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		c := s.dial(t)
		c.send(versions()) // whose answer is never read
		synctest.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		began := time.Now()
		if err := s.s.Shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v, want the context's error", err)
		}
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("Shutdown took %v, want 3s", d)
		}
	})
}

func TestConnectionLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"max.connections.per.ip": "2"})
		a, b := s.dial(t), s.dial(t)
		s.dial(t).expectClosed("third connection of an address")
		a.call(versions())
		_ = a.Close()
		synctest.Wait()
		s.dial(t).call(versions())
		b.call(versions())
		if got := s.s.Stats(); got.Refused != 1 || got.Connections != 2 {
			t.Errorf("Stats %+v, want 1 refused and 2 connections", got)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"max.connections": "1"})
		a := s.dial(t)
		a.call(versions())
		connected := make(chan *client)
		go func() { connected <- s.dial(t) }()
		synctest.Wait()
		select {
		case <-connected:
			t.Error("a second connection was accepted, want it to wait")
		default:
		}
		_ = a.Close()
		(<-connected).call(versions())
	})
}

func TestThrottledConnectionStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		handlers := *apis
		handlers.byKey = append([]*api(nil), apis.byKey...)
		slow := route(3, 0, 13, func(s *Server, r *request, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
			r.throttle = 3 * time.Second
			return s.metadata(r, req)
		})
		slow.flexibleFrom = apis.find(3).flexibleFrom
		handlers.byKey[3] = &slow
		s.s.apis = &handlers
		c := s.dial(t)
		began := time.Now()
		c.call(metadataOf(9))
		if d := time.Since(began); d != 0 {
			t.Errorf("the throttled request was answered after %v, want at once", d)
		}
		c.call(versions())
		if d := time.Since(began); d != 3*time.Second {
			t.Errorf("the request after it was answered after %v, want 3s", d)
		}
	})
}

func TestLongAnswersAreWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1, "max.message.bytes", "10000000")
		c := s.dial(t)
		value := strings.Repeat("0123456789abcdef", 5<<20/16)
		produce := s.produceRequest(9, "orders", produced{0, s.batch(value)}) // longer than the read buffer and a write step
		if p := c.call(produce).(*kmsg.ProduceResponse).Topics[0].Partitions[0]; p.ErrorCode != 0 {
			t.Fatalf("produce answers code %d", p.ErrorCode)
		}
		fetch := parkedFetch("orders", 0)
		got := c.call(fetch).(*kmsg.FetchResponse).Topics[0].Partitions[0].RecordBatches
		if !strings.Contains(string(got), value) {
			t.Errorf("fetched %d bytes that do not hold the value of %d", len(got), len(value))
		}
		synctest.Wait()
		if st := s.s.Stats(); st.RequestBytes != 0 || st.AnswerBytes != 0 {
			t.Errorf("%d request bytes and %d answer bytes are held, want none", st.RequestBytes, st.AnswerBytes)
		}
	})
}

func TestRequestMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.request.memory.bytes": "1048576"})
		s.topic("orders", 1)
		stalled, waiting, small := s.dial(t), s.dial(t), s.dial(t)
		frame := frameOf(s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("x", 900_000))}), 1)
		stalled.write(frame[:5000]) // the rest does not come
		synctest.Wait()
		began := time.Now()
		produce := s.produceRequest(9, "orders", produced{0, s.batch(strings.Repeat("y", 900_000))})
		waiting.pipeline(produce)
		synctest.Wait()
		if st := s.s.Stats(); st.RequestBytes > 1<<20 || st.MemoryWaits != 1 {
			t.Errorf("%d request bytes held and %d waits, want at most 1048576 and 1", st.RequestBytes, st.MemoryWaits)
		}
		p := waiting.receive(produce, 1).(*kmsg.ProduceResponse).Topics[0].Partitions[0]
		if d := time.Since(began); p.ErrorCode != 0 || d < stallGrace || d > stallGrace+3*budgetPatience {
			t.Errorf("code %d after %v, want 0 when the peer that stalls was cut after %v", p.ErrorCode, d, stallGrace)
		}
		stalled.expectClosed("stalls while others wait")
		small.call(versions())
	})
}

func TestAnswerMemoryIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"gateway.answer.memory.bytes": "1048576"})
		s.topic("orders", 1)
		stalled, waiting, small := s.dial(t), s.dial(t), s.dial(t)
		s.mustProduce("orders", 0, s.batch(strings.Repeat("x", 900_000)))
		fetch := parkedFetch("orders", 0)
		stalled.send(fetch) // and never reads the answer
		synctest.Wait()
		began := time.Now()
		id := waiting.send(fetch)
		synctest.Wait()
		if st := s.s.Stats(); st.AnswerBytes > 1<<20 || st.MemoryWaits != 1 {
			t.Errorf("%d answer bytes held and %d waits, want at most 1048576 and 1", st.AnswerBytes, st.MemoryWaits)
		}
		small.call(versions()) // small answers do not wait
		got := waiting.receive(fetch, id).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if d := time.Since(began); len(got.RecordBatches) < 900_000 || d < stallGrace || d > stallGrace+3*budgetPatience {
			t.Errorf("%d bytes after %v, want the batch when the peer that stalls was cut after %v", len(got.RecordBatches), d, stallGrace)
		}
	})
}

func TestClientsAreKnownByNameAndSoftware(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		var seen request
		handlers := *apis
		handlers.byKey = append([]*api(nil), apis.byKey...)
		spy := route(3, 0, 13, func(s *Server, r *request, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
			seen = *r
			return s.metadata(r, req)
		})
		spy.flexibleFrom = apis.find(3).flexibleFrom
		handlers.byKey[3] = &spy
		s.s.apis = &handlers
		c := s.dial(t)
		c.call(versions())
		c.call(metadataOf(9))
		if seen.clientID != "test" || seen.clientIDNull || seen.softwareName != "test" || seen.softwareVersion != "1.0" ||
			seen.principal != anonymous || seen.listener.Name != "PLAINTEXT" || seen.key != 3 || seen.version != 9 || seen.correlationID != 2 {
			t.Errorf("the handler saw %+v", seen)
		}
	})
}
