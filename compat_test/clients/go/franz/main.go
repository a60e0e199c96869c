// Command franz drives a broker with franz-go, at its newest protocol versions or at those of an old release of Kafka.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/kaen-log/gateway/compat_test/clients/go/features"
)

var release = flag.String("release", "", "the release of Kafka whose protocol versions are not exceeded, as v1.1; none: the newest")

func main() { features.Main("franz-go", "github.com/twmb/franz-go", dial) }

// client is kgo for records and kadm for all else.
type client struct {
	options []kgo.Opt
	admin   *kadm.Client
}

func dial(address string) (features.Client, error) {
	c := &client{options: []kgo.Opt{kgo.SeedBrokers(address)}}
	if *release != "" {
		versions := kversion.FromString(*release)
		if versions == nil {
			return nil, fmt.Errorf("no release of Kafka is named %q", *release)
		}
		c.options = append(c.options, kgo.MaxVersions(versions))
	}
	cl, err := kgo.NewClient(c.options...)
	if err != nil {
		return nil, err
	}
	c.admin = kadm.NewClient(cl)
	return c, nil
}

// with returns a client with more options than those that all have.
func (c *client) with(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, c.options...)...)
}

func (c *client) Create(ctx context.Context, topic string, partitions int, configs map[string]string) error {
	set := map[string]*string{}
	for name, value := range configs {
		set[name] = &value
	}
	_, err := c.admin.CreateTopic(ctx, int32(partitions), 1, set, topic)
	return err
}

func (c *client) Partitions(ctx context.Context, topic string) (int, error) {
	topics, err := c.admin.ListTopics(ctx, topic)
	if err != nil {
		return 0, err
	}
	if err := topics[topic].Err; err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) {
		return 0, err
	}
	return len(topics[topic].Partitions), nil
}

func (c *client) Delete(ctx context.Context, topic string) error {
	_, err := c.admin.DeleteTopic(ctx, topic)
	return err
}

func (c *client) Produce(ctx context.Context, topic string, records []features.Record, codec string, idempotent bool) error {
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner())}
	switch codec {
	case "none":
		options = append(options, kgo.ProducerBatchCompression(kgo.NoCompression()))
	case "gzip":
		options = append(options, kgo.ProducerBatchCompression(kgo.GzipCompression()))
	case "snappy":
		options = append(options, kgo.ProducerBatchCompression(kgo.SnappyCompression()))
	case "lz4":
		options = append(options, kgo.ProducerBatchCompression(kgo.Lz4Compression()))
	case "zstd":
		if *release != "" {
			return features.Unsupported("zstd came with Kafka 2.1; franz-go sends what is not compressed to older ones")
		}
		options = append(options, kgo.ProducerBatchCompression(kgo.ZstdCompression()))
	}
	if !idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	cl, err := c.with(options...)
	if err != nil {
		return err
	}
	defer cl.Close()
	var sent []*kgo.Record
	for _, r := range records {
		record := &kgo.Record{Topic: topic, Partition: int32(r.Partition), Key: r.Key, Value: r.Value, Timestamp: r.Time}
		for _, h := range r.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		sent = append(sent, record)
	}
	return cl.ProduceSync(ctx, sent...).FirstErr()
}

func (c *client) Read(ctx context.Context, topic string, starts map[int]int64) ([]features.Record, error) {
	listed, err := c.admin.ListEndOffsets(ctx, topic)
	if err = errors.Join(err, listed.Error()); err != nil {
		return nil, err
	}
	partitions := map[int32]kgo.Offset{}
	left := 0
	for p, start := range starts {
		partitions[int32(p)] = kgo.NewOffset().At(start)
		end, _ := listed.Lookup(topic, int32(p))
		left += int(end.Offset - start)
	}
	cl, err := c.with(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: partitions}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var records []features.Record
	for len(records) < left {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			record := features.Record{Partition: int(r.Partition), Key: r.Key, Value: r.Value, Time: r.Timestamp, Offset: r.Offset}
			for _, h := range r.Headers {
				record.Headers = append(record.Headers, features.Header{Key: h.Key, Value: h.Value})
			}
			records = append(records, record)
		})
	}
	return records, nil
}

func (c *client) Earliest(ctx context.Context, topic string, partition int) (int64, error) {
	listed, err := c.admin.ListStartOffsets(ctx, topic)
	offset, _ := listed.Lookup(topic, int32(partition))
	return offset.Offset, errors.Join(err, offset.Err)
}

func (c *client) OffsetForTime(ctx context.Context, topic string, partition int, t time.Time) (int64, error) {
	listed, err := c.admin.ListOffsetsAfterMilli(ctx, t.UnixMilli(), topic)
	offset, _ := listed.Lookup(topic, int32(partition))
	return offset.Offset, errors.Join(err, offset.Err)
}

func (c *client) Configs(ctx context.Context, topic string) (map[string]features.Config, error) {
	described, err := c.admin.DescribeTopicConfigs(ctx, topic)
	if err != nil {
		return nil, err
	}
	of, err := described.On(topic, nil)
	if err = errors.Join(err, of.Err); err != nil {
		return nil, err
	}
	configs := map[string]features.Config{}
	for _, k := range of.Configs {
		configs[k.Key] = features.Config{Value: k.MaybeValue(), Default: k.Source == kmsg.ConfigSourceDefaultConfig}
	}
	return configs, nil
}

func (c *client) Alter(ctx context.Context, topic string, configs map[string]string) error {
	var changes []kadm.AlterConfig
	alter := c.admin.AlterTopicConfigs
	if *release != "" {
		// Before Kafka 2.3 what is not named goes back to its default, so that all that was set is said again.
		alter = c.admin.AlterTopicConfigsState
		before, err := c.Configs(ctx, topic)
		if err != nil {
			return err
		}
		for name, config := range before {
			if _, changed := configs[name]; !config.Default && !changed {
				changes = append(changes, kadm.AlterConfig{Name: name, Value: &config.Value})
			}
		}
	}
	for name, value := range configs {
		changes = append(changes, kadm.AlterConfig{Op: kadm.SetConfig, Name: name, Value: &value})
	}
	answers, err := alter(ctx, changes, topic)
	if err != nil {
		return err
	}
	answer, err := answers.On(topic, nil)
	return errors.Join(err, answer.Err)
}

func (c *client) DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, int32(partition), offset, -1)
	deleted, err := c.admin.DeleteRecords(ctx, offsets)
	return errors.Join(err, deleted.Error())
}

func (c *client) Commit(ctx context.Context, group, topic string, partition int, offset int64) error {
	var offsets kadm.Offsets
	offsets.AddOffset(topic, int32(partition), offset, -1)
	committed, err := c.admin.CommitOffsets(ctx, group, offsets)
	return errors.Join(err, committed.Error())
}

func (c *client) Committed(ctx context.Context, group, topic string, partition int) (int64, error) {
	fetched, err := c.admin.FetchOffsetsForTopics(ctx, group, topic)
	offset, _ := fetched.Lookup(topic, int32(partition))
	return offset.At, errors.Join(err, offset.Err)
}

func (c *client) Transact(ctx context.Context, id, topic string, records []features.Record, group string, offset int64, commit bool) error {
	cl, err := c.with(kgo.TransactionalID(id), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer cl.Close()
	if err := cl.BeginTransaction(); err != nil {
		return err
	}
	var sent []*kgo.Record
	for _, r := range records {
		sent = append(sent, &kgo.Record{Topic: topic, Partition: int32(r.Partition), Key: r.Key, Value: r.Value, Timestamp: r.Time})
	}
	if err := cl.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return err
	}
	if err := c.addOffset(ctx, cl, id, topic, group, offset); err != nil {
		return err
	}
	return cl.EndTransaction(ctx, kgo.TransactionEndTry(commit))
}

// addOffset is what a GroupTransactSession does for members of a group.
func (c *client) addOffset(ctx context.Context, cl *kgo.Client, id, topic, group string, offset int64) error {
	producer, epoch, err := cl.ProducerID(ctx)
	if err != nil {
		return err
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, producer, epoch, group
	added, err := add.RequestWith(ctx, cl)
	if err = cmp.Or(err, kerr.ErrorForCode(added.ErrorCode)); err != nil {
		return err
	}
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.TransactionalID, request.ProducerID, request.ProducerEpoch, request.Group, request.Generation = id, producer, epoch, group, -1
	topics, err := c.admin.ListTopics(ctx, topic)
	if err != nil {
		return err
	}
	t, p := kmsg.NewTxnOffsetCommitRequestTopic(), kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Offset = offset
	t.Topic, t.TopicID, t.Partitions = topic, topics[topic].ID, append(t.Partitions, p)
	request.Topics = append(request.Topics, t)
	committed, err := request.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode)
}

func (c *client) ReadCommitted(ctx context.Context, topic string, n int) ([]features.Record, error) {
	cl, err := c.with(kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}}))
	if err != nil {
		return nil, err
	}
	defer cl.Close()
	var records []features.Record
	for len(records) < n {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(r *kgo.Record) {
			records = append(records, features.Record{Partition: int(r.Partition), Key: r.Key, Value: r.Value, Time: r.Timestamp, Offset: r.Offset})
		})
	}
	return records, nil
}
