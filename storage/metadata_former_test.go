package storage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// testdata/format1 is the data directory of a store that the last version to write format 1 stopped in order, without index
// files. Its metadata log has one segment, begins in the middle of that, with a snapshot, and has
//
//   - before it: topics orders, doomed and re.made, the deletion of doomed, configs of resources 4 "1" and 32 "group";
//   - after it: re.made deleted and made again with 3 partitions and cleanup.policy=compact, the configs of 32 "group" taken
//     away, orders with 4 partitions, and topic late.
//
// orders-0 has the records a and b.
const formerDir = "testdata/format1"

// snapshotRecord is what format 1 wrote before and after its whole state.
func snapshotRecord(end byte) metadataRecord {
	return metadataRecord{[]byte{metadataSnapshotKey}, []byte{metadataValueVersion, end}}
}

// checkFormer checks what a store found in a copy of formerDir.
func checkFormer(t *testing.T, what string, s *Store) {
	t.Helper()
	if got, want := topicNamesOf(s), []string{"late", "orders", "re.made"}; !slices.Equal(got, want) {
		t.Fatalf("%s: topics %v, want %v", what, got, want)
	}
	orders, made := lookUp(t, s, "orders"), lookUp(t, s, "re.made")
	if got := fmt.Sprint(orders.ID(), orders.Partitions(), orders.Overrides()); got != "KRRISOfnT1Kzrf2A7aM7AQ 4 map[retention.ms:-1]" {
		t.Errorf("%s: orders is %s", what, got)
	}
	if got := fmt.Sprint(made.Partitions(), made.Overrides()); got != "3 map[cleanup.policy:compact]" || made.ID().String() == "3p0VQMgHQo-bwk_1CStOoA" {
		t.Errorf("%s: re.made is %s %s", what, made.ID(), got)
	}
	checkValues(t, orders, 0, "a", "b")
	if got := s.ResourceConfigs(4, "1"); !maps.Equal(got, map[string]string{"log.retention.ms": "9"}) || s.ResourceConfigs(32, "group") != nil {
		t.Errorf("%s: configs of 4 1 are %v, of 32 group %v", what, got, s.ResourceConfigs(32, "group"))
	}
	if id, err := s.NextProducerID(); err != nil || id < 1000 {
		t.Errorf("%s: producer id %d, %v, want one of another block", what, id, err)
	}
	if s.LeaderEpoch() < 1 {
		t.Errorf("%s: leader epoch %d, want 1 at least", what, s.LeaderEpoch())
	}
}

// checkRenewed checks that the metadata log of a store that is closed begins with its format, which is this one, and may be
// compacted.
func checkRenewed(t *testing.T, what string, fsys vfs.FS, s *Store) {
	t.Helper()
	if !s.metadata.log.Config().Compact {
		t.Errorf("%s: the metadata log is not compacted", what)
	}
	dir := filepath.Join(testDir, "__gateway_metadata-0")
	segments, err := metadataSegments(fsys, dir, 0)
	if err != nil || len(segments) != 1 {
		t.Fatalf("%s: segments %v, %v, want one", what, segments, err)
	}
	b, _, err := record.Cut(fileBytes(t, fsys, segmentFile(dir, segments[0].base, logSuffix)))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	var reader record.Reader
	for r, err := range reader.Records(b) {
		if err != nil || !slices.Equal(r.Key, []byte{metadataFormatKey}) || !slices.Equal(r.Value, []byte{metadataValueVersion, 0, metadataFormat}) {
			t.Errorf("%s: the log begins with %x=%x, %v", what, r.Key, r.Value, err)
		}
		break
	}
	// That does not need the checkpoint with the log's start.
	if r, err := replayMetadata(fsys, dir, 0, 0); err != nil || r.former || len(r.state.topics) != 3 {
		t.Errorf("%s: replay of all that is there: %v", what, err)
	}
}

func TestFormerFormatIsOpened(t *testing.T) {
	for what, lost := range map[string][]string{
		"stopped in order":     nil,
		"killed":               {cleanShutdownFile},
		"no log start":         {logStartCheckpoint},
		"no checkpoints":       {logStartCheckpoint, recoveryPointCheckpoint, replicationCheckpoint},
		"killed, nothing else": {cleanShutdownFile, logStartCheckpoint, recoveryPointCheckpoint, replicationCheckpoint},
	} {
		mem := copyFS(t, formerDir)
		for _, name := range lost {
			if err := mem.Remove(filepath.Join(testDir, name)); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 {
			s := openStore(t, mem)
			checkFormer(t, what, s)
			closeStore(t, s)
			checkRenewed(t, what, mem, s)
		}
	}
}

// crashClones takes crash clones of a file system after each operation that changes something, while it is armed.
type crashClones struct {
	mem *vfs.Mem

	mu     sync.Mutex
	armed  bool
	clones []crashClone
}

type crashClone struct {
	mem   *vfs.Mem
	label string
}

func (c *crashClones) arm(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = on
}

func (c *crashClones) after(op vfs.Op, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.armed || err != nil || !op.Kind.Mutates() {
		return
	}
	for _, keep := range []float64{0, 0.5, 1} {
		seed := uint64(len(c.clones))
		c.clones = append(c.clones, crashClone{c.mem.CrashClone(seed, keep), fmt.Sprintf("after %v, keeping %.1f, seed %d", op, keep, seed)})
	}
}

// Whatever a crash leaves of the first start, the next one finds all and finishes the work.
func TestCrashWhileAFormerFormatIsOpened(t *testing.T) {
	c := &crashClones{mem: copyFS(t, formerDir)}
	c.arm(true)
	s := openStore(t, vfs.After(c.mem, c.after))
	closeStore(t, s)
	c.arm(false)
	if len(c.clones) < 60 {
		t.Fatalf("%d crashes, want more", len(c.clones))
	}
	for _, p := range c.clones {
		s, err := Open(testDir, Options{FS: p.mem})
		if err != nil {
			t.Errorf("%s: %v", p.label, err)
			continue
		}
		checkFormer(t, p.label, s)
		closeStore(t, s)
		checkRenewed(t, p.label, p.mem, s)
	}
}

// A start that fails on the way leaves a store that the next one opens; without room it serves, and is not compacted.
func TestFormerFormatIsOpenedDespiteFaults(t *testing.T) {
	for _, fault := range []error{errInjected, vfs.ErrNoSpace} {
		served := 0
		for n := 0; ; n++ {
			mem := copyFS(t, formerDir)
			var left atomic.Int64
			left.Store(int64(n))
			fsys := vfs.Inject(mem, func(o vfs.Op) error {
				if o.Kind.Mutates() && (strings.Contains(o.Name, metadataTopic) || strings.Contains(o.Name, logStartCheckpoint)) && left.Add(-1) == -1 {
					return fault
				}
				return nil
			})
			s, err := Open(testDir, Options{FS: fsys})
			done := left.Swap(1<<40) >= 0
			if err == nil {
				what := fmt.Sprintf("%v at operation %d", fault, n)
				checkFormer(t, what, s)
				if s.metadata.log.Config().Compact {
					checkRenewedNow(t, what, s)
				} else if served++; fault != vfs.ErrNoSpace {
					t.Errorf("%s: it serves in its former format", what)
				}
				s.Close()
			}
			s = openStore(t, mem)
			checkFormer(t, "the start after", s)
			closeStore(t, s)
			checkRenewed(t, "the start after", mem, s)
			if done {
				break
			}
		}
		if (served > 0) != (fault == vfs.ErrNoSpace) {
			t.Errorf("%v: a store served %d times in its former format", fault, served)
		}
	}
}

// A volume without room for the whole state gets nothing of it.
func TestFormerFormatOnAFullVolume(t *testing.T) {
	mem := copyFS(t, formerDir)
	s, err := Open(testDir, Options{FS: fullFS{mem}})
	if err != nil {
		t.Fatal(err)
	}
	checkFormer(t, "full", s)
	if o, err := s.metadata.log.Offsets(); err != nil || o.End > 31+2 || s.metadata.log.Config().Compact {
		t.Errorf("the log ends at %d, %v, and is compacted: %v; want two records more and false", o.End, err, s.metadata.log.Config().Compact)
	}
	closeStore(t, s)
	s = openStore(t, mem)
	checkFormer(t, "with room", s)
	closeStore(t, s)
	checkRenewed(t, "with room", mem, s)
}

// fullFS is a file system that has some bytes left.
type fullFS struct{ vfs.FS }

func (fullFS) Free(string) (free, total int64, err error) { return 3000, 1 << 20, nil }

// checkRenewedNow checks that the log of a store that is open begins where it was written anew.
func checkRenewedNow(t *testing.T, what string, s *Store) {
	t.Helper()
	o, err := s.metadata.log.Offsets()
	if err != nil || o.LogStart < 31 {
		t.Errorf("%s: the log starts at offset %d, %v, want it behind all that was", what, o.LogStart, err)
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

// A crash while a log is written anew leaves what is only part of the state under the new format. Where what came before has
// gone since, that is not all there was.
func TestMetadataWithoutItsBeginningIsDamage(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	if err := mem.MkdirAll(testDir); err != nil {
		t.Fatal(err)
	}
	topic := topicRecord(&topicMeta{id: TopicID{1}, name: "a", partitions: 1})
	next := metadataSegment(t, mem, 20, []metadataRecord{topic})
	metadataSegment(t, mem, next, []metadataRecord{formatRecord(metadataFormat), storeRecord("c", [16]byte{1}, notAdopted), topic})
	if _, err := replayMetadata(mem, testDir, 0, 0); !isCorrupt(err) {
		t.Errorf("error %v, want damage", err)
	}
	metadataSegment(t, mem, 0, []metadataRecord{formatRecord(1)})
	metadataSegment(t, mem, 1, slices.Repeat([]metadataRecord{topic}, 19))
	if r, err := replayMetadata(mem, testDir, 0, 0); err != nil || !r.former {
		t.Errorf("with its beginning: %v, want a log of a former format", err)
	}
}

// formerLog is a metadata log as format 1 grew it, in random segments, with the state at each record.
type formerLog struct {
	rand    *rand.Rand
	records []metadataRecord
	bases   []int64
	state   *metadataState
	// starts are the offsets at which the log may begin: those of snapshots that were finished.
	starts []int64
}

func (f *formerLog) add(r metadataRecord) {
	if len(f.records) == 0 || f.rand.IntN(8) == 0 {
		f.bases = append(f.bases, int64(len(f.records)))
	}
	f.records = append(f.records, r)
	if err := f.state.apply(r.key, r.value); err != nil {
		panic(err)
	}
}

// snapshot writes the whole state, or breaks off.
func (f *formerLog) snapshot(whole bool) {
	begin := int64(len(f.records))
	f.add(snapshotRecord(0))
	all := f.state.records()
	all[0] = formatRecord(1)
	if !whole {
		all = all[:f.rand.IntN(len(all))]
	}
	for _, r := range all {
		f.add(r)
	}
	if whole {
		f.add(snapshotRecord(1))
		f.starts = append(f.starts, begin)
	}
}

// change makes a change as a store does: names are those of one topic at a time.
func (f *formerLog) change() {
	name := fmt.Sprintf("topic-%d", f.rand.IntN(6))
	id, exists := f.state.names[name]
	switch f.rand.IntN(6) {
	case 0, 1:
		if exists {
			f.add(metadataRecord{key: topicKey(metadataTopicKey, id)})
			f.add(deletedRecord(id, name))
			return
		}
		for i := range id {
			id[i] = byte(f.rand.IntN(256))
		}
		f.add(topicRecord(&topicMeta{id: id, name: name, partitions: 1}))
	case 2:
		if exists {
			f.add(topicRecord(&topicMeta{id: id, name: name, partitions: f.state.topics[id].partitions + 1}))
		}
	case 3:
		for id := range f.state.deleted {
			f.add(metadataRecord{key: topicKey(metadataDeletedKey, id)})
			return
		}
	case 4:
		f.add(configsRecord(resourceKey{32, name}, map[string]string{"x": fmt.Sprint(f.rand.IntN(100))}))
	case 5:
		f.add(configsRecord(resourceKey{32, name}, nil))
	}
}

// TestSnapshotsAreReadOver shows that the records between two of type 8 change nothing: neither when all is read, nor when
// the log begins with them, nor when it begins in a segment before, of which the checkpoint with the log's start would say
// that it does not count.
func TestSnapshotsAreReadOver(t *testing.T) {
	for seed := range uint64(8) {
		f := &formerLog{rand: newRand(seed), state: newMetadataState()}
		f.add(snapshotRecord(0))
		f.add(formatRecord(1))
		f.add(storeRecord("c", [16]byte{1}, notAdopted))
		f.add(snapshotRecord(1))
		for range 150 {
			if p := f.rand.IntN(100); p < 4 {
				f.snapshot(p < 3)
			} else {
				f.change()
			}
		}
		f.snapshot(true)
		f.change()
		want := f.state
		want.shared = nil
		for _, start := range f.starts {
			// From any segment that begins at or before the start.
			for first, base := range f.bases {
				if base > start {
					break
				}
				for _, known := range []int64{start, 0} {
					mem := vfs.NewMem(vfs.MemOptions{})
					if err := mem.MkdirAll(testDir); err != nil {
						t.Fatal(err)
					}
					for i, base := range f.bases[first:] {
						end := len(f.records)
						if next := first + i + 1; next < len(f.bases) {
							end = int(f.bases[next])
						}
						f.write(t, mem, base, f.records[base:end])
					}
					r, err := replayMetadata(mem, testDir, known, 0)
					if err != nil {
						t.Fatalf("seed %d, from %d with start %d: %v", seed, base, known, err)
					}
					r.state.shared = nil
					if !reflect.DeepEqual(r.state, want) || !r.former || r.end != int64(len(f.records)) {
						t.Fatalf("seed %d, from %d with start %d: got %+v, want %+v", seed, base, known, r.state, want)
					}
				}
			}
		}
	}
}

// write makes a segment with a record in each batch, so that a log may begin at any.
func (f *formerLog) write(t *testing.T, fsys vfs.FS, base int64, records []metadataRecord) {
	t.Helper()
	var all []byte
	for i, r := range records {
		b := record.NewBuilder(record.BuilderOptions{BaseOffset: base + int64(i)})
		b.Append(record.Record{Key: r.key, Value: r.value})
		all = append(all, b.Bytes()...)
	}
	if err := writeSynced(fsys, segmentFile(testDir, base, logSuffix), all); err != nil {
		t.Fatal(err)
	}
}
