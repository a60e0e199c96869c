package txn

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

// inWorld runs a test in a world.
func inWorld(t *testing.T, f func(t *testing.T, w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer func() { w.stop() }()
		f(t, w)
	})
}

func wantError(t testing.TB, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %v", what, err, want)
	}
}

// everyCall makes each call of a coordinator, and returns the errors by the call's name.
func everyCall(ctx context.Context, c *Coordinator, id string, p Producer) map[string]error {
	errs := map[string]error{"available": c.Available(id)}
	_, errs["init"] = c.Init(ctx, InitRequest{TransactionalID: id, Timeout: time.Minute})
	errs["add"] = c.Add(ctx, AddRequest{TransactionalID: id, Producer: p})
	_, errs["verify"] = c.Verify(ctx, AddRequest{TransactionalID: id, Producer: p})
	_, errs["end"] = c.End(ctx, EndRequest{TransactionalID: id, Producer: p})
	_, errs["describe"] = c.Describe(id)
	return errs
}

func TestNothingIsAnsweredBeforeThePartitionIsRead(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.init("payments")
		c := New(Options{Store: w.store, Now: w.clock, EndOffsets: w.c.o.EndOffsets})
		for name, err := range everyCall(t.Context(), c, "payments", p) {
			wantError(t, name, err, ErrLoading)
		}
		_, err := c.List(ListRequest{MinDuration: -1})
		wantError(t, "list", err, ErrLoading)
	})
}

// A partition that cannot be read takes none of the others with it.
func TestAPartitionThatCannotBeReadHasNoCoordinator(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		a, b := w.init("payments"), w.init("returns-4")
		if w.c.ownerOf("payments") == w.c.ownerOf("returns-4") {
			t.Fatal("both ids are in one partition")
		}
		broken := fmt.Sprintf("/%s-%d/", StateTopic, w.c.ownerOf("payments").log.Index())
		w.stop()
		w.breakDisk(func(op vfs.Op) error {
			if op.Kind == vfs.OpReadAt && strings.Contains(op.Name, broken) {
				return errors.New("disk on fire")
			}
			return nil
		})
		w.start(Config{})
		for name, err := range everyCall(t.Context(), w.c, "payments", a) {
			wantError(t, name, err, ErrNotCoordinator)
		}
		got, err := w.c.List(ListRequest{MinDuration: -1})
		if err != nil || len(got.Transactions) != 1 || got.Transactions[0].TransactionalID != "returns-4" {
			t.Errorf("list: got %+v, error %v, want returns-4 only", got, err)
		}
		w.add("returns-4", b, true)
	})
}

// Whatever else is in the log is left out, and told of.
func TestRecordsOfOthersAreLeftOut(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.init("payments")
		log := w.c.ownerOf("payments").log
		sample := samples()["v1 ongoing"]
		batch := record.NewBuilder(record.BuilderOptions{LeaderEpoch: record.NoLeaderEpoch})
		for _, r := range []record.Record{
			{Key: []byte{0, 1, 0, 1, 'x'}, Value: []byte{0, 0}}, // of another type
			{Key: appendKey(nil, "payments"), Value: []byte{0, 9}},
			{Key: []byte{0}, Value: []byte{0, 9}},
			{Key: appendKey(nil, sampleID), Value: appendValue(nil, sample)},
			{Key: appendKey(nil, "gone"), Value: appendValue(nil, sample)},
			{Key: appendKey(nil, "gone")},
			{Key: appendKey(nil, "nobody"), Value: appendValue(nil, &transaction{Producer: NoProducer})},
		} {
			batch.Append(r)
		}
		a, err := log.Append(batch.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator})
		if err == nil {
			err = log.WaitDurable(t.Context(), a)
		}
		if err != nil {
			t.Fatal(err)
		}
		w.stop()
		w.start(Config{})
		got, err := w.c.List(ListRequest{MinDuration: -1})
		var ids []string
		for _, l := range got.Transactions {
			ids = append(ids, l.TransactionalID)
		}
		if want := []string{sampleID, "payments"}; err != nil || !slices.Equal(ids, want) {
			t.Errorf("list: got %q, error %v, want %q", ids, err, want)
		}
	})
}

// Who does not wait any longer leaves a step that goes on.
func TestAStepGoesOnWhenItsCallerDoesNotWait(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.init("payments")
		log := fmt.Sprintf("%s-%d", StateTopic, w.c.ownerOf("payments").log.Index())
		w.hold(log)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := w.c.Add(ctx, AddRequest{TransactionalID: "payments", Producer: p, Partitions: []Partition{ordersZero}})
		wantError(t, "add", err, ErrNotAvailable)
		w.free(log)
		if d, err := w.c.Describe("payments"); err != nil || d.State != "Ongoing" {
			t.Errorf("got %+v, error %v, want it ongoing", d, err)
		}
	})
}

// A stop answers those who wait, waits for what is on its way to the disk, and begins
// nothing else.
func TestAStopWaitsForTheDiskAndLetsNobodyWaitForIt(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic("orders", 1)
		p := w.init("payments")
		w.add("payments", p, true, ordersZero)
		log := fmt.Sprintf("%s-%d", StateTopic, w.c.ownerOf("payments").log.Index())
		w.hold(log)
		answer := make(chan error, 1)
		go func() {
			_, err := w.c.End(t.Context(), EndRequest{TransactionalID: "payments", Producer: p, Commit: true, V2: true})
			answer <- err
		}()
		synctest.Wait()
		stopped := make(chan struct{})
		go func() { w.stop(); close(stopped) }()
		synctest.Wait()
		select {
		case err := <-answer:
			wantError(t, "end", err, ErrNotAvailable)
		default:
			t.Error("who waits is not answered")
		}
		select {
		case <-stopped:
			t.Error("stopped before the disk was done")
		default:
		}
		w.free(log)
		<-stopped
		w.start(Config{})
		w.wantMarkers(ordersZero, "0 data, commit of 0.1") // by the second start
		if d, err := w.c.Describe("payments"); err != nil || d.State != "CompleteCommit" {
			t.Errorf("got %+v, error %v, want it complete", d, err)
		}
	})
}

// A marker that nobody takes does not hold the stop, even while it is waited for.
func TestAStopDoesNotWaitForMarkers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.topic(offsetsTopic, 1)
		stuck := make(chan struct{})
		w.group = func(_ *world, ctx context.Context, _ int32, _ Marker) error {
			close(stuck)
			<-ctx.Done()
			return ctx.Err()
		}
		p := w.init("payments")
		w.add("payments", p, false, Partition{offsetsTopic, 0})
		w.end("payments", p, true, false)
		<-stuck
		w.stop()
		w.group = (*world).endOffsets
		w.start(Config{})
		if d, err := w.c.Describe("payments"); err != nil || d.State != "CompleteCommit" {
			t.Errorf("got %+v, error %v, want it complete", d, err)
		}
	})
}

// What is due is done without anybody asking.
func TestRunDoesWhatIsDueByItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := storage.Open("data", storage.Options{FS: vfs.NewMem(vfs.MemOptions{}), Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		fails := 3
		w := &world{t: t, store: s}
		w.c = New(Options{Store: s, Now: time.Now, Config: Config{IDExpiration: 12 * time.Hour}, EndOffsets: func(context.Context, int32, Marker) error {
			if fails--; fails >= 0 {
				return errors.New("group coordinator is loading")
			}
			return nil
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.c.Run(ctx) }()
		if _, err := w.c.EnsureTopic(); err != nil {
			t.Fatal(err)
		}
		w.topic(offsetsTopic, 1)
		p := w.init("payments") // for a minute
		w.add("payments", p, true, Partition{offsetsTopic, 0})
		states := map[time.Duration]string{}
		began := time.Now()
		for _, at := range []time.Duration{time.Minute, 71 * time.Second, 75 * time.Second, 11 * time.Hour, 14 * time.Hour} {
			<-time.After(time.Until(began.Add(at)))
			d, err := w.c.Describe("payments")
			if states[at] = d.State; err != nil {
				states[at] = kafkaName(err)
			}
		}
		want := map[time.Duration]string{time.Minute: "Ongoing", 71 * time.Second: "CompleteAbort", 75 * time.Second: "CompleteAbort", 11 * time.Hour: "CompleteAbort", 14 * time.Hour: "TRANSACTIONAL_ID_NOT_FOUND"}
		if fmt.Sprint(states) != fmt.Sprint(want) || fails != -1 {
			t.Errorf("got %v with %d failures left, want %v", states, fails, want)
		}
		cancel()
		if err := errors.Join(<-done, s.Close()); err != nil {
			t.Error(err)
		}
	})
}

// An id stays in its partition as long as the broker runs, however many there are.
func TestPartitionsThatAreAddedAreNotUsedBeforeTheNextStart(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.init("payments")
		topic, _ := w.store.Topic(StateTopic)
		if err := w.store.AddPartitions(topic.ID(), 7); err != nil {
			t.Fatal(err)
		}
		w.add("payments", p, true, ordersZero)
		w.stop()
		w.start(Config{})
		if n := len(w.c.all()); n != 7 {
			t.Errorf("%d partitions are used after a start, want 7", n)
		}
	})
}

func TestATransactionThatFitsIntoNoRecordIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.init("payments")
		topic, _ := w.store.Topic(StateTopic)
		if err := w.store.SetTopicConfigs(topic.ID(), map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1000"}); err != nil {
			t.Fatal(err)
		}
		many := make([]Partition, 300)
		for i := range many {
			many[i] = Partition{"orders", int32(i)}
		}
		wantError(t, "add 300 partitions", w.c.Add(t.Context(), AddRequest{TransactionalID: "payments", Producer: p, Partitions: many}), ErrTooLarge)
		w.add("payments", p, true, many[:100]...)
		long := AddRequest{TransactionalID: "payments", Producer: p, Partitions: []Partition{{strings.Repeat("x", 1<<15), 0}}}
		wantError(t, "add a long name", w.c.Add(t.Context(), long), ErrInvalidRequest)
	})
}

func TestATransactionThatWasTakenCanBeAborted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		p := w.init("payments")
		topic, _ := w.store.Topic(StateTopic)
		if err := w.store.SetTopicConfigs(topic.ID(), map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1000"}); err != nil {
			t.Fatal(err)
		}
		for i := int32(0); ; i++ { // until there is no room for one more
			r := AddRequest{TransactionalID: "payments", Producer: p, Partitions: []Partition{{"orders", i}}}
			if err := w.c.Add(t.Context(), r); err != nil {
				wantError(t, "add what has no room", err, ErrTooLarge)
				break
			}
		}
		w.advance(2 * time.Minute)
		if d, err := w.c.Describe("payments"); err != nil || d.State != "CompleteAbort" {
			t.Errorf("after its timeout it is %q, %v; want CompleteAbort", d.State, err)
		}
	})
}

func TestTheTopicIsMadeWithKafkasConfigs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		topic, _ := w.store.Topic(StateTopic)
		c := topic.Config()
		if !c.Compact || c.Delete || c.SegmentBytes != 100<<20 || c.CompressionType != "uncompressed" || topic.Partitions() != w.c.TopicSpec().Partitions {
			t.Errorf("got %+v with %d partitions", c, topic.Partitions())
		}
		if c := New(Options{Store: w.store, Now: w.clock, EndOffsets: w.c.o.EndOffsets}); c.TopicSpec().Partitions != 50 {
			t.Errorf("%d partitions by default, want 50", c.TopicSpec().Partitions)
		}
	})
}

// The topic may be made by who is the last to call.
func TestACoordinatorThatHasEndedTakesNoCallEvenOfANewTopic(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		topic, _ := w.store.Topic(StateTopic)
		if err := w.store.DeleteTopic(topic.ID()); err != nil {
			t.Fatal(err)
		}
		c := New(Options{Store: w.store, Now: w.clock, EndOffsets: w.c.o.EndOffsets})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := c.EnsureTopic(); err != nil {
			t.Fatal(err)
		}
		for name, err := range everyCall(t.Context(), c, "payments", Producer{}) {
			wantError(t, name, err, ErrNotAvailable)
		}
		c.Tick()
		c.topic.Waits().Wait()
	})
}
