package compare

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// VersionRow is one api in the comparison of what two brokers serve.
type VersionRow struct {
	Key     int16
	Name    string
	A, B    string // the range, or "-"
	Verdict string // same, only a, only b or different
}

// CompareVersions asks both brokers what they serve.
func CompareVersions(ctx context.Context, a, b string) ([]VersionRow, error) {
	var sides [2]*Broker
	for i, addr := range []string{a, b} {
		var err error
		if sides[i], err = Reach(ctx, addr); err != nil {
			return nil, err
		}
	}
	return versionRows(sides[0], sides[1]), nil
}

func versionRows(a, b *Broker) []VersionRow {
	var keys []int16
	for _, side := range []*Broker{a, b} {
		for k := range side.APIs {
			if !slices.Contains(keys, k) {
				keys = append(keys, k)
			}
		}
	}
	slices.Sort(keys)
	var out []VersionRow
	for _, k := range keys {
		row := VersionRow{Key: k, Name: "unknown", A: "-", B: "-", Verdict: "same"}
		if api, ok := APIByKey(k); ok {
			row.Name = api.Name
		}
		x, inA := a.APIs[k]
		y, inB := b.APIs[k]
		if inA {
			row.A = x.String()
		}
		if inB {
			row.B = y.String()
		}
		switch {
		case !inA:
			row.Verdict = "only b"
		case !inB:
			row.Verdict = "only a"
		case x != y:
			row.Verdict = "different"
		}
		out = append(out, row)
	}
	return out
}

// ConfigRow is one property of a config that two brokers report differently, or a whole config that one lacks.
type ConfigRow struct {
	Resource string // topic or broker
	Name     string
	What     string // value, type, source, read only, sensitive, synonyms, documentation, or present
	A, B     string
}

// ConfigsResult is the comparison of all topic and broker configs.
type ConfigsResult struct {
	Topics, Brokers int // configs that both have
	Rows            []ConfigRow
}

// CompareConfigs makes a topic on both brokers, describes its configs and the broker's, and compares every property.
func CompareConfigs(ctx context.Context, a, b string, seed uint64) (*ConfigsResult, error) {
	s, err := ParseScenario("configs", []byte("why: configs\ntags: [configs]\ntopics: {topic: {}}\n"+
		"steps:\n- api: DescribeConfigs\n  send:\n    includeSynonyms: true\n    includeDocumentation: true\n    resources:\n"+
		"    - {resourceType: 2, resourceName: \"${topic}\", configurationKeys: null}\n"+
		"    - {resourceType: 4, resourceName: \"${node}\", configurationKeys: null}\n"))
	if err != nil {
		return nil, err
	}
	r, err := Run(ctx, []*Scenario{s}, Options{A: a, B: b, Seed: seed, Versions: "max"})
	if err != nil {
		return nil, err
	}
	if r.Cases[0].NotRun != "" {
		return nil, fmt.Errorf("configs: %s", r.Cases[0].NotRun)
	}
	sides := [2]map[string]map[string]string{}
	for i, answer := range []*Answer{r.Cases[0].Steps[0].A, r.Cases[0].Steps[0].B} {
		sides[i] = configTable(answer)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(sides[i])), func(name string) bool { return strings.HasPrefix(name, "topic ") }) {
			return nil, fmt.Errorf("%s describes no configs of a topic", []string{a, b}[i])
		}
	}
	out := &ConfigsResult{}
	for _, name := range sortedKeys(sides[0], sides[1]) {
		resource, config, _ := strings.Cut(name, " ")
		x, y := sides[0][name], sides[1][name]
		if x == nil || y == nil {
			out.Rows = append(out.Rows, ConfigRow{resource, config, "present", yesNo(x != nil), yesNo(y != nil)})
			continue
		}
		if resource == "topic" {
			out.Topics++
		} else {
			out.Brokers++
		}
		for _, what := range sortedKeys(x, y) {
			if x[what] != y[what] {
				out.Rows = append(out.Rows, ConfigRow{resource, config, what, x[what], y[what]})
			}
		}
	}
	return out, nil
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

func sortedKeys[V any](a, b map[string]V) []string {
	var out []string
	for _, m := range []map[string]V{a, b} {
		for k := range m {
			if !slices.Contains(out, k) {
				out = append(out, k)
			}
		}
	}
	slices.Sort(out)
	return out
}

// configTable reads the fields of a DescribeConfigs answer into "topic NAME" or "broker NAME", then property to value.
func configTable(a *Answer) map[string]map[string]string {
	out := map[string]map[string]string{}
	for _, f := range a.Fields {
		// results[2,~topic].configs[name].property
		head, rest, ok := strings.Cut(f.Path, "].configs[")
		if !ok {
			continue
		}
		resource := "broker"
		if strings.HasPrefix(head, "results[2,") {
			resource = "topic"
		}
		name, property, ok := strings.Cut(rest, "].")
		if !ok {
			continue
		}
		key := resource + " " + name
		if out[key] == nil {
			out[key] = map[string]string{}
		}
		if strings.HasPrefix(property, "synonyms") {
			if _, last, ok := strings.Cut(property, "]."); ok {
				out[key]["synonyms"] += last + "=" + f.Value + " "
			}
			continue
		}
		out[key][property] = f.Value
	}
	return out
}
