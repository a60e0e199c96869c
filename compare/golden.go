package compare

import (
	"bufio"
	"cmp"
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed all:testdata/kafka-4.4.0
var goldenFiles embed.FS

// Golden is what a real Kafka answered in every case, kept as text: one file a scenario, in which equal answers stand
// once. Words for people are kept as present or absent only.
type Golden struct {
	Kafka string          // its version
	APIs  map[int16]Range // what it serves
	// Cases by name.
	Cases map[string]Transcript
}

// release is the version without its patch level.
func (g *Golden) release() string { return g.Kafka[:max(0, strings.LastIndex(g.Kafka, "."))] }

// GoldenName is the folder of the recordings that are built in.
const GoldenName = "kafka-4.4.0"

// metadataVersions is the highest metadata.version that each release of Kafka offers: it tells the release, which
// nothing else in the protocol does.
var metadataVersions = map[string]int64{"4.0": 25, "4.1": 27, "4.2": 29, "4.3": 30, "4.4": 33}

// LoadGolden reads the recordings that are built in.
func LoadGolden() (*Golden, error) { return readGolden(goldenFiles, "testdata/"+GoldenName) }

// Record runs the scenarios against one broker, which must be the Kafka that it is said to be.
func Record(ctx context.Context, addr, kafka string, scenarios []*Scenario, o Options) (*Golden, error) {
	b, err := Reach(ctx, addr)
	if err != nil {
		return nil, err
	}
	if err := b.isKafka(kafka); err != nil {
		return nil, err
	}
	if err := errors.Join(b.readConfigs(ctx, scenarios), b.readDynamic(ctx)); err != nil {
		return nil, err
	}
	g := &Golden{Kafka: kafka, APIs: b.APIs, Cases: map[string]Transcript{}}
	o.A, o.Versions, o.ChangeBrokers = addr, "all", true
	var mu sync.Mutex
	var faults []error // of scenarios
	cases := casesOf(scenarios, [2]*Broker{b, b}, &o)
	r := &Report{A: b, B: b, Cases: make([]CaseResult, len(cases))}
	o.record = func(c Case, t Transcript) {
		mu.Lock()
		defer mu.Unlock()
		for _, a := range t.Answers {
			if len(a.Pins) > 0 {
				faults = append(faults, fmt.Errorf("%s step %d: Kafka does not keep what is pinned: %s", c, a.Step, strings.Join(a.Pins, "; ")))
			}
		}
		if t.Stopped != "" {
			faults = append(faults, fmt.Errorf("%s stopped: %s", c, t.Stopped))
		}
		g.Cases[c.String()] = t
	}
	if err := r.runAll(ctx, cases, &o); err != nil {
		return nil, err
	}
	return g, errors.Join(faults...)
}

// isKafka checks that a broker is the Kafka of a version, as far as it can be told.
func (b *Broker) isKafka(version string) error {
	if b.Product != "other" {
		return fmt.Errorf("%s is a gateway: recordings are made of Apache Kafka only", b.Addr)
	}
	parts := strings.Split(version, ".")
	if len(parts) != 3 || metadataVersions[parts[0]+"."+parts[1]] == 0 {
		return fmt.Errorf("version %q of Kafka: want one of %v with its patch level", version, slices.Sorted(maps.Keys(metadataVersions)))
	}
	if want := parts[0] + "." + parts[1]; b.Release != want {
		return fmt.Errorf("%s is %s by its metadata.version, want %s", b.Addr, cmp.Or(b.Release, "no Kafka 4"), want)
	}
	return nil
}

// Files returns the recordings as text files by name.
func (g *Golden) Files() map[string]string {
	out := map[string]string{}
	var b strings.Builder
	fmt.Fprintf(&b, "kafka %s\n", g.Kafka)
	for _, k := range slices.Sorted(maps.Keys(g.APIs)) {
		fmt.Fprintf(&b, "serves %d %d %d\n", k, g.APIs[k].Min, g.APIs[k].Max)
	}
	out["broker.txt"] = b.String()
	byScenario := map[string][]string{}
	for name := range g.Cases {
		scenario, _, _ := strings.Cut(name, "#")
		scenario, _, _ = strings.Cut(scenario, "@")
		byScenario[scenario] = append(byScenario[scenario], name)
	}
	for scenario, names := range byScenario {
		slices.SortFunc(names, compareCaseNames)
		out[scenario+".txt"] = g.text(names)
	}
	return out
}

// compareCaseNames orders cases by version and row.
func compareCaseNames(a, b string) int {
	va, ra := caseNumbers(a)
	vb, rb := caseNumbers(b)
	if va != vb {
		return va - vb
	}
	return ra - rb
}

func caseNumbers(name string) (version, row int) {
	head, r, _ := strings.Cut(name, "#")
	_, v, _ := strings.Cut(head, "@v")
	version, _ = strconv.Atoi(v)
	row, _ = strconv.Atoi(r)
	return version, row
}

// text writes the cases of one scenario. A fields block that has been written is referred to by its number.
func (g *Golden) text(names []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "kafka %s\n", g.Kafka)
	blocks := map[string]int{}
	for _, name := range names {
		t := g.Cases[name]
		fmt.Fprintf(&b, "\ncase %s\n", name)
		for _, a := range t.Answers {
			var fields strings.Builder
			for _, f := range a.Fields {
				fmt.Fprintf(&fields, "  %s = %s\n", f.Path, f.Value)
			}
			fmt.Fprintf(&b, "step %d %s %d", a.Step, a.API, a.Version)
			if n, ok := blocks[fields.String()]; ok {
				fmt.Fprintf(&b, " as %d\n", n)
				continue
			}
			blocks[fields.String()] = len(blocks) + 1
			fmt.Fprintf(&b, " is %d\n%s", len(blocks), fields.String())
		}
		if t.Stopped != "" {
			fmt.Fprintf(&b, "stopped %s\n", t.Stopped)
		}
	}
	return b.String()
}

// readGolden reads a folder of recordings.
func readGolden(files fs.FS, dir string) (*Golden, error) {
	g := &Golden{APIs: map[int16]Range{}, Cases: map[string]Transcript{}}
	entries, err := fs.ReadDir(files, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		f, err := files.Open(dir + "/" + e.Name())
		if err != nil {
			return nil, err
		}
		if err := errors.Join(g.read(f), f.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", e.Name(), err)
		}
	}
	if len(g.APIs) == 0 {
		return nil, fmt.Errorf("%s: no recordings", dir)
	}
	return g, nil
}

func (g *Golden) read(r io.Reader) error {
	blocks := map[string][]FieldValue{}
	var name, block string
	in := bufio.NewScanner(r)
	in.Buffer(nil, 64<<20)
	for in.Scan() {
		line := in.Text()
		if field, ok := strings.CutPrefix(line, "  "); ok {
			path, value, ok := strings.Cut(field, " = ")
			if !ok || name == "" {
				return fmt.Errorf("%q: want a field in a step", line)
			}
			t := g.Cases[name]
			last := &t.Answers[len(t.Answers)-1]
			last.Fields = append(last.Fields, FieldValue{Path: path, Value: value})
			blocks[block] = last.Fields
			continue
		}
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "kafka" && len(words) == 2:
			g.Kafka = words[1]
		case words[0] == "serves" && len(words) == 4:
			var n [3]int64
			for i := range n {
				var err error
				if n[i], err = strconv.ParseInt(words[i+1], 10, 16); err != nil {
					return err
				}
			}
			g.APIs[int16(n[0])] = Range{int16(n[1]), int16(n[2])}
		case words[0] == "case" && len(words) == 2:
			name = words[1]
			g.Cases[name] = Transcript{}
		case words[0] == "stopped":
			t := g.Cases[name]
			t.Stopped = strings.TrimPrefix(line, "stopped ")
			g.Cases[name] = t
		case words[0] == "step" && len(words) == 6 && name != "":
			step, err := strconv.Atoi(words[1])
			if err != nil {
				return err
			}
			version, err := strconv.ParseInt(words[3], 10, 16)
			if err != nil {
				return err
			}
			t := g.Cases[name]
			block = words[5]
			a := Answer{Step: step, API: words[2], Version: int16(version)}
			if words[4] == "as" {
				a.Fields = blocks[block]
			}
			t.Answers = append(t.Answers, a)
			g.Cases[name] = t
		default:
			return fmt.Errorf("%q: want kafka, serves, case, step or a field", line)
		}
	}
	return in.Err()
}
