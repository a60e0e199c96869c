package wire

import (
	"context"
	"errors"
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
	// gone ends when there is nobody to answer any more: the peer left or was cut, or the server was killed.
	gone  context.Context
	leave context.CancelFunc

	// queue carries started calls from the reader to the writer, which alone takes from it until the reader closes
	// it. Its capacity is how many Produce requests may be under way.
	queue chan *call
	// settled carries a token from the writer to the reader for each barrier call that is through. What the writer
	// did before is visible to the reader after it.
	settled chan struct{}

	cut        atomic.Bool  // it was closed because its peer stalls
	writes     atomic.Int64 // since when an answer is written, 0 when none is; nanoseconds
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
	session      session

	// Only the writer uses these.
	writeDeadline time.Time
	vector        net.Buffers
	answerHint    int // size of the last answer
	answering     *call
	answerTurn    largeAnswer
	requestTurn   bool  // the call is a large request, and it is its turn
	tookLarge     bool  // a large answer was written
	malformed     error // a request that could not be decoded

	// The software that the client says it is. Written by the ApiVersions handler, which runs as a barrier.
	softwareName, softwareVersion string

	// What the connection holds of the memory that all share, and since when; and that it waits for its turn to make an
	// answer.
	frameHeld, answerHeld, turnHeld holding
	records                         atomic.Bool // the answer that is written is to a Fetch or ShareFetch
}

const (
	pipelineDepth  = 64
	readBufferSize = 4 << 10
	// keptAnswer is the largest answer that the size of the next one is guessed from.
	keptAnswer = 64 << 10
	// writeStep is how many bytes of an answer have to be taken within the idle time.
	writeStep = 128 << 10
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
	c.session.principal = anonymous
	c.ctx, c.cancel = context.WithCancel(s.stopping)
	c.gone, c.leave = context.WithCancel(s.killed)
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
	if !errors.Is(err, errStopping) {
		c.leave()
	}
	close(c.queue)
	<-done
	c.leave()
	if c.malformed != nil {
		err = c.malformed
	}
	_ = c.socket.Close()
	if c.server.shares != nil {
		c.server.shares.Disconnected(c)
	}
	attrs := []any{"listener", c.listener.Name, "remote", c.socket.RemoteAddr().String(), "reason", err}
	if _, ok := errors.AsType[*authenticationError](err); ok {
		c.server.counts.unauthenticated.Add(1)
		c.server.refusedLines.warn(c.server, "client not authenticated", attrs...)
		return
	}
	if _, ok := errors.AsType[*frameError](err); ok {
		c.server.counts.malformed.Add(1)
		c.server.closedLines.warn(c.server, "connection closed", attrs...)
		return
	}
	c.server.logger.Debug("connection closed", attrs...)
}

// read is the reader: it cuts frames and hands calls on until it cannot.
func (c *conn) read() error {
	s := c.server
	if c.listener.SASL != nil {
		if err := c.authenticate(nil); err != nil {
			return err
		}
	}
	barrier := false // the last call handed on has to be through before the next starts
	for {
		if !barrier { // a client that must rest holds no memory for its next request meanwhile
			if err := c.awaitUnmuted(); err != nil {
				return err
			}
		}
		frame, err := c.nextFrame()
		if err != nil {
			return err
		}
		if !c.session.ends.IsZero() {
			renewed, err := c.renew(frame, barrier)
			if err != nil {
				return err
			}
			if renewed {
				barrier = false
				continue
			}
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
	r.ctx, r.listener, r.remote, r.principal, r.conn = c.ctx, c.listener, c.socket.RemoteAddr(), c.session.principal, c
	r.softwareName, r.softwareVersion, r.hurry = c.softwareName, c.softwareVersion, c.hurry
}

// write is the writer: it answers calls in order until the queue is closed. After a failure it only waits for what was
// started, so that the reader is never stuck.
func (c *conn) write() {
	s := c.server
	for call := range c.queue {
		barrier, key, failed := call.barrier(), call.key, c.failed.Load()
		c.answering = call
		if !failed || call.finish != nil {
			var resp response
			err := c.decodeLarge(call)
			if err == nil {
				resp, err = s.answer(s.killed, call)
			}
			call.message = nil // a peer that takes its time keeps the bytes of its answer, and not what they were made from
			e, _ := resp.(*encoded)
			if err == nil && resp != nil && !failed {
				c.records.Store(e != nil)
				err = c.send(call, resp)
			}
			if e != nil {
				e.release()
			}
			c.endTurns()
			if err != nil && !failed {
				c.failed.Store(true)
				s.logger.Debug("connection failed", "remote", c.socket.RemoteAddr().String(), "key", key, "error", err)
				c.cancel()
				_ = c.socket.Close() // wakes the reader up
			}
		}
		c.frameDone()
		c.answering = nil
		c.inFlight.Add(-1)
		if barrier {
			c.mute(call.throttle)
			c.settled <- struct{}{}
		}
	}
}

// frameDone gives back the frame of the call that is being answered, once. Only the writer, and so a handler that is no
// Produce's, may call it.
func (c *conn) frameDone() {
	if call := c.answering; call.frame != nil {
		c.releaseFrame(call.frame)
		call.frame = nil
	}
}

// mute keeps the connection from starting anything for a while. Kafka: KIP-219.
func (c *conn) mute(d time.Duration) {
	if d > 0 {
		c.server.counts.throttled.Add(1)
		c.mutedUntil.Store(c.server.now().Add(d).UnixNano())
	}
}

// awaitUnmuted waits until the next call may start. It gives up when that takes longer than the idle time.
func (c *conn) awaitUnmuted() error {
	until := c.mutedUntil.Load()
	if until == 0 {
		return nil
	}
	for {
		left := time.Duration(until - c.server.now().UnixNano())
		if left <= 0 {
			c.mutedUntil.Store(0)
			return nil
		}
		idle := time.Until(time.Unix(0, c.active.Load()).Add(c.server.idle))
		if idle <= 0 && c.inFlight.Load() == 0 {
			return errIdle
		}
		if idle <= 0 { // an answer is on its way
			idle = c.server.idle
		}
		t := time.NewTimer(min(left, idle))
		select {
		case <-t.C:
		case <-c.ctx.Done():
			t.Stop()
			return errStopping
		}
	}
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
		for _, b := range e.buffers {
			c.server.chargeAnswer(b)
		}
		err := c.writeAll(c.vector, len(e.buffers) > 0)
		clear(c.vector) // an idle connection keeps no answer alive
		return err
	}
	b := c.bodyBuffer()
	b.B = appendAnswerHeader(b.B, call.correlationID, call.tagged())
	b.B = resp.AppendTo(b.B)
	finishAnswer(b.B, 0)
	if n := len(b.B); n <= keptAnswer {
		c.answerHint = n
	}
	c.frameDone()
	err := c.chargeBody(b)
	if err == nil {
		c.vector = append(c.vector[:0], b.B)
		err = c.writeAll(c.vector, b.budget != nil)
		clear(c.vector)
	}
	b.release()
	return err
}

// extendWriteDeadline gives the peer the idle time for the next step of an answer.
func (c *conn) extendWriteDeadline(now time.Time) error {
	idle := c.server.idle
	if c.writeDeadline.Sub(now) >= idle-idle/8 {
		return nil
	}
	c.writeDeadline = now.Add(idle)
	return c.socket.SetWriteDeadline(c.writeDeadline)
}

// writeAll writes the pieces; charged says that they hold memory of the server's. A peer that takes nothing stalls only
// this connection, until it is given up after the idle time, or earlier when others need the memory that the connection
// holds, or the server stops.
func (c *conn) writeAll(pieces net.Buffers, charged bool) error {
	if charged || c.holds.Load() > readBufferSize {
		size := 0
		for _, p := range pieces {
			size += len(p)
		}
		c.answerHeld.begin(size)
		defer c.answerHeld.end()
	}
	now := time.Now()
	c.writes.Store(now.UnixNano())
	defer c.writes.Store(0)
	for i := 0; i < len(pieces); now = time.Now() {
		if err := c.extendWriteDeadline(now); err != nil {
			return err
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
			c.answerHeld.moved.Add(writeStep)
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
		c.answerHeld.moved.Add(int64(n))
		i = j
	}
	c.active.Store(now.UnixNano())
	return nil
}
