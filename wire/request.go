package wire

import (
	"context"
	"net"
	"time"

	"github.com/kaen-log/gateway/auth"
)

// request is the context of one call: who asks, what, and where the call came in. Every handler gets one. It belongs
// to its call: a handler and its finish step may use it until the response is handed over, nobody keeps it.
type request struct {
	// ctx ends when the peer has left or the server stops. A handler that waits then answers with what it has.
	ctx context.Context
	// hurry is poked when others wait for the memory that the connection holds. A handler that waits for records then
	// answers with what it has. Nil in tests that call a handler directly.
	hurry <-chan struct{}

	listener *Listener
	remote   net.Addr
	// principal as Kafka spells it, such as "User:ANONYMOUS".
	principal string
	// caller is the principal and the address as ACLs know them; zero until it is asked for, see asCaller.
	caller auth.Caller

	clientID     string // "" for null
	clientIDNull bool
	// softwareName and softwareVersion are what the connection's last valid ApiVersions request said; "" before it.
	softwareName, softwareVersion string

	key           int16
	version       int16
	correlationID int32
	size          int // bytes of the request, header included

	// throttle is set by a handler that wants the client to slow down: the response is written at once, then the
	// connection starts nothing for so long. The handler also puts it into the response (KIP-219).
	throttle time.Duration

	// busy is how long the server has worked on the request, waited for how long its handler waited for others. Both
	// stay 0 while no quota asks for them.
	busy, waited time.Duration

	conn *conn // nil in tests that call a handler directly
}

// frameDone gives back the frame that the request was decoded from. Afterwards no bytes of the request may be used, but
// its strings may. A handler that waits for others calls it before: see the budget of memory for requests.
func (r *request) frameDone() {
	if r.conn != nil {
		r.conn.frameDone()
	}
}

// answerGrows says that about n bytes were added to the answer. What becomes a large one waits here for its turn, and the
// call's frame is given back before, as by frameDone. An error drops the connection. The caller holds no lock, and waits
// for nothing but memory afterwards: others wait until its answer is made.
func (r *request) answerGrows(n int) error {
	if r.conn == nil {
		return nil
	}
	return r.conn.answerGrows(n)
}

// response is the body of an answer: a kmsg response, or an *encoded.
type response interface {
	// AppendTo appends the body to dst and returns the extended slice.
	AppendTo(dst []byte) []byte
}

// encoded is a response body that its handler encoded itself. Record bytes go this way from the file to the socket
// without a second copy: the pieces are written in order by one writev.
type encoded struct {
	// pieces of the body, in order. They may lie in buffers or anywhere else.
	pieces [][]byte
	// buffers that pieces lie in. The connection releases them when the response is written or dropped.
	buffers []*buffer
	// failures are the error codes that it tells, as far as they are counted; see noteFailure.
	failures []int16
}

// AppendTo appends the pieces to dst, for callers that want the body in one slice.
func (e *encoded) AppendTo(dst []byte) []byte {
	for _, p := range e.pieces {
		dst = append(dst, p...)
	}
	return dst
}

// size returns the length of the body in bytes.
func (e *encoded) size() int {
	n := 0
	for _, p := range e.pieces {
		n += len(p)
	}
	return n
}

// release gives the buffers back. The pieces must not be used afterwards.
func (e *encoded) release() {
	for _, b := range e.buffers {
		b.release()
	}
	e.buffers, e.pieces = nil, nil
}

// anonymous is the principal of a connection that did not authenticate. Kafka: KafkaPrincipal.ANONYMOUS.
const anonymous = "User:ANONYMOUS"
