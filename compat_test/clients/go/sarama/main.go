// Command sarama drives a broker with sarama.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/kaen-log/gateway/compat_test/clients/go/features"
)

func main() { features.Main("sarama", "github.com/IBM/sarama", dial) }

type client struct {
	cluster sarama.Client
	admin   sarama.ClusterAdmin
}

func dial(address string) (features.Client, error) {
	cl, err := sarama.NewClient([]string{address}, config())
	if err != nil {
		return nil, err
	}
	admin, err := sarama.NewClusterAdminFromClient(cl)
	return &client{cl, admin}, err
}

func config() *sarama.Config {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Metadata.AllowAutoTopicCreation = false
	return c
}

func (c *client) Create(_ context.Context, topic string, partitions int, configs map[string]string) error {
	set := map[string]*string{}
	for name, value := range configs {
		set[name] = &value
	}
	detail := &sarama.TopicDetail{NumPartitions: int32(partitions), ReplicationFactor: 1, ConfigEntries: set}
	return c.admin.CreateTopic(topic, detail, false)
}

func (c *client) Partitions(_ context.Context, topic string) (int, error) {
	topics, err := c.admin.ListTopics()
	return int(topics[topic].NumPartitions), err
}

func (c *client) Delete(_ context.Context, topic string) error { return c.admin.DeleteTopic(topic) }

func (c *client) Produce(_ context.Context, topic string, records []features.Record, codec string, idempotent bool) error {
	cfg := config()
	cfg.Producer.Return.Successes = true // the synchronous producer needs it
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	if err := cfg.Producer.Compression.UnmarshalText([]byte(codec)); err != nil {
		return err
	}
	if idempotent {
		cfg.Producer.Idempotent = true
		cfg.Net.MaxOpenRequests = 1
	}
	producer, err := sarama.NewSyncProducer(c.addresses(), cfg)
	if err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, r := range records {
		m := &sarama.ProducerMessage{Topic: topic, Partition: int32(r.Partition), Timestamp: r.Time}
		if r.Key != nil { // an encoder of no bytes is an empty key
			m.Key = sarama.ByteEncoder(r.Key)
		}
		if r.Value != nil {
			m.Value = sarama.ByteEncoder(r.Value)
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
		}
		messages = append(messages, m)
	}
	err = producer.SendMessages(messages)
	return errors.Join(err, producer.Close())
}

func (c *client) addresses() []string {
	var addresses []string
	for _, b := range c.cluster.Brokers() {
		addresses = append(addresses, b.Addr())
	}
	return addresses
}

func (c *client) Read(ctx context.Context, topic string, starts map[int]int64) ([]features.Record, error) {
	consumer, err := sarama.NewConsumerFromClient(c.cluster)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	var records []features.Record
	for p, start := range starts {
		end, err := c.cluster.GetOffset(topic, int32(p), sarama.OffsetNewest)
		if err != nil {
			return nil, err
		}
		partition, err := consumer.ConsumePartition(topic, int32(p), start)
		if err != nil {
			return nil, err
		}
		for next := start; next < end; {
			select {
			case m := <-partition.Messages():
				records = append(records, record(m))
				next = m.Offset + 1
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		if err := partition.Close(); err != nil {
			return nil, err
		}
	}
	return records, nil
}

func record(m *sarama.ConsumerMessage) features.Record {
	r := features.Record{Partition: int(m.Partition), Key: m.Key, Value: m.Value, Time: m.Timestamp, Offset: m.Offset}
	for _, h := range m.Headers {
		r.Headers = append(r.Headers, features.Header{Key: string(h.Key), Value: h.Value})
	}
	return r
}

func (c *client) Earliest(_ context.Context, topic string, partition int) (int64, error) {
	return c.cluster.GetOffset(topic, int32(partition), sarama.OffsetOldest)
}

func (c *client) OffsetForTime(_ context.Context, topic string, partition int, t time.Time) (int64, error) {
	return c.cluster.GetOffset(topic, int32(partition), t.UnixMilli())
}

func (c *client) Configs(_ context.Context, topic string) (map[string]features.Config, error) {
	resource := &sarama.ConfigResource{Type: sarama.TopicResource, Name: topic}
	results, err := c.admin.DescribeConfigs([]*sarama.ConfigResource{resource}, sarama.DescribeConfigsOptions{})
	if err != nil {
		return nil, err
	}
	if code := results[0].ErrorCode; code != sarama.ErrNoError {
		return nil, code
	}
	configs := map[string]features.Config{}
	for _, e := range results[0].Configs {
		configs[e.Name] = features.Config{Value: e.Value, Default: e.Source == sarama.SourceDefault}
	}
	return configs, nil
}

func (c *client) Alter(_ context.Context, topic string, configs map[string]string) error {
	changes := map[string]sarama.IncrementalAlterConfigsEntry{}
	for name, value := range configs {
		changes[name] = sarama.IncrementalAlterConfigsEntry{Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &value}
	}
	return c.admin.IncrementalAlterConfig(sarama.TopicResource, topic, changes, false)
}

func (c *client) DeleteBefore(_ context.Context, topic string, partition int, offset int64) error {
	return c.admin.DeleteRecords(topic, map[int32]int64{int32(partition): offset})
}

func (c *client) Commit(_ context.Context, group, topic string, partition int, offset int64) error {
	offsets, err := sarama.NewOffsetManagerFromClient(group, c.cluster)
	if err != nil {
		return err
	}
	managed, err := offsets.ManagePartition(topic, int32(partition))
	if err != nil {
		return err
	}
	managed.MarkOffset(offset, "")
	offsets.Commit()
	return errors.Join(managed.Close(), offsets.Close())
}

func (c *client) Committed(_ context.Context, group, topic string, partition int) (int64, error) {
	offsets, err := sarama.NewOffsetManagerFromClient(group, c.cluster)
	if err != nil {
		return 0, err
	}
	managed, err := offsets.ManagePartition(topic, int32(partition))
	if err != nil {
		return 0, err
	}
	offset, _ := managed.NextOffset()
	return offset, errors.Join(managed.Close(), offsets.Close())
}

func (c *client) Transact(_ context.Context, id, topic string, records []features.Record, group string, offset int64, commit bool) error {
	cfg := config()
	cfg.Producer.Return.Successes = true
	cfg.Producer.RequiredAcks = sarama.WaitForAll
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	cfg.Producer.Idempotent = true
	cfg.Producer.Transaction.ID = id
	cfg.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer(c.addresses(), cfg)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	var messages []*sarama.ProducerMessage
	for _, r := range records {
		messages = append(messages, &sarama.ProducerMessage{
			Topic: topic, Partition: int32(r.Partition), Timestamp: r.Time, Key: sarama.ByteEncoder(r.Key), Value: sarama.ByteEncoder(r.Value),
		})
	}
	if err := producer.SendMessages(messages); err != nil {
		return err
	}
	offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {{Partition: 0, Offset: offset}}}
	if err := producer.AddOffsetsToTxn(offsets, group); err != nil {
		return err
	}
	if !commit {
		return producer.AbortTxn()
	}
	return producer.CommitTxn()
}

func (c *client) ReadCommitted(ctx context.Context, topic string, n int) ([]features.Record, error) {
	cfg := config()
	cfg.Consumer.IsolationLevel = sarama.ReadCommitted
	consumer, err := sarama.NewConsumer(c.addresses(), cfg)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	partition, err := consumer.ConsumePartition(topic, 0, sarama.OffsetOldest)
	if err != nil {
		return nil, err
	}
	var records []features.Record
	for len(records) < n {
		select {
		case m := <-partition.Messages():
			records = append(records, record(m))
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return records, partition.Close()
}
