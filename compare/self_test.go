package compare_test

import (
	"context"
	"flag"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway"
	"github.com/kaen-log/gateway/compare"
)

// newGateway starts a gateway in memory, with the configs that scenarios rely on, and returns its address.
func newGateway(t *testing.T) string {
	t.Helper()
	config := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}
	for _, s := range scenarios(t) {
		maps.Copy(config, s.Configs)
	}
	g, err := gateway.Start(t.Context(), gateway.Options{
		Memory: true,
		Config: config,
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g.Addrs()[0].String()
}

func scenarios(t *testing.T) []*compare.Scenario {
	t.Helper()
	all, err := compare.Scenarios()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTwoGatewaysDoNotDiffer also holds the gateway against every pin of Kafka's answers.
func TestTwoGatewaysDoNotDiffer(t *testing.T) {
	t.Parallel()
	expected, err := compare.ExpectedDifferences()
	if err != nil {
		t.Fatal(err)
	}
	r, err := compare.Run(t.Context(), scenarios(t), compare.Options{
		A: newGateway(t), B: newGateway(t), Versions: "all", Seed: 1, ChangeBrokers: true, Expected: expected,
		Log: func(line string) { t.Error(line) },
	})
	if err != nil {
		t.Fatal(err)
	}
	if r.Differs() {
		var text strings.Builder
		if err := r.Write(&text, "table", true); err != nil {
			t.Fatal(err)
		}
		t.Error(text.String())
	}
	if n, steps := r.Counts(); n[compare.Same] == 0 || steps < n[compare.Same] {
		t.Errorf("got %d cases the same with %d steps, want at least a step each", n[compare.Same], steps)
	}
}

// TestRunLeavesNothingBehind runs everything and then looks for topics that begin with the prefix and for any group; some
// scenarios end with members in their groups.
func TestRunLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	a, b := newGateway(t), newGateway(t)
	if _, err := compare.Run(t.Context(), scenarios(t), compare.Options{A: a, B: b, Versions: "max", Seed: 2, ChangeBrokers: true}); err != nil {
		t.Fatal(err)
	}
	left, err := compare.TopicsWithPrefix(t.Context(), a, "gwcmp-")
	if err != nil || len(left) != 0 {
		t.Errorf("after a run: topics %v, error %v; want none", left, err)
	}
	if left, err := compare.GroupsWithPrefix(t.Context(), a, ""); err != nil || len(left) != 0 {
		t.Errorf("after a run: groups %q, error %v; want none", left, err)
	}
}

// TestInterruptedRunCleansUp ends the context during the first case.
func TestInterruptedRunCleansUp(t *testing.T) {
	a, b := newGateway(t), newGateway(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s, err := compare.ParseScenario("parked", []byte(`
why: a fetch that waits, with a config of the broker set
tags: [test]
changesBroker: log.roll.ms
topics: {topic: {}}
finally:
- {api: IncrementalAlterConfigs, send: {resources: [{resourceType: 4, resourceName: "", configs: [{name: log.roll.ms, configOperation: 1, value: null}]}]}}
steps:
- {api: IncrementalAlterConfigs, send: {resources: [{resourceType: 4, resourceName: "", configs: [{name: log.roll.ms, configOperation: 0, value: "700000000"}]}]}}
- api: Fetch
  version: 12
  send:
    maxWaitMs: 30000
    minBytes: 1
    maxBytes: 1000
    topics: [{topic: "${topic}", partitions: [{partition: 0, fetchOffset: 0, partitionMaxBytes: 1000}]}]
`))
	if err != nil {
		t.Fatal(err)
	}
	waiting := make(chan struct{})
	go func() {
		<-waiting
		for ctx.Err() == nil {
			if set, err := compare.BrokerConfig(ctx, a, "log.roll.ms"); err == nil && set != "" {
				cancel()
			}
		}
	}()
	_, err = compare.Run(ctx, []*compare.Scenario{s}, compare.Options{A: a, B: b, Versions: "max", Seed: 3, ChangeBrokers: true,
		Progress: func(int, int, compare.Case) { close(waiting) }})
	if err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got error %v, want interrupted", err)
	}
	for _, addr := range []string{a, b} {
		left, err := compare.TopicsWithPrefix(t.Context(), addr, "gwcmp-")
		if err != nil || len(left) != 0 {
			t.Errorf("after an interrupt: topics %v, error %v; want none", left, err)
		}
		if set, err := compare.BrokerConfig(t.Context(), addr, "log.roll.ms"); set != "" || err != nil {
			t.Errorf("after an interrupt: log.roll.ms of all brokers is %q, error %v; want it not set", set, err)
		}
	}
}

// TestConfigsThatWereSetAreLeftAlone has a broker with a config of its own, which a scenario would take away.
func TestConfigsThatWereSetAreLeftAlone(t *testing.T) {
	a, b := newGateway(t), newGateway(t)
	set := map[string]any{"resourceType": 4, "resourceName": "", "configs": []any{map[string]any{"name": "log.roll.ms", "configOperation": 0, "value": "700000000"}}}
	if err := compare.Ask(t.Context(), b, "IncrementalAlterConfigs", 1, map[string]any{"resources": []any{set}}); err != nil {
		t.Fatal(err)
	}
	all := slices.DeleteFunc(scenarios(t), func(s *compare.Scenario) bool { return s.ChangesBroker == "" })
	r, err := compare.Run(t.Context(), all, compare.Options{A: a, B: b, Versions: "max", Seed: 7, ChangeBrokers: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range r.Cases {
		if want := b + " has set log.roll.ms while it runs"; !strings.HasPrefix(c.NotRun, want) {
			t.Errorf("%s: not run because %q, want %q", c.Name, c.NotRun, want)
		}
	}
	if got, err := compare.BrokerConfig(t.Context(), b, "log.roll.ms"); got != "700000000" || len(r.Cases) == 0 {
		t.Errorf("after %d cases log.roll.ms is %q, error %v; want what was set", len(r.Cases), got, err)
	}
}

// TestPartOfAScenarioShowsNothingStale runs a scenario whole and in parts, with an entry that nothing matches.
func TestPartOfAScenarioShowsNothingStale(t *testing.T) {
	golden, err := compare.LoadGolden()
	if err != nil {
		t.Fatal(err)
	}
	a := newGateway(t)
	all := slices.DeleteFunc(scenarios(t), func(s *compare.Scenario) bool { return s.Name != "describe-cluster" })
	for _, c := range []struct {
		only     []string
		versions string
		stale    int
	}{
		{nil, "all", 1},
		{[]string{"describe-cluster"}, "all", 1},
		{[]string{"describe-cluster@v0", "describe-cluster@v1", "describe-cluster@v2"}, "all", 1},
		{[]string{"describe-cluster@v0"}, "all", 0},
		{nil, "max", 0},
	} {
		r, err := compare.Run(t.Context(), all, compare.Options{A: a, Golden: golden, Versions: c.versions, Only: c.only, Seed: 8,
			Expected: []compare.Expected{{Scenario: "describe-cluster", Path: "nothing", Reason: "r"}}})
		if err != nil || len(r.Stale) != c.stale {
			t.Errorf("only %v at versions %s: got %d stale entries, error %v; want %d", c.only, c.versions, len(r.Stale), err, c.stale)
		}
	}
}

// TestTopicThatIsRefusedEndsItsCaseAlone needs a topic with a config that there is not; another case needs none.
func TestTopicThatIsRefusedEndsItsCaseAlone(t *testing.T) {
	s, err := compare.ParseScenario("refused", []byte("why: w\ntags: [t]\ntopics: {topic: {configs: {no.such.config: \"1\"}}}\n"+
		"steps: [{api: Metadata, send: {topics: [{name: \"${topic}\"}]}}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	all := append(slices.DeleteFunc(scenarios(t), func(s *compare.Scenario) bool { return s.Name != "describe-cluster" }), s)
	r, err := compare.Run(t.Context(), all, compare.Options{A: newGateway(t), B: newGateway(t), Versions: "max", Seed: 10})
	if err != nil {
		t.Fatal(err)
	}
	const want = "both stopped: preparing: topic topic: create: INVALID_CONFIG"
	if other, refused := r.Cases[0].Verdict(), r.Cases[1].NotRun; other != compare.Same || refused != want {
		t.Errorf("got %s, and %q; want the first case the same and the other not run: %q", other, refused, want)
	}
}

// TestFlippedFieldsAreReported changes one field of every answer of one side, another one each round, and wants a
// difference in every step.
func TestFlippedFieldsAreReported(t *testing.T) {
	t.Parallel()
	a, b := newGateway(t), newGateway(t)
	for round := range 3 {
		// Each with names of its own: no broker forgets a transactional id.
		r, flipped, err := compare.RunFlipped(t.Context(), scenarios(t), compare.Options{A: a, B: b, Versions: "max", Seed: 40 + uint64(round), ChangeBrokers: true}, round)
		if err != nil {
			t.Fatal(err)
		}
		missed := 0
		for _, c := range r.Cases {
			for _, s := range c.Steps {
				field, ok := flipped[compare.StepKey{Case: c.Name, Step: s.Step}]
				if ok && s.Verdict() == compare.Same {
					missed++
					t.Errorf("round %d: %s step %d: flipped %s, want a difference", round, c.Name, s.Step, field)
				}
			}
		}
		if len(flipped) == 0 {
			t.Errorf("round %d: nothing was flipped", round)
		}
	}
}

// matrixFile keeps the verdicts by API and version, from which docs/compatibility.md is made.
const matrixFile = "testdata/matrix.txt"

// checkMatrix holds matrixFile against a report; -rewrite writes it.
func checkMatrix(t *testing.T, r *compare.Report) {
	t.Helper()
	var want strings.Builder
	if err := r.Write(&want, "matrix", false); err != nil {
		t.Fatal(err)
	}
	if flag.Lookup("rewrite").Value.String() == "true" {
		if err := os.WriteFile(matrixFile, []byte(want.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(matrixFile)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(got), "\r\n", "\n") != want.String() {
		t.Errorf("%s is not what the comparison gives; run go test ./compare -run AsKafkaDid -rewrite && go test ./wire -run Compatibility -rewrite", matrixFile)
	}
}

// TestGatewayAnswersAsKafkaDid holds the gateway against what Apache Kafka answered in every case: see gateway compare
// golden.
func TestGatewayAnswersAsKafkaDid(t *testing.T) {
	t.Parallel()
	golden, err := compare.LoadGolden()
	if err != nil {
		t.Fatal(err)
	}
	expected, err := compare.ExpectedDifferences()
	if err != nil {
		t.Fatal(err)
	}
	r, err := compare.Run(t.Context(), scenarios(t), compare.Options{A: newGateway(t), Golden: golden, Versions: "all", Seed: 5, ChangeBrokers: true, Expected: expected})
	if err != nil {
		t.Fatal(err)
	}
	if r.Differs() {
		var text strings.Builder
		if err := r.Write(&text, "table", true); err != nil {
			t.Fatal(err)
		}
		t.Error(text.String())
	}
	for _, c := range r.Cases {
		if c.NotRun != "" {
			t.Errorf("%s: %s; record it with gateway compare golden", c.Name, c.NotRun)
		}
	}
	checkMatrix(t, r)
}
