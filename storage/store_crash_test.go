package storage

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/kaen-log/gateway/storage/vfs"
)

// expected is what a store is known to hold: what was acknowledged.
type expected struct {
	topics map[string]expectedTopic
	// doing names the topic of the change under way, which may have happened or not; "" for none. before and after are
	// what it may be then; a topic of no partitions is none.
	doing         string
	before, after expectedTopic
	producerID    int64 // the highest handed out
}

type expectedTopic struct {
	id         TopicID
	partitions int32
	retention  string     // override of retention.ms
	values     [][]string // by partition
}

func (e expected) clone() expected {
	e.topics = maps.Clone(e.topics)
	return e
}

// scenario does to a store what touches the metadata log and the directories. note is called before and after each
// change with what is known then. It stops at the first error.
func scenario(s *Store, e *expected, note func()) error {
	step := func(name string, after expectedTopic, do func() error) error {
		e.doing, e.before, e.after = name, e.topics[name], after
		note()
		if err := do(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if t, ok := s.Topic(name); ok {
			after.id = t.ID()
		}
		e.doing = ""
		e.topics[name] = after
		if after.partitions == 0 {
			delete(e.topics, name)
		}
		note()
		return nil
	}
	create := func(name string, partitions int32) error {
		return step(name, expectedTopic{partitions: partitions, values: make([][]string, partitions)}, func() error {
			_, err := s.CreateTopic(TopicSpec{Name: name, Partitions: partitions})
			return err
		})
	}
	remove := func(name string) error {
		return step(name, expectedTopic{}, func() error {
			t, ok := s.Topic(name)
			if !ok {
				return ErrUnknownTopic
			}
			return s.DeleteTopic(t.ID())
		})
	}
	add := func(name string, partition int32, value string) error {
		after := e.topics[name]
		after.values = slices.Clone(after.values)
		after.values[partition] = append(slices.Clone(after.values[partition]), value)
		return step(name, after, func() error {
			t, _ := s.Topic(name)
			l, _ := t.Partition(partition)
			_, err := produce(l, value)
			return err
		})
	}
	grow := func(name string, partitions int32) error {
		after := e.topics[name]
		after.partitions = partitions
		after.values = append(slices.Clone(after.values), make([][]string, partitions-int32(len(after.values)))...)
		return step(name, after, func() error {
			t, _ := s.Topic(name)
			return s.AddPartitions(t.ID(), partitions)
		})
	}
	configure := func(name, retention string) error {
		after := e.topics[name]
		after.retention = retention
		return step(name, after, func() error {
			t, _ := s.Topic(name)
			return s.SetTopicConfigs(t.ID(), map[string]string{"retention.ms": retention})
		})
	}
	for _, do := range []func() error{
		func() error { return create("a", 2) },
		func() error { return add("a", 0, "old 0") },
		func() error { return add("a", 1, "old 1") },
		func() error { return configure("a", "77") },
		func() error { return create("b", 1) },
		func() error { return add("b", 0, "b 0") },
		func() error { s.saveCheckpoints(); return nil },
		func() error { return remove("a") },
		func() error { return create("a", 1) },
		func() error { return add("a", 0, "new 0") },
		func() error { return grow("b", 3) },
		func() error { return add("b", 2, "b 2") },
		func() error {
			id, err := s.NextProducerID()
			e.producerID = max(e.producerID, id)
			return err
		},
		func() error { return remove("a") },
		func() error { s.removeRetired(); return nil },
		func() error { return create("c", 1) },
	} {
		if err := do(); err != nil {
			return err
		}
	}
	return nil
}

// verify checks a store against what is known of it.
func (e *expected) verify(s *Store) error {
	for name, want := range e.topics {
		if name == e.doing {
			continue
		}
		if err := want.verify(s, name); err != nil {
			return err
		}
	}
	if e.doing != "" {
		before, after := e.before.verify(s, e.doing), e.after.verify(s, e.doing)
		if before != nil && after != nil {
			return fmt.Errorf("neither as before the change: %w; nor as after: %w", before, after)
		}
	}
	for _, t := range s.Topics() {
		if _, ok := e.topics[t.Name()]; !ok && t.Name() != e.doing {
			return fmt.Errorf("topic %s is there and should not", t.Name())
		}
	}
	id, err := s.NextProducerID()
	if err != nil || id <= e.producerID && e.producerID > 0 {
		return fmt.Errorf("producer id %d after %d: %w", id, e.producerID, err)
	}
	return nil
}

func (want expectedTopic) verify(s *Store, name string) error {
	t, ok := s.Topic(name)
	if !ok {
		if want.partitions == 0 {
			return nil
		}
		return fmt.Errorf("topic %s is gone", name)
	}
	if t.Partitions() != want.partitions || t.Overrides()["retention.ms"] != want.retention {
		return fmt.Errorf("topic %s has %d partitions and configs %v, want %+v", name, t.Partitions(), t.Overrides(), want)
	}
	if !want.id.IsZero() && t.ID() != want.id {
		return fmt.Errorf("topic %s has id %s, want %s", name, t.ID(), want.id)
	}
	for p := range want.partitions {
		l, _ := t.Partition(p)
		got, err := values(l)
		if err != nil || !slices.Equal(got, want.values[p]) {
			return fmt.Errorf("%s-%d holds %q, want %q: %w", name, p, got, want.values[p], err)
		}
	}
	return nil
}

// verifyDirs checks, after Run has looked at the directories, that none of a deleted topic is left and none was taken
// for a stranger's.
func verifyDirs(t *testing.T, mem *vfs.Mem, s *Store) error {
	stop := runStore(t, s)
	synctest.Wait()
	stop()
	if got := dirNames(t, mem, deleteSuffix, straySuffix); len(got) > 0 {
		return fmt.Errorf("directories %v are left", got)
	}
	names, err := mem.List(testDir)
	if err != nil {
		return err
	}
	for _, name := range names {
		topic, p, ok := parsePartitionDirName(name)
		if !ok || topic == metadataTopic {
			continue
		}
		m, err := readPartitionMetadata(mem, testDir+"/"+name)
		if live, ok := s.TopicByID(m.TopicID); err == nil && (!ok || p >= live.Partitions()) {
			return fmt.Errorf("directory %s of topic id %s is left", name, m.TopicID)
		}
	}
	return nil
}

// TestTopicsSurviveEveryCrash takes a crash clone after every sync of a scenario, which keeps nothing or a share of what
// was not synced, opens it, and crashes that again after each of its syncs.
func TestTopicsSurviveEveryCrash(t *testing.T) {
	type crash struct {
		mem  *vfs.Mem
		want expected
		what string
	}
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	e := expected{topics: make(map[string]expectedTopic)}
	var crashes []crash
	known := e.clone()
	at := 0
	var mu sync.Mutex // guards crashes, known and at
	fsys := vfs.After(mem, func(o vfs.Op, err error) {
		if o.Kind != vfs.OpSync && o.Kind != vfs.OpSyncDir {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		at++
		for i, keep := range []float64{0, 0.3, 0.7} {
			crashes = append(crashes, crash{mem.CrashClone(uint64(at*3+i), keep), known.clone(), fmt.Sprintf("after %v %d, keeping %v", o, at, keep)})
		}
	})
	s := openStore(t, fsys)
	err := scenario(s, &e, func() {
		mu.Lock()
		defer mu.Unlock()
		known = e.clone()
	})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	if len(crashes) < 60 {
		t.Errorf("%d crashes, want more: was nothing synced?", len(crashes))
	}
	for i, c := range crashes {
		synctest.Test(t, func(t *testing.T) {
			var again []*vfs.Mem
			var mu sync.Mutex // guards again
			s, err := Open(testDir, Options{FS: vfs.After(c.mem, func(o vfs.Op, err error) {
				mu.Lock()
				defer mu.Unlock()
				if (o.Kind == vfs.OpSync || o.Kind == vfs.OpSyncDir) && len(again) < 8 {
					again = append(again, c.mem.CrashClone(uint64(i), 0))
				}
			})})
			if err != nil {
				t.Fatalf("crash %d %s: open: %v", i, c.what, err)
			}
			if err := c.want.verify(s); err != nil {
				t.Errorf("crash %d %s: %v", i, c.what, err)
			}
			if err := verifyDirs(t, c.mem, s); err != nil {
				t.Errorf("crash %d %s: %v", i, c.what, err)
			}
			closeStore(t, s)
			for j, mem := range again {
				s, err := Open(testDir, Options{FS: mem})
				if err != nil {
					t.Fatalf("crash %d %s, then crash %d of the recovery: open: %v", i, c.what, j, err)
				}
				if err := c.want.verify(s); err != nil {
					t.Errorf("crash %d %s, then crash %d of the recovery: %v", i, c.what, j, err)
				}
				closeStore(t, s)
			}
		})
	}
}

// TestTopicsSurviveEveryFailure fails operation i of the scenario for i = 0, 1, … until none fails, and checks what is
// left, seen by a store that does not fail: at once, and after a power loss.
func TestTopicsSurviveEveryFailure(t *testing.T) {
	fault := errors.New("injected")
	for i := int64(0); ; i++ {
		mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
		var failed, over atomic.Bool
		fsys := vfs.Inject(mem, func(o vfs.Op) error {
			if o.Index == i && o.Kind != vfs.OpUnlock && !over.Load() {
				failed.Store(true)
				if o.Kind == vfs.OpSync {
					return &vfs.LostSync{Err: fault}
				}
				return fault
			}
			return nil
		})
		e := expected{topics: make(map[string]expectedTopic)}
		s, err := Open(testDir, Options{FS: fsys})
		if err == nil {
			err = scenario(s, &e, func() {})
			over.Store(true)
			// What has not failed by itself is as it must be without a restart too.
			if verr := e.verify(s); verr != nil && err == nil {
				t.Errorf("operation %d fails: %v", i, verr)
			}
			s.Close()
		}
		for _, after := range []*vfs.Mem{mem.CrashClone(uint64(i), 0), mem.CrashClone(uint64(i), 0.5), mem} {
			s, oerr := Open(testDir, Options{FS: after})
			if oerr != nil {
				t.Fatalf("operation %d fails (%v): open afterwards: %v", i, err, oerr)
			}
			if verr := e.verify(s); verr != nil {
				t.Errorf("operation %d fails (%v): %v", i, err, verr)
			}
			closeStore(t, s)
		}
		if !failed.Load() {
			if err != nil {
				t.Fatalf("without a failure: %v", err)
			}
			return
		}
	}
}

// TestKillIsNotTakenForDurable ends the process before each operation of a scenario, has another go on in what is then
// there and not yet on disk, and takes the power: what the second one acknowledged must be left.
func TestKillIsNotTakenForDurable(t *testing.T) {
	var mu sync.Mutex // several logs are closed at a time
	var killed []*vfs.Mem
	var before []string
	mem := vfs.NewMem(vfs.MemOptions{Crashable: true})
	s := openStore(t, vfs.Inject(mem, func(o vfs.Op) error {
		if o.Kind.Mutates() {
			mu.Lock()
			defer mu.Unlock()
			killed, before = append(killed, mem.KillClone()), append(before, o.String())
		}
		return nil
	}))
	topic := createTopic(t, s, "orders", 2)
	mustProduce(t, topic, 0, "a")
	mustProduce(t, topic, 1, "b")
	closeStore(t, s)
	for i, mem := range killed {
		t.Run(fmt.Sprintf("%d %s", i, before[i]), func(t *testing.T) {
			s := openStore(t, mem)
			topic, ok := s.Topic("orders")
			if !ok {
				topic = createTopic(t, s, "orders", 2)
			}
			var want [2][]string
			for p := range want {
				l, _ := topic.Partition(int32(p))
				mustProduce(t, topic, int32(p), "second")
				var err error
				if want[p], err = values(l); err != nil {
					t.Fatal(err)
				}
			}
			s = openStore(t, mem.CrashClone(uint64(i), 0))
			for p := range want {
				checkValues(t, lookUp(t, s, "orders"), int32(p), want[p]...)
			}
		})
	}
}
