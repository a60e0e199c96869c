package compare

import (
	"fmt"
	"slices"
	"strings"
)

// Report is what a run found.
type Report struct {
	A, B   *Broker
	Seed   uint64
	Strict bool
	// ChangeBrokers is Options.ChangeBrokers.
	ChangeBrokers bool
	Versions      string
	Cases         []CaseResult
	// Stale are expected differences that the run looked for and did not find.
	Stale []Expected

	recorded bool     // B is a recording of Kafka
	files    []string // Options.Files
	replays  string   // the file of the session that was replayed; "" when scenarios ran
}

// CaseResult is one case, compared.
type CaseResult struct {
	Name     string
	Scenario string
	Version  int16
	Row      int
	Why      string
	NotRun   string // why it did not run; "" when it did
	Stopped  string // why both sides left out the steps after the last one; "" when they did not
	Steps    []StepResult
}

// StepResult is one step, compared.
type StepResult struct {
	Step        int
	Does        string
	API         string
	Version     int16
	A, B        *Answer // nil where the side did not come so far
	Differences []Difference
}

// Difference is one field that the two sides answered differently, or a pin that one of them does not keep.
type Difference struct {
	Path     string
	A, B     string // "" where the field is missing
	RawA     string // as it came, when that is something else
	RawB     string
	BytesA   string // around the field
	BytesB   string
	Expected *Expected // the entry that says it is meant; nil when it is not
}

// Verdict of a case or a cell: same, expected, different or not run.
type Verdict string

// The verdicts, from good to bad.
const (
	Same      Verdict = "same"
	Meant     Verdict = "expected"
	Different Verdict = "different"
	NotRun    Verdict = "not run"
)

// Verdict sums up a case.
func (c *CaseResult) Verdict() Verdict {
	if c.NotRun != "" {
		return NotRun
	}
	v := Same
	for i := range c.Steps {
		switch c.Steps[i].Verdict() {
		case Different:
			return Different
		case Meant:
			v = Meant
		}
	}
	return v
}

// Verdict sums up a step.
func (s *StepResult) Verdict() Verdict {
	v := Same
	for _, d := range s.Differences {
		if d.Expected == nil {
			return Different
		}
		v = Meant
	}
	return v
}

// Counts are how many cases have each verdict, and how many steps were compared.
func (r *Report) Counts() (verdicts map[Verdict]int, steps int) {
	verdicts = map[Verdict]int{}
	for i := range r.Cases {
		verdicts[r.Cases[i].Verdict()]++
		steps += len(r.Cases[i].Steps)
	}
	return verdicts, steps
}

// Differs reports whether anything differs that is not expected, or an expectation is stale.
func (r *Report) Differs() bool {
	n, _ := r.Counts()
	return n[Different] > 0 || len(r.Stale) > 0
}

// compare fills in the steps from what the two sides answered.
func (c *CaseResult) compare(a, b Transcript) {
	for i := range max(len(a.Answers), len(b.Answers)) {
		var x, y *Answer
		if i < len(a.Answers) {
			x = &a.Answers[i]
		}
		if i < len(b.Answers) {
			y = &b.Answers[i]
		}
		c.Steps = append(c.Steps, compareAnswers(x, y))
	}
	switch {
	case a.Stopped == b.Stopped && a.Stopped != "" && len(c.Steps) == 0:
		c.NotRun = "both stopped: " + a.Stopped
		return
	case a.Stopped == b.Stopped:
		c.Stopped = a.Stopped
		return
	}
	if len(c.Steps) == 0 {
		c.Steps = []StepResult{{}}
	}
	last := &c.Steps[len(c.Steps)-1]
	last.Differences = append(last.Differences, Difference{Path: "(the case stopped)", A: orNone(a.Stopped), B: orNone(b.Stopped)})
}

// remark is what is said beside the verdict of a case; "" when there is nothing.
func (c *CaseResult) remark() string {
	if c.Stopped != "" {
		return "both stopped: " + c.Stopped
	}
	return c.NotRun
}

func orNone(s string) string {
	if s == "" {
		return "no"
	}
	return s
}

func compareAnswers(a, b *Answer) StepResult {
	some := a
	if some == nil {
		some = b
	}
	s := StepResult{Step: some.Step, Does: some.Does, API: some.API, Version: some.Version, A: a, B: b}
	if a == nil || b == nil {
		s.Differences = []Difference{{Path: "(answer)", A: presence(a), B: presence(b)}}
		return s
	}
	s.Differences = compareFields(a, b)
	for i, pins := range [][]string{a.Pins, b.Pins} {
		for _, p := range pins {
			d := Difference{Path: "(Kafka's answer)", A: "kept", B: "kept"}
			*[]*string{&d.A, &d.B}[i] = p
			s.Differences = append(s.Differences, d)
		}
	}
	return s
}

func presence(a *Answer) string {
	if a == nil {
		return "did not come so far"
	}
	return "answered"
}

// compareFields walks both lists by path. An element of an array that only one side has is one difference.
func compareFields(a, b *Answer) []Difference {
	out := missing(a, b, func(f FieldValue, bytes string) Difference {
		return Difference{Path: f.Path, A: f.Value, RawA: f.Raw, BytesA: bytes}
	})
	inB := map[string]int{}
	for i, f := range b.Fields {
		inB[f.Path] = i
	}
	for _, f := range a.Fields {
		if i, ok := inB[f.Path]; ok && f.Value != b.Fields[i].Value {
			g := b.Fields[i]
			out = append(out, Difference{Path: f.Path, A: f.Value, B: g.Value, RawA: f.Raw, RawB: g.Raw,
				BytesA: around(a.frame, f), BytesB: around(b.frame, g)})
		}
	}
	return append(out, missing(b, a, func(f FieldValue, bytes string) Difference {
		return Difference{Path: f.Path, B: f.Value, RawB: f.Raw, BytesB: bytes}
	})...)
}

// missing makes a difference of each field of a that b does not have, and of each whole element.
func missing(a, b *Answer, difference func(f FieldValue, bytes string) Difference) []Difference {
	has := map[string]bool{}
	for _, f := range b.Fields {
		has[f.Path] = true
		for p := strings.TrimSuffix(f.Path, "[]"); p != ""; p = parent(p) {
			has[p] = true
		}
	}
	var out []Difference
	gone := map[string]bool{}
	for _, f := range a.Fields {
		if has[f.Path] {
			continue
		}
		// The outermost element that is not there.
		p := f.Path
		for up := parent(p); up != "" && !has[up]; up = parent(up) {
			p = up
		}
		if gone[p] {
			continue
		}
		gone[p] = true
		bytes := around(a.frame, f)
		if p != f.Path {
			f = FieldValue{Path: p, Value: summary(a, p)}
		}
		out = append(out, difference(f, bytes))
	}
	return out
}

// parent is the path of what a field or element stands in; "" at the top.
func parent(p string) string {
	p = strings.TrimSuffix(p, "[]")
	if strings.HasSuffix(p, "]") {
		return p[:strings.LastIndex(p, "[")]
	}
	return p[:max(0, strings.LastIndex(p, "."))]
}

// summary is an element in one line.
func summary(a *Answer, p string) string {
	var parts []string
	for _, f := range a.Fields {
		if rest, ok := strings.CutPrefix(f.Path, p+"."); ok {
			parts = append(parts, rest+"="+f.Value)
		}
	}
	return "{" + strings.Join(parts, " ") + "}"
}

// around shows a field's bytes in brackets with some before and after.
func around(frame []byte, f FieldValue) string {
	if f.End <= f.Start || f.End > len(frame) {
		return ""
	}
	const margin, most = 8, 32
	before, after := frame[max(0, f.Start-margin):f.Start], frame[f.End:min(len(frame), f.End+margin)]
	own := fmt.Sprintf("% x", frame[f.Start:min(f.End, f.Start+most)])
	if f.End-f.Start > most {
		own += " …"
	}
	return strings.TrimSpace(fmt.Sprintf("at %d: % x [%s] % x", f.Start, before, own, after))
}

// Cell is one api at one version in the matrix of a report.
type Cell struct {
	API     string
	Version int16
	Verdict Verdict
	Steps   int
}

// Matrix is every api and version that both brokers serve, with the verdict of the steps that used it.
func (r *Report) Matrix() map[string][]Cell {
	out := map[string][]Cell{}
	if r.A == nil || r.B == nil {
		return out
	}
	type key struct {
		api     string
		version int16
	}
	verdicts, steps := map[key]Verdict{}, map[key]int{}
	rank := []Verdict{"", Same, Meant, Different}
	for i := range r.Cases {
		for j := range r.Cases[i].Steps {
			s := &r.Cases[i].Steps[j]
			k := key{s.API, s.Version}
			steps[k]++
			if v := s.Verdict(); slices.Index(rank, v) > slices.Index(rank, verdicts[k]) {
				verdicts[k] = v
			}
		}
	}
	for _, a := range APIs() {
		both := common(a, [2]*Broker{r.A, r.B}).And(a.Valid)
		for v := both.Min; v <= both.Max; v++ {
			k := key{a.Name, v}
			verdict := verdicts[k]
			if verdict == "" {
				verdict = NotRun
			}
			out[a.Name] = append(out[a.Name], Cell{a.Name, v, verdict, steps[k]})
		}
	}
	return out
}
