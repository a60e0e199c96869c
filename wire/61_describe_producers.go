package wire

import (
	"iter"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// DescribeProducers, key 61, version 0.
//
// What a partition knows of the producers that wrote to it: for those who look for a transaction that nobody ends. Topics
// and partitions are answered in the order of the request; what is named again counts as repeats say. An error of a topic
// comes with its text, one of a partition without, as in Kafka.
//
// Kafka: KafkaApis.handleDescribeProducersRequest, ReplicaManager.activeProducerState, UnifiedLog.activeProducers.

// producerSize is how many bytes of an answer a producer takes.
const producerSize = 37

// describeProducers answers a DescribeProducers request.
func (s *Server) describeProducers(r *request, req *kmsg.DescribeProducersRequest) (*kmsg.DescribeProducersResponse, error) {
	if r.keepsTurn() {
		if err := recoverFirst(s, r, req, s.producersWanted(r, req)); err != nil {
			return nil, err
		}
	}
	resp := req.ResponseKind().(*kmsg.DescribeProducersResponse)
	resp.Topics = make([]kmsg.DescribeProducersResponseTopic, len(req.Topics))
	said := make(map[fetchKey][]kmsg.DescribeProducersResponseTopicPartitionActiveProducer) // where there are any
	left := newRepeats()
	for i := range req.Topics {
		t, out := &req.Topics[i], &resp.Topics[i]
		out.Topic = t.Topic
		out.Partitions = make([]kmsg.DescribeProducersResponseTopicPartition, len(t.Partitions))
		topic, err := s.topicOfProducers(r, t.Topic)
		for j, partition := range t.Partitions {
			answer := &out.Partitions[j]
			answer.Partition = partition
			key := fetchKey{topic: t.Topic, partition: partition}
			producers, again := said[key]
			switch {
			case err != nil:
				answer.ErrorCode, answer.ErrorMessage = errorCode(err), errorMessage(err)
			case again && !left.takeBytes(producerSize*len(producers)):
				answer.ErrorCode, answer.ErrorMessage = errorCode(errRepeated), errorMessage(errRepeated)
			case again:
				answer.ActiveProducers = producers
			default:
				answer.ActiveProducers, answer.ErrorCode = activeProducers(topic, partition)
				if len(answer.ActiveProducers) > 0 {
					said[key] = answer.ActiveProducers
				}
			}
			if err := r.answerGrows(16 + len(deref(answer.ErrorMessage)) + producerSize*len(answer.ActiveProducers)); err != nil {
				return nil, err
			}
		}
	}
	return resp, nil
}

// producersWanted yields the partitions of a request whose producers the caller may see.
func (s *Server) producersWanted(r *request, req *kmsg.DescribeProducersRequest) iter.Seq2[*storage.Topic, int32] {
	return func(yield func(*storage.Topic, int32) bool) {
		for i := range req.Topics {
			t := &req.Topics[i]
			topic, found := s.store.Topic(t.Topic)
			if !found || !s.mayDo(r, opRead, resourceTopic, t.Topic) {
				continue
			}
			for j := range t.Partitions {
				if !yield(topic, t.Partitions[j]) {
					return
				}
			}
		}
	}
}

// topicOfProducers finds a topic whose producers the caller may see.
func (s *Server) topicOfProducers(r *request, name string) (*storage.Topic, error) {
	if err := storage.ValidateTopicName(name); err != nil {
		return nil, err
	}
	if !s.authorize(r, opRead, resourceTopic, name) {
		return nil, kerr.TopicAuthorizationFailed
	}
	topic, ok := s.store.Topic(name)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition
	}
	return topic, nil
}

// activeProducers returns the producers of one partition, or an error code.
func activeProducers(topic *storage.Topic, partition int32) ([]kmsg.DescribeProducersResponseTopicPartitionActiveProducer, int16) {
	log, ok := topic.Partition(partition)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	producers, err := log.ActiveProducers()
	if err != nil {
		return nil, errorCode(err)
	}
	out := make([]kmsg.DescribeProducersResponseTopicPartitionActiveProducer, len(producers))
	for i, p := range producers {
		out[i] = kmsg.DescribeProducersResponseTopicPartitionActiveProducer{
			ProducerID: p.ProducerID, ProducerEpoch: int32(p.Epoch), LastSequence: p.LastSequence, LastTimestamp: p.LastTimestamp,
			CoordinatorEpoch: p.CoordinatorEpoch, CurrentTxnStartOffset: p.TxnFirstOffset,
		}
	}
	return out, 0
}
