package wire

import (
	"sync/atomic"
	"time"
)

// holding is a time in which a connection keeps others waiting, or may, until its peer sends or takes bytes.
type holding struct {
	since atomic.Int64 // nanoseconds; 0 when it is not so
	moved atomic.Int64 // bytes sent or taken in this time

	// Guarded by Server.cutting: what the looks in this time found.
	seen    int64 // since
	count   int64 // of bytes, by the last look
	changed int64 // when a look found another count; nanoseconds
	looked  int64 // when the window began; nanoseconds
	counted int64 // of bytes, then
}

func (h *holding) begin() {
	h.moved.Store(0)
	h.since.Store(time.Now().UnixNano())
}

func (h *holding) end() { h.since.Store(0) }

// A peer that is slower than this gives way when others wait for what it keeps from them.
const (
	stallWindow = 10 * time.Second
	stallRate   = 32 << 10 // bytes per second, over a window at least
	// quietWindow is how long it may take no byte of an answer at all. A writeStep in that time is less than stallRate.
	quietWindow = 5 * time.Second
	// fullWindow is the same for a peer that has no room for more because it does not read, which is not its link's fault.
	fullWindow = 2 * time.Second
)

// arrival is what the system tells of the bytes that a peer was sent.
type arrival struct {
	known   bool  // it tells
	bytes   int64 // acknowledged by the system at the other end since the connection began
	pending bool  // there are more, which are not
	full    bool  // they wait until there is room at the other end; the link has nothing to do
}

// stalled reports whether the peer was too slow since a look that was a window ago, or since it could begin, or did
// nothing for as long as quiet. The caller holds Server.cutting.
func (h *holding) stalled(now time.Time, quiet time.Duration) bool {
	since, moved := h.since.Load(), h.moved.Load()
	if since == 0 || since != h.since.Load() { // or moved may be that of another time
		return false
	}
	if h.seen != since {
		h.restart(since, since, 0)
	}
	return h.look(now, moved, quiet)
}

// answerStalled is stalled for what the peer takes. Where the socket tells how many bytes have arrived there, that counts
// and not what the socket took, of which much may lie in buffers; and then time counts from the first look on.
func (h *holding) answerStalled(now time.Time, a arrival) bool {
	if !a.known {
		return h.stalled(now, quietWindow)
	}
	since := h.since.Load()
	if since == 0 {
		return false
	}
	if h.seen != since {
		h.restart(since, now.UnixNano(), a.bytes)
	}
	if a.full {
		return h.look(now, a.bytes, fullWindow)
	}
	return h.look(now, a.bytes, quietWindow)
}

// restart begins with the looks of a new time.
func (h *holding) restart(since, from, count int64) {
	h.seen, h.count, h.changed, h.looked, h.counted = since, count, from, from, count
}

// look is given the bytes until now.
func (h *holding) look(now time.Time, count int64, quiet time.Duration) bool {
	if count != h.count {
		h.count, h.changed = count, now.UnixNano()
	}
	if now.UnixNano()-h.changed >= int64(quiet) {
		return true
	}
	if now.UnixNano()-h.looked < int64(stallWindow) {
		return false
	}
	// Bytes may come by leaps, so that only the time until the last ones counts.
	if float64(count-h.counted) < stallRate*time.Duration(h.changed-h.looked).Seconds() {
		return true
	}
	h.looked, h.counted = now.UnixNano(), count
	return false
}

// keepsFrames reports whether the peer stalls and so keeps memory for requests from others: the frame that it sends, or
// that of the request whose answer it does not take. The caller holds Server.cutting.
func (c *conn) keepsFrames(now time.Time) bool {
	return c.frameHeld.stalled(now, stallWindow) || c.holds.Load() > readBufferSize && c.keepsAnswers(now)
}

// keepsAnswers reports whether the peer does not take what it was sent, and so keeps memory for answers from others, or is
// about to get some. The caller holds Server.cutting.
func (c *conn) keepsAnswers(now time.Time) bool {
	writes, waits := c.answerHeld.since.Load() != 0, c.turnHeld.since.Load() != 0
	if !writes && !waits {
		return false
	}
	a := c.server.arrivedAt(c.socket)
	// Who waits for a turn has sent all that it could; what is pending then lay there before.
	return writes && c.answerHeld.answerStalled(now, a) || waits && a.pending && c.turnHeld.answerStalled(now, a)
}

// lookPause is how long one look at all connections does for everybody who waits for the same memory. A look asks the
// system about each peer, and as many may wait as there are peers.
const lookPause = budgetPatience / 10

// cutStalled closes the connections of peers that do next to nothing and so keep memory from others. It is called while
// somebody waits for that memory; looked is when somebody who did looked last, guarded by cutting.
func (s *Server) cutStalled(looked *time.Time, keeps func(*conn, time.Time) bool) {
	s.cutting.Lock()
	now := time.Now()
	if now.Sub(*looked) < lookPause {
		s.cutting.Unlock()
		return
	}
	var stalled []*conn
	for _, c := range s.conns.all() {
		if keeps(c, now) {
			stalled = append(stalled, c)
		}
	}
	*looked = time.Now()
	s.cutting.Unlock()
	for _, c := range stalled {
		if !c.cut.Swap(true) {
			s.cutLines.warn(s, "connection cut: its peer stalls and others need the memory", "remote", c.socket.RemoteAddr().String())
			c.cancel()
			c.leave()
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
