package storage

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// ConfigType is the type of a config's value, numbered as in DescribeConfigs answers.
type ConfigType int8

const (
	ConfigBoolean  ConfigType = 1
	ConfigString   ConfigType = 2
	ConfigInt      ConfigType = 3
	ConfigShort    ConfigType = 4
	ConfigLong     ConfigType = 5
	ConfigDouble   ConfigType = 6
	ConfigList     ConfigType = 7
	ConfigClass    ConfigType = 8
	ConfigPassword ConfigType = 9
)

// String returns the type's name in lower case.
func (t ConfigType) String() string {
	switch t {
	case ConfigBoolean:
		return "boolean"
	case ConfigString:
		return "string"
	case ConfigInt:
		return "int"
	case ConfigShort:
		return "short"
	case ConfigLong:
		return "long"
	case ConfigDouble:
		return "double"
	case ConfigList:
		return "list"
	case ConfigClass:
		return "class"
	case ConfigPassword:
		return "password"
	}
	return "config type " + strconv.Itoa(int(t))
}

// ConfigSynonym is a broker config that gives a topic config its broker-level default.
type ConfigSynonym struct {
	Name string
	// Convert changes the broker config's value into the topic config's unit; nil when they have the same.
	Convert func(string) (string, error)
}

// ConfigDef is one row of a config table.
type ConfigDef struct {
	Name string
	Type ConfigType
	// Default is the default in canonical text. HasDefault false is Kafka's null.
	Default    string
	HasDefault bool
	// Valid checks a value in canonical text, whose type is right; nil accepts every one.
	Valid func(value string) error
	// ValidText says in short what Valid accepts, "" when it is nil.
	ValidText string
	Doc       string
	// Synonyms are the broker configs looked at when the topic config is not set, the first that is set wins.
	Synonyms []ConfigSynonym
	// Internal configs are described only when they are set.
	Internal bool
	// Sensitive values are never shown.
	Sensitive bool
}

// ConfigError says which config is wrong and how.
type ConfigError struct {
	Name string
	// Value as it was given; "" when the config is not a matter of its value.
	Value  string
	Reason string
}

func (e *ConfigError) Error() string {
	if e.Name == "" {
		return "config: " + e.Reason
	}
	return fmt.Sprintf("config %s: %s", e.Name, e.Reason)
}

// CheckValue reports whether value may be set; the error is a *ConfigError.
func (d *ConfigDef) CheckValue(value string) error {
	_, err := d.Canonical(value)
	return err
}

// Canonical checks value and returns it as DescribeConfigs shows it: trimmed, numbers and booleans in one spelling,
// lists without blanks and repetitions. The error is a *ConfigError.
//
// Kafka: ConfigDef.parseValue and convertToString.
func (d *ConfigDef) Canonical(value string) (string, error) {
	v, err := d.canonicalType(trimJava(value))
	if err == nil && d.Valid != nil {
		err = d.Valid(v)
	}
	if err != nil {
		return "", &ConfigError{Name: d.Name, Value: value, Reason: err.Error()}
	}
	return v, nil
}

func (d *ConfigDef) canonicalType(v string) (string, error) {
	switch d.Type {
	case ConfigBoolean:
		switch {
		case strings.EqualFold(v, "true"):
			return "true", nil
		case strings.EqualFold(v, "false"):
			return "false", nil
		}
		return "", fmt.Errorf("%q, want true or false", v)
	case ConfigShort:
		return canonicalInteger(v, 16, d.Type)
	case ConfigInt:
		return canonicalInteger(v, 32, d.Type)
	case ConfigLong:
		return canonicalInteger(v, 64, d.Type)
	case ConfigDouble:
		f, err := parseDouble(v)
		if err != nil {
			return "", err
		}
		return formatDouble(f), nil
	case ConfigList:
		var parts []string
		for _, part := range splitConfigList(v) {
			if !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
		return strings.Join(parts, ","), nil
	}
	return v, nil
}

func canonicalInteger(v string, bits int, t ConfigType) (string, error) {
	n, err := strconv.ParseInt(v, 10, bits)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return "", fmt.Errorf("%q is out of range for type %s", v, t)
	case err != nil:
		return "", fmt.Errorf("%q is not a number of type %s", v, t)
	}
	return strconv.FormatInt(n, 10), nil
}

// parseDouble reads a number; Java would also take its hexadecimal and suffixed forms.
func parseDouble(v string) (float64, error) {
	f, err := strconv.ParseFloat(v, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(f) || strings.ContainsAny(v, "_xX") {
		return 0, fmt.Errorf("%q is not a number of type %s", v, ConfigDouble)
	}
	return f, nil
}

// formatDouble writes a number as Java's Double.toString does.
func formatDouble(f float64) string {
	switch a := math.Abs(f); {
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case a == 0 || a >= 1e-3 && a < 1e7:
		s := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(s, ".") {
			s += ".0"
		}
		return s
	}
	mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	n, _ := strconv.Atoi(exponent)
	return mantissa + "E" + strconv.Itoa(n)
}

// trimJava removes what Java's String.trim does: everything up to the blank.
func trimJava(s string) string {
	return strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
}

// splitConfigList splits a list at its commas and drops the blanks around them. The empty text is the empty list.
func splitConfigList(v string) []string {
	v = trimJava(v)
	if v == "" {
		return nil
	}
	parts := strings.Split(v, ",")
	for i := range parts {
		parts[i] = trimJava(parts[i])
	}
	return parts
}

// The checks of the tables of configs. They take values in canonical text.

// AtLeast accepts integers from least on.
func AtLeast(least int64) func(string) error {
	return func(v string) error {
		if n, _ := strconv.ParseInt(v, 10, 64); n < least {
			return fmt.Errorf("%d, want at least %d", n, least)
		}
		return nil
	}
}

// Between accepts integers from least to most.
func Between(least, most int64) func(string) error {
	return func(v string) error {
		if n, _ := strconv.ParseInt(v, 10, 64); n < least || n > most {
			return fmt.Errorf("%d, want %d to %d", n, least, most)
		}
		return nil
	}
}

// OneOrBetween accepts one, and integers from least to most.
func OneOrBetween(one, least, most int64) func(string) error {
	return func(v string) error {
		if n, _ := strconv.ParseInt(v, 10, 64); n != one && (n < least || n > most) {
			return fmt.Errorf("%d, want %d, or %d to %d", n, one, least, most)
		}
		return nil
	}
}

func ratio(v string) error {
	if f, _ := strconv.ParseFloat(v, 64); f < 0 || f > 1 {
		return fmt.Errorf("%s, want 0 to 1", v)
	}
	return nil
}

// OneOf accepts one of values.
func OneOf(values ...string) func(string) error {
	return func(v string) error {
		if !slices.Contains(values, v) {
			return fmt.Errorf("%q, want one of %s", v, strings.Join(values, ", "))
		}
		return nil
	}
}

// ListOf accepts a list of any of values.
func ListOf(values ...string) func(string) error {
	return func(v string) error {
		for _, part := range splitConfigList(v) {
			if !slices.Contains(values, part) {
				return fmt.Errorf("%q, want any of %s", part, strings.Join(values, ", "))
			}
		}
		return nil
	}
}

const throttledReplicasText = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."

// throttledReplicas accepts "*" alone, or pairs of partition and broker, of which some may be empty.
// Kafka: ThrottledReplicaListValidator.
func throttledReplicas(v string) error {
	parts := splitConfigList(v)
	if strings.Join(parts, "") == "*" {
		return nil
	}
	for _, part := range parts {
		if part == "" {
			continue
		}
		partition, broker, ok := strings.Cut(part, ":")
		if !ok || !isDigits(partition) || !isDigits(broker) {
			return fmt.Errorf("%q, want * or pairs partition:broker", part)
		}
	}
	return nil
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// The units of synonyms. Kafka: ConfigSynonym, which takes an empty text for zero.

func hoursToMs(v string) (string, error)   { return scaleToMs(v, 60*60*1000) }
func minutesToMs(v string) (string, error) { return scaleToMs(v, 60*1000) }

func scaleToMs(v string, unitMs int64) (string, error) {
	v = trimJava(v)
	if v == "" {
		return "0", nil
	}
	n, err := strconv.ParseInt(v, 10, 32)
	if err != nil {
		return "", fmt.Errorf("%q is not a number of type %s", v, ConfigInt)
	}
	return strconv.FormatInt(n*unitMs, 10), nil
}

// configValues looks configs up in canonical text. What it holds has been checked.
type configValues struct{ overrides, defaults map[string]string }

func (v configValues) lookup(name string) (string, bool) {
	if s, ok := v.overrides[name]; ok {
		return s, true
	}
	if s, ok := v.defaults[name]; ok {
		return s, true
	}
	d, ok := TopicConfigDef(name)
	if !ok {
		panic("storage: topic config " + name + " is not in the table")
	}
	return d.Default, d.HasDefault
}

func (v configValues) text(name string) string {
	s, _ := v.lookup(name)
	return s
}

func (v configValues) integer(name string) int64 {
	n, err := strconv.ParseInt(v.text(name), 10, 64)
	if err != nil {
		panic("storage: topic config " + name + " was not checked: " + err.Error())
	}
	return n
}

func (v configValues) double(name string) float64 {
	f, err := strconv.ParseFloat(v.text(name), 64)
	if err != nil {
		panic("storage: topic config " + name + " was not checked: " + err.Error())
	}
	return f
}

// canonicalConfigs checks each config by itself and returns all in canonical text. The error joins one *ConfigError
// for each fault, by name.
func canonicalConfigs(configs map[string]string) (map[string]string, error) {
	canonical := make(map[string]string, len(configs))
	var faults []error
	for _, name := range sortedKeys(configs) {
		d, ok := TopicConfigDef(name)
		if !ok {
			faults = append(faults, &ConfigError{Name: name, Value: configs[name], Reason: "no topic config has this name"})
			continue
		}
		v, err := d.Canonical(configs[name])
		if err != nil {
			faults = append(faults, err)
			continue
		}
		canonical[name] = v
	}
	return canonical, errors.Join(faults...)
}

// checkTopicConfigs checks the overrides of a topic over the broker-level defaults: each by itself, then together.
// It returns them in canonical text.
//
// Kafka: LogConfig.validate, validateTopicLogConfigValues. Of the checks for tiered storage only the first can be
// reached without it.
func checkTopicConfigs(overrides, defaults map[string]string) (map[string]string, error) {
	canonical, err := canonicalConfigs(overrides)
	if err != nil {
		return nil, err
	}
	if err := checkTogether(canonical, defaults); err != nil {
		return nil, err
	}
	if v := (configValues{canonical, defaults}); v.text("remote.storage.enable") == "true" {
		return nil, &ConfigError{Name: "remote.storage.enable", Value: "true", Reason: "there is no tiered storage"}
	}
	return canonical, nil
}

// checkTogether makes the checks that involve more than one config. Kafka: LogConfig.validateValues.
func checkTogether(overrides, defaults map[string]string) error {
	v := configValues{overrides, defaults}
	if least, most := v.integer("min.compaction.lag.ms"), v.integer("max.compaction.lag.ms"); least > most {
		return &ConfigError{
			Name: "min.compaction.lag.ms", Value: v.text("min.compaction.lag.ms"),
			Reason: fmt.Sprintf("%d, above max.compaction.lag.ms, which is %d", least, most),
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
