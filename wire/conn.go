package wire

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"time"
)

// conn is one client connection: a reader that cuts and starts requests, and a writer that answers them in order. See
// the package comment for how they work together.
type conn struct {
	server   *Server
	listener *Listener
	socket   net.Conn

	// ctx ends when the peer left, the connection failed, or the server stops.
	ctx    context.Context
	cancel context.CancelFunc

	// queue carries started calls from the reader to the writer, which alone takes from it until the reader closes
	// it. Its capacity is how many Produce requests may be under way.
	queue chan *call
	// settled carries a token from the writer to the reader for each barrier call that is through. What the writer
	// did before is visible to the reader after it.
	settled chan struct{}

	failed     atomic.Bool  // an answer could not be written, or a handler gave the connection up
	inFlight   atomic.Int32 // calls handed over and not answered
	active     atomic.Int64 // when something was last read or written; nanoseconds
	mutedUntil atomic.Int64 // no call starts before this time of Options.Now; nanoseconds

	// holds is how many bytes of frames the connection holds. hurry has room for one poke: others wait for that memory.
	holds atomic.Int64
	hurry chan struct{}

	// Only the reader uses these.
	in           []byte // in[start:end] was read and is not used yet
	start, end   int
	readDeadline time.Time
	clientID     string // of the last request, so that it need not be copied again

	// Only the writer uses these.
	writeDeadline time.Time
	vector        net.Buffers
	answerHint    int // size of the last answer

	// The software that the client says it is. Written by the ApiVersions handler, which runs as a barrier.
	softwareName, softwareVersion string

	// What the connection holds of the memory that all share, and since when.
	frameHeld, answerHeld holding
}

const (
	pipelineDepth  = 64
	readBufferSize = 4 << 10
	// keptAnswer is the largest answer that the size of the next one is guessed from.
	keptAnswer = 64 << 10
	// writeStep is how many bytes of an answer have to be taken within the idle time.
	writeStep = 1 << 20
)

var (
	errIdle     = errors.New("idle for too long")
	errStopping = errors.New("server is stopping")
)

// newConn prepares a connection; serve runs it.
func (s *Server) newConn(l *Listener, socket net.Conn) *conn {
	c := &conn{
		server: s, listener: l, socket: socket,
		queue:   make(chan *call, pipelineDepth),
		settled: make(chan struct{}, 1),
		hurry:   make(chan struct{}, 1),
		in:      make([]byte, readBufferSize),
	}
	c.ctx, c.cancel = context.WithCancel(s.stopping)
	c.active.Store(time.Now().UnixNano())
	return c
}

// serve runs the connection until the peer leaves, breaks the protocol or is silent for too long, or the server stops.
// All that was started is answered, or at least waited for, when it returns.
func (c *conn) serve() {
	done := make(chan struct{})
	go func() { // ends when the reader has closed the queue; waited for below
		defer close(done)
		c.write()
	}()
	err := c.read()
	c.cancel()
	close(c.queue)
	<-done
	_ = c.socket.Close()
	level := slog.LevelDebug
	if _, ok := errors.AsType[*frameError](err); ok {
		level = slog.LevelWarn
		c.server.counts.malformed.Add(1)
	}
	c.server.logger.Log(context.Background(), level, "connection closed",
		"listener", c.listener.Name, "remote", c.socket.RemoteAddr().String(), "reason", err)
}

// read is the reader: it cuts frames and hands calls on until it cannot.
func (c *conn) read() error {
	s := c.server
	barrier := false // the last call handed on has to be through before the next starts
	for {
		frame, err := c.nextFrame()
		if err != nil {
			return err
		}
		// A large request may take many times its length once it is decoded, and so it is decoded when its turn has come.
		large := len(frame.B) > largeBody
		if large {
			err = c.awaitTurn(barrier)
		}
		var call *call
		if err == nil {
			call, err = s.newCall(frame, c.clientID)
		}
		if err == nil && !large {
			err = c.awaitTurn(barrier)
		}
		if err != nil {
			c.releaseFrame(frame)
			return err
		}
		c.clientID = call.clientID
		c.describe(&call.request)
		barrier = call.barrier()
		if !barrier {
			if err := s.start(call); err != nil {
				c.releaseFrame(frame)
				return err
			}
			c.mute(call.throttle)
		}
		s.counts.requests.Add(1)
		c.inFlight.Add(1)
		c.queue <- call
	}
}

// awaitTurn waits until the next call may start. barrier says that the last one handed on has to be through before.
func (c *conn) awaitTurn(barrier bool) error {
	if barrier {
		<-c.settled
	}
	err := c.awaitUnmuted()
	if c.failed.Load() {
		err = net.ErrClosed
	}
	return err
}

// describe fills in what the connection knows about a request.
func (c *conn) describe(r *request) {
	r.ctx, r.listener, r.remote, r.principal, r.conn = c.ctx, c.listener, c.socket.RemoteAddr(), anonymous, c
	r.softwareName, r.softwareVersion, r.hurry = c.softwareName, c.softwareVersion, c.hurry
}

// write is the writer: it answers calls in order until the queue is closed. After a failure it only waits for what was
// started, so that the reader is never stuck.
func (c *conn) write() {
	s := c.server
	for call := range c.queue {
		barrier, key, failed := call.barrier(), call.key, c.failed.Load()
		if !failed || call.finish != nil {
			resp, err := s.answer(s.killed, call)
			if err == nil && resp != nil && !failed {
				err = c.send(call, resp)
			}
			if e, ok := resp.(*encoded); ok && e != nil {
				e.release()
			}
			if err != nil && !failed {
				c.failed.Store(true)
				s.logger.Debug("connection failed", "remote", c.socket.RemoteAddr().String(), "key", key, "error", err)
				c.cancel()
				_ = c.socket.Close() // wakes the reader up
			}
		}
		c.releaseFrame(call.frame)
		c.inFlight.Add(-1)
		if barrier {
			c.mute(call.throttle)
			c.settled <- struct{}{}
		}
	}
}

// mute keeps the connection from starting anything for a while. Kafka: KIP-219.
func (c *conn) mute(d time.Duration) {
	if d > 0 {
		c.mutedUntil.Store(c.server.now().Add(d).UnixNano())
	}
}

// awaitUnmuted waits until the next call may start.
func (c *conn) awaitUnmuted() error {
	until := c.mutedUntil.Load()
	if until == 0 {
		return nil
	}
	for {
		left := until - c.server.now().UnixNano()
		if left <= 0 {
			c.mutedUntil.Store(0)
			return nil
		}
		t := time.NewTimer(time.Duration(left))
		select {
		case <-t.C:
		case <-c.ctx.Done():
			t.Stop()
			return errStopping
		}
	}
}

// nextFrame returns the next frame without its length, charged to the memory for requests. Nothing is allocated before
// the length was checked against the limit of the frame's key.
func (c *conn) nextFrame() (*buffer, error) {
	s := c.server
	if err := c.fill(lengthSize); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(c.in[c.start:]))
	if size < smallestFrame || size > s.maxFrame {
		return nil, frameErrorf("frame length %d, want %d to %d", size, smallestFrame, s.maxFrame)
	}
	if err := c.fill(lengthSize + 2); err != nil {
		return nil, unexpected(err)
	}
	key := int16(binary.BigEndian.Uint16(c.in[c.start+lengthSize:]))
	if s.apis.find(key) == nil {
		s.counts.unsupported.Add(1)
		return nil, frameErrorf("api key %d is not served", key)
	}
	if limit := s.frameLimit(key); size > limit {
		return nil, frameErrorf("frame length %d for api key %d, want at most %d", size, key, limit)
	}
	n := int(size)
	if lengthSize+n <= len(c.in) { // with luck, what comes is this frame and the next
		if err := c.fill(lengthSize + n); err != nil {
			return nil, unexpected(err)
		}
	}
	if err := s.requests.acquire(c.ctx, int64(n)); err != nil {
		return nil, errStopping
	}
	frame := s.buffers.get(n)
	frame.budget, frame.charged = &s.requests, int64(n)
	c.holds.Add(int64(n))
	c.start += lengthSize
	have := copy(frame.B[:n], c.in[c.start:c.end])
	c.start += have
	if have < n {
		c.frameHeld.begin(n)
		err := c.readFull(frame.B[have:n])
		c.frameHeld.end()
		if err != nil {
			c.releaseFrame(frame)
			return nil, unexpected(err)
		}
	}
	frame.B = frame.B[:n]
	return frame, nil
}

// releaseFrame gives back a frame that nextFrame returned.
func (c *conn) releaseFrame(frame *buffer) {
	c.holds.Add(-frame.charged)
	frame.release()
}

// unexpected is the error for an end inside a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads until at least n bytes lie in the read buffer, which has room for them.
func (c *conn) fill(n int) error {
	if c.start == c.end {
		c.start, c.end = 0, 0
	}
	if c.start+n > len(c.in) {
		copy(c.in, c.in[c.start:c.end])
		c.start, c.end = 0, c.end-c.start
	}
	for c.end-c.start < n {
		m, err := c.readSome(c.in[c.end:])
		if err != nil {
			return err
		}
		c.end += m
	}
	return nil
}

// readFull fills p from the socket.
func (c *conn) readFull(p []byte) error {
	for len(p) > 0 {
		n, err := c.readSome(p)
		if err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}

// readSome reads what there is, waiting for at least a byte. It gives up when the server stops, or when nothing was
// read or answered for the idle time; a call under way keeps the connection alive.
func (c *conn) readSome(p []byte) (int, error) {
	idle := c.server.idle
	now := time.Now()
	// Setting a deadline costs; one that is nearly right is left, and looked at closely when it comes.
	if c.readDeadline.Sub(now) < idle-idle/8 {
		if err := c.setReadDeadline(now.Add(idle)); err != nil {
			return 0, err
		}
	}
	for {
		// After the deadline, since Shutdown sets the deadline after it has said that the server stops.
		if c.server.stopping.Err() != nil {
			return 0, errStopping
		}
		n, err := c.socket.Read(p)
		if n > 0 {
			c.active.Store(time.Now().UnixNano())
			return n, nil
		}
		if err == nil {
			continue
		}
		if t, ok := errors.AsType[net.Error](err); !ok || !t.Timeout() {
			return 0, err
		}
		now = time.Now()
		next := now.Add(idle)
		if c.inFlight.Load() == 0 && c.server.stopping.Err() == nil {
			if next = time.Unix(0, c.active.Load()).Add(idle); !next.After(now) {
				return 0, errIdle
			}
		}
		if err := c.setReadDeadline(next); err != nil {
			return 0, err
		}
	}
}

func (c *conn) setReadDeadline(t time.Time) error {
	c.readDeadline = t
	return c.socket.SetReadDeadline(t)
}

// interrupt makes a reader that waits for the socket look whether the server stops.
func (c *conn) interrupt() { _ = c.socket.SetReadDeadline(time.Unix(1, 0)) }

// send writes an answer.
func (c *conn) send(call *call, resp response) error {
	if e, ok := resp.(*encoded); ok {
		var head [answerHeaderSize]byte
		h := appendAnswerHeader(head[:0], call.correlationID, call.tagged())
		finishAnswer(h, e.size())
		c.vector = append(c.vector[:0], h)
		for _, p := range e.pieces {
			if len(p) > 0 { // a write of nothing would wait for a reader
				c.vector = append(c.vector, p)
			}
		}
		err := c.writeAll(c.vector)
		clear(c.vector) // an idle connection keeps no answer alive
		return err
	}
	b := newBuffer(c.answerHint)
	b.B = appendAnswerHeader(b.B, call.correlationID, call.tagged())
	b.B = resp.AppendTo(b.B)
	finishAnswer(b.B, 0)
	n := len(b.B)
	if n <= keptAnswer {
		c.answerHint = n
	} else {
		// It is there already; what is charged keeps others from adding to it.
		c.server.answers.force(int64(n))
		b.budget, b.charged = &c.server.answers, int64(n)
	}
	c.vector = append(c.vector[:0], b.B)
	err := c.writeAll(c.vector)
	clear(c.vector)
	b.release()
	return err
}

// writeAll writes the pieces. A peer that takes nothing stalls only this connection, until it is given up after the
// idle time, or earlier when others need the memory that the answer holds.
func (c *conn) writeAll(pieces net.Buffers) error {
	total := 0
	for _, p := range pieces {
		total += len(p)
	}
	if total > keptAnswer {
		c.answerHeld.begin(total)
		defer c.answerHeld.end()
	}
	idle := c.server.idle
	for i := 0; i < len(pieces); {
		now := time.Now()
		if c.writeDeadline.Sub(now) < idle-idle/8 {
			c.writeDeadline = now.Add(idle)
			if err := c.socket.SetWriteDeadline(c.writeDeadline); err != nil {
				return err
			}
		}
		// A step of whole pieces, or the part of one that is larger than a step.
		j, n := i, 0
		for j < len(pieces) && n+len(pieces[j]) <= writeStep {
			n += len(pieces[j])
			j++
		}
		if j == i {
			if _, err := c.socket.Write(pieces[i][:writeStep]); err != nil {
				return err
			}
			pieces[i] = pieces[i][writeStep:]
			continue
		}
		if j == i+1 {
			if _, err := c.socket.Write(pieces[i]); err != nil {
				return err
			}
		} else {
			step := pieces[i:j]
			if _, err := step.WriteTo(c.socket); err != nil {
				return err
			}
		}
		i = j
	}
	c.active.Store(time.Now().UnixNano())
	return nil
}

// holding is memory that a connection holds while its peer sends or takes the bytes.
type holding struct {
	since atomic.Int64 // nanoseconds; 0 when nothing is held
	bytes atomic.Int64
}

func (h *holding) begin(n int) {
	h.bytes.Store(int64(n))
	h.since.Store(time.Now().UnixNano())
}

func (h *holding) end() { h.since.Store(0) }

// A peer that is slower than this gives way when others wait for the memory it holds.
const (
	stallGrace = 10 * time.Second
	stallRate  = 256 << 10 // bytes per second
)

// stalled reports whether the peer has had more than enough time.
func (h *holding) stalled(now time.Time) bool {
	since := h.since.Load()
	if since == 0 {
		return false
	}
	allowed := stallGrace + time.Duration(h.bytes.Load()/stallRate)*time.Second
	return now.Sub(time.Unix(0, since)) > allowed
}

// cutStalled closes the connections that hold memory longer than their bytes justify. It is called while somebody waits
// for memory.
func (s *Server) cutStalled() {
	now := time.Now()
	for _, c := range s.conns.all() {
		if c.frameHeld.stalled(now) || c.answerHeld.stalled(now) {
			s.logger.Warn("connection cut: its peer stalls and others need the memory", "remote", c.socket.RemoteAddr().String())
			_ = c.socket.Close()
		}
	}
}

// hurryParked makes requests that wait for records answer with what they have, where the connection holds more than a
// small frame: the request's own, or the one behind it. It is called while somebody waits for memory for a frame, since
// a fetch may wait for weeks.
func (s *Server) hurryParked() {
	for _, c := range s.conns.all() {
		if c.holds.Load() <= readBufferSize {
			continue
		}
		select {
		case c.hurry <- struct{}{}:
		default:
		}
	}
}
