package compare

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

// fault is one way in which a broker could answer wrong; testdata/seeded-faults.yaml lists them.
type fault struct {
	Name string `yaml:"fault"`
	// API and At say where: names of apis, and patterns of paths with [*] for any index and * for anything.
	API []string `yaml:"api"`
	At  []string `yaml:"at"`
	// When is what the field must hold, or one of a list; without it any value is changed.
	When yaml.Node `yaml:"when"`
	// To is the value that is answered instead, "+1" and "-1" count from it; Copy is the field beside it whose value
	// is taken. Array is what happens to an array: drop first, drop last, empty, reverse, or fill one that is empty.
	To    yaml.Node `yaml:"to"`
	Copy  string    `yaml:"copy"`
	Array string    `yaml:"array"`
	// Answer changes the answer as a whole: closed, silent, answered, short, long or header.
	Answer string `yaml:"answer"`
	// Broad faults hit whatever is asked. They must be seen, and they show nothing about a step.
	Broad bool `yaml:"broad"`
}

func (f *fault) applies(api string) bool { return len(f.API) == 0 || slices.Contains(f.API, api) }

// change returns the answer as a broker with the fault gives it, and whether that is another one.
func (f *fault) change(p *pending, a answer) (answer, bool) {
	if f.Answer != "" {
		return f.whole(p, a)
	}
	if a.root == nil || len(f.At) == 0 {
		return a, false
	}
	a.root = cloned(a.root)
	return a, f.fields(a.root, "")
}

func (f *fault) whole(p *pending, a answer) (answer, bool) {
	switch {
	case f.Answer == a.outcome:
		return a, false
	case f.Answer == "closed":
		return answer{outcome: f.Answer}, true
	case f.Answer == "silent":
		return answer{outcome: f.Answer}, a.outcome == "answered"
	case f.Answer == "answered":
		return answer{outcome: f.Answer}, a.outcome == "closed" || a.outcome == "parked"
	case a.root == nil || p.api == rawAPI:
		return a, false
	}
	out := answer{outcome: a.outcome}
	switch f.Answer {
	case "short":
		out.frame = a.frame[:len(a.frame)-1]
	case "long":
		out.frame = append(slices.Clone(a.frame), 0)
	case "header":
		if !p.api.Flexible.Has(p.version) || p.api.Key == apiVersionsKey {
			return a, false
		}
		out.frame = slices.Delete(slices.Clone(a.frame), 4, 5)
	}
	p.decode(&out, false)
	return out, true
}

// fields changes every field below n that the fault is about.
func (f *fault) fields(n *Node, at string) bool {
	changed := false
	for i, c := range n.Children {
		p := join(at, c.Name)
		if n.Kind == Array {
			p = fmt.Sprintf("%s[%d]", at, i)
		}
		if slices.ContainsFunc(f.At, func(pattern string) bool { return matchPath(pattern, p) }) && f.field(n, c) {
			changed = true
			continue
		}
		if f.fields(c, p) {
			changed = true
		}
	}
	return changed
}

func (f *fault) field(in, c *Node) bool {
	if f.Array != "" {
		n := len(c.Children)
		switch {
		case c.Kind != Array || n == 0 != (f.Array == "fill") || f.Array == "reverse" && n == 1:
			return false
		case f.Array == "fill":
			c.Children = []*Node{{Kind: Struct}}
		case f.Array == "drop first":
			c.Children = c.Children[1:]
		case f.Array == "drop last":
			c.Children = c.Children[:n-1]
		case f.Array == "empty":
			c.Children = nil
		case f.Array == "reverse":
			slices.Reverse(c.Children)
		}
		return true
	}
	if c.Kind != Leaf && f.To.Tag != "!!null" || !f.isWhen(c.Value) {
		return false
	}
	before := c.Value
	switch {
	case f.Copy != "":
		from := in.Child(f.Copy)
		if from == nil {
			return false
		}
		c.Value = from.Value
	case c.Kind != Leaf:
		*c = Node{Name: c.Name, Field: c.Field}
		return true
	default:
		c.Value = changedTo(&f.To, c.Value)
	}
	return fmt.Sprint(before) != fmt.Sprint(c.Value) || before == nil != (c.Value == nil)
}

// isWhen reports whether a value is the one, or one of those, that the fault needs. Error codes may be given by name.
func (f *fault) isWhen(v any) bool {
	if f.When.Kind == 0 {
		return true
	}
	wants := []*yaml.Node{&f.When}
	if f.When.Kind == yaml.SequenceNode {
		wants = f.When.Content
	}
	return slices.ContainsFunc(wants, func(w *yaml.Node) bool {
		if w.Tag == "!!null" || v == nil || w.Value == "any" {
			return w.Tag == "!!null" == (v == nil)
		}
		n, isInt := v.(int64)
		if least, ok := strings.CutPrefix(w.Value, ">"); ok && isInt {
			limit, err := strconv.ParseInt(least, 10, 64)
			return err == nil && n > limit
		}
		return fmt.Sprint(v) == w.Value || isInt && errorName(n) == w.Value
	})
}

// changedTo is the value that a node of YAML stands for, of the kind that before is.
func changedTo(to *yaml.Node, before any) any {
	if to.Tag == "!!null" {
		return nil
	}
	switch v := before.(type) {
	case int64:
		n, err := strconv.ParseInt(to.Value, 10, 64)
		if err != nil {
			return errorNumber(to.Value)
		}
		if strings.HasPrefix(to.Value, "+") || strings.HasPrefix(to.Value, "-") && to.Style == yaml.DoubleQuotedStyle {
			return v + n
		}
		return n
	case bool:
		return to.Value == "true"
	case []byte:
		return []byte(to.Value)
	case UUID:
		return UUID{}
	}
	return to.Value
}

func errorNumber(name string) int64 {
	for n := int64(-1); n < 200; n++ {
		if errorName(n) == name {
			return n
		}
	}
	panic("compare: no error code " + name)
}

func cloned(n *Node) *Node {
	out := *n
	out.Children = make([]*Node, len(n.Children))
	for i, c := range n.Children {
		out.Children[i] = cloned(c)
	}
	return &out
}

// kept is a case as a broker answered it, before its answers were normalised.
type kept struct {
	r     *runner
	steps []keptStep
}

type keptStep struct {
	number int
	st     *Step
	p      *pending
	a      answer
	vars   variables
}

// again judges the answers anew, each changed before.
func (k *kept) again(change func(s *keptStep) answer) Transcript {
	n := newNormaliser(k.r.prefix, k.r.strict)
	n.notBefore, n.notAfter, n.now = k.r.notBefore, k.r.notAfter, k.r.now
	n.known, n.sent, n.groups = k.r.known, k.r.sent, k.r.groups
	r := &runner{normaliser: n, c: k.r.c, o: &Options{}}
	for i := range k.steps {
		s := &k.steps[i]
		r.vars = s.vars
		r.add(s.number, s.st, s.p, change(s))
	}
	return r.out
}

// runKept runs scenarios against a gateway, beside the recordings, and keeps the answers of each case.
func runKept(ctx context.Context, addr string, all []*Scenario, g *Golden) (*Report, map[string]*kept, error) {
	var mu sync.Mutex
	cases := map[string]*kept{}
	o := Options{A: addr, Versions: "all", Seed: 6, ChangeBrokers: true, Golden: g}
	o.keep = func(r *runner, step int, st *Step, p *pending, a answer) {
		if step > len(r.c.Scenario.Steps) || r.c.Scenario.Steps[step-1] != st {
			return // of the clean-up, which is not compared
		}
		mu.Lock()
		defer mu.Unlock()
		k := cases[r.c.String()]
		if k == nil {
			k = &kept{r: r}
			cases[r.c.String()] = k
		}
		s := keptStep{step, st, p, a, maps.Clone(r.vars)}
		if n := len(k.steps); n > 0 && len(st.Until) > 0 && k.steps[n-1].number == step {
			k.steps[n-1] = s // an earlier try
			return
		}
		k.steps = append(k.steps, s)
	}
	r, err := Run(ctx, all, o)
	return r, cases, err
}

// SeededResult is what seeding faults has shown.
type SeededResult struct {
	Faults int
	// Steps that narrow faults have failed, each counted once whatever the version and once for each row of its
	// scenario's table, Lines those counted once whatever the row, and SetUp those that are not compared but for
	// being answered.
	Steps, Lines, SetUp int
	Unfailed            []string // steps that no fault has failed, but for those that are set-up or expected to differ
	Unseen              []string // faults that no step has shown
}

// RunSeededFaults runs scenarios against a gateway and judges its answers anew with each fault of a table: as if the
// gateway had it, held against the recordings of Kafka.
func RunSeededFaults(ctx context.Context, addr string, all []*Scenario, table []byte) (*SeededResult, error) {
	d := yaml.NewDecoder(bytes.NewReader(table))
	d.KnownFields(true)
	var faults []fault
	if err := d.Decode(&faults); err != nil {
		return nil, err
	}
	golden, err := LoadGolden()
	if err != nil {
		return nil, err
	}
	expected, err := ExpectedDifferences()
	if err != nil {
		return nil, err
	}
	report, cases, err := runKept(ctx, addr, all, golden)
	if err != nil {
		return nil, err
	}
	type step struct {
		scenario    string
		row, number int
	}
	at := func(k *kept, number int) step { return step{k.r.c.Scenario.Name, k.r.c.Row, number} }
	failed, setUp, meant := map[step]bool{}, map[step]bool{}, map[step]bool{}
	seen := make([]bool, len(faults))
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		k := cases[name]
		judge := func(t Transcript) *CaseResult {
			one := Report{A: report.A, B: report.B, Cases: []CaseResult{{Name: name, Scenario: k.r.c.Scenario.Name, Row: k.r.c.Row}}}
			one.Cases[0].compare(t, golden.Cases[name])
			one.judge(expected, func(string) bool { return false })
			return &one.Cases[0]
		}
		right := judge(k.again(func(s *keptStep) answer { return s.a }))
		if right.Verdict() == Different {
			errs = append(errs, fmt.Errorf("%s: differs from the recording without any fault", name))
			continue
		}
		for i := range right.Steps {
			if s := &right.Steps[i]; s.Verdict() == Meant {
				meant[at(k, s.Step)] = true
			}
		}
		for i := range faults {
			f := &faults[i]
			changed := map[*keptStep]answer{}
			touched := map[int]bool{}
			for j := range k.steps {
				s := &k.steps[j]
				// Only where it would be news: the table times all answers is much.
				if !f.applies(s.p.api.Name) || seen[i] && (f.Broad || failed[at(k, s.number)]) {
					continue
				}
				if a, ok := f.change(s.p, s.a); ok {
					changed[s], touched[s.number] = a, true
				}
			}
			if len(changed) == 0 {
				continue
			}
			t := k.again(func(s *keptStep) answer {
				if a, ok := changed[s]; ok {
					return a
				}
				return s.a
			})
			for _, s := range judge(t).Steps {
				if touched[s.Step] && s.Verdict() == Different {
					seen[i] = true
					if !f.Broad {
						failed[at(k, s.Step)] = true
					}
				}
			}
		}
		for _, s := range k.steps {
			if s.st.Quiet {
				setUp[at(k, s.number)] = true
			}
		}
	}
	out := &SeededResult{Faults: len(faults), Steps: len(failed), SetUp: len(setUp)}
	lines := map[step]bool{}
	for s := range failed {
		lines[step{s.scenario, 0, s.number}] = true
	}
	out.Lines = len(lines)
	listed := map[step]bool{}
	for _, k := range cases {
		for _, s := range k.steps {
			if at := at(k, s.number); !failed[at] && !setUp[at] && !meant[at] && !listed[at] {
				listed[at] = true
				out.Unfailed = append(out.Unfailed, fmt.Sprintf("%s step %d (%s): %s", k.r.c, s.number, s.p.api.Name, s.st.Does))
			}
		}
	}
	slices.Sort(out.Unfailed)
	for i := range faults {
		if !seen[i] {
			out.Unseen = append(out.Unseen, faults[i].Name)
		}
	}
	return out, errors.Join(errs...)
}
