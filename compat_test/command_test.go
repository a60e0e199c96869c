package compat_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestReadyFile(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.needProcess(t)
	pid := s.PID()
	s.Stop(t) // by now it is written
	b, err := os.ReadFile(s.readyFile())
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		Listeners []string `json:"listeners"`
		Data      string   `json:"data"`
		InMs      *int64   `json:"in_ms"`
		PID       int      `json:"pid"`
	}
	if err := json.Unmarshal(b, &ready); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	if len(ready.Listeners) != 1 || ready.Listeners[0] != s.Addr || ready.Data != s.Dir || ready.InMs == nil || ready.PID != pid {
		t.Errorf("the ready file says %s; want listener %s, data %s, pid %d", b, s.Addr, s.Dir, pid)
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	newStoppedServer(t, "unused") // skips when there is no binary
	dir := filepath.Join(t.TempDir(), "data")
	for name, test := range map[string]struct {
		args []string
		code int
		says string
	}{
		"unknown flag":           {[]string{"serve", "--nope"}, 2, "nope"},
		"unknown config":         {[]string{"serve", "-c", "nope=1"}, 2, "nope"},
		"bad value":              {[]string{"serve", "-c", "log.retention.ms=soon"}, 2, "log.retention.ms"},
		"unknown own config":     {[]string{"serve", "-c", "gateway.nope=1"}, 2, "gateway.nope"},
		"memory and a directory": {[]string{"serve", "--memory", "--data-dir", dir}, 2, "--data-dir"},
		"unknown command":        {[]string{"explode"}, 2, "explode"},
	} {
		code, said := fails(t, test.args...)
		if code != test.code || !strings.Contains(said, test.says) {
			t.Errorf("%s: got exit code %d and %q, want %d and a word of %s", name, code, said, test.code, test.says)
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a refused start made its data directory")
	}
	out, err := exec.Command(gatewayPath, "version").Output()
	if err != nil || len(out) == 0 {
		t.Errorf("version: %q, %v", out, err)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	s := newServer(t, "--memory")
	tp := s.createTopic(t, "memory", 1)
	c := s.dial(t)
	mustProduce(c, tp, 0, one("kept"))
	want(t, "record", values(c, tp, 0, 0)[0], "kept")
	if entries, err := os.ReadDir(s.Dir); err == nil && len(entries) > 0 {
		t.Errorf("%d files in %s", len(entries), s.Dir)
	}
	if !strings.Contains(s.out.all(), "data=memory") {
		t.Errorf("the ready line does not say data=memory:\n%s", s.out.all())
	}
}

// run runs the binary with lines on standard input and returns what it printed.
func run(t testing.TB, stdin string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(within(t), gatewayPath, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("gateway %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func TestProduceAndConsumeLines(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	s.needProcess(t)
	name := fresh("lines")
	run(t, "k1:one\nk2:two\nk1:\nk3:three\n", "produce", name, "-b", s.Addr, "-K", ":", "-H", "h=v", "-z", "zstd")
	want(t, "all", run(t, "", "consume", name, "-b", s.Addr, "-e", "-f", `%o %k=%v %h\n`), "0 k1=one h=v\n1 k2=two h=v\n2 k1= h=v\n3 k3=three h=v\n")
	want(t, "the last two", run(t, "", "consume", name, "-b", s.Addr, "-e", "-o", "-2"), "\nthree\n")
	want(t, "from 1 until 2", run(t, "", "consume", name, "-b", s.Addr, "-o", "1", "--until", "2"), "two\n")
	s.Restart(t, killed)
	want(t, "after kill -9", run(t, "", "consume", name, "-b", s.Addr, "-n", "1"), "one\n")
	exit, said := fails(t, "consume", fresh("absent"), "-b", s.Addr, "-e")
	if exit == 0 || said == "" {
		t.Errorf("consuming an absent topic: exit code %d, said %q", exit, said)
	}
	files := s.segments(t, topic{Name: name}, 0)
	if out := run(t, "", "dump", files[0], "--deep"); !strings.Contains(out, "three") {
		t.Errorf("dump --deep shows %s", out)
	}
}
