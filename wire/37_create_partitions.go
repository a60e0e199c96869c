package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// CreatePartitions, version 0 to 3.
//
//	2  flexible
//	3  (clients know THROTTLING_QUOTA_EXCEEDED)
//
// Kafka: ControllerApis.createPartitions, ReplicationControlManager.createPartitions.
func (s *Server) createPartitions(r *request, req *kmsg.CreatePartitionsRequest) (*kmsg.CreatePartitionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	uses := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		uses[req.Topics[i].Topic]++
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		var err error
		switch n := uses[t.Topic]; {
		case n == 0:
			continue // told already
		case n > 1:
			uses[t.Topic] = 0
			err = detail(kerr.InvalidRequest, "the topic is in the request more than once")
		case !s.authorize(r, opAlter, resourceTopic, t.Topic):
			err = kerr.TopicAuthorizationFailed
		default:
			err = s.addPartitions(t, req.ValidateOnly)
		}
		answer := kmsg.NewCreatePartitionsResponseTopic()
		answer.Topic, answer.ErrorCode, answer.ErrorMessage = t.Topic, errorCode(err), errorMessage(err)
		if err == error(kerr.UnknownTopicOrPartition) {
			answer.ErrorMessage = nil // Kafka: ReplicationControlManager.createPartition says nothing about it
		}
		resp.Topics = append(resp.Topics, answer)
	}
	return resp, nil
}

// addPartitions makes a topic have as many partitions as asked.
func (s *Server) addPartitions(t *kmsg.CreatePartitionsRequestTopic, validateOnly bool) error {
	topic, ok := s.store.Topic(t.Topic)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	if have := topic.Partitions(); t.Count <= have {
		return detail(kerr.InvalidPartitions, fmt.Sprintf("the topic has %d partitions, and %d are not more", have, t.Count))
	} else if added := t.Count - have; t.Assignment != nil && len(t.Assignment) != int(added) {
		return detail(kerr.InvalidReplicaAssignment, fmt.Sprintf("%d assignments for %d new partitions", len(t.Assignment), added))
	} else if added > maxNewPartitions {
		return detail(kerr.PolicyViolation, fmt.Sprintf("%d new partitions, want at most %d at a time", added, maxNewPartitions))
	}
	for i := range t.Assignment {
		if err := s.checkReplicas(t.Assignment[i].Replicas); err != nil {
			return err
		}
	}
	if validateOnly {
		return nil
	}
	return s.store.AddPartitions(topic.ID(), t.Count)
}
