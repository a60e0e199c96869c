package compat_test

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type createdTopic = kmsg.CreateTopicsResponseTopic

// create creates one topic at a version.
func create(c *conn, v int16, validateOnly bool, r kmsg.CreateTopicsRequestTopic) createdTopic {
	c.t.Helper()
	req := createTopics(r)
	req.ValidateOnly = validateOnly
	res := ask[*kmsg.CreateTopicsResponse](c, v, req)
	if len(res.Topics) != 1 || res.Topics[0].Topic != r.Topic {
		c.t.Fatalf("CreateTopics v%d of %s answers %+v", v, r.Topic, res.Topics)
	}
	return res.Topics[0]
}

// exists says whether Metadata knows the topic, without creating it.
func exists(c *conn, name string) bool {
	c.t.Helper()
	req := metadataRequest(name)
	req.AllowAutoTopicCreation = false
	return ask[*kmsg.MetadataResponse](c, 9, req).Topics[0].ErrorCode == 0
}

func TestTopicAdministration(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "ADM-01 validate_only creates nothing", versions(2, 5, 7), func(t *testing.T, v int16) {
		c := s.dial(t)
		name := fresh("adm-01")
		got := create(c, v, true, newTopic(name, 3, 1, "cleanup.policy", "compact"))
		wantCode(t, "new", got.ErrorCode, noError)
		if v >= 5 {
			want(t, "partitions", got.NumPartitions, 3)
			want(t, "replication factor", got.ReplicationFactor, 1)
			i := slices.IndexFunc(got.Configs, func(k kmsg.CreateTopicsResponseTopicConfig) bool { return k.Name == "cleanup.policy" })
			if i < 0 || got.Configs[i].Value == nil || *got.Configs[i].Value != "compact" || got.Configs[i].Source != 1 {
				t.Errorf("configs are %+v, want cleanup.policy=compact of source 1", got.Configs)
			}
		}
		want(t, "exists", exists(c, name), false)
		there := s.createTopic(t, "adm-01", 1)
		got = create(c, v, true, newTopic(there.Name, 3, 1))
		wantCode(t, "existing", got.ErrorCode, topicExists)
		if got.ErrorMessage == nil || *got.ErrorMessage == "" {
			t.Error("no error message")
		}
		wantCode(t, "bad config", create(c, v, true, newTopic(name, 3, 1, "retention.ms", "x")).ErrorCode, invalidConfig)
		wantCode(t, "bad name", create(c, v, true, newTopic("a b", 1, 1)).ErrorCode, invalidTopic)
	})

	at(t, "ADM-02 default and illegal counts", versions(2, 4, 7), func(t *testing.T, v int16) {
		c := s.dial(t)
		for _, test := range []struct {
			partitions  int32
			replication int16
			want        int16
		}{
			{0, 1, invalidPartitions}, {-2, 1, invalidPartitions}, {1, 0, invalidReplication}, {1, -2, invalidReplication}, {1, 9, invalidReplication},
		} {
			name := fresh("adm-02")
			got := create(c, v, false, newTopic(name, test.partitions, test.replication))
			wantCode(t, "illegal counts", got.ErrorCode, test.want)
			if got.ErrorMessage == nil || *got.ErrorMessage == "" {
				t.Error("no error message")
			}
			want(t, "exists", exists(c, name), false)
		}
		if v < 4 {
			return
		}
		name := fresh("adm-02")
		got := create(c, v, false, newTopic(name, -1, -1))
		wantCode(t, "defaults", got.ErrorCode, noError)
		if v >= 5 {
			want(t, "partitions", got.NumPartitions, 1)
			want(t, "replication factor", got.ReplicationFactor, 1)
		}
		assigned := newTopic(fresh("adm-02"), -1, -1)
		for p := range int32(2) {
			assigned.ReplicaAssignment = append(assigned.ReplicaAssignment, kmsg.CreateTopicsRequestTopicReplicaAssignment{Partition: p, Replicas: []int32{1}})
		}
		got = create(c, v, false, assigned)
		wantCode(t, "manual assignment", got.ErrorCode, noError)
		assigned.Topic = fresh("adm-02")
		assigned.NumPartitions = 2
		wantCode(t, "assignment and a count", create(c, v, false, assigned).ErrorCode, invalidRequest)
		assigned.NumPartitions = -1
		assigned.ReplicaAssignment[1].Replicas = []int32{7}
		wantCode(t, "unknown broker", create(c, v, false, assigned).ErrorCode, invalidAssignment)
	})

	at(t, "ADM-05 unknown or bad config", versions(2, 7), func(t *testing.T, v int16) {
		c := s.dial(t)
		for _, pair := range [][2]string{
			{"nope", "1"}, {"cleanup.policy", "shred"}, {"retention.ms", "x"}, {"segment.bytes", "100"}, {"retention.ms", "-2"},
			{"compression.type", "brotli"}, {"min.cleanable.dirty.ratio", "1.5"}, {"preallocate", "maybe"}, {"message.timestamp.difference.max.ms", "1"},
		} {
			name := fresh("adm-05")
			got := create(c, v, false, newTopic(name, 1, 1, pair[0], pair[1]))
			wantCode(t, pair[0]+"="+pair[1], got.ErrorCode, invalidConfig)
			if got.ErrorMessage == nil || !strings.Contains(*got.ErrorMessage, pair[0]) {
				t.Errorf("%s=%s: message is %s, want it to name the key", pair[0], pair[1], deref(got.ErrorMessage))
			}
			want(t, "exists", exists(c, name), false)
		}
		null := newTopic(fresh("adm-05"), 1, 1)
		null.Configs = append(null.Configs, kmsg.CreateTopicsRequestTopicConfig{Name: "retention.ms"})
		wantCode(t, "null value", create(c, v, false, null).ErrorCode, invalidConfig)
	})

	at(t, "names that collide, duplicates", versions(2, 7), func(t *testing.T, v int16) {
		c := s.dial(t)
		base := strings.ReplaceAll(fresh("a"), "-", "_")
		wantCode(t, "first", create(c, v, false, newTopic(base+"_x", 1, 1)).ErrorCode, noError)
		wantCode(t, "colliding", create(c, v, false, newTopic(base+".x", 1, 1)).ErrorCode, invalidTopic)
		twice := createTopics(newTopic(base+"y", 1, 1), newTopic(base+"z", 1, 1), newTopic(base+"y", 1, 1))
		res := ask[*kmsg.CreateTopicsResponse](c, v, twice)
		want(t, "answers", len(res.Topics), 2)
		for _, r := range res.Topics {
			if r.Topic == base+"y" {
				wantCode(t, "named twice", r.ErrorCode, invalidRequest)
			} else {
				wantCode(t, "named once", r.ErrorCode, noError)
			}
		}
		want(t, "exists", exists(c, base+"y"), false)
	})

	at(t, "ADM-12 CreatePartitions", versions(0, 2, 3), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "adm-12", 3)
		c := s.dial(t)
		grow := func(name string, count int32, validateOnly bool) kmsg.CreatePartitionsResponseTopic {
			t.Helper()
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.TimeoutMillis, req.ValidateOnly = 10000, validateOnly
			rt := kmsg.NewCreatePartitionsRequestTopic()
			rt.Topic, rt.Count = name, count
			req.Topics = append(req.Topics, rt)
			res := ask[*kmsg.CreatePartitionsResponse](c, v, req)
			if len(res.Topics) != 1 || res.Topics[0].Topic != name {
				t.Fatalf("CreatePartitions answers %+v", res.Topics)
			}
			return res.Topics[0]
		}
		partitions := func() []int32 {
			t.Helper()
			var ps []int32
			for _, p := range ask[*kmsg.MetadataResponse](c, 9, metadataRequest(tp.Name)).Topics[0].Partitions {
				ps = append(ps, p.Partition)
			}
			slices.Sort(ps)
			return ps
		}
		wantCode(t, "3 to 6", grow(tp.Name, 6, false).ErrorCode, noError)
		for p := int32(3); p < 6; p++ {
			s.awaitPartition(t, c, tp, p)
			want(t, "first offset of a new partition", mustProduce(c, tp, p, one("x")), 0)
		}
		if got := partitions(); !slices.Equal(got, []int32{0, 1, 2, 3, 4, 5}) {
			t.Fatalf("partitions are %v, want 0 to 5", got)
		}
		for _, count := range []int32{6, 2, 0, -1} {
			got := grow(tp.Name, count, false)
			wantCode(t, "not more than there are", got.ErrorCode, invalidPartitions)
			if got.ErrorMessage == nil || *got.ErrorMessage == "" {
				t.Error("no error message")
			}
		}
		wantCode(t, "ghost", grow(fresh("ghost"), 3, false).ErrorCode, unknownTopicOrPart)
		wantCode(t, "validate only", grow(tp.Name, 9, true).ErrorCode, noError)
		want(t, "partitions", len(partitions()), 6)
	})

	at(t, "ADM-13 DeleteRecords edges", versions(0, 2), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "adm-13", 1)
		c := s.dial(t)
		for range 20 {
			mustProduce(c, tp, 0, one("x"))
		}
		wantCode(t, "to 10", deleteRecordsAt(c, v, tp, 0, 10).ErrorCode, noError)
		for _, test := range []struct {
			partition int32
			offset    int64
			code      int16
			low       int64
		}{
			{0, 5, noError, 10}, {0, 10, noError, 10}, {0, 15, noError, 15}, {0, 21, offsetOutOfRange, -1}, {0, -2, offsetOutOfRange, -1},
			{0, -1, noError, 20}, {7, 1, unknownTopicOrPart, -1},
		} {
			got := deleteRecordsAt(c, v, tp, test.partition, test.offset)
			if got.ErrorCode != test.code || got.LowWatermark != test.low {
				t.Errorf("partition %d to %d: got error %s, low watermark %d; want %s, %d", test.partition, test.offset, code(got.ErrorCode), got.LowWatermark, code(test.code), test.low)
			}
		}
		want(t, "earliest", offsetOf(c, tp, 0, earliest), 20)
		if !s.External() {
			s.Restart(t, stopped)
			c = s.dial(t)
			want(t, "earliest after a restart", offsetOf(c, tp, 0, earliest), 20)
		}
		want(t, "next offset", mustProduce(c, tp, 0, one("y")), 20)
		compacted := s.createTopic(t, "adm-13", 1, "cleanup.policy", "compact")
		mustProduce(c, compacted, 0, keyed("k", "v"))
		wantCode(t, "a compacted topic", deleteRecordsAt(c, v, compacted, 0, 1).ErrorCode, policyViolation)
	})

	at(t, "DeleteTopics by name and by id", versions(1, 5, 6), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "delete", 1)
		c := s.dial(t)
		res := ask[*kmsg.DeleteTopicsResponse](c, v, deleteTopics(tp.Name, fresh("ghost")))
		want(t, "answers", len(res.Topics), 2)
		slices.SortFunc(res.Topics, func(a, b kmsg.DeleteTopicsResponseTopic) int { return cmp.Compare(a.ErrorCode, b.ErrorCode) })
		wantCode(t, "topic", res.Topics[0].ErrorCode, noError)
		want(t, "name", *res.Topics[0].Topic, tp.Name)
		wantCode(t, "ghost", res.Topics[1].ErrorCode, unknownTopicOrPart)
		s.awaitGone(t, c, tp.Name)
		if v < 6 {
			return
		}
		want(t, "id", res.Topics[0].TopicID, tp.ID)
		tp = s.createTopic(t, "delete", 1)
		byID := func(id [16]byte) kmsg.DeleteTopicsResponseTopic {
			req := deleteTopics()
			rt := kmsg.NewDeleteTopicsRequestTopic()
			rt.TopicID = id
			req.Topics = append(req.Topics, rt)
			return ask[*kmsg.DeleteTopicsResponse](c, v, req).Topics[0]
		}
		wantCode(t, "unknown id", byID([16]byte{1}).ErrorCode, unknownTopicID)
		got := byID(tp.ID)
		wantCode(t, "its id", got.ErrorCode, noError)
		want(t, "name", deref(got.Topic), tp.Name)
		s.awaitGone(t, c, tp.Name)
	})

	at(t, "DescribeTopicPartitions pages", versions(0), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "describe", 5)
		c := s.dial(t)
		req := kmsg.NewPtrDescribeTopicPartitionsRequest()
		ghost := fresh("describe-ghost")
		for _, name := range []string{tp.Name, ghost} {
			rt := kmsg.NewDescribeTopicPartitionsRequestTopic()
			rt.Topic = name
			req.Topics = append(req.Topics, rt)
		}
		req.ResponsePartitionLimit = 3
		res := ask[*kmsg.DescribeTopicPartitionsResponse](c, v, req)
		i := slices.IndexFunc(res.Topics, func(r kmsg.DescribeTopicPartitionsResponseTopic) bool { return deref(r.Topic) == tp.Name })
		if i < 0 {
			t.Fatalf("answers %+v", res.Topics)
		}
		want(t, "topic id", res.Topics[i].TopicID, tp.ID)
		want(t, "partitions", len(res.Topics[i].Partitions), 3)
		if res.NextCursor == nil || res.NextCursor.Topic != tp.Name || res.NextCursor.Partition != 3 {
			t.Fatalf("cursor is %+v, want %s-3", res.NextCursor, tp.Name)
		}
		cursor := kmsg.NewDescribeTopicPartitionsRequestCursor()
		cursor.Topic, cursor.Partition = tp.Name, 3
		req.Cursor = &cursor
		res = ask[*kmsg.DescribeTopicPartitionsResponse](c, v, req)
		i = slices.IndexFunc(res.Topics, func(r kmsg.DescribeTopicPartitionsResponseTopic) bool { return deref(r.Topic) == tp.Name })
		want(t, "partitions", len(res.Topics[i].Partitions), 2)
		want(t, "first", res.Topics[i].Partitions[0].Partition, 3)
		if res.NextCursor != nil {
			t.Errorf("cursor is %+v, want none", res.NextCursor)
		}
		i = slices.IndexFunc(res.Topics, func(r kmsg.DescribeTopicPartitionsResponseTopic) bool { return deref(r.Topic) == ghost })
		if i >= 0 {
			wantCode(t, "ghost", res.Topics[i].ErrorCode, unknownTopicOrPart)
		}
	})
}

// awaitGone returns when Metadata no longer lists a deleted topic: with ours at
// once, with Kafka after a moment.
func (s *server) awaitGone(t testing.TB, c *conn, name string) {
	t.Helper()
	for ctx := within(t); exists(c, name); {
		if !s.External() || ctx.Err() != nil {
			t.Fatalf("%s is still there after its deletion", name)
		}
	}
}

func TestDeleteThenRecreate(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "ADM-16 delete then re-create at once", versions(2, 7), func(t *testing.T, v int16) {
		name := fresh("adm-16")
		c := s.dial(t)
		old := s.createNamedTopic(t, name, 2)
		for range 10 {
			mustProduce(c, old, 0, one(strings.Split(strings.Repeat("old ", 100), " ")...))
		}
		mustProduce(c, old, 1, one("x").idempotent(4242, 3, 9))
		wantCode(t, "delete", ask[*kmsg.DeleteTopicsResponse](c, 5, deleteTopics(name)).Topics[0].ErrorCode, noError)
		wantCode(t, "create", create(c, v, false, newTopic(name, 2, 1)).ErrorCode, noError)
		meta := ask[*kmsg.MetadataResponse](c, 12, metadataRequest(name)).Topics[0]
		for ctx := within(t); s.External() && (meta.ErrorCode != 0 || meta.TopicID == old.ID) && ctx.Err() == nil; {
			meta = ask[*kmsg.MetadataResponse](c, 12, metadataRequest(name)).Topics[0]
		}
		wantCode(t, "metadata", meta.ErrorCode, noError)
		if meta.TopicID == old.ID {
			t.Errorf("the topic has its old id %x", old.ID)
		}
		again := topic{name, meta.TopicID}
		s.awaitPartition(t, c, again, 0)
		s.awaitPartition(t, c, again, 1)
		wantEnd(c, again, 0, 0)
		want(t, "records", len(values(c, again, 0, 0)), 0)
		want(t, "first offset", mustProduce(c, again, 0, one("new")), 0)
		want(t, "a stale epoch and any sequence", mustProduce(c, again, 1, one("y").idempotent(4242, 0, 7)), 0)
		if s.External() {
			return
		}
		for _, how := range []string{stopped, killed} {
			s.Restart(t, how)
			c = s.dial(t)
			if got := values(c, again, 0, 0); len(got) != 1 || got[0] != "new" {
				t.Fatalf("after a %s: %q", how, got)
			}
		}
	})

	t.Run("ADM-16 no old files remain", func(t *testing.T) {
		s := newServer(t, "-c", "log.segment.delete.delay.ms=0")
		c := s.dial(t)
		old := s.createTopic(t, "adm-16", 2)
		mustProduce(c, old, 0, one("old"))
		mustProduce(c, old, 1, one("old"))
		deleteTopic(t, c, old)
		s.createNamedTopic(t, old.Name, 2)
		s.Stop(t)
		s.Start(t)
		s.Stop(t)
		left, err := filepath.Glob(filepath.Join(s.Dir, old.Name+"-*"))
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range left {
			if strings.HasSuffix(dir, "-delete") || hasRecords(t, dir) {
				t.Errorf("%s is left", filepath.Base(dir))
			}
		}
	})
}

// hasRecords says whether a partition directory holds any batch.
func hasRecords(t testing.TB, dir string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() > 0 {
			return true
		}
	}
	return false
}
