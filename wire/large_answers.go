package wire

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
)

// turns lets few large answers be made at a time. What a handler collects for one, and the bytes it is encoded to, come to
// many times what a client sends for it, so that an answer is begun only when there is room in the memory for answers,
// and who waits for that has none of it yet. An answer that is made is charged at once, and its turn ends. So answers go
// beyond their memory by at most one for each turn. Large requests have turns of their own, from before they are decoded.
//
// A turn is never kept while a peer reads: what its holder waits for is memory, which comes from peers that read and from
// those that are cut, and the disk. Every second turn is for those whose peers have read a large answer before, in the
// order they came. The others go by turns to the one that has waited longest and to the one that came last: when many wait
// who do not read, somebody who does is not behind all of them. The zero value is ready to use.
type turns struct {
	mu    sync.Mutex
	taken int // guarded by mu
	// asking says that who got the last turn waits for memory. Until it has some the next one is not chosen, so that it is
	// the right one then. Guarded by mu.
	asking bool
	// passed says that the last turn was not for a known one, newest that the next unknown one is the last that came.
	// Guarded by mu.
	passed, newest bool
	// known and unknown are those that wait, in the order they came, their channels closed when it is their turn: known
	// ones have read a large answer before. Guarded by mu.
	known, unknown []chan struct{}
}

// mostTurns bounds the memory for what is being made.
const mostTurns = 4

// limit is how many turns there are.
func (t *turns) limit() int { return min(runtime.GOMAXPROCS(0), mostTurns) }

// take waits for a turn until ctx ends. known says that the peer has read a large answer before. Who got a turn says
// started when it waits for no memory, and then give.
func (t *turns) take(ctx context.Context, known bool) error {
	t.mu.Lock()
	if t.taken < t.limit() && !t.asking { // then nobody waits
		t.taken, t.asking = t.taken+1, true
		t.mu.Unlock()
		return nil
	}
	line := &t.unknown
	if known {
		line = &t.known
	}
	mine := make(chan struct{})
	*line = append(*line, mine)
	t.mu.Unlock()
	select {
	case <-mine:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(*line, mine); i >= 0 {
		*line = slices.Delete(*line, i, i+1)
		return ctx.Err()
	}
	return nil // it came meanwhile
}

// started lets the next one be chosen.
func (t *turns) started() {
	t.mu.Lock()
	t.asking = false
	t.next()
	t.mu.Unlock()
}

// give ends a turn that was started.
func (t *turns) give() {
	t.mu.Lock()
	t.taken--
	t.next()
	t.mu.Unlock()
}

// next chooses who has the next turn, if there is one. mu is held.
func (t *turns) next() {
	if t.asking || t.taken >= t.limit() {
		return
	}
	line, i := &t.unknown, 0
	switch {
	case len(t.known) > 0 && (t.passed || len(t.unknown) == 0):
		line, t.passed = &t.known, false
	case len(t.unknown) == 0:
		return
	default:
		if t.newest {
			i = len(t.unknown) - 1
		}
		t.passed, t.newest = true, !t.newest
	}
	t.taken, t.asking = t.taken+1, true
	close((*line)[i])
	*line = slices.Delete(*line, i, i+1)
}

// largeAnswer is what the writer knows of the answer that is being made.
type largeAnswer struct {
	size int  // about, so far
	turn bool // it has a turn, and smallDemand of the memory for answers
}

// answerGrows is the request's. Only the writer calls it, by a handler.
func (c *conn) answerGrows(n int) error {
	a := &c.answerTurn
	if a.size += n; a.size <= keptAnswer || a.turn {
		return nil
	}
	s := c.server
	c.frameDone() // who waits holds no memory of either kind
	c.turnHeld.begin(0)
	defer c.turnHeld.end()
	// What the system at the other end has taken may lie there; but of a large answer not all, when nobody reads.
	pending := s.arrivedAt(c.socket).pending
	if err := s.answerTurns.take(c.gone, c.tookLarge && !pending); err != nil {
		return err
	}
	err := s.answers.large.acquire(c.gone, smallDemand)
	s.answerTurns.started()
	if err != nil {
		s.answerTurns.give()
		return err
	}
	a.turn = true
	return nil
}

// decodeLarge decodes a large request when it is its turn, if it is not decoded yet: what it is decoded to and what is
// answered may be many times as large. The turn lasts until the answer is charged to the memory for answers. The frame is
// kept until then, so that some who wait here keep others from sending, until they are answered or cut.
func (c *conn) decodeLarge(call *call) error {
	if call.body == nil {
		return nil
	}
	c.turnHeld.begin(0)
	err := c.server.requestTurns.take(c.gone, false)
	c.turnHeld.end()
	if err != nil {
		return err
	}
	c.server.requestTurns.started()
	c.requestTurn = true
	err = c.server.decode(call, call.body)
	call.body = nil
	if err != nil {
		c.malformed = fmt.Errorf("api key %d version %d: %w", call.key, call.version, err)
	}
	return err
}

// endTurns ends the turns of a request and of its answer, if they have some, and forgets the answer.
func (c *conn) endTurns() {
	if c.answerTurn.turn {
		c.server.answers.large.release(smallDemand)
		c.server.answerTurns.give()
	}
	c.answerTurn = largeAnswer{}
	if c.requestTurn {
		c.server.requestTurns.give()
		c.requestTurn = false
	}
}

// bodyBuffer returns a buffer for an answer that is encoded as a whole. It is not charged.
func (c *conn) bodyBuffer() *buffer {
	if c.answerTurn.turn {
		return c.server.buffers.get(c.answerTurn.size)
	}
	return newBuffer(c.answerHint)
}

// chargeBody charges a large answer to the memory for answers, and ends its turns. One with a turn of its own is charged as
// it is. Any other waits for room: it is in proportion to its request, which is small or has a turn itself.
func (c *conn) chargeBody(b *buffer) error {
	large := &c.server.answers.large
	n := int64(max(len(b.B), cap(b.pooled)))
	switch {
	case c.answerTurn.turn:
		c.tookLarge = true
		b.budget, b.charged = large, n
		large.force(n)
	case n > keptAnswer:
		if err := large.acquire(c.gone, n); err != nil {
			return err
		}
		b.budget, b.charged = large, n
	}
	c.endTurns()
	return nil
}
