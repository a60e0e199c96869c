package wire

import (
	"net"
	"net/netip"
	"time"
)

// awaitRate waits while connections come faster than max.connection.creation.rate, false when the server stops. Kafka:
// ConnectionQuotas.waitForConnectionSlot.
func (s *Server) awaitRate() bool {
	wait := s.quotas.connections.AcceptAny(s.config.Int("max.connection.creation.rate"), s.now())
	return wait == 0 || s.pause(wait)
}

// pause waits, false when the server stops first.
func (s *Server) pause(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-s.stopping.Done():
		return false
	}
}

// turnsAway returns for how long a connection is to be left alone before it is closed, since others from its address
// came too fast; 0 when it may be served. Kafka: ConnectionQuotas.recordIpConnectionMaybeThrottle.
func (s *Server) turnsAway(socket net.Conn) time.Duration {
	q := s.quotas.connections
	if !q.Any() {
		return 0
	}
	from, err := netip.ParseAddrPort(socket.RemoteAddr().String())
	if err != nil {
		return 0 // no address
	}
	now := s.now()
	wait := q.Accept(from.Addr(), now)
	if wait > 0 {
		q.TurnAway(now)
		s.logger.Debug("connection refused", "remote", from, "reason", connectionCreationRate, "throttle", wait)
	}
	return wait
}

// mostTurnedAway is how many connections are left alone at a time before they are closed. Each has a file descriptor.
const mostTurnedAway = 100

// closeAfter closes a connection after a while, so that its peer does not come again at once. Kafka:
// Acceptor.closeThrottledConnections.
func (s *Server) closeAfter(socket net.Conn, d time.Duration) {
	if s.turnedAway.Add(1) <= mostTurnedAway {
		s.pause(d)
	}
	s.turnedAway.Add(-1)
	_ = socket.Close()
}
