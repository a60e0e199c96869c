package storage

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestPlanDirectory shows what is made of the names in a partition directory. A segment with .swap ends where the
// argument says.
func TestPlanDirectory(t *testing.T) {
	datadriven.RunTest(t, "testdata/plan_directory", func(t *testing.T, d *datadriven.TestData) string {
		ends := map[int64]int64{}
		for _, a := range d.CmdArgs {
			var base, end int64
			fmt.Sscan(a.Key, &base)
			fmt.Sscan(a.Vals[0], &end)
			ends[base] = end
		}
		var names []string
		for _, name := range strings.Fields(d.Input) {
			// Short names: 7.log is 00000000000000000007.log.
			if base, rest, ok := strings.Cut(name, "."); ok && strings.Trim(base, "0123456789") == "" {
				name = strings.Repeat("0", 20-len(base)) + base + "." + rest
			}
			names = append(names, name)
		}
		plan, err := planDirectory(names, func(base int64) (int64, error) { return ends[base], nil })
		if err != nil {
			return err.Error()
		}
		var b strings.Builder
		for _, s := range plan.segments {
			fmt.Fprintf(&b, "segment %d%s index=%v times=%v txns=%v", s.base, s.suffix, s.index, s.times, s.txns)
			if s.reach > 0 {
				fmt.Fprintf(&b, " reach=%d", s.reach)
			}
			b.WriteString("\n")
		}
		for _, name := range plan.remove {
			if name = strings.TrimLeft(name, "0"); name[0] == '.' {
				name = "0" + name
			}
			fmt.Fprintf(&b, "remove %s\n", name)
		}
		fmt.Fprintf(&b, "snapshots %v, epochs %v\n", plan.snapshots, plan.epochs)
		return b.String()
	})
}

func FuzzPlanDirectory(f *testing.F) {
	f.Add("00000000000000000000.log\n00000000000000000000.index.swap\nx.tmp\n00000000000000000000.log.swap", int64(5))
	f.Fuzz(func(t *testing.T, names string, end int64) {
		plan, err := planDirectory(strings.Split(names, "\n"), func(int64) (int64, error) { return end, nil })
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range plan.segments {
			if s.base < 0 || i > 0 && s.base <= plan.segments[i-1].base {
				t.Errorf("segments do not ascend: %+v", plan.segments)
			}
		}
	})
}
