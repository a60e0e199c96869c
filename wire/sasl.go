package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
)

// SASL is how clients of a listener prove who they are. It is immutable; see BrokerConfig.SASLOf.
type SASL struct {
	mechanisms []string                 // that are enabled, served or not
	sessions   map[string]time.Duration // by mechanism: how long a client is served; 0 or less is for ever
	users      map[string]string        // passwords of PLAIN; never logged or described
	maxFrame   int32                    // largest frame of a client that has not authenticated
	delay      time.Duration            // before a failure is answered
}

// NotServed returns the mechanisms that are enabled and that no client can use.
func (l *SASL) NotServed() []string {
	return slices.DeleteFunc(slices.Clone(l.mechanisms), func(m string) bool {
		return m == auth.Plain || m == auth.ScramSHA256 || m == auth.ScramSHA512
	})
}

// exchange begins an exchange of a mechanism, nil when it is not to be had.
func (s *Server) exchange(l *SASL, mechanism string) *auth.Exchange {
	if !slices.Contains(l.mechanisms, mechanism) {
		return nil
	}
	switch mechanism {
	case auth.Plain:
		return auth.NewPlain(func(user string) (string, bool) {
			password, ok := l.users[user]
			return password, ok
		})
	case auth.ScramSHA256, auth.ScramSHA512:
		x, err := auth.NewScram(mechanism, s.scramCredential(mechanism), s.decoy)
		if err == nil {
			return x
		}
	}
	return nil
}

// session is who a connection's client is, for how long.
type session struct {
	principal string // as Kafka spells it
	mechanism string // "" without SASL
	// ends is after when only a renewal is taken; zero for never. By Options.Now, as renewed.
	ends    time.Time
	renewed time.Time // when the last renewal began; zero before the first
}

// minRenewal is the time between two renewals. Kafka: KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS.
const minRenewal = time.Second

// authenticationError says why a client on a SASL listener is not served. The text is for the log.
type authenticationError struct{ err error }

func (e *authenticationError) Error() string { return e.err.Error() }
func (e *authenticationError) Unwrap() error { return e.err }

func authenticationErrorf(format string, args ...any) error {
	return &authenticationError{fmt.Errorf(format, args...)}
}

var errSessionEnded = errors.New("the session ended and was not renewed")

// saslStep is how far a client is.
type saslStep int8

const (
	saslBegins      saslStep = iota // ApiVersions or a handshake comes
	saslVersionsAre                 // the versions were told: a handshake comes
	saslExchange                    // tokens come
	saslMismatch                    // a renewal with another mechanism, which ends with the next frame
	saslDone
)

// authentication is the exchange that a client has to go through before it is served, and again when its session is to
// be renewed. The reader runs it while nothing else is under way on the connection, and for that time it is the writer
// too.
//
//	step               takes                                          else
//	saslBegins         ApiVersions, until its versions are told;      the connection is closed
//	                   a handshake
//	saslVersionsAre    a handshake                                    closed
//	saslExchange       after a handshake of version 1: a token in     ILLEGAL_SASL_STATE in the answer of
//	                   SaslAuthenticate                               whatever it is, then closed
//	                   after one of version 0: a bare token with its  closed
//	                   length
//
// A failure is answered after SASL.delay, and the connection is closed: an unknown mechanism, a token that proves
// nothing. A renewal that asks for another mechanism than the session's is not answered. Frames are at most
// SASL.maxFrame, and nothing but a token may be larger than the connection's own read buffer, so that strangers hold no
// memory.
//
// Kafka: SaslServerAuthenticator; KIP-43, KIP-152, KIP-368. Differs from Kafka: it answers larger requests too.
type authentication struct {
	c         *conn
	sasl      *SASL
	previous  session // that is renewed; its mechanism is "" at first
	step      saslStep
	mechanism string
	exchange  *auth.Exchange
	wrapped   bool // tokens come in SaslAuthenticate
	// failure is the answer to a client that failed; nil when it gets none.
	failure response
	delayed bool // the end waits for SASL.delay
}

// authenticate runs an exchange to its end. handshake is the first frame of a renewal, nil at first. When it returns an
// error the connection is to be closed.
func (c *conn) authenticate(handshake *buffer) error {
	a := &authentication{c: c, sasl: c.listener.SASL, previous: c.session}
	for a.step != saslDone {
		frame := handshake
		handshake = nil
		if frame == nil {
			var err error
			if frame, err = c.nextToken(a.sasl.maxFrame); err != nil {
				if _, ok := errors.AsType[*authenticationError](err); ok {
					err = errors.Join(err, a.holdBack())
				}
				return err
			}
		}
		call := &call{frame: frame}
		err := a.take(call)
		if err != nil && a.delayed {
			err = errors.Join(err, a.holdBack())
			if a.failure != nil && c.ctx.Err() == nil {
				_ = a.answer(call, a.failure) // it is closed in any case
			}
		}
		c.answering = call
		c.frameDone()
		c.answering = nil
		if err != nil {
			return err
		}
	}
	c.server.counts.authenticated.Add(1)
	return nil
}

// take deals with one frame.
func (a *authentication) take(c *call) error {
	switch a.step {
	case saslExchange:
		if !a.wrapped {
			return a.bareToken(c)
		}
		return a.token(c)
	case saslMismatch:
		a.delayed = true
		return authenticationErrorf("renewal by %s of a session by %s", a.mechanism, a.previous.mechanism)
	}
	key := frameKey(c.frame)
	if key != apiVersionsKey && key != saslHandshakeKey {
		return authenticationErrorf("api key %d before authentication", key)
	}
	if err := checkNoToken(key, c.frame); err != nil {
		return err
	}
	if err := a.decode(c); err != nil {
		return err
	}
	if key == saslHandshakeKey {
		return a.handshake(c, c.message.(*kmsg.SASLHandshakeRequest))
	}
	if a.step == saslVersionsAre {
		return authenticationErrorf("ApiVersions twice before authentication")
	}
	if req, ok := c.message.(*kmsg.ApiVersionsRequest); ok && validAPIVersions(req) {
		req.ClusterID, req.NodeID = nil, -1 // looked at after authentication only
		a.step = saslVersionsAre
	}
	resp, err := a.c.server.answer(a.c.ctx, c)
	if err != nil {
		return err
	}
	return a.answer(c, resp)
}

// frameKey returns the api key of a frame, -1 when it is too short to have one.
func frameKey(frame *buffer) int16 {
	if len(frame.B) < 2 {
		return -1
	}
	return int16(binary.BigEndian.Uint16(frame.B))
}

// checkNoToken checks the length of a frame that is no token: a stranger's request may take many times its length once it
// is decoded.
func checkNoToken(key int16, frame *buffer) error {
	if len(frame.B) > readBufferSize {
		return authenticationErrorf("api key %d of %d bytes before authentication, want at most %d", key, len(frame.B), readBufferSize)
	}
	return nil
}

// decode makes a request of the frame.
func (a *authentication) decode(c *call) error {
	frame := c.frame
	decoded, err := a.c.server.newCall(frame, a.c.clientID)
	if err == nil && decoded.body != nil { // a long token
		err = a.c.server.decode(decoded, decoded.body)
		decoded.body = nil
	}
	if err != nil {
		return err
	}
	if req, ok := decoded.message.(*kmsg.SASLAuthenticateRequest); ok {
		req.UnknownTags = kmsg.Tags{} // take twenty times their length, for as long as a failure is held back
	}
	*c = *decoded
	a.c.describe(&c.request)
	return nil
}

// handshake takes the client's choice of a mechanism.
func (a *authentication) handshake(c *call, req *kmsg.SASLHandshakeRequest) error {
	resp := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
	resp.SupportedMechanisms = a.sasl.mechanisms
	a.mechanism, a.wrapped = req.Mechanism, req.Version >= 1
	if a.exchange = a.c.server.exchange(a.sasl, req.Mechanism); a.exchange == nil {
		resp.ErrorCode = kerr.UnsupportedSaslMechanism.Code
		if a.previous.mechanism == "" { // a renewal just ends, as in Kafka
			a.failure, a.delayed = resp, true
		}
		return authenticationErrorf("SASL mechanism %.40q is not enabled or not served, enabled are %v", req.Mechanism, a.sasl.mechanisms)
	}
	a.step = saslExchange
	if a.previous.mechanism != "" && a.previous.mechanism != a.mechanism {
		a.step = saslMismatch
	}
	return a.answer(c, resp)
}

// bareToken takes a token that is a frame by itself. A failure has no answer. It counts as what would carry it otherwise.
func (a *authentication) bareToken(c *call) error {
	byAPI := &a.c.server.byAPI
	byAPI.asked(saslAuthenticateKey, len(c.frame.B))
	answer, _, err := a.next(c.frame.B)
	if err != nil {
		return err
	}
	b := binary.BigEndian.AppendUint32(make([]byte, 0, lengthSize+len(answer)), uint32(len(answer)))
	b = append(b, answer...)
	byAPI.byKey[saslAuthenticateKey].answerBytes.Add(int64(len(b)))
	return a.c.writeAll([][]byte{b}, false)
}

// token takes a token in a SaslAuthenticate request.
func (a *authentication) token(c *call) error {
	key := frameKey(c.frame)
	if key != saslAuthenticateKey {
		if err := checkNoToken(key, c.frame); err != nil {
			return err
		}
	}
	if err := a.decode(c); err != nil {
		return err
	}
	req, ok := c.message.(*kmsg.SASLAuthenticateRequest)
	if !ok {
		a.failure = refusalOf(c, kerr.IllegalSaslState)
		a.delayed = a.failure != nil
		return authenticationErrorf("api key %d before authentication", key)
	}
	resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
	answer, lifetime, err := a.next(req.SASLAuthBytes)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, a.failureText(err)
		resp.SASLAuthBytes = []byte{}
		a.failure = resp
		return err
	}
	resp.SASLAuthBytes = append([]byte{}, answer...) // sent even when it is empty; KIP-152
	resp.ErrorMessage = new("")                      // not null, as in Kafka
	resp.SessionLifetimeMillis = lifetime.Milliseconds()
	return a.answer(c, resp)
}

// next takes the exchange one token further. When that was the last one the client's session has begun, and lifetime is
// how long it lasts, 0 for ever.
func (a *authentication) next(token []byte) (answer []byte, lifetime time.Duration, err error) {
	answer, err = a.exchange.Next(token)
	if err != nil {
		a.delayed = true
		return nil, 0, authenticationErrorf("%s: %w", a.mechanism, err)
	}
	if !a.exchange.Done() {
		return answer, 0, nil
	}
	next := session{principal: "User:" + a.exchange.User(), mechanism: a.mechanism, renewed: a.previous.renewed}
	if a.previous.mechanism != "" && next.principal != a.previous.principal {
		a.delayed = true
		return nil, 0, &authenticationError{errOtherPrincipal}
	}
	if lifetime = max(a.sasl.sessions[a.mechanism], 0); lifetime > 0 {
		next.ends = a.c.server.now().Add(lifetime)
	}
	a.c.session, a.step = next, saslDone
	return answer, lifetime, nil
}

var errOtherPrincipal = errors.New("renewal of a session as somebody else")

// failureText is what a client is told: what a mechanism says to it, or one text for all that must not be told apart.
func (a *authentication) failureText(err error) *string {
	text := "authentication failed: invalid credentials for SASL mechanism " + a.mechanism
	if refusal, ok := errors.AsType[*auth.Refusal](err); ok {
		text = "authentication failed: " + refusal.Reason
	} else if errors.Is(err, errOtherPrincipal) {
		text = "authentication failed: a session cannot be renewed as somebody else"
	}
	return &text
}

// holdBack waits for the delay of failures. Kafka: connection.failed.authentication.delay.ms.
func (a *authentication) holdBack() error {
	if a.sasl.delay <= 0 {
		return nil
	}
	t := time.NewTimer(a.sasl.delay)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-a.c.ctx.Done():
		return errStopping
	}
}

// answer writes an answer.
func (a *authentication) answer(c *call, resp response) error {
	a.c.answering = c
	err := a.c.send(c, a.c.server.byAPI.answered(c, resp))
	a.c.answering = nil
	return err
}

// nextToken returns the next frame of a client that has not authenticated. It gets memory as its bytes come, the first
// of it no larger than what the connection has anyway.
func (c *conn) nextToken(limit int32) (*buffer, error) {
	if err := c.fill(lengthSize); err != nil {
		return nil, err
	}
	size := int32(binary.BigEndian.Uint32(c.in[c.start:]))
	if size < 0 || size > limit {
		return nil, authenticationErrorf("frame length %d before authentication, want 0 to %d", size, limit)
	}
	c.start += lengthSize
	n := int(size)
	frame, err := c.frameBuffer(min(n, readBufferSize))
	if err != nil {
		return nil, errStopping
	}
	have := copy(frame.B, c.in[c.start:c.end])
	c.start += have
	if frame, err = c.receive(frame, have, n); err != nil {
		c.releaseFrame(frame)
		return nil, unexpected(err)
	}
	return frame, nil
}

// renew looks at a frame of a client whose session ends: the handshake of a renewal is gone through, and everything else
// has to come before the end. It releases the frame when it returns true or an error.
//
// Kafka: Processor.processCompletedReceives, KafkaChannel.maybeBeginServerReauthentication.
func (c *conn) renew(frame *buffer, barrier bool) (renewed bool, err error) {
	now := c.server.now()
	if frameKey(frame) == saslHandshakeKey && (c.session.renewed.IsZero() || now.Sub(c.session.renewed) >= minRenewal) {
		if err := c.awaitAll(barrier); err != nil {
			c.releaseFrame(frame)
			return false, err
		}
		c.session.renewed = now
		return true, c.authenticate(frame)
	}
	if now.After(c.session.ends) {
		c.releaseFrame(frame)
		return false, errSessionEnded
	}
	return false, nil
}

// nothing is the api of a call that only waits for those before it.
var nothing = api{serve: func(*Server, *request, kmsg.Request) (response, error) { return nil, nil }}

// awaitAll waits until all calls that were handed on are through. barrier says that the last one was a barrier.
func (c *conn) awaitAll(barrier bool) error {
	if !barrier {
		c.inFlight.Add(1)
		c.queue <- &call{api: &nothing, message: kmsg.NewPtrSASLHandshakeRequest()}
	}
	return c.awaitTurn(true)
}
