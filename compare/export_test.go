package compare

import (
	"context"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Accept has serve called with each connection to an address, beside one another, and waits for them all when the test ends.
func Accept(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			served.Go(func() { serve(c) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		served.Wait()
	})
	return ln.Addr().String()
}

// TopicsWithPrefix lists the topics of a broker that begin so.
func TopicsWithPrefix(ctx context.Context, addr, prefix string) ([]string, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	api, _ := APINamed("Metadata")
	root, err := c.call(ctx, api, 4, map[string]any{"topics": nil})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range root.Child("topics").Children {
		if name, _ := t.Child("name").Value.(string); strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out, nil
}

// GroupsWithPrefix lists the groups of a broker that begin so.
func GroupsWithPrefix(ctx context.Context, addr, prefix string) ([]string, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	api, _ := APINamed("ListGroups")
	root, err := c.call(ctx, api, 0, map[string]any{})
	if err != nil {
		return nil, err
	}
	var out []string
	for _, g := range root.Child("groups").Children {
		if name, _ := g.Child("groupId").Value.(string); strings.HasPrefix(name, prefix) {
			out = append(out, name)
		}
	}
	return out, nil
}

// BrokerConfig is what is set for all brokers under a key; "" when nothing is.
func BrokerConfig(ctx context.Context, addr, key string) (string, error) {
	c, err := dial(ctx, addr)
	if err != nil {
		return "", err
	}
	defer c.Close()
	api, _ := APINamed("DescribeConfigs")
	root, err := c.call(ctx, api, 1, map[string]any{"resources": []any{map[string]any{"resourceType": 4, "resourceName": "", "configurationKeys": []any{key}}}})
	if err != nil {
		return "", err
	}
	config := elementWith(root.Child("results").Children[0].Child("configs"), "name", key)
	if config == nil {
		return "", nil
	}
	value, _ := config.Child("value").Value.(string)
	return value, nil
}

// Ask sends one request and wants it answered.
func Ask(ctx context.Context, addr, api string, version int16, values map[string]any) error {
	c, err := dial(ctx, addr)
	if err != nil {
		return err
	}
	defer c.Close()
	a, _ := APINamed(api)
	_, err = c.call(ctx, a, version, values)
	return err
}

// StepKey names a step of a case.
type StepKey struct {
	Case string
	Step int
}

// RunFlipped runs with one field of each answer of side b changed: the round-th of its fields that are compared as
// they are, from the end. It returns which field that was.
func RunFlipped(ctx context.Context, scenarios []*Scenario, o Options, round int) (*Report, map[StepKey]string, error) {
	var mu sync.Mutex
	flipped := map[StepKey]string{}
	o.mutate = func(side int, c Case, step int, prefix string, root *Node) {
		st := c.Scenario.Steps[step-1]
		if side != 1 || st.Quiet || len(st.Until) > 0 {
			return
		}
		var leaves []*Node
		var paths []string
		if !slices.Contains(listings, st.API) {
			prefix = ""
		}
		collect(root, "", prefix, func(p string, n *Node) {
			for _, i := range st.Ignore {
				if matchPath(generalise(i.Path), generalise(p)) || strings.HasPrefix(generalise(p), strings.TrimSuffix(generalise(i.Path), "[*]")) {
					return
				}
			}
			for _, captured := range st.Capture {
				if captured == p {
					return
				}
			}
			leaves, paths = append(leaves, n), append(paths, p)
		})
		if len(leaves) == 0 {
			return
		}
		i := max(0, len(leaves)-1-round*len(leaves)/3)
		flip(leaves[i])
		mu.Lock()
		defer mu.Unlock()
		flipped[StepKey{c.String(), step}] = paths[i]
	}
	r, err := Run(ctx, scenarios, o)
	return r, flipped, err
}

// generalise puts * for every index of a path.
func generalise(p string) string {
	var b strings.Builder
	for part := range strings.SplitAfterSeq(p, "[") {
		if _, rest, ok := strings.Cut(part, "]"); ok {
			part = "*]" + rest
		}
		b.WriteString(part)
	}
	return b.String()
}

// collect visits the leaves that are compared as they are.
func collect(n *Node, at, prefix string, visit func(string, *Node)) {
	for i, c := range n.Children {
		p, name := join(at, c.Name), strings.ToLower(c.Name)
		if n.Kind == Array {
			p, name = fmt.Sprintf("%s[%d]", at, i), strings.ToLower(n.Name)
			if madeByOthers(c, prefix) {
				continue
			}
		}
		if c.Kind != Leaf {
			collect(c, p, prefix, visit)
			continue
		}
		if bound[name] != "" || isText(name) {
			continue
		}
		if _, isID := c.Value.(UUID); isID {
			continue
		}
		skip := false
		for _, list := range [][]string{clocks, sizes, nameFields, keys} {
			for _, other := range list {
				skip = skip || other == name
			}
		}
		if !skip {
			visit(p, c)
		}
	}
}

// madeByOthers reports whether an element of a listing is named and not by a run.
func madeByOthers(n *Node, prefix string) bool {
	for _, field := range nameFields {
		if c := n.Child(field); c != nil {
			s, ok := c.Value.(string)
			return ok && !strings.HasPrefix(s, prefix)
		}
	}
	return false
}

func flip(n *Node) {
	switch v := n.Value.(type) {
	case int64:
		n.Value = v + 1
	case bool:
		n.Value = !v
	case string:
		n.Value = v + "!"
	case []byte:
		n.Value = append([]byte{1}, v...)
	case float64:
		n.Value = v + 1
	case nil:
		n.Value = int64(1)
	}
}

// ReplayMutated replays with answers of a side changed after they are decoded.
func ReplayMutated(ctx context.Context, session io.ReadSeeker, o ReplayOptions, mutate func(side int, e *Event, root *Node)) (*Report, error) {
	o.mutate = mutate
	return Replay(ctx, session, o)
}

// Flip changes a leaf.
func Flip(n *Node) { flip(n) }
