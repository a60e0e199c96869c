package compare

import (
	"bytes"
	"encoding/binary"
	"io"
	"slices"
	"strings"
	"testing"
)

// requestFrame is a request as a client sends it, without its length.
func requestFrame(t testing.TB, name string, version int16, correlation int32, values map[string]any) []byte {
	t.Helper()
	api, ok := APINamed(name)
	if !ok {
		t.Fatalf("no api %s", name)
	}
	body, err := encodeBody(api.Request, values, version, api.Flexible.Has(version))
	if err != nil {
		t.Fatal(err)
	}
	frame := binary.BigEndian.AppendUint16(nil, uint16(api.Key))
	frame = binary.BigEndian.AppendUint16(frame, uint16(version))
	frame = binary.BigEndian.AppendUint32(frame, uint32(correlation))
	frame = append(frame, 0, 3, 'a', 'p', 'p')
	if api.Flexible.Has(version) {
		frame = append(frame, 0)
	}
	return append(frame, body...)
}

// answerFrame is an answer as a broker sends it, without its length.
func answerFrame(t testing.TB, name string, version int16, correlation int32, values map[string]any) []byte {
	t.Helper()
	api, ok := APINamed(name)
	if !ok {
		t.Fatalf("no api %s", name)
	}
	body, err := encodeBody(api.Response, values, version, api.Flexible.Has(version))
	if err != nil {
		t.Fatal(err)
	}
	frame := binary.BigEndian.AppendUint32(nil, uint32(correlation))
	if api.Flexible.Has(version) && api.Key != apiVersionsKey {
		frame = append(frame, 0)
	}
	return append(frame, body...)
}

const secret = "hunter2-correct-horse"

// TestSecretsAreTakenOutOfEveryVersion sends a secret in each field that may hold one, and beside it a value that is
// none.
func TestSecretsAreTakenOutOfEveryVersion(t *testing.T) {
	config := func(name, value string) map[string]any { return map[string]any{"name": name, "value": value} }
	configs := []any{config("ssl.keystore.password", secret), config("sasl.jaas.config", secret), config("retention.ms", "12345")}
	resources := map[string]any{"resources": []any{map[string]any{"resourceType": 4, "resourceName": "1", "configs": configs}}}
	described := []any{map[string]any{"resourceName": "1", "configs": []any{
		map[string]any{"name": "my.client.secret", "value": secret, "synonyms": []any{config("my.client.secret", secret)}}, config("retention.ms", "12345")}}}
	sensitive := []any{map[string]any{"resourceName": "1", "configs": []any{
		map[string]any{"name": "my.pin", "isSensitive": true, "value": secret, "synonyms": []any{config("my.pin", secret)}}, config("retention.ms", "12345")}}}
	for _, c := range []struct {
		api      string
		request  map[string]any
		response map[string]any
		kept     string // what must still be there; "" nothing
	}{
		{"SaslAuthenticate", map[string]any{"authBytes": "\x00user\x00" + secret}, map[string]any{"authBytes": secret}, ""},
		{"AlterConfigs", resources, map[string]any{"responses": []any{map[string]any{"errorCode": 42, "errorMessage": "bad value " + secret, "resourceName": "1"}}}, "12345"},
		{"IncrementalAlterConfigs", resources, nil, "12345"},
		{"CreateTopics", map[string]any{"topics": []any{map[string]any{"name": "credentials", "configs": configs}}}, nil, "12345"},
		{"DescribeConfigs", nil, map[string]any{"results": described}, "12345"},
		{"DescribeConfigs", nil, map[string]any{"results": sensitive}, "12345"},
		{"AlterUserScramCredentials", map[string]any{"upsertions": []any{map[string]any{"name": "alice", "salt": secret, "saltedPassword": secret}}}, nil, "alice"},
		{"CreateDelegationToken", nil, map[string]any{"hmac": secret}, ""},
		{"DescribeDelegationToken", nil, map[string]any{"tokens": []any{map[string]any{"hmac": secret}}}, ""},
		{"RenewDelegationToken", map[string]any{"hmac": secret}, nil, ""},
		{"ExpireDelegationToken", map[string]any{"hmac": secret}, nil, ""},
	} {
		api, _ := APINamed(c.api)
		for v := api.Valid.Min; v <= api.Valid.Max; v++ {
			g := newGuard()
			request, response := requestFrame(t, c.api, v, 1, c.request), answerFrame(t, c.api, v, 1, c.response)
			had := bytes.Contains(request, []byte(secret))
			keptRequest, requestFlags, m := g.request(request)
			keptAnswer, answerFlags, a := g.answer(response)
			if m == nil || a == nil || requestFlags&Withheld != 0 || answerFlags&Withheld != 0 {
				t.Errorf("%s v%d: withheld: request %v, answer %v; want both read", c.api, v, requestFlags, answerFlags)
				continue
			}
			if bytes.Contains(keptRequest, []byte(secret)) || bytes.Contains(keptAnswer, []byte(secret)) {
				t.Errorf("%s v%d: the secret is kept in %q or %q", c.api, v, keptRequest, keptAnswer)
			}
			if had != (requestFlags == Redacted) {
				t.Errorf("%s v%d: got flags %v for a request with a secret: %v", c.api, v, requestFlags, had)
			}
			if c.kept != "" && !bytes.Contains(append(keptRequest, keptAnswer...), []byte(c.kept)) {
				t.Errorf("%s v%d: %q is gone from %q and %q", c.api, v, c.kept, keptRequest, keptAnswer)
			}
			if again, err := parseRequest(keptRequest, true); err != nil || !again.whole() {
				t.Errorf("%s v%d: what is kept of the request does not decode: %v", c.api, v, err)
			}
		}
	}
}

// TestFramesThatMayHoldSecretsAreWithheld cuts requests short, so that their fields cannot be found.
func TestFramesThatMayHoldSecretsAreWithheld(t *testing.T) {
	values := map[string]any{"resources": []any{map[string]any{"configs": []any{map[string]any{"name": "password", "value": secret}}}}}
	whole := requestFrame(t, "IncrementalAlterConfigs", 1, 5, values)
	newer := slices.Clone(whole)
	newer[3] = 99
	for name, frame := range map[string][]byte{
		"cut":                   whole[:len(whole)-2],
		"with more than fields": append(slices.Clone(whole), secret...),
		"of a newer version":    newer,
		"of an unknown api":     append([]byte{0x7f, 0x7f, 0, 0, 0, 0, 0, 5, 0xff, 0xff}, secret...),
		"too short":             []byte(secret)[:5],
	} {
		kept, flags, _ := newGuard().request(frame)
		if flags != Withheld || len(kept) > 8 || bytes.Contains(kept, []byte(secret)) {
			t.Errorf("%s: got flags %v and %q, want it withheld", name, flags, kept)
		}
	}
}

// TestBareTokensOfSASLAreWithheld follows clients that authenticate as before SaslAuthenticate: SaslHandshake v0, then
// tokens without a header.
func TestBareTokensOfSASLAreWithheld(t *testing.T) {
	for _, c := range []struct {
		mechanism        string
		client, fromThem []string // tokens
	}{
		{"PLAIN", []string{"\x00user\x00" + secret}, []string{""}},
		// A token that looks like a request of Metadata.
		{"SCRAM-SHA-256", []string{"n,,n=user,r=" + secret, "\x00\x03\x00\x01\x00\x00\x00\x09\xff\xff\x00\x00\x00\x00"}, []string{"r=" + secret, "\x00\x00\x00\x01v=" + secret}},
		{"GSSAPI", []string{"\x60\x82" + secret, "", "\x05\x04" + secret}, []string{"\x60" + secret, "\x05\x04" + secret}},
	} {
		g := newGuard()
		if kept, flags, m := g.request(requestFrame(t, "SaslHandshake", 0, 1, map[string]any{"mechanism": c.mechanism})); m == nil || flags != 0 || kept == nil {
			t.Errorf("%s: SaslHandshake v0: got flags %v, want it kept", c.mechanism, flags)
		}
		if _, flags, m := g.answer(answerFrame(t, "SaslHandshake", 0, 1, map[string]any{"mechanisms": []any{c.mechanism}})); m == nil || flags != 0 {
			t.Errorf("%s: answer to SaslHandshake v0: got flags %v, want it kept", c.mechanism, flags)
		}
		for i := range c.client {
			if kept, flags, _ := g.request([]byte(c.client[i])); flags != Withheld || len(kept) != 0 {
				t.Errorf("%s: token %d of the client: got flags %v and %q, want it withheld", c.mechanism, i, flags, kept)
			}
			if i < len(c.fromThem) {
				if kept, flags, _ := g.answer([]byte(c.fromThem[i])); flags != Withheld || len(kept) != 0 {
					t.Errorf("%s: token %d of the broker: got flags %v and %q, want it withheld", c.mechanism, i, flags, kept)
				}
			}
		}
		if _, flags, m := g.request(requestFrame(t, "Metadata", 4, 2, map[string]any{"topics": nil})); m == nil || flags != 0 {
			t.Errorf("%s: Metadata afterwards: got flags %v, want it kept", c.mechanism, flags)
		}
		if _, flags, m := g.answer(answerFrame(t, "Metadata", 4, 2, nil)); m == nil || flags != 0 {
			t.Errorf("%s: answer to Metadata afterwards: got flags %v, want it kept", c.mechanism, flags)
		}
	}
}

func TestSecretConfigsAreToldByTheirNames(t *testing.T) {
	for name, want := range map[string]bool{
		"ssl.key.password": true, "ssl.keystore.key": true, "ssl.truststore.certificates": true, "sasl.jaas.config": true,
		"listener.name.x.plain.sasl.jaas.config": true, "delegation.token.secret.key": true, "basic.auth.credentials.source": true,
		"retention.ms": false, "cleanup.policy": false, "ssl.keystore.type": false, "compression.type": false,
	} {
		if got := secretConfig.MatchString(strings.ToUpper(name)); got != want {
			t.Errorf("%s: got secret %v, want %v", name, got, want)
		}
	}
}

// TestReplaySaysThatSecretsAreMissing replays a request whose secret was redacted.
func TestReplaySaysThatSecretsAreMissing(t *testing.T) {
	request := requestFrame(t, "IncrementalAlterConfigs", 1, 1, map[string]any{"resources": []any{
		map[string]any{"resourceType": 4, "configs": []any{map[string]any{"name": "ssl.key.password", "value": redaction}}}}})
	session := sessionFile([]*Event{
		{Number: 1, Kind: Began, Broker: "b:1", Product: "other"},
		{Number: 2, Kind: Opened, Connection: 1, Broker: "b:1"},
		{Number: 3, Kind: RequestSent, Connection: 1, Flags: Redacted, Frame: request},
	})
	var said []string
	o := ReplayOptions{A: fakeBroker(t, func() []string { return nil }), Name: "s", Log: func(line string) { said = append(said, line) }}
	if _, err := Replay(t.Context(), bytes.NewReader(session), o); err != nil {
		t.Fatal(err)
	}
	if want := "1 requests are sent with (redacted)"; !strings.Contains(strings.Join(said, "\n"), want) {
		t.Errorf("got remarks %q, want %q", said, want)
	}
}

// FuzzGuard takes arbitrary frames as a request and its answer: what is kept is the frame, or decodes as it did, or is a
// header; printing and replaying it ends without a panic.
func FuzzGuard(f *testing.F) {
	f.Add(requestFrame(f, "SaslAuthenticate", 2, 1, map[string]any{"authBytes": secret}), answerFrame(f, "SaslAuthenticate", 2, 1, nil))
	f.Add(requestFrame(f, "CreateTopics", 7, 1, map[string]any{"topics": []any{map[string]any{"name": "t"}}}), answerFrame(f, "CreateTopics", 7, 1, nil))
	f.Add(requestFrame(f, "SaslHandshake", 0, 1, map[string]any{"mechanism": "PLAIN"}), []byte(secret))
	f.Fuzz(func(t *testing.T, request, reply []byte) {
		g := newGuard()
		check := func(what string, frame, kept []byte, flags EventFlags, m *message) {
			switch {
			case flags == 0 && !bytes.Equal(kept, frame), flags == Withheld && len(kept) > 8:
				t.Fatalf("%s %x: got flags %v and %x", what, frame, flags, kept)
			case flags == Redacted && (m == nil || !m.whole()):
				t.Fatalf("%s %x: redacted, and does not decode", what, frame)
			}
			if m != nil && m.root != nil {
				_ = PrintFrame(io.Discard, kept, m.isRequest, m.api, m.call.version, FramesOptions{Deep: true})
			}
		}
		kept, flags, m := g.request(request)
		check("request", request, kept, flags, m)
		if m != nil {
			if again, err := parseRequest(kept, true); flags == Redacted && (err != nil || !again.whole()) {
				t.Fatalf("request %x: %x, what is kept of it, does not decode: %v", request, kept, err)
			}
			if _, err := (rebinding{}).edits(m); err != nil {
				t.Fatalf("request %x: %v", request, err)
			}
		}
		kept, flags, a := g.answer(reply)
		check("answer", reply, kept, flags, a)
		if m != nil && a != nil && a.root != nil {
			rebinding{}.learn(m.root, a.root, a.root)
			refused(a.api, a.root)
		}
	})
}
