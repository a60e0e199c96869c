package groups

import (
	"fmt"
	"testing"
)

// consumers returns a world with a group of so many members on ten partitions each,
// settled.
func consumers(b *testing.B, members int) *groupWorld {
	b.Helper()
	w := newGroupWorld()
	w.group.ConsumerAssignmentInterval = 0
	w.topic("orders", int32(10*members))
	for round := range 3 {
		for i := range members {
			r := &ConsumerHeartbeatRequest{Group: scriptGroup, MemberID: fmt.Sprintf("m%04d", i), RebalanceTimeoutMs: 60_000, ClientHost: "/h"}
			r.Topics, r.Owned = []string{"orders"}, []TopicPartitions{}
			if g := w.entry().consumer(); round > 0 {
				m := g.members[r.MemberID]
				r.MemberEpoch, r.Owned = m.epoch, listed(m.assigned.partitions())
			}
			w.call(func() step {
				return w.shard.consumerHeartbeat(w.now, w.entry(), r, func(_ ConsumerHeartbeat, err error) {
					if err != nil {
						b.Fatal(err)
					}
				})
			})
		}
		w.log = nil
	}
	if g := w.entry().consumer(); g.state() != consumerStable {
		b.Fatalf("%d members are %s, want Stable", members, g.state())
	}
	return w
}

// BenchmarkConsumerHeartbeat is the heartbeat of a member that has all it is to have.
func BenchmarkConsumerHeartbeat(b *testing.B) {
	for _, members := range []int{10, 100} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			w := consumers(b, members)
			g := w.entry().consumer()
			r := &ConsumerHeartbeatRequest{Group: scriptGroup, MemberID: "m0001", MemberEpoch: g.targetEpoch, RebalanceTimeoutMs: -1, ClientHost: "/h"}
			b.ReportAllocs()
			for b.Loop() {
				g.heartbeat(w.now, r, func(_ ConsumerHeartbeat, err error) {
					if err != nil {
						b.Fatal(err)
					}
				})
				g.next()
			}
		})
	}
}

// BenchmarkConsumerJoin is a member that joins a group and leaves it again, with a new
// target for each.
func BenchmarkConsumerJoin(b *testing.B) {
	for _, members := range []int{10, 100} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			w := consumers(b, members)
			answered := func(_ ConsumerHeartbeat, err error) {
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, epoch := range []int32{joiningEpoch, leavingEpoch} {
					r := &ConsumerHeartbeatRequest{
						Group: scriptGroup, MemberID: "guest", MemberEpoch: epoch, RebalanceTimeoutMs: 60_000,
						Topics: []string{"orders"}, Owned: []TopicPartitions{},
					}
					w.call(func() step { return w.shard.consumerHeartbeat(w.now, w.entry(), r, answered) })
				}
				w.log = nil
			}
		})
	}
}
