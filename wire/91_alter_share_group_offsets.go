package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
)

// AlterShareGroupOffsets, key 91, version 0 (KIP-932).
//
// The group must have no members; it is made when there is none. Topics that do not exist or that the caller may not
// read come first, each once. Differs from Kafka: the id of a topic that the caller may not read is not told, which would
// say that it exists.
//
// Kafka: KafkaApis.handleAlterShareGroupOffsetsRequest, GroupMetadataManager.alterShareGroupOffsets.
func (s *Server) alterShareGroupOffsets(r *request, req *kmsg.AlterShareGroupOffsetsRequest) (*kmsg.AlterShareGroupOffsetsResponse, error) {
	resp := req.ResponseKind().(*kmsg.AlterShareGroupOffsetsResponse)
	refuse := func(err error) (*kmsg.AlterShareGroupOffsetsResponse, error) {
		resp.Topics, resp.ErrorCode, resp.ErrorMessage = nil, errorCode(err), errorMessage(err)
		return resp, nil
	}
	if err := s.refuseGroup(r, s.groups.ServesShareGroups(), opRead, req.GroupID); err != nil {
		return refuse(err)
	}
	var changes []groups.ShareOffsetChange
	var asked []*kmsg.AlterShareGroupOffsetsRequestTopic // by index of changes
	for i := range req.Topics {
		t := &req.Topics[i]
		_, known := s.store.Topic(t.Topic)
		switch {
		case !s.authorize(r, opRead, resourceTopic, t.Topic):
			resp.Topics = append(resp.Topics, alteredTopic(t, storage.TopicID{}, func(int32) error { return kerr.TopicAuthorizationFailed }))
		case !known:
			resp.Topics = append(resp.Topics, alteredTopic(t, storage.TopicID{}, func(int32) error { return kerr.UnknownTopicOrPartition }))
		default:
			change := groups.ShareOffsetChange{Topic: t.Topic, Offsets: make(map[int32]int64, len(t.Partitions))}
			for _, p := range t.Partitions {
				change.Offsets[p.Partition] = p.StartOffset
			}
			changes, asked = append(changes, change), append(asked, t)
		}
	}
	done, err := s.groups.AlterShareOffsets(r.ctx, req.GroupID, changes)
	if err != nil {
		return refuse(err)
	}
	for i, d := range done {
		resp.Topics = append(resp.Topics, alteredTopic(asked[i], d.TopicID, func(p int32) error { return d.Errs[p] }))
	}
	return resp, nil
}

// alteredTopic answers for the partitions of a topic.
func alteredTopic(t *kmsg.AlterShareGroupOffsetsRequestTopic, id storage.TopicID, of func(partition int32) error) kmsg.AlterShareGroupOffsetsResponseTopic {
	out := kmsg.NewAlterShareGroupOffsetsResponseTopic()
	out.Topic, out.TopicID = t.Topic, id
	for _, p := range t.Partitions {
		partition := kmsg.NewAlterShareGroupOffsetsResponseTopicPartition()
		err := of(p.Partition)
		partition.Partition, partition.ErrorCode, partition.ErrorMessage = p.Partition, errorCode(err), errorMessage(err)
		out.Partitions = append(out.Partitions, partition)
	}
	return out
}
