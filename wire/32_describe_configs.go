package wire

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// DescribeConfigs, key 32, versions 1 to 4.
//
//	v3 types and documentation
//	v4 flexible
//
// Kafka: ConfigHelper, ConfigHelperUtils, DynamicBrokerConfig.
//
// Entries come sorted by name, where Kafka's order is that of a hash map. Of the loggers there is one, root.

// Kinds of resources that have configs. Kafka: ConfigResource.Type.
const (
	kindTopic         int8 = 2
	kindBroker        int8 = 4
	kindBrokerLogger  int8 = 8
	kindClientMetrics int8 = 16
	kindGroup         int8 = 32
)

// Where a value comes from. Kafka: DescribeConfigsResponse.ConfigSource.
const (
	sourceTopic          = kmsg.ConfigSource(1)
	sourceDynamicBroker  = kmsg.ConfigSource(2)
	sourceDynamicDefault = kmsg.ConfigSource(3)
	sourceStaticBroker   = kmsg.ConfigSource(4)
	sourceDefault        = kmsg.ConfigSource(5)
	sourceBrokerLogger   = kmsg.ConfigSource(6)
	sourceClientMetrics  = kmsg.ConfigSource(7)
	sourceGroup          = kmsg.ConfigSource(8)
)

type (
	describedConfig = kmsg.DescribeConfigsResponseResourceConfig
	configSynonym   = kmsg.DescribeConfigsResponseResourceConfigConfigSynonym
)

// describeConfigs answers a DescribeConfigs request. What the caller may not see comes last.
func (s *Server) describeConfigs(r *request, req *kmsg.DescribeConfigsRequest) (*kmsg.DescribeConfigsResponse, error) {
	resp := &kmsg.DescribeConfigsResponse{Version: req.Version, Resources: make([]kmsg.DescribeConfigsResponseResource, 0, len(req.Resources))}
	unknown := slices.ContainsFunc(req.Resources, func(q kmsg.DescribeConfigsRequestResource) bool { return !hasConfigs(int8(q.ResourceType)) })
	var denied []kmsg.DescribeConfigsResponseResource
	d, entries := describer{s: s}, 0
	for i := range req.Resources {
		q := &req.Resources[i]
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName, out.ErrorMessage = q.ResourceType, q.ResourceName, new(string)
		out.Configs = []describedConfig{}
		if unknown {
			// One kind that nobody knows fails the whole request.
			out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, errorMessage(detail(kerr.InvalidRequest, "a resource of a kind that has no configs"))
			resp.Resources = append(resp.Resources, out)
			continue
		}
		if err := s.mayConfigure(r, opDescribeConfigs, int8(q.ResourceType), q.ResourceName); err != nil {
			out.ErrorCode, out.ErrorMessage = errorCode(err), errorMessage(err)
			denied = append(denied, out)
			continue
		}
		var configs []describedConfig
		err := detail(kerr.InvalidRequest, fmt.Sprintf("more than %d configs in one answer: ask for fewer resources or configs at a time", maxDescribed))
		if entries < maxDescribed {
			configs, err = d.resource(int8(q.ResourceType), q.ResourceName)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = errorCode(err), errorMessage(err)
			if out.ErrorCode == kerr.UnknownTopicOrPartition.Code {
				out.ErrorMessage = new(string) // as Kafka: ConfigHelper.describeConfigs
			}
		}
		for _, c := range configs {
			if len(q.ConfigNames) > 0 && !slices.Contains(q.ConfigNames, c.Name) {
				continue
			}
			if !req.IncludeSynonyms {
				c.ConfigSynonyms = []configSynonym{}
			}
			if !req.IncludeDocumentation {
				c.Documentation = nil
			}
			out.Configs = append(out.Configs, c)
			size := 24 + len(c.Name) + len(deref(c.Value)) + len(deref(c.Documentation))
			for _, y := range c.ConfigSynonyms {
				size += 8 + len(y.Name) + len(deref(y.Value))
			}
			if err := r.answerGrows(size); err != nil {
				return nil, err
			}
		}
		entries += len(out.Configs)
		resp.Resources = append(resp.Resources, out)
	}
	resp.Resources = append(resp.Resources, denied...)
	return resp, nil
}

// hasConfigs reports whether resources of a kind have configs.
func hasConfigs(kind int8) bool {
	switch kind {
	case kindTopic, kindBroker, kindBrokerLogger, kindClientMetrics, kindGroup:
		return true
	}
	return false
}

// mayConfigure returns why the caller may not do op to the configs of a resource, nil when it may.
func (s *Server) mayConfigure(r *request, op aclOperation, kind int8, name string) error {
	resource, denied := resourceCluster, kerr.ClusterAuthorizationFailed
	switch kind {
	case kindTopic:
		resource, denied = resourceTopic, kerr.TopicAuthorizationFailed
	case kindGroup:
		resource, denied = resourceGroup, kerr.GroupAuthorizationFailed
	default:
		name = clusterResource
	}
	if s.authorize(r, op, resource, name) {
		return nil
	}
	return detail(denied, denied.Description)
}

// maxDescribed is about how many configs one answer has: enough for each of 14,000 topics. A small request could ask for
// gigabytes. Differs from Kafka, which has no such bound.
const maxDescribed = 1 << 19

// describer describes the resources of one request.
type describer struct {
	s *Server
	// topics are the entries of a topic without configs of its own, in the order of the table; nil until a topic is
	// described.
	topics []describedConfig
	broker []describedConfig // nil until it is described
}

// resource returns all configs of one resource, with synonyms and documentation. Callers must not change the synonyms.
func (d *describer) resource(kind int8, name string) ([]describedConfig, error) {
	s := d.s
	switch kind {
	case kindTopic:
		return d.topic(name)
	case kindBroker:
		if name == "" {
			return s.config.describeCluster(), nil
		}
		if err := s.checkBrokerName(name); err != nil {
			return nil, err
		}
		if d.broker == nil {
			d.broker = s.config.describeBroker()
		}
		return d.broker, nil
	case kindBrokerLogger:
		if err := s.checkBrokerName(name); err != nil {
			return nil, err
		}
		return s.describeLoggers(), nil
	case kindClientMetrics:
		if name == "" {
			return nil, detail(kerr.InvalidRequest, "a subscription to client metrics without a name")
		}
		return describeClientMetrics(s.store.ResourceConfigs(kindClientMetrics, name)), nil
	default:
		if name == "" {
			return nil, detail(kerr.InvalidRequest, "a group without a name")
		}
		return s.config.describeGroup(s.store.ResourceConfigs(kindGroup, name)), nil
	}
}

// checkBrokerName checks that a resource is this broker.
func (s *Server) checkBrokerName(name string) error {
	id, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return detail(kerr.InvalidRequest, fmt.Sprintf("broker id %q is not a number", name))
	}
	if int32(id) != s.store.NodeID() {
		return detail(kerr.InvalidRequest, fmt.Sprintf("broker id %d, this is broker %d", id, s.store.NodeID()))
	}
	return nil
}

func (d *describer) topic(name string) ([]describedConfig, error) {
	if err := storage.ValidateTopicName(name); err != nil {
		return nil, err
	}
	topic, ok := d.s.store.Topic(name)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	if d.topics == nil {
		d.topics = d.s.describeTopicDefaults()
	}
	own := topic.Overrides()
	defs := storage.TopicConfigs()
	out := make([]describedConfig, 0, len(defs))
	for i := range defs {
		value, isOwn := own[defs[i].Name]
		switch {
		case isOwn:
			first := synonym(defs[i].Name, value, sourceTopic, defs[i].Sensitive)
			out = append(out, described(&defs[i], &value, append([]configSynonym{first}, d.topics[i].ConfigSynonyms...)))
		case !defs[i].Internal:
			out = append(out, d.topics[i])
		}
	}
	return out, nil
}

// describeTopicDefaults makes the entry of every topic config for topics that do not set it.
func (s *Server) describeTopicDefaults() []describedConfig {
	defaults := s.store.TopicDefaults()
	defs := storage.TopicConfigs()
	out := make([]describedConfig, len(defs))
	for i := range defs {
		d := &defs[i]
		value, ok := defaults[d.Name]
		if !ok {
			value = d.Default
		}
		var synonyms []configSynonym
		if len(d.Synonyms) > 0 {
			// Only the strongest is looked at, as in Kafka.
			synonyms = s.config.synonymsOf(d.Synonyms[0].Name, d.Sensitive)
		}
		out[i] = described(d, &value, synonyms)
	}
	return out
}

// described makes the entry of a config in a table. The source is that of the first synonym.
func described(d *storage.ConfigDef, value *string, synonyms []configSynonym) describedConfig {
	c := kmsg.NewDescribeConfigsResponseResourceConfig()
	c.Name, c.IsSensitive, c.ConfigType, c.ConfigSynonyms = d.Name, d.Sensitive, kmsg.ConfigType(d.Type), synonyms
	if !d.Sensitive {
		c.Value = value
	}
	c.Source = sourceDefault
	if len(synonyms) > 0 {
		c.Source = synonyms[0].Source
	}
	if d.Doc != "" {
		c.Documentation = &d.Doc
	}
	return c
}

func synonym(name, value string, source kmsg.ConfigSource, sensitive bool) configSynonym {
	y := kmsg.NewDescribeConfigsResponseResourceConfigConfigSynonym()
	y.Name, y.Source = name, source
	if !sensitive {
		y.Value = &value
	}
	return y
}

// synonymsOf lists where a value of a broker config is set, the strongest first: while running for this broker, for
// all, at the start, and the defaults; each time under the name itself and then under those that say the same in other
// units. What comes before the first entry of the name itself is dropped, so that a config which is set under another
// name only has none.
func (c *BrokerConfig) synonymsOf(name string, sensitive bool) []configSynonym {
	v := c.values.Load()
	names := brokerSynonyms(name)
	if base, ok := listenerConfig(name); ok {
		names = []string{name, base}
	}
	var out []configSynonym
	add := func(name, value string, source kmsg.ConfigSource) {
		out = append(out, synonym(name, value, source, sensitive))
	}
	for _, layer := range []struct {
		values map[string]string
		source kmsg.ConfigSource
	}{{v.one, sourceDynamicBroker}, {v.all, sourceDynamicDefault}, {c.static, sourceStaticBroker}} {
		for _, n := range names {
			if value, ok := layer.values[n]; ok {
				add(n, value, layer.source)
			}
		}
	}
	for _, n := range names {
		if d, ok := brokerConfigDef(n); ok && d.HasDefault {
			add(n, d.Default, sourceDefault)
		}
	}
	first := slices.IndexFunc(out, func(y configSynonym) bool { return y.Name == name })
	if first < 0 {
		return nil
	}
	return out[first:]
}

// describeBroker lists the configs of this broker: the table's, internal ones only when they are set, and what was set
// while running under names that nobody knows.
func (c *BrokerConfig) describeBroker() []describedConfig {
	v := c.values.Load()
	out := make([]describedConfig, 0, len(brokerConfigs))
	for i := range brokerConfigs {
		d := &brokerConfigs[i]
		switch _, set := v.set[d.Name]; {
		case (d.Internal || d.effect == unlisted) && !set:
			continue
		case d.effect == unlisted:
			out = append(out, c.describeUnknown(d.Name))
			continue
		}
		var value *string
		if text, ok := c.lookup(d.Name); ok {
			value = &text
		}
		e := described(&d.ConfigDef, value, c.synonymsOf(d.Name, d.Sensitive))
		e.ReadOnly = d.dynamic == readOnly
		out = append(out, e)
	}
	for _, name := range slices.Sorted(maps.Keys(v.set)) {
		if _, ok := brokerConfigDef(name); !ok {
			out = append(out, c.describeUnknown(name))
		}
	}
	slices.SortFunc(out, func(a, b describedConfig) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// describeUnknown makes the entry of a config that is in no table: it may be a secret.
func (c *BrokerConfig) describeUnknown(name string) describedConfig {
	d := storage.ConfigDef{Name: name, Sensitive: true}
	e := described(&d, nil, c.synonymsOf(name, true))
	e.ReadOnly = true
	return e
}

// describeCluster lists what was set for all brokers while running.
func (c *BrokerConfig) describeCluster() []describedConfig {
	all := c.values.Load().all
	out := make([]describedConfig, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		value := all[name]
		e := c.describeUnknown(name)
		if d, ok := brokerConfigDef(name); ok {
			e = described(&d.ConfigDef, &value, c.synonymsOf(name, d.Sensitive))
			e.ReadOnly = d.dynamic == readOnly
		}
		e.ConfigSynonyms = slices.DeleteFunc(e.ConfigSynonyms, func(y configSynonym) bool { return y.Source != sourceDynamicDefault })
		e.Source = sourceDynamicDefault
		out = append(out, e)
	}
	return out
}
