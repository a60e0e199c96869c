package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// OffsetDelete, key 47, version 0.
//
// Offsets of topics that members of the group consume are kept. What fails the group is told without topics. Topics
// are answered in the order of the request; Kafka answers those that cannot be deleted first.
//
// Kafka: KafkaApis.handleOffsetDeleteRequest, OffsetDeleteResponse.Builder, OffsetMetadataManager.deleteOffsets.
func (s *Server) offsetDelete(r *request, req *kmsg.OffsetDeleteRequest) (*kmsg.OffsetDeleteResponse, error) {
	resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
	if !s.authorize(r, opDelete, resourceGroup, req.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil
	}
	if req.Group == "" {
		resp.ErrorCode = kerr.InvalidGroupID.Code
		return resp, nil
	}
	offsets, answers := s.checkOffsetDelete(r, req, resp)
	errs, err := s.groups.DeleteOffsets(r.ctx, req.Group, offsets)
	if err != nil {
		resp.ErrorCode, resp.Topics = errorCode(err), nil
		return resp, nil
	}
	for i := range answers {
		answers[i].ErrorCode = errorCode(errs[i])
	}
	return resp, nil
}

// checkOffsetDelete lays out the response in the order of the request, answers the partitions that cannot be deleted,
// and returns the others: what to delete, and where each answer goes.
func (s *Server) checkOffsetDelete(r *request, req *kmsg.OffsetDeleteRequest, resp *kmsg.OffsetDeleteResponse) ([]groups.OffsetDelete, []*kmsg.OffsetDeleteResponseTopicPartition) {
	var (
		offsets []groups.OffsetDelete
		answers []*kmsg.OffsetDeleteResponseTopicPartition
	)
	resp.Topics = make([]kmsg.OffsetDeleteResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, at := &req.Topics[i], &resp.Topics[i]
		*at = kmsg.NewOffsetDeleteResponseTopic()
		at.Topic, at.Partitions = rt.Topic, make([]kmsg.OffsetDeleteResponseTopicPartition, len(rt.Partitions))
		topic, code := s.committedTopic(r, false, rt.Topic, [16]byte{})
		for j, rp := range rt.Partitions {
			ap := &at.Partitions[j]
			*ap = kmsg.NewOffsetDeleteResponseTopicPartition()
			ap.Partition, ap.ErrorCode = rp.Partition, code
			switch {
			case code != 0:
			case rp.Partition < 0 || rp.Partition >= topic.Partitions():
				ap.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				offsets = append(offsets, groups.OffsetDelete{Topic: rt.Topic, Partition: rp.Partition})
				answers = append(answers, ap)
			}
		}
	}
	return offsets, answers
}
