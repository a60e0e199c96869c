package storage

import (
	"path/filepath"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestEmptyMetadataLogIsDamage(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	closeStore(t, s)
	f, err := mem.Open(segmentFile(filepath.Join(testDir, "__gateway_metadata-0"), 0, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(0); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if _, err := Open(testDir, Options{FS: mem}); !isCorrupt(err) {
		t.Errorf("open: %v, want a CorruptError", err)
	}
}

func TestDamagedMetadataLogIsRefused(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	stop := runStore(t, s)
	createTopic(t, s, "a", 1)
	createTopic(t, s, "b", 1)
	stop()
	closeStore(t, s)
	f, err := mem.Open(segmentFile(filepath.Join(testDir, "__gateway_metadata-0"), 0, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte{0xff, 0xff}, record.HeaderSize+4)
	f.Close()
	if _, err := Open(testDir, Options{FS: mem}); !isCorrupt(err) {
		t.Errorf("open: %v, want a CorruptError", err)
	}
	// It is not locked for the next.
	if _, err := Open(testDir, Options{FS: mem}); !isCorrupt(err) {
		t.Errorf("second open: %v, want a CorruptError", err)
	}
}
