package console

import (
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"
)

// listener accepts so many connections at a time, and closes them all when it is closed.
type listener struct {
	net.Listener
	logger *slog.Logger
	places chan struct{} // has one for each connection
	closed chan struct{}

	mu    sync.Mutex
	conns map[*conn]struct{} // guarded by mu; nil once it is closed
}

// conn is one of a listener's.
type conn struct {
	net.Conn
	of *listener
}

func newListener(l net.Listener, most int, logger *slog.Logger) *listener {
	return &listener{Listener: l, logger: logger, places: make(chan struct{}, most), closed: make(chan struct{}), conns: map[*conn]struct{}{}}
}

// Accept waits for a place and for a connection. The error is net.ErrClosed, once the listener is closed.
func (l *listener) Accept() (net.Conn, error) {
	select {
	case l.places <- struct{}{}:
	case <-l.closed:
		return nil, net.ErrClosed
	}
	inner, err := l.accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	c := &conn{Conn: inner, of: l}
	l.mu.Lock()
	open := l.conns != nil
	if open {
		l.conns[c] = struct{}{}
	}
	l.mu.Unlock()
	if !open {
		<-l.places
		_ = inner.Close()
		return nil, net.ErrClosed
	}
	return c, nil
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
		<-l.places
	}
	return err
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
	<-c.of.places
	return c.Conn.Close()
}
