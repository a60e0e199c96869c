package main

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/kaen-log/gateway/compat_test/clients/go/features"
)

// consumer is a member of a group. A kafka.Reader is one too, but does not say what it owns.
type consumer struct {
	group   *kafka.ConsumerGroup
	member  *features.Member
	address string
	topic   string
	joining sync.WaitGroup
	leave   context.CancelFunc

	mu         sync.Mutex
	generation *kafka.Generation // guarded by mu; the newest
	next       map[int]int64     // guarded by mu; the offset after the last record read of each partition
}

func (c *client) Join(ctx context.Context, m *features.Member, group, topic string, mode features.Mode) (features.Consumer, error) {
	switch {
	case mode.Instance != "":
		return nil, features.Unsupported("kafka-go's consumer groups have no static members")
	case mode.Assignor == features.Cooperative:
		return nil, features.Unsupported("kafka-go has no cooperative assignor")
	case mode.Assignor == features.Server:
		return nil, features.Unsupported("kafka-go has no protocol of groups but the classic one")
	}
	address := c.Addr.String()
	joined, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                group,
		Brokers:           []string{address},
		Topics:            []string{topic},
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		SessionTimeout:    mode.Session,
		HeartbeatInterval: time.Second,
		JoinGroupBackoff:  time.Second,
		Timeout:           30 * time.Second, // of an answer; that to a join waits for the other members
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	member := &consumer{group: joined, member: m, address: address, topic: topic, leave: cancel, next: map[int]int64{}}
	member.joining.Go(func() {
		for ctx.Err() == nil {
			generation, err := joined.Next(ctx)
			if errors.Is(err, kafka.ErrGroupClosed) {
				return
			}
			if err == nil {
				member.begin(generation)
			}
		}
	})
	return member, nil
}

// begin reads what a generation assigns, until it ends.
func (c *consumer) begin(generation *kafka.Generation) {
	c.mu.Lock()
	c.generation = generation
	c.mu.Unlock()
	var partitions []int
	for _, assignment := range generation.Assignments[c.topic] {
		partitions = append(partitions, assignment.ID)
	}
	c.member.Assigned(partitions...)
	generation.Start(func(ctx context.Context) {
		<-ctx.Done()
		c.member.Revoked(partitions...)
	})
	for _, assignment := range generation.Assignments[c.topic] {
		generation.Start(func(ctx context.Context) { c.read(ctx, assignment) })
	}
}

func (c *consumer) read(ctx context.Context, assignment kafka.PartitionAssignment) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers:   []string{c.address},
		Topic:     c.topic,
		Partition: assignment.ID,
		// A reader that is closed waits for its fetch to be answered, and a generation for its readers: with the 10 s that
		// kafka-go waits by itself, members miss their sessions in turn and put each other out of the group.
		MaxWait: 500 * time.Millisecond,
	})
	defer reader.Close()
	if err := reader.SetOffset(assignment.Offset); err != nil {
		return
	}
	for {
		m, err := reader.ReadMessage(ctx)
		if err != nil {
			return // the generation has ended
		}
		c.mu.Lock()
		c.next[m.Partition] = m.Offset + 1
		c.mu.Unlock()
		c.member.Read(m.Partition, m.Offset)
	}
}

func (c *consumer) Commit(context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation.CommitOffsets(map[string]map[int]int64{c.topic: c.next})
}

func (c *consumer) Leave() error {
	err := c.group.Close()
	c.leave()
	c.joining.Wait()
	return err
}

func (c *client) Groups(ctx context.Context) ([]string, error) {
	answer, err := c.ListGroups(ctx, &kafka.ListGroupsRequest{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range answer.Groups {
		names = append(names, g.GroupID)
	}
	return names, answer.Error
}

func (c *client) Describe(ctx context.Context, group string) ([][]int, error) {
	answer, err := c.DescribeGroups(ctx, &kafka.DescribeGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return nil, err
	}
	var members [][]int
	for _, m := range answer.Groups[0].Members {
		var partitions []int
		for _, t := range m.MemberAssignments.Topics {
			partitions = append(partitions, t.Partitions...)
		}
		slices.Sort(partitions)
		members = append(members, partitions)
	}
	return members, answer.Groups[0].Error
}

func (c *client) Reset(ctx context.Context, group, topic string, partition int, offset int64) error {
	return c.Commit(ctx, group, topic, partition, offset)
}

func (c *client) DeleteOffset(ctx context.Context, group, topic string, partition int) error {
	answer, err := c.OffsetDelete(ctx, &kafka.OffsetDeleteRequest{GroupID: group, Topics: map[string][]int{topic: {partition}}})
	if err != nil {
		return err
	}
	return cmp.Or(answer.Error, answer.Topics[topic][0].Error)
}

func (c *client) DeleteGroup(ctx context.Context, group string) error {
	answer, err := c.DeleteGroups(ctx, &kafka.DeleteGroupsRequest{GroupIDs: []string{group}})
	if err != nil {
		return err
	}
	return answer.Errors[group]
}
