package storage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/vfs"
)

// TestFullStoreStillDeletes fills a store until it takes nothing more, and makes room again by all that deletes: the start of
// a log is moved and a topic is deleted.
func TestFullStoreStillDeletes(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 1 << 20})
	s := openStore(t, mem)
	topic := createTopic(t, s, "orders", 2, "internal.segment.bytes", "100000", "file.delete.delay.ms", "0")
	doomed := createTopic(t, s, "doomed", 1, "file.delete.delay.ms", "0")
	fill := func(l *Log, value string) error {
		for {
			a, err := l.Append(testBatch(value), AppendOptions{})
			if err == nil {
				err = l.WaitDurable(context.Background(), a)
			}
			if err != nil {
				return err
			}
		}
	}
	first, _ := topic.Partition(0)
	second, _ := topic.Partition(1)
	other, _ := doomed.Partition(0)
	appendDurably(t, second, testBatch("k"))
	for range 20 {
		appendDurably(t, other, testBatch(strings.Repeat("x", 1000)))
	}
	full := func(l *Log, value string) {
		t.Helper()
		if err := fill(l, value); !errors.Is(err, ErrStorage) || !vfs.IsNoSpace(err) {
			t.Fatalf("append to a full store: got %v, want ErrStorage for want of space", err)
		}
	}
	full(first, strings.Repeat("x", 5000))
	full(first, "")
	full(second, "")
	full(other, "")
	if _, err := first.DeleteBefore(50); err != nil {
		t.Errorf("delete records of a full store: %v", err)
	}
	if err := s.SetTopicConfigs(topic.ID(), map[string]string{"retention.bytes": "1"}); err != nil {
		t.Errorf("configs of a full store: %v", err)
	}
	full(second, strings.Repeat("x", 5000))
	full(second, "")
	if err := s.DeleteTopic(doomed.ID()); err != nil {
		t.Errorf("delete a topic of a full store: %v", err)
	}
	s.removeRetired()
	appendDurably(t, second, testBatch(strings.Repeat("x", 5000)))
	closeStore(t, s)
	s = openStore(t, mem)
	if topics := s.Topics(); len(topics) != 1 || topics[0].Name() != "orders" {
		t.Errorf("%d topics after a restart, want orders", len(topics))
	}
	closeStore(t, s)
}

// TestNewTopicsLeaveRoomForDeletion makes topics, and partitions, until there is no more room for them. A topic can be deleted
// then, and another be made.
func TestNewTopicsLeaveRoomForDeletion(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 128 << 10})
	s := openStore(t, mem)
	topic := createTopic(t, s, "orders", 1, "file.delete.delay.ms", "0")
	var err error
	for i := 0; err == nil; i++ {
		_, err = s.CreateTopic(TopicSpec{Name: fmt.Sprintf("%0200d", i), Partitions: 1})
	}
	if !errors.Is(err, ErrStorage) || !vfs.IsNoSpace(err) {
		t.Fatalf("make topics without end: got %v, want ErrStorage for want of space", err)
	}
	for n := int32(2); ; n++ {
		if err := s.AddPartitions(topic.ID(), n); err != nil {
			if !errors.Is(err, ErrStorage) || !vfs.IsNoSpace(err) {
				t.Fatalf("add partitions without end: got %v, want ErrStorage for want of space", err)
			}
			break
		}
	}
	if free, _, _ := mem.Free(testDir); free < 128<<10/reserveShare {
		t.Errorf("%d bytes are left to deletion, want at least %d", free, 128<<10/reserveShare)
	}
	if err := s.DeleteTopic(topic.ID()); err != nil {
		t.Errorf("delete a topic of a full store: %v", err)
	}
	closeStore(t, s)
}

// blocksFS is a file system whose files and directories take whole blocks.
type blocksFS struct {
	vfs.FS
	blocks int64
}

func (b blocksFS) Free(string) (free, total int64, err error) {
	var used func(path string) int64
	used = func(path string) int64 {
		info, err := b.Stat(path)
		if err != nil {
			return 0
		}
		if !info.IsDir {
			return (info.Size + blockSize - 1) / blockSize
		}
		names, _ := b.List(path)
		n := int64(1)
		for _, name := range names {
			n += used(filepath.Join(path, name))
		}
		return n
	}
	return (b.blocks - used(testDir)) * blockSize, b.blocks * blockSize, nil
}

// TestSmallAppendsToManyPartitionsLeaveRoomForDeletion writes a few bytes to each partition, of which each takes blocks.
func TestSmallAppendsToManyPartitionsLeaveRoomForDeletion(t *testing.T) {
	fsys := blocksFS{vfs.NewMem(vfs.MemOptions{}), 1 << 10}
	s := openStore(t, fsys)
	topic := createTopic(t, s, "orders", 1000)
	refused := 0
	for p := range topic.Partitions() {
		l, _ := topic.Partition(p)
		l.prepare()
		a, err := l.Append(testBatch("x"), AppendOptions{})
		if err == nil {
			err = l.WaitDurable(context.Background(), a)
		}
		if err != nil && !vfs.IsNoSpace(err) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
	}
	if free, total, _ := fsys.Free(testDir); refused == 0 || free < total/reserveShare {
		t.Errorf("%d bytes are left to deletion when %d appends were refused, want at least %d", free, refused, total/reserveShare)
	}
	closeStore(t, s)
}

// TestRefusedForWantOfSpaceIsLoggedOnce appends to a log that has no more room.
func TestRefusedForWantOfSpaceIsLoggedOnce(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 64 << 10})
	rig := newLogRig(t, mem)
	lines := rig.logLines()
	l := rig.start()
	rig.ctx.space = &space{fs: mem, dir: rig.dir}
	value := strings.Repeat("x", 1000)
	refused := 0
	for refused < 5 {
		a, err := l.Append(testBatch(value), AppendOptions{})
		if err == nil {
			err = l.WaitDurable(context.Background(), a) // else the log would say that it takes appends again
		}
		if err != nil {
			refused++
		}
	}
	if got := lines.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "append was refused") || !strings.Contains(got, vfs.ErrNoSpace.Error()) {
		t.Errorf("the log has\n%s, want one line of why nothing is appended", got)
	}
	if free, _, _ := mem.Free(rig.dir); free < 64<<10/reserveShare {
		t.Errorf("%d bytes are left to deletion, want at least %d", free, 64<<10/reserveShare)
	}
	rig.stop(l)
}

// TestRewriteLeavesRoomForDeletion has no room for the new segment but the reserve.
func TestRewriteLeavesRoomForDeletion(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Capacity: 64 << 10})
	rig := newLogRig(t, mem)
	l, values := filledLog(t, rig, 11)
	rig.ctx.space = &space{fs: mem, dir: rig.dir}
	filler, err := mem.Create("filler")
	if err != nil {
		t.Fatal(err)
	}
	free, _, _ := mem.Free(rig.dir)
	if err := filler.Truncate(free - 64<<10/reserveShare - 100); err != nil {
		t.Fatal(err)
	}
	rewrite := func() error {
		_, err := l.Rewrite(0, 2, keepOffsets(0, 1, 3, 4))
		return err
	}
	if err := rewrite(); !errors.Is(err, ErrNotRewritable) || !vfs.IsNoSpace(err) {
		t.Errorf("rewrite on a full disk: got %v, want ErrNotRewritable for want of space", err)
	}
	wantValues(t, readValues(t, l, 0, ReadUncommitted), values...)
	if err := filler.Truncate(0); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(); err != nil {
		t.Errorf("rewrite when there is room: %v", err)
	}
	rig.stop(l)
}
