package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

// demo runs a walk-through and returns what it prints.
func demo(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newDemoCommand()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(args)
	err := cmd.Execute()
	return out.String(), err
}

// TestDemoCleanerPrintsTheSame holds the output, which scripts and docs quote. After a wanted change print it anew:
// gateway demo cleaner > testdata/demo_cleaner.golden
func TestDemoCleanerPrintsTheSame(t *testing.T) {
	want, err := os.ReadFile("testdata/demo_cleaner.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"cleaner"},
		{"cleaner", "--now-ms", "1700000000000", "--retention-ms", "604800000", "--delete-retention-ms", "86400000", "--passes", "2"},
	} {
		if got, err := demo(t, args...); err != nil || got != string(want) {
			t.Errorf("demo %v: %v, prints\n%s\nwant\n%s", args, err, got, want)
		}
	}
}

func TestDemoCleanerFollowsItsFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string
	}{
		{"--retention-ms 864000000", []string{"segments [] go, 0 records; log start 0 -> 0", "records 25 -> 3, bytes 3292 -> 347", "reading at offset 0 gives 23 ORD-1044"}},
		{"--retention-ms 3600000", []string{"segments [0 3 6 9 12 15 18] go, 21 records; log start 0 -> 21, end stays 21"}},
		{"--passes 3", []string{"pass 3: ceiling 25, 3 keys in the head, 1 segments, records 3 -> 3, bytes 347 -> 347"}},
		{"--delete-retention-ms 0", []string{"horizons stamped 1", "pass 2: ceiling 25, 3 keys in the head, 6 segments, records 3 -> 2"}},
		{"--retention-ms 9223372036854775807", []string{"older than 9223372036854775807 ms", "segments [] go, 0 records"}},
		{"--delete-retention-ms 9223370336854775806", []string{"tombstones kept 0 dropped 1", "reading at offset 6 gives 23 ORD-1044"}},
		{"--now-ms 9223372036768375806", []string{"segments [0 3] go", "tombstones kept 0 dropped 1"}},
		{"--now-ms 691200000", []string{"newest record 192h0m0s old", "segments [0 3] go", "tombstones kept 0 dropped 1"}},
		{"--now-ms 1800000000000", []string{"records 19 -> 3, bytes 2488 -> 347", "records in the cleanable part 8 -> 2, live keys 3 -> 3, end 12"}},
	} {
		got, err := demo(t, append([]string{"cleaner"}, strings.Fields(c.args)...)...)
		if err != nil {
			t.Errorf("demo cleaner %s: %v", c.args, err)
		}
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("demo cleaner %s prints\n%s\nwant %q in it", c.args, got, want)
			}
		}
	}
	for _, args := range []string{
		"--passes 0", "--passes -1", "--retention-ms -1", "--delete-retention-ms -1",
		"--delete-retention-ms 9223370336854775807", "--delete-retention-ms 9223372036854775807",
		"--now-ms 9223372036768375807", "--now-ms 691199999", "--now-ms -1", "--now-ms -9223372036854775808",
	} {
		got, err := demo(t, append([]string{"cleaner"}, strings.Fields(args)...)...)
		if exit, ok := errors.AsType[*exitError](err); !ok || exit.Code != exitUsage {
			t.Errorf("demo cleaner %s: got %v, prints\n%s\nwant exit code %d", args, err, got, exitUsage)
		}
	}
}
