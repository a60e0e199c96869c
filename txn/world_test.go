package txn

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kaen-log/gateway/groups/runtime"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

var start = time.UnixMilli(1_700_000_000_000)

// world is a store, a coordinator that runs, and the group coordinator's side of a
// transaction. It lives in a synctest bubble; time goes by only when a test says so.
type world struct {
	t     testing.TB
	mem   *vfs.Mem
	fsys  vfs.FS
	store *storage.Store
	c     *Coordinator
	stop  func()                                                               // ends the broker
	kill  func()                                                               // ends it whatever the disk says
	group func(w *world, ctx context.Context, partition int32, m Marker) error // the group coordinator

	mu      sync.Mutex
	now     time.Time
	gates   map[string]chan error // by log: a sync of it waits for what is sent
	offsets []string              // markers that the group coordinator was given
	refuse  error                 // what it answers
	failed  func(op vfs.Op) error // nil, or what the disk says
}

// newWorld starts on an empty disk, in which __transaction_state has two partitions.
func newWorld(t testing.TB) *world { return openWorld(t, vfs.NewMem(vfs.MemOptions{Crashable: true})) }

func openWorld(t testing.TB, mem *vfs.Mem) *world {
	return openWorldAt(t, mem, start, (*world).endOffsets)
}

func openWorldAt(t testing.TB, mem *vfs.Mem, now time.Time, group func(*world, context.Context, int32, Marker) error) *world {
	w := &world{t: t, mem: mem, now: now, group: group, gates: map[string]chan error{}}
	w.fsys = vfs.Inject(mem, func(op vfs.Op) error {
		w.mu.Lock()
		failed := w.failed
		w.mu.Unlock()
		if failed != nil {
			if err := failed(op); err != nil {
				return err
			}
		}
		if op.Kind != vfs.OpSync || !strings.HasSuffix(op.Name, ".log") {
			return nil
		}
		w.mu.Lock()
		var gate chan error
		for log, g := range w.gates {
			if strings.Contains(op.Name, "/"+log+"/") {
				gate = g
			}
		}
		w.mu.Unlock()
		if gate != nil {
			return <-gate
		}
		return nil
	})
	w.start(Config{})
	return w
}

// start opens the broker on what is on the disk.
func (w *world) start(config Config) {
	now := w.clock
	s, err := storage.Open("data", storage.Options{FS: w.fsys, Now: now})
	if err != nil {
		w.t.Fatal(err)
	}
	if config.Partitions == 0 {
		config.Partitions = 2
	}
	w.store, w.c = s, New(Options{Store: s, Now: now, Config: config, EndOffsets: func(ctx context.Context, partition int32, m Marker) error {
		return w.group(w, ctx, partition, m)
	}})
	if _, err := w.c.EnsureTopic(); err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	var closed error
	c := w.c
	go func() { done <- c.Run(ctx) }()
	w.kill = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Error(err)
		}
		closed = s.Close()
	})
	w.stop = sync.OnceFunc(func() {
		w.kill()
		if closed != nil {
			w.t.Error(closed)
		}
	})
	synctest.Wait()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

// endOffsets is a group coordinator that only says what it was given.
func (w *world) endOffsets(_ context.Context, partition int32, m Marker) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		return w.refuse
	}
	version := 1
	if m.V2 {
		version = 2
	}
	w.offsets = append(w.offsets, fmt.Sprintf("%s-%d: %s, version %d", offsetsTopic, partition, markerText(m.Commit, m.Producer), version))
	return nil
}

func markerText(commit bool, p Producer) string {
	kind := "abort"
	if commit {
		kind = "commit"
	}
	return fmt.Sprintf("%s of %s", kind, producerText(p))
}

func producerText(p Producer) string { return fmt.Sprintf("%d.%d", p.ID, p.Epoch) }

// topic makes a topic.
func (w *world) topic(name string, partitions int32) *storage.Topic {
	w.t.Helper()
	topic, err := w.store.CreateTopic(storage.TopicSpec{Name: name, Partitions: partitions})
	if err != nil {
		w.t.Fatal(err)
	}
	return topic
}

func (w *world) log(p Partition) *storage.Log {
	w.t.Helper()
	topic, ok := w.store.Topic(p.Topic)
	if !ok {
		w.t.Fatalf("no topic %s", p.Topic)
	}
	log, ok := topic.Partition(p.Partition)
	if !ok {
		w.t.Fatalf("no partition %v", p)
	}
	return log
}

// produce appends a transactional batch, as if it had been verified.
func (w *world) produce(at Partition, p Producer) {
	w.t.Helper()
	b := record.NewBuilder(record.BuilderOptions{
		LeaderEpoch: record.NoLeaderEpoch, Transactional: true,
		HasProducer: true, ProducerID: p.ID, ProducerEpoch: p.Epoch, BaseSequence: record.NoSequence,
	})
	b.Append(record.Record{Timestamp: w.now.UnixMilli(), Value: []byte("v")})
	log := w.log(at)
	a, err := log.Append(b.Bytes(), storage.AppendOptions{Origin: storage.OriginCoordinator, Unverified: true})
	if err == nil {
		err = log.WaitDurable(context.Background(), a)
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// batches reads a log; it is durable what comes.
func (w *world) batches(log *storage.Log, f func(b record.Batch, r record.Record)) {
	w.t.Helper()
	var reader record.Reader
	for b, err := range runtime.Batches(log) {
		if err != nil {
			w.t.Fatal(err)
		}
		for r, err := range reader.Records(b) {
			if err != nil {
				w.t.Fatal(err)
			}
			f(b, r)
		}
	}
}

// markers are those in a partition, with the number of data batches before each.
func (w *world) markers(p Partition) []string {
	w.t.Helper()
	out, data := []string{}, 0
	w.batches(w.log(p), func(b record.Batch, r record.Record) {
		if !b.Control() {
			data++
			return
		}
		m, _, err := record.ParseEndTxnMarker(r)
		if err != nil {
			w.t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%d data, %s", data, markerText(m.Commit, Producer{b.ProducerID(), b.ProducerEpoch()})))
		data = 0
	})
	if data > 0 {
		out = append(out, fmt.Sprint(data, " data"))
	}
	return out
}

// recordText tells of a record of __transaction_state.
func recordText(t testing.TB, r record.Record) string {
	t.Helper()
	id, _, err := parseKey(r.Key)
	if err != nil {
		t.Fatal(err)
	}
	if r.Value == nil {
		return id + ": tombstone"
	}
	is, err := parseValue(id, r.Value)
	if err != nil {
		t.Fatal(err)
	}
	return id + ": " + transactionText(is)
}

// transactionText tells of a transaction, with times from the start.
func transactionText(t *transaction) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v %s", t.state, producerText(t.Producer))
	for _, id := range []struct {
		name string
		id   int64
	}{{"previous", t.previousID}, {"next", t.nextID}} {
		if id.id != -1 && id.id != t.ID {
			fmt.Fprintf(&b, " %s=%d", id.name, id.id)
		}
	}
	if t.version != 0 {
		fmt.Fprintf(&b, " v%d", t.version)
	}
	if t.state != empty {
		fmt.Fprintf(&b, " %s", partitionsText(t.partitions))
	}
	fmt.Fprintf(&b, " timeout=%v", time.Duration(t.timeoutMs)*time.Millisecond)
	if t.startMs != -1 {
		fmt.Fprintf(&b, " began=%v", time.UnixMilli(t.startMs).Sub(start))
	}
	fmt.Fprintf(&b, " at=%v", time.UnixMilli(t.updateMs).Sub(start))
	return b.String()
}

func partitionsText(partitions []Partition) string {
	out := make([]string, len(partitions))
	for i, p := range partitions {
		out[i] = fmt.Sprintf("%s-%d", p.Topic, p.Partition)
	}
	return "[" + strings.Join(out, " ") + "]"
}

// hold lets the syncs of a log, as orders-0, wait; release lets one through, or with an
// error lets it fail and all others pass; free lets them all.
func (w *world) hold(log string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gates[log] = make(chan error)
}

func (w *world) release(log string, err error) {
	w.t.Helper()
	w.mu.Lock()
	gate := w.gates[log]
	if err != nil {
		delete(w.gates, log) // what was written is cut off again, which is synced too
	}
	w.mu.Unlock()
	select {
	case gate <- err:
	default:
		w.t.Fatalf("no sync of %s waits", log)
	}
	if err != nil {
		close(gate)
	}
	synctest.Wait()
}

func (w *world) free(log string) {
	w.mu.Lock()
	gate := w.gates[log]
	delete(w.gates, log)
	w.mu.Unlock()
	close(gate)
	synctest.Wait()
}

// breakDisk lets what the function says of operations come to pass; nil repairs it.
func (w *world) breakDisk(f func(op vfs.Op) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.failed = f
}

// advance lets time go by and what is due then be done.
func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	w.now = w.now.Add(d)
	w.mu.Unlock()
	w.c.Tick()
	synctest.Wait()
}

// kafkaNames are the errors with Kafka's names for them.
var kafkaNames = []struct {
	err  error
	name string
}{
	{ErrLoading, "COORDINATOR_LOAD_IN_PROGRESS"},
	{ErrNotAvailable, "COORDINATOR_NOT_AVAILABLE"},
	{ErrNotCoordinator, "NOT_COORDINATOR"},
	{ErrTooLarge, "UNKNOWN_SERVER_ERROR"},
	{ErrInvalidRequest, "INVALID_REQUEST"},
	{ErrInvalidTimeout, "INVALID_TRANSACTION_TIMEOUT"},
	{ErrInvalidProducerIDMapping, "INVALID_PRODUCER_ID_MAPPING"},
	{ErrProducerFenced, "PRODUCER_FENCED"},
	{ErrConcurrentTransactions, "CONCURRENT_TRANSACTIONS"},
	{ErrInvalidTxnState, "INVALID_TXN_STATE"},
	{ErrNotInTransaction, "TRANSACTION_ABORTABLE"},
	{ErrTransactionalIDNotFound, "TRANSACTIONAL_ID_NOT_FOUND"},
	{ErrInvalidRegex, "INVALID_REGULAR_EXPRESSION"},
}

func kafkaName(err error) string {
	if err == nil {
		return "NONE"
	}
	for _, k := range kafkaNames {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return err.Error()
}

// init, add and end are calls that must succeed.
func (w *world) init(id string) Producer {
	w.t.Helper()
	p, err := w.c.Init(context.Background(), InitRequest{TransactionalID: id, Timeout: time.Minute})
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func (w *world) add(id string, p Producer, v2 bool, partitions ...Partition) {
	w.t.Helper()
	if err := w.c.Add(context.Background(), AddRequest{TransactionalID: id, Producer: p, Partitions: partitions, V2: v2}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) end(id string, p Producer, commit, v2 bool) Producer {
	w.t.Helper()
	next, err := w.c.End(context.Background(), EndRequest{TransactionalID: id, Producer: p, Commit: commit, V2: v2})
	if err != nil {
		w.t.Fatal(err)
	}
	return next
}

func (w *world) wantMarkers(p Partition, want ...string) {
	w.t.Helper()
	if got := w.markers(p); !slices.Equal(got, want) {
		w.t.Errorf("markers of %v: got %q, want %q", p, got, want)
	}
}

func TestATransactionEndsInAllItsPartitions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		defer w.stop()
		w.topic("orders", 2)
		a, b := Partition{"orders", 0}, Partition{"orders", 1}
		p := w.init("payments")
		w.add("payments", p, true, b, a)
		w.produce(a, p)
		w.produce(b, p)
		next := w.end("payments", p, true, true)
		synctest.Wait()
		if want := (Producer{p.ID, p.Epoch + 1}); next != want {
			t.Errorf("goes on as %v, want %v", next, want)
		}
		w.wantMarkers(a, "1 data, commit of "+producerText(next))
		w.wantMarkers(b, "1 data, commit of "+producerText(next))
		if d, err := w.c.Describe("payments"); err != nil || d.State != "CompleteCommit" || len(d.Partitions) > 0 {
			t.Errorf("got %+v, error %v; want it complete", d, err)
		}
	})
}
