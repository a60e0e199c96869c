package compare

import (
	"cmp"
	"io"
)

// writeMatrix writes the verdicts by API and version for other programs: a line with the release of Kafka, then one
// for each run of versions of an API with the same verdict,
//
//	KEY NAME FIRST LAST VERDICT
//
// in which the verdict is the rest of the line.
func (r *Report) writeMatrix(w io.Writer) error {
	p := &printer{w: w}
	kafka := r.B
	if kafka.Product == "gateway" {
		kafka = r.A
	}
	p.f("kafka %s\n", cmp.Or(kafka.Version, kafka.Release, "unknown"))
	matrix := r.Matrix()
	for _, a := range APIs() {
		cells := matrix[a.Name]
		for i := 0; i < len(cells); {
			last := i
			for last+1 < len(cells) && cells[last+1].Verdict == cells[i].Verdict {
				last++
			}
			p.f("%d %s %d %d %s\n", a.Key, a.Name, cells[i].Version, cells[last].Version, cells[i].Verdict)
			i = last + 1
		}
	}
	return p.err
}
