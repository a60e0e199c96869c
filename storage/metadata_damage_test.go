package storage

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// killedMetadata returns the data directory of a store that was killed after it had made ten topics, and where the
// batches of the metadata log begin.
func killedMetadata(t *testing.T) (mem *vfs.Mem, file string, positions []int64) {
	t.Helper()
	live := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, live)
	for i := range 10 {
		createTopic(t, s, fmt.Sprintf("t%d", i), 1)
	}
	mem = live.CrashClone(1, 1)
	closeStore(t, s)
	file = segmentFile(filepath.Join(testDir, "__gateway_metadata-0"), 0, logSuffix)
	position := int64(0)
	for rest := fileBytes(t, mem, file); len(rest) > 0; {
		b, after, err := record.Cut(rest)
		if err != nil {
			t.Fatalf("batch at %d: %v", position, err)
		}
		positions = append(positions, position)
		position += int64(b.Size())
		rest = after
	}
	return mem, file, positions
}

// wantRefused opens the store and wants to hear of damage at that place, with nothing changed.
func wantRefused(t *testing.T, what string, mem *vfs.Mem, file string, position int64) {
	t.Helper()
	before := listTree(t, mem, testDir)
	s, err := Open(testDir, Options{FS: mem})
	if err == nil {
		t.Errorf("%s: opened, with %d topics", what, len(s.Topics()))
		closeStore(t, s)
		return
	}
	c, ok := errors.AsType[*CorruptError](err)
	if !ok || c.File != file || c.Position != position {
		t.Errorf("%s: error %v, want damage in %s at position %d", what, err, file, position)
	}
	if after := listTree(t, mem, testDir); !maps.Equal(before, after) {
		t.Errorf("%s: the directory was changed: %d files, there were %d", what, len(after), len(before))
	}
}

func TestDamageAmongTheMetadataIsNoTornTail(t *testing.T) {
	for _, at := range []int64{record.BaseOffsetPos, record.LengthPos, record.MagicPos, record.CRCPos, record.HeaderSize + 4} {
		for _, i := range []int{0, 3, 8} {
			mem, file, positions := killedMetadata(t)
			b := fileBytes(t, mem, file)
			copy(b[positions[i]+at:], "\x12\x34\x56\x78")
			setFile(t, mem, file, b)
			wantRefused(t, fmt.Sprintf("4 bytes at position %d of batch %d", at, i), mem, file, positions[i])
		}
	}
	mem, file, positions := killedMetadata(t)
	b := fileBytes(t, mem, file)
	copy(b[positions[4]:positions[6]], make([]byte, positions[6]-positions[4]))
	setFile(t, mem, file, b)
	wantRefused(t, "two batches of zeros", mem, file, positions[4])
}

func TestLastBatchOfTheMetadataMayBeTorn(t *testing.T) {
	for what, damage := range map[string]func(b []byte, last int64) []byte{
		"cut short":   func(b []byte, last int64) []byte { return b[:last+70] },
		"a few bytes": func(b []byte, last int64) []byte { return b[:last+5] },
		"zeros":       func(b []byte, last int64) []byte { clear(b[last:]); return b },
		"zeros behind": func(b []byte, last int64) []byte {
			clear(b[last+record.HeaderSize:])
			return append(b, make([]byte, 700)...)
		},
		"4 bytes": func(b []byte, last int64) []byte { copy(b[last+record.HeaderSize:], "\x12\x34\x56\x78"); return b },
	} {
		mem, file, positions := killedMetadata(t)
		setFile(t, mem, file, damage(fileBytes(t, mem, file), positions[len(positions)-1]))
		s := openStore(t, mem)
		if got := topicNamesOf(s); !slices.Equal(got, []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"}) {
			t.Errorf("%s: topics %v, want all but the last", what, got)
		}
		closeStore(t, s)
	}
}

func TestDamagedEndOfTheMetadataAfterAStopInOrderIsRefused(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	createTopic(t, s, "a", 1)
	last := s.metadata.log.Size()
	createTopic(t, s, "b", 1)
	closeStore(t, s)
	file := segmentFile(filepath.Join(testDir, "__gateway_metadata-0"), 0, logSuffix)
	b := fileBytes(t, mem, file)
	copy(b[last+record.HeaderSize:], "\x12\x34\x56\x78")
	setFile(t, mem, file, b)
	wantRefused(t, "the last batch", mem, file, last)
	setFile(t, mem, file, b[:last])
	wantRefused(t, "the last batch is gone", mem, filepath.Dir(file), -1)
}

func TestMetadataOfAnotherTopicIsRefused(t *testing.T) {
	file := filepath.Join(testDir, "__gateway_metadata-0", partitionMetadataFile)
	for what, content := range map[string]string{
		"no version":    "~ersion: 0\ntopic_id: " + metadataTopicID.String() + "\n",
		"another topic": string(encodePartitionMetadata(TopicID{1})),
	} {
		mem := vfs.NewMem(vfs.MemOptions{})
		closeStore(t, openStore(t, mem))
		if err := writeCleanShutdown(mem, testDir, -1); err != nil { // the next start takes it away
			t.Fatal(err)
		}
		setFile(t, mem, file, []byte(content))
		position := int64(-1)
		if what == "no version" {
			position = 0
		}
		wantRefused(t, what, mem, file, position)
	}
}

func TestMissingSegmentOfTheMetadataIsRefused(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := mem.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	first := []metadataRecord{formatRecord(metadataFormat), storeRecord("c", [16]byte{1}, notAdopted), epochRecord(3)}
	next := metadataSegment(t, mem, 0, first)
	metadataSegment(t, mem, next+1, []metadataRecord{epochRecord(5)})
	_, err := replayMetadata(mem, testDir, 0, 0)
	if c, ok := errors.AsType[*CorruptError](err); !ok || c.File != segmentFile(testDir, next+1, logSuffix) || c.Position != 0 {
		t.Errorf("error %v, want damage at the beginning of the segment at %d", err, next+1)
	}
	// One without a batch is what a crash leaves of a roll.
	setFile(t, mem, segmentFile(testDir, next+1, logSuffix), nil)
	if r, err := replayMetadata(mem, testDir, 0, 0); err != nil || r.end != next {
		t.Errorf("an empty segment: %v, want the end at %d", err, next)
	}
}

// Each batch of the whole state is durable before the next is written.
func TestRenewedMetadataIsWrittenBatchByBatch(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	writes := 0
	var fault string
	fsys := vfs.After(mem, func(o vfs.Op, err error) {
		if !strings.Contains(o.Name, metadataTopic) || !strings.HasSuffix(o.Name, logSuffix) {
			return
		}
		switch o.Kind {
		case vfs.OpWriteAt:
			if writes++; writes > 1 && fault == "" {
				fault = fmt.Sprintf("write of %d bytes at %d with the one before not synced", o.Size, o.Offset)
			}
		case vfs.OpSync:
			writes = 0
		}
	})
	s := openStore(t, fsys)
	for i := range 40 {
		if err := s.SetResourceConfigs(4, fmt.Sprint(i), map[string]string{"x": strings.Repeat("v", 30_000)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(stateBatches(s.metadata.state, 0)); n < 3 {
		t.Fatalf("a state of %d batches, want several", n)
	}
	if err := s.metadata.renew(); err != nil {
		t.Fatal(err)
	}
	if fault != "" {
		t.Error(fault)
	}
	closeStore(t, s)
}
