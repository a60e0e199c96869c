package compare

import (
	"html/template"
	"io"
)

// writeHTML writes one self-contained page: the matrix, then each case with both answers side by side.
func (r *Report) writeHTML(w io.Writer, onlyDifferent bool) error {
	type line struct {
		Path, A, B, RawA, RawB, BytesA, BytesB, Rule string
		Class, Reason                                string
	}
	type step struct {
		*StepResult
		Lines []line
	}
	type caseView struct {
		*CaseResult
		Again, Remark string
		Steps         []step
	}
	type row struct {
		API   string
		Cells []Cell
	}
	n, steps := r.Counts()
	view := struct {
		*Report
		Counts      map[Verdict]int
		Steps       int
		Rows        []row
		Cases       []caseView
		Normalisers []Normaliser
		Ignored     []string
	}{Report: r, Counts: n, Steps: steps, Normalisers: Normalisers, Ignored: r.ignoredFields()}
	matrix := r.Matrix()
	for _, a := range APIs() {
		if cells := matrix[a.Name]; len(cells) > 0 {
			view.Rows = append(view.Rows, row{a.Name, cells})
		}
	}
	for i := range r.Cases {
		c := &r.Cases[i]
		if v := c.Verdict(); onlyDifferent && v != Different && c.Stopped == "" {
			continue
		}
		cv := caseView{CaseResult: c, Again: r.Repeat(c), Remark: c.remark()}
		for j := range c.Steps {
			s := &c.Steps[j]
			sv := step{StepResult: s}
			differs := map[string]*Difference{}
			for k := range s.Differences {
				differs[s.Differences[k].Path] = &s.Differences[k]
			}
			class := func(d *Difference) (string, string) {
				if d.Expected != nil {
					return "expected", d.Expected.Reason
				}
				return "different", ""
			}
			shown := map[string]bool{}
			if s.A != nil && s.B != nil {
				rawB := map[string]string{}
				for _, f := range s.B.Fields {
					rawB[f.Path] = f.Raw
				}
				for _, f := range s.A.Fields {
					l := line{Path: f.Path, A: f.Value, B: f.Value, RawA: f.Raw, RawB: rawB[f.Path], Rule: f.Rule}
					if d := differs[f.Path]; d != nil {
						l.Class, l.Reason = class(d)
						l.A, l.B, l.RawA, l.RawB, l.BytesA, l.BytesB = orMissing(d.A), orMissing(d.B), d.RawA, d.RawB, d.BytesA, d.BytesB
					}
					shown[f.Path] = true
					sv.Lines = append(sv.Lines, l)
				}
			}
			for _, d := range s.Differences {
				if !shown[d.Path] {
					l := line{Path: d.Path, A: orMissing(d.A), B: orMissing(d.B), RawA: d.RawA, RawB: d.RawB, BytesA: d.BytesA, BytesB: d.BytesB}
					l.Class, l.Reason = class(&d)
					sv.Lines = append(sv.Lines, l)
				}
			}
			cv.Steps = append(cv.Steps, sv)
		}
		view.Cases = append(view.Cases, cv)
	}
	return htmlReport.Execute(w, view)
}

var htmlReport = template.Must(template.New("report").Funcs(template.FuncMap{
	"clip": clip,
	"mark": func(v Verdict) string { return cellMarks[v] },
	"class": func(v Verdict) string {
		if v == NotRun {
			return "notrun"
		}
		return string(v)
	},
}).Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>gateway compare</title><style>
body{font:14px/1.4 system-ui,sans-serif;margin:2em auto;max-width:90em;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse}td,th{border:1px solid #ccc;padding:2px 6px;vertical-align:top;text-align:left}
code,td.v{font-family:ui-monospace,monospace;font-size:12px;word-break:break-all}
.same{background:#dff3df}.expected{background:#fff3c4}.different{background:#ffd4d4}.notrun{background:#eee;color:#777}
.raw{color:#777}summary{cursor:pointer;padding:2px 6px;margin:2px 0}h3{margin:.8em 0 .2em}
</style></head><body>
<h1>gateway compare</h1>
<p>a: <code>{{.A.Addr}}</code> ({{.A.Product}}), b: <code>{{.B.Addr}}</code> ({{.B.Product}}), seed {{.Seed}}.
{{len .Report.Cases}} cases, {{.Steps}} steps: {{range $v, $n := .Counts}}{{$n}} {{$v}} {{end}}</p>
{{range .Stale}}<p class="different">Expected difference of {{.Scenario}} at <code>{{.Path}}</code> no longer matches: {{.Reason}}</p>{{end}}
<h2>Matrix</h2><p><span class="same">= same</span> <span class="expected">~ expected</span> <span class="different">≠ different</span> <span class="notrun">· not run</span></p>
<table>{{range .Rows}}<tr><th>{{.API}}</th>{{range .Cells}}<td class="{{class .Verdict}}" title="{{.Verdict}}, {{.Steps}} steps">{{.Version}} {{mark .Verdict}}</td>{{end}}</tr>{{end}}</table>
<h2>Cases</h2>
{{range .Cases}}<details{{if eq .Verdict "different"}} open{{end}}><summary class="{{class .Verdict}}">{{.Name}}: {{.Verdict}}{{with .Remark}} ({{.}}){{end}}</summary>
<p>{{.Why}}</p><p><code>{{.Again}}</code></p>
{{range .Steps}}<h3>{{.Step}} · {{.API}} v{{.Version}}{{with .Does}}: {{.}}{{end}}</h3>
<table><tr><th>field</th><th>a</th><th>b</th></tr>{{range .Lines}}<tr class="{{.Class}}"><td class="v"{{with .Rule}} title="normaliser: {{.}}"{{end}}>{{.Path}}{{with .Reason}}<br><i>{{.}}</i>{{end}}</td><td class="v">{{clip .A}}{{with .RawA}} <span class="raw">{{clip .}}</span>{{end}}{{with .BytesA}}<br><span class="raw">{{.}}</span>{{end}}</td><td class="v">{{clip .B}}{{with .RawB}} <span class="raw">{{clip .}}</span>{{end}}{{with .BytesB}}<br><span class="raw">{{.}}</span>{{end}}</td></tr>{{end}}</table>{{end}}
</details>{{end}}
<h2>Normalisers</h2><ul>{{range .Normalisers}}<li>{{.Name}}: {{.Does}}</li>{{end}}</ul>
{{with .Ignored}}<h2>Fields that steps leave out</h2><ul>{{range .}}<li>{{.}}</li>{{end}}</ul>{{end}}
</body></html>
`))
