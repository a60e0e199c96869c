package storage

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// TestDeletedSegmentsGoAfterTheDelay deletes segments at two moments, and wants the files of each gone when
// file.delete.delay.ms have passed and not a millisecond before.
func TestDeletedSegmentsGoAfterTheDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Now: time.Now})
		s, err := Open(testDir, Options{FS: mem, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		stop := runStore(t, s)
		topic := createTopic(t, s, "orders", 1, "file.delete.delay.ms", "90500")
		l, _ := topic.Partition(0)
		for range 3 {
			mustProduce(t, topic, 0, "a")
			if err := l.Roll(); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		wantDeleted := func(want string) {
			t.Helper()
			synctest.Wait()
			names, err := mem.List(filepath.Join(testDir, "orders-0"))
			if err != nil {
				t.Fatal(err)
			}
			names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, deletedSuffix) })
			if got := strings.Join(names, " "); got != want {
				t.Errorf("after %v: deleted files %q, want %q", time.Since(began), got, want)
			}
		}
		const first = "00000000000000000000.index.deleted 00000000000000000000.log.deleted 00000000000000000000.timeindex.deleted"
		const second = "00000000000000000001.index.deleted 00000000000000000001.log.deleted 00000000000000000001.snapshot.deleted 00000000000000000001.timeindex.deleted"
		deleteBefore := func(offset int64) {
			t.Helper()
			if _, err := l.DeleteBefore(offset); err != nil {
				t.Fatal(err)
			}
		}
		deleteBefore(1)
		wantDeleted(first)
		<-time.After(time.Second)
		deleteBefore(2)
		wantDeleted(first + " " + second)
		<-time.After(89*time.Second + 499*time.Millisecond)
		wantDeleted(first + " " + second)
		<-time.After(time.Millisecond)
		wantDeleted(second)
		<-time.After(999 * time.Millisecond)
		wantDeleted(second)
		<-time.After(time.Millisecond)
		wantDeleted("")
		stop()
		closeStore(t, s)
	})
}
