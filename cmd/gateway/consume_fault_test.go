package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kaen-log/gateway"
)

// twoPartitions are a server's files: topic t has the records a and b in partition 0, c and d in partition 1.
type twoPartitions struct {
	options gateway.Options
	server  *gateway.Gateway
}

func newTwoPartitions(t *testing.T) *twoPartitions {
	t.Helper()
	s := &twoPartitions{options: gateway.Options{Dir: t.TempDir(), Logger: slog.New(slog.DiscardHandler), Config: map[string]string{
		"listeners": "PLAINTEXT://127.0.0.1:0", "num.partitions": "2",
	}}}
	s.start(t)
	t.Cleanup(func() { s.stop(t) })
	mustProduce(t, "a\nb\n", "-b", s.addr(), "-p", "0", "t")
	mustProduce(t, "c\nd\n", "-b", s.addr(), "-p", "1", "t")
	return s
}

func (s *twoPartitions) addr() string { return s.server.Addrs()[0].String() }

func (s *twoPartitions) start(t *testing.T) {
	t.Helper()
	var err error
	if s.server, err = gateway.Start(t.Context(), s.options); err != nil {
		t.Fatal(err)
	}
}

func (s *twoPartitions) stop(t *testing.T) {
	t.Helper()
	if err := shutdown(s.server); err != nil {
		t.Error(err)
	}
}

// damage spoils the only segment of partition 0, which is offline as soon as that is met.
func (s *twoPartitions) damage(t *testing.T) {
	t.Helper()
	file := filepath.Join(s.options.Dir, "t-0", "00000000000000000000.log")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b[16] ^= 0xff // the magic of the first batch
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// consumption is a run of consume that gives a partition up with its second error.
func (s *twoPartitions) consumption(t *testing.T, offset, until string, report io.Writer) *consumption {
	t.Helper()
	c, err := newConsumption(&consumeFlags{broker: s.addr(), offset: offset, until: until, format: `%v\n`, timeout: time.Minute}, "t", report)
	if err != nil {
		t.Fatal(err)
	}
	c.faults.limit = 2
	return c
}

func TestConsumeNamesAPartitionThatHasNoLeaderAndReadsTheOthers(t *testing.T) {
	s := newTwoPartitions(t)
	s.stop(t)
	s.damage(t)
	s.start(t)
	const named = "gateway: t-0 cannot be read: LEADER_NOT_AVAILABLE"
	for _, c := range []struct {
		args []string
		code int
		out  string
		said []string
	}{
		{[]string{"-e"}, exitFailed, "c\nd\n", []string{named}},
		{[]string{"--until", "1"}, exitFailed, "c\n", []string{named}},
		{[]string{"-e", "-o", "end"}, exitFailed, "", []string{named}},
		{[]string{"-e", "-p", "1"}, exitDone, "c\nd\n", nil},
		{[]string{"-e", "-p", "1", "-o", "@0"}, exitDone, "c\nd\n", nil},
		{[]string{"-e", "-p", "0"}, exitFailed, "", []string{named}},
		{[]string{"-p", "0"}, exitFailed, "", []string{named}},
		{[]string{"-n", "2"}, exitDone, "c\nd\n", []string{named}},
	} {
		out, said, code, err := runSaying(t.Context(), t, nil, append([]string{"consume", "-b", s.addr(), "t"}, c.args...)...)
		if code != c.code || out != c.out || strings.Count(said, "\n") != len(c.said) {
			t.Errorf("consume %q: got %q, said %q, exit code %d, %v, want %d, %q and %d lines said", c.args, out, said, code, err, c.code, c.out, len(c.said))
		}
		for _, w := range c.said {
			if !strings.Contains(said, w) {
				t.Errorf("consume %q: said %q, want %q in it", c.args, said, w)
			}
		}
	}
	if _, _, err := runLines(t.Context(), t, nil, "consume", "-b", s.addr(), "t", "-p", "2"); err == nil || !strings.Contains(err.Error(), "no partition 2, it has 2") {
		t.Errorf("got %v, want that there are two partitions", err)
	}
}

func TestConsumeToTheEndNamesAPartitionThatGoesOfflineAndReadsTheOthers(t *testing.T) {
	t.Parallel()
	s := newTwoPartitions(t)
	s.damage(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, said bytes.Buffer
	err := s.consumption(t, "start", "end", &said).lines(ctx, &out)
	if exit, ok := errors.AsType[*exitError](err); !ok || exit.Code != exitFailed || out.String() != "c\nd\n" {
		t.Errorf("got %q, %v, want c, d and exit code %d", out.String(), err, exitFailed)
	}
	if s := said.String(); !strings.HasPrefix(s, "gateway: t-0 cannot be read: KAFKA_STORAGE_ERROR") || strings.Count(s, "\n") != 1 {
		t.Errorf("said %q, want the partition and the error once", s)
	}
}

func TestConsumeReadsNothingOfAPartitionThatItGaveUp(t *testing.T) {
	t.Parallel()
	s := newTwoPartitions(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := s.consumption(t, "end", "10", io.Discard)
	defer c.client.Close()
	c.faults.limit = 1
	if err := c.resolve(ctx); err != nil {
		t.Fatal(err)
	}
	assign := map[int32]kgo.Offset{0: kgo.NewOffset().At(2), 1: kgo.NewOffset().At(2)}
	c.client.AddConsumePartitions(map[string]map[int32]kgo.Offset{"t": maps.Clone(assign)})
	if err := c.failing(0, kerr.KafkaStorageError, assign); err != nil || len(assign) != 1 {
		t.Fatalf("got %v, %d partitions that are read, want 1", err, len(assign))
	}
	c.faults.stop()
	c.client.ResumeFetchPartitions(map[string][]int32{"t": {0}}) // the end of the wait
	mustProduce(t, "x\n", "-b", s.addr(), "-p", "0", "t")
	// The fetch that f comes with is sent after e was read, when x is there to be read too.
	for _, want := range []string{"e", "f"} {
		mustProduce(t, want+"\n", "-b", s.addr(), "-p", "1", "t")
		fetches := c.client.PollFetches(ctx)
		for fetches.NumRecords() == 0 && ctx.Err() == nil {
			fetches = c.client.PollFetches(ctx)
		}
		for r := range fetches.RecordsAll() {
			if string(r.Value) != want {
				t.Errorf("got %q of partition %d, want %s", r.Value, r.Partition, want)
			}
		}
	}
	if ctx.Err() != nil {
		t.Error("got no record, want e and f")
	}
}

func TestConsumeWithoutAStopNamesAPartitionOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	s := newTwoPartitions(t)
	s.damage(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	printed, out := io.Pipe()
	said, report := io.Pipe()
	c := s.consumption(t, "start", "", report)
	ended := make(chan error, 1)
	go func() {
		err := c.lines(ctx, out)
		out.Close()
		report.Close()
		ended <- err
	}()
	want := func(r io.Reader, line string) {
		t.Helper()
		got := make([]byte, len(line))
		if _, err := io.ReadFull(r, got); err != nil || string(got) != line {
			t.Fatalf("got %q, %v, want %q", got, err, line)
		}
	}
	want(printed, "c\nd\n")
	want(said, "gateway: t-0 cannot be read: KAFKA_STORAGE_ERROR")
	rest := make(chan []byte, 1)
	go func() {
		b, _ := io.ReadAll(said)
		rest <- b
	}()
	for _, line := range []string{"e\n", "f\n"} {
		mustProduce(t, line, "-b", s.addr(), "-p", "1", "t")
		want(printed, line)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("got %v after an interrupt, want none", err)
	}
	if b := <-rest; bytes.Count(b, []byte("\n")) != 1 {
		t.Errorf("said %q after the first words, want the end of one line", b)
	}
}

func TestFaultsAreCountedOnceAWaitAndForgottenWithARecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := kgo.NewClient()
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		f := faults{client: client, topic: "t", limit: faultLimit, of: map[int32]*fault{}}
		defer f.stop()
		paused := func() []int32 { return client.PauseFetchPartitions(nil)["t"] }
		waits := []time.Duration{250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second}
		run := func() {
			t.Helper()
			for n, wait := range waits {
				cause := kerr.LeaderNotAvailable
				if n == 0 {
					cause = kerr.KafkaStorageError
				}
				if err := f.met(3, cause); err != nil {
					t.Fatalf("error %d: got %v, want none", n+1, err)
				}
				for range faultLimit {
					if err := f.met(3, kerr.LeaderNotAvailable); err != nil {
						t.Fatalf("in the wait after error %d: got %v, want none", n+1, err)
					}
				}
				time.Sleep(wait - time.Nanosecond)
				synctest.Wait()
				if got := paused(); !slices.Equal(got, []int32{3}) {
					t.Fatalf("paused after error %d: got %v, want 3", n+1, got)
				}
				time.Sleep(time.Nanosecond)
				synctest.Wait()
				if got := paused(); len(got) != 0 {
					t.Fatalf("paused after the wait of error %d: got %v, want none", n+1, got)
				}
			}
		}
		run()
		f.read(3)
		start := time.Now()
		run()
		if got, session := time.Since(start), 9*time.Second; got <= session {
			t.Errorf("waited %v, want more than broker.session.timeout.ms, %v", got, session)
		}
		if err := f.met(3, kerr.LeaderNotAvailable); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("error %d: got %v, want the first of them", len(waits)+1, err)
		}
	})
}
