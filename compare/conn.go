package compare

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// maxAnswer bounds what is read for one answer.
const maxAnswer = 256 << 20

// conn is one connection of raw frames. Requests are numbered; answers are read in the order in which they come.
type conn struct {
	net.Conn
	next     int32 // correlation id of the next request
	answers  int32 // frames that were read
	peeked   []byte
	clientID string
}

func dial(ctx context.Context, addr string) (*conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, clientID: "gateway-compare"}, nil
}

// nullClientID stands for a header whose client id is null.
const nullClientID = "(null)"

// call is a request that was sent and may not be answered yet.
type call struct {
	api         *API
	version     int16
	correlation int32
	sent        time.Time
}

// send writes one request and does not wait.
func (c *conn) send(api *API, version int16, body []byte) (*call, error) {
	id := c.next
	c.next++
	frame := make([]byte, 4, 32+len(body))
	frame = binary.BigEndian.AppendUint16(frame, uint16(api.Key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, uint32(id))
	if c.clientID == nullClientID {
		frame = append(frame, 0xff, 0xff)
	} else {
		frame = binary.BigEndian.AppendUint16(frame, uint16(len(c.clientID)))
		frame = append(frame, c.clientID...)
	}
	if api.Flexible.Has(version) {
		frame = append(frame, 0)
	}
	frame = append(frame, body...)
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	sent := time.Now()
	_, err := c.Write(frame)
	return &call{api: api, version: version, correlation: id, sent: sent}, err
}

// errClosed means that the broker ended the connection.
var errClosed = errors.New("connection closed by the broker")

// errSilent means that nothing came in time.
var errSilent = errors.New("no answer in time")

// Read returns what peek has read before what comes next.
func (c *conn) Read(b []byte) (int, error) {
	if len(c.peeked) > 0 {
		n := copy(b, c.peeked)
		c.peeked = c.peeked[n:]
		return n, nil
	}
	return c.Conn.Read(b)
}

// limit bounds the reads that follow in time, until stop is called.
func (c *conn) limit(ctx context.Context, within time.Duration) (stop func() bool, err error) {
	if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
		return nil, err
	}
	return context.AfterFunc(ctx, func() { _ = c.SetReadDeadline(time.Now()) }), nil
}

// peek waits for the first byte of a frame, and leaves it to be read; errSilent when none comes in time.
func (c *conn) peek(ctx context.Context, within time.Duration) error {
	stop, err := c.limit(ctx, within)
	if err != nil {
		return err
	}
	defer stop()
	var first [1]byte
	if _, err := io.ReadFull(c, first[:]); err != nil {
		return readError(ctx, err)
	}
	c.peeked = append(first[:], c.peeked...)
	return nil
}

// receive reads one frame, without its length.
func (c *conn) receive(ctx context.Context, within time.Duration) ([]byte, error) {
	stop, err := c.limit(ctx, within)
	if err != nil {
		return nil, err
	}
	defer stop()
	frame, err := readFrame(c)
	var bad *frameError
	switch {
	case errors.As(err, &bad):
		return nil, err
	case err != nil:
		return nil, readError(ctx, err)
	}
	c.answers++
	return frame, nil
}

// frameError means that a peer sent a length that no frame has.
type frameError struct{ length int32 }

func (e *frameError) Error() string {
	return fmt.Sprintf("a frame of %d bytes, want 0 to %d: is it TLS, or another protocol?", e.length, maxAnswer)
}

// readFrame reads one frame and returns it without its length.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int32(binary.BigEndian.Uint32(size[:]))
	if n < 0 || n > maxAnswer {
		return nil, &frameError{n}
	}
	return readAtMost(r, int(n))
}

func writeFrame(w io.Writer, frame []byte) error {
	b := net.Buffers{binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame}
	_, err := b.WriteTo(w)
	return err
}

// drain reads answers until each request has one, at most for so long.
func (c *conn) drain(ctx context.Context, within time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for c.answers < c.next {
		if _, err := c.receive(ctx, within); err != nil {
			return
		}
	}
}

func readError(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &timeout) && timeout.Timeout():
		return errSilent
	}
	return fmt.Errorf("%w (%w)", errClosed, err)
}

// answer is what came back for a call, decoded.
type answer struct {
	frame []byte // without the length
	root  *Node  // nil when there is none
	// version that the answer is in: the request's, or 0 for one that ApiVersions does not have.
	version int16
	// outcome is "answered", or says what came instead.
	outcome string
	rest    []byte // bytes after the last field
	fault   string // why the body did not decode
	took    time.Duration
}

// receiveAnswer waits for the answer of q, which must be the oldest unanswered request of the connection. An error
// means that the comparison cannot go on; a broker that hangs up is an outcome.
func (c *conn) receiveAnswer(ctx context.Context, q *call, within time.Duration) (answer, error) {
	frame, err := c.receive(ctx, within)
	a := answer{frame: frame, outcome: "answered", took: time.Since(q.sent)}
	switch {
	case errors.Is(err, errClosed):
		a.outcome = "closed"
		return a, nil
	case errors.Is(err, errSilent):
		a.outcome = "silent"
		return a, nil
	case err != nil:
		return a, err
	}
	q.decode(&a, false)
	return a, nil
}

// decode takes the frame of an answer apart: its header, and its body in the version of the request. opaque leaves record
// batches as bytes.
func (q *call) decode(a *answer, opaque bool) {
	frame := a.frame
	if len(frame) < 4 {
		a.outcome = fmt.Sprintf("answered with a frame of %d bytes", len(frame))
		return
	}
	if id := int32(binary.BigEndian.Uint32(frame)); id != q.correlation {
		a.outcome = fmt.Sprintf("answered request %+d of this connection", id-q.correlation)
		return
	}
	version, flexible, at := q.version, q.api.Flexible.Has(q.version), 4
	if q.api.Key == apiVersionsKey {
		// The answer to a version that the broker does not have comes in version 0.
		if len(frame) >= 6 && binary.BigEndian.Uint16(frame[4:]) == unsupportedVersion {
			version, flexible = 0, false
		}
	} else if flexible {
		if len(frame) < 5 {
			a.outcome = "answered without a header's tags"
			return
		}
		at++
		if frame[4] != 0 {
			a.outcome = fmt.Sprintf("answered with %d tags in the header", frame[4])
		}
	}
	d := decoder{b: frame[at:], base: at, version: version, flexible: flexible, opaque: opaque}
	var left int
	var err error
	a.version = version
	a.root, left, err = d.body(q.api.Response)
	if err != nil {
		a.fault = err.Error()
	} else if left > 0 {
		a.rest = frame[len(frame)-left:]
	}
}

const (
	apiVersionsKey     = 18
	unsupportedVersion = 35
)
