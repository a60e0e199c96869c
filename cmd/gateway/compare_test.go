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

func TestCompareExitCodes(t *testing.T) {
	a, b := memoryGateway(t, nil), memoryGateway(t, map[string]string{"num.partitions": "3", "message.max.bytes": "2000"})
	scenario := filepath.Join(t.TempDir(), "mine.yaml")
	text := "why: a topic's default number of partitions\ntags: [mine]\nsteps:\n- api: CreateTopics\n  send:\n    timeoutMs: 5000\n" +
		"    topics: [{name: \"${prefix}x\", numPartitions: -1, replicationFactor: -1}]\n"
	if err := os.WriteFile(scenario, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want int
		out  string
	}{
		{[]string{"-a", a, "-b", b, "api-versions"}, exitDone, "6 same"},
		{[]string{"-a", a, "-b", b, "api-versions@v4"}, exitDone, "1 same"},
		{[]string{"-a", a, "-b", b, "--file", scenario}, exitNo, "numPartitions"},
		{[]string{"-a", a, "-b", b, "--api", "OffsetForLeaderEpoch", "--api-versions", "max"}, exitDone, "0 different"},
		{[]string{"-a", a, "-b", b, "nothing-like-it"}, exitUsage, ""},
		{[]string{"-a", a}, exitUsage, ""},
		{[]string{"-a", a, "-b", b, "-o", "pdf"}, exitUsage, ""},
		{[]string{"-a", a, "-b", "127.0.0.1:1", "api-versions"}, exitFailed, ""},
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

func TestCompareReports(t *testing.T) {
	a, b := memoryGateway(t, nil), memoryGateway(t, map[string]string{"gateway.replication.factor": "clamp"})
	dir := t.TempDir()
	for format, check := range map[string]func(text string) bool{
		"table": func(s string) bool { return strings.Contains(s, "cases") },
		"json":  func(s string) bool { return json.Valid([]byte(s)) },
		"junit": func(s string) bool { return xml.Unmarshal([]byte(s), new(struct{})) == nil },
		"md":    func(s string) bool { return strings.Contains(s, "| Metadata | 0 |") },
		"html":  func(s string) bool { return strings.Contains(s, "</html>") && !strings.Contains(s, "src=") },
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
