package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recordLines records what gateway produce and consume say to a broker, and returns the file.
func recordLines(t *testing.T, upstream string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "s.gws")
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	said, log := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := runRecord(ctx, "127.0.0.1:0", upstream, file, log)
		_ = log.Close()
		done <- err
	}()
	lines := bufio.NewScanner(said)
	if !lines.Scan() {
		t.Fatalf("gateway record said nothing: %v", <-done)
	}
	_, rest, _ := strings.Cut(lines.Text(), "listen=")
	addr, _, _ := strings.Cut(rest, " ")
	if _, code, err := runLines(t.Context(), t, strings.NewReader("one\ntwo\n"), "produce", "lines", "-b", addr); code != exitDone {
		t.Fatalf("produce through the proxy: exit %d, %v", code, err)
	}
	if out, code, err := runLines(t.Context(), t, nil, "consume", "lines", "-b", addr, "-e"); code != exitDone || out != "one\ntwo\n" {
		t.Fatalf("consume through the proxy: exit %d, %v, printed %q", code, err, out)
	}
	interrupt()
	last := ""
	for lines.Scan() {
		last = lines.Text()
	}
	if err := <-done; err != nil || !strings.HasPrefix(last, file+": ") {
		t.Fatalf("gateway record ended with %v and said %q last, want the counts", err, last)
	}
	return file
}

func TestRecordReplayAndFrames(t *testing.T) {
	_, upstream := newServer(t, nil)
	session := recordLines(t, upstream)
	whole, err := os.ReadFile(session)
	if err != nil {
		t.Fatal(err)
	}
	torn := session + ".torn"
	if err := os.WriteFile(torn, whole[:len(whole)-3], 0o600); err != nil {
		t.Fatal(err)
	}
	answer := filepath.Join(t.TempDir(), "answer")
	if err := os.WriteFile(answer, []byte("00 00 00 0a  00 00 00 07\n00 23 00 00 00 00\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	request := filepath.Join(t.TempDir(), "request")
	if err := os.WriteFile(request, []byte("\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	fresh := func(config map[string]string) string { _, addr := newServer(t, config); return addr }
	for _, c := range []struct {
		name string
		args []string
		want int
		out  string
	}{
		{"the same", []string{"replay", session, "-a", fresh(nil)}, exitDone, " 0 different"},
		{"two brokers", []string{"replay", session, "-a", fresh(nil), "-b", fresh(nil), "--pace"}, exitDone, " 0 different"},
		{"a broker with other defaults", []string{"replay", session, "-a", fresh(map[string]string{"num.partitions": "3"})}, exitNo, "partitions[]"},
		{"again", []string{"replay", session, "-a", fresh(map[string]string{"num.partitions": "3"}), "-o", "md"}, exitNo, "gateway replay " + session},
		{"torn", []string{"replay", torn, "-a", fresh(nil)}, exitDone, " 0 different"},
		{"no broker", []string{"replay", session}, exitUsage, ""},
		{"no address", []string{"replay", session, "-a", "nowhere"}, exitUsage, ""},
		{"no upstream's address", []string{"record", "--upstream", "nowhere", "--out", session + ".new"}, exitUsage, ""},
		{"no file", []string{"replay", session + ".absent", "-a", upstream}, exitUsage, ""},
		{"unreachable", []string{"replay", session, "-a", "127.0.0.1:1"}, exitFailed, ""},
		{"no session", []string{"replay", answer, "-a", upstream}, exitFailed, ""},
		{"frames", []string{"frames", session, "--deep"}, exitDone, `value "two"`},
		{"bytes", []string{"frames", session, "--hex", "--api", "ApiVersions", "--conn", "1"}, exitDone, "00000000  00 12 00"},
		{"frames of a torn session", []string{"frames", torn}, exitNo, "opened to " + upstream},
		{"one answer", []string{"frames", answer, "--answer", "ApiVersions/5"}, exitDone, "UNSUPPORTED_VERSION"},
		{"one request", []string{"frames", request, "--request", "18/0"}, exitDone, "ApiVersions v0 #7 client null"},
		{"another request", []string{"frames", request, "--request", "3/0"}, exitNo, ""},
		{"no key", []string{"frames", request, "--request", "nothing"}, exitUsage, ""},
		{"no upstream", []string{"record", "--out", session + ".new"}, exitUsage, ""},
		{"a file that is there", []string{"record", "--upstream", upstream, "--out", session}, exitUsage, ""},
		{"an upstream that is not", []string{"record", "--listen", "127.0.0.1:0", "--upstream", "127.0.0.1:1", "--out", session + ".new"}, exitFailed, ""},
	} {
		out, code, err := runLines(t.Context(), t, nil, c.args...)
		if code != c.want || !strings.Contains(out, c.out) {
			t.Errorf("%s: gateway %v: got exit %d, %v, want %d; want %q in:\n%s", c.name, c.args, code, err, c.want, c.out, out)
		}
	}
	if _, code, err := runLines(t.Context(), t, zeros{}, "frames", "-", "--request", "3/12"); code != exitNo {
		t.Errorf("a frame without end: got exit %d, %v, want %d", code, err, exitNo)
	}
	if _, err := os.Stat(session + ".new"); err == nil {
		t.Error("a session that did not begin left its file behind")
	}
	if after, err := os.ReadFile(session); err != nil || string(after) != string(whole) {
		t.Error(fmt.Errorf("a session that was there is changed: %w", err))
	}
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
