package wire

import (
	"strings"
	"testing"
)

func TestMatrixSection(t *testing.T) {
	got, err := matrixSection("kafka 4.4.0\n0 Produce 3 8 same\n0 Produce 9 9 expected\n0 Produce 10 13 same\n18 ApiVersions 0 5 not run\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Kafka 4.4.0", "| 0 | Produce | 3-8, 10-13 | 9 |  |  |\n", "| 18 | ApiVersions |  |  |  | 0-5 |\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in:\n%s", want, got)
		}
	}
	for _, bad := range []string{"", "kafka 4.4.0\n", "0 Produce 3 8 same\n", "kafka 4.4.0\n0 Produce 3 x same\n", "kafka 4.4.0\n0 Produce 3 8 fine\n", "kafka 4.4.0\n0 Produce 3\n"} {
		if got, err := matrixSection(bad); err == nil {
			t.Errorf("%q: got %q, want an error", bad, got)
		}
	}
}
