package main

import (
	"context"
	"encoding/json"
	"encoding/xml"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kaen-log/gateway"
)

// memoryGateway starts a gateway in memory with configs of its own and returns its address.
func memoryGateway(t *testing.T, config map[string]string) string {
	t.Helper()
	all := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}
	for k, v := range config {
		all[k] = v
	}
	g, err := gateway.Start(t.Context(), gateway.Options{Memory: true, Config: all, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
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

// compareCommand runs gateway compare and returns the exit code and what it printed.
func compareCommand(t *testing.T, args ...string) (int, string) {
	t.Helper()
	root := newRootCommand()
	var out strings.Builder
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append([]string{"compare"}, args...))
	return exitCodeOf(root.ExecuteContext(t.Context())), out.String()
}

// mineScenario writes a scenario that is not built in, which shows num.partitions, and returns its file.
func mineScenario(t *testing.T) string {
	t.Helper()
	scenario := filepath.Join(t.TempDir(), "mine.yaml")
	text := "why: a topic's default number of partitions\ntags: [mine]\nsteps:\n- api: CreateTopics\n  send:\n    timeoutMs: 5000\n" +
		"    topics: [{name: \"${prefix}x\", numPartitions: -1, replicationFactor: -1}]\n"
	if err := os.WriteFile(scenario, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return scenario
}

func TestCompareExitCodes(t *testing.T) {
	a, b := memoryGateway(t, nil), memoryGateway(t, map[string]string{"num.partitions": "3", "message.max.bytes": "2000"})
	scenario := mineScenario(t)
	for _, c := range []struct {
		args []string
		want int
		out  string
	}{
		{[]string{"-a", a, "-b", b, "api-versions"}, exitDone, "6 same"},
		{[]string{"-a", a, "-b", b, "api-versions@v4"}, exitDone, "1 same"},
		{[]string{"-a", a, "-b", b, "--file", scenario}, exitNo, "numPartitions"},
		{[]string{"-a", a, "-b", b, "--api", "OffsetForLeaderEpoch", "--api-versions", "max"}, exitDone, "0 different"},
		{[]string{"-a", a, "-b", b, "broker-configs"}, exitFailed, "1 not run"},
		{[]string{"-a", a, "-b", b, "broker-configs", "describe-cluster"}, exitDone, "1 not run"},
		{[]string{"-a", a, "-b", b, "nothing-like-it"}, exitUsage, ""},
		{[]string{"-a", a}, exitUsage, ""},
		{[]string{"-a", a, "-b", b, "-o", "pdf"}, exitUsage, ""},
		{[]string{"-a", a, "-b", "127.0.0.1:1", "api-versions"}, exitFailed, ""},
		{[]string{"-a", a, "-b", "127.0.0.1", "api-versions"}, exitUsage, ""},
		{[]string{"versions", "-a", a, "-b", "127.0.0.1:1", "-o", "junit"}, exitUsage, ""},
		{[]string{"configs", "-a", a, "-b", "127.0.0.1:1", "-o", "html"}, exitUsage, ""},
		{[]string{"--list", "--tag", "frames"}, exitDone, "frames-bad"},
		{[]string{"--explain", "frames-bad"}, exitDone, "SocketServer"},
		{[]string{"versions", "-a", a, "-b", b}, exitDone, "Produce"},
		{[]string{"configs", "-a", a, "-b", b}, exitNo, "num.partitions"},
	} {
		got, out := compareCommand(t, c.args...)
		if got != c.want || !strings.Contains(out, c.out) {
			t.Errorf("compare %v: got exit %d, want %d; want %q in:\n%s", c.args, got, c.want, c.out, out)
		}
	}
}

// TestCompareFlags shows what each flag does to a run.
func TestCompareFlags(t *testing.T) {
	a, b := memoryGateway(t, nil), memoryGateway(t, map[string]string{"num.partitions": "3"})
	mine := mineScenario(t)
	count := func(out, what string) int { return strings.Count("\n"+out, "\n"+what) }
	for _, c := range []struct {
		what string
		args []string
		ok   func(out string) bool
	}{
		{"--list --tag", []string{"--list", "--tag", "create-partitions"}, func(s string) bool {
			return count(s, "create-partitions ") == 1 && count(s, "create-partitions-many ") == 1 && count(s, "fetch") == 0
		}},
		{"--list with two tags", []string{"--list", "--tag", "frames,cluster"}, func(s string) bool {
			return count(s, "frames-bad ") == 1 && count(s, "describe-cluster ") == 1 && count(s, "fetch-") == 0
		}},
		{"--list --api", []string{"--list", "--api", "DescribeCluster"}, func(s string) bool { return count(s, "describe-cluster ") == 1 && strings.Count(s, "\n") == 1 }},
		{"--explain", []string{"--explain", "describe-cluster"}, func(s string) bool {
			return strings.HasPrefix(s, "why: >") && strings.Contains(s, "includeFencedBrokers: true")
		}},
		{"--api-versions min", []string{"-a", a, "-b", b, "describe-cluster", "--api-versions", "min"}, func(s string) bool {
			return count(s, "same       describe-cluster@v0") == 1 && strings.Contains(s, "1 cases")
		}},
		{"--api-versions max", []string{"-a", a, "-b", b, "describe-cluster", "--api-versions", "max"}, func(s string) bool {
			return count(s, "same       describe-cluster@v2") == 1 && strings.Contains(s, "1 cases")
		}},
		{"--api-versions all", []string{"-a", a, "-b", b, "describe-cluster", "--api-versions", "all"}, func(s string) bool { return strings.Contains(s, "3 cases") }},
		{"a row", []string{"-a", a, "-b", b, "topic-names#3"}, func(s string) bool {
			return count(s, "same       topic-names#3") == 1 && strings.Contains(s, "1 cases, 2 steps")
		}},
		{"--only-different", []string{"-a", a, "-b", b, "create-topics@v7", "describe-cluster", "--only-different"}, func(s string) bool {
			return count(s, "different  create-topics@v7") == 1 && count(s, "same") == 0 && strings.Contains(s, "3 same")
		}},
		{"--seed", []string{"-a", a, "-b", b, "create-topics@v7", "--seed", "77", "-o", "json"}, func(s string) bool {
			return strings.Contains(s, `"Seed": 77,`) && strings.Contains(s, "gwcmp-000004d-a0000-one") && strings.Contains(s, "gwcmp-000004d-b0000-one")
		}},
		{"--strict", []string{"-a", a, "-b", b, "create-topics@v7", "--strict", "--seed", "5"}, func(s string) bool { return strings.Contains(s, "--seed 5 --strict create-topics@v7") }},
		{"without --change-brokers", []string{"-a", a, "-b", b, "broker-configs"}, func(s string) bool {
			return count(s, "not run    broker-configs  (it sets log.retention.ms") == 1
		}},
		{"--change-brokers", []string{"-a", a, "-b", b, "broker-configs", "--change-brokers"}, func(s string) bool { return count(s, "same       broker-configs") == 1 }},
		{"configs that a scenario needs", []string{"-a", a, "-b", b, "describe-configs-of-brokers"}, func(s string) bool {
			return strings.Contains(s, "this needs") && strings.Contains(s, "1 not run")
		}},
		{"--recorded", []string{"-a", a, "--recorded", "describe-cluster"}, func(s string) bool { return strings.Contains(s, "3 same") }},
		{"--file", []string{"-a", a, "-b", b, "--file", mine, "--seed", "5"}, func(s string) bool { return strings.Contains(s, "--seed 5 --file "+mine+" mine\n") }},
		{"--recorded again", []string{"-a", b, "--recorded", "create-topics@v7", "--seed", "5"}, func(s string) bool {
			return strings.Contains(s, "again: gateway compare -a "+b+" --recorded --seed 5 create-topics@v7\n")
		}},
		{"-o matrix", []string{"-a", a, "--recorded", "-o", "matrix", "describe-cluster"}, func(s string) bool {
			return strings.HasPrefix(s, "kafka 4.4.0\n") && count(s, "60 DescribeCluster 0 2 same") == 1 && count(s, "0 Produce 3 13 not run") == 1
		}},
	} {
		if _, out := compareCommand(t, c.args...); !c.ok(out) {
			t.Errorf("%s: compare %v does not show it:\n%.3000s", c.what, c.args, out)
		}
	}
}

func TestCompareReports(t *testing.T) {
	a, b := memoryGateway(t, nil), memoryGateway(t, map[string]string{"gateway.replication.factor": "clamp"})
	dir := t.TempDir()
	for format, check := range map[string]func(text string) bool{
		"table":  func(s string) bool { return strings.Contains(s, "cases") },
		"json":   func(s string) bool { return json.Valid([]byte(s)) },
		"junit":  func(s string) bool { return xml.Unmarshal([]byte(s), new(struct{})) == nil },
		"md":     func(s string) bool { return strings.Contains(s, "| Metadata | 0 |") },
		"matrix": func(s string) bool { return strings.Contains(s, "3 Metadata 0 0 not run\n3 Metadata 1 1 same\n") },
		"html":   func(s string) bool { return strings.Contains(s, "</html>") && !strings.Contains(s, "src=") },
	} {
		code, out := compareCommand(t, "-a", a, "-b", b, "-o", format, "--report", dir, "frames-bad")
		if code != exitDone {
			t.Errorf("-o %s: got exit %d, want 0: %s", format, code, out)
			continue
		}
		name, _, _ := strings.Cut(out, ": ")
		text, err := os.ReadFile(name)
		if err != nil || !check(string(text)) {
			t.Errorf("-o %s: report %q, error %v:\n%.500s", format, name, err, text)
		}
	}
}

func TestOnlyRecordingsAreReplaced(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"gone.txt": "kafka 4.4.0\n", "stays.txt": "kafka 4.4.0\n", "notes.txt": "mine\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := replaceRecordings(dir, map[string]string{"stays.txt": "kafka 4.4.1\n", "new.txt": "kafka 4.4.1\n"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"gone.txt": "", "stays.txt": "kafka 4.4.1\n", "new.txt": "kafka 4.4.1\n", "notes.txt": "mine\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); string(got) != want || (err != nil) != (want == "") {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
}
