package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kaen-log/gateway/auth"
)

// This file reads what is configured for single listeners: the security protocol of each, and how clients of those with
// SASL prove who they are. All of it holds from the start on; what was changed while the broker ran holds from the next one.
//
// Kafka: AbstractKafkaConfig, ListenerName, SaslChannelBuilder.

// listenerPrefix begins the name of a config of one listener: listener.name.LISTENER.NAME, and for those of a SASL
// mechanism listener.name.LISTENER.MECHANISM.NAME, all of it in lower case.
func listenerPrefix(listener string) string {
	return "listener.name." + strings.ToLower(listener) + "."
}

// saslMechanisms are those that a config may be for; not all of them are served.
var saslMechanisms = []string{auth.Plain, auth.ScramSHA256, auth.ScramSHA512, "GSSAPI", "OAUTHBEARER"}

// ofListener are the configs that have an effect under a listener's prefix. byMechanism says that a mechanism's name may
// stand between; needed, that it must. doc is for a page where the table's row of the config says nothing.
var ofListener = []struct {
	name                string
	byMechanism, needed bool
	doc                 string
}{
	{"connections.max.reauth.ms", true, false, ""},
	{"sasl.enabled.mechanisms", false, false, ""},
	{"sasl.jaas.config", true, true, "For `plain`: who the users are, `org.apache.kafka.common.security.plain.PlainLoginModule required user_NAME=\"PASSWORD\" …;`. For the mechanisms of SCRAM it may be left out: their users are made by AlterUserScramCredentials."},
	{"sasl.server.max.receive.size", false, false, ""},
}

// listenerConfigDef finds the row of the table that a config of one listener overrides, and whether that does anything.
func listenerConfigDef(name string) (d *brokerDef, effect, ok bool) {
	base, ok := listenerConfig(name)
	if !ok {
		return nil, false, false
	}
	withMechanism := false
	if first, rest, ok := strings.Cut(base, "."); ok && slices.Contains(saslMechanisms, strings.ToUpper(first)) {
		base, withMechanism = rest, true
	}
	d, ok = brokerConfigDef(base)
	if !ok {
		return nil, false, false
	}
	for _, o := range ofListener {
		if o.name == base {
			effect = withMechanism && o.byMechanism || !withMechanism && !o.needed
		}
	}
	return d, effect, true
}

// valueFor returns what holds for a listener: its own value of the config, or that of all.
func (c *BrokerConfig) valueFor(listener, name string) string {
	if v, ok := c.values.Load().set[listenerPrefix(listener)+name]; ok {
		return v
	}
	return c.String(name)
}

// The security protocols.
const (
	protocolPlaintext     = "PLAINTEXT"
	protocolSASLPlaintext = "SASL_PLAINTEXT"
	protocolSSL           = "SSL"
	protocolSASLSSL       = "SASL_SSL"
)

// SASLOf returns how clients of a listener prove who they are, nil where they need not. Faults: no security protocol is
// mapped to the listener's name, or one that is not served; the listener's SASL configs are not whole.
//
// Differs from Kafka: JAAS is read from configs only, and SCRAM needs none.
func (c *BrokerConfig) SASLOf(listener string) (*SASL, error) {
	protocol, err := securityProtocol(c.String(protocolMap), listener)
	if err != nil {
		return nil, err
	}
	switch protocol {
	case protocolPlaintext:
		return nil, nil
	case protocolSASLPlaintext:
		return c.newSASL(listener)
	case protocolSSL, protocolSASLSSL:
		return nil, fmt.Errorf("listener %s: security protocol %s is not served yet, want PLAINTEXT or SASL_PLAINTEXT", listener, protocol)
	}
	return nil, fmt.Errorf("%s: %s:%s, want PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL", protocolMap, listener, protocol)
}

// protocolMap is the config that maps names of listeners to security protocols.
const protocolMap = "listener.security.protocol.map"

// securityProtocol looks a listener's name up in a map. Kafka: SocketServerConfigs.listenerListToEndPoints.
func securityProtocol(protocols, listener string) (string, error) {
	for _, entry := range words(protocols) {
		name, protocol, ok := strings.Cut(entry, ":")
		if !ok {
			return "", fmt.Errorf("%s: got %q, want NAME:PROTOCOL", protocolMap, entry)
		}
		if strings.EqualFold(strings.TrimSpace(name), listener) {
			return strings.ToUpper(strings.TrimSpace(protocol)), nil
		}
	}
	return "", fmt.Errorf("%s: no security protocol for listener %s", protocolMap, listener)
}

// checkSameProtocols checks that a change leaves all listeners their security protocols: they are what was bound.
// Kafka: DynamicListenerConfig.validateReconfiguration.
func checkSameProtocols(now, next *brokerValues) error {
	for _, entry := range words(next.text("listeners")) {
		name, _, _ := strings.Cut(entry, "://")
		from, _ := securityProtocol(now.text(protocolMap), name)
		to, err := securityProtocol(next.text(protocolMap), name)
		switch {
		case from == to:
		case err != nil:
			return err
		default:
			return fmt.Errorf("%s: %s for listener %s, which is %s, not to be changed while the broker runs", protocolMap, to, name, from)
		}
	}
	return nil
}

// newSASL reads the SASL configs of a listener.
func (c *BrokerConfig) newSASL(listener string) (*SASL, error) {
	s := &SASL{
		maxFrame: int32(c.number(listener, "sasl.server.max.receive.size")),
		delay:    time.Duration(c.Int("connection.failed.authentication.delay.ms")) * time.Millisecond,
		sessions: map[string]time.Duration{},
	}
	var faults []error
	for _, m := range words(c.valueFor(listener, "sasl.enabled.mechanisms")) {
		if !slices.Contains(s.mechanisms, m) {
			s.mechanisms = append(s.mechanisms, m)
		}
		jaas, err := c.loginModule(listener, m)
		if err != nil {
			faults = append(faults, err)
			continue
		}
		s.sessions[m] = time.Duration(c.number(listener, strings.ToLower(m)+".connections.max.reauth.ms", "connections.max.reauth.ms")) * time.Millisecond
		if m == auth.Plain {
			s.users, err = plainUsers(listener, jaas)
			faults = append(faults, err)
		}
	}
	if len(s.mechanisms) == 0 {
		faults = append(faults, fmt.Errorf("listener %s: sasl.enabled.mechanisms is empty, want at least one", listener))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

// jaasConfig is the name of the config that says who a listener's users of a mechanism are.
func jaasConfig(listener, mechanism string) string {
	return listenerPrefix(listener) + strings.ToLower(mechanism) + ".sasl.jaas.config"
}

// loginModule reads the JAAS config of a mechanism, nil when there is none.
func (c *BrokerConfig) loginModule(listener, mechanism string) (*auth.LoginModule, error) {
	text, ok := c.values.Load().set[jaasConfig(listener, mechanism)]
	if !ok {
		return nil, nil
	}
	m, err := auth.ParseJAAS(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", jaasConfig(listener, mechanism), err)
	}
	return m, nil
}

// plainUsers returns the passwords of the users of PLAIN.
func plainUsers(listener string, m *auth.LoginModule) (map[string]string, error) {
	switch {
	case m == nil:
		return nil, fmt.Errorf("listener %s has PLAIN among its sasl.enabled.mechanisms, but %s does not say who its users are", listener, jaasConfig(listener, auth.Plain))
	case m.Name != auth.PlainLoginModule:
		return nil, fmt.Errorf("%s: login module %s, want %s", jaasConfig(listener, auth.Plain), m.Name, auth.PlainLoginModule)
	}
	return m.PlainUsers(), nil
}

// number returns the first of the names that is set for a listener, and what holds for all by the last name. They cannot
// be changed while the broker runs, and the values were checked.
func (c *BrokerConfig) number(listener string, names ...string) int64 {
	for _, name := range names {
		if v, ok := c.static[listenerPrefix(listener)+name]; ok {
			return mustNumber(name, v)
		}
	}
	return c.Int(names[len(names)-1])
}

// loadDynamicSASL makes what was set for SASL while the broker ran before hold, as far as it can.
func (s *Server) loadDynamicSASL() {
	for i := range s.listeners {
		l := &s.listeners[i]
		if l.SASL == nil {
			continue
		}
		next, err := s.config.SASLOf(l.Name)
		switch {
		case err != nil:
			s.logger.Warn("dynamic SASL configs are not valid and are ignored", "listener", l.Name, "error", err)
		case next != nil:
			l.SASL = next
		}
	}
}
