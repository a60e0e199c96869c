package groups

import (
	"fmt"
	"strconv"
	"testing"
	"time"
)

// benchGroup makes a stable group of n members.
func benchGroup(b *testing.B, n int) *classicGroup {
	b.Helper()
	ids := 0
	env := &env{config: &Config{MaxSize: 1 << 20}, newID: func() string { ids++; return strconv.Itoa(ids) }}
	g := newClassicGroup("g", env, scriptStart)
	for range n {
		benchJoin(g, "")
	}
	carry(g.tick(scriptStart))
	benchSync(b, g)
	return g
}

func benchJoin(g *classicGroup, memberID string) {
	carry(g.join(scriptStart, &JoinRequest{
		Group: "g", MemberID: memberID, ClientID: "c", SessionTimeout: 10 * time.Second, RebalanceTimeout: time.Minute,
		ProtocolType: "consumer", Protocols: []Protocol{{"range", subscription("orders")}, {"cooperative-sticky", subscription("orders")}},
	}, func(JoinReply, error) {}))
}

func benchSync(b *testing.B, g *classicGroup) {
	b.Helper()
	assignments := make([]Assignment, len(g.members))
	for i, m := range g.members {
		assignments[i] = Assignment{MemberID: m.id, Bytes: []byte("part")}
	}
	for _, m := range append(g.members[1:len(g.members):len(g.members)], g.members[0]) { // the leader's is the last
		carry(g.sync(scriptStart, &SyncRequest{Group: "g", Generation: g.generation, MemberID: m.id, Assignments: assignments}, func(SyncReply, error) {}))
	}
	if g.current != classicStable {
		b.Fatalf("state %s, want Stable", g.current)
	}
}

// carry lets every step of a group become durable at once.
func carry(st step) {
	for st.then != nil {
		st = st.then(scriptStart, nil)
	}
}

// BenchmarkClassicHeartbeat is one heartbeat and the look for the next deadline.
func BenchmarkClassicHeartbeat(b *testing.B) {
	for _, n := range []int{1, 10, 1000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			g := benchGroup(b, n)
			r := &HeartbeatRequest{Group: "g", Generation: g.generation, MemberID: g.members[n/2].id}
			b.ReportAllocs()
			for b.Loop() {
				if err := g.heartbeat(scriptStart, r); err != nil {
					b.Fatal(err)
				}
				_ = g.next()
			}
		})
	}
}

// BenchmarkClassicRebalance is one generation: every member joins and syncs.
func BenchmarkClassicRebalance(b *testing.B) {
	for _, n := range []int{10, 1000} {
		b.Run(fmt.Sprintf("members=%d", n), func(b *testing.B) {
			g := benchGroup(b, n)
			b.ReportAllocs()
			for b.Loop() {
				for _, m := range g.members {
					benchJoin(g, m.id)
				}
				benchSync(b, g)
			}
		})
	}
}

// BenchmarkClassicPending is what a client without a member id costs that joins, and
// then with its id leaves, among others that have been given an id and not come again.
func BenchmarkClassicPending(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprintf("pending=%d", n), func(b *testing.B) {
			g := benchGroup(b, 1)
			join := func() (id string) {
				r := &JoinRequest{Group: "g", ClientID: "c", SessionTimeout: time.Minute, ProtocolType: "consumer", Protocols: g.members[0].protocols, NeedsMemberID: true}
				g.join(scriptStart, r, func(a JoinReply, _ error) { id = a.MemberID })
				_ = g.next()
				return id
			}
			for range n {
				join()
			}
			b.ReportAllocs()
			for b.Loop() {
				id := join()
				g.leave(scriptStart, &LeaveRequest{Group: "g", Members: []LeavingMember{{MemberID: id}}}, func(LeaveReply, error) {})
				_ = g.next()
			}
		})
	}
}
