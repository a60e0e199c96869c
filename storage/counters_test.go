package storage

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

func TestAppendsAndSyncsAreCounted(t *testing.T) {
	var failing atomic.Int32 // the vfs.OpKind that fails, below 0 for none
	failing.Store(-1)
	s := openStore(t, vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		if int32(op.Kind) == failing.Load() && strings.Contains(op.Name, "orders-0/") && strings.HasSuffix(op.Name, ".log") {
			return syscall.EIO
		}
		return nil
	}))
	topic, err := s.CreateTopic(TopicSpec{Name: "orders", Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	l, _ := topic.Partition(0)
	put := func() (size int64, err error) {
		b := testBatch("a", "b", "c")
		a, err := l.Append(b, AppendOptions{})
		if err == nil {
			err = l.WaitDurable(context.Background(), a)
		}
		return int64(len(b)), err
	}
	before := s.Counts()
	size, err := put()
	if err != nil {
		t.Fatal(err)
	}
	after := s.Counts()
	if after.Appends-before.Appends != 1 || after.AppendedRecords-before.AppendedRecords != 3 || after.AppendedBytes-before.AppendedBytes != size {
		t.Errorf("one batch of 3 records in %d bytes: got %+v after %+v", size, after, before)
	}
	if after.Commits-before.Commits != 1 || after.FailedCommits != 0 || after.FailedAppends != 0 {
		t.Errorf("one append that was synced: got %+v after %+v", after, before)
	}
	if after.OpenFiles < 1 || after.OpenFilesLimit < after.OpenFiles {
		t.Errorf("%d of %d files are open, want some and not more", after.OpenFiles, after.OpenFilesLimit)
	}
	failing.Store(int32(vfs.OpSync))
	if _, err := put(); !errors.Is(err, ErrStorage) {
		t.Fatalf("append that cannot be synced: got %v, want %v", err, ErrStorage)
	}
	if got := s.Counts(); got.FailedCommits != 1 || got.FailedAppends != 0 || got.Appends-after.Appends != 1 {
		t.Errorf("an append whose sync failed: got %+v after %+v", got, after)
	}
	failing.Store(-1)
	if _, err := put(); err != nil {
		t.Fatal(err)
	}
	failing.Store(int32(vfs.OpWriteAt))
	if _, err := put(); !errors.Is(err, ErrStorage) {
		t.Fatalf("append that cannot be written: got %v, want %v", err, ErrStorage)
	}
	if got := s.Counts(); got.FailedCommits != 1 || got.FailedAppends != 1 || got.Appends-after.Appends != 2 {
		t.Errorf("an append that was not written: got %+v after %+v", got, after)
	}
	failing.Store(-1)
}
