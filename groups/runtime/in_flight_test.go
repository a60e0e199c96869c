package runtime

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// steps is a queue of names over a log, and what was told of them. A sync of the log
// waits at gate and comes to the error that is sent; once it is closed all succeed.
type steps struct {
	t     *testing.T
	log   *storage.Log
	gate  chan error
	mu    sync.Mutex
	waits sync.WaitGroup
	*InFlight[string]
	told []string
	next map[string]string // what is added when a step is told
}

func newSteps(t *testing.T) *steps {
	s := &steps{t: t, gate: make(chan error), next: map[string]string{}}
	fsys := vfs.Inject(vfs.NewMem(vfs.MemOptions{}), func(op vfs.Op) error {
		if op.Kind == vfs.OpSync && strings.HasSuffix(op.Name, ".log") && strings.Contains(op.Name, "steps-0") {
			return <-s.gate
		}
		return nil
	})
	store, err := storage.Open("data", storage.Options{FS: fsys, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	topic, err := store.CreateTopic(storage.TopicSpec{Name: "steps", Partitions: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.log, _ = topic.Partition(0)
	s.InFlight = NewInFlight(s.log, &s.mu, &s.waits, func(_ storage.Appended, step string, err error) {
		if errors.Is(err, storage.ErrStorage) {
			step += " failed"
		} else if err != nil {
			t.Errorf("%s: %v", step, err)
		}
		s.told = append(s.told, step)
		if next := s.next[step]; next != "" {
			s.add(next)
		}
	})
	return s
}

var errMedium = errors.New("no medium")

// add appends a record for a step.
func (s *steps) add(step string) {
	b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
	b.Append(record.Record{Value: []byte(step)})
	appended, err := s.log.Append(b.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator})
	if err != nil {
		s.t.Errorf("append %s: %v", step, err)
		return
	}
	s.Add(appended, step)
}

func (s *steps) do(names ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range names {
		s.add(name)
	}
	s.Settle()
}

// want fails unless the steps were told of in this order so far, and left are in flight.
func (s *steps) want(left int, told ...string) {
	s.t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Equal(s.told, told) || s.Len() != left {
		s.t.Errorf("told of %q with %d in flight, want %q with %d", s.told, s.Len(), told, left)
	}
}

func TestStepsAreToldInLogOrderOnceDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteps(t)
		s.next["b"] = "after b"
		s.do("a", "b")
		s.want(2)
		s.do("c")
		s.want(3)
		close(s.gate)
		s.waits.Wait() // the queue is empty: nobody waits
		s.want(0, "a", "b", "c", "after b")
		s.do("d")
		s.waits.Wait()
		s.want(0, "a", "b", "c", "after b", "d")
	})
}

func TestStepsThatWereCutOffAreToldSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSteps(t)
		s.do("a", "b")
		s.gate <- errMedium
		close(s.gate)
		s.waits.Wait()
		s.want(0, "a failed", "b failed")
		s.do("c")
		s.waits.Wait()
		s.want(0, "a failed", "b failed", "c")
	})
}
