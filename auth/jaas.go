package auth

import (
	"errors"
	"fmt"
	"strings"
)

// LoginModule is the one entry of a sasl.jaas.config: which mechanism it is for, and its options.
type LoginModule struct {
	Name    string // as org.apache.kafka.common.security.plain.PlainLoginModule
	Options map[string]string
}

// PlainLoginModule is the login module of PLAIN.
const PlainLoginModule = "org.apache.kafka.common.security.plain.PlainLoginModule"

// PlainUsers returns the passwords of the users that the module names, as user_NAME="PASSWORD", by name.
// Kafka: PlainServerCallbackHandler.
func (m *LoginModule) PlainUsers() map[string]string {
	users := map[string]string{}
	for key, value := range m.Options {
		if name, ok := strings.CutPrefix(key, "user_"); ok && name != "" {
			users[name] = value
		}
	}
	return users
}

// ParseJAAS reads the value of a sasl.jaas.config:
//
//	MODULE required NAME="VALUE" …;
//
// Words are of letters, digits and .-_$, all else stands in single or double quotes, with a backslash before a quote.
// Texts of errors quote nothing of the text but the module's name: where quotes are misplaced, a piece of a secret stands
// where something else should.
//
// Kafka: JaasConfig, JaasContext.load; java.io.StreamTokenizer.
func ParseJAAS(text string) (*LoginModule, error) {
	t := jaasText{rest: text}
	name, err := t.word("a login module")
	if err != nil {
		return nil, err
	}
	flag, err := t.word("a control flag after the login module")
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(flag) {
	case "required", "requisite", "sufficient", "optional":
	default:
		return nil, errors.New("no control flag after the login module, want required, requisite, sufficient or optional")
	}
	m := &LoginModule{Name: name, Options: map[string]string{}}
	for {
		if t.take(';') {
			break
		}
		key, err := t.word("an option or a semicolon")
		if err != nil {
			return nil, err
		}
		if !t.take('=') {
			return nil, fmt.Errorf("option %d has no value", len(m.Options)+1)
		}
		if m.Options[key], err = t.word(fmt.Sprintf("the value of option %d", len(m.Options)+1)); err != nil {
			return nil, err
		}
	}
	if t.skip(); t.rest != "" {
		return nil, errors.New("more than one login module, want one")
	}
	return m, nil
}

// jaasText is what is left of a text.
type jaasText struct{ rest string }

// skip skips blanks and comments.
func (t *jaasText) skip() {
	for {
		t.rest = strings.TrimLeft(t.rest, " \t\r\n\f\v")
		switch {
		case strings.HasPrefix(t.rest, "//"):
			_, t.rest, _ = strings.Cut(t.rest, "\n")
		case strings.HasPrefix(t.rest, "/*"):
			_, t.rest, _ = strings.Cut(t.rest, "*/")
		default:
			return
		}
	}
}

// take takes a single character if it comes next.
func (t *jaasText) take(c byte) bool {
	t.skip()
	if t.rest == "" || t.rest[0] != c {
		return false
	}
	t.rest = t.rest[1:]
	return true
}

// word takes a word or a quoted text; want says what is missing when neither comes.
func (t *jaasText) word(want string) (string, error) {
	t.skip()
	if t.rest == "" {
		return "", fmt.Errorf("the end, want %s", want)
	}
	if q := t.rest[0]; q == '"' || q == '\'' {
		return t.quoted(q)
	}
	n := 0
	for n < len(t.rest) && wordByte(t.rest[n]) {
		n++
	}
	if n == 0 {
		return "", fmt.Errorf("a character of no word, want %s", want)
	}
	word := t.rest[:n]
	t.rest = t.rest[n:]
	return word, nil
}

func wordByte(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte(".-_$", c) >= 0 || c >= 0x80
}

// quoted takes a text in quotes q.
func (t *jaasText) quoted(q byte) (string, error) {
	var b strings.Builder
	for i := 1; i < len(t.rest); i++ {
		switch c := t.rest[i]; c {
		case q:
			t.rest = t.rest[i+1:]
			return b.String(), nil
		case '\n', '\r':
			return "", errors.New("a line ends inside quotes")
		case '\\':
			if i++; i == len(t.rest) {
				return "", errors.New("the end inside quotes")
			}
			b.WriteByte(unescaped(t.rest[i]))
		default:
			b.WriteByte(c)
		}
	}
	return "", errors.New("the end inside quotes")
}

// unescaped is what stands for a backslash and c.
func unescaped(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 't':
		return '\t'
	case 'r':
		return '\r'
	}
	return c
}
