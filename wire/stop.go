package wire

import (
	"context"
	"time"
)

const (
	// stopPatience is how long, from when the server stops, its peers have to take their answers, all of them together: a
	// time of its own for each that waits for what others hold would have no end.
	stopPatience = 5 * time.Second
	// latePatience is how long a peer has for an answer that came late in that time or after it.
	latePatience = time.Second
)

// awaitPeers is called when the server stops. It waits until through is closed, or until ctx ends, which it reports by
// false, and cuts off the peers that have not taken their answers in time. Whoever cuts one off meanwhile, the log has how
// many they were.
func (s *Server) awaitPeers(ctx context.Context, through <-chan struct{}) bool {
	defer func() {
		if cut := s.counts.cutAtStop.Swap(0); cut > 0 {
			s.logger.Warn("connections cut: their peers had not taken their answers when the server had to stop", "connections", cut)
		}
	}()
	t := time.NewTimer(stopPatience)
	defer t.Stop()
	for {
		select {
		case <-through:
			return true
		case <-ctx.Done():
			return false
		case now := <-t.C:
			s.cutUntaken(now)
		}
		t.Reset(latePatience / 4)
	}
}

// cutUntaken cuts off the peers that do not take their answers, and those whose answers wait for what these keep. An
// answer that has only begun is left for now.
func (s *Server) cutUntaken(now time.Time) {
	for _, c := range s.conns.all() {
		began := c.writes.Load()
		writes := began != 0 && now.UnixNano()-began >= int64(latePatience)
		waits := c.turnHeld.since.Load() != 0
		if writes || waits {
			c.cutOff()
		}
	}
}
