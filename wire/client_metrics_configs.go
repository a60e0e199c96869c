package wire

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/kaen-log/gateway/storage"
)

// clientMetricsConfigs are the configs of a subscription to metrics of clients, sorted by name. They are kept and
// described; clients are not asked for metrics yet. Kafka: ClientMetricsConfigs; KIP-714.
var clientMetricsConfigs = []storage.ConfigDef{
	{Name: "interval.ms", Type: storage.ConfigInt, Default: "300000", HasDefault: true, Doc: "How often a client sends its metrics, 100 to 3600000."},
	{Name: "match", Type: storage.ConfigList, Default: "", HasDefault: true, Valid: fullElements, ValidText: "[non-empty elements]",
		Doc: "Which clients are asked, as name=regular expression with the names client_instance_id, client_id, client_software_name, client_software_version, client_source_address, client_source_port; all must match, none asks everyone."},
	{Name: "metrics", Type: storage.ConfigList, Default: "", HasDefault: true, Valid: fullElements, ValidText: "[non-empty elements]",
		Doc: "Prefixes of the metrics that are asked for; * asks for all."},
}

// clientMatches are the names that match may use.
var clientMatches = []string{
	"client_id", "client_instance_id", "client_software_name", "client_software_version", "client_source_address", "client_source_port",
}

// fullElements accepts a list without empty elements.
func fullElements(v string) error {
	if v != "" && slices.Contains(strings.Split(v, ","), "") {
		return fmt.Errorf("%q has an empty element", v)
	}
	return nil
}

// findConfig finds a row of a table of configs.
func findConfig(table []storage.ConfigDef, name string) (*storage.ConfigDef, bool) {
	i := slices.IndexFunc(table, func(d storage.ConfigDef) bool { return d.Name == name })
	if i < 0 {
		return nil, false
	}
	return &table[i], true
}

// canonicalConfigs checks each of the configs by its row and returns them in canonical text.
func canonicalConfigs(table []storage.ConfigDef, configs map[string]string) (map[string]string, error) {
	out := make(map[string]string, len(configs))
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		d, ok := findConfig(table, name)
		if !ok {
			return nil, &storage.ConfigError{Name: name, Value: configs[name], Reason: "no config has this name"}
		}
		v, err := d.Canonical(configs[name])
		if err != nil {
			return nil, err
		}
		out[name] = v
	}
	return out, nil
}

// describeClientMetrics lists the configs of a subscription; one that does not exist has the defaults.
func describeClientMetrics(own map[string]string) []describedConfig {
	out := make([]describedConfig, 0, len(clientMetricsConfigs))
	for i := range clientMetricsConfigs {
		d := &clientMetricsConfigs[i]
		value, isOwn := own[d.Name]
		synonyms := []configSynonym{}
		if isOwn {
			synonyms = append(synonyms, synonym(d.Name, value, sourceClientMetrics, false))
		} else {
			value = d.Default
		}
		out = append(out, described(d, &value, synonyms))
	}
	return out
}

// checkClientMetrics checks the configs of a subscription. Kafka: ClientMetricsConfigs.validate, whose codes these are.
func checkClientMetrics(configs map[string]string) (map[string]string, error) {
	for _, name := range slices.Sorted(maps.Keys(configs)) {
		if _, ok := findConfig(clientMetricsConfigs, name); !ok {
			return nil, detail(kerr.InvalidRequest, fmt.Sprintf("config %s: client metrics have no config of this name", name))
		}
	}
	configs, err := canonicalConfigs(clientMetricsConfigs, configs)
	if err != nil {
		return nil, err
	}
	if v, ok := configs["interval.ms"]; ok {
		if n, _ := strconv.Atoi(v); n < 100 || n > 3_600_000 {
			return nil, detail(kerr.InvalidRequest, fmt.Sprintf("config interval.ms: %d, want 100 to 3600000", n))
		}
	}
	for _, pattern := range splitList(configs["match"]) {
		name, expression, _ := strings.Cut(pattern, "=")
		// Differs from Kafka in the expressions that Java knows and Go does not, such as those that look ahead.
		_, err := regexp.Compile(strings.TrimSpace(expression))
		if err != nil || expression == "" || strings.Contains(expression, "=") || !slices.Contains(clientMatches, strings.TrimSpace(name)) {
			return nil, &storage.ConfigError{Name: "match", Value: configs["match"], Reason: fmt.Sprintf("%q, want NAME=REGULAR EXPRESSION with a name of %s", pattern, strings.Join(clientMatches, ", "))}
		}
	}
	return configs, nil
}
