package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetForLeaderEpoch, key 23, versions 2 to 4.
//
//	v2 current leader epoch, throttle time
//	v3 replica id, which changes nothing here
//	v4 flexible
//
// Kafka: KafkaApis.handleOffsetForLeaderEpochRequest, Partition.lastOffsetForLeaderEpoch,
// LeaderEpochFileCache.endOffsetFor.

// offsetForLeaderEpoch answers an OffsetForLeaderEpoch request: where the records of an epoch end, so that a client can
// tell whether what it has read was cut off.
func (s *Server) offsetForLeaderEpoch(r *request, req *kmsg.OffsetForLeaderEpochRequest) (*kmsg.OffsetForLeaderEpochResponse, error) {
	resp := &kmsg.OffsetForLeaderEpochResponse{
		Version: req.Version, Topics: make([]kmsg.OffsetForLeaderEpochResponseTopic, len(req.Topics)),
	}
	everything := s.mayDo(r, opClusterAction, resourceCluster, clusterResource)
	for i := range req.Topics {
		t := &req.Topics[i]
		out := &resp.Topics[i]
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.OffsetForLeaderEpochResponseTopicPartition, len(t.Partitions))
		allowed := everything || s.authorize(r, opDescribe, resourceTopic, t.Topic)
		for j := range t.Partitions {
			answer := &out.Partitions[j]
			answer.Default()
			answer.Partition, answer.LeaderEpoch, answer.EndOffset = t.Partitions[j].Partition, -1, -1
			if !allowed {
				answer.ErrorCode = kerr.TopicAuthorizationFailed.Code
				continue
			}
			if err := s.epochEnd(t.Topic, &t.Partitions[j], answer); err != nil {
				answer.ErrorCode = errorCode(err)
			}
		}
	}
	return resp, nil
}

// epochEnd answers for one partition.
func (s *Server) epochEnd(name string, p *kmsg.OffsetForLeaderEpochRequestTopicPartition, answer *kmsg.OffsetForLeaderEpochResponseTopicPartition) error {
	topic, ok := s.store.Topic(name)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	log, ok := topic.Partition(p.Partition)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	if err := checkLeaderEpoch(log, p.CurrentLeaderEpoch); err != nil {
		return err
	}
	epoch, end, err := log.EndOffsetForEpoch(p.LeaderEpoch)
	if err != nil {
		return err
	}
	answer.LeaderEpoch, answer.EndOffset = epoch, end
	return nil
}
