package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// DeleteShareGroupOffsets, key 92, version 0 (KIP-932).
//
// The group must have no members. Topics that the caller may not read come first, then those whose offsets were deleted,
// then those that have none.
//
// Kafka: KafkaApis.handleDeleteShareGroupOffsetsRequest, GroupCoordinatorService.deleteShareGroupOffsets.
func (s *Server) deleteShareGroupOffsets(r *request, req *kmsg.DeleteShareGroupOffsetsRequest) (*kmsg.DeleteShareGroupOffsetsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteShareGroupOffsetsResponse)
	refuse := func(err error) (*kmsg.DeleteShareGroupOffsetsResponse, error) {
		resp.Topics, resp.ErrorCode, resp.ErrorMessage = nil, errorCode(err), errorMessage(err)
		return resp, nil
	}
	if err := s.refuseGroup(r, s.groups.ServesShareGroups(), opDelete, req.GroupID); err != nil {
		return refuse(err)
	}
	answer := func(name string, id storage.TopicID, err error) {
		topic := kmsg.NewDeleteShareGroupOffsetsResponseTopic()
		topic.Topic, topic.TopicID, topic.ErrorCode, topic.ErrorMessage = name, id, errorCode(err), errorMessage(err)
		resp.Topics = append(resp.Topics, topic)
	}
	var topics []string
	for _, t := range req.Topics {
		if s.authorize(r, opRead, resourceTopic, t.Topic) {
			topics = append(topics, t.Topic)
		} else {
			answer(t.Topic, storage.TopicID{}, kerr.TopicAuthorizationFailed)
		}
	}
	done, err := s.groups.DeleteShareOffsets(r.ctx, req.GroupID, topics)
	if err != nil {
		return refuse(err)
	}
	for _, d := range done {
		answer(d.Topic, d.TopicID, d.Err)
	}
	return resp, nil
}
