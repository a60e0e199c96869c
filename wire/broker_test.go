package wire

import (
	"context"
	"fmt"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/record"
	"github.com/kaen-log/gateway/storage/vfs"
)

// broker is a server over a store in memory whose handlers are called without a connection. Every request and response
// goes through its encoding, so that a test sees what a client of that version would.
type broker struct {
	t     testing.TB
	fs    vfs.FS
	dir   string
	store *storage.Store
	s     *Server
	r     request // what handlers are told of the caller
	stop  func()  // ends the store; called by the test's cleanup too

	// onOp, when set, is asked before each operation on the files of a broker in memory; its error fails it.
	onOp atomic.Pointer[func(vfs.Op) error]

	mu  sync.Mutex
	now time.Time // guarded by mu; the zero value means the real clock, or synctest's
}

// newBroker starts one. Its clock stands at 2024-01-01 until the test moves it; useRealClock lets it run.
func newBroker(t testing.TB, config map[string]string) *broker {
	t.Helper()
	b := &broker{t: t, dir: "data", now: time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)}
	b.inMemory()
	b.open(config)
	return b
}

// newRunningBroker starts one whose clock is package time's, for tests in a synctest bubble.
func newRunningBroker(t testing.TB, config map[string]string) *broker {
	t.Helper()
	b := &broker{t: t, dir: "data"}
	b.inMemory()
	b.open(config)
	return b
}

func (b *broker) inMemory() {
	b.fs = vfs.Inject(vfs.NewMem(vfs.MemOptions{Now: b.time}), func(o vfs.Op) error {
		if f := b.onOp.Load(); f != nil {
			return (*f)(o)
		}
		return nil
	})
}

// onSync calls f before each sync of a partition's segments.
func (b *broker) onSync(partition string, f func() error) {
	hook := func(o vfs.Op) error {
		if o.Kind == vfs.OpSync && strings.HasSuffix(o.Name, ".log") && path.Base(path.Dir(o.Name)) == partition {
			return f()
		}
		return nil
	}
	b.onOp.Store(&hook)
}

func (b *broker) open(config map[string]string) {
	b.t.Helper()
	c, err := NewBrokerConfig(config)
	if err != nil {
		b.t.Fatal(err)
	}
	b.store, err = storage.Open(b.dir, storage.Options{FS: b.fs, Now: b.time})
	if err != nil {
		b.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.store.Run(ctx)
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		if err := b.store.Close(); err != nil {
			b.t.Errorf("close the store: %v", err)
		}
		if used := b.s.answers.used(); used != 0 {
			b.t.Errorf("%d bytes of answers are still charged", used)
		}
	})
	b.t.Cleanup(func() { b.stop() })
	b.s, err = New(Options{Store: b.store, Config: c, Now: b.time})
	if err != nil {
		b.t.Fatal(err)
	}
	b.r = request{
		ctx: context.Background(), principal: anonymous, clientID: "test",
		listener: &Listener{Name: "PLAINTEXT", AdvertisedHost: "gateway.example", AdvertisedPort: 9092},
	}
}

// damage stops the broker, spoils the first batch of a partition's first segment, and starts it again.
func (b *broker) damage(partition string) {
	b.t.Helper()
	b.stop()
	f, err := b.fs.Open(path.Join(b.dir, partition, "00000000000000000000.log"))
	if err == nil {
		_, err = f.WriteAt([]byte{9}, record.MagicPos)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		b.t.Fatal(err)
	}
	b.open(nil)
}

func (b *broker) time() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.now.IsZero() {
		return time.Now()
	}
	return b.now
}

func (b *broker) advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

func (b *broker) nowMs() int64 { return b.time().UnixMilli() }

// topic makes a topic; configs are pairs of name and value.
func (b *broker) topic(name string, partitions int32, configs ...string) *storage.Topic {
	b.t.Helper()
	spec := storage.TopicSpec{Name: name, Partitions: partitions, Configs: map[string]string{}}
	for i := 0; i < len(configs); i += 2 {
		spec.Configs[configs[i]] = configs[i+1]
	}
	topic, err := b.store.CreateTopic(spec)
	if err != nil {
		b.t.Fatalf("create topic %s: %v", name, err)
	}
	return topic
}

func (b *broker) log(topic string, partition int32) *storage.Log {
	b.t.Helper()
	t, ok := b.store.Topic(topic)
	if !ok {
		b.t.Fatalf("no topic %s", topic)
	}
	log, ok := t.Partition(partition)
	if !ok {
		b.t.Fatalf("topic %s has no partition %d", topic, partition)
	}
	return log
}

// offsets returns the bounds of a partition.
func (b *broker) offsets(topic string, partition int32) storage.Offsets {
	b.t.Helper()
	o, err := b.log(topic, partition).Offsets()
	if err != nil {
		b.t.Fatal(err)
	}
	return o
}

// dispatch sends a request through its handler. The response is nil when none is sent, the error what drops the
// connection.
func (b *broker) dispatch(req kmsg.Request) (kmsg.Response, error) {
	b.t.Helper()
	a := apis.find(req.Key())
	if a == nil || !a.serves(req.GetVersion()) {
		b.t.Fatalf("key %d version %d is not served", req.Key(), req.GetVersion())
	}
	return b.through(a, req)
}

// through sends a request through the handler of an api.
func (b *broker) through(a *api, req kmsg.Request) (kmsg.Response, error) {
	b.t.Helper()
	msg := a.newRequest()
	msg.SetVersion(req.GetVersion())
	if err := msg.ReadFrom(req.AppendTo(nil)); err != nil {
		b.t.Fatalf("decode the request: %v", err)
	}
	r := b.r
	r.key, r.version, r.size = req.Key(), req.GetVersion(), len(frameOf(req, 0))-lengthSize
	var resp response
	var err error
	if a.start != nil {
		var finish func(context.Context) (response, error)
		if finish, err = a.start(b.s, &r, msg); err == nil && finish != nil {
			resp, err = finish(context.Background())
		}
	} else {
		resp, err = a.serve(b.s, &r, msg)
	}
	if err != nil || resp == nil {
		return nil, err
	}
	body := resp.AppendTo(nil)
	if e, ok := resp.(*encoded); ok {
		e.release()
	}
	out := req.ResponseKind()
	out.SetVersion(req.GetVersion())
	if err := out.ReadFrom(body); err != nil {
		b.t.Fatalf("decode the response to key %d version %d: %v", req.Key(), req.GetVersion(), err)
	}
	return out, nil
}

// ask is dispatch for a request that is answered.
func ask[R kmsg.Response](b *broker, req kmsg.Request) R {
	b.t.Helper()
	resp, err := b.dispatch(req)
	if err != nil {
		b.t.Fatalf("key %d version %d: %v", req.Key(), req.GetVersion(), err)
	}
	if resp == nil {
		b.t.Fatalf("key %d version %d: no response", req.Key(), req.GetVersion())
	}
	return resp.(R)
}

// atVersions runs a test at the lowest and the highest version of a key, within [from, the highest]. The subtests are
// named after the field case.
func atVersions(t *testing.T, id string, key, from int16, f func(t *testing.T, version int16)) {
	t.Helper()
	a := apis.find(key)
	versions := []int16{max(a.min, from)}
	if a.max > versions[0] {
		versions = append(versions, a.max)
	}
	for _, v := range versions {
		t.Run(fmt.Sprintf("%s/v%d", id, v), func(t *testing.T) { f(t, v) })
	}
}

// newBatch builds a batch as a producer sends it, of the values, at a timestamp.
func newBatch(o record.BuilderOptions, timestampMs int64, values ...string) []byte {
	o.LeaderEpoch = -1
	b := record.NewBuilder(o)
	for i, v := range values {
		b.Append(record.Record{Timestamp: timestampMs, Key: fmt.Appendf(nil, "k%d", i), Value: []byte(v)})
	}
	return append([]byte(nil), b.Bytes()...)
}

// batch is newBatch without options at the broker's time.
func (b *broker) batch(values ...string) []byte {
	return newBatch(record.BuilderOptions{}, b.nowMs(), values...)
}

// produced is a batch for a partition.
type produced struct {
	partition int32
	records   []byte
}

// produceRequest makes a request for one topic, by name or by id as the version wants.
func (b *broker) produceRequest(version int16, topic string, batches ...produced) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Version, req.Acks, req.TimeoutMillis = version, -1, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic = topic
	if known, ok := b.store.Topic(topic); ok {
		t.TopicID = known.ID()
	}
	for _, p := range batches {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.partition, p.records
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	return req
}

// produce sends one batch and returns its answer.
func (b *broker) produce(version int16, topic string, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	b.t.Helper()
	resp := ask[*kmsg.ProduceResponse](b, b.produceRequest(version, topic, produced{partition, records}))
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		b.t.Fatalf("produce answers %+v, want one partition", resp.Topics)
	}
	return resp.Topics[0].Partitions[0]
}

// mustProduce is produce for a batch that must be taken; it returns the base offset.
func (b *broker) mustProduce(topic string, partition int32, records []byte) int64 {
	b.t.Helper()
	p := b.produce(13, topic, partition, records)
	if p.ErrorCode != 0 {
		b.t.Fatalf("produce to %s-%d: error %d", topic, partition, p.ErrorCode)
	}
	return p.BaseOffset
}

// asked is a partition of a fetch.
type asked struct {
	topic     string
	partition int32
	offset    int64
}

// fetchRequest makes a full fetch without a session that does not wait.
func (b *broker) fetchRequest(version int16, partitions ...asked) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxBytes, req.MinBytes, req.SessionEpoch = version, 50<<20, 1, -1
	for _, a := range partitions {
		if n := len(req.Topics); n == 0 || req.Topics[n-1].Topic != a.topic {
			t := kmsg.NewFetchRequestTopic()
			t.Topic = a.topic
			if known, ok := b.store.Topic(a.topic); ok {
				t.TopicID = known.ID()
			}
			req.Topics = append(req.Topics, t)
		}
		p := kmsg.NewFetchRequestTopicPartition()
		p.Partition, p.FetchOffset, p.PartitionMaxBytes, p.CurrentLeaderEpoch = a.partition, a.offset, 1<<20, -1
		t := &req.Topics[len(req.Topics)-1]
		t.Partitions = append(t.Partitions, p)
	}
	return req
}

// fetchOne fetches one partition.
func (b *broker) fetchOne(req *kmsg.FetchRequest) kmsg.FetchResponseTopicPartition {
	b.t.Helper()
	resp := ask[*kmsg.FetchResponse](b, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		b.t.Fatalf("fetch answers error %d and %+v, want one partition", resp.ErrorCode, resp.Topics)
	}
	return resp.Topics[0].Partitions[0]
}

// batches cuts a record set; every batch must be whole and its CRC right.
func (b *broker) batches(records []byte) []record.Batch {
	b.t.Helper()
	var out []record.Batch
	for len(records) > 0 {
		batch, rest, err := record.Cut(records)
		if err != nil {
			b.t.Fatalf("batch %d of the answer: %v", len(out), err)
		}
		out = append(out, batch)
		records = rest
	}
	return out
}
