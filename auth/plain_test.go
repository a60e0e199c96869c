package auth

import (
	"errors"
	"runtime"
	"testing"
)

func passwords(users map[string]string) func(string) (string, bool) {
	return func(user string) (string, bool) {
		p, ok := users[user]
		return p, ok
	}
}

func TestPlain(t *testing.T) {
	users := passwords(map[string]string{"alice": "secret", "élan": "naïve", "open": ""})
	const invalid = "invalid user name or password"
	for _, c := range []struct{ token, user, refusal string }{
		{"\x00alice\x00secret", "alice", ""},
		{"alice\x00alice\x00secret", "alice", ""},
		{"\x00élan\x00naïve", "élan", ""},
		{"bob\x00alice\x00secret", "", "the authorization id is not the user name"},
		// A wrong password and a user who is not there look the same, and before the authorization id. SEC-04
		{"bob\x00alice\x00wrong", "", invalid},
		{"\x00alice\x00wrong", "", invalid},
		{"\x00alice\x00secret ", "", invalid},
		{"\x00nobody\x00secret", "", invalid},
		{"\x00nobody\x00wrong", "", invalid},
		{"\x00Alice\x00secret", "", invalid},
		{"\x00\x00secret", "", "no user name"},
		{"\x00alice\x00", "", "no password"},
		{"\x00open\x00", "", "no password"},
		{"\x00open\x00x", "", invalid},
		{"", "", "PLAIN token of 1 parts, want 3"},
		{"alice", "", "PLAIN token of 1 parts, want 3"},
		{"alice\x00secret", "", "PLAIN token of 2 parts, want 3"},
		{"\x00alice\x00secret\x00", "", "PLAIN token of 4 parts, want 3"},
		{"\x00\x00\x00\x00\x00\x00", "", "PLAIN token of 4 parts, want 3"},
	} {
		x := NewPlain(users)
		answer, err := x.Next([]byte(c.token))
		refusal := ""
		if r, ok := errors.AsType[*Refusal](err); ok {
			refusal = r.Reason
		} else if err != nil {
			t.Errorf("%q: error %v, want a refusal", c.token, err)
		}
		if refusal != c.refusal || x.Done() != (c.refusal == "") || x.User() != c.user || len(answer) != 0 {
			t.Errorf("%q: refused %q, done %v, user %q, answer %q; want %q, user %q", c.token, refusal, x.Done(), x.User(), answer, c.refusal, c.user)
		}
		if _, err := x.Next([]byte("\x00alice\x00secret")); !errors.Is(err, ErrInvalidCredentials) {
			t.Errorf("%q: a second token: %v, want ErrInvalidCredentials", c.token, err)
		}
	}
}

// A stranger's token of nothing but separators takes little more than its own bytes.
func TestPlainTokenOfManyParts(t *testing.T) {
	token := make([]byte, 512<<10)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := NewPlain(passwords(nil)).Next(token)
	runtime.ReadMemStats(&after)
	if _, ok := errors.AsType[*Refusal](err); !ok {
		t.Errorf("error %v, want a refusal", err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4*uint64(len(token)) {
		t.Errorf("%d bytes for a token of %d", took, len(token))
	}
}
