package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
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
	resp.Groups = make([]kmsg.ShareGroupDescribeResponseGroup, len(req.GroupIDs))
	for i, name := range req.GroupIDs {
		resp.Groups[i] = s.describeShareGroup(r, name)
		if req.IncludeAuthorizedOperations && resp.Groups[i].ErrorCode == 0 {
			resp.Groups[i].AuthorizedOperations = s.authorizedOperations(r, resourceGroup, name)
		}
	}
	return resp, nil
}

// describeShareGroup answers for one group.
func (s *Server) describeShareGroup(r *request, name string) kmsg.ShareGroupDescribeResponseGroup {
	answer := kmsg.NewShareGroupDescribeResponseGroup()
	answer.GroupID = name
	switch {
	case !s.groups.ServesShareGroups():
		answer.ErrorCode = kerr.UnsupportedVersion.Code
		return answer
	case !s.authorize(r, opDescribe, resourceGroup, name):
		answer.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return answer
	}
	d, err := s.groups.ShareGroupDescribe(name)
	if err != nil {
		answer.ErrorCode = errorCode(err)
		if errors.Is(err, groups.ErrGroupIDNotFound) {
			answer.ErrorMessage = errorMessage(err)
		}
		return answer
	}
	answer.GroupState, answer.GroupEpoch, answer.AssignmentEpoch, answer.Assignor = d.State, d.Epoch, d.TargetEpoch, d.Assignor
	for _, m := range d.Members {
		member := kmsg.NewShareGroupDescribeResponseGroupMember()
		member.MemberID, member.RackID, member.MemberEpoch = m.MemberID, m.RackID, m.Epoch
		member.ClientID, member.ClientHost, member.SubscribedTopicNames = m.ClientID, m.ClientHost, m.Topics
		for _, p := range m.Assigned {
			if !s.authorize(r, opDescribe, resourceTopic, p.Topic) {
				hidden := kmsg.NewShareGroupDescribeResponseGroup()
				text := "the group has topics that the client may not describe"
				hidden.GroupID, hidden.ErrorCode, hidden.ErrorMessage = name, kerr.TopicAuthorizationFailed.Code, &text
				return hidden
			}
			t := kmsg.NewShareGroupDescribeResponseGroupMemberAssignmentTopicPartition()
			t.TopicID, t.Topic, t.Partitions = p.TopicID, p.Topic, p.Partitions
			member.Assignment.TopicPartitions = append(member.Assignment.TopicPartitions, t)
		}
		answer.Members = append(answer.Members, member)
	}
	return answer
}
