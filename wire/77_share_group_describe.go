package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// ShareGroupDescribe, key 77, version 1 (KIP-932). Version 0 was an early access, which Kafka 4.4 does not serve.
//
// A group with a topic that the caller may not see is told of by its id and an error alone. Groups come in the order of
// the request; in Kafka those that the caller may not see come first.
//
// Kafka: KafkaApis.handleShareGroupDescribe, GroupMetadataManager.shareGroupDescribe.
func (s *Server) shareGroupDescribe(r *request, req *kmsg.ShareGroupDescribeRequest) (*kmsg.ShareGroupDescribeResponse, error) {
	resp := req.ResponseKind().(*kmsg.ShareGroupDescribeResponse)
	var err error
	resp.Groups, err = describeEach(r, req.GroupIDs, func(name string) kmsg.ShareGroupDescribeResponseGroup {
		answer := s.describeShareGroup(r, name)
		if req.IncludeAuthorizedOperations && answer.ErrorCode == 0 {
			answer.AuthorizedOperations = s.authorizedOperations(r, resourceGroup, name)
		}
		return answer
	}, func(g *kmsg.ShareGroupDescribeResponseGroup) int {
		size := 32 + len(g.GroupID) + len(deref(g.ErrorMessage)) + len(g.GroupState) + len(g.Assignor)
		for i := range g.Members {
			m := &g.Members[i]
			size += 24 + len(m.MemberID) + len(deref(m.RackID)) + len(m.ClientID) + len(m.ClientHost)
			for _, topic := range m.SubscribedTopicNames {
				size += 2 + len(topic)
			}
			for _, t := range m.Assignment.TopicPartitions {
				size += 21 + len(t.Topic) + 4*len(t.Partitions)
			}
		}
		return size
	}, func(name string) kmsg.ShareGroupDescribeResponseGroup { return failedShareGroup(name, errRepeated) })
	return resp, err
}

// describeShareGroup answers for one group.
func (s *Server) describeShareGroup(r *request, name string) kmsg.ShareGroupDescribeResponseGroup {
	d, err := s.shareGroup(r, name)
	if err != nil {
		return failedShareGroup(name, err)
	}
	answer := kmsg.NewShareGroupDescribeResponseGroup()
	answer.GroupID = name
	answer.GroupState, answer.GroupEpoch, answer.AssignmentEpoch, answer.Assignor = d.State, d.Epoch, d.TargetEpoch, d.Assignor
	for _, m := range d.Members {
		member := kmsg.NewShareGroupDescribeResponseGroupMember()
		member.MemberID, member.RackID, member.MemberEpoch = m.MemberID, m.RackID, m.Epoch
		member.ClientID, member.ClientHost, member.SubscribedTopicNames = m.ClientID, m.ClientHost, m.Topics
		for _, p := range m.Assigned {
			t := kmsg.NewShareGroupDescribeResponseGroupMemberAssignmentTopicPartition()
			t.TopicID, t.Topic, t.Partitions = p.TopicID, p.Topic, p.Partitions
			member.Assignment.TopicPartitions = append(member.Assignment.TopicPartitions, t)
		}
		answer.Members = append(answer.Members, member)
	}
	return answer
}

// failedShareGroup stands in the place of a group that is not described.
func failedShareGroup(name string, err error) kmsg.ShareGroupDescribeResponseGroup {
	answer := kmsg.NewShareGroupDescribeResponseGroup()
	answer.GroupID = name
	answer.ErrorCode, answer.ErrorMessage = describeFailure(err)
	return answer
}

// shareGroup looks a share group up, for a caller who may see all of it.
func (s *Server) shareGroup(r *request, name string) (groups.ShareGroupDescription, error) {
	if err := s.refuseGroup(r, s.groups.ServesShareGroups(), opDescribe, name); err != nil {
		return groups.ShareGroupDescription{}, err
	}
	d, err := s.groups.ShareGroupDescribe(name)
	for _, m := range d.Members {
		if !s.seesTopics(r, m.Assigned) {
			return groups.ShareGroupDescription{}, errHiddenTopics
		}
	}
	return d, err
}
