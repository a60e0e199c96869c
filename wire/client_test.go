package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage/vfs"
	"github.com/kaen-log/gateway/txn"
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

// withGroups gives a broker a group coordinator and a transaction coordinator, of its configuration.
func withGroups(b *broker) *broker {
	return b.withCoordinators(groups.Options{})
}

// withCoordinators gives a broker a group coordinator with options of its own, and a transaction coordinator. They do not
// run: what they do by themselves is done by their Tick.
func (b *broker) withCoordinators(o groups.Options) *broker {
	b.s.txns = txn.New(txn.Options{
		Store: b.store, Now: b.time, Config: b.s.config.Transactions(),
		EndOffsets: func(ctx context.Context, partition int32, m txn.Marker) error {
			return EndOffsets(ctx, b.s.groups, partition, m)
		},
	})
	o.Store, o.Now, o.Config = b.store, b.time, b.s.config.Groups(b.store)
	o.Verify, o.Unverified = VerifyOffsets(b.s.txns), b.s.config.Unverified
	b.s.groups = groups.New(o)
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
	// A read whose deadline has passed would not look for what is there.
	if err := c.SetReadDeadline(time.Now().Add(time.Nanosecond)); err != nil {
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
