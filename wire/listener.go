package wire

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// accept takes connections from a listener until it is closed.
func (s *Server) accept(l *Listener) {
	delay := time.Duration(0)
	for {
		limit := s.mostConnections()
		if int64(s.conns.count()) >= limit {
			s.fullLines.warn(s, "no further connection is accepted until one closes", "listener", l.Name, "connections", limit)
		}
		if !s.conns.awaitRoom(s.stopping.Done(), limit) {
			return
		}
		socket, err := l.Accept()
		if err != nil {
			if s.stopping.Err() != nil || errors.Is(err, net.ErrClosed) {
				return
			}
			// Mostly too many open files: it passes when somebody leaves.
			delay = min(max(2*delay, 5*time.Millisecond), time.Second)
			s.logger.Warn("accept failed", "listener", l.Name, "error", err, "retry", delay)
			t := time.NewTimer(delay)
			select {
			case <-t.C:
				continue
			case <-s.stopping.Done():
				t.Stop()
				return
			}
		}
		delay = 0
		s.counts.accepted.Add(1)
		if !s.awaitRate() {
			_ = socket.Close()
			return
		}
		if wait := s.turnsAway(socket); wait > 0 {
			s.counts.refused.Add(1)
			s.wg.Go(func() { s.closeAfter(socket, wait) })
			continue
		}
		c := s.newConn(l, socket)
		if !s.conns.add(c, s.limitPerIP(c.host())) {
			s.counts.refused.Add(1)
			s.logger.Debug("connection refused", "remote", socket.RemoteAddr().String(), "reason", "max.connections.per.ip")
			c.cancel()
			c.leave()
			_ = socket.Close()
			continue
		}
		s.wg.Go(func() {
			defer s.conns.remove(c)
			c.serve()
		})
	}
}

// mostConnections returns how many connections may be open.
func (s *Server) mostConnections() int64 {
	n := s.config.Int("max.connections")
	if s.maxConns > 0 {
		n = min(n, s.maxConns)
	}
	return n
}

// host returns the peer's address without its port.
func (c *conn) host() string {
	addr := c.socket.RemoteAddr().String()
	if host, _, err := net.SplitHostPort(addr); err == nil {
		return host
	}
	return addr
}

// limitPerIP returns how many connections an address may have. The configs were checked at the start.
func (s *Server) limitPerIP(host string) int64 {
	if overrides, err := parseIPOverrides(s.config.List("max.connections.per.ip.overrides")); err == nil {
		if n, ok := overrides[host]; ok {
			return n
		}
	}
	return s.config.Int("max.connections.per.ip")
}

// parseIPOverrides reads max.connections.per.ip.overrides: HOST:COUNT each.
func parseIPOverrides(values []string) (map[string]int64, error) {
	out := make(map[string]int64, len(values))
	for _, v := range values {
		i := strings.LastIndexByte(v, ':')
		n, err := strconv.ParseInt(v[i+1:], 10, 32)
		if i < 1 || err != nil || n < 0 {
			return nil, fmt.Errorf("max.connections.per.ip.overrides: got %q, want HOST:COUNT", v)
		}
		out[strings.Trim(v[:i], "[]")] = n
	}
	return out, nil
}

// connections is the set of open connections. The zero value is empty.
type connections struct {
	mu     sync.Mutex
	open   map[*conn]struct{} // guarded by mu
	byHost map[string]int64   // guarded by mu; no zeros
	// left is closed and replaced when a connection leaves; nil while nobody waits for that. Guarded by mu.
	left chan struct{}
}

// add puts c into the set, unless its host has as many connections already.
func (s *connections) add(c *conn, perHost int64) bool {
	host := c.host()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil {
		s.open, s.byHost = map[*conn]struct{}{}, map[string]int64{}
	}
	if s.byHost[host] >= perHost {
		return false
	}
	s.open[c] = struct{}{}
	s.byHost[host]++
	return true
}

func (s *connections) remove(c *conn) {
	host := c.host()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	if s.byHost[host]--; s.byHost[host] <= 0 {
		delete(s.byHost, host)
	}
	if s.left != nil {
		close(s.left)
		s.left = nil
	}
}

// awaitRoom waits until fewer than limit connections are open, false when stop came first. Two listeners may both find
// the last place free; the limit is then exceeded by one.
func (s *connections) awaitRoom(stop <-chan struct{}, limit int64) bool {
	for {
		s.mu.Lock()
		if int64(len(s.open)) < limit {
			s.mu.Unlock()
			return true
		}
		if s.left == nil {
			s.left = make(chan struct{})
		}
		left := s.left
		s.mu.Unlock()
		select {
		case <-left:
		case <-stop:
			return false
		}
	}
}

// all returns the open connections.
func (s *connections) all() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*conn, 0, len(s.open))
	for c := range s.open {
		out = append(out, c)
	}
	return out
}

// count returns the number of open connections.
func (s *connections) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}
