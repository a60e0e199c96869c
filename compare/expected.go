package compare

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed expected-differences.yaml
var expectedText []byte

// Expected is one difference between the gateway and Kafka that is meant.
type Expected struct {
	Scenario string `yaml:"scenario"` // a name, a pattern with *, or a name with #ROW
	Step     string `yaml:"step"`     // what the step does; "" is any step
	API      string `yaml:"api"`      // "" is any
	Path     string `yaml:"path"`     // with [*] for any index or key and * for any part
	Gateway  string `yaml:"gateway"`  // what the gateway answers; "" is anything
	Kafka    string `yaml:"kafka"`    // what Kafka answers; "" is anything
	Reason   string `yaml:"reason"`
	// Design names the line of the design that decides so. Without it an entry may not cover an error code, an
	// offset, record bytes or the length of an array.
	Design string `yaml:"design"`
}

// ExpectedDifferences returns the entries that are built in.
func ExpectedDifferences() ([]Expected, error) { return ParseExpected(expectedText) }

// ExpectedInReplays returns the built-in entries that name an api, as they hold for replays of sessions.
func ExpectedInReplays() ([]Expected, error) {
	all, err := ExpectedDifferences()
	var out []Expected
	for _, e := range all {
		if e.API != "" {
			e.Scenario = replayScenario
			out = append(out, e)
		}
	}
	return out, err
}

// ParseExpected reads a list of entries and checks each.
func ParseExpected(text []byte) ([]Expected, error) {
	var out []Expected
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&out); err != nil && err != io.EOF { // an empty file
		return nil, fmt.Errorf("expected differences: %w", err)
	}
	for i, e := range out {
		if e.Scenario == "" || e.Path == "" || e.Reason == "" {
			return nil, fmt.Errorf("expected difference %d: want scenario, path and reason", i+1)
		}
	}
	return out, nil
}

// weighty reports whether a path is an error code, an offset, record bytes, the length of an array or a whole answer.
func weighty(p string) bool {
	low := strings.ToLower(p)
	last := low[strings.LastIndex(low, ".")+1:]
	return strings.Contains(last, "errorcode") || strings.Contains(last, "offset") || strings.Contains(low, "records") ||
		strings.HasSuffix(low, "[]") || strings.HasPrefix(p, "(")
}

func (e *Expected) covers(c *CaseResult, s *StepResult, d *Difference, gatewayIsA bool) bool {
	gateway, kafka := d.A, d.B
	if !gatewayIsA {
		gateway, kafka = d.B, d.A
	}
	name, row, hasRow := strings.Cut(e.Scenario, "#")
	if ok, _ := path.Match(name, c.Scenario); !ok || hasRow && row != strconv.Itoa(c.Row+1) || e.Step != "" && e.Step != s.Does {
		return false
	}
	if e.API != "" && !strings.EqualFold(e.API, s.API) || !matchPath(e.Path, d.Path) {
		return false
	}
	if e.Gateway != "" && e.Gateway != gateway || e.Kafka != "" && e.Kafka != kafka {
		return false
	}
	return e.Design != "" || !weighty(d.Path)
}

// judge marks the differences that are meant, and finds entries that no longer match. Entries count only between a
// gateway and something else: two gateways, or two Kafkas, must not differ at all.
func (r *Report) judge(expected []Expected, ran []*Scenario) {
	if r.A == nil || r.B == nil || (r.A.Product == "gateway") == (r.B.Product == "gateway") {
		return
	}
	used := make([]bool, len(expected))
	for i := range r.Cases {
		c := &r.Cases[i]
		for j := range c.Steps {
			s := &c.Steps[j]
			for k := range s.Differences {
				d := &s.Differences[k]
				n := slices.IndexFunc(expected, func(e Expected) bool { return e.covers(c, s, d, r.A.Product == "gateway") })
				if n >= 0 {
					used[n], d.Expected = true, &expected[n]
				}
			}
		}
	}
	for n, e := range expected {
		// Only a whole run of the scenarios that an entry names can show that it is stale.
		name, _, _ := strings.Cut(e.Scenario, "#")
		named := slices.ContainsFunc(ran, func(s *Scenario) bool { ok, _ := path.Match(name, s.Name); return ok })
		wild := strings.Contains(e.Scenario, "*")
		if !used[n] && named && !wild && r.Versions == "all" && !r.skipped(name) {
			r.Stale = append(r.Stale, e)
		}
	}
}

// skipped reports whether a case of a scenario did not run.
func (r *Report) skipped(scenario string) bool {
	return slices.ContainsFunc(r.Cases, func(c CaseResult) bool { return c.Scenario == scenario && c.NotRun != "" })
}
