package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kaen-log/gateway"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
)

// newServer starts a server in memory and returns it and its address.
func newServer(t *testing.T, config map[string]string) (*gateway.Gateway, string) {
	t.Helper()
	c := map[string]string{"listeners": "PLAINTEXT://127.0.0.1:0"}
	for k, v := range config {
		c[k] = v
	}
	g, err := gateway.Start(t.Context(), gateway.Options{Memory: true, Config: c, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := shutdown(g); err != nil {
			t.Error(err)
		}
	})
	return g, g.Addrs()[0].String()
}

// runLines runs a subcommand with standard input and returns what it printed, its exit code and its error.
func runLines(ctx context.Context, t *testing.T, in io.Reader, args ...string) (out string, code int, err error) {
	t.Helper()
	out, _, code, err = runSaying(ctx, t, in, args...)
	return out, code, err
}

// runSaying is runLines that returns what was said on standard error too.
func runSaying(ctx context.Context, t *testing.T, in io.Reader, args ...string) (out, said string, code int, err error) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(&stdout)
	root.SetErr(&stderr)
	if err = root.ExecuteContext(ctx); err == nil {
		return stdout.String(), stderr.String(), exitDone, nil
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		return stdout.String(), stderr.String(), exitUsage, err
	}
	return stdout.String(), stderr.String(), exit.Code, err
}

// mustProduce produces the lines of in and fails the test when that fails.
func mustProduce(t *testing.T, in string, args ...string) {
	t.Helper()
	if _, code, err := runLines(t.Context(), t, strings.NewReader(in), append([]string{"produce"}, args...)...); code != exitDone {
		t.Fatalf("produce %q: exit code %d, %v", args, code, err)
	}
}

func TestLinesInAreLinesOut(t *testing.T) {
	_, addr := newServer(t, map[string]string{"num.partitions": "2"})
	mustProduce(t, "k:first\r\nk:\nk:NIL\nk:l\u00e4st", "-b", addr, "-K", ":", "-H", "a=1", "--null", "NIL", "-z", "zstd", "-p", "1", "t")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-e"}, "first\n\nNULL\nl\u00e4st\n"},
		{[]string{"-e", "-f", `%t-%p@%o%% %k→%v %h\n`}, "t-1@0% k→first a=1\nt-1@1% k→ a=1\nt-1@2% k→NULL a=1\nt-1@3% k→l\u00e4st a=1\n"},
		{[]string{"-e", "-o", "-1"}, "l\u00e4st\n"},
		{[]string{"-e", "-o", "end"}, ""},
		{[]string{"-o", "1", "--until", "3", "-p", "1"}, "\nNULL\n"},
		{[]string{"-n", "1"}, "first\n"},
		{[]string{"-e", "-o", "@4000000000000"}, ""},
		{[]string{"-e", "-o", "@0", "--read-committed"}, "first\n\nNULL\nl\u00e4st\n"},
		{[]string{"-e", "-p", "0"}, ""},
		{[]string{"-e", "-o", "1000"}, ""},
	} {
		out, code, err := runLines(t.Context(), t, nil, append([]string{"consume", "-b", addr, "t"}, c.args...)...)
		if code != exitDone || out != c.want {
			t.Errorf("consume %q: got %q, exit code %d, %v, want %q", c.args, out, code, err, c.want)
		}
	}
}

func TestConsumeOfWhatIsNotThere(t *testing.T) {
	_, addr := newServer(t, nil)
	mustProduce(t, "x\n", "-b", addr, "t")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"missing", "-e"}, exitFailed, "missing: UNKNOWN_TOPIC_OR_PARTITION"},
		{[]string{"t", "-p", "3"}, exitFailed, "topic t has no partition 3, it has 1"},
		{[]string{"t", "-o", "soon"}, exitUsage, `--offset: got "soon", want`},
		{[]string{"t", "--until", "@x"}, exitUsage, `--until: got "@x", want`},
		{[]string{"t", "-f", "%q"}, exitUsage, "--format: unknown %q"},
		{[]string{"t", "-n", "-1"}, exitUsage, "--count: got -1"},
	} {
		out, code, err := runLines(t.Context(), t, nil, append([]string{"consume", "-b", addr}, c.args...)...)
		if code != c.code || err == nil || !strings.Contains(err.Error(), c.want) || out != "" {
			t.Errorf("consume %q: got %q, exit code %d, %v, want %d and %q", c.args, out, code, err, c.code, c.want)
		}
	}
}

func TestConsumeStopsAtMarkersAndGapsAtTheEnd(t *testing.T) {
	g, addr := newServer(t, nil)
	mustProduce(t, "a\nb\n", "-b", addr, "marked")
	mustProduce(t, "a\nb\n", "-b", addr, "gap")
	add := func(topic string, b record.Batch) {
		t.Helper()
		found, ok := g.Store().Topic(topic)
		if !ok {
			t.Fatalf("topic %s is not there", topic)
		}
		log, _ := found.Partition(0)
		a, err := log.Append(b, storage.AppendOptions{Origin: storage.OriginCoordinator, Unverified: true})
		if err != nil {
			t.Fatalf("%s: %v", topic, err)
		}
		if err := log.WaitDurable(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
	add("marked", record.EndTxnMarker(4000, 0, record.Marker{Commit: true}, 1700000000000, 0))
	// What compaction leaves of a batch whose records are all gone.
	empty := record.NewBuilder(record.BuilderOptions{})
	empty.SetLastOffset(4)
	add("gap", empty.Bytes())
	for _, topic := range []string{"marked", "gap"} {
		for _, isolation := range []string{"--read-committed=false", "--read-committed"} {
			out, code, err := runLines(t.Context(), t, nil, "consume", "-b", addr, topic, "-e", isolation)
			if code != exitDone || out != "a\nb\n" {
				t.Errorf("consume %s %s: got %q, exit code %d, %v, want a and b", topic, isolation, out, code, err)
			}
		}
	}
}

func TestConsumeStartsAtTheFirstRecordThatIsLeft(t *testing.T) {
	g, addr := newServer(t, nil)
	mustProduce(t, "a\nb\nc\n", "-b", addr, "t")
	topic, _ := g.Store().Topic("t")
	log, _ := topic.Partition(0)
	if _, err := log.DeleteBefore(1); err != nil {
		t.Fatal(err)
	}
	out, code, err := runLines(t.Context(), t, nil, "consume", "-b", addr, "t", "-e", "-o", "0")
	if code != exitDone || out != "b\nc\n" {
		t.Errorf("got %q, exit code %d, %v, want b and c", out, code, err)
	}
}

func TestConsumeEndsWithAnInterrupt(t *testing.T) {
	_, addr := newServer(t, nil)
	mustProduce(t, "a\n", "-b", addr, "t")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, write := io.Pipe()
	defer read.Close()
	ended := make(chan error, 1)
	go func() {
		root := newRootCommand()
		root.SetArgs([]string{"consume", "-b", addr, "t"})
		root.SetOut(write)
		ended <- root.ExecuteContext(ctx)
	}()
	line := make([]byte, 2)
	if _, err := io.ReadFull(read, line); err != nil || string(line) != "a\n" {
		t.Fatalf("got %q, %v, want a", line, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v, want none", err)
	}
}

func TestProduceOfWhatCannotBe(t *testing.T) {
	_, addr := newServer(t, map[string]string{"auto.create.topics.enable": "false"})
	_, open := newServer(t, map[string]string{"message.max.bytes": "2000"})
	long := strings.Repeat("x", 1<<20+1)
	for _, c := range []struct {
		name, in string
		args     []string
		code     int
		want     []string
	}{
		{"a topic that is missing", "x\n", []string{"-b", addr, "missing"}, exitFailed, []string{"1 of 1 records", "line 1: UNKNOWN_TOPIC_OR_PARTITION"}},
		{"a name that no topic has", "x\n", []string{"-b", open, "a b"}, exitFailed, []string{"line 1: INVALID_TOPIC_EXCEPTION"}},
		{"a line over 1 MiB", "x\n" + long + "\ny\n", []string{"-b", open, "t"}, exitFailed, []string{"line 2: got more than 1048576 bytes", "--max-bytes"}},
		{"a line over the broker's limit", strings.Repeat("x", 3000) + "\n", []string{"-b", open, "t"}, exitFailed, []string{"1 of 1 records", "line 1: MESSAGE_TOO_LARGE"}},
		{"a line without a key", "k:v\nv\n", []string{"-b", open, "-K", ":", "t"}, exitUsage, []string{`line 2: line "v" has no key delimiter ":"`}},
		{"a partition that is missing", "x\n", []string{"-b", open, "-p", "7", "t"}, exitFailed, []string{"line 1: ", "7"}},
		{"a codec", "", []string{"-b", open, "-z", "brotli", "t"}, exitUsage, []string{`--compression: got "brotli"`}},
		{"acks", "", []string{"-b", open, "--acks", "2", "t"}, exitUsage, []string{`--acks: got "2"`}},
		{"a header", "", []string{"-b", open, "-H", "a", "t"}, exitUsage, []string{`--header: got "a"`}},
		{"a limit", "", []string{"-b", open, "--max-bytes", "3", "t"}, exitUsage, []string{"--max-bytes: got 3"}},
		{"a timeout", "", []string{"-b", open, "--timeout", "1ms", "t"}, exitUsage, []string{"--timeout: got 1ms, want at least 1s"}},
	} {
		_, code, err := runLines(t.Context(), t, strings.NewReader(c.in), append([]string{"produce"}, c.args...)...)
		if code != c.code || err == nil {
			t.Errorf("%s: got exit code %d, %v, want %d", c.name, code, err, c.code)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: got %q, want %q in it", c.name, err, w)
			}
		}
	}
	// What stood before the line at fault was sent.
	if out, _, err := runLines(t.Context(), t, nil, "consume", "-b", open, "-e", "t", "-f", "%k %v\n"); out != "NULL x\nk v\n" {
		t.Errorf("got %q, %v, want the lines before the ones at fault", out, err)
	}
}

func TestBrokerThatCannotBeReachedIsNamed(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	_, code, err := runLines(t.Context(), t, nil, "consume", "-b", addr, "--timeout", "1ms", "t")
	if code != exitFailed || err == nil || !strings.Contains(err.Error(), "broker "+addr+" cannot be reached") {
		t.Errorf("got exit code %d, %v, want %d and the broker named", code, err, exitFailed)
	}
}

func TestProduceOfALongLine(t *testing.T) {
	_, addr := newServer(t, map[string]string{"message.max.bytes": "8000000"})
	long := strings.Repeat("x", 3<<20)
	mustProduce(t, long+"\nend\n", "-b", addr, "--max-bytes", "4194304", "t")
	out, _, err := runLines(t.Context(), t, nil, "consume", "-b", addr, "t", "-e")
	if out != long+"\nend\n" {
		t.Errorf("got %d bytes, %v, want %d", len(out), err, len(long)+5)
	}
}

// openInput is standard input that has a line and then nothing, as a terminal does.
type openInput struct {
	line  io.Reader
	read  chan struct{} // closed when the line was taken and more is asked for
	until chan struct{}
}

func (o *openInput) Read(b []byte) (int, error) {
	if n, err := o.line.Read(b); err == nil {
		return n, nil
	}
	close(o.read)
	<-o.until
	return 0, io.EOF
}

func TestProduceEndsWithAnInterruptAndSendsWhatItRead(t *testing.T) {
	_, addr := newServer(t, nil)
	ctx, cancel := context.WithCancel(t.Context())
	in := &openInput{line: strings.NewReader("typed\n"), read: make(chan struct{}), until: make(chan struct{})}
	defer close(in.until)
	go func() {
		<-in.read
		cancel()
	}()
	if _, code, err := runLines(ctx, t, in, "produce", "-b", addr, "t"); code != exitDone {
		t.Errorf("got exit code %d, %v, want none", code, err)
	}
	if out, _, err := runLines(t.Context(), t, nil, "consume", "-b", addr, "t", "-e"); out != "typed\n" {
		t.Errorf("got %q, %v, want what was typed", out, err)
	}
}

func TestFormatOfConsumeKeepsLettersWhole(t *testing.T) {
	for format, want := range map[string]string{"ä%v→\\n": "äv→\n", `\t%%\\%o`: "\t%\\5", "%": "%", `\`: `\`} {
		print, err := parseFormat(format)
		if err != nil {
			t.Errorf("%q: %v", format, err)
			continue
		}
		var b bytes.Buffer
		w := bufio.NewWriter(&b)
		print(w, &kgo.Record{Value: []byte("v"), Offset: 5, Timestamp: time.UnixMilli(0)})
		if err := w.Flush(); err != nil || b.String() != want {
			t.Errorf("%q: got %q, %v, want %q", format, b.String(), err, want)
		}
	}
}

func TestLinesAreReadWithoutTheirEnds(t *testing.T) {
	for in, want := range map[string][]string{"": {}, "a": {"a"}, "a\n": {"a"}, "\n\r\nb": {"", "", "b"}, "a\r\n\nb\n": {"a", "", "b"}} {
		lines, done := make(chan inputLine), make(chan struct{})
		go readLines(strings.NewReader(in), 10, lines, done)
		got := []string{}
		for l := range lines {
			if l.err != nil {
				if !errors.Is(l.err, io.EOF) {
					t.Errorf("%q: %v", in, l.err)
				}
				break
			}
			got = append(got, string(l.text))
		}
		close(done)
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}
