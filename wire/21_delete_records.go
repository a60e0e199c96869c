package wire

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// DeleteRecords, key 21, versions 0 to 2.
//
//	v2 flexible
//
// Kafka: KafkaApis.handleDeleteRecordsRequest, ReplicaManager.deleteRecordsOnLocalLog, Partition.deleteRecordsOnLeader.
//
// The timeout is not used: there is no other replica to wait for. Differs from Kafka: the new log start is on the disk
// before the answer, where Kafka writes it within a minute.

// offsetHighWatermark in a request stands for the high watermark.
const offsetHighWatermark = -1

// deleteRecords answers a DeleteRecords request: it moves the start of each partition. Of a partition that is named twice
// the last mention counts; a topic that is has one answer, and one without partitions has none.
func (s *Server) deleteRecords(r *request, req *kmsg.DeleteRecordsRequest) (*kmsg.DeleteRecordsResponse, error) {
	if r.keepsTurn() {
		if err := recoverFirst(s, r, req, s.recordsDeletedIn(r, req)); err != nil {
			return nil, err
		}
	}
	resp := &kmsg.DeleteRecordsResponse{Version: req.Version, Topics: make([]kmsg.DeleteRecordsResponseTopic, 0, len(req.Topics))}
	places := make(map[string]int, len(req.Topics)) // of topics in the answer
	last := make(map[fetchKey]int64)                // offsets
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			key := fetchKey{topic: t.Topic, partition: p.Partition}
			_, again := last[key]
			last[key] = p.Offset
			if again {
				continue
			}
			at, known := places[t.Topic]
			if !known {
				at = len(resp.Topics)
				places[t.Topic] = at
				resp.Topics = append(resp.Topics, kmsg.DeleteRecordsResponseTopic{Topic: t.Topic})
			}
			answer := kmsg.DeleteRecordsResponseTopicPartition{Partition: p.Partition, LowWatermark: -1}
			resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, answer)
		}
	}
	for i := range resp.Topics {
		out := &resp.Topics[i]
		allowed := s.authorize(r, opDelete, resourceTopic, out.Topic)
		for j := range out.Partitions {
			answer := &out.Partitions[j]
			if !allowed {
				answer.ErrorCode = kerr.TopicAuthorizationFailed.Code
				continue
			}
			low, err := s.deleteBefore(out.Topic, answer.Partition, last[fetchKey{topic: out.Topic, partition: answer.Partition}])
			if err != nil {
				answer.ErrorCode = errorCode(err)
				continue
			}
			answer.LowWatermark = low
		}
	}
	return resp, nil
}

// recordsDeletedIn yields the partitions of a request whose starts may be moved.
func (s *Server) recordsDeletedIn(r *request, req *kmsg.DeleteRecordsRequest) iter.Seq2[*storage.Topic, int32] {
	return func(yield func(*storage.Topic, int32) bool) {
		for i := range req.Topics {
			t := &req.Topics[i]
			topic, found := s.store.Topic(t.Topic)
			if !found || !s.mayDo(r, opDelete, resourceTopic, t.Topic) {
				continue
			}
			for j := range t.Partitions {
				if !yield(topic, t.Partitions[j].Partition) {
					return
				}
			}
		}
	}
}

// deleteBefore moves the start of one partition to offset and returns where it is then.
func (s *Server) deleteBefore(name string, partition int32, offset int64) (int64, error) {
	topic, ok := s.store.Topic(name)
	if !ok {
		return -1, kerr.UnknownTopicOrPartition
	}
	log, ok := topic.Partition(partition)
	if !ok {
		return -1, kerr.UnknownTopicOrPartition
	}
	if storage.IsInternalTopic(name) {
		return -1, kerr.InvalidTopicException
	}
	o, err := log.Offsets()
	if err != nil {
		return -1, err
	}
	if c := topic.Config(); c.Compact && !c.Delete {
		return -1, kerr.PolicyViolation
	}
	if offset == offsetHighWatermark {
		offset = o.HighWatermark
	}
	if offset < 0 {
		return -1, kerr.OffsetOutOfRange
	}
	return log.DeleteBefore(offset)
}
