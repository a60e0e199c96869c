package compare

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// Formats are the forms in which a report is written, by name.
var Formats = []string{"table", "json", "junit", "md", "html", "matrix"}

// Write writes the report in a format. onlyDifferent leaves out what is the same.
func (r *Report) Write(w io.Writer, format string, onlyDifferent bool) error {
	switch format {
	case "table":
		return r.writeTable(w, onlyDifferent)
	case "json":
		return r.writeJSON(w, onlyDifferent)
	case "junit":
		return r.writeJUnit(w)
	case "md":
		return r.writeMarkdown(w, onlyDifferent)
	case "matrix":
		return r.writeMatrix(w)
	case "html":
		return r.writeHTML(w, onlyDifferent)
	}
	return fmt.Errorf("format %q: want one of %s", format, strings.Join(Formats, ", "))
}

// FileName is the name of a report file in a format.
func FileName(format string) string {
	if format == "matrix" {
		return "matrix.txt"
	}
	ext := map[string]string{"table": "txt", "json": "json", "junit": "xml", "md": "md", "html": "html"}[format]
	return "compare." + ext
}

// printer writes until the first error, which it keeps.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) f(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format, args...)
	}
}

// Repeat is the command that runs a case again.
func (r *Report) Repeat(c *CaseResult) string {
	if r.replays != "" {
		return r.repeatReplay()
	}
	b := "-b " + r.B.Addr
	if r.recorded {
		b = "--recorded"
	}
	s := fmt.Sprintf("gateway compare -a %s %s --seed %d", r.A.Addr, b, r.Seed)
	for _, name := range r.files {
		s += " --file " + name
	}
	if r.Strict {
		s += " --strict"
	}
	if r.ChangeBrokers {
		s += " --change-brokers"
	}
	return s + " " + c.Name
}

func (r *Report) repeatReplay() string {
	s := fmt.Sprintf("gateway replay %s -a %s", r.replays, r.A.Addr)
	if !strings.HasPrefix(r.B.Addr, recordingOf) {
		s += " -b " + r.B.Addr
	}
	if r.Strict {
		s += " --strict"
	}
	return s
}

func (r *Report) writeTable(w io.Writer, onlyDifferent bool) error {
	p := &printer{w: w}
	for i := range r.Cases {
		c := &r.Cases[i]
		v := c.Verdict()
		if onlyDifferent && v != Different && c.Stopped == "" {
			continue
		}
		p.f("%-9s  %s", v, c.Name)
		if remark := c.remark(); remark != "" {
			p.f("  (%s)", remark)
		}
		p.f("\n")
		for j := range c.Steps {
			r.tableStep(p, &c.Steps[j], onlyDifferent)
		}
		if v == Different {
			p.f("           again: %s\n", r.Repeat(c))
		}
	}
	for _, e := range r.Stale {
		p.f("stale      expected difference of %s at %s no longer matches (%s)\n", e.Scenario, e.Path, e.Reason)
	}
	n, steps := r.Counts()
	p.f("%d cases, %d steps: %d same, %d expected, %d different, %d not run", len(r.Cases), steps, n[Same], n[Meant], n[Different], n[NotRun])
	if len(r.Stale) > 0 {
		p.f(", %d expected differences no longer match", len(r.Stale))
	}
	p.f("\n")
	return p.err
}

func (r *Report) tableStep(p *printer, s *StepResult, onlyDifferent bool) {
	if len(s.Differences) == 0 || onlyDifferent && s.Verdict() != Different {
		return
	}
	p.f("           step %d %s v%d", s.Step, s.API, s.Version)
	if s.Does != "" {
		p.f(": %s", s.Does)
	}
	p.f("\n")
	for _, d := range s.Differences {
		p.f("             %s\n", d.Path)
		if d.Expected != nil {
			p.f("               expected: %s\n", d.Expected.Reason)
		}
		side := func(name, v, raw, bytes string) {
			p.f("               %s  %s", name, orMissing(v))
			if raw != "" {
				p.f("  (%s)", raw)
			}
			if bytes != "" {
				p.f("  %s", bytes)
			}
			p.f("\n")
		}
		side("a", clip(d.A), clip(d.RawA), d.BytesA)
		side("b", clip(d.B), clip(d.RawB), d.BytesB)
	}
}

// clip shortens a long value; reports in JSON hold it whole.
func clip(s string) string {
	const most = 240
	if len(s) > most {
		return fmt.Sprintf("%s… (%d characters)", s[:most], len(s))
	}
	return s
}

func orMissing(v string) string {
	if v == "" {
		return "(no such field)"
	}
	return v
}

func (r *Report) writeJSON(w io.Writer, onlyDifferent bool) error {
	type result struct {
		Verdict Verdict
		*CaseResult
	}
	results := []result{}
	for i := range r.Cases {
		if c := &r.Cases[i]; !onlyDifferent || c.Verdict() == Different {
			results = append(results, result{c.Verdict(), c})
		}
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		*Report
		Cases       []result // in the place of the report's
		Normalisers []Normaliser
		Matrix      map[string][]Cell
	}{r, results, Normalisers, r.Matrix()})
}

type junitSuite struct {
	XMLName  xml.Name    `xml:"testsuite"`
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Skipped  int         `xml:"skipped,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Class   string     `xml:"classname,attr"`
	Name    string     `xml:"name,attr"`
	Failure *junitText `xml:"failure,omitempty"`
	Skipped *junitText `xml:"skipped,omitempty"`
	Out     string     `xml:"system-out,omitempty"`
}

type junitText struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

func (r *Report) writeJUnit(w io.Writer) error {
	n, _ := r.Counts()
	s := junitSuite{Name: "gateway compare", Tests: len(r.Cases) + len(r.Stale), Failures: n[Different] + len(r.Stale), Skipped: n[NotRun]}
	for i := range r.Cases {
		c := &r.Cases[i]
		j := junitCase{Class: c.Scenario, Name: c.Name}
		switch c.Verdict() {
		case Different:
			var text strings.Builder
			p := &printer{w: &text}
			for k := range c.Steps {
				r.tableStep(p, &c.Steps[k], false)
			}
			j.Failure = &junitText{Message: "different", Text: text.String() + r.Repeat(c)}
		case NotRun:
			j.Skipped = &junitText{Message: c.NotRun}
		}
		if c.Stopped != "" {
			j.Out = c.remark()
		}
		s.Cases = append(s.Cases, j)
	}
	for _, e := range r.Stale {
		s.Cases = append(s.Cases, junitCase{Class: e.Scenario, Name: "expected difference at " + e.Path, Failure: &junitText{Message: "no longer matches", Text: e.Reason}})
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(w)
	e.Indent("", " ")
	if err := e.Encode(s); err != nil {
		return err
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// cellMarks is how a verdict is shown in a matrix.
var cellMarks = map[Verdict]string{Same: "=", Meant: "~", Different: "≠", NotRun: "·"}

func (r *Report) writeMarkdown(w io.Writer, onlyDifferent bool) error {
	p := &printer{w: w}
	n, steps := r.Counts()
	p.f("# gateway compare\n\n%s (%s) and %s (%s): %d cases, %d steps; %d same, %d expected, %d different, %d not run.\n\n",
		r.A.Addr, r.A.Product, r.B.Addr, r.B.Product, len(r.Cases), steps, n[Same], n[Meant], n[Different], n[NotRun])
	p.f("`=` same, `~` expected, `≠` different, `·` not run; one mark a version that both serve.\n\n| API | from | versions |\n|---|---|---|\n")
	matrix := r.Matrix()
	for _, a := range APIs() {
		cells := matrix[a.Name]
		if len(cells) == 0 {
			continue
		}
		var marks strings.Builder
		for _, c := range cells {
			marks.WriteString(cellMarks[c.Verdict])
		}
		p.f("| %s | %d | `%s` |\n", a.Name, cells[0].Version, marks.String())
	}
	p.f("\n## Differences\n")
	for i := range r.Cases {
		c := &r.Cases[i]
		if v := c.Verdict(); v == Same || v == NotRun || v == Meant && onlyDifferent {
			continue
		}
		p.f("\n### %s\n\n%s\n\n| step | field | a | b | expected |\n|---|---|---|---|---|\n", c.Name, strings.Join(strings.Fields(c.Why), " "))
		for j := range c.Steps {
			s := &c.Steps[j]
			for _, d := range s.Differences {
				reason := ""
				if d.Expected != nil {
					reason = d.Expected.Reason
				}
				p.f("| %d %s v%d | `%s` | %s | %s | %s |\n", s.Step, s.API, s.Version, d.Path, mdCell(d.A, d.BytesA), mdCell(d.B, d.BytesB), reason)
			}
		}
		p.f("\n`%s`\n", r.Repeat(c))
	}
	var remarks []string
	for i := range r.Cases {
		if remark := r.Cases[i].remark(); remark != "" {
			remarks = append(remarks, r.Cases[i].Name+": "+remark)
		}
	}
	p.list("Not compared, or not to the end", remarks)
	var stale []string
	for _, e := range r.Stale {
		stale = append(stale, fmt.Sprintf("%s at `%s`: %s", e.Scenario, e.Path, strings.Join(strings.Fields(e.Reason), " ")))
	}
	p.list("Expected differences that no longer match", stale)
	p.f("\n## Normalisers\n\n")
	for _, x := range Normalisers {
		p.f("- %s: %s\n", x.Name, x.Does)
	}
	p.list("Fields that steps leave out", r.ignoredFields())
	return p.err
}

// list writes a section of Markdown; none when it is empty.
func (p *printer) list(title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	p.f("\n## %s\n\n", title)
	for _, line := range lines {
		p.f("- %s\n", line)
	}
}

// mdCell is a value, and the bytes around it where there are any.
func mdCell(value, bytes string) string {
	cell := "`" + strings.NewReplacer("|", "\\|", "`", "'", "\n", " ").Replace(clip(orMissing(value))) + "`"
	if bytes != "" {
		cell += " " + bytes
	}
	return cell
}

// ignoredFields lists what steps left out, once each.
func (r *Report) ignoredFields() []string {
	found := map[string]bool{}
	for i := range r.Cases {
		for j := range r.Cases[i].Steps {
			s := &r.Cases[i].Steps[j]
			if s.A == nil {
				continue
			}
			for _, f := range s.A.Fields {
				if f.Rule == "ignored" {
					found[fmt.Sprintf("%s, step %d (%s): %s", r.Cases[i].Scenario, s.Step, s.API, f.Path)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}
