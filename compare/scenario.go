package compare

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed scenarios/*.yaml
var scenarioFiles embed.FS

// Scenario is one file: what is sent, and why the answer matters.
type Scenario struct {
	Name string   `yaml:"-"` // the file's name without .yaml
	Why  string   `yaml:"why"`
	Tags []string `yaml:"tags"`
	// API makes one case of each version of this api that both brokers serve, within Versions; steps of this api
	// that name no version use the case's.
	API      string `yaml:"api"`
	Versions string `yaml:"versions"`
	// Since is the first release of Kafka, as 4.4, that the scenario may be run against.
	Since string `yaml:"since"`
	// Each makes one case of each row; a row's keys are variables.
	Each []map[string]any `yaml:"each"`
	// Vars are variables of every case, which a row may override.
	Vars map[string]any `yaml:"vars"`
	// Topics are made before the first step. NAME gives ${NAME}, ${NAME.id} and ${NAME.epoch}.
	Topics map[string]TopicSpec `yaml:"topics"`
	// Configs are broker configs that the scenario relies on: it is not run where a broker has another value.
	Configs map[string]string `yaml:"configs"`
	Steps   []*Step           `yaml:"steps"`
	// Alone keeps other cases from running beside this one: it changes what they see.
	Alone bool `yaml:"alone"`
	// ChangesBroker says what the scenario sets of the broker itself, which others see until it is set back at the
	// end. It runs only where that is allowed.
	ChangesBroker string `yaml:"changesBroker"`
	// Finally runs at the end whatever happened; it is not compared.
	Finally []*Step `yaml:"finally"`

	text   string
	bounds Range
}

// TopicSpec says how a topic is made before the first step. Unless it is plain or says otherwise it keeps its records
// for ever: those of most scenarios are years old, and a broker may look for old ones at any time.
type TopicSpec struct {
	Plain      bool              `yaml:"plain"`
	Partitions int               `yaml:"partitions"`
	Configs    map[string]string `yaml:"configs"`
}

// Step is one request, one wait for an answer, or raw bytes.
type Step struct {
	Does string `yaml:"does"` // what is shown
	Conn string `yaml:"conn"` // name of the connection; "" is one of its own name

	API     string         `yaml:"api"`
	Version string         `yaml:"version"` // a number, min or max; "" is the case's for the case's api, else max
	Send    map[string]any `yaml:"send"`
	// Body replaces the encoded body: raw bytes (hex) after the header.
	Body *string `yaml:"body"`
	// Truncate takes so many bytes off the end of the encoded body, Extend adds hex bytes.
	Truncate int    `yaml:"truncate"`
	Extend   string `yaml:"extend"`
	// ClientID of the request's header; (null) is null.
	ClientID *string `yaml:"clientId"`

	Raw string `yaml:"raw"` // hex bytes written to the connection as they are

	As      string `yaml:"as"`      // sends only; the answer is awaited under this name
	Await   string `yaml:"await"`   // waits for the answer sent under this name
	Parked  string `yaml:"parked"`  // looks whether what was sent under this name stays unanswered for Within; it is still awaited
	NoReply bool   `yaml:"noReply"` // sends only; there is no answer to come

	// From and To bound the case's versions in which the step is done.
	From *int16 `yaml:"from"`
	To   *int16 `yaml:"to"`

	Capture map[string]string `yaml:"capture"` // variable: path in the answer
	Until   map[string]any    `yaml:"until"`   // repeats the request until the answer has these values
	Within  string            `yaml:"within"`  // how long to wait for the answer, or for Until
	Pin     any               `yaml:"pin"`     // part of Kafka's answer, or one of outcomes
	AtLeast string            `yaml:"atLeast"` // the answer takes at least so long; compared as kept or not
	Ordered []string          `yaml:"ordered"` // paths of arrays whose order is compared
	Ignore  []Ignored         `yaml:"ignore"`  // fields that are not compared
	Quiet   bool              `yaml:"quiet"`   // of the answer only that there is one is compared

	within, atLeast time.Duration
}

// outcomes are what a pin may say of an answer as a whole.
var outcomes = []string{"answered", "closed", "silent", "parked"}

// Ignored names fields that two brokers may answer differently, and why.
type Ignored struct {
	Path string `yaml:"path"` // with * for any index or key
	Why  string `yaml:"why"`
}

// Scenarios returns the scenarios that are built in, by name.
func Scenarios() ([]*Scenario, error) { return readScenarios(scenarioFiles, "scenarios") }

// readScenarios reads every YAML file in dir.
func readScenarios(files fs.FS, dir string) ([]*Scenario, error) {
	names, err := fs.Glob(files, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var out []*Scenario
	var errs []error
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		s, err := ParseScenario(strings.TrimSuffix(path.Base(name), ".yaml"), text)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b *Scenario) int { return strings.Compare(a.Name, b.Name) })
	return out, errors.Join(errs...)
}

// ParseScenario reads one scenario and checks what can be checked without a broker.
func ParseScenario(name string, text []byte) (*Scenario, error) {
	s := &Scenario{Name: name, text: string(text)}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(s); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", name, err)
	}
	return s, nil
}

func (s *Scenario) check() error {
	s.bounds = Range{0, maxVersion}
	if s.Why == "" || len(s.Tags) == 0 || len(s.Steps) == 0 {
		return errors.New("want why, tags and steps")
	}
	if s.Since != "" && metadataVersions[s.Since] == 0 {
		return fmt.Errorf("since %q: want one of %v", s.Since, slices.Sorted(maps.Keys(metadataVersions)))
	}
	if s.API != "" {
		if _, ok := APINamed(s.API); !ok {
			return fmt.Errorf("api %q: not one of Kafka's", s.API)
		}
	}
	if s.Versions != "" {
		var err error
		if s.bounds, err = parseRange(s.Versions); err != nil {
			return err
		}
	}
	sent := map[string]bool{} // what a step before was sent as
	for i, st := range slices.Concat(s.Steps, s.Finally) {
		if st == nil {
			return fmt.Errorf("step %d: it is null", i+1)
		}
		if err := st.check(sent); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

// check takes what the steps before were sent as, and adds what this one is.
func (st *Step) check(sent map[string]bool) error {
	kinds := 0
	for _, given := range []bool{st.API != "", st.Raw != "", st.Await != "", st.Parked != ""} {
		if given {
			kinds++
		}
	}
	if kinds != 1 {
		return fmt.Errorf("want one of api, raw, await and parked, got %d of them", kinds)
	}
	if st.API != "" {
		a, ok := APINamed(st.API)
		if !ok {
			return fmt.Errorf("api %q: not one of Kafka's", st.API)
		}
		if _, err := strconv.ParseInt(st.Version, 10, 16); err != nil && !slices.Contains([]string{"", "min", "max"}, st.Version) {
			return fmt.Errorf("version %q: want a number, min or max", st.Version)
		}
		if err := checkNames(a.Request, st.Send); err != nil {
			return err
		}
	}
	sent[st.As] = true
	if name := st.Await + st.Parked; name != "" && !sent[name] {
		return fmt.Errorf("no step before is sent as %q", name)
	}
	if st.Truncate < 0 {
		return fmt.Errorf("truncate %d: want bytes to take off", st.Truncate)
	}
	if word, ok := st.Pin.(string); ok && !slices.Contains(outcomes, word) {
		return fmt.Errorf("pin %q: want a map of paths, or one of %s", word, strings.Join(outcomes, ", "))
	}
	for _, i := range st.Ignore {
		if i.Why == "" {
			return fmt.Errorf("ignore %s: want why", i.Path)
		}
	}
	st.within = 10 * time.Second
	if st.Parked != "" {
		st.within = 300 * time.Millisecond
	}
	for text, d := range map[*string]*time.Duration{&st.Within: &st.within, &st.AtLeast: &st.atLeast} {
		if *text == "" {
			continue
		}
		var err error
		if *d, err = time.ParseDuration(*text); err != nil || *d <= 0 {
			return fmt.Errorf("got %q, want a time such as 300ms", *text)
		}
	}
	return nil
}

// checkNames finds names in a request that Kafka's message does not have.
func checkNames(fields []*Field, values map[string]any) error {
	for name, v := range values {
		if name == "+" || strings.HasPrefix(name, "${") {
			continue
		}
		i := slices.IndexFunc(fields, func(f *Field) bool { return strings.EqualFold(f.Name, name) })
		if i < 0 {
			return fmt.Errorf("no field %q, there are %s", name, fieldNames(fields))
		}
		if fields[i].Type != "struct" {
			continue
		}
		items, ok := v.([]any)
		if !ok {
			items = []any{v}
		}
		for _, item := range items {
			if m, ok := item.(map[string]any); ok {
				if err := checkNames(fields[i].Fields, m); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// Text is the scenario as it is written.
func (s *Scenario) Text() string { return s.text }

// APIs returns the names of the apis that its steps call.
func (s *Scenario) APIs() []string {
	var out []string
	for _, st := range s.Steps {
		if a, ok := APINamed(st.API); ok && !slices.Contains(out, a.Name) {
			out = append(out, a.Name)
		}
	}
	return out
}

// Summary is the first sentence of why.
func (s *Scenario) Summary() string {
	first, _, _ := strings.Cut(strings.Join(strings.Fields(s.Why), " "), ". ")
	return strings.TrimSuffix(first, ".")
}
