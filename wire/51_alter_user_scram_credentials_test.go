package wire

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/xdg-go/scram"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/vfs"
)

// scramChange is a deletion, or with iterations an upsertion, of a user's credential.
type scramChange struct {
	user       string
	mechanism  int8
	iterations int32
}

func alterScramOf(changes ...scramChange) *kmsg.AlterUserSCRAMCredentialsRequest {
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	for _, c := range changes {
		if c.iterations == 0 {
			d := kmsg.NewAlterUserSCRAMCredentialsRequestDeletion()
			d.Name, d.Mechanism = c.user, c.mechanism
			req.Deletions = append(req.Deletions, d)
			continue
		}
		u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
		u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = c.user, c.mechanism, c.iterations, []byte("salt"), []byte("salted password")
		req.Upsertions = append(req.Upsertions, u)
	}
	return req
}

// alterScram alters credentials and makes "user code" of the results, in their order.
func (b *broker) alterScram(req *kmsg.AlterUserSCRAMCredentialsRequest) []string {
	b.t.Helper()
	out := []string{}
	for _, r := range ask[*kmsg.AlterUserSCRAMCredentialsResponse](b, req).Results {
		if (r.ErrorCode == 0 || r.ErrorCode == -1) != (r.ErrorMessage == nil) {
			b.t.Errorf("user %q: code %d with message %v", r.User, r.ErrorCode, r.ErrorMessage)
		}
		out = append(out, fmt.Sprintf("%s %d", r.User, r.ErrorCode))
	}
	return out
}

// describeScram makes "user code mechanism:iterations…" of the results, in their order; nil asks for all.
func (b *broker) describeScram(users []string) []string {
	b.t.Helper()
	req := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	for _, name := range users {
		u := kmsg.NewDescribeUserSCRAMCredentialsRequestUser()
		u.Name = name
		req.Users = append(req.Users, u)
	}
	resp := ask[*kmsg.DescribeUserSCRAMCredentialsResponse](b, req)
	if resp.ErrorCode != 0 || resp.ErrorMessage == nil || *resp.ErrorMessage != "" {
		b.t.Errorf("describe %q: code %d", users, resp.ErrorCode)
	}
	out := []string{}
	for _, r := range resp.Results {
		if r.ErrorMessage == nil || (r.ErrorCode == 0) != (*r.ErrorMessage == "") {
			b.t.Errorf("user %q: code %d with message %v", r.User, r.ErrorCode, r.ErrorMessage)
		}
		line := fmt.Sprintf("%s %d", r.User, r.ErrorCode)
		for _, i := range r.CredentialInfos {
			line += fmt.Sprintf(" %d:%d", i.Mechanism, i.Iterations)
		}
		out = append(out, line)
	}
	return out
}

func TestAlterUserScramCredentials(t *testing.T) {
	b := newBroker(t, nil)
	has := func(what string, want ...string) {
		t.Helper()
		if got := b.describeScram(nil); !slices.Equal(got, want) {
			t.Errorf("%s: there is %q, want %q", what, got, want)
		}
	}
	has("at first")
	for _, c := range []struct {
		what    string
		changes []scramChange
		want    []string
		left    []string
	}{
		{"nothing", nil, nil, nil},
		{"two users", []scramChange{{"bob", 1, 4096}, {"ann", 2, 16384}}, []string{"bob 0", "ann 0"}, []string{"ann 0 2:16384", "bob 0 1:4096"}},
		{"another mechanism", []scramChange{{"ann", 1, 8192}}, []string{"ann 0"}, []string{"ann 0 1:8192 2:16384", "bob 0 1:4096"}},
		{"anew", []scramChange{{"ann", 1, 4096}}, []string{"ann 0"}, []string{"ann 0 1:4096 2:16384", "bob 0 1:4096"}},
		{"what cannot be", []scramChange{{"", 1, 4096}, {"few", 1, 4095}, {"many", 1, 16385}, {"none", 0, 4096}, {"high", 3, 4096}, {"less", -1, 4096}, {"cal", 1, 4096}},
			[]string{"cal 0", " 93", "few 93", "many 93", "none 33", "high 33", "less 33"}, []string{"ann 0 1:4096 2:16384", "bob 0 1:4096", "cal 0 1:4096"}},
		{"deletions that cannot be", []scramChange{{"nobody", 1, 0}, {"bob", 2, 0}, {"bob", 1, 0}, {"", 1, 0}, {"ann", 0, 0}, {"cal", 1, 0}},
			[]string{"cal 0", "nobody 91", "bob 91", " 93", "ann 33"}, []string{"ann 0 1:4096 2:16384", "bob 0 1:4096"}},
		{"a user twice", []scramChange{{"ann", 1, 0}, {"ann", 2, 0}, {"ann", 1, 4096}, {"bob", 1, 0}, {"bob", 2, 4096}, {"dee", 1, 4096}, {"dee", 2, 4096}, {"dee", 1, 4096}},
			[]string{"ann 92", "bob 92", "dee 92"}, []string{"ann 0 1:4096 2:16384", "bob 0 1:4096"}},
		{"a user who is missing, and set", []scramChange{{"eve", 1, 0}, {"eve", 1, 4096}}, []string{"eve 91"}, []string{"ann 0 1:4096 2:16384", "bob 0 1:4096"}},
		{"all away", []scramChange{{"bob", 1, 0}, {"ann", 2, 0}}, []string{"bob 0", "ann 0"}, []string{"ann 0 1:4096"}},
	} {
		if got := b.alterScram(alterScramOf(c.changes...)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
		has(c.what, c.left...)
	}
	empty := alterScramOf(scramChange{"ann", 1, 8192}, scramChange{"fay", 1, 4096})
	empty.Upsertions[0].SaltedPassword = nil
	if got, want := b.alterScram(empty), []string{"fay 0", "ann -1"}; !slices.Equal(got, want) {
		t.Errorf("no password: %q, want %q", got, want)
	}
	has("no password", "ann 0 1:4096", "fay 0 1:4096")
}

func TestDescribeUserScramCredentials(t *testing.T) {
	b := newBroker(t, nil)
	b.alterScram(alterScramOf(scramChange{"ann", 2, 4096}, scramChange{"bob", 1, 8192}))
	for _, c := range []struct{ users, want []string }{
		{nil, []string{"ann 0 2:4096", "bob 0 1:8192"}},
		{[]string{"bob", "ann"}, []string{"bob 0 1:8192", "ann 0 2:4096"}},
		{[]string{"nobody", "", "bob"}, []string{"nobody 91", " 91", "bob 0 1:8192"}},
		{[]string{"bob", "ann", "bob", "nobody", "nobody"}, []string{"bob 92", "ann 0 2:4096", "nobody 92"}},
	} {
		if got := b.describeScram(c.users); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.users, got, c.want)
		}
	}
}

func TestTooManyScramCredentialsAtOnce(t *testing.T) {
	b := newBroker(t, nil)
	var many []scramChange
	for i := range 10001 {
		many = append(many, scramChange{fmt.Sprintf("u%d", i), 1, 4096})
	}
	got := b.alterScram(alterScramOf(many...))
	if len(got) != len(many) || got[0] != "u0 -1" {
		t.Errorf("%d results, the first %q; want -1 for each", len(got), got[0])
	}
	if left := b.describeScram(nil); len(left) != 0 {
		t.Errorf("%d users are there", len(left))
	}
}

func TestScramCredentialsThatAreNotWritten(t *testing.T) {
	b := newBroker(t, nil)
	fail := func(o vfs.Op) error {
		if o.Kind == vfs.OpSync {
			return errors.New("disk is gone")
		}
		return nil
	}
	b.onOp.Store(&fail)
	defer b.onOp.Store(nil)
	if got, want := b.alterScram(alterScramOf(scramChange{"bob", 1, 4096}, scramChange{"ann", 1, 4096}, scramChange{"", 1, 4096})), []string{" 56", "ann 56", "bob 56"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if left := b.describeScram(nil); len(left) != 0 {
		t.Errorf("there is %q, which is not on disk", left)
	}
}

// scramLogIn runs a client of SCRAM over a connection and returns the last answer.
func (c *client) scramLogIn(mechanism, user, password string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	hash := scram.SHA256
	if mechanism == auth.ScramSHA512 {
		hash = scram.SHA512
	}
	k, err := hash.NewClient(user, password, "")
	if err != nil {
		c.t.Fatal(err)
	}
	if code := errorOf(c.t, c.call(handshakeOf(1, mechanism))); code != 0 {
		c.t.Fatalf("handshake for %s: code %d", mechanism, code)
	}
	talk, challenge := k.NewConversation(), ""
	for {
		token, err := talk.Step(challenge)
		if err != nil {
			c.t.Fatalf("%s for %s: %v", mechanism, user, err)
		}
		if talk.Done() {
			c.t.Fatalf("%s for %s: done before the server", mechanism, user)
		}
		resp := c.call(tokenOf(2, token)).(*kmsg.SASLAuthenticateResponse)
		challenge = string(resp.SASLAuthBytes)
		if resp.ErrorCode != 0 || strings.HasPrefix(challenge, "v=") {
			if _, err := talk.Step(challenge); resp.ErrorCode == 0 && (err != nil || !talk.Valid()) {
				c.t.Errorf("%s for %s: the server does not know the password: %v", mechanism, user, err)
			}
			return resp
		}
	}
}

// setPassword makes a user of SCRAM as a client does.
func (b *broker) setPassword(mechanism, user, password string) {
	b.t.Helper()
	req := alterScramOf(scramChange{user, auth.ScramNumber(mechanism), 4096})
	req.Upsertions[0].SaltedPassword = saltedPassword(mechanism, password, req.Upsertions[0].Salt, 4096)
	if got := b.alterScram(req); got[0] != user+" 0" {
		b.t.Fatalf("set the password of %s: %s", user, got[0])
	}
}

func TestScramUsersAreServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := newSASLServer(t, plainOnly("sasl.enabled.mechanisms", "SCRAM-SHA-256,SCRAM-SHA-512"))
		s.s.logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		var seen request
		spyOnMetadata(s, &seen)
		for _, mechanism := range []string{auth.ScramSHA256, auth.ScramSHA512} {
			k := s.dial(t)
			if resp := k.scramLogIn(mechanism, "ann", "first"); resp.ErrorCode != 58 {
				t.Errorf("%s before there is a user: code %d", mechanism, resp.ErrorCode)
			}
			k.expectClosed("no user")
			s.setPassword(mechanism, "ann", "first")
			k = s.dial(t)
			if resp := k.scramLogIn(mechanism, "ann", "first"); resp.ErrorCode != 0 || resp.SessionLifetimeMillis != 0 {
				t.Errorf("%s: %+v", mechanism, resp)
			}
			k.call(metadataOf(9))
			if seen.principal != "User:ann" {
				t.Errorf("%s: principal %q", mechanism, seen.principal)
			}
			s.setPassword(mechanism, "ann", "second")
			k.call(metadataOf(9)) // who is in stays in
			var texts []string
			for _, c := range []struct{ user, password string }{{"ann", "first"}, {"nobody", "first"}} { // SEC-04
				k := s.dial(t)
				resp := k.scramLogIn(mechanism, c.user, c.password)
				if resp.ErrorCode != 58 {
					t.Errorf("%s, %s: code %d, want 58", mechanism, c.user, resp.ErrorCode)
				}
				texts = append(texts, *resp.ErrorMessage)
				k.expectClosed("SEC-04")
			}
			if texts[0] != texts[1] || !strings.Contains(texts[0], mechanism) {
				t.Errorf("SEC-04 %s: %q", mechanism, texts)
			}
			if resp := s.dial(t).scramLogIn(mechanism, "ann", "second"); resp.ErrorCode != 0 {
				t.Errorf("%s with the new password: code %d", mechanism, resp.ErrorCode)
			}
		}
		s.stop()
		for _, secret := range []string{"first", "second", "c2FsdA", "salted"} {
			if strings.Contains(log.String(), secret) {
				t.Errorf("the log has %q in it", secret)
			}
		}
	})
}
