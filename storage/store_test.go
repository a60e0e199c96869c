package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// testDir is where the stores of tests are, in the memory file system.
const testDir = "data"

// openStore opens a store on fsys. It is closed at the end of the test unless the test did.
func openStore(t testing.TB, fsys vfs.FS) *Store {
	t.Helper()
	s, err := Open(testDir, Options{FS: fsys})
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// closeStore closes a store in order.
func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

// runStore runs what a store does in the background until stop is called.
func runStore(t testing.TB, s *Store) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

func createTopic(t testing.TB, s *Store, name string, partitions int32, configs ...string) *Topic {
	t.Helper()
	spec := TopicSpec{Name: name, Partitions: partitions, Configs: make(map[string]string)}
	for i := 0; i < len(configs); i += 2 {
		spec.Configs[configs[i]] = configs[i+1]
	}
	topic, err := s.CreateTopic(spec)
	if err != nil {
		t.Fatalf("create %s: %v", name, err)
	}
	return topic
}

// produce appends a batch of one record and waits until it is durable.
func produce(l *Log, value string) (Appended, error) {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	b.Append(record.Record{Timestamp: record.NoTimestamp, Key: []byte("key"), Value: []byte(value)})
	a, err := l.Append(append([]byte(nil), b.Bytes()...), AppendOptions{})
	if err != nil {
		return a, err
	}
	return a, l.WaitDurable(context.Background(), a)
}

func mustProduce(t testing.TB, topic *Topic, partition int32, values ...string) {
	t.Helper()
	l, ok := topic.Partition(partition)
	if !ok {
		t.Fatalf("%s has no partition %d", topic.Name(), partition)
	}
	for _, v := range values {
		if _, err := produce(l, v); err != nil {
			t.Fatalf("produce %q to %s-%d: %v", v, topic.Name(), partition, err)
		}
	}
}

// values reads the values of all records of a log.
func values(l *Log) ([]string, error) {
	o, err := l.Offsets()
	if err != nil {
		return nil, err
	}
	var found []string
	var reader record.Reader
	for offset := o.LogStart; offset < o.HighWatermark; {
		res, err := l.Read(nil, ReadRequest{Offset: offset, MaxBytes: 1 << 20, MinOneBatch: true})
		if err != nil {
			return found, err
		}
		if len(res.Data) == 0 {
			return found, fmt.Errorf("nothing to read at offset %d below the high watermark %d", offset, o.HighWatermark)
		}
		for rest := res.Data; len(rest) > 0; {
			batch, after, err := record.Cut(rest)
			if err != nil {
				return found, err
			}
			rest = after
			for r, err := range reader.Records(batch) {
				if err != nil {
					return found, err
				}
				if r.Offset >= offset {
					found = append(found, string(r.Value))
				}
			}
			offset = batch.NextOffset()
		}
	}
	return found, nil
}

func checkValues(t testing.TB, topic *Topic, partition int32, want ...string) {
	t.Helper()
	l, ok := topic.Partition(partition)
	if !ok {
		t.Fatalf("%s has no partition %d", topic.Name(), partition)
	}
	got, err := values(l)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s-%d holds %q (%v), want %q", topic.Name(), partition, got, err, want)
	}
}

func topicNamesOf(s *Store) []string {
	var names []string
	for _, t := range s.Topics() {
		names = append(names, t.Name())
	}
	return names
}

func lookUp(t testing.TB, s *Store, name string) *Topic {
	t.Helper()
	topic, ok := s.Topic(name)
	if !ok {
		t.Fatalf("no topic %s among %v", name, topicNamesOf(s))
	}
	return topic
}

func TestTopicsSurviveRestart(t *testing.T) {
	for _, how := range []string{"close", "kill"} {
		t.Run(how, func(t *testing.T) {
			mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
			s := openStore(t, mem)
			orders := createTopic(t, s, "orders", 3, "retention.ms", " 5000 ", "cleanup.policy", "compact,delete")
			plain := createTopic(t, s, "plain", 1)
			mustProduce(t, orders, 2, "a", "b")
			if err := s.SetResourceConfigs(32, "g", map[string]string{"x": "1"}); err != nil {
				t.Fatal(err)
			}
			clusterID, directoryID := s.ClusterID(), s.DirectoryID()
			if how == "close" {
				closeStore(t, s)
			} else {
				mem = mem.CrashClone(1, 0)
			}
			s = openStore(t, mem)
			if s.ClusterID() != clusterID || s.DirectoryID() != directoryID || s.LeaderEpoch() != 1 {
				t.Errorf("cluster %s, directory %x, epoch %d, want %s, %x, 1", s.ClusterID(), s.DirectoryID(), s.LeaderEpoch(), clusterID, directoryID)
			}
			if got, want := topicNamesOf(s), []string{"orders", "plain"}; !slices.Equal(got, want) {
				t.Fatalf("topics %v, want %v", got, want)
			}
			got := lookUp(t, s, "orders")
			if got.ID() != orders.ID() || got.Partitions() != 3 || got.Config().RetentionMs != 5000 || !got.Config().Compact {
				t.Errorf("orders came back as %s with %d partitions and %+v", got.ID(), got.Partitions(), got.Config())
			}
			if want := map[string]string{"retention.ms": "5000", "cleanup.policy": "compact,delete"}; !maps.Equal(got.Overrides(), want) {
				t.Errorf("overrides %v, want %v", got.Overrides(), want)
			}
			if byID, ok := s.TopicByID(plain.ID()); !ok || byID.Name() != "plain" {
				t.Errorf("topic of id %s: %v", plain.ID(), byID)
			}
			checkValues(t, got, 2, "a", "b")
			checkValues(t, got, 0)
			if got := s.ResourceConfigs(32, "g"); !maps.Equal(got, map[string]string{"x": "1"}) {
				t.Errorf("configs of group g: %v", got)
			}
			if got := s.ResourceNames(32); !slices.Equal(got, []string{"g"}) {
				t.Errorf("groups with configs: %v", got)
			}
		})
	}
}

func TestCreateTopicErrors(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	createTopic(t, s, "a.b", 1)
	for _, c := range []struct {
		what string
		spec TopicSpec
		want error
	}{
		{"existing", TopicSpec{Name: "a.b", Partitions: 0}, ErrTopicExists},
		{"colliding", TopicSpec{Name: "a_b", Partitions: 1}, ErrTopicCollision},
		{"bad name", TopicSpec{Name: "a b", Partitions: 1}, ErrInvalidTopicName},
		{"our own", TopicSpec{Name: "__gateway_metadata", Partitions: 1}, ErrInvalidTopicName},
		{"no partitions", TopicSpec{Name: "x"}, ErrInvalidPartitions},
		{"too many partitions", TopicSpec{Name: "x", Partitions: maxPartitions + 1}, ErrInvalidPartitions},
	} {
		if err := s.CheckTopic(c.spec); !errors.Is(err, c.want) {
			t.Errorf("%s: check says %v, want %v", c.what, err, c.want)
		}
		if topic, err := s.CreateTopic(c.spec); !errors.Is(err, c.want) || topic != nil {
			t.Errorf("%s: create says %v, %v, want %v", c.what, topic, err, c.want)
		}
	}
	spec := TopicSpec{Name: "x", Partitions: 1, Configs: map[string]string{"retention.ms": "y"}}
	if _, ok := errors.AsType[*ConfigError](s.CheckTopic(spec)); !ok {
		t.Errorf("bad config: check says %v, want a ConfigError", s.CheckTopic(spec))
	}
	if err := s.CheckTopic(TopicSpec{Name: "x", Partitions: 1}); err != nil {
		t.Errorf("check of a good topic: %v", err)
	}
	if _, ok := s.Topic("x"); ok {
		t.Error("a check created the topic")
	}
	if _, ok := s.Topic(metadataTopic); ok {
		t.Error("the metadata log is visible as a topic")
	}
}

func TestCreateTopicsSharesOneCommit(t *testing.T) {
	syncs := 0
	fsys := vfs.After(vfs.NewMem(vfs.MemOptions{}), func(o vfs.Op, err error) {
		if o.Kind == vfs.OpSync {
			syncs++
		}
	})
	s := openStore(t, fsys)
	before := syncs
	specs := []TopicSpec{{Name: "a", Partitions: 1}, {Name: "b", Partitions: 2}, {Name: "a", Partitions: 1}, {Name: "c", Partitions: 0}}
	topics, errs := s.CreateTopics(specs)
	if got := syncs - before; got != 1 {
		t.Errorf("%d syncs, want 1", got)
	}
	if errs[0] != nil || errs[1] != nil || !errors.Is(errs[2], ErrTopicExists) || !errors.Is(errs[3], ErrInvalidPartitions) {
		t.Errorf("errors %v, want none, none, ErrTopicExists, ErrInvalidPartitions", errs)
	}
	if topics[0] == nil || topics[1] == nil || topics[2] != nil || topics[3] != nil {
		t.Errorf("topics %v, want the first two", topics)
	}
}

func TestConcurrentCreates(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	var group sync.WaitGroup
	var mu sync.Mutex
	created := make(map[string]int)
	for i := range 64 {
		group.Go(func() {
			name := fmt.Sprintf("t%d", i%16)
			if _, err := s.CreateTopic(TopicSpec{Name: name, Partitions: 1}); err == nil {
				mu.Lock()
				created[name]++
				mu.Unlock()
			} else if !errors.Is(err, ErrTopicExists) {
				t.Errorf("create %s: %v", name, err)
			}
		})
	}
	group.Wait()
	for i := range 16 {
		if n := created[fmt.Sprintf("t%d", i)]; n != 1 {
			t.Errorf("t%d was created %d times, want once", i, n)
		}
	}
	if got := len(openStore(t, mem.CrashClone(3, 0)).Topics()); got != 16 {
		t.Errorf("%d topics after a crash, want 16", got)
	}
}

func TestDeletedTopicIsGoneAndItsNameIsFree(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	s := openStore(t, mem)
	old := createTopic(t, s, "orders", 2)
	mustProduce(t, old, 0, "old")
	l, _ := old.Partition(0)
	var hooked []string
	s.OnTopicDeleted(func(x *Topic) { hooked = append(hooked, x.Name()) })
	if err := s.DeleteTopic(old.ID()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(hooked, []string{"orders"}) {
		t.Errorf("hook was called for %v", hooked)
	}
	if _, ok := s.Topic("orders"); ok {
		t.Error("the deleted topic is still there")
	}
	if err := s.DeleteTopic(old.ID()); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("second deletion: %v, want ErrUnknownTopic", err)
	}
	if _, err := produce(l, "late"); !errors.Is(err, ErrLogDeleted) {
		t.Errorf("append to a deleted log: %v, want ErrLogDeleted", err)
	}
	unused, _ := old.Partition(1)
	if _, err := unused.Offsets(); !errors.Is(err, ErrLogDeleted) {
		t.Errorf("a log first asked for after the deletion: %v, want ErrLogDeleted", err)
	}
	fresh := createTopic(t, s, "orders", 1)
	if fresh.ID() == old.ID() {
		t.Error("the new topic has the id of the old")
	}
	checkValues(t, fresh, 0)
	mustProduce(t, fresh, 0, "new")
	checkValues(t, fresh, 0, "new")
	closeStore(t, s)
	s = openStore(t, mem)
	checkValues(t, lookUp(t, s, "orders"), 0, "new")
}

func TestAddPartitions(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, mem)
	topic := createTopic(t, s, "orders", 2)
	mustProduce(t, topic, 1, "a")
	l, _ := topic.Partition(1)
	for _, c := range []struct {
		total int32
		want  error
	}{{2, ErrInvalidPartitions}, {1, ErrInvalidPartitions}, {maxPartitions + 1, ErrInvalidPartitions}, {4, nil}, {4, ErrInvalidPartitions}} {
		if err := s.AddPartitions(topic.ID(), c.total); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
			t.Errorf("grow to %d: %v, want %v", c.total, err, c.want)
		}
	}
	if err := s.AddPartitions(TopicID{1}, 4); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("grow an unknown topic: %v, want ErrUnknownTopic", err)
	}
	if again, _ := topic.Partition(1); again != l || topic.Partitions() != 4 {
		t.Errorf("after growing partition 1 is another log, or there are %d partitions, want 4", topic.Partitions())
	}
	mustProduce(t, topic, 3, "b")
	s = openStore(t, mem.CrashClone(1, 0))
	checkValues(t, lookUp(t, s, "orders"), 1, "a")
	checkValues(t, lookUp(t, s, "orders"), 3, "b")
}

func TestTopicConfigsReplaceAndFollowDefaults(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	topic := createTopic(t, s, "orders", 1, "retention.ms", "5000")
	other := createTopic(t, s, "other", 1)
	if err := s.SetTopicConfigs(topic.ID(), map[string]string{"segment.ms": "7"}); err != nil {
		t.Fatal(err)
	}
	if c := topic.Config(); c.SegmentMs != 7 || c.RetentionMs != 604800000 {
		t.Errorf("after the change %+v", c)
	}
	err := s.SetTopicConfigs(topic.ID(), map[string]string{"segment.ms": "0"})
	if _, ok := errors.AsType[*ConfigError](err); !ok || topic.Config().SegmentMs != 7 {
		t.Errorf("bad value: %v, segment.ms %d, want a ConfigError and 7", err, topic.Config().SegmentMs)
	}
	if err := s.SetTopicDefaults(map[string]string{"segment.ms": "9", "retention.ms": "11"}); err != nil {
		t.Fatal(err)
	}
	if c := topic.Config(); c.SegmentMs != 7 || c.RetentionMs != 11 {
		t.Errorf("after a change of defaults %+v", c)
	}
	if c := other.Config(); c.SegmentMs != 9 || c.RetentionMs != 11 {
		t.Errorf("after a change of defaults the topic without overrides has %+v", c)
	}
	if err := s.SetTopicDefaults(map[string]string{"segment.ms": "x"}); err == nil || other.Config().SegmentMs != 9 {
		t.Errorf("bad default: %v, segment.ms %d, want an error and 9", err, other.Config().SegmentMs)
	}
	if err := s.SetTopicConfigs(TopicID{9}, nil); !errors.Is(err, ErrUnknownTopic) {
		t.Errorf("configs of an unknown topic: %v", err)
	}
}

func TestProducerIDsNeverRepeatOverCrashes(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	seen := make(map[int64]bool)
	last := int64(-1)
	for round := range 5 {
		s := openStore(t, mem)
		for range 1500 {
			id, err := s.NextProducerID()
			if err != nil {
				t.Fatal(err)
			}
			if seen[id] || id <= last {
				t.Fatalf("round %d: producer id %d after %d", round, id, last)
			}
			seen[id], last = true, id
		}
		mem = mem.CrashClone(uint64(round), 0)
	}
}

func TestClosedStoreRefusesChanges(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	topic := createTopic(t, s, "a", 2)
	mustProduce(t, topic, 0, "x")
	closeStore(t, s)
	for p := range int32(2) {
		l, _ := topic.Partition(p)
		if _, err := produce(l, "late"); !errors.Is(err, ErrClosed) {
			t.Errorf("append to partition %d: %v, want ErrClosed", p, err)
		}
	}
	if _, err := s.CreateTopic(TopicSpec{Name: "b", Partitions: 1}); !errors.Is(err, ErrClosed) {
		t.Errorf("create: %v, want ErrClosed", err)
	}
	if err := s.DeleteTopic(topic.ID()); !errors.Is(err, ErrClosed) {
		t.Errorf("delete: %v, want ErrClosed", err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
}

// listTree returns all files below dir with their content.
func listTree(t testing.TB, fsys vfs.FS, dir string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	names, err := fsys.List(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		info, err := fsys.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if info.IsDir {
			files[path] = "directory"
			maps.Copy(files, listTree(t, fsys, path))
			continue
		}
		b, err := readFile(fsys, path)
		if err != nil {
			t.Fatal(err)
		}
		files[path] = string(b)
	}
	return files
}

func TestStats(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	topic := createTopic(t, s, "a", 3)
	mustProduce(t, topic, 0, "x")
	st := s.Stats()
	if st.Topics != 1 || st.Partitions != 3 || st.Online != 1 || st.Idle != 2 || st.Offline != 0 || st.Bytes == 0 || st.MetadataBytes == 0 || st.Recovered {
		t.Errorf("stats %+v", st)
	}
}

func TestTopicsVersionMovesWithTopicsAndPartitions(t *testing.T) {
	s := openStore(t, vfs.NewMem(vfs.MemOptions{}))
	last := s.TopicsVersion()
	moved := func(what string, want bool) {
		t.Helper()
		if got := s.TopicsVersion(); (got != last) != want {
			t.Errorf("%s: went from %d to %d, want a move: %v", what, last, got, want)
		}
		last = s.TopicsVersion()
	}
	orders := createTopic(t, s, "orders", 1)
	moved("create", true)
	if err := s.AddPartitions(orders.ID(), 2); err != nil {
		t.Fatal(err)
	}
	moved("add partitions", true)
	if err := s.SetTopicConfigs(orders.ID(), map[string]string{"retention.ms": "1"}); err != nil {
		t.Fatal(err)
	}
	moved("set a config", false)
	if _, err := s.CreateTopic(TopicSpec{Name: "orders", Partitions: 1}); err == nil {
		t.Fatal("created a topic twice")
	}
	moved("fail to create", false)
	if err := s.DeleteTopic(orders.ID()); err != nil {
		t.Fatal(err)
	}
	moved("delete", true)
}
