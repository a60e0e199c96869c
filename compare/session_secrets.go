package compare

import (
	"regexp"
	"slices"
	"strings"
)

// redaction is what stands in a recorded session for a secret, as text or as bytes.
const redaction = "(redacted)"

// secretFields are the fields that hold a secret whatever their value: tokens of SASL, salted passwords, the passwords
// of delegation tokens, and whole requests that one broker passes on to another.
var secretFields = []string{"authbytes", "salt", "saltedpassword", "hmac", "requestdata", "responsedata"}

// secretConfig finds configs whose value is a secret by their name: those that Kafka takes for passwords, and what is
// named like them.
var secretConfig = regexp.MustCompile(`(?i)passw|passphrase|secret|jaas|credential|keystore\.(key|certificate)|truststore\.cert|private\.?key`)

// mayHoldSecrets are the apis of which a frame that does not decode to its end is withheld.
var mayHoldSecrets = []string{"SaslHandshake", "SaslAuthenticate", "CreateTopics", "DescribeConfigs", "AlterConfigs", "IncrementalAlterConfigs",
	"CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken",
	"AlterUserScramCredentials", "Envelope"}

// secrets are the edits that take the secrets out of a message. words takes out the error messages too: those that
// answer a request with a secret may repeat it.
func secrets(root *Node, words bool) edits {
	e := edits{}
	e.redact(root, words, false)
	return e
}

// redact goes through n; sensitive says that n stands in a config that the broker calls so.
func (e edits) redact(n *Node, words, sensitive bool) {
	if c := n.Child("isSensitive"); c != nil {
		sensitive = sensitive || c.Value == true
	}
	secret := sensitive
	if name := n.Child("name"); name != nil && n.Kind == Struct {
		text, _ := name.Value.(string)
		secret = secret || secretConfig.MatchString(text)
	}
	for _, c := range n.Children {
		lower := strings.ToLower(c.Name)
		switch v := c.Value.(type) {
		case string:
			if v != "" && (secret && lower == "value" || words && isText(lower)) {
				e[c] = redaction
			}
		case []byte:
			if v != nil && slices.Contains(secretFields, lower) {
				e[c] = []byte(redaction)
			}
		}
		e.redact(c, words, sensitive)
	}
}

// guard decides, frame by frame of one connection, what of it may be kept. It follows SASL as brokers before
// SaslAuthenticate speak it: after SaslHandshake v0 come bare tokens, until the next request.
type guard struct {
	*dialogue
	tokens    int  // how many frames of the client are tokens for certain
	exchange  bool // tokens are exchanged: nothing that the broker sends is kept
	handshake bool // SaslHandshake v0 is not answered yet
	redacted  map[int32]bool
}

func newGuard() *guard { return &guard{dialogue: newDialogue(), redacted: map[int32]bool{}} }

// request returns what is kept of a frame from the client, and the message when it is one.
func (g *guard) request(frame []byte) (kept []byte, flags EventFlags, m *message) {
	if g.tokens > 0 {
		g.tokens--
		return nil, Withheld, nil
	}
	m, err := g.dialogue.request(frame, true)
	if err != nil {
		return nil, Withheld, nil
	}
	g.exchange = false
	if m.api.Name == "SaslHandshake" && m.call.version == 0 {
		g.handshake, g.exchange = true, true
		g.tokens = tokensOf(m)
	}
	kept, flags = g.keep(m, false)
	g.redacted[m.correlation] = flags != 0
	return kept, flags, m
}

// tokensOf is how many tokens a client sends at least after a SaslHandshake; further ones of other mechanisms are told
// from requests by their bytes.
func tokensOf(handshake *message) int {
	if handshake.root != nil {
		if c := handshake.root.Child("mechanism"); c != nil {
			if mechanism, _ := c.Value.(string); strings.HasPrefix(mechanism, "SCRAM-") {
				return 2
			}
		}
	}
	return 1
}

// answer returns what is kept of a frame from the broker, and the message when it is one.
func (g *guard) answer(frame []byte) (kept []byte, flags EventFlags, m *message) {
	if g.exchange && !g.handshake {
		return nil, Withheld, nil
	}
	request, m := g.dialogue.answer(frame, true)
	if m == nil {
		return nil, Withheld, nil
	}
	g.handshake = g.handshake && request.api.Name != "SaslHandshake"
	words := g.redacted[m.correlation]
	delete(g.redacted, m.correlation)
	kept, flags = g.keep(m, words)
	return kept, flags, m
}

func (g *guard) keep(m *message, words bool) (kept []byte, flags EventFlags) {
	header := m.frame[:4]
	if m.isRequest {
		header = m.frame[:8]
	}
	if !m.whole() {
		if slices.Contains(mayHoldSecrets, m.api.Name) {
			return header, Withheld
		}
		return m.frame, 0
	}
	e := secrets(m.root, words)
	if len(e) == 0 {
		return m.frame, 0
	}
	kept, err := m.splice(e)
	if err != nil {
		return header, Withheld
	}
	return kept, Redacted
}
