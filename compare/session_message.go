package compare

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// message is one frame of a session, decoded as far as it goes.
type message struct {
	*call
	clientID string // of a request; nullClientID when it is null
	answer
	isRequest bool
}

// errNoRequest means that a frame is no request of an api that the schema knows.
var errNoRequest = errors.New("no request of Kafka's")

// parseRequest reads a frame from a client, without its length. opaque leaves record batches as bytes. A version that
// the schema does not have is no error: the body then does not decode.
func parseRequest(frame []byte, opaque bool) (*message, error) {
	d := decoder{b: frame}
	key, version, correlation := int16(d.int(2)), int16(d.int(2)), int32(d.int(4))
	api, known := APIByKey(key)
	if d.err != nil || !known {
		return nil, errNoRequest
	}
	m := &message{call: &call{api: api, version: version, correlation: correlation}, clientID: nullClientID, isRequest: true}
	m.answer = answer{frame: frame, outcome: "answered", version: version}
	if n := d.length(2); n >= 0 {
		m.clientID = string(d.take(n))
	}
	d.flexible = api.Flexible.Has(version)
	if d.flexible {
		d.structure(&Node{}, nil)
	}
	switch {
	case d.err != nil:
		return nil, fmt.Errorf("%w: header: %w", errNoRequest, d.err)
	case !api.Valid.Has(version):
		m.fault = fmt.Sprintf("%s has no version %d", api.Name, version)
		return m, nil
	}
	body := decoder{b: frame[d.at:], base: d.at, version: version, flexible: d.flexible, opaque: opaque}
	var left int
	var err error
	if m.root, left, err = body.body(api.Request); err != nil {
		m.fault = err.Error()
	} else if left > 0 {
		m.rest = frame[len(frame)-left:]
	}
	return m, nil
}

// whole reports whether every byte of the body was read as a field.
func (m *message) whole() bool { return m.root != nil && m.fault == "" && len(m.rest) == 0 }

// splice returns the frame with values of it edited.
func (m *message) splice(e edits) ([]byte, error) {
	flexible := m.api.Flexible.Has(m.answer.version)
	return splice(m.frame, m.root, m.answer.version, flexible, e)
}

// dialogue follows the requests of one connection, to know what an answer answers.
type dialogue struct {
	asked map[int32]*message // by correlation id: what may still be answered
}

func newDialogue() *dialogue { return &dialogue{asked: map[int32]*message{}} }

// request takes a frame from the client.
func (d *dialogue) request(frame []byte, opaque bool) (*message, error) {
	m, err := parseRequest(frame, opaque)
	if err == nil && !m.unanswered() {
		d.asked[m.correlation] = m
	}
	return m, err
}

// unanswered reports whether a request gets no answer: a Produce with acks=0.
func (m *message) unanswered() bool {
	return m.api.Name == "Produce" && m.whole() && m.root.int("acks") == 0
}

// answer takes a frame from the broker and returns it with what it answers; nil when that is not known.
func (d *dialogue) answer(frame []byte, opaque bool) (request, a *message) {
	if len(frame) < 4 {
		return nil, nil
	}
	id := int32(binary.BigEndian.Uint32(frame))
	request, ok := d.asked[id]
	if !ok {
		return nil, nil
	}
	delete(d.asked, id)
	a = &message{call: request.call, clientID: request.clientID, answer: answer{frame: frame, outcome: "answered", version: request.call.version}}
	if !request.api.Valid.Has(request.call.version) && request.api.Key != apiVersionsKey {
		a.fault = fmt.Sprintf("%s has no version %d", request.api.Name, request.call.version)
		return request, a
	}
	a.decode(&a.answer, opaque)
	return request, a
}
