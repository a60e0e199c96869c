package share

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// world is a store, a share state and a topic of two partitions.
type world struct {
	t     testing.TB
	now   time.Time
	store *storage.Store
	st    *State
	topic *storage.Topic
}

// open opens what is on fsys.
func open(t testing.TB, fsys vfs.FS, config Config) *world {
	t.Helper()
	w := &world{t: t, now: time.UnixMilli(1700000000000)}
	now := func() time.Time { return w.now }
	s, err := storage.Open("data", storage.Options{FS: fsys, Now: now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if config.StatePartitions == 0 {
		config.StatePartitions = 3
	}
	w.store, w.st = s, New(Options{Store: s, Now: now, Config: config})
	if w.topic, _ = s.Topic("orders"); w.topic == nil {
		if w.topic, err = s.CreateTopic(storage.TopicSpec{Name: "orders", Partitions: 2}); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func newWorld(t testing.TB, config Config) *world {
	return open(t, vfs.NewMem(vfs.MemOptions{}), config)
}

func (w *world) key(partition int32) Key { return Key{"g", w.topic.ID(), partition} }

func (w *world) log(partition int32) *storage.Log {
	log, _ := w.topic.Partition(partition)
	return log
}

// produce appends batches of so many records each.
func (w *world) produce(partition int32, batches ...int) {
	w.t.Helper()
	for _, n := range batches {
		b := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		for i := range n {
			b.Append(record.Record{Timestamp: w.now.UnixMilli(), Value: fmt.Append(nil, "value ", i)})
		}
		a, err := w.log(partition).Append(b.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator})
		if err == nil {
			err = w.log(partition).WaitDurable(w.t.Context(), a)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) initialize(partition int32, start int64) {
	w.t.Helper()
	if err := w.st.Initialize(w.t.Context(), w.key(partition), start); err != nil {
		w.t.Fatal(err)
	}
}

// request fetches without waiting.
func (w *world) request(member string, partitions ...int32) *FetchRequest {
	r := &FetchRequest{Group: "g", Member: member, MinBytes: 1, MaxBytes: 1 << 20, MaxRecords: 500, BatchSize: 500}
	for _, p := range partitions {
		r.Partitions = append(r.Partitions, FetchPartition{w.topic.ID(), w.log(p)})
	}
	return r
}

// fetch returns what was acquired, as text.
func (w *world) fetch(r *FetchRequest) string {
	w.t.Helper()
	got, err := w.st.Fetch(w.t.Context(), r)
	if err != nil {
		return err.Error()
	}
	return fetchedText(r, got)
}

func fetchedText(r *FetchRequest, got []Fetched) string {
	var out []string
	for i, f := range got {
		for _, a := range f.Acquired {
			out = append(out, fmt.Sprintf("%d:%d-%d×%d", r.Partitions[i].Log.Index(), a.First, a.Last, a.Deliveries))
		}
		if f.Err != nil {
			out = append(out, fmt.Sprintf("%d:%v", r.Partitions[i].Log.Index(), f.Err))
		}
	}
	return strings.Join(out, " ")
}

func (w *world) ack(member string, partition int32, first, last int64, types ...AckType) error {
	return w.st.Acknowledge("g", member, []Acknowledgement{{w.topic.ID(), partition, []Ack{{Extent{first, last}, types}}}})(w.t.Context())[0]
}

// tick does what is due, and waits for the disk.
func (w *world) tick() {
	w.st.Tick()
	w.st.topic.Waits().Wait()
}

func (w *world) want(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// summary is what is stored, as text.
func (w *world) summary(partition int32) string {
	start, complete, ok := w.st.Summary(w.key(partition))
	return fmt.Sprint(start, " ", complete, " ", ok)
}

func TestAcknowledgedRecordsStaySoAfterARestart(t *testing.T) {
	fsys := vfs.NewMem(vfs.MemOptions{})
	w := open(t, fsys, Config{})
	w.produce(0, 10, 10)
	w.want("before anything", w.summary(0), "-1 -1 false")
	w.initialize(0, 0)
	w.want("initialized", w.summary(0), "0 0 true")
	w.want("fetch", w.fetch(w.request("a", 0)), "0:0-19×1")
	if err := w.ack("a", 0, 0, 4, Accept); err != nil {
		t.Fatal(err)
	}
	if err := w.ack("a", 0, 10, 12, Reject, Release, Accept); err != nil {
		t.Fatal(err)
	}
	w.want("acknowledged", w.summary(0), "5 2 true")
	if err := w.store.Close(); err != nil {
		t.Fatal(err)
	}
	w = open(t, fsys, Config{})
	w.want("after a restart", w.summary(0), "5 2 true")
	w.want("fetch", w.fetch(w.request("b", 0)), "0:5-9×1 0:11-11×2 0:13-19×1")
}

// The topic may be made by who is the last to call.
func TestAStateThatHasEndedTakesNoCallEvenOfANewTopic(t *testing.T) {
	w := newWorld(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.st.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := w.st.Initialize(t.Context(), w.key(0), 0); !errors.Is(err, ErrNotAvailable) {
		t.Errorf("initialize: got %v, want %v", err, ErrNotAvailable)
	}
	w.st.topic.Waits().Wait()
	for _, s := range w.st.all() {
		if got := stateRecords(t, s.log); got != "" {
			t.Errorf("%s-%d: got %q, want nothing written", StateTopic, s.log.Index(), got)
		}
	}
}

func TestWhatIsNotInitializedCannotBeFetched(t *testing.T) {
	w := newWorld(t, Config{})
	w.produce(0, 1)
	for range 2 {
		got, _ := w.st.Fetch(t.Context(), w.request("a", 0))
		if code := got[0].Err; code == nil || !strings.Contains(code.Error(), ErrNotInitialized.Error()) {
			t.Errorf("fetch: got %v, want %v", code, ErrNotInitialized)
		}
		w.initialize(1, 0) // makes the topic
	}
	w.initialize(0, 0)
	w.want("fetch", w.fetch(w.request("a", 0)), "0:0-0×1")
	if err := w.st.Delete(t.Context(), w.key(0)); err != nil {
		t.Fatal(err)
	}
	w.want("deleted", w.summary(0), "-1 -1 false")
	if err := w.ack("a", 0, 0, 0, Accept); err == nil || !strings.Contains(err.Error(), ErrUnknownPartition.Error()) {
		t.Errorf("acknowledge what was deleted: got %v, want %v", err, ErrUnknownPartition)
	}
}

func TestAGroupBeginsWhereItsPolicySays(t *testing.T) {
	for _, test := range []struct {
		config GroupConfig
		want   string
	}{
		{GroupConfig{Reset: ResetLatest}, ""},
		{GroupConfig{Reset: ResetEarliest}, "0:0-5×1"},
		{GroupConfig{Reset: ResetByDuration, ResetAge: time.Minute}, "0:3-5×1"},
		{GroupConfig{Reset: ResetByDuration, ResetAge: time.Second}, "0:no record is younger than 1s: no such offset yet"},
	} {
		test.config.Limits = DefaultGroupConfig().Limits
		w := newWorld(t, Config{Group: func(string) GroupConfig { return test.config }})
		w.produce(0, 3)
		w.now = w.now.Add(time.Hour)
		w.produce(0, 3)
		w.now = w.now.Add(30 * time.Second)
		w.initialize(0, -1)
		w.want("stored", w.summary(0), "-1 -1 true")
		w.want(fmt.Sprint("fetch with ", test.config.Reset), w.fetch(w.request("a", 0)), test.want)
	}
}

// A snapshot follows so many updates, and what is before the oldest is pruned.
func TestTheLogHoldsUpdatesSinceTheLastSnapshot(t *testing.T) {
	w := newWorld(t, Config{UpdatesPerSnapshot: 3, Group: func(string) GroupConfig {
		return GroupConfig{Limits: Limits{MaxLocks: 100, MaxDeliveries: 5, Lock: time.Hour}}
	}})
	w.produce(0, 30)
	w.initialize(0, 0)
	w.fetch(w.request("a", 0))
	for o := range int64(9) {
		if err := w.ack("a", 0, 2*o, 2*o, Accept); err != nil {
			t.Fatal(err)
		}
	}
	shard := w.st.shardOf(w.key(0))
	w.want("records", stateRecords(t, shard.log), "snapshot0 update0 update0 update0 snapshot1 update1 update1 update1 snapshot2 update2")
	w.now = w.now.Add(10 * time.Minute)
	w.tick()
	w.want("pruned", stateRecords(t, shard.log), "snapshot2 update2 snapshot3")
	w.now = w.now.Add(10 * time.Minute)
	w.tick()
	w.want("pruned again", stateRecords(t, shard.log), "snapshot3")
	w.want("summary", w.summary(0), "1 8 true")
}

// A state that nobody changes any more keeps nothing of what others write behind it.
func TestAStateThatRestsDoesNotKeepTheLog(t *testing.T) {
	w := newWorld(t, Config{StatePartitions: 1, UpdatesPerSnapshot: 3, Group: func(string) GroupConfig {
		return GroupConfig{Limits: Limits{MaxLocks: 100, MaxDeliveries: 5, Lock: time.Hour}}
	}})
	w.produce(0, 30)
	w.initialize(1, 5) // rests
	w.initialize(0, 0)
	w.fetch(w.request("a", 0))
	for o := range int64(3) {
		if err := w.ack("a", 0, 2*o, 2*o, Accept); err != nil {
			t.Fatal(err)
		}
	}
	shard := w.st.shardOf(w.key(0))
	w.want("records", stateRecords(t, shard.log), "snapshot0 snapshot0 update0 update0 update0")
	for range 3 {
		w.now = w.now.Add(10 * time.Minute)
		w.tick()
	}
	w.want("pruned", stateRecords(t, shard.log), "snapshot1 snapshot1")
	w.want("what rests", w.summary(1), "5 0 true")
	w.want("what does not", w.summary(0), "1 2 true")
}

// Where all that was stored is deleted, nothing is kept.
func TestALogOfNothingIsEmptied(t *testing.T) {
	w := newWorld(t, Config{})
	w.initialize(0, 5)
	if err := w.st.Delete(t.Context(), w.key(0)); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(10 * time.Minute)
	w.tick()
	w.want("records", stateRecords(t, w.st.shardOf(w.key(0)).log), "")
	w.initialize(0, 6)
	w.want("summary", w.summary(0), "6 0 true")
}

// stateRecords names the records of a log.
func stateRecords(t *testing.T, log *storage.Log) string {
	t.Helper()
	offsets, err := log.Offsets()
	if err != nil {
		t.Fatal(err)
	}
	res, err := log.Read(nil, storage.ReadRequest{Offset: offsets.LogStart, MaxBytes: 1 << 20, MinOneBatch: true})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	var reader record.Reader
	for rest := res.Data; len(rest) > 0; {
		var b record.Batch
		if b, rest, err = record.Cut(rest); err != nil {
			t.Fatal(err)
		}
		for r := range reader.Records(b) {
			name, err := stateRecordText(r)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// stateRecordText names a record by its kind and the epoch of its snapshot.
func stateRecordText(r record.Record) (string, error) {
	kind, _, _, err := parseKey(r.Key)
	if err != nil {
		return "", err
	}
	if kind == typeUpdate {
		u, err := parseUpdate(r.Value)
		if err != nil {
			return "", err
		}
		return fmt.Sprint("update", u.snapshotEpoch), nil
	}
	s, err := parseSnapshot(r.Value)
	if err != nil {
		return "", err
	}
	return fmt.Sprint("snapshot", s.snapshotEpoch), nil
}

func TestADeletedTopicIsForgotten(t *testing.T) {
	w := newWorld(t, Config{})
	w.produce(0, 1)
	w.initialize(0, 0)
	w.fetch(w.request("a", 0))
	if err := w.store.DeleteTopic(w.topic.ID()); err != nil {
		t.Fatal(err)
	}
	w.st.topic.Waits().Wait()
	w.want("summary", w.summary(0), "-1 -1 false")
}

func TestLocksEndInTimeWithoutAnybodyAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		began := time.Now()
		first := w.now
		w.st.o.Now = func() time.Time { return first.Add(time.Since(began)) }
		go func() { _ = w.st.Run(t.Context()) }()
		w.produce(0, 3)
		w.initialize(0, 0)
		w.want("fetch", w.fetch(w.request("a", 0)), "0:0-2×1")
		r := w.request("b", 0)
		r.Deadline = w.st.o.Now().Add(time.Minute)
		w.want("fetch that waits", w.fetch(r), "0:0-2×2")
		if got := time.Since(began); got != 30*time.Second {
			t.Errorf("the lock ended after %v, want 30s", got)
		}
	})
}

func TestAFetchWaitsForRecords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{})
		began := time.Now()
		first := w.now
		w.st.o.Now = func() time.Time { return first.Add(time.Since(began)) }
		w.initialize(0, 0)
		w.initialize(1, 0)
		r := w.request("a", 0, 1)
		r.Deadline = first.Add(time.Minute)
		answer := make(chan string)
		go func() { answer <- w.fetch(r) }()
		synctest.Wait()
		w.produce(1, 2)
		w.want("after a record", <-answer, "1:0-1×1")

		// What is given back is delivered to who waits.
		go func() { answer <- w.fetch(r) }()
		synctest.Wait()
		if err := w.ack("a", 1, 0, 1, Release); err != nil {
			t.Fatal(err)
		}
		w.want("after a release", <-answer, "1:0-1×2")

		// Nothing comes.
		w.want("at the deadline", w.fetch(r), "")
		if got := time.Since(began); got != time.Minute {
			t.Errorf("waited until %v, want 1m", got)
		}
	})
}

// However many fetch at once, each record goes to one of them.
func TestMembersDivideRecords(t *testing.T) {
	w := newWorld(t, Config{})
	w.produce(0, slices.Repeat([]int{5}, 40)...)
	w.initialize(0, 0)
	seen := make(chan AcquiredRecords, 1000)
	done := make(chan bool)
	for m := range 4 {
		go func() {
			defer func() { done <- true }()
			for {
				r := w.request(fmt.Sprint("m", m), 0)
				r.MaxRecords = 7
				got, err := w.st.Fetch(t.Context(), r)
				if err != nil || len(got[0].Acquired) == 0 && w.done() {
					return
				}
				for _, a := range got[0].Acquired {
					seen <- a
				}
			}
		}()
	}
	for range 4 {
		<-done
	}
	close(seen)
	var list []AcquiredRecords
	for a := range seen {
		list = append(list, a)
	}
	slices.SortFunc(list, func(a, b AcquiredRecords) int { return int(a.First - b.First) })
	next := int64(0)
	for _, a := range list {
		if a.First != next || a.Deliveries != 1 {
			t.Fatalf("acquired %+v, want it to begin at %d", a, next)
		}
		next = a.Last + 1
	}
	if next != 200 {
		t.Errorf("%d records were acquired, want 200", next)
	}
}

func (w *world) done() bool {
	a := w.st.reserve(w.key(0), true)
	return a != nil && a.offset == 200
}
