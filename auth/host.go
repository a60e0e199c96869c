package auth

import (
	"net/netip"
	"strconv"
	"strings"
)

// Caller is who asks, and from where.
type Caller struct {
	// Principal as Kafka spells it, such as "User:ANONYMOUS".
	Principal string

	host string
	addr netip.Addr // of host; zero when that is no address
}

// NewCaller returns the caller of that principal at an address. An IPv4 address in IPv6 form is an IPv4 address.
func NewCaller(principal string, addr netip.Addr) Caller {
	addr = addr.Unmap()
	return Caller{Principal: principal, host: HostText(addr), addr: addr.WithZone("")}
}

// HostText is an address as Kafka spells it, which is as Java does: an IPv6 address has all of its eight numbers, and no
// address is "". Java: InetAddress.getHostAddress.
func HostText(addr netip.Addr) string {
	if !addr.Is6() {
		if !addr.IsValid() {
			return ""
		}
		return addr.String()
	}
	b := addr.As16()
	out := make([]byte, 0, 39)
	for i := 0; i < len(b); i += 2 {
		if i > 0 {
			out = append(out, ':')
		}
		out = strconv.AppendUint(out, uint64(b[i])<<8|uint64(b[i+1]), 16)
	}
	if zone := addr.Zone(); zone != "" {
		out = append(append(out, '%'), zone...)
	}
	return string(out)
}

// ValidHost reports whether an ACL may have that host: a network has to be one, and any other text is taken as it is.
// Kafka: AclControlManager.validateHostPattern.
func ValidHost(host string) bool {
	if !strings.Contains(host, "/") {
		return host != ""
	}
	_, ok := parseNetwork(host)
	return ok
}

// parseNetwork parses a network such as 10.0.0.0/8, the way Kafka does: the address may be any of the network's, its
// numbers may have leading zeros, and an IPv6 address may stand in brackets. Kafka: CidrUtils.
func parseNetwork(text string) (netip.Prefix, bool) {
	address, length, ok := strings.Cut(text, "/")
	if !ok {
		return netip.Prefix{}, false
	}
	if !strings.Contains(text, ":") {
		return parseNetwork4(address, length)
	}
	bits, err := strconv.ParseInt(length, 10, 32)
	if err != nil {
		return netip.Prefix{}, false
	}
	if strings.HasPrefix(address, "[") && strings.HasSuffix(address, "]") {
		address = address[1 : len(address)-1]
	}
	addr, err := netip.ParseAddr(address)
	if err != nil || !addr.Is6() || addr.Is4In6() || addr.Zone() != "" {
		return netip.Prefix{}, false
	}
	p, err := addr.Prefix(int(bits))
	return p, err == nil
}

func parseNetwork4(address, length string) (netip.Prefix, bool) {
	parts := strings.Split(address, ".")
	if len(parts) != 4 {
		return netip.Prefix{}, false
	}
	var octets [4]byte
	for i, part := range parts {
		n, ok := decimal(part, 3)
		if !ok || n > 255 {
			return netip.Prefix{}, false
		}
		octets[i] = byte(n)
	}
	bits, ok := decimal(length, 2)
	if !ok {
		return netip.Prefix{}, false
	}
	p, err := netip.AddrFrom4(octets).Prefix(bits)
	return p, err == nil
}

// decimal parses a number of one to so many digits.
func decimal(text string, digits int) (int, bool) {
	if text == "" || len(text) > digits {
		return 0, false
	}
	n := 0
	for _, c := range []byte(text) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int(c-'0')
	}
	return n, true
}

// inNetwork reports whether the caller's address lies in a network. The address of nobody, 0.0.0.0, lies in none.
func (c *Caller) inNetwork(p netip.Prefix) bool {
	return p.Contains(c.addr) && c.addr != netip.IPv4Unspecified()
}
