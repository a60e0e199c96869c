package wire

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage/vfs"
)

// commitRequest makes a request that commits offset 7 for a partition of a topic, by name or by id as the version wants.
func (b *broker) commitRequest(version int16, topic string, partition int32) *kmsg.OffsetCommitRequest {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = version, "g", -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	if known, ok := b.store.Topic(topic); ok {
		t.TopicID = known.ID()
	} else {
		t.TopicID = [16]byte{1}
	}
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = partition, 7, 3, kmsg.StringPtr("text")
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return req
}

// committed returns what a group has committed for a partition.
func (b *broker) committed(topic string, partition int32) groups.FetchedOffset {
	b.t.Helper()
	got, err := b.s.groups.FetchOffsets(b.t.Context(), &groups.FetchRequest{Group: "g", MemberEpoch: -1, Queries: []groups.OffsetQuery{{Topic: topic, Partition: partition}}})
	if err != nil {
		b.t.Fatal(err)
	}
	return got[0]
}

// commitCode sends a commit of one partition and returns its code.
func (b *broker) commitCode(req *kmsg.OffsetCommitRequest) int16 {
	b.t.Helper()
	resp := ask[*kmsg.OffsetCommitResponse](b, req)
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		b.t.Fatalf("commit answers %+v, want one partition", resp.Topics)
	}
	return resp.Topics[0].Partitions[0].ErrorCode
}

func TestOffsetCommitStoresWhatTheVersionCarries(t *testing.T) {
	atVersions(t, "", 8, 2, func(t *testing.T, v int16) {
		b := withGroups(newBroker(t, nil))
		b.topic("orders", 2)
		if code := b.commitCode(b.commitRequest(v, "orders", 1)); code != 0 {
			t.Fatalf("error %d, want 0", code)
		}
		epoch := int32(3)
		if v < 6 {
			epoch = -1
		}
		got := b.committed("orders", 1)
		if o := got.Offset; !got.Found || o.Offset != 7 || o.LeaderEpoch != epoch || o.Metadata != "text" || o.CommitMs != b.nowMs() || o.ExpireMs != -1 {
			t.Errorf("committed %+v, want 7 with epoch %d and no expiry", got, epoch)
		}
		if b.committed("orders", 0).Found {
			t.Error("the other partition has an offset, want none")
		}
	})
}

func TestOffsetCommitErrors(t *testing.T) {
	atVersions(t, "", 8, 2, func(t *testing.T, v int16) {
		b := withGroups(newBroker(t, nil))
		b.topic("orders", 1)
		unknown, member, long := int16(3), int16(22), b.commitRequest(v, "orders", 0)
		if v >= 10 {
			unknown = 100
		}
		if v >= 9 {
			member = 69
		}
		long.Topics[0].Partitions[0].Metadata = kmsg.StringPtr(strings.Repeat("x", 4097))
		ofMember := b.commitRequest(v, "orders", 0)
		ofMember.Generation, ofMember.MemberID = 0, "m"
		for _, c := range []struct {
			what string
			req  *kmsg.OffsetCommitRequest
			want int16
		}{
			{"a topic that is not there", b.commitRequest(v, "ghost", 0), unknown},
			{"a partition that is not there", b.commitRequest(v, "orders", 1), 3},
			{"a negative partition", b.commitRequest(v, "orders", -1), 3},
			{"a member of a group without members", ofMember, member},
			{"a text that is too long", long, 12},
		} {
			if got := b.commitCode(c.req); got != c.want {
				t.Errorf("%s: error %d, want %d", c.what, got, c.want)
			}
		}
		if b.committed("orders", 0).Found {
			t.Error("an offset is committed, want none")
		}
	})
}

func TestOffsetCommitFailsPartitionsOneByOne(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 1)
	req := b.commitRequest(9, "ghost", 0)
	req.Topics = append(req.Topics, b.commitRequest(9, "orders", 0).Topics[0])
	resp := ask[*kmsg.OffsetCommitResponse](b, req)
	if got := []int16{resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[1].Partitions[0].ErrorCode}; got[0] != 3 || got[1] != 0 {
		t.Errorf("errors %v, want 3 and 0", got)
	}
	if !b.committed("orders", 0).Found {
		t.Error("nothing is committed for the partition that is there")
	}
}

func TestOffsetCommitThatCannotBeWritten(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 300)
	large := b.commitRequest(9, "orders", 0)
	p := large.Topics[0].Partitions[0]
	p.Metadata = kmsg.StringPtr(strings.Repeat("x", 4096))
	for i := range int32(299) {
		p.Partition = i + 1
		large.Topics[0].Partitions = append(large.Topics[0].Partitions, p)
	}
	for _, p := range ask[*kmsg.OffsetCommitResponse](b, large).Topics[0].Partitions {
		if p.ErrorCode != -1 {
			t.Fatalf("partition %d of a commit larger than a batch: error %d, want -1, which nobody tries again", p.Partition, p.ErrorCode)
		}
	}
	broken := func(o vfs.Op) error {
		if o.Kind == vfs.OpSync && strings.Contains(o.Name, groups.OffsetsTopic) {
			return errors.New("no medium")
		}
		return nil
	}
	b.onOp.Store(&broken)
	if code := b.commitCode(b.commitRequest(9, "orders", 0)); code != 16 {
		t.Errorf("a disk that fails: error %d, want 16", code)
	}
	b.onOp.Store(nil)
}

func TestOffsetCommitRetention(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 1)
	for _, c := range []struct {
		version         int16
		retention, want int64
	}{
		{2, 1000, b.nowMs() + 1000},
		{4, 0, b.nowMs()},
		{4, -1, -1},
		{4, math.MaxInt64, b.nowMs() + maxRetentionMs}, // for ever
	} {
		req := b.commitRequest(c.version, "orders", 0)
		req.RetentionTimeMillis = c.retention
		if code := b.commitCode(req); code != 0 {
			t.Fatalf("retention %d: error %d, want 0", c.retention, code)
		}
		if got := b.committed("orders", 0).Offset.ExpireMs; got != c.want {
			t.Errorf("retention %d: expires at %d, want %d", c.retention, got, c.want)
		}
	}
}

// TestOffsetCommitOfMembersAtEveryVersion holds who may commit against the state of the group.
func TestOffsetCommitOfMembersAtEveryVersion(t *testing.T) {
	for v := int16(2); v <= 10; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newGroupServer(t, map[string]string{"group.initial.rebalance.delay.ms": "0"})
				s.topic("orders", 1)
				c := s.dial(t)
				commit := func(what, group, memberID string, instance *string, generation int32, want int16) {
					t.Helper()
					req := s.commitRequest(v, "orders", 0)
					req.Group, req.MemberID, req.InstanceID, req.Generation = group, memberID, instance, generation
					if got := c.call(req).(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode; got != want {
						t.Errorf("%s: %d, want %d", what, got, want)
					}
				}
				unknown := int16(22)
				if v >= 9 {
					unknown = 69
				}
				commit("a generation of no group", "simple", "", nil, 0, unknown)
				commit("a member of no group", "simple", "m", nil, -1, 0) // a simple consumer that names itself
				commit("OFFS-04 nobody in a simple group", "simple", "", nil, -1, 0)
				commit("a generation of a simple group", "simple", "", nil, 0, 25)
				commit("a member of a simple group", "simple", "m", nil, 3, 25)

				leader, follower := s.pair(t, groupVersions{9, 4, 5, 5, 6})
				members := func(state string, want int16) {
					t.Helper()
					commit("OFFS-08 the member in "+state, "kitchen", follower.id, nil, follower.generation, want)
					commit("an old generation in "+state, "kitchen", follower.id, nil, follower.generation-1, 22)
					commit("a generation to come in "+state, "kitchen", follower.id, nil, follower.generation+1, 22)
					commit("no generation of the member in "+state, "kitchen", follower.id, nil, -1, 22)
					commit("an unknown member in "+state, "kitchen", "ghost", nil, follower.generation, 25)
					commit("OFFS-06 nobody in "+state, "kitchen", "", nil, -1, 25)
					if v >= 7 {
						commit("an unknown instance in "+state, "kitchen", follower.id, kmsg.StringPtr("i"), follower.generation, 25)
					}
				}
				members("Stable", 0)
				joining := s.dial(t)
				rejoin := leader.joinRequest()
				id := joining.send(rejoin)
				synctest.Wait()
				members("PreparingRebalance", 0)
				follower.join()
				joining.receive(rejoin, id)
				members("CompletingRebalance", 27)
				leader.leave()
				follower.leave()
				commit("nobody in an emptied group", "kitchen", "", nil, -1, 0)
				commit("a generation in an emptied group", "kitchen", follower.id, nil, follower.generation, 25)
			})
		})
	}
}

func TestOffsetCommitOfMoreThanFitsIsNotLookedAt(t *testing.T) {
	b := withGroups(newBroker(t, nil))
	b.topic("orders", 1)
	if code := b.commitCode(b.commitRequest(9, "orders", 0)); code != 0 { // makes the topic of offsets
		t.Fatalf("error %d, want 0", code)
	}
	large := b.commitRequest(9, "ghost", 0)
	p := large.Topics[0].Partitions[0]
	for range b.s.groups.MostCommits() {
		large.Topics[0].Partitions = append(large.Topics[0].Partitions, p)
	}
	answers := ask[*kmsg.OffsetCommitResponse](b, large).Topics[0].Partitions
	if n := len(large.Topics[0].Partitions); len(answers) != n {
		t.Fatalf("%d answers, want %d", len(answers), n)
	}
	for _, p := range answers {
		if p.ErrorCode != -1 {
			t.Fatalf("partition %d: error %d, want -1 for each, also of a topic that is not there", p.Partition, p.ErrorCode)
		}
	}
}
