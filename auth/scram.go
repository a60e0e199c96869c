package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/sha512"
	"fmt"
	"hash"
	"math/big"
	"strings"

	"github.com/xdg-go/scram"
)

// The iterations that a SCRAM credential may have. Kafka: ScramMechanism, ScramControlManager.
const (
	MinScramIterations = 4096
	MaxScramIterations = 16384
)

// ScramCredential is what a server keeps of a user's password. It proves a client, and lets nobody log in as one.
type ScramCredential struct {
	Salt, StoredKey, ServerKey []byte
	Iterations                 int
}

// String hides the keys from logs.
func (ScramCredential) String() string { return "[hidden]" }

// GoString is String, for %#v.
func (c ScramCredential) GoString() string { return c.String() }

// scramHash returns the hash of a SCRAM mechanism, nil for other mechanisms.
func scramHash(mechanism string) func() hash.Hash {
	switch mechanism {
	case ScramSHA256:
		return sha256.New
	case ScramSHA512:
		return sha512.New
	}
	return nil
}

// DeriveScramCredential makes a credential from a salted password, which it does not keep. The mechanism is one of
// SCRAM. Kafka: ScramControlManager.finishUpsertion; RFC 5802, section 3.
func DeriveScramCredential(mechanism string, salt, saltedPassword []byte, iterations int) ScramCredential {
	h := scramHash(mechanism)
	sum := func(key []byte, text string) []byte {
		m := hmac.New(h, key)
		m.Write([]byte(text))
		return m.Sum(nil)
	}
	stored := h()
	stored.Write(sum(saltedPassword, "Client Key"))
	return ScramCredential{
		Salt: salt, StoredKey: stored.Sum(nil), ServerKey: sum(saltedPassword, "Server Key"), Iterations: iterations,
	}
}

// ScramDecoy makes up credentials of users that do not exist.
type ScramDecoy struct{ secret [32]byte }

// NewScramDecoy returns a decoy; its secret should be random.
func NewScramDecoy(secret [32]byte) *ScramDecoy { return &ScramDecoy{secret} }

// credential returns the same one for the same user. Nobody has its password.
func (d *ScramDecoy) credential(mechanism, user string) ScramCredential {
	m := hmac.New(sha512.New, d.secret[:])
	m.Write([]byte(mechanism + "\x00" + user))
	sum := m.Sum(nil)
	// The salt looks as the one that Kafka's own tools make: 130 bits as text. Kafka: ScramFormatter.secureRandomString.
	salt := new(big.Int).SetBytes(sum[:17])
	salt.Rsh(salt, 17*8-130)
	return DeriveScramCredential(mechanism, []byte(salt.Text(36)), sum[17:], MinScramIterations)
}

// NewScram begins an exchange of a SCRAM mechanism (RFC 5802), without channel binding. credential returns what is kept
// of a user's password.
//
// Differs from Kafka: a user that is not known is asked for a proof too, of a credential that the decoy makes up, and
// fails where a wrong password does. Kafka refuses at the first token, which tells that there is no such user. What can
// still be told is a user whose credential has other iterations than the least, which those of the decoy have, and, by
// who asks again when the decoy is another, after a restart, one whose salt is not. Delegation tokens are not served:
// such a client is a user who is not known.
//
// Kafka: ScramSaslServer, ScramMessages.
func NewScram(mechanism string, credential func(user string) (ScramCredential, bool), decoy *ScramDecoy) (*Exchange, error) {
	h := scramHash(mechanism)
	if h == nil {
		return nil, fmt.Errorf("%q is no SCRAM mechanism", mechanism)
	}
	known, tokens := false, false
	server, err := scram.HashGeneratorFcn(h).NewServer(func(user string) (scram.StoredCredentials, error) {
		made := decoy.credential(mechanism, user) // for everybody, so that it takes the same time
		var c ScramCredential
		if c, known = credential(user); !known || tokens {
			known, c = false, made
		}
		return scram.StoredCredentials{
			KeyFactors: scram.KeyFactors{Salt: string(c.Salt), Iters: c.Iterations},
			StoredKey:  c.StoredKey, ServerKey: c.ServerKey,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	conversation := server.NewConversation()
	first := true
	x := &Exchange{}
	x.step = func(token []byte) ([]byte, error) {
		text := string(token)
		if first {
			if !strings.HasPrefix(text, "n,") {
				return nil, fmt.Errorf("%w: SCRAM with channel binding", ErrInvalidCredentials)
			}
			tokens = wantsToken(text)
		}
		answer, err := conversation.Step(text)
		switch { // without err's text, which may quote what the client sent
		case err != nil && first:
			return nil, fmt.Errorf("%w: not a first message of SCRAM", ErrInvalidCredentials)
		case err != nil || !conversation.Valid() && !first:
			return nil, fmt.Errorf("%w: no proof of the password", ErrInvalidCredentials)
		case first:
			first = false
			if id := conversation.AuthzID(); id != "" && id != conversation.Username() {
				return nil, &Refusal{"the authorization id is not the user name"}
			}
			return []byte(answer), nil
		case !known:
			return nil, fmt.Errorf("%w: no such user", ErrInvalidCredentials)
		}
		x.user, x.done = conversation.Username(), true
		return []byte(answer), nil
	}
	return x, nil
}

// wantsToken reports whether a client's first message says that it has a delegation token and no password.
func wantsToken(first string) bool {
	for field := range strings.SplitSeq(first, ",") {
		if name, value, ok := strings.Cut(field, "="); ok && name == "tokenauth" && strings.EqualFold(value, "true") {
			return true
		}
	}
	return false
}

// scramTypes are the mechanisms of SCRAM at the index that is their number in requests and in stored records. Kafka:
// ScramMechanism of the admin client.
var scramTypes = [...]string{1: ScramSHA256, 2: ScramSHA512}

// ScramMechanism returns the mechanism of a number.
func ScramMechanism(number int8) (mechanism string, ok bool) {
	if number < 1 || int(number) >= len(scramTypes) {
		return "", false
	}
	return scramTypes[number], true
}

// ScramNumber returns the number of a mechanism, 0 when it is not one of SCRAM.
func ScramNumber(mechanism string) int8 {
	for n, m := range scramTypes {
		if m == mechanism && n > 0 {
			return int8(n)
		}
	}
	return 0
}
