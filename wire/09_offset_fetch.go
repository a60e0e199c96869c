package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
)

// OffsetFetch, key 9, versions 1 to 10.
//
// v2 added the top-level error and null topics for all. v5 added the leader epoch.
// v6 is flexible. v7 added require_stable. v8 asks for several groups. v9 added
// member id and epoch. v10 names topics by id.
//
// Differs from Kafka: a group that is asked for all its offsets more than once is answered once. A small request could
// ask for gigabytes. For the same reason an offset with metadata that is asked for again and again is an error at last;
// see repeats.
//
// Kafka: KafkaApis.handleOffsetFetchRequest, OffsetMetadataManager.fetchOffsets.

// offsetFetch answers an OffsetFetch request.
func (s *Server) offsetFetch(r *request, req *kmsg.OffsetFetchRequest) (*kmsg.OffsetFetchResponse, error) {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	told := toldOffsets{seen: make(map[toldOffset]bool), left: newRepeats()}
	if r.version >= 8 {
		resp.Groups = make([]kmsg.OffsetFetchResponseGroup, 0, len(req.Groups))
		all := make(map[string]bool) // groups that are answered with all they have
		for i := range req.Groups {
			g := &req.Groups[i]
			if g.Topics == nil {
				if all[g.Group] {
					continue
				}
				all[g.Group] = true
			}
			resp.Groups = append(resp.Groups, s.fetchGroupOffsets(r, g, req.RequireStable, &told))
			if err := r.answerGrows(fetchedSize(&resp.Groups[len(resp.Groups)-1])); err != nil {
				return nil, err
			}
		}
		return resp, nil
	}
	group := kmsg.NewOffsetFetchRequestGroup()
	group.Group = req.Group
	if req.Topics != nil {
		group.Topics = make([]kmsg.OffsetFetchRequestGroupTopic, len(req.Topics))
		for i, rt := range req.Topics {
			group.Topics[i] = kmsg.NewOffsetFetchRequestGroupTopic()
			group.Topics[i].Topic, group.Topics[i].Partitions = rt.Topic, rt.Partitions
		}
	}
	answer := s.fetchGroupOffsets(r, &group, req.RequireStable, &told)
	if err := r.answerGrows(fetchedSize(&answer)); err != nil {
		return nil, err
	}
	resp.ErrorCode = answer.ErrorCode
	for _, gt := range answer.Topics {
		at := kmsg.NewOffsetFetchResponseTopic()
		at.Topic = gt.Topic
		for _, gp := range gt.Partitions {
			ap := kmsg.NewOffsetFetchResponseTopicPartition()
			ap.Partition, ap.Offset, ap.LeaderEpoch, ap.Metadata, ap.ErrorCode = gp.Partition, gp.Offset, gp.LeaderEpoch, gp.Metadata, gp.ErrorCode
			at.Partitions = append(at.Partitions, ap)
		}
		resp.Topics = append(resp.Topics, at)
	}
	if r.version < 2 && answer.ErrorCode != 0 {
		resp.Topics = failedOffsetTopics(req, answer.ErrorCode) // v1 has no other place for it
	}
	return resp, nil
}

// fetchGroupOffsets answers for one group. Topics keep the order of the request;
// without topics all of the group's are answered.
func (s *Server) fetchGroupOffsets(r *request, req *kmsg.OffsetFetchRequestGroup, requireStable bool, told *toldOffsets) kmsg.OffsetFetchResponseGroup {
	answer := kmsg.NewOffsetFetchResponseGroup()
	answer.Group = req.Group
	if !s.authorize(r, opDescribe, resourceGroup, req.Group) {
		answer.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return answer
	}
	ask := groups.FetchRequest{Group: req.Group, MemberEpoch: -1, Stable: requireStable}
	if r.version >= 9 {
		ask.MemberID, ask.MemberEpoch = req.MemberID, req.MemberEpoch
	}
	var waiting []*kmsg.OffsetFetchResponseGroupTopicPartition // what the queries are answered in
	if req.Topics != nil {
		ask.Queries = []groups.OffsetQuery{}
		answer.Topics = make([]kmsg.OffsetFetchResponseGroupTopic, len(req.Topics))
	}
	for i := range req.Topics {
		rt, at := &req.Topics[i], &answer.Topics[i]
		*at = kmsg.NewOffsetFetchResponseGroupTopic()
		at.Topic, at.TopicID = rt.Topic, rt.TopicID
		at.Partitions = make([]kmsg.OffsetFetchResponseGroupTopicPartition, len(rt.Partitions))
		name, code := s.fetchedTopic(r, rt)
		for j, p := range rt.Partitions {
			if code != 0 {
				at.Partitions[j] = noOffset(p, code)
				continue
			}
			ask.Queries = append(ask.Queries, groups.OffsetQuery{Topic: name, TopicID: storage.TopicID(rt.TopicID), Partition: p})
			waiting = append(waiting, &at.Partitions[j])
		}
	}
	fetched, err := s.groups.FetchOffsets(r.ctx, &ask)
	switch {
	case err != nil:
		answer.ErrorCode, answer.Topics = errorCode(err), nil
	case req.Topics == nil:
		answer.Topics = s.allOffsets(r, fetched, requireStable)
	}
	if err == nil {
		for i, p := range waiting {
			q, f := ask.Queries[i], &fetched[i]
			if !told.may(toldOffset{req.Group, q.Topic, q.Partition}, f.Offset.Metadata) {
				*p = noOffset(q.Partition, errorCode(errRepeated))
				continue
			}
			*p = fetchedOffset(*f, requireStable)
		}
	}
	return answer
}

// fetchedSize is about how many bytes the answer for a group takes.
func fetchedSize(g *kmsg.OffsetFetchResponseGroup) int {
	size := 8 + len(g.Group)
	for i := range g.Topics {
		t := &g.Topics[i]
		size += 21 + len(t.Topic)
		for j := range t.Partitions {
			size += 21 + len(deref(t.Partitions[j].Metadata))
		}
	}
	return size
}

// toldOffsets are the offsets with metadata that an answer tells, and how many it may tell again.
type toldOffsets struct {
	seen map[toldOffset]bool
	left repeats
}

type toldOffset struct {
	group, topic string
	partition    int32
}

// may reports whether an offset may be told, perhaps again.
func (t *toldOffsets) may(o toldOffset, metadata string) bool {
	if metadata == "" {
		return true
	}
	again := t.seen[o]
	t.seen[o] = true
	return !again || t.left.takeBytes(len(metadata))
}

// fetchedTopic resolves the name of a topic that is asked for; the code is not 0
// when it may not be. A name need not exist.
func (s *Server) fetchedTopic(r *request, rt *kmsg.OffsetFetchRequestGroupTopic) (string, int16) {
	name := rt.Topic
	if r.version >= 10 {
		t, ok := s.store.TopicByID(storage.TopicID(rt.TopicID))
		if !ok {
			return "", kerr.UnknownTopicID.Code
		}
		name = t.Name()
	}
	if !s.authorize(r, opDescribe, resourceTopic, name) {
		return "", kerr.TopicAuthorizationFailed.Code
	}
	return name, 0
}

// allOffsets groups what was fetched by topic. Topics that the caller may not see
// are left out, and from version 10 on those that have no id any more.
func (s *Server) allOffsets(r *request, fetched []groups.FetchedOffset, requireStable bool) []kmsg.OffsetFetchResponseGroupTopic {
	out := []kmsg.OffsetFetchResponseGroupTopic{}
	for i := 0; i < len(fetched); {
		name := fetched[i].Topic
		at := kmsg.NewOffsetFetchResponseGroupTopic()
		at.Topic = name
		for ; i < len(fetched) && fetched[i].Topic == name; i++ {
			at.Partitions = append(at.Partitions, fetchedOffset(fetched[i], requireStable))
		}
		if !s.mayDo(r, opDescribe, resourceTopic, name) {
			continue
		}
		if r.version >= 10 {
			t, ok := s.store.Topic(name)
			if !ok {
				continue
			}
			at.TopicID = t.ID()
		}
		out = append(out, at)
	}
	return out
}

// fetchedOffset is the answer for one partition.
func fetchedOffset(f groups.FetchedOffset, requireStable bool) kmsg.OffsetFetchResponseGroupTopicPartition {
	if f.Unstable && requireStable {
		return noOffset(f.Partition, kerr.UnstableOffsetCommit.Code)
	}
	if !f.Found {
		return noOffset(f.Partition, 0)
	}
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata = f.Partition, f.Offset.Offset, f.Offset.LeaderEpoch, &f.Offset.Metadata
	return p
}

// noOffset is what stands for a partition without a committed offset, or with an
// error.
func noOffset(partition int32, code int16) kmsg.OffsetFetchResponseGroupTopicPartition {
	p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	none := ""
	p.Partition, p.Offset, p.LeaderEpoch, p.Metadata, p.ErrorCode = partition, -1, -1, &none, code
	return p
}

// failedOffsetTopics answers every partition asked for with one code.
func failedOffsetTopics(req *kmsg.OffsetFetchRequest, code int16) []kmsg.OffsetFetchResponseTopic {
	var out []kmsg.OffsetFetchResponseTopic
	for _, rt := range req.Topics {
		at := kmsg.NewOffsetFetchResponseTopic()
		at.Topic = rt.Topic
		for _, p := range rt.Partitions {
			g := noOffset(p, code)
			ap := kmsg.NewOffsetFetchResponseTopicPartition()
			ap.Partition, ap.Offset, ap.LeaderEpoch, ap.Metadata, ap.ErrorCode = g.Partition, g.Offset, g.LeaderEpoch, g.Metadata, g.ErrorCode
			at.Partitions = append(at.Partitions, ap)
		}
		out = append(out, at)
	}
	return out
}
