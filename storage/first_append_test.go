package storage

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/storage/vfs"
)

// Who asks while a sync runs shares the next one, and none gets the outcome of a sync that began before it asked.
func TestSharedSyncServesAllWhoWaitWithOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sharedSync
		began, goOn := make(chan int, 10), make(chan error)
		calls := 0
		do := func() error {
			calls++
			began <- calls
			return <-goOn
		}
		errs := make([]error, 6)
		var wg sync.WaitGroup
		wg.Go(func() { errs[0] = s.sync(do) })
		if got := <-began; got != 1 {
			t.Fatalf("sync %d began, want 1", got)
		}
		for i := range errs[1:] {
			wg.Go(func() { errs[1+i] = s.sync(do) })
		}
		synctest.Wait()
		goOn <- nil
		<-began
		second := errors.New("second")
		goOn <- second
		wg.Wait()
		if calls != 2 {
			t.Errorf("%d syncs, want 2", calls)
		}
		for i, err := range errs {
			if want := map[bool]error{true: nil, false: second}[i == 0]; err != want {
				t.Errorf("call %d: error %v, want %v", i, err, want)
			}
		}
		go func() { <-began; goOn <- nil }()
		if err := s.sync(do); err != nil || calls != 3 {
			t.Errorf("after it: error %v and %d syncs, want none and 3", err, calls)
		}
	})
}

// The directories of many partitions that are made together share the syncs of the data directory, and an append
// finds them made.
func TestMakeDirectoriesSharesTheSyncOfTheDataDirectory(t *testing.T) {
	const n = 40
	var mu sync.Mutex
	counts := make(map[string]int)
	mem := vfs.NewMem(vfs.MemOptions{})
	s, err := Open(testDir, Options{FS: vfs.Inject(mem, func(op vfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		counts[fmt.Sprint(op.Kind, " ", op.Name)]++
		return nil
	})})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	topic, err := s.CreateTopic(TopicSpec{Name: "many", Partitions: n})
	if err != nil {
		t.Fatal(err)
	}
	clear(counts)
	var logs []*Log
	for i := range int32(n) {
		l, _ := topic.Partition(i)
		if l.Made() {
			t.Fatalf("partition %d has a directory already", i)
		}
		logs = append(logs, l)
	}
	s.MakeDirectories(logs)
	for i, l := range logs {
		if !l.Made() {
			t.Errorf("partition %d has no directory", i)
		}
	}
	synced := fmt.Sprint(vfs.OpSyncDir, " ", testDir)
	if got := counts[synced]; got < 1 || got > n {
		t.Errorf("%d syncs of the data directory, want 1 to %d", got, n)
	}
	clear(counts)
	s.MakeDirectories(logs)
	if len(counts) != 0 {
		t.Errorf("made again: operations %v, want none", counts)
	}
}
