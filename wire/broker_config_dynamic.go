package wire

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/storage"
)

// This file says which broker configs may be changed while the broker runs, and to what.
//
// Kafka: DynamicBrokerConfig.validate, KafkaConfig.validateValues, ConfigurationControlManager.validateAlterConfig.

// securityConfigs may be changed for one listener only, under its prefix. Kafka: SslConfigs.RECONFIGURABLE_CONFIGS.
var securityConfigs = []string{
	"ssl.key.password", "ssl.keystore.certificate.chain", "ssl.keystore.key", "ssl.keystore.location",
	"ssl.keystore.password", "ssl.keystore.type", "ssl.truststore.certificates", "ssl.truststore.location",
	"ssl.truststore.password", "ssl.truststore.type",
}

// threadConfigs may be changed to between half and double what they are.
// Kafka: DynamicThreadPool, DynamicListenerConfig and LogCleaner, validateReconfiguration.
var threadConfigs = []string{
	"background.threads", "log.cleaner.threads", "num.io.threads", "num.network.threads",
	"num.recovery.threads.per.data.dir", "num.replica.fetchers",
}

// listenerConfig takes the listener's prefix from a name: listener.name.LISTENER.ssl.keystore.location.
func listenerConfig(name string) (base string, ok bool) {
	rest, ok := strings.CutPrefix(name, "listener.name.")
	if !ok {
		return name, false
	}
	_, base, ok = strings.Cut(rest, ".")
	return base, ok
}

// checkDynamicValue checks the type of one value. A name that is not in the table takes every value: Kafka keeps such
// configs for plug-ins.
func checkDynamicValue(name, value string) error {
	base, _ := listenerConfig(name)
	d, ok := brokerConfigDef(base)
	if !ok || d.dynamic == readOnly {
		return nil
	}
	// A broker's list may not say a word twice, as a topic's may. Kafka: ConfigDef.ValidList.
	if words := splitList(value); d.Type == storage.ConfigList && len(slices.Compact(slices.Sorted(slices.Values(words)))) < len(words) {
		return fmt.Errorf("config %s: %q, want each word once", name, value)
	}
	return d.CheckValue(value)
}

// checkDynamic checks the overrides of this broker (one), or those of all. The errors are those of the answer.
func (c *BrokerConfig) checkDynamic(props map[string]string, one bool) error {
	var fixed, security, single []string
	for _, name := range slices.Sorted(maps.Keys(props)) {
		base, ofListener := listenerConfig(name)
		d, known := brokerConfigDef(name)
		switch {
		case known && d.dynamic == readOnly, !known && strings.HasPrefix(name, "gateway."):
			fixed = append(fixed, name)
		case slices.Contains(securityConfigs, name):
			security = append(security, name)
		case known && d.dynamic == perBroker:
			single = append(single, name)
		case ofListener:
			if d, ok := brokerConfigDef(base); !ok || d.dynamic != clusterWide {
				single = append(single, name)
			}
		}
	}
	refuse := func(names []string, why string) error {
		return detail(kerr.InvalidRequest, strings.Join(names, ", ")+": "+why)
	}
	if len(fixed) > 0 {
		return refuse(fixed, "not to be changed while the broker runs")
	}
	if len(security) > 0 {
		return refuse(security, "to be changed for a listener only, as listener.name.LISTENER.NAME")
	}
	for _, name := range slices.Sorted(maps.Keys(props)) {
		if err := checkDynamicValue(name, props[name]); err != nil {
			return detail(kerr.InvalidRequest, err.Error())
		}
	}
	if len(single) > 0 && !one {
		return refuse(single, "to be changed for one broker only, by its id")
	}
	now := c.values.Load()
	all, this := props, now.one
	if one {
		all, this = now.all, props
	}
	next, _ := c.withDynamic(all, this)
	if err := c.checkTogether(now, next); err != nil {
		return detail(kerr.InvalidRequest, err.Error())
	}
	return nil
}

// checkTogether checks what a change makes of the configs as a whole.
func (c *BrokerConfig) checkTogether(now, next *brokerValues) error {
	defaults, err := next.topicDefaults()
	if err != nil {
		return err
	}
	// Differs from Kafka, which takes this and then creates no topic any more.
	if least, most := topicNumber(defaults, "min.compaction.lag.ms"), topicNumber(defaults, "max.compaction.lag.ms"); least > most {
		return fmt.Errorf("log.cleaner.min.compaction.lag.ms: %d, above log.cleaner.max.compaction.lag.ms, which is %d", least, most)
	}
	if err := checkLocalRetention(defaults, "ms"); err != nil {
		return err
	}
	if err := checkLocalRetention(defaults, "bytes"); err != nil {
		return err
	}
	for _, name := range threadConfigs {
		from, to := now.number(name), next.number(name)
		if from != to && (to < from/2 || to > from*2) {
			return fmt.Errorf("%s: %d threads, want %d to %d, half to double what it is", name, to, from/2, from*2)
		}
	}
	if size, threads := next.number("log.cleaner.dedupe.buffer.size"), next.number("log.cleaner.threads"); size/threads <= 1<<20 {
		return fmt.Errorf("log.cleaner.dedupe.buffer.size: %d for %d threads, want more than 1 MiB for each", size, threads)
	}
	if _, err := parseIPOverrides(splitList(next.text("max.connections.per.ip.overrides"))); err != nil {
		return err
	}
	if next.number("max.connections.per.ip") == 0 && next.text("max.connections.per.ip.overrides") == "" {
		return fmt.Errorf("max.connections.per.ip: 0 without max.connections.per.ip.overrides shuts everyone out")
	}
	// Kafka: ConnectionQuotas.ListenerConnectionQuota.validateReconfiguration.
	for _, name := range []string{"max.connections", "max.connection.creation.rate"} {
		if n := next.number(name); n <= 0 {
			return fmt.Errorf("%s: %d, want at least 1 while the broker runs", name, n)
		}
	}
	for _, dir := range splitList(next.text("cordoned.log.dirs")) {
		if dir != "*" && !slices.Contains(splitList(next.text("log.dirs")), dir) {
			return fmt.Errorf("cordoned.log.dirs: %s is not one of log.dirs", dir)
		}
	}
	// Differs from Kafka, which binds other listeners, and loads reporters from its class path.
	for _, name := range []string{"listeners", "metric.reporters"} {
		if next.text(name) != now.text(name) {
			return fmt.Errorf("%s: not to be changed while the broker runs", name)
		}
	}
	return checkSameProtocols(now, next)
}

// checkLocalRetention checks the tiered part of retention, in ms or in bytes. Kafka: DynamicLogConfig.
func checkLocalRetention(defaults map[string]string, unit string) error {
	total, local := topicNumber(defaults, "retention."+unit), topicNumber(defaults, "local.retention."+unit)
	if total < 0 {
		return nil
	}
	if local != -2 && (local == -1 || local > total) {
		return fmt.Errorf("log.local.retention.%s: %d, above log.retention.%[1]s, which is %d", unit, local, total)
	}
	if local == -2 {
		local = total
	}
	if lag := topicNumber(defaults, "remote.copy.lag."+unit); lag > 0 && local >= 0 && lag > local {
		return fmt.Errorf("log.remote.copy.lag.%s: %d, above log.local.retention.%[1]s, which is %d", unit, lag, local)
	}
	return nil
}

// topicNumber returns a topic config out of broker-level values.
func topicNumber(defaults map[string]string, name string) int64 {
	v, ok := defaults[name]
	if !ok {
		if d, found := storage.TopicConfigDef(name); found {
			v = d.Default
		}
	}
	n, _ := strconv.ParseInt(v, 10, 64)
	return n
}

func (v *brokerValues) text(name string) string {
	if s, ok := v.set[name]; ok {
		return s
	}
	d, ok := brokerConfigDef(name)
	if !ok {
		panic("wire: broker config " + name + " is not in the table")
	}
	return d.Default
}

func (v *brokerValues) number(name string) int64 {
	n, _ := strconv.ParseInt(v.text(name), 10, 64)
	return n
}

// splitList splits a list in canonical text; the empty text is the empty list.
func splitList(v string) []string {
	if v == "" {
		return nil
	}
	return strings.Split(v, ",")
}

// loadDynamicConfigs makes what was set while the broker ran before hold again.
func (s *Server) loadDynamicConfigs() {
	invalid := s.config.SetDynamic(s.store.ResourceConfigs(kindBroker, ""), s.store.ResourceConfigs(kindBroker, s.brokerName()))
	if len(invalid) > 0 {
		s.logger.Warn("dynamic broker configs are not valid and are ignored", "configs", invalid)
	}
	if err := s.applyTopicDefaults(); err != nil {
		s.logger.Error("dynamic broker configs do not reach topics", "error", err)
	}
}

// applyTopicDefaults hands the broker-level values of topic configs to the store, when they have changed.
func (s *Server) applyTopicDefaults() error {
	defaults, err := s.config.TopicDefaults()
	if err != nil || maps.Equal(defaults, s.store.TopicDefaults()) {
		return err
	}
	return s.store.SetTopicDefaults(defaults)
}

// brokerName is this broker's id as the name of a resource.
func (s *Server) brokerName() string { return strconv.Itoa(int(s.store.NodeID())) }
