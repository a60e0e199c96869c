package storage

import (
	"bytes"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// dirNames returns the names in the data directory that end in one of the suffixes.
func dirNames(t testing.TB, fsys vfs.FS, suffixes ...string) []string {
	t.Helper()
	names, err := fsys.List(testDir)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	})
}

func TestDeletedDirectoriesGoAfterTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Now: time.Now})
		s, err := Open(testDir, Options{FS: mem, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		stop := runStore(t, s)
		topic := createTopic(t, s, "orders", 2, "file.delete.delay.ms", "90000")
		mustProduce(t, topic, 0, "a")
		mustProduce(t, topic, 1, "b")
		if err := s.DeleteTopic(topic.ID()); err != nil {
			t.Fatal(err)
		}
		if got := dirNames(t, mem, "-delete"); len(got) != 2 || !strings.HasPrefix(got[0], "orders-0.") {
			t.Errorf("directories of the deleted topic: %v, want two", got)
		}
		<-time.After(89 * time.Second)
		synctest.Wait()
		if got := dirNames(t, mem, "-delete"); len(got) != 2 {
			t.Errorf("after 89 s: %v, want two", got)
		}
		<-time.After(2 * time.Second)
		synctest.Wait()
		if got := dirNames(t, mem, "-delete"); len(got) != 0 {
			t.Errorf("after 91 s: %v, want none", got)
		}
		if s.isDeleted(topic.ID()) {
			t.Error("the metadata log still remembers the topic, no directory of which is left")
		}
		stop()
		closeStore(t, s)
	})
}

func TestDeleteAndRecreateUnderLoad(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	var group sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				topic, ok := s.Topic("orders")
				if !ok {
					continue
				}
				l, _ := topic.Partition(0)
				if _, err := produce(l, topic.ID().String()); err != nil && !errors.Is(err, ErrLogDeleted) {
					t.Errorf("produce: %v", err)
					return
				}
			}
		})
	}
	for range 50 {
		topic, err := s.CreateTopic(TopicSpec{Name: "orders", Partitions: 1})
		if err != nil {
			t.Fatalf("create: %v", err)
		}
		mustProduce(t, topic, 0, topic.ID().String())
		l, _ := topic.Partition(0)
		got, err := values(l)
		if err != nil || slices.ContainsFunc(got, func(v string) bool { return v != topic.ID().String() }) {
			t.Errorf("the topic holds records of another: %q, %v", got, err)
		}
		if err := s.DeleteTopic(topic.ID()); err != nil {
			t.Fatalf("delete: %v", err)
		}
	}
	last := createTopic(t, s, "orders", 1)
	close(stop)
	group.Wait()
	if got := dirNames(t, mem, deleteSuffix); len(got) != 50 {
		t.Errorf("%d directories of deleted topics, want 50", len(got))
	}
	s = openStore(t, mem.CrashClone(1, 0))
	if got := lookUp(t, s, "orders"); got.ID() != last.ID() {
		t.Errorf("topic id %s after a crash, want %s", got.ID(), last.ID())
	}
}

func TestStrayDirectoriesAreKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{})
		s := openStore(t, mem)
		createTopic(t, s, "orders", 1)
		closeStore(t, s)
		stranger := TopicID(newUUID())
		for _, name := range []string{"lost-0", "orders-1", "empty-0"} {
			dir := filepath.Join(testDir, name)
			if err := mem.MkdirAll(dir); err != nil {
				t.Fatal(err)
			}
			if name == "empty-0" {
				continue // was being made when the power went
			}
			if err := writePartitionMetadata(mem, dir, stranger); err != nil {
				t.Fatal(err)
			}
			if err := writeSynced(mem, segmentFile(dir, 0, ".log"), []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		s = openStore(t, mem)
		stop := runStore(t, s)
		synctest.Wait()
		stop()
		got := dirNames(t, mem, straySuffix)
		if len(got) != 2 || !strings.HasPrefix(got[0], "lost-0.") || !strings.HasPrefix(got[1], "orders-1.") {
			t.Errorf("stray directories %v, want those of lost-0 and orders-1", got)
		}
		// A topic may take the place.
		mustProduce(t, createTopic(t, s, "lost", 1), 0, "mine")
		mustProduce(t, createTopic(t, s, "empty", 1), 0, "mine")
		if err := s.AddPartitions(lookUp(t, s, "orders").ID(), 2); err != nil {
			t.Fatal(err)
		}
		mustProduce(t, lookUp(t, s, "orders"), 1, "mine")
		closeStore(t, s)
	})
}

func TestTopicTakesThePlaceOfAStrayDirectory(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem) // Run has not looked at the directories
	dir := filepath.Join(testDir, "lost-0")
	if err := mem.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := writePartitionMetadata(mem, dir, TopicID(newUUID())); err != nil {
		t.Fatal(err)
	}
	topic := createTopic(t, s, "lost", 1)
	mustProduce(t, topic, 0, "mine")
	checkValues(t, topic, 0, "mine")
	if got := dirNames(t, mem, straySuffix); len(got) != 1 {
		t.Errorf("stray directories %v, want one", got)
	}
}

// The log may be written as JSON, where an id must be as people know it.
func TestStrayDirectoryIsNamedWithItsTopicID(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	var lines bytes.Buffer
	s, err := Open(testDir, Options{FS: mem, Logger: slog.New(slog.NewJSONHandler(&lines, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	dir, id := filepath.Join(testDir, "lost-0"), TopicID(newUUID())
	if err := mem.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := writePartitionMetadata(mem, dir, id); err != nil {
		t.Fatal(err)
	}
	mustProduce(t, createTopic(t, s, "lost", 1), 0, "mine")
	if got := lines.String(); !strings.Contains(got, `"id":"`+id.String()+`"`) {
		t.Errorf("the log has\n%s, want the id %s", got, id)
	}
}

func TestDirectoryThatCouldNotMoveMovesForTheNextTopic(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	failing := false
	s := openStore(t, vfs.Inject(mem, func(o vfs.Op) error {
		if failing && o.Kind == vfs.OpRename && strings.HasSuffix(o.NewName, deleteSuffix) {
			return errors.New("injected")
		}
		return nil
	}))
	old := createTopic(t, s, "orders", 1)
	mustProduce(t, old, 0, "old")
	failing = true
	if err := s.DeleteTopic(old.ID()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateTopic(TopicSpec{Name: "orders", Partitions: 1}); !errors.Is(err, ErrStorage) {
		t.Errorf("create in the place of a directory that does not move: %v, want ErrStorage", err)
	}
	failing = false
	fresh := createTopic(t, s, "orders", 1)
	mustProduce(t, fresh, 0, "new")
	checkValues(t, fresh, 0, "new")
}

// TestDirectoriesMoveWithoutRoomForACheckpoint deletes a topic while no checkpoint can be written. What its directories hold is
// free then, and the line that the file keeps meets no new topic, over a restart neither.
func TestDirectoriesMoveWithoutRoomForACheckpoint(t *testing.T) {
	for _, restart := range []bool{false, true} {
		mem := vfs.NewMem(vfs.MemOptions{})
		full := false
		s := openStore(t, vfs.Inject(mem, func(o vfs.Op) error {
			if full && o.Kind == vfs.OpWriteAt && strings.HasPrefix(filepath.Base(o.Name), logStartCheckpoint) {
				return vfs.ErrNoSpace
			}
			return nil
		}))
		old := createTopic(t, s, "orders", 1, "file.delete.delay.ms", "0")
		mustProduce(t, old, 0, "a")
		mustProduce(t, old, 0, "b")
		l, _ := old.Partition(0)
		if _, err := l.DeleteBefore(1); err != nil {
			t.Fatal(err)
		}
		full = true
		if err := s.DeleteTopic(old.ID()); err != nil {
			t.Fatal(err)
		}
		s.removeRetired()
		if got := dirNames(t, mem, "orders-0", deleteSuffix); len(got) != 0 {
			t.Errorf("directories %v of the deleted topic, want none", got)
		}
		if restart {
			s.Close()
			s = openStore(t, mem)
		} else if _, err := s.CreateTopic(TopicSpec{Name: "orders", Partitions: 1}); !errors.Is(err, ErrStorage) {
			t.Errorf("create a topic of which a checkpoint has an old line: %v, want ErrStorage", err)
		}
		full = false
		fresh := createTopic(t, s, "orders", 1)
		mustProduce(t, fresh, 0, "new")
		checkValues(t, fresh, 0, "new")
		closeStore(t, s)
	}
}

// TestDeletedTopicStaysDeletedOverKill: field case REC-11.
func TestDeletedTopicStaysDeletedOverKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		s := openStore(t, mem)
		topic := createTopic(t, s, "orders", 2)
		mustProduce(t, topic, 0, "a")
		mustProduce(t, topic, 1, "b")
		if err := s.DeleteTopic(topic.ID()); err != nil {
			t.Fatal(err)
		}
		mem = mem.KillClone()
		closeStore(t, s)
		s = openStore(t, mem)
		if _, ok := s.Topic("orders"); ok {
			t.Error("the deleted topic is back")
		}
		checkValues(t, createTopic(t, s, "orders", 2), 0)
		stop := runStore(t, s)
		synctest.Wait()
		stop()
		if got := dirNames(t, mem, deleteSuffix, straySuffix, "-0", "-1"); !slices.Equal(got, []string{"__gateway_metadata-0"}) {
			t.Errorf("directories %v, want those of the deleted topic gone", got)
		}
		closeStore(t, s)
	})
}

// A deleted topic's directory moves away, which a power loss would undo: it does not come back as that of the next topic
// of the name.
func TestMoveWhoseSyncFailedIsDurableBeforeTheNextTopic(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	moved, failed := false, false
	s := openStore(t, vfs.Inject(mem, func(o vfs.Op) error {
		switch {
		case o.Kind == vfs.OpRename && strings.HasSuffix(o.NewName, deleteSuffix):
			moved = true
		case o.Kind == vfs.OpSyncDir && o.Name == testDir && moved && !failed:
			failed = true
			return errInjected
		}
		return nil
	}))
	old := createTopic(t, s, "orders", 1)
	mustProduce(t, old, 0, "old")
	if err := s.DeleteTopic(old.ID()); err != nil {
		t.Fatal(err)
	}
	if !failed {
		t.Error("no sync of the data directory failed")
	}
	createTopic(t, s, "orders", 1)
	checkValues(t, lookUp(t, openStore(t, mem.CrashClone(1, 0)), "orders"), 0)
}

func TestDelayBeyondAllTimeKeepsDeletedDirectories(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Now: time.Now})
		s, err := Open(testDir, Options{FS: mem, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		stop := runStore(t, s)
		topic := createTopic(t, s, "orders", 1, "file.delete.delay.ms", "9223372036854775807")
		mustProduce(t, topic, 0, "a")
		if err := s.DeleteTopic(topic.ID()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := dirNames(t, mem, "-delete"); len(got) != 1 {
			t.Errorf("directories of the deleted topic: %v, want one", got)
		}
		stop()
		closeStore(t, s)
	})
}

func TestDirectoryOfAnotherTopicIsNotServed(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	mustProduce(t, createTopic(t, s, "orders", 1), 0, "theirs")
	closeStore(t, s)
	dir := filepath.Join(testDir, "orders-0")
	if err := writePartitionMetadata(mem, dir, TopicID(newUUID())); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, mem)
	l, _ := lookUp(t, s, "orders").Partition(0)
	got, err := values(l)
	if c, ok := errors.AsType[*CorruptError](err); !ok || c.File != filepath.Join(dir, partitionMetadataFile) {
		t.Errorf("got %q, %v, want a *CorruptError of %s", got, err, partitionMetadataFile)
	}
	closeStore(t, s)
}

func TestDirectoryThatCouldNotMoveIsRemovedByTheNextStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Now: time.Now})
		s, err := Open(testDir, Options{Now: time.Now, FS: vfs.Inject(mem, func(o vfs.Op) error {
			if o.Kind == vfs.OpRename && filepath.Base(o.Name) == "orders-1" {
				return errInjected
			}
			return nil
		})})
		if err != nil {
			t.Fatal(err)
		}
		stop := runStore(t, s)
		topic := createTopic(t, s, "orders", 2)
		mustProduce(t, topic, 0, "a")
		mustProduce(t, topic, 1, "b")
		if err := s.DeleteTopic(topic.ID()); err != nil {
			t.Fatal(err)
		}
		<-time.After(time.Hour)
		stop()
		closeStore(t, s)
		if got := dirNames(t, mem, "-0", "-1", deleteSuffix); len(got) != 2 || got[1] != "orders-1" {
			t.Errorf("directories %v, want that of partition 1", got)
		}
		s = openStore(t, mem)
		stop = runStore(t, s)
		synctest.Wait()
		stop()
		if got := dirNames(t, mem, "-0", "-1", deleteSuffix, straySuffix); !slices.Equal(got, []string{"__gateway_metadata-0"}) {
			t.Errorf("directories %v, want that of partition 1 gone", got)
		}
		if s.isDeleted(topic.ID()) {
			t.Error("the metadata log still remembers the topic, no directory of which is left")
		}
		closeStore(t, s)
	})
}
