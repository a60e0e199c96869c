package storage

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

func TestMetadataLogIsCompacted(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	var clones []*vfs.Mem
	var compacting bool
	fsys := vfs.After(mem, func(o vfs.Op, err error) {
		if compacting && o.Kind.Mutates() {
			clones = append(clones, mem.CrashClone(uint64(len(clones)), 0), mem.CrashClone(uint64(len(clones)), 0.5))
		}
	})
	s := openStore(t, fsys)
	kept := createTopic(t, s, "kept", 1, "retention.ms", "5")
	for i := range 20 {
		configs := map[string]string{"x": strings.Repeat(string(rune('a'+i)), 100_000)}
		if err := s.SetResourceConfigs(4, "1", configs); err != nil {
			t.Fatal(err)
		}
	}
	before := s.metadata.written
	compacting = true
	if err := s.metadata.compact(); err != nil {
		t.Fatal(err)
	}
	compacting = false
	if got := s.metadata.written; got > 200_000 || before < 2_000_000 {
		t.Errorf("%d bytes written before and %d after, want 2,000,000 and 100,000", before, got)
	}
	createTopic(t, s, "later", 1)
	clones = append(clones, mem.CrashClone(1, 0), mem)
	closeStore(t, s)
	for i, clone := range clones {
		s := openStore(t, clone)
		topic := lookUp(t, s, "kept")
		if topic.ID() != kept.ID() || topic.Config().RetentionMs != 5 || s.ResourceConfigs(4, "1")["x"] != strings.Repeat("t", 100_000) {
			t.Errorf("clone %d: topic kept came back as %s with %v", i, topic.ID(), topic.Overrides())
		}
		if _, ok := s.Topic("later"); ok != (i >= len(clones)-2) {
			t.Errorf("clone %d: topic later is there: %v", i, ok)
		}
		closeStore(t, s)
	}
	if size := s.metadata.log.Size(); size > 2<<20 {
		t.Errorf("the metadata log has %d bytes in segments, want the old ones gone", size)
	}
}

func TestChangesWhileTheMetadataLogIsCompacted(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	s.metadata.written = 10 << 20
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for j := range 20 {
				topic, err := s.CreateTopic(TopicSpec{Name: fmt.Sprintf("t-%d-%d", i, j), Partitions: 1})
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				if j%2 == 0 {
					if err := s.DeleteTopic(topic.ID()); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
			}
		})
	}
	for range 5 {
		if err := s.metadata.compact(); err != nil {
			t.Errorf("compact: %v", err)
		}
		s.metadata.mu.Lock()
		s.metadata.written = 10 << 20
		s.metadata.mu.Unlock()
	}
	group.Wait()
	want := topicNamesOf(s)
	closeStore(t, s)
	if got := topicNamesOf(openStore(t, mem)); !slices.Equal(got, want) || len(got) != 80 {
		t.Errorf("%d topics came back, want %d, which is 80", len(got), len(want))
	}
}

// metadataSegment writes a segment of the metadata log with these records in one batch.
func metadataSegment(t *testing.T, fsys vfs.FS, base int64, records []metadataRecord) (next int64) {
	t.Helper()
	b := record.NewBuilder(record.BuilderOptions{BaseOffset: base})
	for _, r := range records {
		b.Append(record.Record{Key: r.key, Value: r.value})
	}
	if err := writeSynced(fsys, segmentFile(testDir, base, logSuffix), b.Bytes()); err != nil {
		t.Fatal(err)
	}
	return base + int64(len(records))
}

func TestNothingBeforeASnapshotCounts(t *testing.T) {
	topic := func(id byte, name string) metadataRecord {
		return topicRecord(&topicMeta{id: TopicID{id}, name: name, partitions: 1})
	}
	full := func(topics ...metadataRecord) []metadataRecord {
		records := []metadataRecord{snapshotRecord(0), formatRecord(metadataFormat), storeRecord("c", [16]byte{1}, notAdopted), epochRecord(3)}
		return append(append(records, topics...), snapshotRecord(1))
	}
	for _, c := range []struct {
		what     string
		segments [][]metadataRecord
		want     []string
	}{
		{"one", [][]metadataRecord{full(topic(1, "a"))}, []string{"a"}},
		{"deleted in a segment that is gone", [][]metadataRecord{full(topic(1, "a")), full(topic(2, "b"))}, []string{"b"}},
		{"snapshot without an end", [][]metadataRecord{full(topic(1, "a")), {snapshotRecord(0), epochRecord(4)}, {topic(3, "c")}}, []string{"a", "c"}},
		{"end of a lost beginning", [][]metadataRecord{full(topic(1, "a")), {topic(2, "b"), snapshotRecord(1)}}, []string{"a", "b"}},
		{"second attempt", [][]metadataRecord{full(topic(1, "a")), {snapshotRecord(0)}, full(topic(2, "b")), {topic(3, "c")}}, []string{"b", "c"}},
	} {
		mem := vfs.NewMem(vfs.MemOptions{})
		if err := mem.MkdirAll(testDir); err != nil {
			t.Fatal(err)
		}
		next := int64(0)
		for _, records := range c.segments {
			next = metadataSegment(t, mem, next, records)
		}
		r, err := replayMetadata(mem, testDir, 0, 0)
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if got := sortedKeys(r.state.names); !slices.Equal(got, c.want) || r.end != next {
			t.Errorf("%s: topics %v up to offset %d, want %v up to %d", c.what, got, r.end, c.want, next)
		}
	}
}

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
