package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// ConsumerGroupDescribe, key 69, versions 0 and 1 (KIP-848).
//
//	1  the type of each member: 0 of the classic protocol, 1 of the consumer protocol (KIP-1099)
//
// A group with a topic that the caller may not see is told of by its id and an error alone. Groups come in the order of
// the request; in Kafka those that the caller may not see come first.
//
// Kafka: KafkaApis.handleConsumerGroupDescribe, GroupMetadataManager.consumerGroupDescribe.
func (s *Server) consumerGroupDescribe(r *request, req *kmsg.ConsumerGroupDescribeRequest) (*kmsg.ConsumerGroupDescribeResponse, error) {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupDescribeResponse)
	resp.Groups = make([]kmsg.ConsumerGroupDescribeResponseGroup, len(req.Groups))
	for i, name := range req.Groups {
		resp.Groups[i] = s.describeConsumerGroup(r, name)
		if req.IncludeAuthorizedOperations && resp.Groups[i].ErrorCode == 0 {
			resp.Groups[i].AuthorizedOperations = s.authorizedOperations(r, resourceGroup, name)
		}
	}
	return resp, nil
}

// describeConsumerGroup answers for one group.
func (s *Server) describeConsumerGroup(r *request, name string) kmsg.ConsumerGroupDescribeResponseGroup {
	answer := kmsg.NewConsumerGroupDescribeResponseGroup()
	answer.Group = name
	switch {
	case !s.groups.ServesConsumerGroups():
		answer.ErrorCode = kerr.UnsupportedVersion.Code
		return answer
	case !s.authorize(r, opDescribe, resourceGroup, name):
		answer.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return answer
	}
	d, err := s.groups.ConsumerGroupDescribe(name)
	if err != nil {
		answer.ErrorCode = errorCode(err)
		if errors.Is(err, groups.ErrGroupIDNotFound) {
			answer.ErrorMessage = errorMessage(err)
		}
		return answer
	}
	answer.State, answer.Epoch, answer.AssignmentEpoch, answer.AssignorName = d.State, d.Epoch, d.TargetEpoch, d.Assignor
	hidden := false
	for _, m := range d.Members {
		member := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		member.MemberID, member.InstanceID, member.RackID, member.MemberEpoch = m.MemberID, m.InstanceID, m.RackID, m.Epoch
		member.ClientID, member.ClientHost = m.ClientID, m.ClientHost
		member.SubscribedTopics, member.SubscribedTopicRegex = m.Topics, &m.Regex
		member.Assignment.TopicPartitions = s.describedPartitions(r, m.Assigned, &hidden)
		member.TargetAssignment.TopicPartitions = s.describedPartitions(r, m.Target, &hidden)
		member.MemberType = 1
		if m.Classic {
			member.MemberType = 0
		}
		answer.Members = append(answer.Members, member)
	}
	if hidden {
		answer = kmsg.NewConsumerGroupDescribeResponseGroup()
		answer.Group, answer.ErrorCode = name, kerr.TopicAuthorizationFailed.Code
		text := "the group has topics that the client may not describe"
		answer.ErrorMessage = &text
	}
	return answer
}

// describedPartitions lists partitions, and sets hidden when the caller may not see a topic.
func (s *Server) describedPartitions(r *request, list []groups.NamedPartitions, hidden *bool) []kmsg.AssignmentTopicPartition {
	var out []kmsg.AssignmentTopicPartition
	for _, p := range list {
		if !s.authorize(r, opDescribe, resourceTopic, p.Topic) {
			*hidden = true
		}
		t := kmsg.NewAssignmentTopicPartition()
		t.TopicID, t.Topic, t.Partitions = p.TopicID, p.Topic, p.Partitions
		out = append(out, t)
	}
	return out
}
