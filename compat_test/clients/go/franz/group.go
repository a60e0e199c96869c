package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kaen-log/gateway/compat_test/clients/go/features"
)

// consumer is a member of a group.
type consumer struct {
	client  *kgo.Client
	polling sync.WaitGroup
}

func (c *client) Join(ctx context.Context, m *features.Member, group, topic string, mode features.Mode) (features.Consumer, error) {
	options := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(mode.Session),
		kgo.HeartbeatInterval(time.Second),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, assigned map[string][]int32) {
			m.Assigned(ints(assigned[topic])...)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, revoked map[string][]int32) {
			m.Revoked(ints(revoked[topic])...)
		}),
	}
	switch mode.Assignor {
	case features.Eager:
		options = append(options, kgo.Balancers(kgo.RangeBalancer()))
	case features.Cooperative:
		options = append(options, kgo.Balancers(kgo.CooperativeStickyBalancer()))
	case features.Server:
		if *release != "" {
			return nil, features.Unsupported("the protocol of KIP-848 came with Kafka 4.0")
		}
		options = append(options, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())
	}
	if mode.Instance != "" {
		if *release != "" {
			return nil, features.Unsupported("static members came with Kafka 2.3")
		}
		options = append(options, kgo.InstanceID(mode.Instance))
	}
	cl, err := c.with(options...)
	if err != nil {
		return nil, err
	}
	joined := &consumer{client: cl}
	joined.polling.Go(func() {
		for {
			fetches := cl.PollFetches(ctx)
			if fetches.IsClientClosed() || ctx.Err() != nil {
				return
			}
			fetches.EachRecord(func(r *kgo.Record) { m.Read(int(r.Partition), r.Offset) })
		}
	})
	return joined, nil
}

func (c *consumer) Commit(ctx context.Context) error { return c.client.CommitUncommittedOffsets(ctx) }

// Leave closes the client, which leaves the group unless the member is static.
func (c *consumer) Leave() error {
	c.client.Close()
	c.polling.Wait()
	return nil
}

func (c *client) Groups(ctx context.Context) ([]string, error) {
	listed, err := c.admin.ListGroups(ctx)
	return listed.Groups(), err
}

func (c *client) Describe(ctx context.Context, group string) ([][]int, error) {
	described, err := c.admin.DescribeGroups(ctx, group)
	if err = errors.Join(err, described.Error()); err != nil {
		return nil, err
	}
	var members [][]int
	for _, m := range described[group].Members {
		var partitions []int
		if assigned, ok := m.Assigned.AsConsumer(); ok {
			for _, t := range assigned.Topics {
				partitions = append(partitions, ints(t.Partitions)...)
			}
		}
		slices.Sort(partitions)
		members = append(members, partitions)
	}
	return members, nil
}

func (c *client) Reset(ctx context.Context, group, topic string, partition int, offset int64) error {
	return c.Commit(ctx, group, topic, partition, offset)
}

func (c *client) DeleteOffset(ctx context.Context, group, topic string, partition int) error {
	if *release != "" {
		return features.Unsupported("OffsetDelete came with Kafka 2.4")
	}
	var which kadm.TopicsSet
	which.Add(topic, int32(partition))
	deleted, err := c.admin.DeleteOffsets(ctx, group, which)
	return errors.Join(err, deleted.Error())
}

func (c *client) DeleteGroup(ctx context.Context, group string) error {
	deleted, err := c.admin.DeleteGroup(ctx, group)
	return errors.Join(err, deleted.Err)
}

func ints(partitions []int32) []int {
	var out []int
	for _, p := range partitions {
		out = append(out, int(p))
	}
	return out
}
