package wire

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// call is one request on its way: read, decoded, started, answered.
type call struct {
	request
	api *api
	// frame is what the request was decoded from; its bytes belong to the call until the answer is written, or the
	// handler needs them no longer. Then it is nil.
	frame *buffer

	// body is that of a large request that is not decoded yet.
	body []byte
	// message is the decoded request; nil for an ApiVersions request of a version that is not known, whose body
	// cannot be read.
	message kmsg.Request
	// finish waits for what was started and answers; nil for a call that is answered in one step.
	finish func(context.Context) (response, error)

	counted countedResponse // the answer, unless it is *encoded
}

// barrier reports whether the call has to be alone on its connection.
func (c *call) barrier() bool { return c.api.start == nil }

// flexible reports whether a request header has a tag section. An unknown key has none.
func (t *apiTable) flexible(key, version int16) bool {
	a := t.find(key)
	return a != nil && version >= a.flexibleFrom
}

// newCall parses the header of a frame and decodes its body. lastClientID is that of the connection's last request,
// which most likely is this one's too. The error wraps a *frameError: the connection cannot go on.
func (s *Server) newCall(frame *buffer, lastClientID string) (*call, error) {
	h, body, err := parseHeader(frame.B, s.apis.flexible)
	if err != nil {
		return nil, err
	}
	a := s.apis.find(h.key)
	if a == nil {
		s.counts.unsupported.Add(1)
		return nil, frameErrorf("api key %d is not served", h.key)
	}
	s.byAPI.asked(h.key, len(frame.B))
	began := s.stopwatch()
	c := &call{api: a, frame: frame}
	c.size = len(frame.B)
	c.key, c.version, c.correlationID = h.key, h.version, h.correlationID
	c.clientID, c.clientIDNull = lastClientID, h.clientID == nil
	if string(h.clientID) != lastClientID {
		c.clientID = string(h.clientID)
	}
	if !a.serves(h.version) {
		if h.key == apiVersionsKey {
			return c, nil
		}
		s.counts.unsupported.Add(1)
		return nil, frameErrorf("api key %d version %d is not served, want %d to %d", h.key, h.version, a.min, a.max)
	}
	if len(body) > largeBody && !a.parks && a.start == nil {
		c.body = body // see conn.decodeLarge
		return c, nil
	}
	if err := s.decode(c, body); err != nil {
		return nil, fmt.Errorf("api key %d version %d: %w", h.key, h.version, err)
	}
	c.busy = s.lap(began)
	return c, nil
}

// largeBody is from where on requests are decoded one at a time, so that what the codec allocates for them, which may
// be many times their length, is there once. Produce is large by its records, which the codec leaves where they are.
const largeBody = 64 << 10

// decode fills in c.message.
func (s *Server) decode(c *call, body []byte) error {
	msg := c.api.newRequest()
	msg.SetVersion(c.version)
	if len(body) > otherFrameLimit {
		if err := checkShape(shapes[c.key], c.version, msg.IsFlexible(), body); err != nil {
			return err
		}
	}
	if len(body) > largeBody && c.key != produceKey {
		s.decoding.Lock()
		defer s.decoding.Unlock()
	}
	if err := readMessage(msg, body); err != nil {
		return &frameError{reason: err.Error()}
	}
	c.message = msg
	return nil
}

// readMessage decodes body. This is the only place that recovers: the bytes are a stranger's, and a codec that runs
// over their end must not take the process down.
//
// Differs from Kafka: a null list where the protocol has none is read as an empty one, which is no harm to anybody, and
// Kafka ends the connection; text that is no UTF-8 keeps its bytes, in which Kafka puts U+FFFD.
func readMessage(msg kmsg.Request, body []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("decode: %v", p)
		}
	}()
	if msg.ReadFrom(body) != nil { // for one reason only, and its text speaks of a response
		return fmt.Errorf("body of %d bytes ends too early", len(body))
	}
	return nil
}

// start does the part of the call that must happen in the order of the requests.
func (s *Server) start(c *call) (err error) {
	began := s.stopwatch()
	c.finish, err = c.api.start(s, &c.request, c.message)
	if req, ok := c.message.(*kmsg.ProduceRequest); ok && req.Acks != 0 { // Kafka: sendNoOpResponseExemptThrottle
		s.chargeTime(c, began)
	}
	return err
}

// answer does the rest of the call and returns the response, nil when none is sent. An error drops the connection.
// What was started is waited for under ctx.
func (s *Server) answer(ctx context.Context, c *call) (resp response, err error) {
	switch {
	case c.message == nil:
		return s.byAPI.answered(c, s.unsupportedAPIVersions()), nil
	case c.finish != nil:
		resp, err = c.finish(ctx)
	case c.api.start != nil:
		return nil, nil // started, and nothing to wait for
	default:
		began := s.stopwatch()
		resp, err = c.api.serve(s, &c.request, c.message)
		s.chargeTime(c, began)
	}
	if err != nil || resp == nil {
		return resp, err
	}
	if c.throttle > 0 {
		setThrottle(resp, int32(c.throttle.Milliseconds()))
	}
	return s.byAPI.answered(c, resp), nil
}

// tagged reports whether the answer's header has a tag section. Those of ApiVersions never have, so that a client which
// does not know the version yet can read them.
func (c *call) tagged() bool {
	return c.key != apiVersionsKey && c.version >= c.api.flexibleFrom
}
