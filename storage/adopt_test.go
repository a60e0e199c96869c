package storage

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// testdata/adopt is the data directory of Apache Kafka 4.4.0 after a clean stop, without the index files of its metadata
// log and of its deleted topics, which are 10 MiB of zeros each. It was started with offsets.topic.num.partitions=1,
// transaction.state.log.num.partitions=1, metadata.log.max.record.bytes.between.snapshots=2000 and
// metadata.log.max.snapshot.interval.ms=2000, so that its metadata log has snapshots. A client
//
//   - created orders (2 partitions, retention.ms=-1, internal.segment.bytes=300), compacted (cleanup.policy=compact,
//     retention.ms=-1), doomed, re.made and empty (message.timestamp.type=LogAppendTime), one partition each;
//   - wrote "<topic>-<partition>-<n>", each in a batch of its own, under the keys k0, k1, k2 in turn: 12 to orders-0, 3 to
//     orders-1, 5 to compacted, 2 to doomed and re.made; and deleted doomed and re.made;
//
// then the broker was stopped and started, and the client
//
//   - made re.made again and wrote 100, 101 and 102 to it, and 12 to 19 to orders-0;
//   - set max.message.bytes=2000000 on orders, took retention.ms off compacted, deleted the records of orders-0 before
//     offset 5, made orders have 3 partitions and wrote 0 and 1 to orders-2;
//   - in orders-1 aborted a transaction with the record "aborted" and committed one with "committed", as producer 1002;
//   - committed offset 7 of orders-0 for group-a.
const adoptDir = "testdata/adopt"

// adoptFS returns a memory file system with a copy of the directory as testDir.
func adoptFS(t testing.TB) *vfs.Mem {
	t.Helper()
	return copyFS(t, adoptDir)
}

// copyFS returns a memory file system with a copy of a directory of testdata as testDir.
func copyFS(t testing.TB, from string) *vfs.Mem {
	t.Helper()
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	if err := makeDir(mem, testDir); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		to := filepath.Join(testDir, rel)
		if d.IsDir() {
			return makeDir(mem, to)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return writeSynced(mem, to, b)
	})
	if err != nil {
		t.Fatal(err)
	}
	syncTree(t, mem, testDir)
	return mem
}

// syncTree makes the names in a directory and all below durable.
func syncTree(t testing.TB, fsys vfs.FS, dir string) {
	t.Helper()
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if info, err := fsys.Stat(filepath.Join(dir, name)); err == nil && info.IsDir {
			syncTree(t, fsys, filepath.Join(dir, name))
		}
	}
	if err := fsys.SyncDir(dir); err != nil {
		t.Fatal(err)
	}
}

// partitionFiles returns the content of all files in the directories of Kafka, deleted topics included.
func partitionFiles(t testing.TB, fsys vfs.FS) map[string]string {
	t.Helper()
	files := listTree(t, fsys, testDir)
	maps.DeleteFunc(files, func(path, _ string) bool {
		rel, _ := filepath.Rel(testDir, path)
		return !strings.Contains(rel, string(filepath.Separator)) || strings.HasPrefix(rel, metadataTopic)
	})
	return files
}

func checkUnchanged(t *testing.T, got, want map[string]string) {
	t.Helper()
	for _, path := range sortedKeys(want) {
		if g, ok := got[path]; !ok {
			t.Errorf("%s is gone", path)
		} else if g != want[path] {
			t.Errorf("%s was changed", path)
		}
	}
	for _, path := range sortedKeys(got) {
		if _, ok := want[path]; !ok {
			t.Errorf("%s is new", path)
		}
	}
}

// numbered returns prefix with the numbers [from, to).
func numbered(prefix string, from, to int) []string {
	var all []string
	for i := from; i < to; i++ {
		all = append(all, prefix+strconv.Itoa(i))
	}
	return all
}

// checkAdoptedRecords checks what the fixture's logs hold.
func checkAdoptedRecords(t *testing.T, s *Store) {
	t.Helper()
	orders := lookUp(t, s, "orders")
	checkValues(t, orders, 0, numbered("orders-0-", 5, 20)...)
	checkValues(t, orders, 2, "orders-2-0", "orders-2-1")
	checkValues(t, lookUp(t, s, "compacted"), 0, numbered("compacted-0-", 0, 5)...)
	checkValues(t, lookUp(t, s, "re.made"), 0, "re.made-0-100", "re.made-0-101", "re.made-0-102")
	checkValues(t, lookUp(t, s, "empty"), 0)
	l, _ := orders.Partition(0)
	if o, err := l.Offsets(); err != nil || o != (Offsets{LogStart: 5, LastStable: 20, HighWatermark: 20, End: 20}) {
		t.Errorf("offsets of orders-0: %+v, %v", o, err)
	}
	l, _ = orders.Partition(1)
	res, err := l.Read(nil, ReadRequest{Offset: 3, MaxBytes: 1 << 20, Isolation: ReadCommitted})
	if want := []AbortedTxn{{ProducerID: 1002, FirstOffset: 3, LastOffset: 4, LastStableOffset: 5}}; err != nil ||
		len(res.Aborted) != 1 || res.Aborted[0].ProducerID != 1002 || res.Aborted[0].FirstOffset != 3 {
		t.Errorf("aborted transactions in orders-1: %+v, %v, want %+v", res.Aborted, err, want)
	}
}

func TestAdoptKafkaDirectory(t *testing.T) {
	for _, marker := range []bool{true, false} {
		t.Run(map[bool]string{true: "clean", false: "killed"}[marker], func(t *testing.T) {
			mem := adoptFS(t)
			if !marker {
				if err := mem.Remove(filepath.Join(testDir, cleanShutdownFile)); err != nil {
					t.Fatal(err)
				}
			}
			before := partitionFiles(t, mem)
			s := openStore(t, mem)
			if got, want := topicNamesOf(s), []string{"__consumer_offsets", "__transaction_state", "compacted", "empty", "orders", "re.made"}; !slices.Equal(got, want) {
				t.Fatalf("topics %v, want %v", got, want)
			}
			if got := s.ClusterID(); got != "8ExzCkGfRxWu9gSxc3W7Rg" {
				t.Errorf("cluster id %s, want the one in meta.properties", got)
			}
			for _, topic := range s.Topics() {
				m, err := readPartitionMetadata(mem, filepath.Join(testDir, topic.Name()+"-0"))
				if err != nil || topic.ID() != m.TopicID {
					t.Errorf("%s has id %s, its directory %s, %v", topic.Name(), topic.ID(), m.TopicID, err)
				}
			}
			for topic, want := range map[string]map[string]string{
				"orders":    {"retention.ms": "-1", "internal.segment.bytes": "300", "max.message.bytes": "2000000"},
				"compacted": {"cleanup.policy": "compact"},
				"empty":     {"message.timestamp.type": "LogAppendTime"},
				"re.made":   {},
			} {
				if got := lookUp(t, s, topic).Overrides(); !maps.Equal(got, want) {
					t.Errorf("configs of %s: %v, want %v", topic, got, want)
				}
			}
			if c := lookUp(t, s, "__consumer_offsets").Config(); !c.Compact || c.Delete {
				t.Errorf("__consumer_offsets compacts %v, deletes %v", c.Compact, c.Delete)
			}
			if got := lookUp(t, s, "orders").Partitions(); got != 3 {
				t.Errorf("orders has %d partitions, want 3", got)
			}
			if got := s.LeaderEpoch(); got < 3 {
				t.Errorf("leader epoch %d, the directory has batches of epoch 2", got)
			}
			if id, err := s.NextProducerID(); err != nil || id <= 1002 {
				t.Errorf("first producer id %d, %v; the directory has 1002", id, err)
			}
			stop := runStore(t, s)
			checkAdoptedRecords(t, s)
			stop()
			checkUnchanged(t, partitionFiles(t, mem), before)
			closeStore(t, s)
			checkUnchanged(t, partitionFiles(t, mem), before)

			// The second start finds its own metadata log, and still changes nothing.
			s = openStore(t, mem)
			checkAdoptedRecords(t, s)
			checkUnchanged(t, partitionFiles(t, mem), before)

			// The first append is the end of that, for its partition.
			mustProduce(t, lookUp(t, s, "orders"), 2, "new")
			checkValues(t, lookUp(t, s, "orders"), 2, "orders-2-0", "orders-2-1", "new")
			after := partitionFiles(t, mem)
			for path := range after {
				if strings.Contains(path, "orders-2") {
					delete(after, path)
				}
			}
			for path := range before {
				if strings.Contains(path, "orders-2") {
					delete(before, path)
				}
			}
			checkUnchanged(t, after, before)
			s = openStore(t, mem.CrashClone(1, 0))
			checkValues(t, lookUp(t, s, "orders"), 2, "orders-2-0", "orders-2-1", "new")
			checkValues(t, lookUp(t, s, "orders"), 0, numbered("orders-0-", 5, 20)...)
		})
	}
}

func TestAdoptionSurvivesEveryCrash(t *testing.T) {
	mem := adoptFS(t)
	var clones []*vfs.Mem
	fsys := vfs.After(mem, func(o vfs.Op, err error) {
		if o.Kind.Mutates() {
			clones = append(clones, mem.CrashClone(uint64(len(clones)), 0), mem.CrashClone(uint64(len(clones)), 0.5))
		}
	})
	s := openStore(t, fsys)
	clusterID := s.ClusterID()
	for i, clone := range clones {
		before := partitionFiles(t, clone)
		s := openStore(t, clone)
		if s.ClusterID() != clusterID || len(s.Topics()) != 6 {
			t.Fatalf("clone %d: cluster %s with topics %v, want %s with 6", i, s.ClusterID(), topicNamesOf(s), clusterID)
		}
		checkAdoptedRecords(t, s)
		checkUnchanged(t, partitionFiles(t, clone), before)
	}
	if len(clones) < 10 {
		t.Errorf("adoption made %d clones, want more: was nothing synced?", len(clones))
	}
}

func TestAdoptedTornTailStaysCutOff(t *testing.T) {
	mem := adoptFS(t)
	if err := mem.Remove(filepath.Join(testDir, cleanShutdownFile)); err != nil {
		t.Fatal(err)
	}
	f, err := mem.Open(segmentFile(filepath.Join(testDir, "orders-2"), 0, logSuffix))
	if err != nil {
		t.Fatal(err)
	}
	size, _ := f.Size()
	f.WriteAt(make([]byte, 100), size)
	f.Close()
	before := partitionFiles(t, mem)
	for range 3 {
		s := openStore(t, mem)
		stop := runStore(t, s)
		checkAdoptedRecords(t, s)
		stop()
		closeStore(t, s)
		checkUnchanged(t, partitionFiles(t, mem), before)
	}
	s := openStore(t, mem)
	mustProduce(t, lookUp(t, s, "orders"), 2, "new")
	closeStore(t, s)
	s = openStore(t, mem)
	checkValues(t, lookUp(t, s, "orders"), 2, "orders-2-0", "orders-2-1", "new")
}

func TestAdoptWithoutClusterMetadata(t *testing.T) {
	mem := adoptFS(t)
	if err := mem.RemoveAll(filepath.Join(testDir, "__cluster_metadata-0")); err != nil {
		t.Fatal(err)
	}
	s := openStore(t, mem)
	checkAdoptedRecords(t, s)
	orders := lookUp(t, s, "orders")
	if m, err := readPartitionMetadata(mem, filepath.Join(testDir, "orders-1")); err != nil || orders.ID() != m.TopicID {
		t.Errorf("orders has id %s, its directory %s, %v", orders.ID(), m.TopicID, err)
	}
	for _, topic := range s.Topics() {
		if c := topic.Config(); c.Delete || c.Compact {
			t.Errorf("%s is cleaned: delete %v, compact %v", topic.Name(), c.Delete, c.Compact)
		}
	}
	if id, err := s.NextProducerID(); err != nil || id != 1003 {
		t.Errorf("first producer id %d, %v, want 1003", id, err)
	}
	if err := s.SetTopicConfigs(orders.ID(), map[string]string{"retention.ms": "1"}); err != nil {
		t.Fatal(err)
	}
	if c := orders.Config(); !c.Delete {
		t.Error("cleaning stays off after the configs of the topic were set")
	}
}

func TestAdoptedPartitionsThatCannotBeServed(t *testing.T) {
	mem := adoptFS(t)
	for _, dir := range []string{"orders-1"} {
		if err := mem.RemoveAll(filepath.Join(testDir, dir)); err != nil {
			t.Fatal(err)
		}
	}
	// compacted-0 is of another topic of the same name.
	other := TopicID(newUUID())
	if err := writePartitionMetadata(mem, filepath.Join(testDir, "compacted-0"), other); err != nil {
		t.Fatal(err)
	}
	// re.made-0 begins with an old batch.
	f, err := mem.Open(segmentFile(filepath.Join(testDir, "re.made-0"), 0, ".log"))
	if err != nil {
		t.Fatal(err)
	}
	f.WriteAt([]byte{1}, record.MagicPos)
	f.Close()
	before := partitionFiles(t, mem)
	check := func(s *Store) {
		t.Helper()
		for topic, p := range map[string]int32{"orders": 1, "compacted": 0, "re.made": 0} {
			l, ok := lookUp(t, s, topic).Partition(p)
			if !ok {
				t.Fatalf("%s has no partition %d", topic, p)
			}
			if _, err := l.Offsets(); !errors.Is(err, ErrOffline) || l.Status() != StatusOffline {
				t.Errorf("%s-%d: %v, status %d, want offline", topic, p, err, l.Status())
			}
		}
		checkValues(t, lookUp(t, s, "orders"), 2, "orders-2-0", "orders-2-1")
	}
	s := openStore(t, mem)
	check(s)
	checkUnchanged(t, partitionFiles(t, mem), before)
	closeStore(t, s)
	check(openStore(t, mem))
}

func TestTieredTopicStaysOffline(t *testing.T) {
	m := &kafkaMetadata{configs: map[resourceKey]map[string]string{
		{topicResource, "t"}: {"remote.storage.enable": "true", "retention.ms": " 5", "message.format.version": "2.8", "segment.ms": "x"},
	}}
	configs, faults := m.topicConfigs("t")
	if want := map[string]string{"remote.storage.enable": "true", "retention.ms": "5"}; !maps.Equal(configs, want) || len(faults) != 2 {
		t.Errorf("configs %v with faults %v, want %v with 2", configs, faults, want)
	}
	s := &Store{o: Options{FS: vfs.NewMem(vfs.MemOptions{})}}
	s.o.setDefaults()
	a := &adopter{s: s, st: newMetadataState(), dirs: map[string]map[int32]*adoptedDir{"t": {0: {}, 1: {}}}}
	a.topic(TopicID{1}, "t", 2, configs)
	if got := a.st.topics[TopicID{1}].unserved; len(got) != 2 || !strings.Contains(got[0], "tiered") {
		t.Errorf("partitions of a tiered topic that stay offline: %v, want both", got)
	}
}
