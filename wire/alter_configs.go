package wire

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// This file changes the configs of resources, for AlterConfigs and IncrementalAlterConfigs: all of one resource's
// changes or none, and each resource by itself.
//
// Kafka: ConfigAdminManager, ControllerApis, ConfigurationControlManager, ControllerConfigurationValidator.

// alteration is what a request wants of one resource.
type alteration struct {
	kind    int8
	name    string
	changes []configChange
	// replace makes the changes, which all set a value, the whole set.
	replace      bool
	validateOnly bool
}

// configChange is one change; value is nil when it was null.
type configChange struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

// alterAll makes the alterations of a request and returns the outcome of each.
//
// Differs from Kafka: it never answers an AlterConfigs request that names a resource twice.
func (s *Server) alterAll(r *request, all []alteration) []error {
	type resource struct {
		kind int8
		name string
	}
	uses := make(map[resource]int, len(all))
	for i := range all {
		uses[resource{all[i].kind, all[i].name}]++
	}
	out := make([]error, len(all))
	for i := range all {
		a := &all[i]
		if uses[resource{a.kind, a.name}] > 1 {
			out[i] = detail(kerr.InvalidRequest, "the resource is in the request more than once")
			continue
		}
		out[i] = s.alter(r, a)
	}
	return out
}

// alter makes one alteration.
func (s *Server) alter(r *request, a *alteration) error {
	if err := a.check(); err != nil {
		return err
	}
	if !hasConfigs(a.kind) || a.kind == kindBrokerLogger && a.replace {
		return detail(kerr.InvalidRequest, fmt.Sprintf("resources of kind %d have no configs to alter", a.kind))
	}
	if err := s.mayConfigure(r, opAlterConfigs, a.kind, a.name); err != nil {
		if a.kind == kindBroker || a.kind == kindBrokerLogger {
			return errBrokerDenied
		}
		return err
	}
	if a.kind == kindBrokerLogger {
		return s.alterLoggers(a)
	}
	s.altering.Lock()
	defer s.altering.Unlock()
	switch a.kind {
	case kindTopic:
		return s.alterTopic(a)
	case kindBroker:
		return s.alterBroker(a)
	case kindClientMetrics:
		return s.alterOwn(a, "a subscription to client metrics without a name", checkClientMetrics)
	}
	return s.alterOwn(a, "configs for all groups are set as configs of brokers", s.config.checkGroup)
}

// errBrokerDenied is the denial of a broker's own configs, which Kafka's broker gives without words before it asks the
// controller.
var errBrokerDenied = detail(kerr.ClusterAuthorizationFailed, "not allowed to alter a broker")

// alterationMessage is errorMessage for the outcome of an alteration.
func alterationMessage(err error) *string {
	if err == errBrokerDenied {
		return nil
	}
	return errorMessage(err)
}

// alterOwn alters the configs of a group or a subscription, which need not exist otherwise. nameless says why there is
// none without a name; check checks the configs and returns them in canonical text.
func (s *Server) alterOwn(a *alteration, nameless string, check func(map[string]string) (map[string]string, error)) error {
	current := s.store.ResourceConfigs(a.kind, a.name)
	next, err := a.apply(current, noConfigs)
	if err != nil {
		return err
	}
	if a.name == "" {
		return detail(kerr.InvalidRequest, nameless)
	}
	if next, err = check(next); err != nil {
		return err
	}
	if a.validateOnly || maps.Equal(current, next) {
		return nil
	}
	return s.store.SetResourceConfigs(a.kind, a.name, next)
}

// check looks at the names and nulls of an alteration.
func (a *alteration) check() error {
	seen := make(map[string]bool, len(a.changes))
	var nulls []string
	for i := range a.changes {
		c := &a.changes[i]
		if seen[c.name] {
			return detail(kerr.InvalidRequest, fmt.Sprintf("config %s is in the request more than once", c.name))
		}
		seen[c.name] = true
		if c.value == nil && c.op != kmsg.IncrementalAlterConfigOpDelete {
			nulls = append(nulls, c.name)
		}
	}
	if len(nulls) > 0 {
		return detail(kerr.InvalidRequest, "no value for "+strings.Join(nulls, ", "))
	}
	return nil
}

// maxConfigValue is the length that a value may have. Kafka: ConfigurationControlManager.validateAlterConfig.
const maxConfigValue = 1<<15 - 1

// apply returns what an alteration makes of the configs that are set. find tells about the configs that may be lists;
// nothing is known of the others.
func (a *alteration) apply(current map[string]string, find func(string) (*storage.ConfigDef, bool)) (map[string]string, error) {
	next := make(map[string]string, len(current)+len(a.changes))
	if !a.replace {
		maps.Copy(next, current)
	}
	for i := range a.changes {
		c := &a.changes[i]
		switch c.op {
		case kmsg.IncrementalAlterConfigOpSet:
			next[c.name] = *c.value
		case kmsg.IncrementalAlterConfigOpDelete:
			delete(next, c.name)
		case kmsg.IncrementalAlterConfigOpAppend, kmsg.IncrementalAlterConfigOpSubtract:
			d, ok := find(c.name)
			if !ok || d.Type != storage.ConfigList {
				return nil, detail(kerr.InvalidConfig, fmt.Sprintf("config %s is not a list: it takes neither append nor subtract", c.name))
			}
			value, ok := current[c.name]
			if !ok {
				value = d.Default // not what the broker's configs make of it
			}
			next[c.name] = changeList(value, *c.value, c.op == kmsg.IncrementalAlterConfigOpAppend)
		default:
			// Differs from Kafka for topics, client metrics and groups: it answers UNKNOWN_SERVER_ERROR there.
			return nil, detail(kerr.InvalidRequest, fmt.Sprintf("config %s: operation %d is not known", c.name, c.op))
		}
		if value := next[c.name]; len(value) > maxConfigValue {
			return nil, detail(kerr.InvalidConfig, fmt.Sprintf("config %s: a value of %d bytes, want at most %d", c.name, len(value), maxConfigValue))
		}
	}
	return next, nil
}

// changeList puts the elements of a change into a list, those that it does not have, or takes them out.
func changeList(list, change string, add bool) string {
	parts := slices.DeleteFunc(strings.Split(list, ","), func(s string) bool { return s == "" })
	for _, p := range strings.Split(change, ",") {
		i := slices.Index(parts, p)
		switch {
		case add && i < 0:
			parts = append(parts, p)
		case !add && i >= 0:
			parts = slices.Delete(parts, i, i+1)
		}
	}
	return strings.Join(parts, ",")
}

// noConfigs knows no config. Kafka's controller has the tables of topics and brokers only, so that it takes no list of
// client metrics or groups for one.
func noConfigs(string) (*storage.ConfigDef, bool) { return nil, false }

// alterTopic alters a topic. The values are looked at before the topic's existence.
func (s *Server) alterTopic(a *alteration) error {
	topic, exists := s.store.Topic(a.name)
	var current map[string]string
	if exists {
		current = topic.Overrides()
	}
	next, err := a.apply(current, storage.TopicConfigDef)
	if err != nil {
		return err
	}
	if a.name == "" {
		return detail(kerr.InvalidRequest, "configs for all topics are set as configs of brokers")
	}
	if err := storage.ValidateTopicName(a.name); err != nil {
		return err
	}
	if err := s.store.CheckTopicConfigs(next); err != nil {
		return err
	}
	if !exists {
		return detail(kerr.UnknownTopicOrPartition, fmt.Sprintf("there is no topic %q", a.name))
	}
	if a.validateOnly || maps.Equal(current, next) {
		return nil
	}
	return s.store.SetTopicConfigs(topic.ID(), next)
}

// alterBroker alters the configs of this broker, or of all when the name is empty.
func (s *Server) alterBroker(a *alteration) error {
	one, name := a.name != "", ""
	if one {
		if err := s.checkBrokerName(a.name); err != nil {
			return err
		}
		name = s.brokerName()
	}
	current := s.store.ResourceConfigs(kindBroker, name)
	next, err := a.apply(current, func(name string) (*storage.ConfigDef, bool) {
		d, ok := brokerConfigDef(name)
		if !ok {
			return nil, false
		}
		return &d.ConfigDef, true
	})
	if err != nil {
		return err
	}
	if err := s.config.checkDynamic(next, one); err != nil {
		return err
	}
	if err := a.checkMinInsync(next, one); err != nil {
		return err
	}
	if a.validateOnly {
		return nil
	}
	if !maps.Equal(current, next) {
		if err := s.store.SetResourceConfigs(kindBroker, name, next); err != nil {
			return err
		}
	}
	all, this := next, s.config.values.Load().one
	if one {
		all, this = s.store.ResourceConfigs(kindBroker, ""), next
	}
	s.config.SetDynamic(all, this)
	return s.applyTopicDefaults()
}

// checkMinInsync keeps min.insync.replicas a config of the whole cluster that always has a value, as Kafka does while
// its feature eligible.leader.replicas.version is on, which it is in a new cluster.
func (a *alteration) checkMinInsync(next map[string]string, one bool) error {
	touched := slices.ContainsFunc(a.changes, func(c configChange) bool { return c.name == minInsyncReplicas })
	if one && touched {
		return detail(kerr.InvalidConfig, minInsyncReplicas+": not to be set for one broker")
	}
	if _, ok := next[minInsyncReplicas]; !one && !ok && (touched || a.replace) {
		return detail(kerr.InvalidConfig, minInsyncReplicas+": not to be removed")
	}
	return nil
}
