package wire

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/kaen-log/gateway/storage"
)

// dynamicClass says whether and where a broker config may be changed while the
// broker runs. Kafka: DynamicBrokerConfig.
type dynamicClass int8

const (
	readOnly    dynamicClass = iota // server.properties only
	clusterWide                     // settable for all brokers at once, or for one
	perBroker                       // settable for one broker only
)

// brokerDef is one row of the broker config table.
type brokerDef struct {
	storage.ConfigDef
	dynamic dynamicClass
	effect  effect
}

// effect says whether a config does anything here.
type effect int8

const (
	honoured effect = iota // it does what it does in Kafka
	inert                  // accepted and reported
	unlisted               // honoured; reported when it is set, as Kafka reports what it has in no table
)

// BrokerConfig holds the broker's configuration by Kafka's names: what was set at
// start (file, environment, flags), over the defaults of the table, under what
// was set while running. Reads take no lock. It is safe for concurrent use.
type BrokerConfig struct {
	static map[string]string            // set at start, without blanks around; never written afterwards
	values atomic.Pointer[brokerValues] // replaced as a whole by SetDynamic
}

// brokerValues is what holds at one moment. It is immutable.
type brokerValues struct {
	all, one map[string]string // set while running, for all brokers and for this one, as they were given
	set      map[string]string // what is set anywhere, by precedence, in canonical text
}

// NewBrokerConfig checks static against the table and reports every fault at
// once. Keys must be in the table: whoever reads a file that may hold others
// drops them first (KnownBrokerConfig). The map is copied.
func NewBrokerConfig(static map[string]string) (*BrokerConfig, error) {
	c := &BrokerConfig{static: make(map[string]string, len(static))}
	var faults []error
	for name, value := range static {
		d, ok := brokerConfigDef(name)
		if !ok {
			d, _, ok = listenerConfigDef(name)
		}
		if !ok {
			faults = append(faults, fmt.Errorf("broker config %q is not known%s", name, nearest(name)))
			continue
		}
		if err := d.check(value); err != nil {
			faults = append(faults, err)
			continue
		}
		c.static[name] = strings.TrimSpace(value)
	}
	// The two names of the broker's id stand for each other. Kafka: AbstractKafkaConfig.populateSynonyms.
	node, broker := c.static["node.id"], c.static["broker.id"]
	switch {
	case node == "" && broker != "":
		c.static["node.id"] = broker
	case node != "" && broker == "":
		c.static["broker.id"] = node
	case node != broker:
		faults = append(faults, fmt.Errorf("broker config broker.id: %s, but node.id is %s", broker, node))
	}
	sort.Slice(faults, func(i, j int) bool { return faults[i].Error() < faults[j].Error() })
	c.SetDynamic(nil, nil)
	return c, errors.Join(faults...)
}

// KnownBrokerConfig reports whether name is a broker config of Kafka's or of
// ours, and names the nearest known key when it is not.
func KnownBrokerConfig(name string) (known bool, nearestName string) {
	if _, ok := brokerConfigDef(name); ok {
		return true, ""
	}
	if _, _, ok := listenerConfigDef(name); ok {
		return true, ""
	}
	return false, nearestBrokerConfig(name)
}

// BrokerConfigHasEffect reports whether a known broker config does anything here.
func BrokerConfigHasEffect(name string) bool {
	if _, effect, ok := listenerConfigDef(name); ok {
		return effect
	}
	d, ok := brokerConfigDef(name)
	return ok && d.effect != inert
}

// check validates one value and says what was wanted.
func (d *brokerDef) check(value string) error {
	if err := d.CheckValue(value); err != nil {
		return fmt.Errorf("broker %w", err)
	}
	return nil
}

// lookup returns the effective value of name and whether there is one.
func (c *BrokerConfig) lookup(name string) (string, bool) {
	if v, ok := c.values.Load().set[name]; ok {
		return v, true
	}
	d, ok := brokerConfigDef(name)
	if !ok {
		panic("wire: broker config " + name + " is not in the table")
	}
	return d.Default, d.HasDefault
}

// String returns the effective value of name, "" when it has none.
func (c *BrokerConfig) String(name string) string {
	v, _ := c.lookup(name)
	return v
}

// IsSet reports whether name was set at start or while running.
func (c *BrokerConfig) IsSet(name string) bool {
	_, ok := c.values.Load().set[name]
	return ok
}

// Int returns the effective value of a numeric config. The table's check has
// seen the value, so that a value that is no number is our bug.
func (c *BrokerConfig) Int(name string) int64 {
	return mustNumber(name, c.String(name))
}

func mustNumber(name, v string) int64 {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("wire: broker config %s is %q, not a number", name, v))
	}
	return n
}

// Float returns a numeric config that may have a fraction. Like String it is for configs of the table, whose values
// were checked.
func (c *BrokerConfig) Float(name string) float64 {
	v := c.String(name)
	n, err := strconv.ParseFloat(v, 64)
	if err != nil {
		panic(fmt.Sprintf("wire: broker config %s is %q, which is no number", name, v))
	}
	return n
}

// Bool returns the effective value of a boolean config.
func (c *BrokerConfig) Bool(name string) bool {
	return strings.EqualFold(c.String(name), "true")
}

// List returns the effective value of a list config without its blanks; an
// empty value is an empty list.
func (c *BrokerConfig) List(name string) []string {
	return words(c.String(name))
}

// words splits a list and takes the blanks away.
func words(list string) []string {
	var out []string
	for _, s := range strings.Split(list, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

// SetDynamic replaces the overrides set while running: for all brokers, and for
// this one. The maps are not copied and must not be changed afterwards. A value
// that is not valid is left out; its name is returned.
func (c *BrokerConfig) SetDynamic(all, one map[string]string) (invalid []string) {
	v, invalid := c.withDynamic(all, one)
	c.values.Store(v)
	return invalid
}

// withDynamic is what would hold with other overrides.
func (c *BrokerConfig) withDynamic(all, one map[string]string) (v *brokerValues, invalid []string) {
	v = &brokerValues{all: map[string]string{}, one: map[string]string{}, set: make(map[string]string, len(c.static))}
	for name, value := range c.static {
		v.set[name] = canonicalBroker(name, value)
	}
	for _, layer := range []struct{ from, to map[string]string }{{all, v.all}, {one, v.one}} {
		for name, value := range layer.from {
			if checkDynamicValue(name, value) != nil {
				invalid = append(invalid, name)
				continue
			}
			layer.to[name] = value
			for _, other := range brokerSynonyms(name) {
				delete(v.set, other) // log.retention.ms set while running beats log.retention.hours of the file
			}
			v.set[name] = canonicalBroker(name, value)
		}
	}
	// A Kafka cluster is formatted with this default, and keeps it for good. Kafka: ConfigurationControlManager.
	if _, ok := v.all[minInsyncReplicas]; !ok {
		v.all[minInsyncReplicas] = "1"
		if set, ok := c.static[minInsyncReplicas]; ok {
			v.all[minInsyncReplicas] = set
		}
	}
	slices.Sort(invalid)
	return v, invalid
}

const minInsyncReplicas = "min.insync.replicas"

// canonicalBroker returns a checked value in canonical text; that of a name that
// is not in the table as it is.
func canonicalBroker(name, value string) string {
	if d, ok := brokerConfigDef(name); ok {
		if v, err := d.Canonical(value); err == nil {
			return v
		}
	}
	return value
}

// brokerSynonyms returns the configs that say the same as name in other units, the
// strongest first, name among them. Kafka: DynamicBrokerConfig.brokerConfigSynonyms.
func brokerSynonyms(name string) []string {
	switch name {
	case "log.roll.ms", "log.roll.hours":
		return []string{"log.roll.ms", "log.roll.hours"}
	case "log.roll.jitter.ms", "log.roll.jitter.hours":
		return []string{"log.roll.jitter.ms", "log.roll.jitter.hours"}
	case "log.retention.ms", "log.retention.minutes", "log.retention.hours":
		return []string{"log.retention.ms", "log.retention.minutes", "log.retention.hours"}
	case "log.flush.interval.ms":
		return []string{"log.flush.interval.ms", "log.flush.scheduler.interval.ms"}
	}
	return []string{name}
}

// TopicDefaults returns the values that broker configs give to topic configs, by
// topic config name and in canonical text: for each topic config the first of its
// synonyms that is set, converted to the topic's unit.
func (c *BrokerConfig) TopicDefaults() (map[string]string, error) {
	return c.values.Load().topicDefaults()
}

func (v *brokerValues) topicDefaults() (map[string]string, error) {
	out := map[string]string{}
	var faults []error
	for _, d := range storage.TopicConfigs() {
		for _, syn := range d.Synonyms {
			value, ok := v.set[syn.Name]
			if !ok {
				continue
			}
			value, err := topicDefault(&d, &syn, value)
			if err != nil {
				faults = append(faults, fmt.Errorf("broker config %s: %w", syn.Name, err))
			}
			out[d.Name] = value
			break
		}
	}
	return out, errors.Join(faults...)
}

// topicDefault turns the value of a broker config into that of a topic config.
func topicDefault(d *storage.ConfigDef, syn *storage.ConfigSynonym, value string) (string, error) {
	if syn.Convert != nil {
		converted, err := syn.Convert(value)
		if err != nil {
			return "", err
		}
		value = converted
	}
	if d.Name == "retention.ms" {
		// Kafka: AbstractKafkaConfig.logRetentionTimeMillis, KafkaConfig.validateValues.
		switch n, err := strconv.ParseInt(value, 10, 64); {
		case err == nil && n < 0:
			value = "-1"
		case err == nil && n == 0:
			return "", errors.New("0 milliseconds, want at least 1, or -1 for no limit")
		}
	}
	return d.Canonical(value)
}

// nearest renders the nearest known key for an error text.
func nearest(name string) string {
	if n := nearestBrokerConfig(name); n != "" {
		return fmt.Sprintf(" (nearest known: %s)", n)
	}
	return ""
}

// nearestBrokerConfig returns the known key with the smallest edit distance, ""
// when none is near enough to be a slip of the finger.
func nearestBrokerConfig(name string) string {
	if d, ok := storage.TopicConfigDef(name); ok && len(d.Synonyms) > 0 {
		return d.Synonyms[0].Name // a topic config: what gives topics their default
	}
	best, bestDistance := "", len(name)/3+1
	for i := range brokerConfigs {
		if d := editDistance(name, brokerConfigs[i].Name); d < bestDistance {
			best, bestDistance = brokerConfigs[i].Name, d
		}
	}
	return best
}

// editDistance is the Levenshtein distance of two short strings.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := diagonal
			if a[i-1] != b[j-1] {
				cost++
			}
			diagonal = row[j]
			row[j] = min(cost, row[j]+1, row[j-1]+1)
		}
	}
	return row[len(b)]
}
