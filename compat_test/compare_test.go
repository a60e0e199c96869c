package compat_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
)

// TestInterruptedCompareCleansUp interrupts gateway compare, as by Ctrl-C, while both of its brokers hold a request.
func TestInterruptedCompareCleansUp(t *testing.T) {
	t.Parallel()
	a, b := newServer(t), newServer(t)
	a.needProcess(t)
	scenario := filepath.Join(t.TempDir(), "parked.yaml")
	text := `why: a fetch that waits
tags: [test]
topics: {parked: {}}
steps:
- api: Fetch
  version: 12
  within: 50s
  send: {maxWaitMs: 40000, minBytes: 1, maxBytes: 1000, topics: [{topic: "${parked}", partitions: [{partition: 0, partitionMaxBytes: 1000}]}]}
`
	if err := os.WriteFile(scenario, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(within(t), gatewayPath, "compare", "-a", a.Addr, "-b", b.Addr, "--file", scenario)
	var said strings.Builder
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	topics := func(s *server) []string {
		listed, err := kadm.NewClient(s.client(t)).ListTopics(within(t))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range listed.Names() {
			if strings.HasPrefix(name, "gwcmp-") {
				names = append(names, name)
			}
		}
		return names
	}
	for ctx := within(t); len(topics(a)) == 0 || len(topics(b)) == 0; {
		if ctx.Err() != nil {
			t.Fatalf("the run made no topics: %s", said.String())
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(said.String(), "interrupted") {
		t.Errorf("interrupted: %v, said %q; want exit code 3 and the word interrupted", err, said.String())
	}
	for _, s := range []*server{a, b} {
		if left := topics(s); len(left) > 0 {
			t.Errorf("left behind after an interrupt: %v, want nothing", left)
		}
	}
}
