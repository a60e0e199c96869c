package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"

	"github.com/kaen-log/gateway/compat_test/clients/go/features"
)

// consumer is a member of a group. Its methods ConsumeClaim, Setup and Cleanup are called by sarama.
type consumer struct {
	group     sarama.ConsumerGroup
	member    *features.Member
	consuming sync.WaitGroup

	mu      sync.Mutex
	session sarama.ConsumerGroupSession // guarded by mu; nil while it is of no generation
}

func (c *client) Join(ctx context.Context, m *features.Member, group, topic string, mode features.Mode) (features.Consumer, error) {
	cfg := config()
	cfg.Consumer.Offsets.Initial = sarama.OffsetOldest
	cfg.Consumer.Offsets.AutoCommit.Enable = false
	cfg.Consumer.Group.Session.Timeout = mode.Session
	cfg.Consumer.Group.Heartbeat.Interval = time.Second
	cfg.Consumer.Group.InstanceId = mode.Instance
	switch mode.Assignor {
	case features.Eager:
		cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyRange()}
	case features.Cooperative:
		cfg.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{sarama.NewBalanceStrategyCooperativeSticky()}
	case features.Server:
		return nil, features.Unsupported("its members know the classic protocol of groups only")
	}
	joined, err := sarama.NewConsumerGroup(c.addresses(), group, cfg)
	if err != nil {
		return nil, err
	}
	member := &consumer{group: joined, member: m}
	member.consuming.Go(func() {
		for ctx.Err() == nil { // a call is over with its generation
			if err := joined.Consume(ctx, []string{topic}, member); errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
		}
	})
	return member, nil
}

func (c *consumer) Setup(session sarama.ConsumerGroupSession) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = session
	return nil
}

func (c *consumer) Cleanup(sarama.ConsumerGroupSession) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.session = nil
	return nil
}

// ConsumeClaim is called with each partition, and lasts as long as the member owns it.
func (c *consumer) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	c.member.Assigned(int(claim.Partition()))
	defer c.member.Revoked(int(claim.Partition()))
	for m := range claim.Messages() {
		session.MarkMessage(m, "")
		c.member.Read(int(m.Partition), m.Offset)
	}
	return nil
}

func (c *consumer) Commit(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.session == nil {
		return errors.New("nothing to commit: the member is of no generation")
	}
	c.session.Commit()
	return nil
}

func (c *consumer) Leave() error {
	err := c.group.Close()
	c.consuming.Wait()
	return err
}

func (c *client) Groups(context.Context) ([]string, error) {
	groups, err := c.admin.ListConsumerGroups()
	return slices.Collect(maps.Keys(groups)), err
}

func (c *client) Describe(_ context.Context, group string) ([][]int, error) {
	described, err := c.admin.DescribeConsumerGroups([]string{group})
	if err != nil {
		return nil, err
	}
	if described[0].Err != sarama.ErrNoError {
		return nil, described[0].Err
	}
	var members [][]int
	for _, m := range described[0].Members {
		assigned, err := m.GetMemberAssignment()
		if err != nil {
			return nil, err
		}
		var partitions []int
		for _, numbers := range assigned.Topics {
			for _, p := range numbers {
				partitions = append(partitions, int(p))
			}
		}
		slices.Sort(partitions)
		members = append(members, partitions)
	}
	return members, nil
}

func (c *client) Reset(_ context.Context, group, topic string, partition int, offset int64) error {
	to := sarama.OffsetAndMetadata{Offset: offset, LeaderEpoch: -1}
	answer, err := c.admin.AlterConsumerGroupOffsets(group, map[string]map[int32]sarama.OffsetAndMetadata{topic: {int32(partition): to}}, nil)
	if err != nil {
		return err
	}
	if code := answer.Errors[topic][int32(partition)]; code != sarama.ErrNoError {
		return code
	}
	return nil
}

func (c *client) DeleteOffset(_ context.Context, group, topic string, partition int) error {
	return c.admin.DeleteConsumerGroupOffset(group, topic, int32(partition))
}

func (c *client) DeleteGroup(_ context.Context, group string) error {
	return c.admin.DeleteConsumerGroup(group)
}
