package runtime

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// keeper is a coordinator that knows of each partition what its Topic said.
type keeper struct {
	t     *testing.T
	store *storage.Store
	topic *Topic[*kept]
}

type kept struct {
	partition                       int32
	fresh, loaded, stopped, deleted bool
}

func newStore(t *testing.T) *storage.Store {
	t.Helper()
	s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{}), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func newKeeper(t *testing.T, s *storage.Store, fixed bool) *keeper {
	k := &keeper{t: t, store: s}
	k.topic = NewTopic(TopicOptions[*kept]{
		Store:   s,
		Spec:    storage.TopicSpec{Name: "state", Partitions: 2, Configs: map[string]string{"cleanup.policy": "compact"}},
		Owner:   func(log *storage.Log, fresh bool) *kept { return &kept{partition: log.Index(), fresh: fresh} },
		Stop:    func(w *kept) { w.stopped = true },
		Deleted: func(w *kept) { w.deleted = true },
		Fixed:   fixed,
	})
	return k
}

// want compares the owners with a list of them, as "0 fresh, 1 fresh stopped".
func (k *keeper) want(want string) {
	k.t.Helper()
	var got []string
	for _, w := range k.topic.Owners() {
		got = append(got, w.String())
	}
	if got := strings.Join(got, ", "); got != want {
		k.t.Errorf("owners: got %q, want %q", got, want)
	}
}

func (w *kept) String() string {
	s := fmt.Sprint(w.partition)
	for _, is := range []struct {
		it   bool
		name string
	}{{w.fresh, "fresh"}, {w.loaded, "loaded"}, {w.stopped, "stopped"}, {w.deleted, "deleted"}} {
		if is.it {
			s += " " + is.name
		}
	}
	return s
}

func (k *keeper) ensure() *storage.Topic {
	k.t.Helper()
	t, err := k.topic.Ensure()
	if err != nil {
		k.t.Fatal(err)
	}
	return t
}

func (k *keeper) add(to *storage.Topic, partitions int32) {
	k.t.Helper()
	if err := k.store.AddPartitions(to.ID(), partitions); err != nil {
		k.t.Fatal(err)
	}
}

// What was there at the start is to be loaded, however late somebody asks; the rest is fresh.
func TestPartitionsFromBeforeTheStartAreNotFresh(t *testing.T) {
	s := newStore(t)
	k := newKeeper(t, s, false)
	k.want("")
	if w := k.topic.Of("g"); w != nil {
		t.Errorf("owner without a topic: %v", w)
	}
	topic := k.ensure()
	k.want("0 fresh, 1 fresh")
	if w, want := k.topic.Of("g"), k.topic.Owners()[PartitionFor("g", 2)]; w != want {
		t.Errorf("owner of g: %v, want %v", w, want)
	}

	k = newKeeper(t, s, false)
	k.add(topic, 3)
	k.topic.Load(t.Context(), func(w *kept) { w.loaded = true })
	k.want("0 loaded, 1 loaded, 2 fresh loaded")
	k.add(topic, 4)
	k.want("0 loaded, 1 loaded, 2 fresh loaded, 3 fresh")
}

func TestAFixedTopicLeavesOutWhatIsAdded(t *testing.T) {
	s := newStore(t)
	k := newKeeper(t, s, true)
	topic := k.ensure()
	k.want("0 fresh, 1 fresh")
	k.add(topic, 3)
	k.want("0 fresh, 1 fresh")
	newKeeper(t, s, true).want("0, 1, 2")
}

// It does not matter when somebody first asks for the owners of a topic that was there at the start.
func TestAFixedTopicLeavesOutWhatIsAddedBeforeTheFirstCall(t *testing.T) {
	s := newStore(t)
	topic := newKeeper(t, s, true).ensure()
	k := newKeeper(t, s, true)
	k.add(topic, 3)
	k.want("0, 1")
	k.want("0, 1")

	// A topic that is made later has all that it has when somebody first asks.
	if err := s.DeleteTopic(topic.ID()); err != nil {
		t.Fatal(err)
	}
	topic = k.ensure()
	k.add(topic, 3)
	k.want("0 fresh, 1 fresh, 2 fresh")
	k.add(topic, 4)
	k.want("0 fresh, 1 fresh, 2 fresh")
}

// The owners of a topic that is deleted are told, and a new topic of the name has others, whether somebody looked
// meanwhile or not.
func TestANewTopicHasOtherOwners(t *testing.T) {
	for _, told := range []bool{true, false} {
		s := newStore(t)
		newKeeper(t, s, false).ensure()
		k := newKeeper(t, s, false)
		k.want("0, 1")
		old, topic := k.topic.Owners(), k.ensure()
		other, err := s.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 1})
		if err != nil {
			t.Fatal(err)
		}
		if k.topic.Drop(other) {
			t.Error("another topic is taken for the coordinator's")
		}
		k.want("0, 1")
		if err := s.DeleteTopic(topic.ID()); err != nil {
			t.Fatal(err)
		}
		if told {
			if !k.topic.Drop(topic) {
				t.Error("the coordinator's topic is taken for another")
			}
			k.want("")
		}
		k.ensure()
		k.want("0 fresh, 1 fresh")
		if k.topic.Drop(topic); len(k.topic.Owners()) != 2 {
			t.Error("the old topic took the owners of the new one with it")
		}
		if got := fmt.Sprint(old); got != "[0 deleted 1 deleted]" {
			t.Errorf("the owners before: %s", got)
		}
	}
}

func TestManyMakeOneTopic(t *testing.T) {
	k := newKeeper(t, newStore(t), false)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := k.topic.Ensure(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if c := k.ensure().Config(); !c.Compact || c.Delete {
		t.Errorf("it has not the configs that it is made with: %+v", c)
	}
	k.topic.Spec().Configs["cleanup.policy"] = "delete"
	if got := k.topic.Spec().Configs["cleanup.policy"]; got != "compact" {
		t.Errorf("a caller changed what the topic is made with to %s", got)
	}
}

// Stop waits, and what comes after it is stopped from the beginning.
func TestAStoppedTopicHasNoOwnerThatTakesCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, newStore(t), false)
		topic := k.ensure()
		k.want("0 fresh, 1 fresh")
		release, stopped := make(chan struct{}), make(chan struct{})
		k.topic.Waits().Go(func() { <-release })
		go func() { k.topic.Stop(); close(stopped) }()
		<-k.topic.Life().Done()
		k.want("0 fresh stopped, 1 fresh stopped")
		synctest.Wait()
		select {
		case <-stopped:
			t.Error("it did not wait")
		default:
		}
		close(release)
		<-stopped
		k.add(topic, 3)
		k.want("0 fresh stopped, 1 fresh stopped, 2 fresh stopped")
	})
}

func TestNoLoadBeginsOnceTheContextIsOver(t *testing.T) {
	k := newKeeper(t, newStore(t), false)
	k.add(k.ensure(), 9)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	begun := 0
	k.topic.Load(ctx, func(*kept) {
		mu.Lock()
		defer mu.Unlock()
		begun++
		cancel()
	})
	if begun == 0 || begun > loading {
		t.Errorf("%d of 9 loads were begun, want those that were under way, 1 to %d", begun, loading)
	}
}
