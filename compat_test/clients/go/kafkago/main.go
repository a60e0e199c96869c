// Command kafkago drives a broker with segmentio's kafka-go.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/kaen-log/gateway/compat_test/clients/go/features"
)

func main() { features.Main("kafka-go", "github.com/segmentio/kafka-go", dial) }

type client struct{ kafka.Client }

func dial(address string) (features.Client, error) {
	return &client{kafka.Client{Addr: kafka.TCP(address)}}, nil
}

func (c *client) Create(ctx context.Context, topic string, partitions int, configs map[string]string) error {
	config := kafka.TopicConfig{Topic: topic, NumPartitions: partitions, ReplicationFactor: 1}
	for name, value := range configs {
		config.ConfigEntries = append(config.ConfigEntries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	answer, err := c.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{config}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c *client) Partitions(ctx context.Context, topic string) (int, error) {
	answer, err := c.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, err
	}
	if err := answer.Topics[0].Error; err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
		return 0, err
	}
	return len(answer.Topics[0].Partitions), nil
}

func (c *client) Delete(ctx context.Context, topic string) error {
	answer, err := c.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: []string{topic}})
	if err != nil {
		return err
	}
	return answer.Errors[topic]
}

func (c *client) Produce(ctx context.Context, topic string, records []features.Record, codec string, idempotent bool) error {
	if idempotent {
		return features.Unsupported("kafka-go's writers are not idempotent")
	}
	writer := &kafka.Writer{
		Addr:         c.Addr,
		Topic:        topic,
		RequiredAcks: kafka.RequireAll,
		BatchTimeout: 5 * time.Millisecond,
		// A message may not name its partition; what it carries for the writer can.
		Balancer: kafka.BalancerFunc(func(m kafka.Message, _ ...int) int { return m.WriterData.(int) }),
	}
	if codec != "none" {
		if err := writer.Compression.UnmarshalText([]byte(codec)); err != nil {
			return err
		}
	}
	var messages []kafka.Message
	for _, r := range records {
		m := kafka.Message{WriterData: r.Partition, Key: r.Key, Value: r.Value, Time: r.Time}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, kafka.Header{Key: h.Key, Value: h.Value})
		}
		messages = append(messages, m)
	}
	return errors.Join(writer.WriteMessages(ctx, messages...), writer.Close())
}

// Read fetches by itself: a kafka.Reader gives nil for an empty key or value as for none.
func (c *client) Read(ctx context.Context, topic string, starts map[int]int64) ([]features.Record, error) {
	var records []features.Record
	for p, start := range starts {
		end, err := c.offset(ctx, topic, kafka.LastOffsetOf(p))
		if err != nil {
			return nil, err
		}
		for next := start; next < end; {
			answer, err := c.Fetch(ctx, &kafka.FetchRequest{Topic: topic, Partition: p, Offset: next, MinBytes: 1, MaxBytes: 1 << 20})
			if err = cmp.Or(err, answer.Error); err != nil {
				return nil, err
			}
			for {
				r, err := answer.Records.ReadRecord()
				if err == io.EOF {
					break
				}
				if err != nil {
					return nil, err
				}
				if r.Offset < next {
					continue // the batch begins before what was asked for
				}
				record, err := record(p, r)
				if err != nil {
					return nil, err
				}
				records = append(records, record)
				next = r.Offset + 1
			}
		}
	}
	return records, nil
}

func record(partition int, r *kafka.Record) (features.Record, error) {
	key, err := kafka.ReadAll(r.Key)
	if err != nil {
		return features.Record{}, err
	}
	value, err := kafka.ReadAll(r.Value)
	if err != nil {
		return features.Record{}, err
	}
	out := features.Record{Partition: partition, Key: key, Value: value, Time: r.Time, Offset: r.Offset}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, features.Header{Key: h.Key, Value: h.Value})
	}
	return out, nil
}

// offset asks for one offset: the first, the last or that of a time.
func (c *client) offset(ctx context.Context, topic string, of kafka.OffsetRequest) (int64, error) {
	request := map[string][]kafka.OffsetRequest{topic: {of}}
	answer, err := c.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: request})
	if err != nil {
		return 0, err
	}
	found := answer.Topics[topic][0]
	switch of.Timestamp {
	case kafka.FirstOffset:
		return found.FirstOffset, found.Error
	case kafka.LastOffset:
		return found.LastOffset, found.Error
	}
	for offset := range found.Offsets {
		return offset, found.Error
	}
	return 0, cmp.Or(found.Error, fmt.Errorf("no offset in %+v", found))
}

func (c *client) Earliest(ctx context.Context, topic string, partition int) (int64, error) {
	return c.offset(ctx, topic, kafka.FirstOffsetOf(partition))
}

func (c *client) OffsetForTime(ctx context.Context, topic string, partition int, t time.Time) (int64, error) {
	return c.offset(ctx, topic, kafka.TimeOffsetOf(partition, t))
}

func (c *client) Configs(ctx context.Context, topic string) (map[string]features.Config, error) {
	resource := kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	answer, err := c.DescribeConfigs(ctx, &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{resource}})
	if err != nil {
		return nil, err
	}
	configs := map[string]features.Config{}
	for _, e := range answer.Resources[0].ConfigEntries {
		configs[e.ConfigName] = features.Config{Value: e.ConfigValue, Default: e.ConfigSource == sourceDefault}
	}
	return configs, answer.Resources[0].Error
}

// sourceDefault is Kafka's ConfigSource.DEFAULT_CONFIG.
const sourceDefault = 5

func (c *client) Alter(ctx context.Context, topic string, configs map[string]string) error {
	resource := kafka.IncrementalAlterConfigsRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: topic}
	for name, value := range configs {
		set := kafka.IncrementalAlterConfigsRequestConfig{Name: name, Value: value, ConfigOperation: kafka.ConfigOperationSet}
		resource.Configs = append(resource.Configs, set)
	}
	answer, err := c.IncrementalAlterConfigs(ctx, &kafka.IncrementalAlterConfigsRequest{
		Resources: []kafka.IncrementalAlterConfigsRequestResource{resource},
	})
	if err != nil {
		return err
	}
	return answer.Resources[0].Error
}

func (c *client) DeleteBefore(context.Context, string, int, int64) error {
	return features.Unsupported("kafka-go has no DeleteRecords")
}

func (c *client) Commit(ctx context.Context, group, topic string, partition int, offset int64) error {
	answer, err := c.OffsetCommit(ctx, &kafka.OffsetCommitRequest{
		GroupID:      group,
		GenerationID: -1, // of no member
		Topics:       map[string][]kafka.OffsetCommit{topic: {{Partition: partition, Offset: offset}}},
	})
	if err != nil {
		return err
	}
	return answer.Topics[topic][0].Error
}

func (c *client) Committed(ctx context.Context, group, topic string, partition int) (int64, error) {
	answer, err := c.OffsetFetch(ctx, &kafka.OffsetFetchRequest{GroupID: group, Topics: map[string][]int{topic: {partition}}})
	if err != nil {
		return 0, err
	}
	found := answer.Topics[topic][0]
	return found.CommittedOffset, errors.Join(answer.Error, found.Error)
}

func (c *client) Transact(context.Context, string, string, []features.Record, string, int64, bool) error {
	return features.Unsupported("kafka-go's writers have no transactions")
}

func (c *client) ReadCommitted(context.Context, string, int) ([]features.Record, error) {
	return nil, features.Unsupported("kafka-go's writers have no transactions")
}
