package compat_test

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// startRecord starts gateway record in front of s and returns its process and address.
func startRecord(t testing.TB, s *server, file string) (*exec.Cmd, string) {
	t.Helper()
	cmd := exec.Command(gatewayPath, "record", "--listen", "127.0.0.1:0", "--upstream", s.Addr, "--out", file)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() }) // an error when it has ended
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		t.Fatalf("gateway record: %v", err)
	}
	_, rest, _ := strings.Cut(line, "listen=")
	addr, _, _ := strings.Cut(rest, " ")
	return cmd, addr
}

// TestKilledRecordKeepsWhatClientsSaw kills the proxy while a client produces: every record that the client knows to be
// acknowledged is in the file, with its answer.
func TestKilledRecordKeepsWhatClientsSaw(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.needProcess(t)
	tp := s.createTopic(t, "recorded", 1)
	file := filepath.Join(t.TempDir(), "killed.gws")
	proxy, addr := startRecord(t, s, file)
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(tp.Name), kgo.ProducerLinger(0))
	if err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	const enough = 50
	acked := 0
	for {
		r := kgo.StringRecord(fmt.Sprintf("record %d.", acked))
		if err := cl.ProduceSync(within(t), r).FirstErr(); err != nil {
			if acked < enough {
				t.Fatalf("record %d: %v", acked, err)
			}
			break
		}
		if acked++; acked == enough {
			go func() { // while the next ones are under way
				defer close(gone)
				proxy.Process.Kill()
				proxy.Wait()
				cl.Close()
			}()
		}
	}
	<-gone
	out, err := exec.CommandContext(within(t), gatewayPath, "frames", file, "--deep", "--api", "Produce").Output()
	if exit := (&exec.ExitError{}); err != nil && (!errors.As(err, &exit) || !strings.Contains(string(exit.Stderr), "torn")) {
		t.Fatalf("gateway frames after kill -9: %v", err)
	}
	text := string(out)
	for n := range acked {
		if !strings.Contains(text, fmt.Sprintf("%q", fmt.Sprintf("record %d.", n))) {
			t.Errorf("record %d of %d that were acknowledged is not in the file", n, acked)
		}
	}
	if got := strings.Count(text, " < Produce "); got < acked {
		t.Errorf("got %d answers in the file, want the %d that the client saw", got, acked)
	}
}
