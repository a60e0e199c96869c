package compat_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestPartitionsThatMoveInAConsumerGroup counts the partitions that change hands as one
// member joins and one leaves. The numbers are those of Apache Kafka 4.4.0, against
// which the test runs as well.
func TestPartitionsThatMoveInAConsumerGroup(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	for _, test := range []struct {
		assignor            string
		members, partitions int
		// byJoin move when one more member joins; byLeave and byLast, beside what the leaver
		// had, when the second leaves and then the newest. (Who has one more than others when
		// partitions cannot be shared evenly depends on Kafka's hash tables.)
		byJoin, byLeave, byLast int
	}{
		{"uniform", 3, 12, 3, 0, 0},
		{"uniform", 3, 10, 2, 0, 0},
		{"uniform", 5, 50, 8, 0, 0},
		{"range", 3, 12, 6, 1, 2},
		{"range", 3, 10, 4, 1, 1},
		{"range", 5, 50, 21, 12, 17},
	} {
		t.Run(fmt.Sprintf("%s/%d members/%d partitions", test.assignor, test.members, test.partitions), func(t *testing.T) {
			tp := s.createTopic(t, "moves", int32(test.partitions))
			crew := &rawCrew{s: s, group: s.freshGroup(t), assignor: test.assignor, topic: tp}
			for range test.members {
				crew.join(t)
			}
			crew.settle(t)
			crew.join(t)
			byJoin := crew.settle(t)
			had := crew.leave(t, 1)
			byLeave := crew.settle(t) - had
			had = crew.leave(t, len(crew.members)-1)
			byLast := crew.settle(t) - had
			if byJoin != test.byJoin || byLeave != test.byLeave || byLast != test.byLast {
				t.Errorf("%d partitions moved by a join, and beside the leaver's %d and %d by a leave and the newest member's leave, want %d, %d and %d",
					byJoin, byLeave, byLast, test.byJoin, test.byLeave, test.byLast)
			}
		})
	}
}

// rawCrew is the members of one consumer group that consume a topic.
type rawCrew struct {
	s               *server
	group, assignor string
	topic           topic
	members         []*rawConsumer
	joined          int
	owners          map[int32]string // member id by partition, when the group was last settled
}

// join adds a member whose id comes after the others'.
func (c *rawCrew) join(t testing.TB) {
	t.Helper()
	c.joined++
	m := c.s.rawConsumer(t, c.group, fmt.Sprintf("member-%02d", c.joined), c.topic)
	req := m.joinRequest()
	req.ServerAssignor = &c.assignor
	m.ok(req)
	c.members = append(c.members, m)
}

// leave has the i-th member leave, and returns how many partitions it had.
func (c *rawCrew) leave(t testing.TB, i int) int {
	t.Helper()
	m := c.members[i]
	wantCode(t, "leave of "+m.id, m.beat(1, m.request(-1)).ErrorCode, noError)
	c.members = slices.Delete(c.members, i, i+1)
	return len(m.owned)
}

// settle has the members do as they are told until each has what it is to have, and
// returns how many partitions have another owner than before.
func (c *rawCrew) settle(t testing.TB) int {
	t.Helper()
	ctx := within(t)
	var d kmsg.ConsumerGroupDescribeResponseGroup
	for d.State != "Stable" {
		if ctx.Err() != nil {
			t.Fatalf("the group is not settled: %+v", d)
		}
		for _, m := range c.members {
			m.ok(m.ownedRequest(m.owned...))
		}
		d = c.members[0].describe()
	}
	owners, moved := map[int32]string{}, 0
	for _, m := range c.members {
		for _, p := range m.owned {
			if owner := owners[p]; owner != "" {
				t.Fatalf("partition %d is owned by %s and %s", p, owner, m.id)
			}
			owners[p] = m.id
			if before := c.owners[p]; before != "" && before != m.id {
				moved++
			}
		}
	}
	c.owners = owners
	return moved
}
