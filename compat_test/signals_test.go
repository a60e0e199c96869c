package compat_test

import (
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
)

// A terminal that is closed, a container that is stopped and Ctrl-C end the server alike: it answers what it has
// begun and closes its directory cleanly.
func TestSignalsEndTheServer(t *testing.T) {
	t.Parallel()
	for _, by := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(by.String(), func(t *testing.T) {
			if signal.Ignored(by) {
				t.Skip("the test is run under nohup, and so is the server")
			}
			s := newStoppedServer(t, filepath.Join(t.TempDir(), "data"))
			s.Start(t)
			s.StopBy(t, by)
			if _, err := os.Stat(filepath.Join(s.Dir, ".kafka_cleanshutdown")); err != nil {
				t.Errorf("the directory is not closed cleanly: %v", err)
			}
		})
	}
}

// nohup has the server outlive its terminal.
func TestServerOutlivesATerminalThatIsClosed(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there is no terminal that hangs up here")
	}
	s := newStoppedServer(t, filepath.Join(t.TempDir(), "data"))
	s.wrap = []string{"sh", "-c", `trap "" HUP; exec "$@"`, "sh"}
	s.Start(t)
	s.Signal(t, syscall.SIGHUP)
	tp := s.createTopic(t, "outlives", 1) // the signal was there before
	s.Stop(t)
	s.Start(t)
	if end := listOffset(s.dial(t), 7, tp, 0, latest, 0); end.ErrorCode != noError {
		t.Errorf("the topic that was made after the signal: error %d", end.ErrorCode)
	}
}
