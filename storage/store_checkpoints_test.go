package storage

import (
	"path/filepath"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestCheckpointsOfADeletedTopicDoNotMeetItsSuccessor(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	old := createTopic(t, s, "orders", 1)
	mustProduce(t, old, 0, "a", "b", "c")
	l, _ := old.Partition(0)
	if _, err := l.DeleteBefore(2); err != nil {
		t.Fatal(err)
	}
	if err := s.saveCheckpoints(); err != nil {
		t.Fatal(err)
	}
	// The power goes when the deletion is durable and before the file is written: its line stays.
	stale, err := readOffsetCheckpoint(mem, filepath.Join(testDir, logStartCheckpoint))
	if err != nil || len(stale) != 1 {
		t.Fatalf("log starts %v, %v, want one", stale, err)
	}
	if err := s.DeleteTopic(old.ID()); err != nil {
		t.Fatal(err)
	}
	if err := writeOffsetCheckpoint(mem, filepath.Join(testDir, logStartCheckpoint), stale); err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone(1, 0)
	s = openStore(t, crashed)
	fresh := createTopic(t, s, "orders", 1)
	mustProduce(t, fresh, 0, "new")
	s = openStore(t, crashed.CrashClone(2, 0))
	checkValues(t, lookUp(t, s, "orders"), 0, "new")
}

func TestLogStartSurvivesACrash(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	topic := createTopic(t, s, "orders", 1)
	mustProduce(t, topic, 0, "a", "b", "c")
	l, _ := topic.Partition(0)
	if _, err := l.DeleteBefore(2); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, mem.CrashClone(1, 0))
	checkValues(t, lookUp(t, s, "orders"), 0, "c")
}

// A checkpoint that looked at a log before records were deleted may come to the file after.
func TestLogStartDoesNotGoBack(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	topic := createTopic(t, s, "orders", 1)
	mustProduce(t, topic, 0, "a", "b", "c")
	l, _ := topic.Partition(0)
	recoveryPoint, logStart, ok := l.checkpoints()
	if _, err := l.DeleteBefore(2); err != nil || !ok {
		t.Fatal(err)
	}
	s.checkpoints.save("orders", 0, recoveryPoint, logStart, 3, 0, func() bool { return true })
	if err := s.checkpoints.flush(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, mem.CrashClone(1, 0))
	checkValues(t, lookUp(t, s, "orders"), 0, "c")
}
