package compare_test

import (
	"os"
	"testing"

	"github.com/kaen-log/gateway/compare"
)

// TestSeededFaultsAreFound gives a gateway one wrong answer after another, those of testdata/seeded-faults.yaml, and
// holds it against the recordings of Kafka. Each fault must show, and each step must fail by at least one of them:
// a step that nothing fails tells nothing.
func TestSeededFaultsAreFound(t *testing.T) {
	t.Parallel()
	table, err := os.ReadFile("testdata/seeded-faults.yaml")
	if err != nil {
		t.Fatal(err)
	}
	r, err := compare.RunSeededFaults(t.Context(), newGateway(t), scenarios(t), table)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d faults fail %d steps, which stand in %d lines; %d steps are set-up", r.Faults, r.Steps, r.Lines, r.SetUp)
	for _, step := range r.Unfailed {
		t.Errorf("no fault fails %s", step)
	}
	for _, name := range r.Unseen {
		t.Errorf("no step shows the fault %q", name)
	}
	if want := 250; r.Lines < want {
		t.Errorf("got %d lines of scenarios that tell a right answer from a wrong one, want %d", r.Lines, want)
	}
}
