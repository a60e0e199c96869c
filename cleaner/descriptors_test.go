package cleaner

import (
	"io/fs"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// TestOutOfFileDescriptorsSetsNoLogAside has no file descriptor left from the n-th on that a turn wants, for every n, and then
// enough: whatever the turn was at, the next compacts the log. Only where the new segment had its files renamed meanwhile it
// needs a start, and says so.
func TestOutOfFileDescriptorsSetsNoLogAside(t *testing.T) {
	givenUp, settled := map[string]int{}, map[string]int{}
	for n, ended := 0, false; !ended; n++ {
		first, stats, lines, later := turnWithDescriptors(t, n)
		ended = first == ""
		if len(stats.SetAside) > 0 || stats.Passes+stats.GivenUp != 1 || ended != (stats.Passes == 1) || strings.Count(lines, "given up for now") != int(stats.GivenUp) {
			t.Errorf("none for %q: stats %+v and log\n%s, want a pass that is given up", first, stats, lines)
		}
		switch {
		case ended:
			continue
		case strings.Contains(lines, "offset map of"):
			givenUp["map"]++
		case strings.Contains(lines, "rewrite orders-0"):
			givenUp["rewrite"]++
		default:
			givenUp["choice"]++
		}
		if op, _, _ := strings.Cut(first, " "); later.Passes != 1 {
			settled[op]++
			if len(later.SetAside) != 1 || !strings.Contains(later.SetAside[0].Cause.Error(), "files of an earlier rewrite") {
				t.Errorf("none for %q: stats %+v when there are some again, want a pass", first, later)
			}
		}
	}
	if givenUp["choice"] == 0 || givenUp["map"] == 0 || givenUp["rewrite"] == 0 {
		t.Errorf("turns ended in %v, want some of each", givenUp)
	}
	if len(settled) > 1 || settled["sync-dir"] == 0 {
		t.Errorf("a start is needed after %v, want it after syncs of the directory", settled)
	}
}

// turnWithDescriptors makes a turn with n file descriptors, and another one with enough. first is the operation for which
// there was none.
func turnWithDescriptors(t *testing.T, n int) (first string, stats Stats, lines string, later Stats) {
	now := time.UnixMilli(1_700_000_000_000)
	clock := func() time.Time { return now }
	armed, wanted := false, 0
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{Now: clock}), func(op vfs.Op) error {
		if !armed || op.Kind != vfs.OpOpen && op.Kind != vfs.OpCreate && op.Kind != vfs.OpSyncDir {
			return nil
		}
		if wanted++; wanted <= n {
			return nil
		}
		if first == "" {
			first = op.String()
		}
		return &fs.PathError{Op: "open", Path: op.Name, Err: []error{syscall.EMFILE, syscall.ENFILE}[n%2]}
	})
	open := func() *storage.Store {
		s, err := storage.Open("data", storage.Options{FS: fsys, Now: clock, OpenFiles: 1})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	fill(t, topicLog(t, s, "orders", small("max.compaction.lag.ms", "1000")), 30, 5, now)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	topic, _ := s.Topic("orders")
	l, _ := topic.Partition(0)
	if _, err := l.Offsets(); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := New(Options{Store: s, Now: clock, Logger: slog.New(slog.NewTextHandler(&out, nil))})
	armed = true
	c.Compact(t.Context())
	armed = false
	stats, lines = c.Stats(), out.String()
	c.Compact(t.Context())
	later = c.Stats()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	return first, stats, lines, later
}
