package wire

import (
	"cmp"
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
// who do not read, somebody who does is not behind all of them. One of those that wait asks for the memory, and whose turn
// it is gets decided when it is there. The zero value is ready to use.
type turns struct {
	mu     sync.Mutex
	taken  int  // with the one that is asked for; guarded by mu
	asking bool // somebody asks for memory for the next turn; guarded by mu
	order
	before order // before it was said who asks; guarded by mu
	// known and unknown are those that wait, in the order they came: known ones have read a large answer before. Guarded
	// by mu.
	known, unknown []*turnWaiter
	came           int64 // how many; guarded by mu
}

// order says whose turn is next. Guarded by turns.mu.
type order struct {
	passed bool // the last turn was not for a known one
	newest bool // the next unknown one is the last that came
}

type turnWaiter struct {
	known  bool
	number int64     // of those that came
	ready  chan bool // told when it is its turn, true, or it is to ask for memory, false; nil when it had not to wait
}

// mostTurns bounds the memory for what is being made.
const mostTurns = 4

// limit is how many turns there are.
func (t *turns) limit() int { return min(runtime.GOMAXPROCS(0), mostTurns) }

// take waits for a turn until ctx ends; give ends the turn. known says that the peer has read a large answer before. ask,
// if it is not nil, acquires memory for a turn, whoever gets that, or fails when ctx ends.
func (t *turns) take(ctx context.Context, known bool, ask func() error) error {
	t.mu.Lock()
	w := &turnWaiter{known: known, number: t.came}
	t.came++
	if t.taken < t.limit() && !t.asking { // then nobody waits
		t.taken++
		if ask == nil {
			t.mu.Unlock()
			return nil
		}
		t.asking, t.before = true, t.order
	} else {
		t.stand(w)
	}
	t.mu.Unlock()
	for {
		if w.ready != nil {
			if mine, err := t.await(ctx, w); err != nil || mine {
				return err
			}
		}
		var err error
		if ask != nil {
			err = ask()
		}
		if next := t.asked(w, err); err != nil || next == w {
			return err
		}
	}
}

// stand puts w in its line, by when it came. mu is held.
func (t *turns) stand(w *turnWaiter) {
	if w.ready == nil {
		w.ready = make(chan bool, 1)
	}
	line := t.line(w.known)
	i, _ := slices.BinarySearchFunc(*line, w.number, func(w *turnWaiter, n int64) int { return cmp.Compare(w.number, n) })
	*line = slices.Insert(*line, i, w)
}

func (t *turns) line(known bool) *[]*turnWaiter {
	if known {
		return &t.known
	}
	return &t.unknown
}

// await waits until w has its turn, true, or is to ask for memory.
func (t *turns) await(ctx context.Context, w *turnWaiter) (bool, error) {
	select {
	case mine := <-w.ready:
		return mine, nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	line := t.line(w.known)
	if i := slices.Index(*line, w); i >= 0 {
		*line = slices.Delete(*line, i, i+1)
		return false, ctx.Err()
	}
	return <-w.ready, nil // it came meanwhile
}

// asked is called by w when it has asked for memory. If that is there, it returns whose turn it is, which somebody may
// have come for meanwhile, in place of w.
func (t *turns) asked(w *turnWaiter, err error) *turnWaiter {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asking, t.order = false, t.before
	if err != nil {
		t.taken--
		t.next()
		return nil
	}
	t.stand(w)
	next := t.choose()
	if next != w {
		next.ready <- true
	}
	t.next()
	return next
}

// give ends a turn.
func (t *turns) give() {
	t.mu.Lock()
	t.taken--
	t.next()
	t.mu.Unlock()
}

// next says who asks for the next turn, if there is one. mu is held.
func (t *turns) next() {
	if t.asking || t.taken >= t.limit() || len(t.known)+len(t.unknown) == 0 {
		return
	}
	t.taken, t.asking, t.before = t.taken+1, true, t.order
	t.choose().ready <- false
}

// choose takes out of its line who is next of those that wait. mu is held.
func (t *turns) choose() *turnWaiter {
	line, i := &t.unknown, 0
	if len(t.known) > 0 && (t.passed || len(t.unknown) == 0) {
		line, t.passed = &t.known, false
	} else {
		if t.newest {
			i = len(t.unknown) - 1
		}
		t.passed, t.newest = true, !t.newest
	}
	w := (*line)[i]
	*line = slices.Delete(*line, i, i+1)
	return w
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
	if err := s.answerTurns.take(c.gone, c.reads(), func() error { return s.answers.large.acquire(c.gone, smallDemand) }); err != nil {
		return err
	}
	a.turn = true
	return nil
}

// reads reports whether the peer has taken a large answer. What the system at the other end has taken may lie there; but
// of a large answer not all, when nobody reads.
func (c *conn) reads() bool { return c.tookLarge && !c.server.arrivedAt(c.socket).pending }

// decodeLarge decodes a large request when it is its turn, if it is not decoded yet: what it is decoded to and what is
// answered may be many times as large. The turn lasts until the answer is charged to the memory for answers. The frame is
// kept until then, so that some who wait here keep others from sending, until they are answered or cut.
func (c *conn) decodeLarge(call *call) error {
	if call.body == nil {
		return nil
	}
	c.turnHeld.begin(0)
	err := c.server.requestTurns.take(c.gone, c.reads(), nil)
	c.turnHeld.end()
	if err != nil {
		return err
	}
	c.requestTurn = true
	if err := c.gone.Err(); err != nil { // it left before its turn came, or while it did
		return err
	}
	err = c.server.decode(call, call.body)
	call.body = nil
	if err != nil {
		c.malformed = fmt.Errorf("api key %d version %d: %w", call.key, call.version, err)
		return err
	}
	return c.gone.Err() // one is decoded at a time
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
		c.turnHeld.begin(0)
		err := large.acquire(c.gone, n)
		c.turnHeld.end()
		if err != nil {
			return err
		}
		b.budget, b.charged = large, n
	}
	c.endTurns()
	return nil
}
