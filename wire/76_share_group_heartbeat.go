package wire

import (
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// ShareGroupHeartbeat, key 76, version 1 (KIP-932). Version 0 was an early access, which Kafka 4.4 does not serve.
//
// What is null in a request is as it was in the member's last one. The assignment of an answer is null when it is as the
// member knows it.
//
// Kafka: KafkaApis.handleShareGroupHeartbeat, GroupCoordinatorService.shareGroupHeartbeat.
func (s *Server) shareGroupHeartbeat(r *request, req *kmsg.ShareGroupHeartbeatRequest) (*kmsg.ShareGroupHeartbeatResponse, error) {
	resp := req.ResponseKind().(*kmsg.ShareGroupHeartbeatResponse)
	err := s.refuseGroup(r, s.groups.ServesShareGroups(), opRead, req.GroupID)
	if err == nil && !validShareMember(req.MemberID) {
		err = kerr.InvalidRequest
	}
	if err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	for _, topic := range req.SubscribedTopicNames {
		if !s.authorize(r, opDescribe, resourceTopic, topic) {
			resp.ErrorCode = kerr.TopicAuthorizationFailed.Code
			return resp, nil
		}
	}
	beat := &groups.ShareHeartbeatRequest{
		Group: req.GroupID, MemberID: req.MemberID, MemberEpoch: req.MemberEpoch, RackID: req.RackID,
		Topics: req.SubscribedTopicNames, ClientID: r.clientID, ClientHost: clientHost(r.remote),
	}
	r.frameDone()
	answer, err := s.groups.ShareGroupHeartbeat(r.ctx, beat)
	if err != nil {
		resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
		return resp, nil
	}
	resp.MemberID, resp.MemberEpoch = &answer.MemberID, answer.MemberEpoch
	resp.HeartbeatIntervalMillis = int32(answer.HeartbeatInterval.Milliseconds())
	if answer.Assigned != nil {
		assignment := kmsg.NewShareGroupHeartbeatResponseAssignment()
		for _, t := range answer.Assigned {
			topic := kmsg.NewShareGroupHeartbeatResponseAssignmentTopicPartition()
			topic.TopicID, topic.Partitions = t.TopicID, t.Partitions
			assignment.TopicPartitions = append(assignment.TopicPartitions, topic)
		}
		resp.Assignment = &assignment
	}
	return resp, nil
}

// validShareMember says whether a member of a share group may be called that. Kafka: KafkaApis.isMemberIdValid.
func validShareMember(id string) bool {
	return id != "" && len(utf16.Encode([]rune(id))) <= 36
}
