// Package auth says who a client is and what it may do: the server's side of SASL, access control, client quotas. It
// knows neither the protocol nor the disk: callers hand it tokens, credentials and rules, and it keeps no state of its
// own that outlives the process.
package auth

import (
	"errors"
	"fmt"
)

// The mechanisms that are served, by the names that clients ask for them.
const (
	Plain       = "PLAIN"
	ScramSHA256 = "SCRAM-SHA-256"
	ScramSHA512 = "SCRAM-SHA-512"
)

// ErrInvalidCredentials is what an exchange fails with that has nothing to tell the client: the user is not known, the
// password is wrong, or the token cannot be read. Which of them it was, only the error's text says, for a log.
var ErrInvalidCredentials = errors.New("invalid credentials")

// A Refusal ends an exchange with a text that the client may read.
type Refusal struct{ Reason string }

func (e *Refusal) Error() string { return e.Reason }

// Exchange is the server's side of one SASL exchange. It is not safe for concurrent use.
type Exchange struct {
	step func(token []byte) (answer []byte, err error)
	user string
	done bool
}

// Next takes the client's token and returns the server's answer to it, which may be empty. The error is a *Refusal, or
// wraps ErrInvalidCredentials; after it, and when the exchange is done, there is no next token. The token is not kept.
func (x *Exchange) Next(token []byte) (answer []byte, err error) {
	if x.step == nil {
		return nil, fmt.Errorf("%w: a token after the end of the exchange", ErrInvalidCredentials)
	}
	answer, err = x.step(token)
	if err != nil || x.done {
		x.step = nil
	}
	if err != nil {
		x.user, x.done = "", false
	}
	return answer, err
}

// Done reports whether the client has proved who it is.
func (x *Exchange) Done() bool { return x.done }

// User is the name that the client has proved; "" before that.
func (x *Exchange) User() string {
	if !x.done {
		return ""
	}
	return x.user
}
