package compat_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// server is one gateway process, or the broker that addrVariable names.
type server struct {
	Addr      string   // host:port that clients use; the same after a restart
	Listeners []string // every listener's address, as the ready line says
	Dir       string   // data directory; "" for an external broker

	args []string // after the fixed ones
	wrap []string // a command in front of the binary, such as a shell that sets a limit
	cmd  *exec.Cmd
	out  *output
	outs []*output     // of every start
	read chan struct{} // closed when all of out is read
	exit chan error    // the process's end, once
}

// newServer starts a gateway on a free loopback port with an empty data directory
// and returns when it is ready. args are added to the command line. An external
// broker is returned as it is; a test that needs args is skipped there.
func newServer(t testing.TB, args ...string) *server {
	t.Helper()
	return newServerIn(t, filepath.Join(t.TempDir(), "data"), args...)
}

// newServerIn is newServer on a data directory that may hold files already.
func newServerIn(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	if addr := os.Getenv(addrVariable); addr != "" {
		if len(args) > 0 && strings.Join(args, " ") != os.Getenv(argsVariable) {
			t.Skipf("needs a broker of its own, started with %s", strings.Join(args, " "))
		}
		if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
			t.Skip("needs a broker of its own, started on files that the test wrote")
		}
		return &server{Addr: addr}
	}
	s := newStoppedServer(t, dir, args...)
	s.Start(t)
	return s
}

// newStoppedServer is a server whose process has yet to be started.
func newStoppedServer(t testing.TB, dir string, args ...string) *server {
	t.Helper()
	if os.Getenv(addrVariable) != "" {
		t.Skip("needs a broker of its own")
	}
	s := &server{Dir: dir, Addr: "127.0.0.1:0", args: args}
	t.Cleanup(func() {
		if s.cmd == nil {
			return
		}
		s.cmd.Process.Kill() // an error when it has ended
		<-s.read             // all it said is known
		for i, out := range s.outs {
			if fault := out.fault(); fault != "" {
				t.Errorf("start %d of the gateway said:\n%s", i+1, fault)
			}
		}
		if t.Failed() {
			t.Logf("gateway %s said:\n%s", strings.Join(s.cmd.Args[1:], " "), s.out.tail(60))
		}
	})
	return s
}

// External says whether the broker is not ours to start and stop.
func (s *server) External() bool { return s.Dir == "" }

// Start starts the process and returns when it serves. The first start takes a
// free port, later ones the same again.
func (s *server) Start(t testing.TB) {
	t.Helper()
	args := []string{"serve", "--ready-file", s.readyFile()}
	if !s.hasArg("listeners=") {
		args = append(args, "--listen", s.Addr)
	}
	if !s.hasArg("--memory") {
		args = append(args, "--data-dir", s.Dir)
	}
	command := append(append([]string{}, s.wrap...), gatewayPath)
	command = append(append(command, args...), s.args...)
	if err := os.MkdirAll(filepath.Dir(s.Dir), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(s.readyFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	cmd := exec.Command(command[0], command[1:]...)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", strings.Join(command, " "), err)
	}
	out, exit, read := &output{ready: make(chan []string, 1)}, make(chan error, 1), make(chan struct{})
	s.cmd, s.out, s.exit, s.read = cmd, out, exit, read
	s.outs = append(s.outs, out)
	go func() { // ends with the process
		out.read(bufio.NewReader(stderr))
		close(read)
		exit <- cmd.Wait()
	}()
	select {
	case s.Listeners = <-out.ready:
		s.Addr = s.Listeners[0]
	case err := <-exit:
		exit <- err
		t.Fatalf("the gateway ended before it was ready: %v", err)
	case <-within(t).Done():
		t.Fatalf("the gateway is not ready after %s", waitLimit)
	}
}

func (s *server) readyFile() string { return s.Dir + ".ready" }

// hasArg says whether an argument starts with prefix.
func (s *server) hasArg(prefix string) bool {
	return slices.ContainsFunc(s.args, func(a string) bool { return strings.HasPrefix(a, prefix) })
}

// Kill9 kills the process without a word and waits for its end.
func (s *server) Kill9(t testing.TB) {
	t.Helper()
	s.needProcess(t)
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatalf("kill: %v", err)
	}
	s.ended(t)
}

// Stop asks the process to end, waits, and fails unless it ended well.
func (s *server) Stop(t testing.TB) {
	t.Helper()
	s.StopBy(t, os.Interrupt)
}

// StopBy is Stop with a signal to choose.
func (s *server) StopBy(t testing.TB, signal os.Signal) {
	t.Helper()
	s.Signal(t, signal)
	if err := s.ended(t); err != nil {
		t.Fatalf("after the signal %v the gateway ended with %v\n%s", signal, err, s.out.tail(40))
	}
}

// Signal sends the process a signal.
func (s *server) Signal(t testing.TB, signal os.Signal) {
	t.Helper()
	s.needProcess(t)
	if runtime.GOOS == "windows" {
		t.Skip("no signal asks a process to stop here")
	}
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("signal %v: %v", signal, err)
	}
}

// ended waits for the end of the process and returns what Wait said.
func (s *server) ended(t testing.TB) error {
	t.Helper()
	select {
	case err := <-s.exit:
		return err
	case <-within(t).Done():
		t.Fatalf("the gateway has not ended after %s\n%s", waitLimit, s.out.tail(40))
		return nil
	}
}

// Restart stops the process with kill -9 or cleanly, and starts it again.
func (s *server) Restart(t testing.TB, how string) {
	t.Helper()
	switch how {
	case killed:
		s.Kill9(t)
	case stopped:
		s.Stop(t)
	default:
		panic("compat_test: restart after " + how)
	}
	s.Start(t)
}

// How a server can have ended before a restart.
const (
	killed  = "kill -9"
	stopped = "clean stop"
)

// PID is the process's id.
func (s *server) PID() int { return s.cmd.Process.Pid }

// needProcess skips a test that ends or inspects the broker's process.
func (s *server) needProcess(t testing.TB) {
	t.Helper()
	if s.External() {
		t.Skip("needs a broker of its own to stop")
	}
}

// fails runs the binary and returns its exit code and what it said, for starts
// that must be refused.
func fails(t testing.TB, args ...string) (code int, said string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitLimit)
	defer cancel()
	out, err := exec.CommandContext(ctx, gatewayPath, args...).CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Fatalf("gateway %s: got %v, want a failure\n%s", strings.Join(args, " "), err, out)
	}
	return exit.ExitCode(), string(out)
}

// output keeps what a process wrote to standard error.
type output struct {
	ready chan []string // the listeners of the ready line

	mu    sync.Mutex
	lines []string // guarded by mu
}

func (o *output) read(r *bufio.Reader) {
	for {
		line, err := r.ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			o.mu.Lock()
			o.lines = append(o.lines, line)
			o.mu.Unlock()
			if rest, ok := strings.CutPrefix(line, "ready listeners="); ok {
				listeners, _, _ := strings.Cut(rest, " ")
				o.ready <- strings.Split(listeners, ",")
			}
		}
		if err != nil {
			return
		}
	}
}

// tail is the last n lines.
func (o *output) tail(n int) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(o.lines[max(0, len(o.lines)-n):], "\n")
}

// fault is the report of a crash or of a data race, if there is one.
func (o *output) fault() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, line := range o.lines {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") || strings.Contains(line, "DATA RACE") {
			return strings.Join(o.lines[i:min(len(o.lines), i+60)], "\n")
		}
	}
	return ""
}

// all is every line.
func (o *output) all() string { return o.tail(1 << 30) }
