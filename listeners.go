package gateway

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/kaen-log/gateway/wire"
)

// Listener is one address to serve on and the address that clients are told.
// Kafka: listeners, advertised.listeners.
type Listener struct {
	// Name is the listener's name, upper case; PLAINTEXT unless configured.
	Name string
	// Address is HOST:PORT to bind; port 0 takes a free one.
	Address string
	// Advertised is HOST:PORT as clients are told in Metadata. "" means the bound
	// address, and a port of 0 in it means the bound port.
	Advertised string

	sasl *wire.SASL // nil without SASL
}

// parseListeners reads Kafka's listeners and advertised.listeners. Listeners
// named in controllers are dropped and returned in dropped: there is no
// controller to talk to. All faults are reported at once.
func parseListeners(listeners, advertised, controllers []string) (out []Listener, dropped []string, err error) {
	var faults []error
	names := map[string]int{}
	isController := func(name string) bool {
		for _, c := range controllers {
			if strings.EqualFold(c, name) {
				return true
			}
		}
		return false
	}
	for _, s := range listeners {
		name, address, err := splitListener(s)
		if err != nil {
			faults = append(faults, fmt.Errorf("listeners: %w", err))
			continue
		}
		if isController(name) {
			dropped = append(dropped, s)
			continue
		}
		if _, twice := names[name]; twice {
			faults = append(faults, fmt.Errorf("listeners: name %s is given twice", name))
			continue
		}
		names[name] = len(out)
		out = append(out, Listener{Name: name, Address: address})
	}
	for _, s := range advertised {
		name, address, err := splitListener(s)
		if err != nil {
			faults = append(faults, fmt.Errorf("advertised.listeners: %w", err))
			continue
		}
		if isController(name) {
			continue
		}
		i, ok := names[name]
		if !ok {
			faults = append(faults, fmt.Errorf("advertised.listeners: %s has no listener of that name", s))
			continue
		}
		if host, _, _ := net.SplitHostPort(address); host == "" || host == "0.0.0.0" || host == "::" {
			faults = append(faults, fmt.Errorf("advertised.listeners: %s: clients cannot connect to host %q, name one they can reach", s, host))
			continue
		}
		out[i].Advertised = address
	}
	if len(out) == 0 && len(faults) == 0 {
		faults = append(faults, errors.New("listeners: none left to serve clients on, want at least one NAME://HOST:PORT"))
	}
	return out, dropped, errors.Join(faults...)
}

// splitListener cuts NAME://HOST:PORT.
func splitListener(s string) (name, address string, err error) {
	name, address, ok := strings.Cut(s, "://")
	if !ok || name == "" {
		return "", "", fmt.Errorf("got %q, want NAME://HOST:PORT", s)
	}
	if err := checkHostPort(address); err != nil {
		return "", "", fmt.Errorf("%s: %w", s, err)
	}
	return strings.ToUpper(name), address, nil
}

// checkHostPort says what is wrong with a HOST:PORT.
func checkHostPort(address string) error {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("got %q, want HOST:PORT", address)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fmt.Errorf("got port %q, want 0 to 65535", port)
	}
	return nil
}

// bound fills in what is only known once l listens on a: the host and port that
// clients are told.
func (l Listener) bound(a net.Addr) (host string, port int32, err error) {
	boundHost, boundPort, err := net.SplitHostPort(a.String())
	if err != nil {
		return "", 0, fmt.Errorf("listener %s: bound address %q: %w", l.Name, a, err)
	}
	host, portText := boundHost, boundPort
	if l.Advertised != "" {
		if host, portText, err = net.SplitHostPort(l.Advertised); err != nil {
			return "", 0, fmt.Errorf("listener %s: advertised address %q: %w", l.Name, l.Advertised, err)
		}
		if portText == "0" {
			portText = boundPort
		}
	} else if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = localName()
	}
	n, err := strconv.Atoi(portText)
	if err != nil {
		return "", 0, fmt.Errorf("listener %s: port %q: %w", l.Name, portText, err)
	}
	return host, int32(n), nil
}
