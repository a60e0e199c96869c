package main

import (
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/magiconair/properties"

	"github.com/kaen-log/gateway/wire"
)

// settings collects broker configs from the places they may stand in, the later
// over the earlier: file, environment, -c flags, and flags of their own.
type settings struct {
	values   map[string]string
	warnings []string
}

// addFile reads a server.properties as people have it. Keys that do nothing here
// are warned of; so are those that nobody knows, which are left out; an unknown key
// of ours is an error.
func (s *settings) addFile(path string) error {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadFile(path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	var faults []error
	for _, key := range p.Keys() {
		value, _ := p.Get(key)
		faults = append(faults, s.add(path, key, value))
	}
	return errors.Join(faults...)
}

// add takes a value from a file or the environment, where keys of other programs
// may stand too; place says where it stood.
func (s *settings) add(place, key, value string) error {
	known, near := wire.KnownBrokerConfig(key)
	switch {
	case known:
		s.take(place, key, value)
	case strings.HasPrefix(key, "gateway."):
		return fmt.Errorf("%s: unknown config %s%s", place, key, meant(near))
	default:
		s.warnings = append(s.warnings, fmt.Sprintf("%s: config %s is not known%s; left out", place, key, meant(near)))
	}
	return nil
}

// take keeps the value of a known key, and warns when it does nothing here.
func (s *settings) take(place, key, value string) {
	s.values[key] = value
	if !wire.BrokerConfigHasEffect(key) {
		s.warnings = append(s.warnings, fmt.Sprintf("%s: config %s has no effect here", place, key))
	}
}

// imageVariables are the variables of Kafka's container images that steer its
// scripts and JVM and are no broker configs.
var imageVariables = map[string]bool{
	"KAFKA_HEAP_OPTS": true, "KAFKA_OPTS": true, "KAFKA_JMX_OPTS": true, "KAFKA_JMX_PORT": true,
	"KAFKA_JMX_HOSTNAME": true, "KAFKA_LOG4J_OPTS": true, "KAFKA_LOG4J_LOGGERS": true,
	"KAFKA_LOG4J_ROOT_LOGLEVEL": true, "KAFKA_TOOLS_LOG4J_LOGLEVEL": true, "KAFKA_GC_LOG_OPTS": true,
	"KAFKA_JVM_PERFORMANCE_OPTS": true, "KAFKA_HOME": true, "KAFKA_VERSION": true, "KAFKA_DEBUG": true,
}

// addEnviron takes KAFKA_LOG_RETENTION_MS=… as Kafka's container images do: the
// prefix goes, the rest in lower case, _ is a dot, __ an underscore, ___ a dash.
func (s *settings) addEnviron(environ []string) error {
	sort.Strings(environ)
	var faults []error
	for _, e := range environ {
		name, value, _ := strings.Cut(e, "=")
		if !strings.HasPrefix(name, "KAFKA_") || imageVariables[name] {
			continue
		}
		faults = append(faults, s.add("environment "+name, environKey(name), value))
	}
	return errors.Join(faults...)
}

// environKey turns KAFKA_A_B__C___D into a.b_c-d.
func environKey(name string) string {
	name = strings.ToLower(strings.TrimPrefix(name, "KAFKA_"))
	return strings.NewReplacer("___", "-", "__", "_", "_", ".").Replace(name)
}

// addPairs takes the key=value of -c; an unknown key is an error.
func (s *settings) addPairs(pairs []string) error {
	var faults []error
	for _, pair := range pairs {
		key, value, ok := strings.Cut(pair, "=")
		key = strings.TrimSpace(key)
		if !ok || key == "" {
			faults = append(faults, fmt.Errorf("-c %q: want key=value", pair))
			continue
		}
		if known, near := wire.KnownBrokerConfig(key); !known {
			faults = append(faults, fmt.Errorf("-c: unknown config %s%s", key, meant(near))) // without the value, which may be a secret
			continue
		}
		s.take("-c "+key, key, value)
	}
	return errors.Join(faults...)
}

func meant(near string) string {
	if near == "" {
		return ""
	}
	return " (nearest known: " + near + ")"
}
