package compat_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const notAsked = -2147483648 // authorized operations that were not asked for

// find returns the topic's answer.
func find(res *kmsg.MetadataResponse, name string) *kmsg.MetadataResponseTopic {
	for i := range res.Topics {
		if res.Topics[i].Topic != nil && *res.Topics[i].Topic == name {
			return &res.Topics[i]
		}
	}
	return nil
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "META-01 null topic list means all, empty list means none", versions(0, 1, 9, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "meta-01", 2)
		c := s.dial(t)
		all := metadataRequest()
		if v > 0 {
			all.Topics = nil
		} // v0 has no null; its empty list means all
		res := ask[*kmsg.MetadataResponse](c, v, all)
		got := find(res, tp.Name)
		if got == nil {
			t.Fatalf("%s is not among all topics", tp.Name)
		}
		wantCode(t, "topic", got.ErrorCode, noError)
		want(t, "partitions", len(got.Partitions), 2)
		for i, p := range got.Partitions {
			wantCode(t, "partition", p.ErrorCode, noError)
			want(t, "partition", p.Partition, int32(i))
			want(t, "leader", p.Leader, res.Brokers[0].NodeID)
			if !slices.Equal(p.Replicas, []int32{p.Leader}) || !slices.Equal(p.ISR, []int32{p.Leader}) || len(p.OfflineReplicas) > 0 {
				t.Errorf("partition %d: %+v", i, p)
			}
		}
		if v >= 10 {
			want(t, "topic id", got.TopicID, tp.ID)
		}
		if v == 0 {
			return
		}
		none := ask[*kmsg.MetadataResponse](c, v, metadataRequest())
		want(t, "topics for an empty list", len(none.Topics), 0)
		want(t, "brokers", len(none.Brokers), 1)
		want(t, "node id", none.Brokers[0].NodeID, 1)
		want(t, "controller id", none.ControllerID, none.Brokers[0].NodeID)
		if none.Brokers[0].Rack != nil {
			t.Errorf("rack is %q, want null", *none.Brokers[0].Rack)
		}
		if v >= 2 && (none.ClusterID == nil || *none.ClusterID == "") {
			t.Error("no cluster id")
		}
	})

	at(t, "META-02 allow_auto_topic_creation=false never creates", versions(4, 13), func(t *testing.T, v int16) {
		c := s.dial(t)
		name := fresh("meta-02")
		req := metadataRequest(name)
		req.AllowAutoTopicCreation = false
		for range 2 {
			res := ask[*kmsg.MetadataResponse](c, v, req)
			got := find(res, name)
			wantCode(t, "absent topic", got.ErrorCode, unknownTopicOrPart)
			want(t, "partitions", len(got.Partitions), 0)
			want(t, "topic id", got.TopicID, [16]byte{})
		}
		all := metadataRequest()
		all.Topics = nil
		if find(ask[*kmsg.MetadataResponse](c, v, all), name) != nil {
			t.Error("the topic was created")
		}
		req.AllowAutoTopicCreation = true
		first := find(ask[*kmsg.MetadataResponse](c, v, req), name)
		wantCode(t, "first answer with auto-creation", first.ErrorCode, unknownTopicOrPart)
		ctx := within(t)
		for { // Kafka takes a moment
			got := find(ask[*kmsg.MetadataResponse](c, v, req), name)
			if got.ErrorCode == 0 && len(got.Partitions) == 1 {
				break
			}
			if !s.External() || ctx.Err() != nil {
				t.Fatalf("second answer with auto-creation: %+v", got)
			}
		}
	})

	at(t, "META-05 illegal topic name is told apart from unknown topic", versions(1, 4, 13), func(t *testing.T, v int16) {
		c := s.dial(t)
		for _, bad := range []string{"a b", "..", ".", strings.Repeat("x", 250), "", "ü"} {
			req := metadataRequest(bad)
			req.AllowAutoTopicCreation = true
			res := ask[*kmsg.MetadataResponse](c, v, req)
			got := find(res, bad)
			if got == nil {
				t.Fatalf("%q is not answered: %+v", bad, res.Topics)
			}
			wantCode(t, bad, got.ErrorCode, invalidTopic)
			want(t, "partitions", len(got.Partitions), 0)
		}
		all := metadataRequest()
		all.Topics = nil
		if find(ask[*kmsg.MetadataResponse](c, v, all), "a b") != nil {
			t.Error("the topic was created")
		}
	})

	at(t, "META-09 authorized operations are the sentinel unless asked", versions(8, 10, 13), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "meta-09", 1)
		c := s.dial(t)
		for _, asked := range []bool{false, true} {
			req := metadataRequest(tp.Name)
			req.IncludeTopicAuthorizedOperations = asked
			req.IncludeClusterAuthorizedOperations = asked
			res := ask[*kmsg.MetadataResponse](c, v, req)
			topicOps, clusterOps := res.Topics[0].AuthorizedOperations, res.AuthorizedOperations
			switch {
			case !asked:
				want(t, "topic operations", topicOps, notAsked)
				want(t, "cluster operations", clusterOps, notAsked)
			default:
				want(t, "topic operations", topicOps, 0xdf8) // read, write, create, delete, alter, describe, and configs
				if v <= 10 {
					want(t, "cluster operations", clusterOps, 0x1fa0) // create, alter, describe, cluster action, both configs, idempotent write
				}
			}
		}
	})

	at(t, "an unknown topic id is named as such", versions(12, 13), func(t *testing.T, v int16) {
		c := s.dial(t)
		req := metadataRequest()
		rt := kmsg.NewMetadataRequestTopic()
		rt.TopicID = [16]byte{1, 2, 3}
		req.Topics = append(req.Topics, rt)
		res := ask[*kmsg.MetadataResponse](c, v, req)
		wantCode(t, "topic", res.Topics[0].ErrorCode, unknownTopicID)
		want(t, "topic id", res.Topics[0].TopicID, [16]byte{1, 2, 3})
		if res.Topics[0].Topic != nil {
			t.Errorf("name is %q, want null", *res.Topics[0].Topic)
		}
	})
}

func describeCluster(c *conn, v int16) *kmsg.DescribeClusterResponse {
	c.t.Helper()
	req := kmsg.NewPtrDescribeClusterRequest()
	req.EndpointType = 1
	return ask[*kmsg.DescribeClusterResponse](c, v, req)
}

func TestMetadataOverRestarts(t *testing.T) {
	t.Parallel()
	for _, how := range []string{stopped, killed} {
		t.Run("META-06 cluster id is stable, controller id is a live broker/"+how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			var id string
			for round := range 3 {
				c := s.dial(t)
				m := ask[*kmsg.MetadataResponse](c, 9, metadataRequest())
				d := describeCluster(c, 0)
				if m.ClusterID == nil || *m.ClusterID == "" {
					t.Fatal("no cluster id")
				}
				if round == 0 {
					id = *m.ClusterID
				}
				want(t, "cluster id in Metadata", *m.ClusterID, id)
				want(t, "cluster id in DescribeCluster", d.ClusterID, id)
				want(t, "controller id in Metadata", m.ControllerID, m.Brokers[0].NodeID)
				want(t, "controller id in DescribeCluster", d.ControllerID, m.Brokers[0].NodeID)
				if round < 2 {
					s.Restart(t, how)
				}
			}
		})

		t.Run("META-08 leader epoch never goes down/"+how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			tp := s.createTopic(t, "meta-08", 1)
			mustProduce(s.dial(t), tp, 0, one("a"))
			last := int32(-1)
			for round := range 3 {
				res := ask[*kmsg.MetadataResponse](s.dial(t), 7, metadataRequest(tp.Name))
				p := res.Topics[0].Partitions[0]
				wantCode(t, "partition", p.ErrorCode, noError)
				want(t, "leader", p.Leader, res.Brokers[0].NodeID)
				if p.LeaderEpoch < 0 || p.LeaderEpoch < last {
					t.Fatalf("round %d: leader epoch %d after %d", round, p.LeaderEpoch, last)
				}
				last = p.LeaderEpoch
				if round < 2 {
					s.Restart(t, how)
				}
			}
		})
	}
}
