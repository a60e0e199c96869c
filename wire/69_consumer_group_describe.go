package wire

import (
	"slices"

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
	var err error
	resp.Groups, err = describeEach(r, req.Groups, func(name string) kmsg.ConsumerGroupDescribeResponseGroup {
		answer := s.describeConsumerGroup(r, name)
		if req.IncludeAuthorizedOperations && answer.ErrorCode == 0 {
			answer.AuthorizedOperations = s.authorizedOperations(r, resourceGroup, name)
		}
		return answer
	}, func(g *kmsg.ConsumerGroupDescribeResponseGroup) int {
		size := 32 + len(g.Group) + len(deref(g.ErrorMessage)) + len(g.State) + len(g.AssignorName)
		for i := range g.Members {
			m := &g.Members[i]
			size += 28 + len(m.MemberID) + len(deref(m.InstanceID)) + len(deref(m.RackID)) + len(m.ClientID) + len(m.ClientHost) + len(deref(m.SubscribedTopicRegex))
			for _, topic := range m.SubscribedTopics {
				size += 2 + len(topic)
			}
			for _, t := range slices.Concat(m.Assignment.TopicPartitions, m.TargetAssignment.TopicPartitions) {
				size += 21 + len(t.Topic) + 4*len(t.Partitions)
			}
		}
		return size
	}, func(name string) kmsg.ConsumerGroupDescribeResponseGroup {
		return failedConsumerGroup(name, errRepeated)
	})
	return resp, err
}

// describeConsumerGroup answers for one group.
func (s *Server) describeConsumerGroup(r *request, name string) kmsg.ConsumerGroupDescribeResponseGroup {
	d, err := s.consumerGroup(r, name)
	if err != nil {
		return failedConsumerGroup(name, err)
	}
	answer := kmsg.NewConsumerGroupDescribeResponseGroup()
	answer.Group = name
	answer.State, answer.Epoch, answer.AssignmentEpoch, answer.AssignorName = d.State, d.Epoch, d.TargetEpoch, d.Assignor
	for _, m := range d.Members {
		member := kmsg.NewConsumerGroupDescribeResponseGroupMember()
		member.MemberID, member.InstanceID, member.RackID, member.MemberEpoch = m.MemberID, m.InstanceID, m.RackID, m.Epoch
		member.ClientID, member.ClientHost = m.ClientID, m.ClientHost
		member.SubscribedTopics, member.SubscribedTopicRegex = m.Topics, &m.Regex
		member.Assignment.TopicPartitions = describedPartitions(m.Assigned)
		member.TargetAssignment.TopicPartitions = describedPartitions(m.Target)
		member.MemberType = 1
		if m.Classic {
			member.MemberType = 0
		}
		answer.Members = append(answer.Members, member)
	}
	return answer
}

// failedConsumerGroup stands in the place of a group that is not described.
func failedConsumerGroup(name string, err error) kmsg.ConsumerGroupDescribeResponseGroup {
	answer := kmsg.NewConsumerGroupDescribeResponseGroup()
	answer.Group = name
	answer.ErrorCode, answer.ErrorMessage = describeFailure(err)
	return answer
}

// consumerGroup looks a consumer group up, for a caller who may see all of it.
func (s *Server) consumerGroup(r *request, name string) (groups.ConsumerGroupDescription, error) {
	if err := s.refuseGroup(r, s.groups.ServesConsumerGroups(), opDescribe, name); err != nil {
		return groups.ConsumerGroupDescription{}, err
	}
	d, err := s.groups.ConsumerGroupDescribe(name)
	for _, m := range d.Members {
		if !s.seesTopics(r, m.Assigned) || !s.seesTopics(r, m.Target) {
			return groups.ConsumerGroupDescription{}, errHiddenTopics
		}
	}
	return d, err
}

// describedPartitions is an assignment as the answer has it.
func describedPartitions(list []groups.NamedPartitions) []kmsg.AssignmentTopicPartition {
	var out []kmsg.AssignmentTopicPartition
	for _, p := range list {
		t := kmsg.NewAssignmentTopicPartition()
		t.TopicID, t.Topic, t.Partitions = p.TopicID, p.Topic, p.Partitions
		out = append(out, t)
	}
	return out
}
