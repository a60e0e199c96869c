package wire

import (
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
)

// OffsetCommit, key 8, versions 2 to 10.
//
// v2 to v4 carry a retention for the whole request. v5 removed it. v6 added the
// leader epoch. v7 added the instance id. v8 is flexible. v9 allows member epochs
// (KIP-848). v10 names topics by id.
//
// Kafka: KafkaApis.handleOffsetCommitRequest, OffsetMetadataManager.commitOffset.

// maxRetentionMs is the longest retention that a time.Duration holds, 292 years. Clients ask for more to say "for ever".
const maxRetentionMs = math.MaxInt64 / int64(time.Millisecond)

// offsetCommit answers an OffsetCommit request.
func (s *Server) offsetCommit(r *request, req *kmsg.OffsetCommitRequest) (*kmsg.OffsetCommitResponse, error) {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	if !s.authorize(r, opRead, resourceGroup, req.Group) {
		fillOffsetCommit(resp, req, kerr.GroupAuthorizationFailed.Code)
		return resp, nil
	}
	if countCommits(req) > s.groups.MostCommits() {
		fillOffsetCommit(resp, req, errorCode(groups.ErrCommitTooLarge))
		return resp, nil
	}
	commits, answers := s.checkOffsetCommit(r, req, resp)
	if len(commits) == 0 {
		return resp, nil
	}
	retention := time.Duration(-1)
	if req.RetentionTimeMillis >= 0 && r.version <= 4 {
		retention = time.Duration(min(req.RetentionTimeMillis, maxRetentionMs)) * time.Millisecond
	}
	errs, err := s.groups.CommitOffsets(r.ctx, &groups.CommitRequest{
		Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, Generation: req.Generation,
		Epochs: r.version >= 9, Commits: commits, Retention: retention,
	})
	for i := range answers {
		if err == nil {
			answers[i].ErrorCode = errorCode(errs[i])
		} else {
			answers[i].ErrorCode = errorCode(err)
		}
	}
	return resp, nil
}

// checkOffsetCommit lays out the response in the order of the request, answers the
// partitions that cannot be committed, and returns the others: what to commit, and
// where each answer goes.
func (s *Server) checkOffsetCommit(r *request, req *kmsg.OffsetCommitRequest, resp *kmsg.OffsetCommitResponse) ([]groups.Commit, []*kmsg.OffsetCommitResponseTopicPartition) {
	var (
		commits []groups.Commit
		answers []*kmsg.OffsetCommitResponseTopicPartition
	)
	resp.Topics = make([]kmsg.OffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, at := &req.Topics[i], &resp.Topics[i]
		*at = kmsg.NewOffsetCommitResponseTopic()
		at.Topic, at.TopicID = rt.Topic, rt.TopicID
		at.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(rt.Partitions))
		topic, code := s.committedTopic(r, r.version >= 10, rt.Topic, rt.TopicID)
		for j := range rt.Partitions {
			rp, ap := &rt.Partitions[j], &at.Partitions[j]
			*ap = kmsg.NewOffsetCommitResponseTopicPartition()
			ap.Partition, ap.ErrorCode = rp.Partition, code
			if code != 0 {
				continue
			}
			if rp.Partition < 0 || rp.Partition >= topic.Partitions() {
				ap.ErrorCode = kerr.UnknownTopicOrPartition.Code
				continue
			}
			c := groups.Commit{
				Topic: topic.Name(), TopicID: topic.ID(), Partition: rp.Partition,
				Offset: rp.Offset, LeaderEpoch: rp.LeaderEpoch,
			}
			if rp.Metadata != nil {
				c.Metadata = *rp.Metadata
			}
			if r.version < 6 {
				c.LeaderEpoch = -1
			}
			commits = append(commits, c)
			answers = append(answers, ap)
		}
	}
	return commits, answers
}

// committedTopic resolves the topic of a commit, by its id or by its name. The code is not 0 when it may not be
// committed for.
func (s *Server) committedTopic(r *request, byID bool, name string, id [16]byte) (*storage.Topic, int16) {
	if byID {
		t, ok := s.store.TopicByID(storage.TopicID(id))
		switch {
		case !ok:
			return nil, kerr.UnknownTopicID.Code
		case !s.authorize(r, opRead, resourceTopic, t.Name()):
			return nil, kerr.TopicAuthorizationFailed.Code
		}
		return t, 0
	}
	if !s.authorize(r, opRead, resourceTopic, name) {
		return nil, kerr.TopicAuthorizationFailed.Code
	}
	t, ok := s.store.Topic(name)
	if !ok {
		return nil, kerr.UnknownTopicOrPartition.Code
	}
	return t, 0
}

// countCommits is the number of partitions that are to be committed.
func countCommits(req *kmsg.OffsetCommitRequest) (n int) {
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	return n
}

// fillOffsetCommit answers every partition with one code.
func fillOffsetCommit(resp *kmsg.OffsetCommitResponse, req *kmsg.OffsetCommitRequest, code int16) {
	for _, rt := range req.Topics {
		at := kmsg.NewOffsetCommitResponseTopic()
		at.Topic, at.TopicID = rt.Topic, rt.TopicID
		at.Partitions = make([]kmsg.OffsetCommitResponseTopicPartition, len(rt.Partitions))
		for i := range rt.Partitions {
			ap := &at.Partitions[i]
			*ap = kmsg.NewOffsetCommitResponseTopicPartition()
			ap.Partition, ap.ErrorCode = rt.Partitions[i].Partition, code
		}
		resp.Topics = append(resp.Topics, at)
	}
}
