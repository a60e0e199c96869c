package compare

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Broker is one side of a comparison.
type Broker struct {
	Addr    string          `json:"address"`
	Product string          `json:"product"` // gateway, or other
	Release string          `json:"release"` // of Kafka, as 4.3; "" when it does not tell
	Version string          `json:"version"` // of Kafka with its patch level, which only a recording knows; else ""
	APIs    map[int16]Range `json:"-"`       // what it says it serves
	// configs are those that scenarios rely on, with their values; nil for a recording, which was made with them.
	configs map[string]string
	// dynamic are the configs that were set while it runs, for it or for all brokers; read where a run may set some.
	dynamic []string
}

// callTimeout bounds the calls that a run makes for itself.
const callTimeout = 15 * time.Second

// Reach connects to a broker and asks what it serves.
func Reach(ctx context.Context, addr string) (*Broker, error) {
	b, err := reach(ctx, addr)
	if err != nil {
		return nil, fmt.Errorf("could not reach %s: %w", addr, err)
	}
	return b, nil
}

func reach(ctx context.Context, addr string) (*Broker, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, err := dial(ctx, addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	b := &Broker{Addr: addr, Product: "other", APIs: map[int16]Range{}}
	api, _ := APIByKey(apiVersionsKey)
	root, err := c.call(ctx, api, 3, map[string]any{"clientSoftwareName": "gateway-compare", "clientSoftwareVersion": "1"})
	if err != nil {
		return nil, fmt.Errorf("ApiVersions: %w", err)
	}
	for _, k := range root.Child("apiKeys").Children {
		b.APIs[int16(k.int("apiKey"))] = Range{int16(k.int("minVersion")), int16(k.int("maxVersion"))}
	}
	b.Release = releaseOf(root)
	// Only the gateway has configs that begin with its name.
	if configs, ok := APINamed("DescribeConfigs"); ok && b.APIs[configs.Key].Has(1) {
		b.Product = productOf(ctx, c)
	}
	return b, nil
}

// readConfigs asks for the broker configs that scenarios rely on.
func (b *Broker) readConfigs(ctx context.Context, scenarios []*Scenario) error {
	b.configs = map[string]string{}
	var keys []any
	for _, s := range scenarios {
		for k := range s.Configs {
			if !slices.Contains(keys, any(k)) {
				keys = append(keys, k)
			}
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := b.described(ctx, keys)
	for _, config := range found {
		name, _ := config.Child("name").Value.(string)
		b.configs[name], _ = config.Child("value").Value.(string)
	}
	return err
}

// readDynamic asks for the broker configs that were set while the broker runs, for it or for all.
func (b *Broker) readDynamic(ctx context.Context) error {
	const ofBroker, ofAllBrokers = 2, 3  // Kafka: ConfigSource
	const always = "min.insync.replicas" // which Kafka itself sets for all brokers
	found, err := b.described(ctx, nil)
	for _, config := range found {
		name, _ := config.Child("name").Value.(string)
		if source := config.int("configSource"); source == ofBroker || source == ofAllBrokers && name != always {
			b.dynamic = append(b.dynamic, name)
		}
	}
	return err
}

// described asks for configs of the broker, all when keys is nil; none of a broker that does not serve that.
func (b *Broker) described(ctx context.Context, keys []any) ([]*Node, error) {
	if api, _ := APINamed("DescribeConfigs"); !b.APIs[api.Key].Has(1) {
		return nil, nil
	}
	c, err := dial(ctx, b.Addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.brokerConfigs(ctx, keys)
}

// lacks says which of the configs that a scenario relies on the broker has otherwise; "" when none.
func (b *Broker) lacks(configs map[string]string) string {
	if b.configs == nil {
		return ""
	}
	for _, k := range slices.Sorted(maps.Keys(configs)) {
		if got, ok := b.configs[k]; !ok || got != configs[k] {
			return fmt.Sprintf("%s has %s=%s, this needs %s", b.Addr, k, got, configs[k])
		}
	}
	return ""
}

// releaseOf tells the release of Kafka by the highest metadata.version that an answer to ApiVersions offers.
func releaseOf(root *Node) string {
	features := root.Child("supportedFeatures")
	if features == nil {
		return ""
	}
	for _, f := range features.Children {
		if name, _ := f.Child("name").Value.(string); name == "metadata.version" {
			for release, level := range metadataVersions {
				if level == f.int("maxVersion") {
					return release
				}
			}
		}
	}
	return ""
}

// productOf looks for gateway.durability among the configs of the broker.
func productOf(ctx context.Context, c *conn) string {
	if found, err := c.brokerConfigs(ctx, []any{"gateway.durability"}); err != nil || len(found) == 0 {
		return "other"
	}
	return "gateway"
}

// brokerConfigs describes configs of the broker, all when keys is nil.
func (c *conn) brokerConfigs(ctx context.Context, keys []any) ([]*Node, error) {
	id, err := c.nodeID(ctx)
	if err != nil {
		return nil, err
	}
	var wanted any // null is all
	if keys != nil {
		wanted = keys
	}
	api, _ := APINamed("DescribeConfigs")
	root, err := c.call(ctx, api, 1, map[string]any{"resources": []any{map[string]any{
		"resourceType": 4, "resourceName": strconv.FormatInt(id, 10), "configurationKeys": wanted}}})
	if err != nil {
		return nil, err
	}
	var out []*Node
	for _, r := range root.Child("results").Children {
		out = append(out, r.Child("configs").Children...)
	}
	return out, nil
}

// nodeID asks for the id of the controller, which on one node is its own.
func (c *conn) nodeID(ctx context.Context) (int64, error) {
	api, _ := APINamed("Metadata")
	root, err := c.call(ctx, api, 4, map[string]any{"topics": []any{}})
	if err != nil {
		return 0, err
	}
	return root.int("controllerId"), nil
}

// call sends a request and returns the decoded answer; for what a run does for itself.
func (c *conn) call(ctx context.Context, api *API, version int16, values map[string]any) (*Node, error) {
	body, err := encodeBody(api.Request, values, version, api.Flexible.Has(version))
	if err != nil {
		return nil, err
	}
	q, err := c.send(api, version, body)
	if err != nil {
		return nil, err
	}
	a, err := c.receiveAnswer(ctx, q, callTimeout)
	switch {
	case err != nil:
		return nil, err
	case a.root == nil:
		return nil, errors.New(a.outcome)
	case a.fault != "":
		return nil, errors.New(a.fault)
	}
	return a.root, nil
}

// int is the whole number in a field of a struct; 0 when there is none.
func (n *Node) int(name string) int64 {
	if c := n.Child(name); c != nil {
		v, _ := c.Value.(int64)
		return v
	}
	return 0
}

// only is the element of an array that has one.
func (n *Node) only(array string) (*Node, error) {
	got := n.Child(array)
	if got == nil || len(got.Children) != 1 {
		return nil, fmt.Errorf("%s: want one in the answer", array)
	}
	return got.Children[0], nil
}
