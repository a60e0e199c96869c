package wire

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestSurface shows each change of what is served.
func TestSurface(t *testing.T) {
	datadriven.RunTest(t, "testdata/surface", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for i := range apis.rows {
			a := &apis.rows[i]
			fmt.Fprintf(&b, "%d %s %s", a.key, keyName(a.key), versionRange(a.min, a.max))
			if a.advertisedMin != a.min {
				fmt.Fprintf(&b, ", advertised from %d", a.advertisedMin)
			}
			if a.start != nil {
				b.WriteString(", overlaps")
			}
			b.WriteString("\n")
		}
		return b.String()
	})
}

func TestServedVersionsAreKafkas(t *testing.T) {
	last := int16(-1)
	known := map[int16]kafkaKey{}
	for _, k := range kafkaKeys {
		if k.key <= last {
			t.Errorf("key %d after %d", k.key, last)
		}
		last, known[k.key] = k.key, k
	}
	for i := range apis.rows {
		a := &apis.rows[i]
		k, ok := known[a.key]
		if !ok || a.min != k.min || a.max != k.max {
			t.Errorf("key %d serves %s, want %s (%s)", a.key, versionRange(a.min, a.max), versionRange(k.min, k.max), k.name)
		}
	}
	for _, d := range differences {
		if apis.find(d.key) == nil {
			t.Errorf("a difference is told of key %d, which is not served", d.key)
		}
	}
}

// TestCompatibilityPage holds docs/compatibility.md against the table and what was compared; -rewrite writes it.
func TestCompatibilityPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "compare", "testdata", "matrix.txt"))
	if err != nil {
		t.Fatal(err)
	}
	matrix, err := matrixSection(string(text))
	if err != nil {
		t.Fatal(err)
	}
	wantPage(t, "compatibility.md", compatibilityPage(matrix), "Compatibility")
}
