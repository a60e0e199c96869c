package compare

import (
	"bytes"
	_ "embed"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

//go:embed expected-differences.yaml
var expectedText []byte

// Expected is one difference between the gateway and Kafka that is meant.
type Expected struct {
	Scenario string `yaml:"scenario"` // a name, or a name with #ROW
	Step     string `yaml:"step"`     // what the step does; "" is any step
	API      string `yaml:"api"`      // "" is any
	Path     string `yaml:"path"`     // with [*] for any index or key and * for any part
	Gateway  string `yaml:"gateway"`  // what the gateway answers; "" is anything
	Kafka    string `yaml:"kafka"`    // what Kafka answers; "" is anything
	Reason   string `yaml:"reason"`
	// Design names the line of the design that decides so. Without it an entry may not cover an error code, an
	// offset, record bytes, the length of an array or what one side does not have at all.
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

// CheckExpected finds entries that no run could show to be stale, because no scenario has the name that they give.
func CheckExpected(expected []Expected, scenarios []*Scenario) error {
	for _, e := range expected {
		if !slices.ContainsFunc(scenarios, func(s *Scenario) bool { return s.Name == e.scenario() }) {
			return fmt.Errorf("expected difference at %s: no scenario %q", e.Path, e.scenario())
		}
	}
	return nil
}

// scenario is the name without the row.
func (e *Expected) scenario() string {
	name, _, _ := strings.Cut(e.Scenario, "#")
	return name
}

// weighty reports whether a difference is of an error code, an offset, record bytes, the length of an array, a whole
// answer, or of an element or field that only one side has, whatever stands in it.
func (d *Difference) weighty() bool {
	low := strings.ToLower(d.Path)
	last := low[strings.LastIndex(low, ".")+1:]
	return strings.Contains(last, "errorcode") || strings.Contains(last, "offset") || strings.Contains(last, "watermark") ||
		strings.Contains(low, "records") || strings.HasSuffix(low, "[]") || strings.HasPrefix(low, "(") || d.A == "" || d.B == ""
}

func (e *Expected) covers(c *CaseResult, s *StepResult, d *Difference, gatewayIsA bool) bool {
	gateway, kafka := d.A, d.B
	if !gatewayIsA {
		gateway, kafka = d.B, d.A
	}
	name, row, hasRow := strings.Cut(e.Scenario, "#")
	if name != c.Scenario || hasRow && row != strconv.Itoa(c.Row+1) || e.Step != "" && e.Step != s.Does {
		return false
	}
	if e.API != "" && !strings.EqualFold(e.API, s.API) || !matchPath(e.Path, d.Path) {
		return false
	}
	if e.Gateway != "" && e.Gateway != gateway || e.Kafka != "" && e.Kafka != kafka {
		return false
	}
	return e.Design != "" || !d.weighty()
}

// judge marks the differences that are meant, and finds entries that no longer match: only where whole says that every
// case of a scenario ran. Entries count only between a gateway and something else: two gateways, or two Kafkas, must not
// differ at all.
func (r *Report) judge(expected []Expected, whole func(scenario string) bool) {
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
		if !used[n] && whole(e.scenario()) {
			r.Stale = append(r.Stale, e)
		}
	}
}
