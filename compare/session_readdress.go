package compare

import (
	"math"
	"net"
	"strconv"
)

// readdress are the edits that put other addresses in the place of those by which an answer names brokers: wherever a
// struct has a host and a port, in whatever answer (Metadata, FindCoordinator, DescribeCluster, the node endpoints of
// Produce, Fetch and their like). through gives the address that stands for another.
func readdress(root *Node, through func(addr string) (host string, port int64, err error)) (edits, error) {
	e := edits{}
	err := endpoints(root, func(addr string, host, port *Node) error {
		h, p, err := through(addr)
		e[host], e[port] = h, p
		return err
	})
	return e, err
}

// endpoints visits the addresses in a message, HOST:PORT and the nodes of both.
func endpoints(n *Node, visit func(addr string, host, port *Node) error) error {
	if host, port := n.Child("host"), n.Child("port"); n.Kind == Struct && host != nil && port != nil {
		h, isText := host.Value.(string)
		p, isNumber := port.Value.(int64)
		if isText && isNumber && h != "" && p > 0 {
			if err := visit(net.JoinHostPort(h, strconv.FormatInt(p, 10)), host, port); err != nil {
				return err
			}
		}
	}
	for _, c := range n.Children {
		if err := endpoints(c, visit); err != nil {
			return err
		}
	}
	return nil
}

// onlyBroker returns the address of the one broker that an answer about the cluster names; "" when it names several, or
// is another answer.
func onlyBroker(m *message) string {
	if m.api.Name != "Metadata" && m.api.Name != "DescribeCluster" {
		return ""
	}
	only, n := "", 0
	_ = endpoints(m.root, func(addr string, _, _ *Node) error {
		only = addr
		n++
		return nil
	})
	if n != 1 {
		return ""
	}
	return only
}

// withinSchema are the edits that keep a client at versions of requests that this tool can read.
func withinSchema(m *message) edits {
	e := edits{}
	if m.api.Key != apiVersionsKey || m.root.Child("apiKeys") == nil {
		return e
	}
	for _, k := range m.root.Child("apiKeys").Children {
		key, highest := k.int("apiKey"), k.Child("maxVersion")
		if key < 0 || key > math.MaxInt16 || highest == nil {
			continue
		}
		api, ok := APIByKey(int16(key))
		if ok && k.int("maxVersion") > int64(api.Valid.Max) && k.int("minVersion") <= int64(api.Valid.Max) {
			e[highest] = int64(api.Valid.Max)
		}
	}
	return e
}
