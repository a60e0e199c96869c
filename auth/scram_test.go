package auth

import (
	"crypto/hmac"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/xdg-go/scram"
)

// credentialOf makes what a server keeps of a password.
func credentialOf(t *testing.T, mechanism, password string, iterations int) ScramCredential {
	t.Helper()
	c, err := scram.HashGeneratorFcn(scramHash(mechanism)).NewClient("x", password, "")
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.GetStoredCredentialsWithError(scram.KeyFactors{Salt: "some salt", Iters: iterations})
	if err != nil {
		t.Fatal(err)
	}
	return ScramCredential{Salt: []byte(s.Salt), StoredKey: s.StoredKey, ServerKey: s.ServerKey, Iterations: s.Iters}
}

func testDecoy() *ScramDecoy { return NewScramDecoy([32]byte{1}) }

// converse runs a client against an exchange and returns how many tokens the client sent, and both errors.
func converse(t *testing.T, x *Exchange, mechanism, user, password, authzid string) (tokens int, server, client error) {
	t.Helper()
	c, err := scram.HashGeneratorFcn(scramHash(mechanism)).NewClient(user, password, authzid)
	if err != nil {
		t.Fatal(err)
	}
	talk := c.NewConversation()
	challenge := ""
	for !talk.Done() {
		token, err := talk.Step(challenge)
		if err != nil {
			return tokens, nil, err
		}
		if token == "" {
			break
		}
		tokens++
		answer, err := x.Next([]byte(token))
		if err != nil {
			return tokens, err, nil
		}
		challenge = string(answer)
	}
	return tokens, nil, nil
}

func TestScram(t *testing.T) {
	for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
		users := map[string]ScramCredential{
			"alice":    credentialOf(t, mechanism, "secret", 4096),
			"a,b=c":    credentialOf(t, mechanism, "p,=w", 8192),
			"élan été": credentialOf(t, mechanism, "naïve", 4096),
		}
		lookup := func(user string) (ScramCredential, bool) {
			c, ok := users[user]
			return c, ok
		}
		for _, c := range []struct {
			user, password, authzid string
			ok                      bool
		}{
			{"alice", "secret", "", true},
			{"alice", "secret", "alice", true},
			{"a,b=c", "p,=w", "", true},
			{"élan été", "naïve", "", true},
			{"alice", "wrong", "", false}, // SEC-04
			{"nobody", "secret", "", false},
			{"nobody", "", "", false},
			{"Alice", "secret", "", false},
		} {
			x, err := NewScram(mechanism, lookup, testDecoy())
			if err != nil {
				t.Fatal(err)
			}
			tokens, server, client := converse(t, x, mechanism, c.user, c.password, c.authzid)
			if c.ok && (server != nil || client != nil || !x.Done() || x.User() != c.user) {
				t.Errorf("%s, %q: server %v, client %v, done %v as %q", mechanism, c.user, server, client, x.Done(), x.User())
			}
			if !c.ok && (!errors.Is(server, ErrInvalidCredentials) || x.Done() || x.User() != "") {
				t.Errorf("%s, %q: server %v, done %v as %q, want ErrInvalidCredentials", mechanism, c.user, server, x.Done(), x.User())
			}
			if tokens != 2 {
				t.Errorf("%s, %q: ended at token %d, want 2 for every user", mechanism, c.user, tokens)
			}
		}
		x, err := NewScram(mechanism, lookup, testDecoy())
		if err != nil {
			t.Fatal(err)
		}
		_, server, _ := converse(t, x, mechanism, "alice", "secret", "bob")
		if r, ok := errors.AsType[*Refusal](server); !ok {
			t.Errorf("%s as somebody else: %v, want a refusal", mechanism, server)
		} else if strings.Contains(r.Reason, "bob") {
			t.Errorf("refusal %q says what the client sent", r.Reason)
		}
	}
}

func TestScramFirstMessages(t *testing.T) {
	credential := credentialOf(t, ScramSHA256, "secret", 4096)
	for _, c := range []struct {
		token string
		ok    bool
	}{
		{"n,,n=alice,r=abc", true},
		{"n,,n=alice,r=abc,ext=1", true},
		{"n,a=alice,n=alice,r=abc", true},
		{"y,,n=alice,r=abc", false},
		{"p=tls-unique,,n=alice,r=abc", false},
		{"n,,n=ali=ce,r=abc", false},
		{"n,,m=x,n=alice,r=abc", false},
		{"n,,n=alice", false},
		{"", false},
		{"\x00alice\x00secret", false},
	} {
		x, err := NewScram(ScramSHA256, func(string) (ScramCredential, bool) { return credential, true }, testDecoy())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := x.Next([]byte(c.token))
		if (err == nil) != c.ok || c.ok && !strings.HasPrefix(string(answer), "r=abc") || x.Done() {
			t.Errorf("%q: %q, %v, done %v; want it taken: %v", c.token, answer, err, x.Done(), c.ok)
		}
		if err != nil && !errors.Is(err, ErrInvalidCredentials) {
			t.Errorf("%q: %v, want ErrInvalidCredentials", c.token, err)
		}
	}
}

// TestScramDecoyLooksLikeAUser asks for users who are not there: each has a challenge that stays, and an own one.
func TestScramDecoyLooksLikeAUser(t *testing.T) {
	challenge := func(mechanism, user, more string) string {
		x, err := NewScram(mechanism, func(string) (ScramCredential, bool) { return ScramCredential{}, false }, testDecoy())
		if err != nil {
			t.Fatal(err)
		}
		answer, err := x.Next([]byte("n,,n=" + user + ",r=abc" + more))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(answer), ",")
		return rest
	}
	a, again, b := challenge(ScramSHA256, "a", ""), challenge(ScramSHA256, "a", ""), challenge(ScramSHA256, "b", "")
	if a != again || a == b || a == challenge(ScramSHA512, "a", "") || !strings.HasSuffix(a, ",i=4096") {
		t.Errorf("challenges %q, %q for the same user, %q for another", a, again, b)
	}
	// Salts that Kafka's tools make are text: a user whose own is not would be known by it for one who is not there.
	for i := range 200 {
		encoded, _, _ := strings.Cut(strings.TrimPrefix(challenge(ScramSHA256, fmt.Sprint("user-", i), ""), "s="), ",")
		salt, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || len(salt) < 20 || len(salt) > 26 || strings.Trim(string(salt), "0123456789abcdefghijklmnopqrstuvwxyz") != "" {
			t.Fatalf("salt %q, want some 26 digits and small letters", salt)
		}
	}
	// A delegation token is asked for, of which there are none: not a user of that name either.
	if token := challenge(ScramSHA256, "a", ",tokenauth=true"); token != a {
		t.Errorf("challenge %q for a delegation token, want that of nobody, %q", token, a)
	}
}

func TestDerivedCredentialIsThatOfTheClient(t *testing.T) {
	for _, mechanism := range []string{ScramSHA256, ScramSHA512} {
		want := credentialOf(t, mechanism, "secret", 4096)
		// The vector of the client's own derivation: its salted password is not exported, so the proof is the log-in.
		salted := saltedPassword(mechanism, "secret", want.Salt, want.Iterations)
		got := DeriveScramCredential(mechanism, want.Salt, salted, want.Iterations)
		if string(got.StoredKey) != string(want.StoredKey) || string(got.ServerKey) != string(want.ServerKey) {
			t.Errorf("%s: keys differ from those of the client's library", mechanism)
		}
		if text := fmt.Sprintf("%v %+v %#v %s", got, got, got, got); strings.Trim(text, " []hiden") != "" {
			t.Errorf("%s: printed as %q", mechanism, text)
		}
	}
	if _, err := NewScram("SCRAM-SHA-1", nil, nil); err == nil {
		t.Error("SCRAM-SHA-1 is served")
	}
}

// saltedPassword is PBKDF2 with one block, as RFC 5802's Hi.
func saltedPassword(mechanism, password string, salt []byte, iterations int) []byte {
	u := hmacOf(mechanism, []byte(password), append(append([]byte{}, salt...), 0, 0, 0, 1))
	out := append([]byte{}, u...)
	for range iterations - 1 {
		u = hmacOf(mechanism, []byte(password), u)
		for i := range out {
			out[i] ^= u[i]
		}
	}
	return out
}

func hmacOf(mechanism string, key, text []byte) []byte {
	m := hmac.New(scramHash(mechanism), key)
	m.Write(text)
	return m.Sum(nil)
}

// FuzzExchange sends tokens to both kinds of exchange: nobody gets in without the password.
func FuzzExchange(f *testing.F) {
	f.Add([]byte("n,,n=alice,r=abc"), []byte("c=biws,r=abc,p=AAAA"))
	f.Add([]byte("\x00alice\x00wrong"), []byte("n,a=,n=,r="))
	f.Add([]byte("n,,n==2C=3D,r=x,tokenauth=true"), []byte(",,,"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		credential := ScramCredential{Salt: []byte("s"), StoredKey: make([]byte, 32), ServerKey: make([]byte, 32), Iterations: 4096}
		x, err := NewScram(ScramSHA256, func(user string) (ScramCredential, bool) { return credential, user == "alice" }, testDecoy())
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range []*Exchange{x, NewPlain(passwords(map[string]string{"alice": "a password that the corpus does not have"}))} {
			for _, token := range [][]byte{first, second} {
				if answer, err := x.Next(token); err != nil && answer != nil {
					t.Errorf("%q: %q with error %v", token, answer, err)
				}
			}
			if x.Done() || x.User() != "" {
				t.Errorf("%q, %q: in as %q", first, second, x.User())
			}
		}
	})
}
