package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// TxnOffsetCommit, key 28, versions 0 to 6.
//
//	v2 leader epoch; COORDINATOR_LOAD_IN_PROGRESS, which older producers do not take
//	v3 member, instance and generation (KIP-447), flexible
//	v4 TRANSACTION_ABORTABLE
//	v5 adds the group's partition of __consumer_offsets to the transaction (KIP-890)
//	v6 topics by id; GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH (KIP-1319)
//
// The offsets count when the transaction is committed. Partitions are answered in the order of the request.
//
// Kafka: KafkaApis.handleTxnOffsetCommitRequest, OffsetMetadataManager.commitTransactionalOffset.

// txnOffsetCommit answers a TxnOffsetCommit request.
func (s *Server) txnOffsetCommit(r *request, req *kmsg.TxnOffsetCommitRequest) (*kmsg.TxnOffsetCommitResponse, error) {
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	if err := s.refuseTxnOffsetCommit(r, req); err != nil {
		fillTxnOffsetCommit(resp, req, errorCode(err))
		return resp, nil
	}
	commits, answers := s.checkTxnOffsetCommit(r, req, resp)
	if len(commits) == 0 {
		return resp, nil
	}
	errs, err := s.groups.CommitTransactionalOffsets(r.ctx, &groups.TransactionalCommitRequest{
		CommitRequest: groups.CommitRequest{
			Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, Generation: req.Generation,
			Epochs: r.version >= 6, Commits: commits, Retention: -1,
		},
		TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch, V2: r.version >= 5,
	})
	for i := range answers {
		if err == nil {
			answers[i].ErrorCode = txnCommitCode(errs[i], r.version)
		} else {
			answers[i].ErrorCode = txnCommitCode(err, r.version)
		}
	}
	return resp, nil
}

// txnCommitCode is errorCode for producers of a version. Kafka: AddPartitionsToTxnManager, KAFKA-7296.
func txnCommitCode(err error, version int16) int16 {
	if err == nil {
		return 0
	}
	e := verificationError(err, version >= 4)
	if e == kerr.CoordinatorLoadInProgress && version < 2 {
		e = kerr.CoordinatorNotAvailable
	}
	return e.Code
}

// refuseTxnOffsetCommit returns why the whole request is refused, if it is.
func (s *Server) refuseTxnOffsetCommit(r *request, req *kmsg.TxnOffsetCommitRequest) error {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	switch {
	case !s.authorize(r, opWrite, resourceTransactionalID, req.TransactionalID):
		return kerr.TransactionalIDAuthorizationFailed
	case !s.authorize(r, opRead, resourceGroup, req.Group):
		return kerr.GroupAuthorizationFailed
	case n > s.groups.MostCommits():
		return groups.ErrCommitTooLarge
	}
	return nil
}

// checkTxnOffsetCommit lays out the response in the order of the request, answers the partitions that cannot be
// committed, and returns the others: what to commit, and where each answer goes.
func (s *Server) checkTxnOffsetCommit(r *request, req *kmsg.TxnOffsetCommitRequest, resp *kmsg.TxnOffsetCommitResponse) ([]groups.Commit, []*kmsg.TxnOffsetCommitResponseTopicPartition) {
	var (
		commits []groups.Commit
		answers []*kmsg.TxnOffsetCommitResponseTopicPartition
	)
	resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, at := &req.Topics[i], &resp.Topics[i]
		at.Topic, at.TopicID = rt.Topic, rt.TopicID
		at.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(rt.Partitions))
		topic, code := s.committedTopic(r, r.version >= 6, rt.Topic, rt.TopicID)
		for j := range rt.Partitions {
			rp, ap := &rt.Partitions[j], &at.Partitions[j]
			ap.Partition, ap.ErrorCode = rp.Partition, code
			switch {
			case code != 0:
			case rp.Partition < 0 || rp.Partition >= topic.Partitions():
				ap.ErrorCode = kerr.UnknownTopicOrPartition.Code
			default:
				commits = append(commits, groups.Commit{
					Topic: topic.Name(), TopicID: topic.ID(), Partition: rp.Partition,
					Offset: rp.Offset, LeaderEpoch: rp.LeaderEpoch, Metadata: deref(rp.Metadata),
				})
				answers = append(answers, ap)
			}
		}
	}
	return commits, answers
}

// fillTxnOffsetCommit answers every partition with one code.
func fillTxnOffsetCommit(resp *kmsg.TxnOffsetCommitResponse, req *kmsg.TxnOffsetCommitRequest, code int16) {
	resp.Topics = make([]kmsg.TxnOffsetCommitResponseTopic, len(req.Topics))
	for i := range req.Topics {
		rt, at := &req.Topics[i], &resp.Topics[i]
		at.Topic, at.TopicID = rt.Topic, rt.TopicID
		at.Partitions = make([]kmsg.TxnOffsetCommitResponseTopicPartition, len(rt.Partitions))
		for j := range rt.Partitions {
			at.Partitions[j].Partition, at.Partitions[j].ErrorCode = rt.Partitions[j].Partition, code
		}
	}
}
