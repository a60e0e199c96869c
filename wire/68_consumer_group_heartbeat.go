package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/groups"
)

// ConsumerGroupHeartbeat, key 68, versions 0 and 1 (KIP-848).
//
//	1  the client makes its member id itself; a subscription by regular expression
//
// What is null in a request is as it was in the member's last one. The assignment of an answer is null when it is as the
// member knows it.
//
// Kafka: KafkaApis.handleConsumerGroupHeartbeat, GroupCoordinatorService.consumerGroupHeartbeat.
func (s *Server) consumerGroupHeartbeat(r *request, req *kmsg.ConsumerGroupHeartbeatRequest) (*kmsg.ConsumerGroupHeartbeatResponse, error) {
	resp := req.ResponseKind().(*kmsg.ConsumerGroupHeartbeatResponse)
	if err := s.refuseGroup(r, s.groups.ServesConsumerGroups(), opRead, req.Group); err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	var caller auth.Caller
	if s.authorizer != nil {
		caller = *r.asCaller() // the topics of a regular expression may be looked for later
	}
	maySee := func(topic string) bool { return s.allows(&caller, opDescribe, resourceTopic, topic) }
	for _, topic := range req.SubscribedTopicNames {
		if !maySee(topic) {
			resp.ErrorCode = kerr.TopicAuthorizationFailed.Code
			return resp, nil
		}
	}
	beat := &groups.ConsumerHeartbeatRequest{
		Group: req.Group, MemberID: req.MemberID, MemberEpoch: req.MemberEpoch, InstanceID: req.InstanceID, RackID: req.RackID,
		RebalanceTimeoutMs: req.RebalanceTimeoutMillis, Topics: req.SubscribedTopicNames, Regex: req.SubscribedTopicRegex,
		Assignor: req.ServerAssignor, ClientID: r.clientID, ClientHost: clientHost(r.remote),
		OwnMemberID: r.version >= 1, MaySee: maySee,
	}
	if req.Topics != nil {
		beat.Owned = make([]groups.TopicPartitions, len(req.Topics))
		for i, t := range req.Topics {
			beat.Owned[i] = groups.TopicPartitions{TopicID: t.TopicID, Partitions: t.Partitions}
		}
	}
	r.frameDone()
	answer, err := s.groups.ConsumerGroupHeartbeat(r.ctx, beat)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
		return resp, nil
	}
	resp.MemberID, resp.MemberEpoch = &answer.MemberID, answer.MemberEpoch
	resp.HeartbeatIntervalMillis = int32(answer.HeartbeatInterval.Milliseconds())
	if answer.Assigned != nil {
		assignment := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
		for _, t := range answer.Assigned {
			topic := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
			topic.TopicID, topic.Partitions = t.TopicID, t.Partitions
			assignment.Topics = append(assignment.Topics, topic)
		}
		resp.Assignment = &assignment
	}
	return resp, nil
}
