package gateway

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/vfs"
)

// errPowerOff is what every file operation gets once the power is gone.
var errPowerOff = errors.New("power is off")

// disk is the file system of one server between its start and a crash. At the operation that was chosen it goes off: what
// is left is taken at one instant, with no operation under way, and from then on every operation fails. So whatever the
// server answers well, before or after, rests on what is left.
type disk struct {
	mem  *vfs.Mem
	fs   vfs.FS             // what the server is given
	end  crashKind          // what happens at the end
	seed uint64             // of what is left
	keep float64            // share of the unsynced that is left
	at   int64              // the changing operation at which the disk goes off; -1 for none
	hang func()             // called at that operation when it is a sync, before the disk goes off; may be nil
	inj  func(vfs.Op) error // fault for a changing operation; nil for none

	gate sync.RWMutex // held for reading during an operation
	off  atomic.Bool
	gone chan struct{} // closed when it goes off
	left *vfs.Mem      // set with gate held for writing, before off
	ops  atomic.Int64

	mu    sync.Mutex
	trace []string // guarded by mu; the last changing operations
}

// crashKind is how a life ends.
type crashKind int

const (
	powerLoss crashKind = iota // what was not synced is gone, or a part of it
	killed                     // the process ends; what was not synced is still there, and still not synced
	stopped                    // an orderly stop, and then a power loss
)

func (k crashKind) String() string { return [...]string{"power loss", "kill", "stop"}[k] }

// newDisk returns a disk over mem that never goes off by itself. wrap, which may be nil, goes between the server and the
// disk.
func newDisk(mem *vfs.Mem, wrap func(vfs.FS) vfs.FS) *disk {
	d := &disk{mem: mem, at: -1, gone: make(chan struct{})}
	d.fs = vfs.After(vfs.Inject(mem, d.before), d.after)
	if wrap != nil {
		d.fs = wrap(d.fs)
	}
	return d
}

func (d *disk) before(op vfs.Op) error {
	if op.Kind.Mutates() {
		if n := d.ops.Add(1) - 1; n == d.at {
			if d.hang != nil && op.Kind == vfs.OpSync {
				d.hang()
			}
			d.goOff()
		}
	}
	d.gate.RLock()
	if d.off.Load() {
		d.gate.RUnlock()
		return errPowerOff
	}
	if d.inj != nil {
		return d.inj(op)
	}
	return nil
}

func (d *disk) after(op vfs.Op, err error) {
	if errors.Is(err, errPowerOff) {
		return
	}
	d.gate.RUnlock()
	if !op.Kind.Mutates() {
		return
	}
	line := op.String()
	if err != nil {
		line += ": " + err.Error()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.trace) >= 60 {
		d.trace = d.trace[:copy(d.trace, d.trace[20:])]
	}
	d.trace = append(d.trace, line)
}

// goOff takes what is left and fails everything from now on. The second call does nothing.
func (d *disk) goOff() {
	d.gate.Lock()
	defer d.gate.Unlock()
	if d.off.Load() {
		return
	}
	if d.end == killed {
		d.left = d.mem.KillClone()
	} else {
		d.left = d.mem.CrashClone(d.seed, d.keep)
	}
	d.off.Store(true)
	close(d.gone)
}

// lines returns the last changing operations.
func (d *disk) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]string(nil), d.trace...)
}

// life is one server, from its start to its end.
type life struct {
	disk *disk
	g    *Gateway
	addr string
	log  *logLines
}

// logLines keeps what a server logs while its disk is on.
type logLines struct {
	disk *disk
	mu   sync.Mutex
	b    bytes.Buffer // guarded by mu
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.disk.off.Load() {
		return len(p), nil
	}
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// tail returns the last n lines.
func (l *logLines) tail(n int) string {
	lines := strings.SplitAfter(l.String(), "\n")
	return strings.Join(lines[max(len(lines)-n, 0):], "")
}

// startLife starts a server on the disk. The error is Start's.
func startLife(d *disk, options func(*Options)) (*life, error) {
	l := &life{disk: d, log: &logLines{disk: d}}
	o := Options{
		Dir: "data", FS: d.fs, Logger: slog.New(slog.NewTextHandler(l.log, nil)),
		Config: map[string]string{
			"listeners":                               "PLAINTEXT://127.0.0.1:0",
			"offsets.topic.num.partitions":            "3",
			"log.flush.offset.checkpoint.interval.ms": "1",
		},
	}
	if options != nil {
		options(&o)
	}
	g, err := Start(context.Background(), o)
	if err != nil {
		return l, err
	}
	l.g, l.addr = g, g.Addrs()[0].String()
	return l, nil
}

// stop ends the server and returns what is left of its disk. A disk that has not gone off does so before an orderly stop,
// or after it, as its end says.
func (l *life) stop() (*vfs.Mem, error) {
	var err error
	if l.disk.end != stopped {
		l.disk.goOff()
	}
	if l.g != nil {
		ctx := context.Background()
		if l.disk.off.Load() {
			ended, cancel := context.WithCancel(ctx)
			cancel()
			ctx = ended
		}
		err = l.g.Shutdown(ctx)
		if l.disk.off.Load() {
			err = nil // nothing can be stored
		}
	}
	l.disk.goOff()
	return l.disk.left, err
}

// client speaks to a server, request by request, with any number under way. It is for one sender at a time unless it says
// otherwise.
type client struct {
	conn net.Conn
	form *kmsg.RequestFormatter

	mu      sync.Mutex // over sending
	sent    int32      // guarded by mu
	frame   []byte     // guarded by mu
	waiting chan call  // in the order of the requests
	ended   chan struct{}
}

// call is a request under way.
type call struct {
	id     int32
	req    kmsg.Request
	answer chan answer
}

// answer is what came of it.
type answer struct {
	resp kmsg.Response
	err  error
}

// maxUnderWay bounds the requests under way on one connection.
const maxUnderWay = 64

// dial connects to the life's server.
func (l *life) dial() (*client, error) {
	conn, err := net.Dial("tcp", l.addr)
	if err != nil {
		return nil, err
	}
	c := &client{
		conn: conn, form: kmsg.NewRequestFormatter(kmsg.FormatterClientID("crash")),
		waiting: make(chan call, maxUnderWay), ended: make(chan struct{}),
	}
	go func() { // ends with the connection; close waits for it
		defer close(c.ended)
		c.read()
	}()
	return c, nil
}

// close ends the connection. What is under way gets an error.
func (c *client) close() {
	_ = c.conn.Close()
	c.mu.Lock()
	close(c.waiting)
	c.mu.Unlock()
	<-c.ended
}

// send sends a request; the channel gets one answer.
func (c *client) send(req kmsg.Request) <-chan answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := call{id: c.sent, req: req, answer: make(chan answer, 1)}
	c.sent++
	c.frame = c.form.AppendRequest(c.frame[:0], req, out.id)
	c.waiting <- out
	if _, err := c.conn.Write(c.frame); err != nil {
		_ = c.conn.Close() // the reader tells
	}
	return out.answer
}

// read gives answers to those who wait, until the connection ends.
func (c *client) read() {
	var failed error
	for w := range c.waiting {
		var resp kmsg.Response
		if failed == nil {
			if resp, failed = c.readOne(w); failed != nil {
				_ = c.conn.Close()
			}
		}
		w.answer <- answer{resp, failed}
	}
}

func (c *client) readOne(w call) (kmsg.Response, error) {
	var head [8]byte
	if _, err := io.ReadFull(c.conn, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, int(binary.BigEndian.Uint32(head[:]))-4)
	if _, err := io.ReadFull(c.conn, body); err != nil {
		return nil, err
	}
	if id := int32(binary.BigEndian.Uint32(head[4:])); id != w.id {
		return nil, fmt.Errorf("answer to request %d, want %d", id, w.id)
	}
	resp := w.req.ResponseKind()
	if resp.IsFlexible() && w.req.Key() != 18 {
		body = body[1:] // no tags
	}
	return resp, resp.ReadFrom(body)
}

// ask sends a request and waits for its answer.
func ask[R kmsg.Response](c *client, req kmsg.Request) (R, error) {
	a := <-c.send(req)
	if a.err != nil {
		var none R
		return none, a.err
	}
	return a.resp.(R), nil
}
