package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/txn"
)

// AddPartitionsToTxn, key 24, versions 0 to 5.
//
//	v2  PRODUCER_FENCED
//	v3  flexible
//	v4  for brokers: several transactions, and a look only at whether partitions are in one
//	v5  TRANSACTION_ABORTABLE
//
// Clients use versions 0 to 3, before they write; those with transaction.version 2 do not ask at all. All partitions of a
// transaction are added, or none.
// No client may add a partition of an internal topic, or it could have markers written among the coordinators' records:
// those of __consumer_offsets join by AddOffsetsToTxn.
//
// Kafka: KafkaApis.handleAddPartitionsToTxnRequest.
//
// Differs from Kafka: the transactions of one request are worked on one after the other, and a request with none of them
// is answered; partitions are answered for in the order of the request, in Kafka in none when one is refused.

// addPartitionsToTxn answers an AddPartitionsToTxn request.
func (s *Server) addPartitionsToTxn(r *request, req *kmsg.AddPartitionsToTxnRequest) (*kmsg.AddPartitionsToTxnResponse, error) {
	resp := req.ResponseKind().(*kmsg.AddPartitionsToTxnResponse)
	if r.version < 4 {
		s.addClientPartitions(r, req, resp)
		return resp, nil
	}
	if !s.authorizeCluster(r, opClusterAction) {
		resp.ErrorCode = kerr.ClusterAuthorizationFailed.Code
		return resp, nil
	}
	resp.Transactions = make([]kmsg.AddPartitionsToTxnResponseTransaction, len(req.Transactions))
	for i := range req.Transactions {
		t, answer := &req.Transactions[i], &resp.Transactions[i]
		answer.TransactionalID = t.TransactionalID
		codes, every := s.joinTransaction(r, t)
		for j := range t.Topics {
			topic, partitions := t.Topics[j].Topic, t.Topics[j].Partitions
			if len(partitions) == 0 && !every {
				continue
			}
			at := kmsg.AddPartitionsToTxnResponseTransactionTopic{Topic: topic, Partitions: make([]kmsg.AddPartitionsToTxnResponseTransactionTopicPartition, len(partitions))}
			for k, p := range partitions {
				at.Partitions[k].Partition, at.Partitions[k].ErrorCode = p, codes[0]
				codes = codes[1:]
			}
			answer.Topics = append(answer.Topics, at)
		}
	}
	return resp, nil
}

// addClientPartitions answers a request as clients make it, for one transaction.
func (s *Server) addClientPartitions(r *request, req *kmsg.AddPartitionsToTxnRequest, resp *kmsg.AddPartitionsToTxnResponse) {
	t := kmsg.AddPartitionsToTxnRequestTransaction{
		TransactionalID: req.TransactionalID, ProducerID: req.ProducerID, ProducerEpoch: req.ProducerEpoch,
		Topics: make([]kmsg.AddPartitionsToTxnRequestTransactionTopic, len(req.Topics)),
	}
	for i := range req.Topics {
		t.Topics[i] = kmsg.AddPartitionsToTxnRequestTransactionTopic(req.Topics[i])
	}
	codes, every := s.joinTransaction(r, &t)
	for i := range t.Topics {
		topic, partitions := t.Topics[i].Topic, t.Topics[i].Partitions
		if len(partitions) == 0 && !every {
			continue
		}
		at := kmsg.AddPartitionsToTxnResponseTopic{Topic: topic, Partitions: make([]kmsg.AddPartitionsToTxnResponseTopicPartition, len(partitions))}
		for j, p := range partitions {
			at.Partitions[j].Partition, at.Partitions[j].ErrorCode = p, codes[0]
			codes = codes[1:]
		}
		resp.Topics = append(resp.Topics, at)
	}
}

// joinTransaction adds the partitions of a transaction to it, or looks whether they are in it, and returns a code for each
// of them, in the order of the request. every says that topics of which no partition is named are answered for, too: where
// partitions have codes of their own, Kafka makes the answer of those.
func (s *Server) joinTransaction(r *request, t *kmsg.AddPartitionsToTxnRequestTransaction) (codes []int16, every bool) {
	if r.version < 4 && !s.authorize(r, opWrite, resourceTransactionalID, t.TransactionalID) {
		return sameCode(t, kerr.TransactionalIDAuthorizationFailed.Code), true
	}
	partitions, codes := s.checkJoining(r, t)
	if partitions == nil {
		return codes, false
	}
	add := txn.AddRequest{
		TransactionalID: t.TransactionalID, Producer: txn.Producer{ID: t.ProducerID, Epoch: t.ProducerEpoch},
		Partitions: partitions, V2: r.version >= 4,
	}
	if !t.VerifyOnly {
		return sameCode(t, fencedCode(s.txns.Add(r.ctx, add), r.version >= 2)), true
	}
	errs, err := s.txns.Verify(r.ctx, add)
	if err != nil {
		return sameCode(t, errorCode(err)), false
	}
	for i, err := range errs {
		codes[i] = errorCode(err)
	}
	return codes, false
}

// checkJoining returns the partitions of a transaction when the caller may add all of them and all exist, else
// none and a code for each.
func (s *Server) checkJoining(r *request, t *kmsg.AddPartitionsToTxnRequestTransaction) (partitions []txn.Partition, codes []int16) {
	refused := false
	partitions = []txn.Partition{}
	for i := range t.Topics {
		name, code := t.Topics[i].Topic, int16(0)
		topic, ok := s.store.Topic(name)
		if r.version < 4 && (storage.IsInternalTopic(name) || !s.authorize(r, opWrite, resourceTopic, name)) {
			code = kerr.TopicAuthorizationFailed.Code
		} else if !ok {
			code = kerr.UnknownTopicOrPartition.Code
		}
		for _, p := range t.Topics[i].Partitions {
			c := code
			if c == 0 && (p < 0 || p >= topic.Partitions()) {
				c = kerr.UnknownTopicOrPartition.Code
			}
			refused = refused || c != 0
			partitions, codes = append(partitions, txn.Partition{Topic: name, Partition: p}), append(codes, c)
		}
	}
	if !refused {
		return partitions, codes
	}
	for i, c := range codes {
		if c == 0 {
			codes[i] = kerr.OperationNotAttempted.Code
		}
	}
	return nil, codes
}

// sameCode is one code for all partitions of a transaction.
func sameCode(t *kmsg.AddPartitionsToTxnRequestTransaction, code int16) []int16 {
	var codes []int16
	for i := range t.Topics {
		for range t.Topics[i].Partitions {
			codes = append(codes, code)
		}
	}
	return codes
}
