package wire

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
)

// DescribeShareGroupOffsets, key 90, versions 0 and 1 (KIP-932).
//
//	1  the lag (KIP-1226)
//
// A group, topic or partition without a state stands at -1, which is no error. No topics (null) asks for all that have a
// state. Leader epochs are 0, since there is one leader.
//
// Kafka: KafkaApis.handleDescribeShareGroupOffsetsRequest, GroupCoordinatorService.describeShareGroupOffsets.
func (s *Server) describeShareGroupOffsets(r *request, req *kmsg.DescribeShareGroupOffsetsRequest) (*kmsg.DescribeShareGroupOffsetsResponse, error) {
	if err := recoverLogs(s, r, req, s.shareLogsWanted(r, req)); err != nil {
		return nil, err
	}
	resp := req.ResponseKind().(*kmsg.DescribeShareGroupOffsetsResponse)
	resp.Groups = make([]kmsg.DescribeShareGroupOffsetsResponseGroup, len(req.Groups))
	first := make(map[string]*answered) // for each group of which all is asked
	left := newRepeats()
	for i := range req.Groups {
		g := &req.Groups[i]
		before := first[g.GroupID]
		switch {
		case g.Topics != nil:
			resp.Groups[i] = s.describeShareOffsets(r, g)
		case before == nil:
			resp.Groups[i] = s.describeShareOffsets(r, g)
			first[g.GroupID] = &answered{at: i, size: shareOffsetsSize(&resp.Groups[i])}
		case left.take(before, g.GroupID):
			resp.Groups[i] = resp.Groups[before.at]
		default:
			answer := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
			answer.GroupID, answer.ErrorCode, answer.ErrorMessage = g.GroupID, errorCode(errRepeated), errorMessage(errRepeated)
			resp.Groups[i] = answer
		}
		if err := r.answerGrows(shareOffsetsSize(&resp.Groups[i])); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// shareLogsWanted returns the logs that a request needs.
func (s *Server) shareLogsWanted(r *request, req *kmsg.DescribeShareGroupOffsetsRequest) iter.Seq[*storage.Log] {
	return func(yield func(*storage.Log) bool) {
		for i := range req.Groups {
			g := &req.Groups[i]
			if s.refuseGroup(r, s.groups.ServesShareGroups(), opDescribe, g.GroupID) != nil {
				continue
			}
			asked, _ := s.shareTopicsAsked(r, g)
			for log := range s.groups.ShareLogs(g.GroupID, asked) {
				if !yield(log) {
					return
				}
			}
		}
	}
}

// shareOffsetsSize is about how many bytes the answer for a group takes.
func shareOffsetsSize(g *kmsg.DescribeShareGroupOffsetsResponseGroup) int {
	size := 8 + len(g.GroupID) + len(deref(g.ErrorMessage))
	for i := range g.Topics {
		t := &g.Topics[i]
		size += 21 + len(t.Topic)
		for j := range t.Partitions {
			size += 28 + len(deref(t.Partitions[j].ErrorMessage))
		}
	}
	return size
}

// describeShareOffsets answers for one group.
func (s *Server) describeShareOffsets(r *request, g *kmsg.DescribeShareGroupOffsetsRequestGroup) kmsg.DescribeShareGroupOffsetsResponseGroup {
	answer := kmsg.NewDescribeShareGroupOffsetsResponseGroup()
	answer.GroupID = g.GroupID
	if err := s.refuseGroup(r, s.groups.ServesShareGroups(), opDescribe, g.GroupID); err != nil {
		answer.ErrorCode = errorCode(err)
		return answer
	}
	asked, refused := s.shareTopicsAsked(r, g)
	var denied []kmsg.DescribeShareGroupOffsetsResponseGroupTopic
	for _, t := range refused {
		topic := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
		topic.Topic = t.Topic
		for _, p := range t.Partitions {
			partition := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
			partition.Partition, partition.StartOffset = p, groups.UninitializedStart
			partition.ErrorCode, partition.ErrorMessage = kerr.TopicAuthorizationFailed.Code, errorMessage(kerr.TopicAuthorizationFailed)
			topic.Partitions = append(topic.Partitions, partition)
		}
		denied = append(denied, topic)
	}
	list, err := s.groups.DescribeShareOffsets(g.GroupID, asked)
	if err != nil {
		answer.ErrorCode, answer.ErrorMessage = errorCode(err), errorMessage(err)
		return answer
	}
	for _, t := range list {
		if g.Topics == nil && !s.authorize(r, opDescribe, resourceTopic, t.Topic) {
			continue
		}
		topic := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			partition := kmsg.NewDescribeShareGroupOffsetsResponseGroupTopicPartition()
			partition.Partition = p.Partition
			if p.Err == nil {
				partition.StartOffset, partition.Lag = p.Start, p.Lag
			}
			partition.ErrorCode, partition.ErrorMessage = errorCode(p.Err), errorMessage(p.Err)
			topic.Partitions = append(topic.Partitions, partition)
		}
		answer.Topics = append(answer.Topics, topic)
	}
	answer.Topics = append(answer.Topics, denied...)
	return answer
}

// shareTopicsAsked returns what a request names of a group's topics, nil for all, and which of them the caller may not see.
func (s *Server) shareTopicsAsked(r *request, g *kmsg.DescribeShareGroupOffsetsRequestGroup) (asked []groups.ShareTopic, denied []kmsg.DescribeShareGroupOffsetsRequestGroupTopic) {
	if g.Topics != nil {
		asked = []groups.ShareTopic{}
	}
	for _, t := range g.Topics {
		if s.authorize(r, opDescribe, resourceTopic, t.Topic) {
			asked = append(asked, groups.ShareTopic{Topic: t.Topic, Partitions: t.Partitions})
		} else {
			denied = append(denied, t)
		}
	}
	return asked, denied
}
