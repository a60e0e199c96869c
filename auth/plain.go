package auth

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"strings"
)

// NewPlain begins an exchange of PLAIN (RFC 4616): one token of an authorization id, a user name and a password, with a
// NUL between them. password returns the password of a user.
//
// Kafka: PlainSaslServer.
func NewPlain(password func(user string) (string, bool)) *Exchange {
	x := &Exchange{}
	x.step = func(token []byte) ([]byte, error) {
		// Kafka replaces what is not UTF-8 as Java does.
		tokens := strings.SplitN(strings.ToValidUTF8(string(token), "\uFFFD"), "\x00", 4) // Kafka stops counting there
		if len(tokens) != 3 {
			return nil, &Refusal{fmt.Sprintf("PLAIN token of %d parts, want 3", len(tokens))}
		}
		authorization, user, given := tokens[0], tokens[1], tokens[2]
		if user == "" {
			return nil, &Refusal{"no user name"}
		}
		if given == "" {
			return nil, &Refusal{"no password"}
		}
		want, known := password(user)
		// Hashed, so that neither the length nor whether there is such a user shows in the time that it takes.
		a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(want))
		if subtle.ConstantTimeCompare(a[:], b[:]) != 1 || !known {
			return nil, &Refusal{"invalid user name or password"}
		}
		if authorization != "" && authorization != user {
			return nil, &Refusal{"the authorization id is not the user name"}
		}
		x.user, x.done = user, true
		return nil, nil
	}
	return x
}
