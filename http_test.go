package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// lines keeps what is logged.
type lines struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// startWithHTTP starts a gateway with metrics on a file system.
func startWithHTTP(t *testing.T, fsys vfs.FS, log *lines) *Gateway {
	t.Helper()
	g, err := Start(t.Context(), Options{FS: fsys, Logger: slog.New(slog.NewTextHandler(log, nil)), Config: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "gateway.http.listen": ":0",
	}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// get asks a gateway over HTTP.
func get(t *testing.T, g *Gateway, path string) (status int, body string) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	resp, err := client.Get("http://" + g.HTTPAddr().String() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// wantLine checks that an answer has a line that begins with prefix, or that it has none.
func wantLine(t *testing.T, text, prefix string, want bool) {
	t.Helper()
	if got := strings.Contains("\n"+text, "\n"+prefix); got != want {
		name, _, _ := strings.Cut(strings.TrimSpace(prefix), "{")
		name, _, _ = strings.Cut(name, " ")
		var near []string
		for _, line := range strings.Split(text, "\n") {
			if strings.HasPrefix(line, name) {
				near = append(near, line)
			}
		}
		t.Errorf("line %q: got %t, want %t among %q", prefix, got, want, near)
	}
}

// fillCompacted makes a topic that is compacted, with a pass due.
func fillCompacted(t *testing.T, s *storage.Store, name string) {
	t.Helper()
	topic, err := s.CreateTopic(storage.TopicSpec{Name: name, Partitions: 1, Configs: map[string]string{
		"cleanup.policy": "compact", "internal.segment.bytes": "1000", "min.cleanable.dirty.ratio": "0.01",
	}})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := topic.Partition(0)
	for i := range 60 {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		b.Append(record.Record{Key: fmt.Append(nil, "k", i%3), Value: []byte("v"), Timestamp: 1_700_000_000_000})
		a, err := l.Append(b.Bytes(), storage.AppendOptions{})
		if err == nil {
			err = l.WaitDurable(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPartitionThatCannotBeCleanedIsNamed has the disk refuse what a pass writes: the partition is named in the log and
// in the metrics until it is cleaned, which the next start tries.
func TestPartitionThatCannotBeCleanedIsNamed(t *testing.T) {
	defer goleak.VerifyNone(t)
	var broken atomic.Bool
	broken.Store(true)
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		if broken.Load() && op.Kind == vfs.OpCreate && strings.Contains(op.Name, "bad-0") && strings.HasSuffix(op.Name, ".cleaned") {
			return errors.New("no medium")
		}
		return nil
	})
	const series, line = `gateway_cleaner_partition_set_aside{partition="0",topic="bad"} 1`, "log cannot be cleaned and is set aside until the next start"
	var log lines
	g := startWithHTTP(t, fsys, &log)
	fillCompacted(t, g.Store(), "bad")
	fillCompacted(t, g.Store(), "good")
	_, before := get(t, g, "/metrics")
	wantLine(t, before, "gateway_cleaner_partition_set_aside", false)
	wantLine(t, before, "gateway_cleaner_passes_total 0", true)
	g.cleaner.Compact(t.Context())
	_, failed := get(t, g, "/metrics")
	for _, want := range []string{
		series, "gateway_cleaner_partitions_set_aside 1", "gateway_cleaner_errors_total 1", "gateway_cleaner_passes_total 1",
		`gateway_storage_partitions{status="online"} 2`, "gateway_storage_topics 2",
	} {
		wantLine(t, failed, want+"\n", true)
	}
	wantLine(t, failed, `gateway_cleaner_partition_set_aside{partition="0",topic="good"}`, false)
	if n := strings.Count(log.String(), line+`" log=bad-0`); n != 1 {
		t.Errorf("the log names bad-0 %d times, want once:\n%s", n, log.String())
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}

	broken.Store(false)
	g = startWithHTTP(t, fsys, &log)
	bad, _ := g.Store().Topic("bad")
	if l, _ := bad.Partition(0); l.CleanedTo() != 0 {
		t.Errorf("bad-0 was cleaned up to %d although that failed", l.CleanedTo())
	} else if _, err := l.Offsets(); err != nil { // waits for its recovery
		t.Fatal(err)
	}
	g.cleaner.Compact(t.Context())
	_, cleaned := get(t, g, "/metrics")
	wantLine(t, cleaned, "gateway_cleaner_partition_set_aside", false)
	wantLine(t, cleaned, "gateway_cleaner_partitions_set_aside 0\n", true)
	wantLine(t, cleaned, "gateway_cleaner_passes_total 1\n", true)
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestReadyUntilItStops(t *testing.T) {
	defer goleak.VerifyNone(t)
	var log lines
	g := startWithHTTP(t, vfs.NewMem(vfs.MemOptions{}), &log)
	if want := "address=" + g.HTTPAddr().String(); !strings.HasPrefix(g.HTTPAddr().String(), "127.0.0.1:") || strings.Count(log.String(), want) != 1 {
		t.Errorf("without a host HTTP is at %s, want it on loopback and once in the log:\n%s", g.HTTPAddr(), log.String())
	}
	if status, body := get(t, g, "/ready"); status != 200 || body != "ready\n" {
		t.Errorf("got %d %q, want it ready", status, body)
	}
	g.stopping.Store(true) // what Shutdown begins with
	if status, body := get(t, g, "/ready"); status != 503 || !strings.Contains(body, "stopping") {
		t.Errorf("while it stops: got %d %q, want 503 and why", status, body)
	}
	half, err := net.Dial("tcp", g.HTTPAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer half.Close()
	if _, err := io.WriteString(half, "GET /metr"); err != nil {
		t.Fatal(err)
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, half) // ends when it is closed
	if c, err := net.Dial("tcp", g.HTTPAddr().String()); err == nil {
		c.Close()
		t.Error("HTTP is still served after the shutdown")
	}
}

func TestFaultsOfHTTPAreSaidAtTheStart(t *testing.T) {
	defer goleak.VerifyNone(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	mem := vfs.NewMem(vfs.MemOptions{})
	for _, c := range []struct {
		address string
		config  bool
		want    []string
	}{
		{"9464", true, []string{`got "9464"`, "want HOST:PORT"}},
		{"127.0.0.1:70000", true, []string{`got port "70000"`, "want 0 to 65535"}},
		{"127.0.0.1:http", true, []string{`got port "http"`}},
		{taken.Addr().String(), false, []string{taken.Addr().String(), "in use"}},
	} {
		g, err := Start(t.Context(), Options{FS: mem, Logger: slog.New(slog.DiscardHandler), Config: map[string]string{
			"listeners": "PLAINTEXT://127.0.0.1:0", "gateway.http.listen": c.address,
		}})
		if err == nil {
			_ = g.Shutdown(context.Background())
			t.Errorf("%s: got a gateway, want an error", c.address)
			continue
		}
		if _, ok := errors.AsType[*ConfigError](err); ok != c.config {
			t.Errorf("%s: %v, is it a fault of the config: %t, want %t", c.address, err, ok, c.config)
		}
		for _, want := range append(c.want, "gateway.http.listen") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %q, want %q in it", c.address, err, want)
			}
		}
	}
	g, err := Start(t.Context(), Options{FS: mem, Logger: slog.New(slog.DiscardHandler), Config: map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err) // the directory is still locked
	}
	if g.HTTPAddr() != nil {
		t.Errorf("HTTP is served at %s, want it off by default", g.HTTPAddr())
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// TestMetricsDoNotWaitForTheDisk has the disk hang in what appends, syncs, groups and compaction do, each with the locks
// that it holds then.
func TestMetricsDoNotWaitForTheDisk(t *testing.T) {
	defer goleak.VerifyNone(t)
	var hangs atomic.Pointer[hang]
	var log lines
	g := startWithHTTP(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		if h := hangs.Load(); h != nil && op.Kind == h.kind && strings.Contains(op.Name, h.file) {
			h.reached.Do(func() { close(h.there) })
			<-h.end
		}
		return nil
	}), &log)
	fillCompacted(t, g.Store(), "orders")
	orders, _ := g.Store().Topic("orders")
	l, _ := orders.Partition(0)
	commit := func() error {
		_, err := g.groups.CommitOffsets(t.Context(), &groups.CommitRequest{
			Group: "g", Generation: -1, Retention: -1, Commits: []groups.Commit{{Topic: "orders", TopicID: orders.ID(), Offset: 7, LeaderEpoch: -1}},
		})
		return err
	}
	if _, err := g.groups.EnsureTopic(); err != nil {
		t.Fatal(err)
	}
	if err := commit(); err != nil {
		t.Fatal(err)
	}
	put := func() error {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		b.Append(record.Record{Key: []byte("k"), Value: []byte("v"), Timestamp: 1_700_000_000_000})
		a, err := l.Append(b.Bytes(), storage.AppendOptions{})
		if err == nil {
			err = l.WaitDurable(t.Context(), a)
		}
		return err
	}
	for _, c := range []struct {
		kind vfs.OpKind
		file string
		do   func() error
	}{
		{vfs.OpWriteAt, "orders-0/", put},
		{vfs.OpSync, "orders-0/", put},
		{vfs.OpWriteAt, "__consumer_offsets-", commit},
		{vfs.OpSync, "__consumer_offsets-", commit},
		{vfs.OpCreate, ".cleaned", func() error { g.cleaner.Compact(t.Context()); return nil }},
		{vfs.OpSync, "__gateway_metadata-0/", func() error {
			_, err := g.Store().CreateTopic(storage.TopicSpec{Name: "more", Partitions: 1})
			return err
		}},
	} {
		h := &hang{kind: c.kind, file: c.file, there: make(chan struct{}), end: make(chan struct{})}
		hangs.Store(h)
		done := make(chan error, 1)
		go func() { done <- c.do() }()
		<-h.there
		if status, text := get(t, g, "/metrics"); status != 200 || !strings.Contains(text, "gateway_storage_syncs_total") {
			t.Errorf("while %v of %s hangs: got %d and %d bytes, want the metrics", c.kind, c.file, status, len(text))
		}
		hangs.Store(nil)
		close(h.end)
		if err := <-done; err != nil {
			t.Errorf("%v of %s: %v", c.kind, c.file, err)
		}
	}
	if err := g.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// hang is an operation that does not end before it is told.
type hang struct {
	kind       vfs.OpKind
	file       string
	reached    sync.Once
	there, end chan struct{}
}
