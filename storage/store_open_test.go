package storage

import (
	"errors"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestLockedDirectoryIsRefused(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	_, err := Open(testDir, Options{FS: mem})
	if _, ok := errors.AsType[*LockedError](err); !ok || !errors.Is(err, vfs.ErrLocked) {
		t.Errorf("second open: %v, want a LockedError", err)
	}
	closeStore(t, s)
	closeStore(t, openStore(t, mem))
}

func TestOtherClusterIsRefused(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s, err := Open(testDir, Options{FS: mem, ClusterID: "one"})
	if err != nil {
		t.Fatal(err)
	}
	if s.ClusterID() != "one" {
		t.Errorf("cluster id %q, want one", s.ClusterID())
	}
	closeStore(t, s)
	if _, err := Open(testDir, Options{FS: mem, ClusterID: "two"}); err == nil || !strings.Contains(err.Error(), "one") {
		t.Errorf("open as cluster two: %v, want an error that names one", err)
	}
	for _, id := range []int32{5, 0} {
		s, err = Open(testDir, Options{FS: mem, NodeID: &id})
		if err != nil {
			t.Fatal(err)
		}
		if s.NodeID() != id {
			t.Errorf("node id %d, want %d", s.NodeID(), id)
		}
		if m, err := readMetaProperties(mem, testDir); err != nil || m.ClusterID != "one" || m.NodeID != id || m.DirectoryID != TopicID(s.DirectoryID()) {
			t.Errorf("meta.properties %+v, %v, want node id %d", m, err, id)
		}
		closeStore(t, s)
	}
}

func TestBadOptionsAreReported(t *testing.T) {
	_, err := Open(testDir, Options{FS: vfs.NewMem(vfs.MemOptions{}), TopicDefaults: map[string]string{"segment.bytes": "1", "x": "y"}})
	if err == nil || !strings.Contains(err.Error(), "segment.bytes") || !strings.Contains(err.Error(), "x") {
		t.Errorf("error %v, want one that names segment.bytes and x", err)
	}
}

func TestNewerFormatIsRefusedUntouched(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	createTopic(t, s, "orders", 1)
	closeStore(t, s)
	file := segmentFile(filepath.Join(testDir, "__gateway_metadata-0"), 0, ".log")
	b := record.NewBuilder(record.BuilderOptions{})
	b.Append(record.Record{Key: []byte{metadataFormatKey}, Value: []byte{1, 0, metadataFormat + 1}})
	f, err := mem.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	batch := b.Bytes()
	batch.SetBaseOffset(s.metadata.log.end.Load())
	f.WriteAt(batch, size)
	f.Close()
	before := listTree(t, mem, testDir)
	_, err = Open(testDir, Options{FS: mem})
	if _, ok := errors.AsType[*FormatError](err); !ok {
		t.Fatalf("open: %v, want a FormatError", err)
	}
	if after := listTree(t, mem, testDir); !maps.Equal(before, after) {
		t.Errorf("the directory was changed: %v, was %v", after, before)
	}
}

// A partition that could not be recovered, since its directory could not be read, was not stopped in order.
func TestStopIsNotCleanWithAPartitionThatWasNotRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		s := openStore(t, mem)
		mustProduce(t, createTopic(t, s, "orders", 1), 0, "a")
		killed := mem.KillClone()
		closeStore(t, s)
		s = openStore(t, vfs.Inject(killed, func(o vfs.Op) error {
			if o.Kind == vfs.OpList && o.Name == filepath.Join(testDir, "orders-0") {
				return errInjected
			}
			return nil
		}))
		stop := runStore(t, s)
		synctest.Wait()
		stop()
		closeStore(t, s)
		if _, err := killed.Stat(filepath.Join(testDir, cleanShutdownFile)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the marker of a clean stop: got %v, want none", err)
		}
		s = openStore(t, killed)
		stop = runStore(t, s)
		synctest.Wait()
		stop()
		closeStore(t, s)
		if _, err := killed.Stat(filepath.Join(testDir, cleanShutdownFile)); err != nil {
			t.Errorf("the marker of a clean stop: %v", err)
		}
	})
}
