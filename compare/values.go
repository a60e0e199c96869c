package compare

import (
	"encoding/hex"
	"fmt"
	"math"
	"regexp"
	"strings"
	"unicode/utf16"
)

// variables of one side of a case, by name.
type variables map[string]any

// reference is ${name}, ${name + 1} or ${name - 1}.
var reference = regexp.MustCompile(`\$\{([a-zA-Z][a-zA-Z0-9._-]*)(?: ([+-]) (\d+))?\}`)

// resolve replaces the references in a value read from YAML. A string that is one reference alone becomes the
// variable's value with its type; within a longer string its text is put in. !hex text becomes bytes (see loadYAML).
func (vars variables) resolve(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return vars.resolveText(v)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			var err error
			if out[i], err = vars.resolve(item); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		if _, ok := v["repeat"]; ok && len(v) == 2 {
			return vars.repeated(v)
		}
		if group, ok := v["partitionOf"]; ok && len(v) == 1 {
			return vars.partitionOf(group)
		}
		out := make(map[string]any, len(v))
		for k, item := range v {
			name, err := vars.resolveText(k)
			if err != nil {
				return nil, err
			}
			if out[fmt.Sprint(name)], err = vars.resolve(item); err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
		}
		return out, nil
	}
	return v, nil
}

// repeated is {repeat: x, times: 5}: a long text.
func (vars variables) repeated(v map[string]any) (any, error) {
	times, err := vars.resolve(v["times"])
	if err != nil {
		return nil, err
	}
	n, err := intUpTo(times, 1<<20)
	if err != nil {
		return nil, fmt.Errorf("repeat: times: %w", err)
	}
	return strings.Repeat(fmt.Sprint(v["repeat"]), int(n)), nil
}

// offsetsPartitions is how many partitions __consumer_offsets has unless a broker is told otherwise.
const offsetsPartitions = 50

// partitions is the variable that notes which groups' partitions of __consumer_offsets a scenario names.
type partitions map[int64]string

// partitionOf is {partitionOf: GROUP}: the partition of __consumer_offsets that keeps a group. Kafka:
// Utils.abs(groupId.hashCode()) % partitions.
func (vars variables) partitionOf(group any) (any, error) {
	name, err := vars.resolve(group)
	if err != nil {
		return nil, err
	}
	hash := int32(0)
	for _, unit := range utf16.Encode([]rune(fmt.Sprint(name))) {
		hash = 31*hash + int32(unit)
	}
	n := int64(hash)
	switch {
	case hash == math.MinInt32:
		n = 0
	case hash < 0:
		n = -n
	}
	n %= offsetsPartitions
	if noted, ok := vars["(partitions)"].(partitions); ok {
		noted[n] = fmt.Sprint(name)
	}
	return n, nil
}

func (vars variables) resolveText(s string) (any, error) {
	if text, ok := strings.CutPrefix(s, "hex:"); ok {
		b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
		if err != nil {
			return nil, fmt.Errorf("%q: %w", s, err)
		}
		return b, nil
	}
	if m := reference.FindStringSubmatchIndex(s); m != nil && m[0] == 0 && m[1] == len(s) {
		return vars.value(reference.FindStringSubmatch(s))
	}
	var failed error
	out := reference.ReplaceAllStringFunc(s, func(ref string) string {
		v, err := vars.value(reference.FindStringSubmatch(ref))
		if err != nil {
			failed = err
		}
		return fmt.Sprint(v)
	})
	if failed == nil && strings.Contains(out, "${") {
		failed = fmt.Errorf("%q: a reference is ${name} or ${name + 1}", s)
	}
	return out, failed
}

// clock is the variable now, which notes the times that are counted from it.
type clock struct {
	now  int64
	sent map[int64]bool
}

// value is what one match of reference stands for.
func (vars variables) value(m []string) (got any, err error) {
	v, ok := vars[m[1]]
	if !ok {
		return nil, fmt.Errorf("no variable %q", m[1])
	}
	c, isClock := v.(clock)
	if isClock {
		v = c.now
		defer func() {
			if n, ok := got.(int64); ok {
				c.sent[n] = true
			}
		}()
	}
	if m[2] == "" {
		return v, nil
	}
	n, err := asInt(v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m[0], err)
	}
	by, err := asInt(m[3])
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m[0], err)
	}
	if m[2] == "-" {
		by = -by
	}
	return n + by, nil
}

// withRecords builds the fields of type records in the values of a message, in place.
func withRecords(fields []*Field, values map[string]any) error {
	for _, f := range fields {
		v, ok := lookup(values, f.Name)
		if !ok {
			continue
		}
		switch {
		case f.Type == "records":
			b, err := buildRecords(v)
			if err != nil {
				return fmt.Errorf("%s: %w", f.Name, err)
			}
			var built any
			if b != nil {
				built = b
			}
			for k := range values {
				if strings.EqualFold(k, f.Name) {
					values[k] = built
				}
			}
		case f.Type == "struct":
			items, ok := v.([]any)
			if !ok {
				items = []any{v}
			}
			for _, item := range items {
				if m, ok := item.(map[string]any); ok {
					if err := withRecords(f.Fields, m); err != nil {
						return fmt.Errorf("%s: %w", f.Name, err)
					}
				}
			}
		}
	}
	return nil
}
