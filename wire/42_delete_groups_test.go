package wire

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// deleteLines makes a line of each answer.
func deleteLines(resp *kmsg.DeleteGroupsResponse) string {
	text := ""
	for _, g := range resp.Groups {
		text += fmt.Sprintf("%q %d;", g.Group, g.ErrorCode)
		if g.ErrorMessage != nil {
			text += " says " + *g.ErrorMessage
		}
	}
	return text
}

func deleteRequest(version int16, groups ...string) *kmsg.DeleteGroupsRequest {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = version, groups
	return req
}

func TestDeleteGroupsAtEveryVersion(t *testing.T) {
	for v := range int16(4) {
		t.Run(fmt.Sprintf("GRP-15 v%d", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
				s.topic("orders", 1)
				leader, follower := s.pair(t, groupVersions{9, 4, 5, 5, 6}) // of the group kitchen
				s.commitCode(s.commitRequest(8, "orders", 0))
				c := s.dial(t)
				got := deleteLines(c.call(deleteRequest(v, "kitchen", "g", "ghost", "g", "")).(*kmsg.DeleteGroupsResponse))
				if want := `"kitchen" 68;"g" 0;"ghost" 69;"" 69;`; got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if s.committed("orders", 0).Found {
					t.Error("the offset of the deleted group is there")
				}
				leader.leave()
				follower.leave()
				got = deleteLines(c.call(deleteRequest(v, "kitchen")).(*kmsg.DeleteGroupsResponse))
				if want := `"kitchen" 0;`; got != want {
					t.Errorf("an emptied group: got %s, want %s", got, want)
				}
				again := groups.New(groups.Options{Store: s.store, Now: s.time})
				ctx, stop := context.WithCancel(t.Context())
				done := make(chan error)
				go func() { done <- again.Run(ctx) }()
				synctest.Wait()
				if listed, err := again.List(nil, nil); err != nil || len(listed) != 0 {
					t.Errorf("after a restart: got %v, error %v, want no group", listed, err)
				}
				stop()
				<-done
			})
		})
	}
}
