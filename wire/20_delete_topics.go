package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
)

// DeleteTopics, key 20, versions 1 to 6.
//
//	3  TOPIC_DELETION_DISABLED
//	4  flexible
//	5  error message, THROTTLING_QUOTA_EXCEEDED
//	6  topics by id
//
// A topic is gone when the answer is sent; its files follow. Answers are in the order of the request, in which, as in
// Kafka's random order, a topic that does not exist and one that the caller may not see look the same.
//
// Kafka: ControllerApis.deleteTopics, ReplicationControlManager.deleteTopic.
func (s *Server) deleteTopics(r *request, req *kmsg.DeleteTopicsRequest) (*kmsg.DeleteTopicsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteTopicsResponse)
	var disabled error
	if !s.config.Bool("delete.topic.enable") {
		disabled = kerr.TopicDeletionDisabled
		if req.Version < 3 {
			disabled = kerr.InvalidRequest
		}
	}
	if req.Version < 6 {
		req.Topics = make([]kmsg.DeleteTopicsRequestTopic, len(req.TopicNames))
		for i := range req.TopicNames {
			req.Topics[i].Topic = &req.TopicNames[i]
		}
	}
	if disabled == nil && timedOut(req.TimeoutMillis) {
		for i := range req.Topics {
			answer := kmsg.NewDeleteTopicsResponseTopic()
			answer.Topic, answer.TopicID, answer.ErrorCode = req.Topics[i].Topic, req.Topics[i].TopicID, kerr.RequestTimedOut.Code
			resp.Topics = append(resp.Topics, answer)
		}
		return resp, nil
	}
	d := topicDeletion{s: s, r: r, quota: s.mutations(r, 5), uses: map[topicKey]int{}, resolved: map[storage.TopicID]int{}}
	for i := range req.Topics {
		d.count(&req.Topics[i])
	}
	for i := range req.Topics {
		t := &req.Topics[i]
		answer := kmsg.NewDeleteTopicsResponseTopic()
		answer.Topic, answer.TopicID = t.Topic, t.TopicID
		err := disabled
		if err == nil {
			var again bool
			if err, again = d.delete(t, &answer); again {
				continue
			}
		}
		answer.ErrorCode, answer.ErrorMessage = errorCode(err), errorMessage(err)
		resp.Topics = append(resp.Topics, answer)
	}
	resp.ThrottleMillis = r.throttleBy(d.quota.Throttle(s.now()))
	return resp, nil
}

// topicKey is how a request names a topic: by name or by id.
type topicKey struct {
	name string
	id   storage.TopicID
}

// topicDeletion is the work on one request.
type topicDeletion struct {
	s     *Server
	r     *request
	quota auth.Mutations
	// uses counts how often the request names a topic in one way, resolved by how many ways.
	uses     map[topicKey]int
	resolved map[storage.TopicID]int
}

func keyOf(t *kmsg.DeleteTopicsRequestTopic) topicKey { return topicKey{deref(t.Topic), t.TopicID} }

// valid reports whether the request names a topic by exactly one of name and id.
func (k topicKey) valid(t *kmsg.DeleteTopicsRequestTopic) bool {
	return (t.Topic != nil) == k.id.IsZero()
}

// count notes that the request names a topic.
func (d *topicDeletion) count(t *kmsg.DeleteTopicsRequestTopic) {
	k := keyOf(t)
	if !k.valid(t) {
		return
	}
	if d.uses[k]++; d.uses[k] > 1 {
		return
	}
	if topic, ok := d.find(k); ok {
		d.resolved[topic.ID()]++
	}
}

func (d *topicDeletion) find(k topicKey) (*storage.Topic, bool) {
	if k.id.IsZero() {
		return d.s.store.Topic(k.name)
	}
	return d.s.store.TopicByID(k.id)
}

// delete deletes one topic. again means that the request named it before and the answer for it was given.
func (d *topicDeletion) delete(t *kmsg.DeleteTopicsRequestTopic, answer *kmsg.DeleteTopicsResponseTopic) (err error, again bool) {
	k := keyOf(t)
	if !k.valid(t) {
		return detail(kerr.InvalidRequest, "want either the topic's name or its id"), false
	}
	switch d.uses[k] {
	case 0:
		return nil, true
	case 1:
	default:
		d.uses[k] = 0
		return detail(kerr.InvalidRequest, "the topic is in the request more than once"), false
	}
	byID := !k.id.IsZero()
	topic, ok := d.find(k)
	if byID && !ok {
		return kerr.UnknownTopicID, false
	}
	name := k.name
	if byID {
		name = topic.Name()
	}
	all := d.s.mayDo(d.r, opDelete, resourceCluster, clusterResource)
	describable := all || d.s.authorize(d.r, opDescribe, resourceTopic, name)
	if !describable {
		return kerr.TopicAuthorizationFailed, false
	}
	if byID {
		answer.Topic = &name
	}
	if !ok {
		return kerr.UnknownTopicOrPartition, false
	}
	if !all && !d.s.authorize(d.r, opDelete, resourceTopic, name) {
		return kerr.TopicAuthorizationFailed, false
	}
	answer.TopicID = topic.ID()
	switch n := d.resolved[topic.ID()]; {
	case n < 0:
		return nil, true
	case n > 1:
		d.resolved[topic.ID()] = -1 // one answer for both
		return detail(kerr.InvalidRequest, "the topic is in the request by its name and by its id"), false
	}
	if !d.quota.Take(int(topic.Partitions()), d.s.now()) {
		return kerr.ThrottlingQuotaExceeded, false
	}
	return d.s.store.DeleteTopic(topic.ID()), false
}
