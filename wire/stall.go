package wire

import (
	"sync/atomic"
	"time"
)

// holding is a time in which a connection keeps others waiting, or may, until its peer sends or takes bytes.
type holding struct {
	since atomic.Int64 // nanoseconds; 0 when it is not so
	moved atomic.Int64 // bytes sent or taken in this time
	size  atomic.Int64 // bytes that are kept until the last is taken; 0 when not known

	// Guarded by Server.cutting: what the looks in this time found.
	seen    int64 // since
	count   int64 // of bytes, by the last look
	changed int64 // when a look found another count; nanoseconds
	looked  int64 // when the window began; nanoseconds
	counted int64 // of bytes, then
}

func (h *holding) begin(size int) {
	h.size.Store(int64(size))
	h.moved.Store(0)
	h.since.Store(time.Now().UnixNano())
}

func (h *holding) end() { h.since.Store(0) }

// A peer that is slower than this gives way when others wait for what it keeps from them.
const (
	stallWindow = 10 * time.Second
	stallRate   = 32 << 10 // bytes per second, over a window at least
	// slowestAnswer is how long an answer without records may take in all: it is kept as a whole until the last byte is
	// taken, and a few large ones fill the memory.
	slowestAnswer = time.Minute
	// quietWindow is how long it may take no byte of an answer at all. A writeStep in that time is less than stallRate.
	quietWindow = 5 * time.Second
	// fullWindow is the same for a peer that has no room for more because it does not read, which is not its link's fault.
	fullWindow = 2 * time.Second
	// hurriedWindow is how long a peer has instead of any longer time for an answer without records, when one was found to
	// stall in the last hurriedFor: each of many that are slow would begin a window of its own when those before it are
	// cut, and who waits would wait for all of them. stopWindow is the same when the server stops.
	hurriedWindow = 2 * time.Second
	hurriedFor    = time.Minute
	stopWindow    = time.Second
	// An answer with records may go untaken for a stallWindow in any case: consumers work on what they have before they
	// read on.
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
	return h.look(now, moved, quiet, stallWindow, stallRate)
}

// answerStalled is stalled for what the peer takes. Where the socket tells how many bytes have arrived there, that counts
// and not what the socket took, of which much may lie in buffers; and then time counts from the first look on. records
// says that the answer is to a fetch; for any other the peer has window.
func (h *holding) answerStalled(now time.Time, a arrival, records bool, window time.Duration) bool {
	quiet, rate := quietWindow, max(stallRate, float64(h.size.Load())/slowestAnswer.Seconds())
	switch {
	case records:
		quiet, window, rate = stallWindow, stallWindow, stallRate
	case a.full:
		quiet = min(fullWindow, window)
	case a.known: // otherwise a writeStep may take longer
		quiet = min(quietWindow, window)
	}
	since, from, count := h.since.Load(), now.UnixNano(), a.bytes
	if !a.known {
		from, count = since, h.moved.Load()
	}
	if since == 0 || since != h.since.Load() { // or count may be that of another time
		return false
	}
	if h.seen != since {
		h.restart(since, from, a.bytes)
	}
	return h.look(now, count, quiet, window, rate)
}

// restart begins with the looks of a new time.
func (h *holding) restart(since, from, count int64) {
	h.seen, h.count, h.changed, h.looked, h.counted = since, count, from, from, count
}

// look is given the bytes until now, and how many a second are the least.
func (h *holding) look(now time.Time, count int64, quiet, window time.Duration, rate float64) bool {
	if count != h.count {
		h.count, h.changed = count, now.UnixNano()
	}
	if now.UnixNano()-h.changed >= int64(quiet) {
		return true
	}
	if now.UnixNano()-h.looked < int64(window) {
		return false
	}
	// Bytes may come by leaps, so that only the time until the last ones counts, and the next window begins with them.
	if float64(count-h.counted) < rate*time.Duration(h.changed-h.looked).Seconds() {
		return true
	}
	h.looked, h.counted = h.changed, count
	return false
}

// keepsFrames reports whether the peer stalls and so keeps memory for requests from others: the frame that it sends, or
// that of the request whose answer it does not take. The caller holds Server.cutting.
func (c *conn) keepsFrames(now time.Time, window time.Duration) bool {
	return c.frameHeld.stalled(now, stallWindow) || c.holds.Load() > readBufferSize && c.keepsAnswers(now, window)
}

// keepsAnswers reports whether the peer does not take what it was sent, and so keeps memory for answers from others, or is
// about to get some. The caller holds Server.cutting.
func (c *conn) keepsAnswers(now time.Time, window time.Duration) bool {
	writes, waits := c.answerHeld.since.Load() != 0, c.turnHeld.since.Load() != 0
	if !writes && !waits {
		return false
	}
	a := c.server.arrivedAt(c.socket)
	// Who waits for a turn has sent all that it could; what is pending then lay there before.
	if writes && c.answerHeld.answerStalled(now, a, c.records.Load(), window) ||
		waits && a.pending && c.turnHeld.answerStalled(now, a, false, window) {
		c.server.stalledAt = now
		return true
	}
	return false
}

// lookPause is how long one look at all connections does for everybody who waits for the same memory. A look asks the
// system about each peer, and as many may wait as there are peers.
const lookPause = budgetPatience / 5

// cutStalled closes the connections of peers that do next to nothing and so keep memory from others. It is called while
// somebody waits for that memory; looked is when somebody who did looked last, guarded by cutting. It reports whether it
// looked.
func (s *Server) cutStalled(looked *time.Time, keeps func(*conn, time.Time, time.Duration) bool) bool {
	s.cutting.Lock()
	now := time.Now()
	if now.Sub(*looked) < lookPause {
		s.cutting.Unlock()
		return false
	}
	window := stallWindow
	switch {
	case s.stopping.Err() != nil:
		window = stopWindow
	case now.Sub(s.stalledAt) < hurriedFor:
		window = hurriedWindow
	}
	var stalled []*conn
	for _, c := range s.conns.all() {
		if keeps(c, now, window) {
			stalled = append(stalled, c)
		}
	}
	*looked = time.Now()
	s.cutting.Unlock()
	for _, c := range stalled {
		if c.cutOff() {
			s.cutLines.warn(s, "connection cut: its peer stalls and others need the memory", "remote", c.socket.RemoteAddr().String())
		}
	}
	return true
}

// cutOff closes the connection and ends its waits, false when that was done before.
func (c *conn) cutOff() bool {
	if c.cut.Swap(true) {
		return false
	}
	if c.server.stopping.Err() != nil {
		c.server.counts.cutAtStop.Add(1)
	}
	c.cancel()
	c.leave()
	_ = c.socket.Close()
	return true
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
