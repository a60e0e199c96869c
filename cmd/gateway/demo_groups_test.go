package main

import (
	"os"
	"strings"
	"testing"
)

// TestDemoGroupsPrintsTheSame holds the output, which scripts and docs quote. After a wanted change print it anew:
// gateway demo groups > testdata/demo_groups.golden
func TestDemoGroupsPrintsTheSame(t *testing.T) {
	want, err := os.ReadFile("testdata/demo_groups.golden")
	if err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"groups"},
		{"groups", "--group", "kitchen", "--crash-after", "12", "--now-ms", "1700000000000"},
	} {
		if got, err := demo(t, args...); err != nil || got != string(want) {
			t.Errorf("demo %v: %v, prints\n%s\nwant\n%s", args, err, got, want)
		}
	}
}

func TestDemoGroupsFollowsItsFlags(t *testing.T) {
	for _, c := range []struct {
		args string
		want []string // in this order
	}{
		{"--crash-after 7", []string{
			"crash after 7 processed: position 7, which nobody knows any more; committed 5", "redelivery window 2: goes on at 5, reprocessed [5 6], lost []",
			"position 7, which nobody knows any more; committed 10", "goes on at 10, reprocessed [], lost [7 8 9]"}},
		{"--crash-after 10", []string{"committed 5", "reprocessed [5 6 7 8 9], lost []", "committed 10", "reprocessed [], lost []"}},
		{"--crash-after 0", []string{"position 0, which nobody knows any more; committed 0", "reprocessed [], lost []", "committed 5", "lost [0 1 2 3 4]"}},
		{"--crash-after 20", []string{"committed 15", "reprocessed [15 16 17 18 19], lost []", "committed 20", "reprocessed [], lost []"}},
		{"--group billing", []string{"group billing", "billing    read back by replay: 7", "4 records, 2 live keys"}},
	} {
		got, err := demo(t, append([]string{"groups"}, strings.Fields(c.args)...)...)
		if err != nil {
			t.Errorf("demo groups %s: %v", c.args, err)
		}
		rest := got
		for _, want := range c.want {
			_, after, found := strings.Cut(rest, want)
			if !found {
				t.Errorf("demo groups %s prints\n%s\nwant %q in it, in its place", c.args, got, want)
				break
			}
			rest = after
		}
	}
	for _, args := range []string{"--crash-after 21", "--crash-after -1", "--now-ms -9223372036854775808", "--group="} {
		if _, err := demo(t, append([]string{"groups"}, strings.Fields(args)...)...); err == nil {
			t.Errorf("demo groups %s: got no error", args)
		}
	}
}
