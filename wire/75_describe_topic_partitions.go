package wire

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// DescribeTopicPartitions, key 75, version 0: what Metadata says of topics, page by page.
//
// Kafka: DescribeTopicPartitionsRequestHandler, KRaftMetadataCache.describeTopicResponse. Differs from Kafka: a name that
// is empty is refused alone, where Kafka fails the whole request; one bad name does not fail its neighbours.
func (s *Server) describeTopicPartitions(r *request, req *kmsg.DescribeTopicPartitionsRequest) (*kmsg.DescribeTopicPartitionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeTopicPartitionsResponse)
	all := len(req.Topics) == 0
	names, ok := s.describedNames(req)
	if !ok {
		for i := range req.Topics {
			resp.Topics = append(resp.Topics, failedPartitions(req.Topics[i].Topic, kerr.InvalidRequest))
		}
		return resp, nil
	}
	var denied []kmsg.DescribeTopicPartitionsResponseTopic
	left := max(min(s.config.Int("max.request.partition.size.limit"), int64(req.ResponsePartitionLimit)), 1)
	for _, name := range names {
		if !s.authorize(r, opDescribe, resourceTopic, name) {
			if !all {
				denied = append(denied, failedPartitions(name, kerr.TopicAuthorizationFailed))
			}
			continue
		}
		if resp.NextCursor != nil {
			continue
		}
		if left == 0 {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name}
			continue
		}
		topic, ok := s.store.Topic(name)
		if !ok {
			if !all {
				resp.Topics = append(resp.Topics, s.unknownPartitions(r, name))
			}
			continue
		}
		first := int32(0)
		if req.Cursor != nil && req.Cursor.Topic == name {
			first = req.Cursor.Partition
		}
		next := min(int64(topic.Partitions()), int64(first)+left)
		if err := r.answerGrows(32 + len(name) + 34*max(int(next)-int(first), 0)); err != nil {
			return nil, err
		}
		described := s.describePartitions(r, topic, first, int32(next))
		resp.Topics = append(resp.Topics, described)
		left -= int64(len(described.Partitions))
		if next < int64(topic.Partitions()) {
			resp.NextCursor = &kmsg.DescribeTopicPartitionsResponseNextCursor{Topic: name, Partition: int32(next)}
		}
	}
	resp.Topics = append(resp.Topics, denied...)
	return resp, nil
}

// describedNames returns the names of the topics to describe, sorted, from the cursor's on; false for a cursor that
// cannot be.
func (s *Server) describedNames(req *kmsg.DescribeTopicPartitionsRequest) ([]string, bool) {
	from := ""
	if req.Cursor != nil {
		from = req.Cursor.Topic
		if req.Cursor.Partition < 0 {
			return nil, false
		}
	}
	var names []string
	add := func(name string) {
		if name >= from {
			names = append(names, name)
		}
	}
	if len(req.Topics) == 0 {
		for _, t := range s.store.Topics() {
			add(t.Name())
		}
		return names, true
	}
	for i := range req.Topics {
		add(req.Topics[i].Topic)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	if req.Cursor != nil && (len(names) == 0 || names[0] != from) {
		return nil, false
	}
	return names, true
}

// describePartitions describes the partitions [first, next) of a topic.
func (s *Server) describePartitions(r *request, t *storage.Topic, first, next int32) kmsg.DescribeTopicPartitionsResponseTopic {
	name := t.Name()
	answer := kmsg.NewDescribeTopicPartitionsResponseTopic()
	answer.Topic, answer.TopicID, answer.IsInternal = &name, t.ID(), storage.IsInternalTopic(name)
	answer.AuthorizedOperations = s.authorizedOperations(r, resourceTopic, name)
	for i := first; i < next; i++ {
		state := s.partitionState(t, i)
		p := kmsg.NewDescribeTopicPartitionsResponseTopicPartition()
		p.Partition, p.ErrorCode, p.LeaderID, p.LeaderEpoch = i, state.code, state.leader, state.epoch
		p.Replicas, p.ISR, p.OfflineReplicas = s.self, state.isr, state.offline
		p.EligibleLeaderReplicas, p.LastKnownELR = s.nobody, s.nobody
		answer.Partitions = append(answer.Partitions, p)
	}
	return answer
}

// unknownPartitions is the answer for a topic that does not exist.
func (s *Server) unknownPartitions(r *request, name string) kmsg.DescribeTopicPartitionsResponseTopic {
	err := kerr.UnknownTopicOrPartition
	if storage.ValidateTopicName(name) != nil {
		err = kerr.InvalidTopicException
	}
	t := failedPartitions(name, err)
	t.IsInternal = storage.IsInternalTopic(name)
	t.AuthorizedOperations = s.authorizedOperations(r, resourceTopic, name)
	return t
}

// failedPartitions is the answer for a topic of which there is only an error to tell.
func failedPartitions(name string, err *kerr.Error) kmsg.DescribeTopicPartitionsResponseTopic {
	t := kmsg.NewDescribeTopicPartitionsResponseTopic()
	t.Topic, t.ErrorCode = &name, err.Code
	return t
}
