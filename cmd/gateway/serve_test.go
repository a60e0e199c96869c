package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kaen-log/gateway"
	"github.com/kaen-log/gateway/storage"
)

func TestServeSaysWhenItIsReadyAndStopsInOrder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "ready.json")
	if err := os.WriteFile(file, []byte("of an earlier run"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		root := newRootCommand()
		root.SetArgs([]string{"serve", "--memory", "--listen", "127.0.0.1:0", "--ready-file", file, "--log-level", "error"})
		root.SetErr(write)
		ended <- errors.Join(root.ExecuteContext(ctx), write.Close())
	}()
	line, err := bufio.NewReader(read).ReadString('\n')
	if err != nil {
		t.Fatalf("no ready line: %v, %v", err, <-ended)
	}
	m := regexp.MustCompile(`^ready listeners=(127\.0\.0\.1:\d+) data=memory in=\d+ms\n$`).FindStringSubmatch(line)
	if m == nil {
		t.Fatalf("got ready line %q", line)
	}
	mustProduce(t, "a\n", "-b", m[1], "t")
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v after the stop, want none", err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r ready
	if err := json.Unmarshal(b, &r); err != nil || len(r.Listeners) != 1 || r.Listeners[0] != m[1] || r.Data != "memory" || r.PID != os.Getpid() {
		t.Errorf("got ready file %s, %v, want what the line says", b, err)
	}
}

func TestServeRefusesAnAddressInUse(t *testing.T) {
	_, addr := newServer(t, nil)
	file := filepath.Join(t.TempDir(), "ready.json")
	if err := os.WriteFile(file, []byte("of an earlier run"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, code, err := runLines(t.Context(), t, nil, "serve", "--memory", "--listen", addr, "--ready-file", file, "--log-level", "error")
	if code != exitFailed || err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("got exit code %d, %v, want %d and the address", code, err, exitFailed)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ready file of an earlier run: got %v, want it gone", err)
	}
}

func TestServeNamesADirectoryThatIsInUseOnce(t *testing.T) {
	dir := t.TempDir()
	store, err := storage.Open(dir, storage.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, code, err := runLines(t.Context(), t, nil, "serve", "--data-dir", dir, "--listen", "127.0.0.1:0", "--log-level", "error")
	if code != exitData || err == nil || strings.Count(err.Error(), dir) != 1 {
		t.Errorf("got exit code %d, %v; want %d and the directory once", code, err, exitData)
	}
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

func TestServeTellsUsageFromADamagedDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"config":  {&gateway.ConfigError{Err: errors.New("x")}, exitUsage},
		"locked":  {fmt.Errorf("data directory d: %w", &storage.LockedError{}), exitData},
		"damaged": {fmt.Errorf("data directory d: %w", &storage.CorruptError{File: "f"}), exitData},
		"newer":   {&storage.FormatError{File: "f"}, exitData},
		"other":   {errors.New("address in use"), exitFailed},
	} {
		if got := startExitCode(c.err); got != c.want {
			t.Errorf("%s: got exit code %d, want %d", name, got, c.want)
		}
	}
	for _, args := range [][]string{{"serve", "--log-level", "loud"}, {"serve", "-c", "num.partitions=none", "--memory"}, {"serve", "--nothing"}, {"nothing"}} {
		if _, code, err := runLines(t.Context(), t, nil, args...); code != exitUsage || err == nil {
			t.Errorf("%q: got exit code %d, %v, want %d", args, code, err, exitUsage)
		}
	}
}
