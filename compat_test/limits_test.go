package compat_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fill produces batches of about 256 KiB until one is refused, and returns how
// many were acknowledged and the code of the refusal.
func fill(t testing.TB, c *conn, tp topic) (acknowledged int, refusal int16) {
	t.Helper()
	b := batch{Records: []rec{{Value: incompressible(256 << 10)}}}.bytes(t)
	for acknowledged < 10000 {
		if got := produce(c, 9, tp, 0, b).ErrorCode; got != 0 {
			return acknowledged, got
		}
		acknowledged++
	}
	t.Fatal("the disk does not fill up")
	return 0, 0
}

// fullDisk fills the store, reads, frees space and writes again.
func fullDisk(t *testing.T, s *server) {
	t.Helper()
	c := s.dial(t)
	other, tp := s.createTopic(t, "other", 1), s.createTopic(t, "full", 1)
	mustProduce(c, other, 0, one("before"))
	acknowledged, refusal := fill(t, c, tp)
	wantCode(t, "on a full disk", refusal, storageError)
	if acknowledged < 10 {
		t.Fatalf("full after %d batches", acknowledged)
	}
	// no part of the refused batch is to be seen, reads work
	wantEnd(c, tp, 0, int64(acknowledged))
	want(t, "records", len(values(c, tp, 0, 0)), acknowledged)
	want(t, "another partition's record", values(c, other, 0, 0)[0], "before")
	// space comes back, and writes with it
	deleteTopic(t, c, tp)
	for ctx := within(t); ; {
		got := produce(c, 9, other, 0, one("after").bytes(t))
		if got.ErrorCode == 0 {
			break
		}
		wantCode(t, "until there is space", got.ErrorCode, storageError)
		if ctx.Err() != nil {
			t.Fatal("no write succeeds after space came back")
		}
	}
	if got := values(c, other, 0, 0); len(got) != 2 || got[1] != "after" {
		t.Errorf("the other partition holds %q", got)
	}
	again := s.createNamedTopic(t, tp.Name, 1)
	want(t, "first offset of the topic made again", mustProduce(c, again, 0, one("x")), 0)
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	t.Run("REC-08 disk full, in memory", func(t *testing.T) {
		t.Parallel()
		fullDisk(t, newServer(t, "--memory", "--memory-capacity", fmt.Sprint(20<<20), "-c", "log.segment.delete.delay.ms=0"))
	})

	t.Run("REC-08 disk full, on a small file system", func(t *testing.T) {
		t.Parallel()
		if err := exec.Command("unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt").Run(); err != nil {
			t.Skipf("a file system of its own needs rights that are not there: %v", err)
		}
		s := newStoppedServer(t, t.TempDir()+"/small", "-c", "log.segment.delete.delay.ms=0")
		if err := os.Mkdir(s.Dir, 0o755); err != nil {
			t.Fatal(err)
		}
		// the mount is the process's own and goes with it
		s.wrap = []string{"unshare", "--mount", "sh", "-c", `mount -t tmpfs -o size=20m tmpfs "$0" && exec "$@"`, s.Dir}
		s.Start(t)
		fullDisk(t, s)
	})
}

func TestFewFileDescriptors(t *testing.T) {
	t.Parallel()
	t.Run("REC-09 out of file descriptors", func(t *testing.T) {
		if runtime.GOOS == "windows" {
			t.Skip("no such limit")
		}
		s := newStoppedServer(t, t.TempDir()+"/data")
		s.wrap = []string{"sh", "-c", `ulimit -n 256; exec "$@"`, "sh"}
		s.Start(t)
		tp := s.createTopic(t, "rec-09", 300)
		c := s.dial(t)
		stored := map[int32]int{}
		for range 2 {
			for p := range int32(300) {
				got := produce(c, 9, tp, p, one("x").bytes(t))
				if got.ErrorCode == 0 {
					stored[p]++
				} else if got.ErrorCode != storageError {
					t.Fatalf("partition %d: %s", p, code(got.ErrorCode))
				}
			}
		}
		var many []*conn
		for range 200 { // some may be refused, none may end the process
			many = append(many, s.dial(t))
		}
		for p := range int32(300) {
			if got := produce(c, 9, tp, p, one("y").bytes(t)); got.ErrorCode == 0 {
				stored[p]++
			}
		}
		for _, m := range many {
			m.c.Close()
		}
		for ctx := within(t); ; { // served again once the others left
			got := produce(c, 9, tp, 0, one("z").bytes(t))
			if got.ErrorCode == 0 {
				stored[0]++
				break
			}
			if ctx.Err() != nil {
				t.Fatalf("after the others left: %s", code(got.ErrorCode))
			}
		}
		ask[*kmsg.MetadataResponse](s.dial(t), 9, metadataRequest())

		s.Kill9(t)
		s.wrap = nil
		s.Start(t)
		c = s.dial(t)
		for p := range int32(300) {
			want(t, fmt.Sprint("records of partition ", p), len(values(c, tp, p, 0)), stored[p])
		}
		if len(stored) == 0 {
			t.Error("nothing was stored")
		}
	})
}
