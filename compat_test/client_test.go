package compat_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// client is a franz-go client with the user's defaults and what opts add. A gateway that is killed between a connection
// and its first answer looks to franz-go like one that wants SASL, unless it is told to try again.
func (s *server) client(t testing.TB, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(s.Addr), kgo.AlwaysRetryEOF()}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// fromStart consumes a topic from its beginning.
func fromStart(topics ...string) kgo.Opt {
	return kgo.ConsumeTopics(topics...) // where a client without a group starts
}

// consume polls until n records came.
func consume(t testing.TB, cl *kgo.Client, n int) []*kgo.Record {
	t.Helper()
	ctx := within(t)
	var all []*kgo.Record
	for len(all) < n {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("poll after %d of %d records: %v", len(all), n, err)
		}
		all = append(all, fs.Records()...)
	}
	if len(all) > n {
		t.Fatalf("consumed %d records, want %d", len(all), n)
	}
	return all
}

// mustProduceSync produces and waits for all acknowledgements.
func mustProduceSync(t testing.TB, cl *kgo.Client, records ...*kgo.Record) {
	t.Helper()
	if err := cl.ProduceSync(within(t), records...).FirstErr(); err != nil {
		t.Fatalf("produce: %v", err)
	}
}

func TestDefaultClientRoundTrip(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	name := fresh("orders")
	cl := s.client(t, kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(name))
	stamp := time.UnixMilli(time.Now().UnixMilli() - 5000)
	sent := []*kgo.Record{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: stamp, Headers: []kgo.RecordHeader{{Key: "h", Value: []byte("x")}, {Key: "n"}}},
		{Value: []byte{}},
		{Key: []byte("gone")},
	}
	mustProduceSync(t, cl, sent...)
	got := consume(t, s.client(t, fromStart(name)), 3)
	r := got[0]
	if string(r.Key) != "k" || string(r.Value) != "v" || !r.Timestamp.Equal(stamp) || r.Offset != 0 || len(r.Headers) != 2 || string(r.Headers[0].Value) != "x" || r.Headers[1].Value != nil {
		t.Errorf("first record is %+v", r)
	}
	if got[1].Key != nil || got[1].Value == nil || len(got[1].Value) != 0 {
		t.Errorf("second record has key %v, value %v; want null, empty", got[1].Key, got[1].Value)
	}
	if string(got[2].Key) != "gone" || got[2].Value != nil {
		t.Errorf("third record has key %q, value %v; want a null value", got[2].Key, got[2].Value)
	}
}

func TestTenThousandRecordsInOrder(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	const n = 10000
	tp := s.createTopic(t, "ten-thousand", 1)
	cl := s.client(t, kgo.DefaultProduceTopic(tp.Name))
	for i := range n {
		cl.Produce(context.Background(), &kgo.Record{Key: fmt.Append(nil, i), Value: fmt.Append(nil, "value ", i)}, func(r *kgo.Record, err error) {
			if err != nil || r.Offset != int64(i) {
				t.Errorf("record %d: offset %d, error %v", i, r.Offset, err)
			}
		})
	}
	if err := cl.Flush(within(t)); err != nil {
		t.Fatal(err)
	}
	for i, r := range consume(t, s.client(t, fromStart(tp.Name)), n) {
		if r.Offset != int64(i) || string(r.Key) != fmt.Sprint(i) || string(r.Value) != fmt.Sprint("value ", i) {
			t.Fatalf("record %d: offset %d, key %s, value %s", i, r.Offset, r.Key, r.Value)
		}
	}
}

func TestEveryCodecWithEveryAcks(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	codecs := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(), "lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}
	acks := map[string][]kgo.Opt{
		"all": {kgo.RequiredAcks(kgo.AllISRAcks())}, "leader": {kgo.RequiredAcks(kgo.LeaderAck()), kgo.DisableIdempotentWrite()}, "none": {kgo.RequiredAcks(kgo.NoAck()), kgo.DisableIdempotentWrite()},
	}
	for codec, c := range codecs {
		for ack, opts := range acks {
			t.Run("codec="+codec+"/acks="+ack, func(t *testing.T) {
				tp := s.createTopic(t, "codec", 1)
				cl := s.client(t, append(slices.Clone(opts), kgo.DefaultProduceTopic(tp.Name), kgo.ProducerBatchCompression(c), kgo.ProducerLinger(5*time.Millisecond))...)
				var sent []*kgo.Record
				for i := range 200 {
					sent = append(sent, &kgo.Record{Key: fmt.Append(nil, i), Value: []byte(strings.Repeat(fmt.Sprint(i), 50))})
				}
				mustProduceSync(t, cl, sent...)
				for i, r := range consume(t, s.client(t, fromStart(tp.Name)), len(sent)) {
					if string(r.Value) != string(sent[i].Value) || string(r.Key) != string(sent[i].Key) {
						t.Fatalf("record %d: key %s, value %s", i, r.Key, r.Value)
					}
				}
			})
		}
	}
}

func TestLongPollDeliversWithoutWaiting(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tp := s.createTopic(t, "long-poll", 1)
	consumer := s.client(t, fromStart(tp.Name), kgo.FetchMaxWait(2*waitLimit)) // longer than the test may take
	producer := s.client(t, kgo.DefaultProduceTopic(tp.Name), kgo.ProducerLinger(0))
	for i := range 20 {
		mustProduceSync(t, producer, &kgo.Record{Value: fmt.Append(nil, i)})
		want(t, "delivered", string(consume(t, consumer, 1)[0].Value), fmt.Sprint(i))
	}
}

func TestManualCommitAndResume(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	tp := s.createTopic(t, "resume", 2)
	producer := s.client(t, kgo.DefaultProduceTopic(tp.Name), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	group := fresh("resume")
	produceTen := func(from int) {
		t.Helper()
		for p := range int32(2) {
			for i := range 10 {
				mustProduceSync(t, producer, &kgo.Record{Partition: p, Value: fmt.Append(nil, p, " ", from+i)})
			}
		}
	}
	// readOn consumes from the committed offsets and commits what it read.
	readOn := func(n int) map[int32][]string {
		t.Helper()
		ctx := within(t)
		adm := kadm.NewClient(s.client(t))
		committed, err := adm.FetchOffsets(ctx, group)
		if err != nil {
			t.Fatalf("fetch offsets: %v", err)
		}
		start := map[int32]kgo.Offset{}
		for p := range int32(2) {
			start[p] = kgo.NewOffset().AtStart()
			if o, ok := committed.Lookup(tp.Name, p); ok && o.At >= 0 {
				start[p] = kgo.NewOffset().At(o.At)
			}
		}
		got := map[int32][]string{}
		offsets := kadm.Offsets{}
		for _, r := range consume(t, s.client(t, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{tp.Name: start})), n) {
			got[r.Partition] = append(got[r.Partition], string(r.Value))
			offsets.AddOffset(tp.Name, r.Partition, r.Offset+1, r.LeaderEpoch)
		}
		if err := adm.CommitAllOffsets(ctx, group, offsets); err != nil {
			t.Fatalf("commit: %v", err)
		}
		return got
	}
	for round := range 3 {
		produceTen(10 * round)
		got := readOn(20)
		for p := range int32(2) {
			if len(got[p]) != 10 || got[p][0] != fmt.Sprint(p, " ", 10*round) || got[p][9] != fmt.Sprint(p, " ", 10*round+9) {
				t.Fatalf("round %d, partition %d: %q", round, p, got[p])
			}
		}
		if !s.External() {
			s.Restart(t, []string{stopped, killed, stopped}[round])
		}
	}
}

func TestTopicAdministrationByKadm(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx := within(t)
	adm := kadm.NewClient(s.client(t))
	a, b := fresh("kadm-a"), fresh("kadm-b")
	created, err := adm.CreateTopics(ctx, 3, 1, map[string]*string{"retention.ms": ptr("1000000")}, a, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range created.Sorted() {
		if r.Err != nil || r.NumPartitions != 3 || r.ReplicationFactor != 1 || r.ID == (kadm.TopicID{}) {
			t.Errorf("created %+v", r)
		}
	}
	c := s.dial(t)
	for _, r := range created.Sorted() {
		for p := range int32(3) {
			s.awaitPartition(t, c, topic{r.Topic, r.ID}, p)
		}
	}
	if _, err := adm.CreateTopic(ctx, 1, 1, nil, a); err == nil || !strings.Contains(err.Error(), "TOPIC_ALREADY_EXISTS") {
		t.Errorf("creating a topic again: %v", err)
	}
	topics, err := adm.ListTopics(ctx, a, b)
	if err != nil || len(topics[a].Partitions) != 3 || topics[a].ID != created[a].ID {
		t.Errorf("listed %+v, %v", topics, err)
	}
	configs, err := adm.DescribeTopicConfigs(ctx, a)
	if err != nil {
		t.Fatal(err)
	}
	value := func(configs kadm.ResourceConfigs, key string) string {
		t.Helper()
		for _, k := range configs[0].Configs {
			if k.Key == key {
				return k.MaybeValue()
			}
		}
		return "(absent)"
	}
	want(t, "retention.ms", value(configs, "retention.ms"), "1000000")
	altered, err := adm.AlterTopicConfigs(ctx, []kadm.AlterConfig{
		{Op: kadm.SetConfig, Name: "cleanup.policy", Value: ptr("compact")}, {Op: kadm.DeleteConfig, Name: "retention.ms"},
	}, a)
	if err != nil || altered[0].Err != nil {
		t.Fatalf("alter: %+v, %v", altered, err)
	}
	s.await(t, "the change shows", func() bool {
		configs, err = adm.DescribeTopicConfigs(ctx, a)
		return err == nil && value(configs, "cleanup.policy") == "compact" && value(configs, "retention.ms") == "604800000"
	})
	grown, err := adm.UpdatePartitions(ctx, 5, b)
	if err != nil || grown.Error() != nil {
		t.Fatalf("update partitions: %+v, %v", grown, err)
	}
	s.await(t, "5 partitions", func() bool {
		topics, err = adm.ListTopics(ctx, b)
		return err == nil && len(topics[b].Partitions) == 5
	})
	producer := s.client(t, kgo.DefaultProduceTopic(b), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	for range 10 {
		mustProduceSync(t, producer, &kgo.Record{Partition: 4, Value: []byte("x")})
	}
	if _, err := adm.DeleteRecords(ctx, kadm.Offsets{b: {4: {Topic: b, Partition: 4, At: 6}}}); err != nil {
		t.Fatalf("delete records: %v", err)
	}
	starts, err := adm.ListStartOffsets(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(ctx, b)
	if err != nil {
		t.Fatal(err)
	}
	start, _ := starts.Lookup(b, 4)
	end, _ := ends.Lookup(b, 4)
	if start.Offset != 6 || end.Offset != 10 {
		t.Errorf("offsets %d to %d, want 6 to 10", start.Offset, end.Offset)
	}
	dirs, err := adm.DescribeAllLogDirs(ctx, nil)
	if err != nil || len(dirs) != 1 {
		t.Errorf("describe log dirs: %+v, %v", dirs, err)
	}
	brokers, err := adm.ListBrokers(ctx)
	if err != nil || len(brokers) != 1 {
		t.Errorf("brokers %+v, %v", brokers, err)
	}
	deleted, err := adm.DeleteTopics(ctx, a, b)
	if err != nil || deleted.Error() != nil {
		t.Fatalf("delete topics: %+v, %v", deleted, err)
	}
	s.awaitGone(t, c, a)
	s.awaitGone(t, c, b)
}

func TestManyPartitions(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	ctx := within(t)
	const topicCount, partitions = 10, 50
	adm := kadm.NewClient(s.client(t))
	var names []string
	for range topicCount {
		names = append(names, fresh("many"))
	}
	created, err := adm.CreateTopics(ctx, partitions, 1, nil, names...)
	if err != nil || created.Error() != nil {
		t.Fatalf("create: %v, %v", err, created.Error())
	}
	cl := s.client(t, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	var rs []*kgo.Record
	for _, name := range names {
		for p := range int32(partitions) {
			rs = append(rs, &kgo.Record{Topic: name, Partition: p, Value: fmt.Append(nil, name, "/", p)})
		}
	}
	mustProduceSync(t, cl, rs...)
	check := func() {
		t.Helper()
		seen := map[string]bool{}
		for _, r := range consume(t, s.client(t, fromStart(names...)), len(rs)) {
			if string(r.Value) != fmt.Sprint(r.Topic, "/", r.Partition) || r.Offset != 0 {
				t.Fatalf("%s-%d at %d holds %s", r.Topic, r.Partition, r.Offset, r.Value)
			}
			seen[string(r.Value)] = true
		}
		want(t, "partitions read", len(seen), len(rs))
	}
	check()
	if !s.External() {
		s.Restart(t, killed)
		check()
		s.Restart(t, stopped)
		check()
	}
}

func TestClusterOfOneBroker(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	m, err := kadm.NewClient(s.client(t)).BrokerMetadata(within(t))
	if err != nil || m.Cluster == "" || m.Controller != 1 || len(m.Brokers) != 1 {
		t.Errorf("got %+v, %v", m, err)
	}
}
