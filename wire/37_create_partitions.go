package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
)

// CreatePartitions, version 0 to 3.
//
//	2  flexible
//	3  THROTTLING_QUOTA_EXCEEDED
//
// Kafka: ControllerApis.createPartitions, ReplicationControlManager.createPartitions.
func (s *Server) createPartitions(r *request, req *kmsg.CreatePartitionsRequest) (*kmsg.CreatePartitionsResponse, error) {
	resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
	uses := make(map[string]int, len(req.Topics))
	for i := range req.Topics {
		uses[req.Topics[i].Topic]++
	}
	total := int64(0)
	quota := s.mutations(r, 3)
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
		case timedOut(req.TimeoutMillis): // the controller is asked nothing before there is a topic for it
			resp.Topics = resp.Topics[:0]
			for i := range req.Topics {
				answer := kmsg.NewCreatePartitionsResponseTopic()
				answer.Topic, answer.ErrorCode = req.Topics[i].Topic, kerr.RequestTimedOut.Code
				resp.Topics = append(resp.Topics, answer)
			}
			return resp, nil
		default:
			var added int32
			added, err = s.checkAdded(t, &quota)
			total += int64(added)
		}
		resp.Topics = append(resp.Topics, partitionsAnswer(t.Topic, err))
	}
	resp.ThrottleMillis = r.throttleBy(quota.Throttle(s.now()))
	// Kafka collects what it makes for all topics, and fails the request when that is too much.
	if total > maxNewPartitions {
		resp.Topics = resp.Topics[:0]
		for i := range req.Topics {
			err := detail(kerr.PolicyViolation, fmt.Sprintf("%d new partitions in one request, want at most %d", total, maxNewPartitions))
			resp.Topics = append(resp.Topics, partitionsAnswer(req.Topics[i].Topic, err))
		}
		return resp, nil
	}
	if req.ValidateOnly {
		return resp, nil
	}
	counts := make(map[string]int32, len(req.Topics))
	for i := range req.Topics {
		counts[req.Topics[i].Topic] = req.Topics[i].Count
	}
	for i := range resp.Topics {
		if a := &resp.Topics[i]; a.ErrorCode == 0 {
			*a = partitionsAnswer(a.Topic, s.addPartitions(a.Topic, counts[a.Topic]))
		}
	}
	return resp, nil
}

func partitionsAnswer(topic string, err error) kmsg.CreatePartitionsResponseTopic {
	answer := kmsg.NewCreatePartitionsResponseTopic()
	answer.Topic, answer.ErrorCode, answer.ErrorMessage = topic, errorCode(err), errorMessage(err)
	if err == error(kerr.UnknownTopicOrPartition) || err == error(kerr.TopicAuthorizationFailed) {
		answer.ErrorMessage = nil // Kafka: ControllerApis.createPartitions and ReplicationControlManager say nothing about it
	}
	return answer
}

// checkAdded returns how many partitions are asked for beyond those that a topic has, and takes them from the quota.
func (s *Server) checkAdded(t *kmsg.CreatePartitionsRequestTopic, quota *auth.Mutations) (int32, error) {
	topic, ok := s.store.Topic(t.Topic)
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	have := topic.Partitions()
	added := t.Count - have
	if t.Count <= have {
		return 0, detail(kerr.InvalidPartitions, fmt.Sprintf("the topic has %d partitions, and %d are not more", have, t.Count))
	} else if t.Assignment != nil && len(t.Assignment) != int(added) {
		return 0, detail(kerr.InvalidReplicaAssignment, fmt.Sprintf("%d assignments for %d new partitions", len(t.Assignment), added))
	}
	if !quota.Take(int(added), s.now()) {
		return 0, kerr.ThrottlingQuotaExceeded
	}
	for i := range t.Assignment {
		if err := s.checkReplicas(t.Assignment[i].Replicas); err != nil {
			return 0, err
		}
	}
	return added, nil
}

// addPartitions makes a topic have so many partitions.
func (s *Server) addPartitions(name string, count int32) error {
	topic, ok := s.store.Topic(name)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	return s.store.AddPartitions(topic.ID(), count)
}
