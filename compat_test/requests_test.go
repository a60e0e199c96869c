package compat_test

import (
	"fmt"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Error codes that the cases name.
const (
	noError                 = 0
	offsetOutOfRange        = 1
	corruptMessage          = 2
	unknownTopicOrPart      = 3
	messageTooLarge         = 10
	offsetMetadataTooLarge  = 12
	loadInProgress          = 14
	coordinatorNotAvailable = 15
	notCoordinator          = 16
	invalidTopic            = 17
	invalidRequiredAcks     = 21
	illegalGeneration       = 22
	inconsistentProtocol    = 23
	unknownMemberID         = 25
	invalidSessionTimeout   = 26
	rebalanceInProgress     = 27
	invalidTimestamp        = 32
	unsupportedVersion      = 35
	topicExists             = 36
	invalidPartitions       = 37
	invalidReplication      = 38
	invalidAssignment       = 39
	invalidConfig           = 40
	invalidRequest          = 42
	policyViolation         = 44
	outOfOrderSequence      = 45
	invalidProducerEpoch    = 47
	storageError            = 56
	groupIDNotFound         = 69
	fetchSessionNotFound    = 70
	invalidFetchEpoch       = 71
	fencedLeaderEpoch       = 74
	unknownLeaderEpoch      = 75
	unsupportedCompression  = 76
	memberIDRequired        = 79
	fencedInstanceID        = 82
	invalidRecord           = 87
	unknownTopicID          = 100
	fetchSessionTopicID     = 106
	mismatchedEndpoint      = 114
	unsupportedEndpoint     = 115
)

// code names an error code for failures.
func code(c int16) string {
	if c == 0 {
		return "0"
	}
	if err, ok := kerr.ErrorForCode(c).(*kerr.Error); ok && err.Code == c {
		return fmt.Sprintf("%d %s", c, err.Message)
	}
	return strconv.Itoa(int(c))
}

func wantCode(t testing.TB, what string, got, want int16) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got error %s, want %s", what, code(got), code(want))
	}
}

// want compares one named field.
func want[T comparable](t testing.TB, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

var nameCount atomic.Int64

// fresh is a name that no test has used, on a shared broker either.
func fresh(prefix string) string {
	return fmt.Sprintf("%s-%s-%d", prefix, strconv.FormatInt(time.Now().UnixNano(), 36), nameCount.Add(1))
}

// topic is a created topic.
type topic struct {
	Name string
	ID   [16]byte
}

// createTopic creates a topic with a fresh name and waits until it serves.
func (s *server) createTopic(t testing.TB, prefix string, partitions int32, configs ...string) topic {
	t.Helper()
	return s.createNamedTopic(t, fresh(prefix), partitions, configs...)
}

func (s *server) createNamedTopic(t testing.TB, name string, partitions int32, configs ...string) topic {
	t.Helper()
	c := s.dial(t)
	res := ask[*kmsg.CreateTopicsResponse](c, 7, createTopics(newTopic(name, partitions, 1, configs...)))
	r := res.Topics[0]
	if r.ErrorCode != 0 {
		t.Fatalf("create topic %s %v: %s %s", name, configs, code(r.ErrorCode), deref(r.ErrorMessage))
	}
	made := topic{Name: name, ID: r.TopicID}
	for p := range partitions {
		s.awaitPartition(t, c, made, p)
	}
	c.c.Close()
	return made
}

// awaitPartition returns when the partition serves. Ours serves from the moment
// it is created; Kafka takes a moment.
func (s *server) awaitPartition(t testing.TB, c *conn, tp topic, p int32) {
	t.Helper()
	ctx := within(t)
	for {
		got := listOffset(c, 7, tp, p, -1, 0).ErrorCode
		if got == 0 {
			return
		}
		if !s.External() {
			t.Fatalf("%s-%d right after its creation: %s", tp.Name, p, code(got))
		}
		if ctx.Err() != nil {
			t.Fatalf("%s-%d does not serve: %s", tp.Name, p, code(got))
		}
	}
}

func createTopics(topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 10000
	req.Topics = topics
	return req
}

func newTopic(name string, partitions int32, replication int16, configs ...string) kmsg.CreateTopicsRequestTopic {
	r := kmsg.NewCreateTopicsRequestTopic()
	r.Topic, r.NumPartitions, r.ReplicationFactor = name, partitions, replication
	for i := 0; i+1 < len(configs); i += 2 {
		k := kmsg.NewCreateTopicsRequestTopicConfig()
		k.Name, k.Value = configs[i], kmsg.StringPtr(configs[i+1])
		r.Configs = append(r.Configs, k)
	}
	return r
}

// part is the records for one partition of a Produce.
type part struct {
	Topic     topic
	Partition int32
	Records   []byte
}

func produceRequest(acks int16, parts ...part) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = acks, 10000
	for _, p := range parts {
		rp := kmsg.NewProduceRequestTopicPartition()
		rp.Partition, rp.Records = p.Partition, p.Records
		found := false
		for i := range req.Topics {
			if req.Topics[i].Topic == p.Topic.Name && req.Topics[i].TopicID == p.Topic.ID {
				req.Topics[i].Partitions = append(req.Topics[i].Partitions, rp)
				found = true
			}
		}
		if !found {
			rt := kmsg.NewProduceRequestTopic()
			rt.Topic, rt.TopicID = p.Topic.Name, p.Topic.ID
			rt.Partitions = append(rt.Partitions, rp)
			req.Topics = append(req.Topics, rt)
		}
	}
	return req
}

type produced = kmsg.ProduceResponseTopicPartition

// produceAll sends one Produce and returns the answers in the order of parts;
// each must be there exactly once.
func produceAll(c *conn, v, acks int16, parts ...part) []produced {
	c.t.Helper()
	res := ask[*kmsg.ProduceResponse](c, v, produceRequest(acks, parts...))
	type key struct {
		name string
		id   [16]byte
		p    int32
	}
	got := map[key]produced{}
	for _, rt := range res.Topics {
		for _, rp := range rt.Partitions {
			k := key{rt.Topic, rt.TopicID, rp.Partition}
			if _, twice := got[k]; twice {
				c.t.Fatalf("Produce v%d answers %v twice", v, k)
			}
			got[k] = rp
		}
	}
	var answers []produced
	for _, p := range parts {
		k := key{name: p.Topic.Name, p: p.Partition}
		if v >= 13 {
			k = key{id: p.Topic.ID, p: p.Partition}
		}
		rp, ok := got[k]
		if !ok {
			c.t.Fatalf("Produce v%d does not answer partition %v", v, k)
		}
		answers = append(answers, rp)
	}
	if len(got) != len(parts) {
		c.t.Fatalf("Produce v%d answers %d partitions, want %d", v, len(got), len(parts))
	}
	return answers
}

// produce sends records to one partition with acks=-1.
func produce(c *conn, v int16, tp topic, p int32, records []byte) produced {
	c.t.Helper()
	return produceAll(c, v, -1, part{tp, p, records})[0]
}

// mustProduce is produce that has to succeed; it returns the base offset.
func mustProduce(c *conn, tp topic, p int32, b batch) int64 {
	c.t.Helper()
	r := produce(c, 9, tp, p, b.bytes(c.t))
	if r.ErrorCode != 0 {
		c.t.Fatalf("produce to %s-%d: %s %s", tp.Name, p, code(r.ErrorCode), deref(r.ErrorMessage))
	}
	return r.BaseOffset
}

// refused checks the answer to a Produce that must store nothing.
func refused(t testing.TB, got produced, want int16) {
	t.Helper()
	if got.ErrorCode != want || got.BaseOffset != -1 || got.LogAppendTime != -1 {
		t.Fatalf("got error %s (%s), base offset %d, append time %d; want error %s, -1, -1",
			code(got.ErrorCode), deref(got.ErrorMessage), got.BaseOffset, got.LogAppendTime, code(want))
	}
}

func deref(s *string) string {
	if s == nil {
		return "(no text)"
	}
	return *s
}

// fetchRequest asks one partition without a session: at once, as much as 1 MiB.
func fetchRequest(tp topic, p int32, offset int64) *kmsg.FetchRequest {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID = -1
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = 0, 1, 50<<20
	req.SessionID, req.SessionEpoch = 0, -1
	req.Topics = append(req.Topics, fetchTopic(tp, p, offset))
	return req
}

func fetchTopic(tp topic, p int32, offset int64) kmsg.FetchRequestTopic {
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.TopicID = tp.Name, tp.ID
	rp := kmsg.NewFetchRequestTopicPartition()
	rp.Partition, rp.FetchOffset, rp.PartitionMaxBytes = p, offset, 1<<20
	rt.Partitions = append(rt.Partitions, rp)
	return rt
}

type fetched = kmsg.FetchResponseTopicPartition

// fetchOne sends a Fetch of one partition and returns its answer.
func fetchOne(c *conn, v int16, req *kmsg.FetchRequest) fetched {
	c.t.Helper()
	res := ask[*kmsg.FetchResponse](c, v, req)
	if res.ErrorCode != 0 {
		c.t.Fatalf("Fetch v%d: %s", v, code(res.ErrorCode))
	}
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 {
		c.t.Fatalf("Fetch v%d of one partition answers %+v", v, res.Topics)
	}
	got, asked := res.Topics[0], req.Topics[0]
	if v >= 13 && got.TopicID != asked.TopicID || v < 13 && got.Topic != asked.Topic || got.Partitions[0].Partition != asked.Partitions[0].Partition {
		c.t.Fatalf("Fetch v%d answers %q %x/%d, want %q %x/%d", v, got.Topic, got.TopicID, got.Partitions[0].Partition, asked.Topic, asked.TopicID, asked.Partitions[0].Partition)
	}
	return got.Partitions[0]
}

// fetch reads a partition from an offset and returns the batches.
func fetch(c *conn, v int16, tp topic, p int32, offset int64) []stored {
	c.t.Helper()
	got := fetchOne(c, v, fetchRequest(tp, p, offset))
	if got.ErrorCode != 0 {
		c.t.Fatalf("fetch %s-%d from %d: %s", tp.Name, p, offset, code(got.ErrorCode))
	}
	return batches(c.t, got.RecordBatches)
}

// values fetches and returns the records' values from offset on, in order.
func values(c *conn, tp topic, p int32, offset int64) []string {
	c.t.Helper()
	var all []string
	for {
		read := fetch(c, 12, tp, p, offset)
		if len(read) == 0 {
			return all
		}
		for _, b := range read {
			for _, r := range b.Records {
				if r.Offset >= offset {
					all = append(all, string(r.Value))
				}
			}
			offset = b.FirstOffset + int64(b.LastOffsetDelta) + 1
		}
	}
}

type (
	listResponse = kmsg.ListOffsetsResponse
	listed       = kmsg.ListOffsetsResponseTopicPartition
)

// Special timestamps of ListOffsets.
const (
	latest         = -1
	earliest       = -2
	maxTimestamp   = -3
	earliestLocal  = -4
	latestTiered   = -5
	earliestUpload = -6
)

func listRequest(tp topic, partitions []int32, timestamp int64, isolation int8) *kmsg.ListOffsetsRequest {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID, req.IsolationLevel = -1, isolation
	rt := kmsg.NewListOffsetsRequestTopic()
	rt.Topic = tp.Name
	for _, p := range partitions {
		rp := kmsg.NewListOffsetsRequestTopicPartition()
		rp.Partition, rp.Timestamp = p, timestamp
		rt.Partitions = append(rt.Partitions, rp)
	}
	req.Topics = append(req.Topics, rt)
	return req
}

func listOffset(c *conn, v int16, tp topic, p int32, timestamp int64, isolation int8) listed {
	c.t.Helper()
	res := ask[*kmsg.ListOffsetsResponse](c, v, listRequest(tp, []int32{p}, timestamp, isolation))
	if len(res.Topics) != 1 || len(res.Topics[0].Partitions) != 1 || res.Topics[0].Topic != tp.Name || res.Topics[0].Partitions[0].Partition != p {
		c.t.Fatalf("ListOffsets v%d of %s-%d answers %+v", v, tp.Name, p, res.Topics)
	}
	return res.Topics[0].Partitions[0]
}

// offsetOf is the offset that ListOffsets gives for a special timestamp.
func offsetOf(c *conn, tp topic, p int32, timestamp int64) int64 {
	c.t.Helper()
	got := listOffset(c, 11, tp, p, timestamp, 0)
	if got.ErrorCode != 0 {
		c.t.Fatalf("list offset %d of %s-%d: %s", timestamp, tp.Name, p, code(got.ErrorCode))
	}
	return got.Offset
}

// wantEnd checks the log end offset.
func wantEnd(c *conn, tp topic, p int32, want int64) {
	c.t.Helper()
	if got := offsetOf(c, tp, p, latest); got != want {
		c.t.Fatalf("log end offset of %s-%d: got %d, want %d", tp.Name, p, got, want)
	}
}

func metadataRequest(topics ...string) *kmsg.MetadataRequest {
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	for _, name := range topics {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

// leaderEpoch is the partition's epoch as Metadata says it.
func leaderEpoch(c *conn, tp topic, p int32) int32 {
	c.t.Helper()
	res := ask[*kmsg.MetadataResponse](c, 12, metadataRequest(tp.Name))
	for _, rp := range res.Topics[0].Partitions {
		if rp.Partition == p {
			return rp.LeaderEpoch
		}
	}
	c.t.Fatalf("Metadata does not list %s-%d: %+v", tp.Name, p, res.Topics[0])
	return 0
}

func deleteTopics(names ...string) *kmsg.DeleteTopicsRequest {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis = 10000
	req.TopicNames = names
	for _, name := range names {
		rt := kmsg.NewDeleteTopicsRequestTopic()
		rt.Topic = kmsg.StringPtr(name)
		req.Topics = append(req.Topics, rt)
	}
	return req
}

func deleteTopic(t testing.TB, c *conn, tp topic) {
	t.Helper()
	res := ask[*kmsg.DeleteTopicsResponse](c, 6, deleteTopics(tp.Name))
	wantCode(t, "delete "+tp.Name, res.Topics[0].ErrorCode, noError)
}
