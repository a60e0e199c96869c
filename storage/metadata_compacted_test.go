package storage

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

var metadataDir = filepath.Join(testDir, "__gateway_metadata-0")

// lastOfKeys returns what a pass over a log keeps: batches with the last record of a key that has a value. tombstones says
// whether those without one stay too.
func lastOfKeys(t *testing.T, l *Log, tombstones bool) func(record.Batch) (record.Batch, error) {
	t.Helper()
	last := map[string]int64{}
	var reader record.Reader
	for rest := readBytes(t, l); len(rest) > 0; {
		b, after, err := record.Cut(rest)
		if err != nil {
			t.Fatal(err)
		}
		for r, err := range reader.Records(b) {
			if err != nil {
				t.Fatal(err)
			}
			last[string(r.Key)] = r.Offset
		}
		rest = after
	}
	return func(b record.Batch) (record.Batch, error) {
		for r, err := range reader.Records(b) {
			if err != nil {
				return nil, err
			}
			if last[string(r.Key)] == r.Offset && (tombstones || r.Value != nil) {
				return b, nil
			}
		}
		return nil, nil
	}
}

// compactMetadata does to the metadata log of a store what a first pass does: tombstones stay.
func compactMetadata(t *testing.T, s *Store) {
	t.Helper()
	l := s.metadata.log
	if err := l.Roll(); err != nil {
		t.Fatal(err)
	}
	segments, err := l.Segments()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Rewrite(segments[0].BaseOffset, len(segments)-1, lastOfKeys(t, l, true)); err != nil {
		t.Fatal(err)
	}
}

// segmentedMetadata fills the metadata log of a store: segments of 16 batches each, with keys that come again.
func segmentedMetadata(t *testing.T, s *Store, segments int) {
	t.Helper()
	for i := range segments * 16 {
		name := fmt.Sprintf("t%d", i%7)
		var err error
		if topic, ok := s.Topic(name); ok && i%3 > 0 {
			err = s.DeleteTopic(topic.ID())
		} else if ok {
			err = s.SetTopicConfigs(topic.ID(), map[string]string{"retention.ms": fmt.Sprint(i)})
		} else {
			createTopic(t, s, name, 1)
		}
		if err == nil && i%16 == 15 {
			err = s.metadata.log.Roll()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// compactedMetadata returns the data directory of a store that was killed with a metadata log of two segments that were
// compacted, the first of four, one that is closed and one that is open; the names of their files, and the state.
func compactedMetadata(t *testing.T) (mem *vfs.Mem, files []string, st *metadataState) {
	t.Helper()
	live := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, live)
	segmentedMetadata(t, s, 5)
	l := s.metadata.log
	bases := bases(t, l)
	keep := lastOfKeys(t, l, false)
	for _, g := range []struct {
		base  int64
		count int
	}{{bases[0], 4}, {bases[4], 1}} {
		if _, err := l.Rewrite(g.base, g.count, keep); err != nil {
			t.Fatal(err)
		}
	}
	segmentedMetadata(t, s, 1)
	createTopic(t, s, "x", 1)
	createTopic(t, s, "y", 1)
	mem = live.CrashClone(1, 1)
	closeStore(t, s)
	r, err := replayMetadata(mem, metadataDir, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := metadataSegments(mem, metadataDir, 0)
	if err != nil {
		t.Fatal(err)
	}
	var noted []bool
	for _, p := range plan {
		files = append(files, segmentFile(metadataDir, p.base, logSuffix))
		noted = append(noted, p.reach > 0)
	}
	if !slices.Equal(noted, []bool{true, true, false, false}) {
		t.Fatalf("segments with notes: %v, want two of four", noted)
	}
	return mem, files, r.state
}

// batchPositions are where the batches of a file begin, and where it ends.
func batchPositions(t *testing.T, b []byte) (at []int64) {
	t.Helper()
	for position := int64(0); ; {
		at = append(at, position)
		if position == int64(len(b)) {
			return at
		}
		batch, _, err := record.Cut(b[position:])
		if err != nil {
			t.Fatal(err)
		}
		position += int64(batch.Size())
	}
}

// TestDamageInACompactedMetadataLog damages each batch of each segment in many ways. All is found before anything is
// touched, but for what only the last batch of all may have.
func TestDamageInACompactedMetadataLog(t *testing.T) {
	mem, files, _ := compactedMetadata(t)
	// position is where the damage is in the file; -1 where it shows elsewhere.
	try := func(what, file string, b []byte, position int64) {
		t.Helper()
		what = fmt.Sprintf("%s of %s", what, filepath.Base(file))
		whole := fileBytes(t, mem, file)
		if b == nil {
			if err := mem.Remove(file); err != nil {
				t.Fatal(err)
			}
		} else {
			setFile(t, mem, file, b)
		}
		if position < 0 {
			wantMetadataDamage(t, what, mem)
		} else {
			wantRefused(t, what, mem, file, position)
		}
		setFile(t, mem, file, whole)
	}
	for i, file := range files {
		b := fileBytes(t, mem, file)
		positions := batchPositions(t, b)
		lastFile := i == len(files)-1
		if !lastFile {
			try("removal", file, nil, -1)
			try("removal of what is in it, all", file, []byte{}, -1)
		}
		for j, position := range positions[:len(positions)-1] {
			if lastFile && j == len(positions)-2 {
				continue // it may be torn
			}
			if !lastFile {
				try(fmt.Sprintf("cut before batch %d", j), file, b[:position], -1)
				try(fmt.Sprintf("cut in batch %d", j), file, b[:position+20], position)
			}
			size := positions[j+1] - position
			for _, at := range []int64{record.LengthPos, record.MagicPos, record.CRCPos, record.HeaderSize - 1, size - 1} {
				d := slices.Clone(b)
				d[position+at] ^= 0x41
				try(fmt.Sprintf("byte %d of batch %d", at, j), file, d, position)
			}
			d := slices.Clone(b)
			clear(d[position:positions[j+1]])
			try(fmt.Sprintf("zeros for batch %d", j), file, d, position)
			// Beyond the segment, and before it.
			for _, high := range []byte{0x12, 0x80} {
				d = slices.Clone(b)
				d[position] ^= high
				try(fmt.Sprintf("offset of batch %d", j), file, d, position)
			}
		}
	}
	// Without what follows, which names that were not durable may be, the second ends the log. No write in it is cut short.
	for _, file := range files[2:] {
		if err := mem.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	b := fileBytes(t, mem, files[1])
	positions := batchPositions(t, b)
	last := positions[len(positions)-2]
	try("end", files[1], b[:last], last)
	try("half of the end", files[1], b[:last+20], last)
	closeStore(t, openStore(t, mem))
}

// wantMetadataDamage opens the store and wants to hear of damage in the metadata log, with nothing changed.
func wantMetadataDamage(t *testing.T, what string, mem *vfs.Mem) {
	t.Helper()
	before := listTree(t, mem, testDir)
	s, err := Open(testDir, Options{FS: mem})
	if err == nil {
		closeStore(t, s)
		t.Fatalf("%s: opened, with %d topics", what, len(s.Topics()))
	}
	// Without its first segment it has no format.
	_, first := errors.AsType[*FormatError](err)
	if c, ok := errors.AsType[*CorruptError](err); !first && (!ok || !strings.HasPrefix(c.File, metadataDir)) {
		t.Errorf("%s: error %v, want damage", what, err)
	}
	if after := listTree(t, mem, testDir); !maps.Equal(before, after) {
		t.Fatalf("%s: the directory was changed", what)
	}
}

// The checksum of a batch does not cover its offset. In a segment that was compacted another one passes as long as it is in
// order, and the state is the same.
func TestOffsetInOrderOfACompactedMetadataLogMeansNothing(t *testing.T) {
	mem, files, want := compactedMetadata(t)
	changed := 0
	for _, file := range files[:2] {
		b := fileBytes(t, mem, file)
		positions := batchPositions(t, b)
		for j := range len(positions) - 2 {
			batch, following := record.Batch(b[positions[j]:]), record.Batch(b[positions[j+1]:])
			if batch.NextOffset() == following.BaseOffset() {
				continue // no gap
			}
			d := slices.Clone(b)
			record.Batch(d[positions[j]:]).SetBaseOffset(batch.BaseOffset() + 1)
			setFile(t, mem, file, d)
			r, err := replayMetadata(mem, metadataDir, 0, 0)
			if err != nil {
				t.Fatalf("batch %d of %s with the next offset: %v", j, file, err)
			}
			r.state.shared, want.shared = nil, nil
			if !reflect.DeepEqual(r.state, want) {
				t.Errorf("batch %d of %s with the next offset: got %+v, want %+v", j, file, r.state, want)
			}
			setFile(t, mem, file, b)
			changed++
		}
	}
	if changed < 3 {
		t.Errorf("%d batches before a gap, want more", changed)
	}
}

// Without its note a segment must not have gaps.
func TestGapInTheMetadataNeedsANote(t *testing.T) {
	mem, files, _ := compactedMetadata(t)
	names, err := mem.List(metadataDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, _, ok := ParseNote(name); !ok {
			continue
		}
		if err := mem.Remove(filepath.Join(metadataDir, name)); err != nil {
			t.Fatal(err)
		}
		wantMetadataDamage(t, "without "+name, mem)
		setFile(t, mem, filepath.Join(metadataDir, name), nil)
	}
	if len(files) != 4 {
		t.Errorf("%d segments", len(files))
	}
}

// TestCrashWhileTheMetadataLogIsRewritten takes crash clones of a rewrite of several segments into one and of one alone. The
// state is the same in each, before recovery as after; and damage in what a rewrite has left half done is found before
// anything is touched.
func TestCrashWhileTheMetadataLogIsRewritten(t *testing.T) {
	for _, count := range []int{1, 3} {
		c := &crashClones{mem: vfs.NewMem(vfs.MemOptions{Crashable: true})}
		s := openStore(t, vfs.After(c.mem, c.after))
		segmentedMetadata(t, s, 5)
		want, err := replayMetadata(c.mem, metadataDir, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		want.state.shared = nil
		l := s.metadata.log
		rewrite := func(i, count int, tombstones bool) {
			if _, err := l.Rewrite(bases(t, l)[i], count, lastOfKeys(t, l, tombstones)); err != nil {
				t.Fatal(err)
			}
		}
		// As in a pass, tombstones go when what they stand for has gone.
		rewrite(0, 1, true)
		c.arm(true)
		rewrite(1, count, true)
		rewrite(1, 1, false)
		c.arm(false)
		closeStore(t, s)
		if len(c.clones) < 60 {
			t.Fatalf("%d crashes, want more", len(c.clones))
		}
		swaps := 0
		for _, p := range c.clones {
			p.label = fmt.Sprintf("%d segments, %s", count, p.label)
			r, err := replayMetadata(p.mem, metadataDir, 0, 0)
			if err != nil {
				t.Errorf("%s: %v", p.label, err)
				continue
			}
			r.state.shared = nil
			if !reflect.DeepEqual(r.state, want.state) {
				t.Errorf("%s: got %+v, want %+v", p.label, r.state, want.state)
			}
			plan, err := metadataSegments(p.mem, metadataDir, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, planned := range plan {
				if planned.suffix == "" {
					continue
				}
				swaps++
				file := segmentFile(metadataDir, planned.base, logSuffix+planned.suffix)
				b := fileBytes(t, p.mem, file)
				d := slices.Clone(b)
				d[record.HeaderSize] ^= 0x41
				setFile(t, p.mem, file, d)
				wantMetadataDamage(t, p.label+", damage in "+filepath.Base(file), p.mem)
				setFile(t, p.mem, file, b)
			}
			s, err := Open(testDir, Options{FS: p.mem})
			if err != nil {
				t.Errorf("%s: %v", p.label, err)
				continue
			}
			if got, want := topicNamesOf(s), sortedKeys(want.state.names); !slices.Equal(got, want) {
				t.Errorf("%s: topics %v, want %v", p.label, got, want)
			}
			closeStore(t, s)
		}
		if swaps < 5 {
			t.Errorf("%d crashes with a replacement under its second name, want more", swaps)
		}
	}
}

// Topics are made and deleted while the log is being rewritten.
func TestChangesWhileTheMetadataLogIsRewritten(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	segmentedMetadata(t, s, 2)
	l := s.metadata.log
	keep := lastOfKeys(t, l, true)
	n := 0
	_, err := l.Rewrite(0, 2, func(b record.Batch) (record.Batch, error) {
		topic := createTopic(t, s, fmt.Sprintf("meanwhile-%d", n), 1)
		if n++; n%2 == 0 {
			if err := s.DeleteTopic(topic.ID()); err != nil {
				t.Error(err)
			}
		}
		return keep(b)
	})
	if err != nil {
		t.Fatal(err)
	}
	want := topicNamesOf(s)
	if !slices.Contains(want, "meanwhile-0") || slices.Contains(want, "meanwhile-1") {
		t.Errorf("topics %v", want)
	}
	closeStore(t, s)
	s = openStore(t, mem)
	if got := topicNamesOf(s); !slices.Equal(got, want) {
		t.Errorf("topics %v came back, want %v", got, want)
	}
	closeStore(t, s)
}

// A pass over what is compacted already writes nothing, though the last batch of a segment stays without records.
func TestRewrittenMetadataStaysAsItIs(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	segmentedMetadata(t, s, 2)
	none := func(record.Batch) (record.Batch, error) { return nil, nil }
	for i, want := range []RewriteResult{{Replaced: true, SizeAfter: record.HeaderSize}, {SizeAfter: record.HeaderSize}} {
		base := bases(t, s.metadata.log)[1]
		got, err := s.metadata.log.Rewrite(base, 1, none)
		if err != nil || got.Replaced != want.Replaced || got.SizeAfter != want.SizeAfter {
			t.Errorf("rewrite %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	closeStore(t, s)
}
