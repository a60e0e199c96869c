package compare

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// oneDifference is a report of one case with one difference between a gateway and a Kafka.
func oneDifference(path, gateway, kafka string) *Report {
	return &Report{
		A: &Broker{Product: "gateway"}, B: &Broker{Product: "other"},
		Cases: []CaseResult{{Name: "s", Scenario: "s", Steps: []StepResult{{API: "Metadata", Differences: []Difference{{Path: path, A: gateway, B: kafka}}}}}},
	}
}

func TestExpectedDifferences(t *testing.T) {
	whole := func(scenario string) bool { return scenario == "s" }
	for _, c := range []struct {
		what     string
		report   *Report
		expected Expected
		verdict  Verdict
		stale    int
	}{
		{"covered", oneDifference("a.b", "1", "2"), Expected{Scenario: "s", Path: "a.b", Reason: "r"}, Meant, 0},
		{"by pattern", oneDifference("a[x].b", "1", "2"), Expected{Scenario: "s", Path: "a[*].b", Reason: "r"}, Meant, 0},
		{"another value", oneDifference("a.b", "1", "3"), Expected{Scenario: "s", Path: "a.b", Gateway: "1", Kafka: "2", Reason: "r"}, Different, 1},
		{"an error code without a design", oneDifference("a.errorCode", "1", "2"), Expected{Scenario: "s", Path: "a.errorCode", Reason: "r"}, Different, 1},
		{"an error code with one", oneDifference("a.errorCode", "1", "2"), Expected{Scenario: "s", Path: "a.errorCode", Reason: "r", Design: "d"}, Meant, 0},
		{"an offset without a design", oneDifference("a.baseOffset", "1", "2"), Expected{Scenario: "s", Path: "a.*", Reason: "r"}, Different, 1},
		{"a length without a design", oneDifference("a[]", "1", "2"), Expected{Scenario: "s", Path: "a*", Reason: "r"}, Different, 1},
		{"a watermark without a design", oneDifference("a.highWatermark", "1", "2"), Expected{Scenario: "s", Path: "a.*", Reason: "r"}, Different, 1},
		{"an element without a design", oneDifference("a[x]", "{errorCode=3}", ""), Expected{Scenario: "s", Path: "a[*]", Reason: "r"}, Different, 1},
		{"an element with one", oneDifference("a[x]", "", "{errorCode=3}"), Expected{Scenario: "s", Path: "a[*]", Reason: "r", Design: "d"}, Meant, 0},
		{"another scenario", oneDifference("a.b", "1", "2"), Expected{Scenario: "other", Path: "a.b", Reason: "r"}, Different, 0},
		{"no longer there", oneDifference("a.b", "1", "2"), Expected{Scenario: "s", Path: "a.c", Reason: "r"}, Different, 1},
	} {
		c.report.judge([]Expected{c.expected}, whole)
		if got := c.report.Cases[0].Verdict(); got != c.verdict || len(c.report.Stale) != c.stale {
			t.Errorf("%s: verdict %s and %d stale, want %s and %d", c.what, got, len(c.report.Stale), c.verdict, c.stale)
		}
	}
	two := oneDifference("a.b", "1", "2")
	two.B.Product = "gateway"
	two.judge([]Expected{{Scenario: "s", Path: "a.b", Reason: "r"}}, whole)
	if got := two.Cases[0].Verdict(); got != Different {
		t.Errorf("two gateways: verdict %s, want different: nothing is expected between them", got)
	}
}

// designLine is a file and words that stand in it.
var designLine = regexp.MustCompile(`^([^ ,]+), (?:[^"]*, )?"([^"]+)"$`)

func TestExpectedDifferencesNameLinesOfTheDesign(t *testing.T) {
	all, err := ExpectedDifferences()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if e.Design == "" {
			continue
		}
		m := designLine.FindStringSubmatch(e.Design)
		if m == nil {
			t.Errorf("%s at %s: design %q: want a file and words of it in quotes", e.Scenario, e.Path, e.Design)
			continue
		}
		text, err := os.ReadFile(filepath.Join("..", m[1]))
		if err != nil || !strings.Contains(string(text), m[2]) {
			t.Errorf("%s at %s: design %q: the words do not stand there, error %v", e.Scenario, e.Path, e.Design, err)
		}
	}
}

func TestExpectedDifferencesAreOfScenarios(t *testing.T) {
	expected, err := ExpectedDifferences()
	if err != nil {
		t.Fatal(err)
	}
	all, err := Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckExpected(expected, all); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]bool{"describe-cluster": true, "topic-names#3": true, "topic-*": false, "no-such-scenario": false} {
		if err := CheckExpected([]Expected{{Scenario: name}}, all); err == nil != want {
			t.Errorf("an entry for %s: got error %v, want none: %v", name, err, want)
		}
	}
}

func TestExpectedDifferencesHaveNoOtherFields(t *testing.T) {
	const entry = "- {scenario: s, path: a, reason: r, "
	for text, want := range map[string]bool{"": true, entry + "design: d}": true, entry + "desing: d}": false} {
		if _, err := ParseExpected([]byte(text)); err == nil != want {
			t.Errorf("%q: got error %v, want none: %v", text, err, want)
		}
	}
}
