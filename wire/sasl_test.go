package wire

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/vfs"
)

// plainOnly lets alice and bob in by PLAIN.
func plainOnly(more ...string) map[string]string {
	config := map[string]string{
		"sasl.enabled.mechanisms":                             "PLAIN",
		"listener.name.sasl_plaintext.plain.sasl.jaas.config": auth.PlainLoginModule + ` required user_alice="secret" user_bob="hidden";`,
	}
	for i := 0; i < len(more); i += 2 {
		config[more[i]] = more[i+1]
	}
	return config
}

// withSASL makes the listener of a server that nobody has reached yet one with SASL.
func withSASL(s *server) *server {
	s.t.Helper()
	sasl, err := s.s.config.SASLOf("SASL_PLAINTEXT")
	if err != nil {
		s.t.Fatal(err)
	}
	s.s.listeners[0].Name, s.s.listeners[0].SASL = "SASL_PLAINTEXT", sasl
	return s
}

func newSASLServer(t *testing.T, config map[string]string) *server {
	t.Helper()
	return withSASL(newServer(t, config))
}

func handshakeOf(version int16, mechanism string) *kmsg.SASLHandshakeRequest {
	req := kmsg.NewPtrSASLHandshakeRequest()
	req.Version, req.Mechanism = version, mechanism
	return req
}

func tokenOf(version int16, token string) *kmsg.SASLAuthenticateRequest {
	req := kmsg.NewPtrSASLAuthenticateRequest()
	req.Version, req.SASLAuthBytes = version, []byte(token)
	return req
}

const aliceToken = "\x00alice\x00secret"

// logIn authenticates by PLAIN.
func (c *client) logIn(token string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	if resp := c.call(handshakeOf(1, auth.Plain)).(*kmsg.SASLHandshakeResponse); resp.ErrorCode != 0 {
		c.t.Fatalf("handshake: code %d", resp.ErrorCode)
	}
	return c.call(tokenOf(2, token)).(*kmsg.SASLAuthenticateResponse)
}

func (c *client) mustLogIn(token string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	resp := c.logIn(token)
	if resp.ErrorCode != 0 {
		c.t.Fatalf("token: code %d, %s", resp.ErrorCode, *resp.ErrorMessage)
	}
	return resp
}

// errorOf returns the code of an answer that has one for the whole.
func errorOf(t *testing.T, resp kmsg.Response) int16 {
	t.Helper()
	switch r := resp.(type) {
	case *kmsg.ApiVersionsResponse:
		return r.ErrorCode
	case *kmsg.SASLHandshakeResponse:
		return r.ErrorCode
	case *kmsg.SASLAuthenticateResponse:
		return r.ErrorCode
	case *kmsg.MetadataResponse:
		if len(r.Topics) != 1 {
			t.Fatalf("answer has %d topics, want 1", len(r.Topics))
		}
		return r.Topics[0].ErrorCode
	case *kmsg.JoinGroupResponse:
		return r.ErrorCode
	case *kmsg.ProduceResponse:
		return r.Topics[0].Partitions[0].ErrorCode
	}
	t.Fatalf("an answer of type %T", resp)
	return 0
}

// TestOrderBeforeAuthentication sends requests to a listener with SASL, each row on a connection of its own, and looks
// at the codes of their answers. At the first code of closed the connection ends without an answer to the request; what
// ends says that it ends after the last answer.
func TestOrderBeforeAuthentication(t *testing.T) {
	const closed = -99
	badName, elsewhere := versions(), versions()
	badName.ClientSoftwareName = "-"
	elsewhere.Version, elsewhere.ClusterID, elsewhere.NodeID = 5, kmsg.StringPtr("another"), 7
	unacked := kmsg.NewPtrProduceRequest()
	unacked.Version = 9
	acked := kmsg.NewPtrProduceRequest()
	acked.Version, acked.Acks = 9, -1
	acked.Topics = []kmsg.ProduceRequestTopic{{Topic: "orders", Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: 3}}}}
	join := kmsg.NewPtrJoinGroupRequest()
	join.Version, join.Group = 5, "g"
	largeVersions, largeHandshake := versions(), handshakeOf(1, strings.Repeat("M", 5000))
	largeVersions.ClientSoftwareVersion = strings.Repeat("1", 5000)
	large := metadataOf(9, slices.Repeat([]string{strings.Repeat("t", 200)}, 30)...)
	plain := func(version int16) kmsg.Request { return handshakeOf(version, auth.Plain) }
	for _, c := range []struct {
		name  string
		reqs  []kmsg.Request
		codes []int16
		ends  bool
	}{
		{"SEC-03 Metadata first", []kmsg.Request{metadataOf(9, "orders")}, []int16{closed}, true},
		{"SEC-03 Metadata after ApiVersions", []kmsg.Request{versions(), metadataOf(9, "orders")}, []int16{0, closed}, true},
		{"SEC-03 Metadata between handshake and token", []kmsg.Request{plain(1), metadataOf(9, "orders")}, []int16{0, 34}, true},
		{"SEC-03 old Metadata between handshake and token", []kmsg.Request{plain(1), metadataOf(1, "orders")}, []int16{0, 34}, true},
		{"ApiVersions between handshake and token", []kmsg.Request{versions(), plain(1), versions()}, []int16{0, 0, 34}, true},
		{"JoinGroup between handshake and token", []kmsg.Request{plain(1), join}, []int16{0, 34}, true},
		{"Produce between handshake and token", []kmsg.Request{plain(1), acked}, []int16{0, 34}, true},
		{"Produce without acks between handshake and token", []kmsg.Request{plain(1), unacked}, []int16{0, closed}, true},
		{"a large request between handshake and token", []kmsg.Request{plain(1), large}, []int16{0, closed}, true},
		{"a large ApiVersions", []kmsg.Request{largeVersions}, []int16{closed}, true},
		{"a large handshake", []kmsg.Request{largeHandshake}, []int16{closed}, true},
		{"handshake twice", []kmsg.Request{plain(1), plain(1)}, []int16{0, 34}, true},
		{"token first", []kmsg.Request{tokenOf(2, aliceToken)}, []int16{closed}, true},
		{"token after ApiVersions", []kmsg.Request{versions(), tokenOf(2, aliceToken)}, []int16{0, closed}, true},
		{"ApiVersions twice", []kmsg.Request{versions(), versions()}, []int16{0, closed}, true},
		{"ApiVersions of a client with a bad name, then of a good one", []kmsg.Request{badName, versions(), plain(1), tokenOf(2, aliceToken)}, []int16{42, 0, 0, 0}, false},
		{"ApiVersions to another cluster", []kmsg.Request{elsewhere, plain(1), tokenOf(2, aliceToken), elsewhere}, []int16{0, 0, 0, 129}, false},
		{"without ApiVersions", []kmsg.Request{plain(1), tokenOf(0, aliceToken), versions()}, []int16{0, 0, 0}, false},
		{"all in order", []kmsg.Request{versions(), plain(1), tokenOf(1, aliceToken), versions(), versions(), metadataOf(9, "orders")}, []int16{0, 0, 0, 0, 0, 3}, false},
		{"handshake and token after authentication", []kmsg.Request{plain(1), tokenOf(2, aliceToken), plain(1), tokenOf(2, aliceToken), tokenOf(0, "x"), plain(0), versions()}, []int16{0, 0, 34, 34, 34, 34, 0}, false},
		{"wrong password", []kmsg.Request{plain(1), tokenOf(2, "\x00alice\x00wrong")}, []int16{0, 58}, true},
		{"mechanism that is not enabled", []kmsg.Request{handshakeOf(1, auth.ScramSHA256)}, []int16{33}, true},
		{"mechanism in lower case", []kmsg.Request{handshakeOf(0, "plain")}, []int16{33}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSASLServer(t, plainOnly("auto.create.topics.enable", "false"))
				k := s.dial(t)
				for i, req := range c.reqs {
					if c.codes[i] == closed {
						k.send(req)
						k.expectClosed(kmsg.NameForKey(req.Key()))
						return
					}
					if got := errorOf(t, k.call(req)); got != c.codes[i] {
						t.Fatalf("request %d, %s: code %d, want %d", i, kmsg.NameForKey(req.Key()), got, c.codes[i])
					}
				}
				if c.ends {
					k.expectClosed("at the end")
				} else {
					k.idle("at the end")
				}
			})
		})
	}
}

// TestUnknownVersionsBeforeAuthentication sends versions that the codec would not.
func TestUnknownVersionsBeforeAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly())
		raw := func(key, version int16) []byte {
			b := binary.BigEndian.AppendUint32(nil, 11)
			b = binary.BigEndian.AppendUint16(b, uint16(key))
			b = binary.BigEndian.AppendUint16(b, uint16(version))
			return append(b, 0, 0, 0, 1, 0, 0, 0)
		}
		c := s.dial(t)
		c.write(raw(18, 99))
		asked := versions()
		asked.Version = 0
		if resp := c.receive(asked, 1).(*kmsg.ApiVersionsResponse); resp.ErrorCode != 35 || len(resp.ApiKeys) != 1 {
			t.Errorf("ApiVersions 99: code %d and %d keys, want 35 and this one", resp.ErrorCode, len(resp.ApiKeys))
		}
		c.call(versions()) // as a client does then
		c.mustLogIn(aliceToken)

		c = s.dial(t)
		c.write(raw(17, 2))
		c.expectClosed("SaslHandshake 2")

		c = s.dial(t)
		c.call(handshakeOf(1, auth.Plain))
		c.write(raw(36, 3))
		c.expectClosed("SaslAuthenticate 3")
	})
}

func TestUnsupportedMechanismNamesTheEnabled(t *testing.T) { // SEC-01
	for _, c := range []struct {
		name, enabled, asked string
		want                 []string
	}{
		{"SEC-01 one that nobody has", "PLAIN,SCRAM-SHA-512,PLAIN", "FOO", []string{"PLAIN", "SCRAM-SHA-512"}},
		{"Kafka's default, which is not served", "GSSAPI", "PLAIN", []string{"GSSAPI"}},
		{"one that is enabled and not served", "GSSAPI", "GSSAPI", []string{"GSSAPI"}},
	} {
		for version := range int16(2) {
			synctest.Test(t, func(t *testing.T) {
				s := newSASLServer(t, plainOnly("sasl.enabled.mechanisms", c.enabled))
				k := s.dial(t)
				began := time.Now()
				resp := k.call(handshakeOf(version, c.asked)).(*kmsg.SASLHandshakeResponse)
				if resp.ErrorCode != 33 || !slices.Equal(resp.SupportedMechanisms, c.want) {
					t.Errorf("%s, version %d: code %d, mechanisms %v; want 33, %v", c.name, version, resp.ErrorCode, resp.SupportedMechanisms, c.want)
				}
				k.expectClosed(c.name)
				if d := time.Since(began); d != 100*time.Millisecond {
					t.Errorf("%s: answered and closed after %v, want connection.failed.authentication.delay.ms", c.name, d)
				}
			})
		}
	}
}

func TestFailuresLookTheSame(t *testing.T) { // SEC-04
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly("connection.failed.authentication.delay.ms", "250"))
		var texts []string
		for _, token := range []string{"\x00alice\x00wrong", "\x00nobody\x00secret", "\x00bob\x00secret"} {
			began := time.Now()
			k := s.dial(t)
			resp := k.logIn(token)
			k.expectClosed("SEC-04 after a failure")
			if resp.ErrorCode != 58 || resp.SASLAuthBytes == nil || resp.ErrorMessage == nil {
				t.Fatalf("SEC-04 token %q: %+v", token, resp)
			}
			if d := time.Since(began); d != 250*time.Millisecond {
				t.Errorf("SEC-04 token %q: answered after %v", token, d)
			}
			texts = append(texts, *resp.ErrorMessage)
		}
		if texts = slices.Compact(texts); len(texts) != 1 || strings.Contains(texts[0], "alice") {
			t.Errorf("SEC-04 the answers say %q", texts)
		}
		if st := s.s.Stats(); st.FailedAuthentications != 3 || st.Authentications != 0 {
			t.Errorf("counted %d failures and %d successes, want 3 and 0", st.FailedAuthentications, st.Authentications)
		}
	})
}

func TestLastTokenIsAnsweredEmpty(t *testing.T) { // SEC-06
	for version := range int16(3) {
		synctest.Test(t, func(t *testing.T) {
			s := newSASLServer(t, plainOnly())
			k := s.dial(t)
			k.call(handshakeOf(1, auth.Plain))
			resp := k.call(tokenOf(version, aliceToken)).(*kmsg.SASLAuthenticateResponse)
			if resp.ErrorCode != 0 || resp.ErrorMessage == nil || *resp.ErrorMessage != "" || resp.SASLAuthBytes == nil || len(resp.SASLAuthBytes) != 0 || resp.SessionLifetimeMillis != 0 {
				t.Errorf("SEC-06 version %d: %+v", version, resp)
			}
		})
	}
}

// TestBareTokens is the protocol of clients from before SaslAuthenticate.
func TestBareTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly())
		token := func(b string) []byte {
			return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
		}
		k := s.dial(t)
		k.call(handshakeOf(0, auth.Plain))
		k.write(token(aliceToken))
		var answer [4]byte
		if _, err := io.ReadFull(k, answer[:]); err != nil || answer != [4]byte{} {
			t.Fatalf("answer %x, %v; want an empty token", answer, err)
		}
		size := int64(len(token(aliceToken)))
		if n := s.of(36); n.Requests != 1 || n.RequestBytes != size || n.AnswerBytes != 4 {
			t.Errorf("SaslAuthenticate has %+v, want the token of %d bytes and its answer of 4", n, size)
		}
		k.call(metadataOf(9))

		for _, b := range [][]byte{token("\x00alice\x00wrong"), token(""), frameOf(tokenOf(2, aliceToken), 2)} {
			k := s.dial(t)
			k.call(handshakeOf(0, auth.Plain))
			k.write(b)
			k.expectClosed("a bare token that proves nothing")
		}
	})
}

func TestFramesBeforeAuthenticationAreSmall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly("sasl.server.max.receive.size", "100000"))
		for _, head := range []string{"\x00\x01\x86\xa1", "\xff\xff\xff\xff", "\x7f\xff\xff\xff", "GET ", "\x16\x03\x01\x02"} {
			k := s.dial(t)
			k.write([]byte(head))
			k.expectClosed("a frame length that is too large")
		}
		k := s.dial(t)
		k.write([]byte{0, 0, 0, 0})
		k.expectClosed("an empty frame")

		// What was only announced is not there.
		k = s.dial(t)
		k.call(handshakeOf(1, auth.Plain))
		large := frameOf(tokenOf(2, "\x00alice\x00"+strings.Repeat("x", 90000)), 2)
		k.write(large[:100])
		synctest.Wait()
		if held := s.s.Stats().RequestBytes; held > readBufferSize {
			t.Errorf("a stranger who sent 100 bytes holds %d", held)
		}
		k.write(large[100:])
		if resp := k.receive(tokenOf(2, ""), 2).(*kmsg.SASLAuthenticateResponse); resp.ErrorCode != 58 {
			t.Errorf("a large password: code %d, want 58", resp.ErrorCode)
		}
		k.expectClosed("after it")
		if held := s.s.Stats().RequestBytes; held != 0 {
			t.Errorf("%d bytes are held after all", held)
		}
	})
}

// A stranger's tags are not kept while the end of the connection is held back.
func TestTagsOfTokensAreNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly())
		near, far := net.Pipe()
		defer near.Close()
		defer far.Close()
		for _, tags := range []int{1, 30000} { // the latter are decoded as large requests are
			req := tokenOf(2, aliceToken)
			for i := range tags {
				req.UnknownTags.Set(uint32(i), nil)
			}
			a := &authentication{c: &conn{server: s.s, socket: far}}
			c := &call{frame: &buffer{B: frameOf(req, 2)[lengthSize:]}}
			if err := a.decode(c); err != nil {
				t.Fatal(err)
			}
			got := c.message.(*kmsg.SASLAuthenticateRequest)
			if n := got.UnknownTags.Len(); n != 0 || string(got.SASLAuthBytes) != aliceToken {
				t.Errorf("%d of %d tags are kept with token %q", n, tags, got.SASLAuthBytes)
			}
		}
	})
}

// spyOnMetadata lets a test see the requests of key 3.
func spyOnMetadata(s *server, seen *request) {
	handlers := *apis
	handlers.byKey = append([]*api(nil), apis.byKey...)
	spy := route(3, 0, 13, func(s *Server, r *request, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
		*seen = *r
		return s.metadata(r, req)
	})
	spy.flexibleFrom = apis.find(3).flexibleFrom
	handlers.byKey[3] = &spy
	s.s.apis = &handlers
}

func TestPrincipalIsTheUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly())
		var seen request
		spyOnMetadata(s, &seen)
		for _, c := range []struct{ token, want string }{{aliceToken, "User:alice"}, {"bob\x00bob\x00hidden", "User:bob"}} {
			k := s.dial(t)
			k.call(versions())
			k.mustLogIn(c.token)
			k.call(metadataOf(9))
			if seen.principal != c.want || seen.softwareName != "test" || seen.listener.Name != "SASL_PLAINTEXT" {
				t.Errorf("token %q: the handler saw %q of %q on %s", c.token, seen.principal, seen.softwareName, seen.listener.Name)
			}
		}
	})
}

func TestSessionIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var disk heldSync
		s := withSASL(newServerOn(t, disk.on(vfs.NewMem(vfs.MemOptions{})), plainOnly("connections.max.reauth.ms", "10000")))
		var seen request
		spyOnMetadata(s, &seen)
		s.topic("orders", 1)
		s.mustProduce("orders", 0, s.batch("first"))
		k := s.dial(t)
		if resp := k.mustLogIn(aliceToken); resp.SessionLifetimeMillis != 10000 {
			t.Errorf("a session of %d ms, want 10000", resp.SessionLifetimeMillis)
		}
		// At once, since it is the first; what was started before is answered before.
		release := disk.hold()
		produce := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		sent := k.send(produce)
		k.pipeline(handshakeOf(1, auth.Plain), tokenOf(2, aliceToken), metadataOf(9))
		k.idle("while a produce is under way")
		release()
		if code := errorOf(t, k.receive(produce, sent)); code != 0 {
			t.Errorf("produce: code %d", code)
		}
		if code := errorOf(t, k.receive(handshakeOf(1, ""), sent+1)); code != 0 {
			t.Errorf("handshake of a renewal: code %d", code)
		}
		if resp := k.receive(tokenOf(2, ""), sent+2).(*kmsg.SASLAuthenticateResponse); resp.ErrorCode != 0 || resp.SessionLifetimeMillis != 10000 {
			t.Errorf("renewal: %+v", resp)
		}
		k.receive(metadataOf(9), sent+3)
		if seen.principal != "User:alice" {
			t.Errorf("principal %q after the renewal", seen.principal)
		}
		// Not within a second of the last.
		wait(999 * time.Millisecond)
		if code := errorOf(t, k.call(handshakeOf(1, auth.Plain))); code != 34 {
			t.Errorf("handshake too early: code %d, want 34", code)
		}
		wait(time.Millisecond)
		k.call(metadataOf(9)) // a barrier before the renewal
		k.mustLogIn(aliceToken)
		// Up to the end and not after it, but for a renewal.
		wait(10 * time.Second)
		k.call(metadataOf(9))
		wait(time.Millisecond)
		k.mustLogIn(aliceToken)
		k.call(metadataOf(9))
		wait(10*time.Second + time.Millisecond)
		k.send(metadataOf(9))
		k.expectClosed("a request after the end of the session")
	})
}

func TestRenewalThatFails(t *testing.T) {
	both := func() map[string]string {
		return plainOnly("connections.max.reauth.ms", "10000", "sasl.enabled.mechanisms", "PLAIN,SCRAM-SHA-256")
	}
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, both())
		start := func() *client {
			k := s.dial(t)
			k.mustLogIn(aliceToken)
			return k
		}
		k := start()
		resp := k.logIn("\x00bob\x00hidden")
		if resp.ErrorCode != 58 || strings.Contains(*resp.ErrorMessage, "bob") {
			t.Errorf("renewal as somebody else: %+v", resp)
		}
		k.expectClosed("as somebody else")

		k = start()
		if resp := k.logIn("\x00alice\x00wrong"); resp.ErrorCode != 58 {
			t.Errorf("renewal with a wrong password: code %d", resp.ErrorCode)
		}
		k.expectClosed("with a wrong password")

		k = start()
		if code := errorOf(t, k.call(handshakeOf(1, auth.ScramSHA256))); code != 0 {
			t.Errorf("renewal by another mechanism: handshake says %d, want 0 as Kafka", code)
		}
		k.send(tokenOf(2, "n,,n=alice,r=abc"))
		k.expectClosed("by another mechanism")

		k = start()
		k.send(handshakeOf(1, "FOO"))
		k.expectClosed("by an unknown mechanism")

		k = start()
		k.call(handshakeOf(1, auth.Plain))
		if code := errorOf(t, k.call(metadataOf(9, "orders"))); code != 34 {
			t.Errorf("a request within a renewal: code %d, want 34", code)
		}
		k.expectClosed("with a request within")
	})
}

// TestMechanismsHaveSessionsOfTheirOwn sets the session of one mechanism on one listener.
func TestMechanismsHaveSessionsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly("connections.max.reauth.ms", "10000",
			"listener.name.sasl_plaintext.plain.connections.max.reauth.ms", "2000", "listener.name.other.connections.max.reauth.ms", "1"))
		if resp := s.dial(t).mustLogIn(aliceToken); resp.SessionLifetimeMillis != 2000 {
			t.Errorf("a session of %d ms, want 2000", resp.SessionLifetimeMillis)
		}
	})
}

func TestShutdownEndsAuthentication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSASLServer(t, plainOnly("connection.failed.authentication.delay.ms", "3600000"))
		silent, failing := s.dial(t), s.dial(t)
		silent.call(versions())
		failing.call(handshakeOf(1, auth.Plain))
		failing.send(tokenOf(2, "\x00alice\x00wrong"))
		synctest.Wait()
		began := time.Now()
		s.stop()
		silent.expectClosed("shutdown")
		failing.expectClosed("shutdown")
		if d := time.Since(began); d != 0 {
			t.Errorf("shutdown took %v", d)
		}
	})
}

func TestNoSASLOnPlaintext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, plainOnly())
		k := s.dial(t)
		for version := range int16(2) {
			resp := k.call(handshakeOf(version, auth.Plain)).(*kmsg.SASLHandshakeResponse)
			if resp.ErrorCode != 34 || len(resp.SupportedMechanisms) != 0 {
				t.Errorf("handshake %d: %+v, want 34 and no mechanisms", version, resp)
			}
		}
		for version := range int16(3) {
			resp := k.call(tokenOf(version, aliceToken)).(*kmsg.SASLAuthenticateResponse)
			if resp.ErrorCode != 34 || resp.ErrorMessage == nil || len(resp.SASLAuthBytes) != 0 {
				t.Errorf("token %d: %+v, want 34 with a message", version, resp)
			}
		}
		k.call(metadataOf(9))
	})
}

// saltedPassword is PBKDF2 of one block, RFC 5802's Hi.
func saltedPassword(mechanism, password string, salt []byte, iterations int) []byte {
	h := sha256.New
	size := sha256.Size
	if mechanism == auth.ScramSHA512 {
		h, size = sha512.New, sha512.Size
	}
	key, err := pbkdf2.Key(h, password, salt, iterations, size)
	if err != nil {
		panic(err)
	}
	return key
}
