package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
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
	out, said, code, err := runSaying(ctx, t, nil, "consume", "-b", s.addr(), "t", "-e")
	if code != exitFailed || err == nil || out != "c\nd\n" {
		t.Errorf("got %q, exit code %d, %v, want c, d and %d", out, code, err, exitFailed)
	}
	if !strings.HasPrefix(said, "gateway: t-0 cannot be read: KAFKA_STORAGE_ERROR") || strings.Count(said, "\n") != 1 {
		t.Errorf("said %q, want the partition and the error once", said)
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
	ended := make(chan error, 1)
	go func() {
		root := newRootCommand()
		root.SetArgs([]string{"consume", "-b", s.addr(), "t"})
		root.SetOut(out)
		root.SetErr(report)
		err := root.ExecuteContext(ctx)
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
		f := faults{client: client, topic: "t", of: map[int32]*fault{}}
		defer f.stop()
		paused := func() []int32 { return client.PauseFetchPartitions(nil)["t"] }
		start := time.Now()
		run := func() {
			t.Helper()
			if err := f.met(3, kerr.KafkaStorageError); err != nil {
				t.Fatalf("the first error: got %v, want none", err)
			}
			for n := 2; n < faultLimit; n++ {
				if got := paused(); !slices.Equal(got, []int32{3}) {
					t.Fatalf("paused before error %d: got %v, want 3", n, got)
				}
				for range faultLimit {
					if err := f.met(3, kerr.LeaderNotAvailable); err != nil {
						t.Fatalf("error %d, during the wait: got %v, want none", n, err)
					}
				}
				time.Sleep(faultWait << (n - 2))
				synctest.Wait()
				if got := paused(); len(got) != 0 {
					t.Fatalf("paused after the wait before error %d: got %v, want none", n, got)
				}
				if err := f.met(3, kerr.LeaderNotAvailable); err != nil {
					t.Fatalf("error %d: got %v, want none", n, err)
				}
			}
			time.Sleep(faultWait << (faultLimit - 2))
			synctest.Wait()
		}
		run()
		f.read(3)
		run()
		if err := f.met(3, kerr.LeaderNotAvailable); !errors.Is(err, kerr.KafkaStorageError) {
			t.Errorf("error %d: got %v, want the first of them", faultLimit, err)
		}
		if got, want := time.Since(start), 2*faultWait*(1<<(faultLimit-1)-1); got != want {
			t.Errorf("waited %v, want %v", got, want)
		}
	})
}
