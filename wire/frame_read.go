package wire

import (
	"encoding/binary"
	"io"
)

// nextFrame returns the next frame without its length, charged to the memory for requests. Nothing is allocated before
// the length was checked against the limit of the frame's key.
func (c *conn) nextFrame() (*buffer, error) {
	s := c.server
	if err := c.fill(lengthSize); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(c.in[c.start:]))
	if size < smallestFrame || size > s.maxFrame {
		return nil, frameErrorf("frame length %d, want %d to %d", size, smallestFrame, s.maxFrame)
	}
	if err := c.fill(lengthSize + 2); err != nil {
		return nil, unexpected(err)
	}
	key := int16(binary.BigEndian.Uint16(c.in[c.start+lengthSize:]))
	if s.apis.find(key) == nil {
		s.counts.unsupported.Add(1)
		return nil, frameErrorf("api key %d is not served", key)
	}
	if limit := s.frameLimit(key); size > limit {
		return nil, frameErrorf("frame length %d for api key %d, want at most %d", size, key, limit)
	}
	n := int(size)
	if lengthSize+n <= len(c.in) { // with luck, what comes is this frame and the next
		if err := c.fill(lengthSize + n); err != nil {
			return nil, unexpected(err)
		}
	}
	frame, err := c.frameBuffer(n)
	if err != nil {
		return nil, errStopping
	}
	c.start += lengthSize
	have := copy(frame.B, c.in[c.start:c.end])
	c.start += have
	if frame, err = c.receive(frame, have, n); err != nil {
		c.releaseFrame(frame)
		return nil, unexpected(err)
	}
	return frame, nil
}

// A frame longer than firstPart, when others hold half of the memory for requests, gets its memory in parts, each
// partGrowth times what has come, so that announcing bytes holds little without sending them.
const (
	firstPart  = 64 << 10
	partGrowth = 4
)

// frameBuffer returns a buffer for a frame of n bytes, or for its first part. B is as long as what is charged. The error
// is the connection's context's.
func (c *conn) frameBuffer(n int) (*buffer, error) {
	m := &c.server.requests
	from := &m.large
	var err error
	if n <= smallDemand {
		from, err = m.acquire(c.ctx, int64(n))
	} else {
		if m.room()-int64(n) < m.large.limit/2 {
			n = firstPart
		}
		err = from.acquire(c.ctx, int64(n))
	}
	if err != nil {
		return nil, err
	}
	frame := c.server.buffers.get(n)
	frame.B, frame.budget, frame.charged = frame.B[:n], from, int64(n)
	c.holds.Add(int64(n))
	return frame, nil
}

// receive reads the rest of a frame of n bytes, have of which have come, into the buffer or larger ones that replace it.
// It returns the last one also with an error.
func (c *conn) receive(frame *buffer, have, n int) (*buffer, error) {
	if have == n {
		return frame, nil
	}
	for {
		c.frameHeld.begin(0)
		err := c.readFull(frame.B[have:])
		c.frameHeld.end()
		if have = len(frame.B); err != nil || have == n {
			return frame, err
		}
		if err := c.growFrame(&frame, min(n, have*partGrowth)); err != nil {
			return frame, errStopping
		}
	}
}

// growFrame replaces a frame's buffer by one of n bytes with the same content.
func (c *conn) growFrame(frame **buffer, n int) error {
	old := *frame
	more := int64(n) - old.charged
	if old.overdrawn { // what it may, until it is released
		old.budget.force(more)
	} else if err := old.budget.acquireMore(c.ctx, more, &old.overdrawn); err != nil {
		return err
	}
	old.charged += more
	c.holds.Add(more)
	grown := c.server.buffers.get(n)
	grown.B = grown.B[:n]
	copy(grown.B, old.B)
	grown.budget, grown.charged, grown.overdrawn = old.budget, old.charged, old.overdrawn
	old.budget, old.charged, old.overdrawn = nil, 0, false
	old.release()
	*frame = grown
	return nil
}

// releaseFrame gives back a frame that nextFrame returned.
func (c *conn) releaseFrame(frame *buffer) {
	c.holds.Add(-frame.charged)
	frame.release()
}

// unexpected is the error for an end inside a frame.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// fill reads until at least n bytes lie in the read buffer, which has room for them.
func (c *conn) fill(n int) error {
	if c.start == c.end {
		c.start, c.end = 0, 0
	}
	if c.start+n > len(c.in) {
		copy(c.in, c.in[c.start:c.end])
		c.start, c.end = 0, c.end-c.start
	}
	for c.end-c.start < n {
		m, err := c.readSome(c.in[c.end:])
		if err != nil {
			return err
		}
		c.end += m
	}
	return nil
}

// readFull fills p from the socket.
func (c *conn) readFull(p []byte) error {
	for len(p) > 0 {
		n, err := c.readSome(p)
		if err != nil {
			return err
		}
		c.frameHeld.moved.Add(int64(n))
		p = p[n:]
	}
	return nil
}
