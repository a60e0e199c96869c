package groups

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage/vfs"
)

// The lengths in keys and in classic records have 16 bits: what is longer would be read
// back as something else, or not at all.
func TestTextsThatNoRecordHasRoomForAreRefused(t *testing.T) {
	s, c := open(t, vfs.NewMem(vfs.MemOptions{}))
	orders := topic(t, s, "orders")
	long, longer := strings.Repeat("g", maxText), strings.Repeat("g", maxText+1)

	commit(t, c, long, orders, 0, 7)
	if got, err := c.FetchOffsets(t.Context(), &FetchRequest{Group: long, MemberEpoch: -1}); err != nil || len(got) != 1 {
		t.Errorf("fetch of a group id of %d bytes: got %v %v, want one offset", len(long), got, err)
	}
	commits := []Commit{{Topic: "orders", TopicID: orders.ID(), Offset: 7, LeaderEpoch: -1}}
	if _, err := c.CommitOffsets(t.Context(), &CommitRequest{Group: longer, Generation: -1, Commits: commits, Retention: -1}); !errors.Is(err, ErrInvalidGroupID) {
		t.Errorf("commit for a group id of %d bytes: got %v, want %v", len(longer), err, ErrInvalidGroupID)
	}

	for name, change := range map[string]func(*JoinRequest){
		"client id":     func(r *JoinRequest) { r.ClientID = long },
		"instance id":   func(r *JoinRequest) { r.InstanceID = &long },
		"protocol type": func(r *JoinRequest) { r.ProtocolType = longer },
		"protocol":      func(r *JoinRequest) { r.Protocols = []Protocol{{Name: "range"}, {Name: longer}} },
	} {
		r := &JoinRequest{Group: "g", ClientID: "c", SessionTimeout: 10 * time.Second, ProtocolType: "consumer", Protocols: []Protocol{{Name: "range"}}, NeedsMemberID: true}
		change(r)
		if _, err := c.JoinGroup(t.Context(), r); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("join with a long %s: got %v, want %v", name, err, ErrInvalidRequest)
		}
	}
	for name, r := range map[string]*ConsumerHeartbeatRequest{
		"member id":          {Group: "g", MemberID: longer, RebalanceTimeoutMs: 1000, Topics: []string{"orders"}, Owned: []TopicPartitions{}},
		"regular expression": {Group: "g", MemberID: "m", RebalanceTimeoutMs: 1000, Regex: &longer, Owned: []TopicPartitions{}},
	} {
		if _, err := c.ConsumerGroupHeartbeat(t.Context(), r); !errors.Is(err, ErrInvalidRequest) {
			t.Errorf("heartbeat with a long %s: got %v, want %v", name, err, ErrInvalidRequest)
		}
	}
	if _, err := c.ShareGroupHeartbeat(t.Context(), &ShareHeartbeatRequest{Group: "g", MemberID: longer, Topics: []string{"orders"}}); !errors.Is(err, ErrInvalidRequest) {
		t.Errorf("share heartbeat with a long member id: got %v, want %v", err, ErrInvalidRequest)
	}
	if got, err := c.List(nil, nil); err != nil || len(got) != 1 {
		t.Errorf("groups: got %v %v, want the one that fits", got, err)
	}
}
