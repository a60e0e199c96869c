package console

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// listener has so many connections at a time, and closes them all when it is closed. One more makes the one leave that
// has been silent longest, so that nobody keeps others out by saying nothing; one that is being answered never leaves.
type listener struct {
	net.Listener
	logger  *slog.Logger
	most    int
	changed chan struct{} // has one when a connection ended, or is not being answered any more
	closed  chan struct{}

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu; nil once it is closed
	heard uint64             // guarded by mu; how often a connection came or received something
}

// conn is one of a listener's.
type conn struct {
	net.Conn
	of       *listener
	heard    uint64 // guarded by of.mu; what of.heard was when it came or received something last
	answered bool   // guarded by of.mu; whether it is being answered
}

func newListener(l net.Listener, most int, logger *slog.Logger) *listener {
	return &listener{
		Listener: l, logger: logger, most: most, changed: make(chan struct{}, 1), closed: make(chan struct{}), conns: map[*conn]struct{}{},
	}
}

// Accept waits for a connection and for room for it. The error is net.ErrClosed, once the listener is closed.
func (l *listener) Accept() (net.Conn, error) {
	inner, err := l.accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, of: l}
	for {
		room, silent, err := l.admit(c)
		if silent != nil {
			_ = silent.Conn.Close()
		}
		if err != nil {
			_ = inner.Close()
			return nil, err
		}
		if room {
			return c, nil
		}
		select {
		case <-l.changed:
		case <-l.closed:
		}
	}
}

// admit makes c one of the connections, if there is room. silent is one that had to leave for it, and is still to be closed.
func (l *listener) admit(c *conn) (room bool, silent *conn, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns == nil {
		return false, nil, net.ErrClosed
	}
	if len(l.conns) >= l.most {
		for other := range l.conns {
			if !other.answered && (silent == nil || other.heard < silent.heard) {
				silent = other
			}
		}
		if silent == nil {
			return false, nil, nil
		}
		delete(l.conns, silent)
	}
	l.conns[c] = struct{}{}
	l.heard++
	c.heard = l.heard
	return true, silent, nil
}

// accept waits for a connection, and tries again when that fails: clients of Kafka are not to suffer from it.
func (l *listener) accept() (net.Conn, error) {
	delay := time.Duration(0)
	for {
		c, err := l.Listener.Accept()
		if err == nil || errors.Is(err, net.ErrClosed) {
			return c, err
		}
		// Mostly too many open files: it passes when somebody leaves.
		delay = min(max(2*delay, 5*time.Millisecond), time.Second)
		l.logger.Warn("accept failed", "listener", "http", "error", err, "retry", delay)
		t := time.NewTimer(delay)
		select {
		case <-t.C:
		case <-l.closed:
			t.Stop()
			return nil, net.ErrClosed
		}
	}
}

// Close closes the connections, too. It may be called more than once.
func (l *listener) Close() error {
	l.mu.Lock()
	conns, first := l.conns, l.conns != nil
	l.conns = nil
	l.mu.Unlock()
	if !first {
		return net.ErrClosed
	}
	close(l.closed)
	err := l.Listener.Close()
	for c := range conns {
		_ = c.Conn.Close()
	}
	return err
}

// change has Accept look for room once more.
func (l *listener) change() {
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.of.mu.Lock()
		c.of.heard++
		c.heard = c.of.heard
		c.of.mu.Unlock()
	}
	return n, err
}

// setAnswered says whether the connection is being answered.
func (c *conn) setAnswered(is bool) {
	c.of.mu.Lock()
	c.answered = is
	c.of.mu.Unlock()
	if !is {
		c.of.change()
	}
}

// Close gives the connection's place to another.
func (c *conn) Close() error {
	c.of.mu.Lock()
	_, open := c.of.conns[c]
	delete(c.of.conns, c)
	c.of.mu.Unlock()
	if !open {
		return net.ErrClosed
	}
	c.of.change()
	return c.Conn.Close()
}
