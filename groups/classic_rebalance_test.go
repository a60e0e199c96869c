package groups

import (
	"fmt"
	"testing"
	"time"
)

// Static members stay though they do not join. A rebalance that none of them joins is
// tried again, and not without pause where they ask for no time to join.
func TestRebalanceThatNobodyJoinsIsTriedAgainAfterAPause(t *testing.T) {
	r := &classicRecord{group: "g", groupType: "consumer", generation: 1, protocol: "range", leader: "m0", sinceMs: -1}
	for i := range 2 {
		instance := fmt.Sprint("i", i)
		r.members = append(r.members, classicRecordMember{id: fmt.Sprint("m", i), instanceID: &instance, sessionTimeout: time.Minute, subscription: subscription("orders")})
	}
	g, err := r.restore(&env{config: &Config{MaxSize: 2}})
	if err != nil {
		t.Fatal(err)
	}
	g.loaded(start)
	g.leave(start, &LeaveRequest{Members: []LeavingMember{{MemberID: "m1"}}}, func(LeaveReply, error) {})
	if got := g.next(); g.current != classicPreparing || !got.Equal(start) {
		t.Fatalf("state %s until %v, want %s until %v", g.current, got, classicPreparing, start)
	}
	if st := g.joinOver(start); len(st.records) > 0 {
		t.Errorf("got records %q, want none", st.records)
	}
	if got, want := g.next(), start.Add(minRetry); g.current != classicPreparing || len(g.members) != 1 || !got.Equal(want) {
		t.Errorf("state %s of %d members until %v, want %s of one until %v", g.current, len(g.members), got, classicPreparing, want)
	}
}
