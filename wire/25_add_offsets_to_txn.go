package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/txn"
)

// AddOffsetsToTxn, key 25, versions 0 to 4.
//
//	v2  PRODUCER_FENCED
//	v3  flexible
//	v4  TRANSACTION_ABORTABLE
//
// The partition of __consumer_offsets in which the group's offsets are kept joins the transaction. The group need not
// exist. Clients with transaction.version 2 do not ask.
//
// Kafka: KafkaApis.handleAddOffsetsToTxnRequest.

// addOffsetsToTxn answers an AddOffsetsToTxn request.
func (s *Server) addOffsetsToTxn(r *request, req *kmsg.AddOffsetsToTxnRequest) (*kmsg.AddOffsetsToTxnResponse, error) {
	resp := req.ResponseKind().(*kmsg.AddOffsetsToTxnResponse)
	resp.ErrorCode = fencedCode(s.addOffsets(r, req), r.version >= 2)
	return resp, nil
}

// addOffsets lets the partition of a group's offsets join the transaction.
func (s *Server) addOffsets(r *request, req *kmsg.AddOffsetsToTxnRequest) error {
	if !s.authorize(r, opWrite, resourceTransactionalID, req.TransactionalID) {
		return kerr.TransactionalIDAuthorizationFailed
	}
	if !s.authorize(r, opRead, resourceGroup, req.Group) {
		return kerr.GroupAuthorizationFailed
	}
	partition, err := s.groups.PartitionOf(req.Group)
	if err != nil {
		return err
	}
	return s.txns.Add(r.ctx, txn.AddRequest{
		TransactionalID: req.TransactionalID, Producer: txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Partitions: []txn.Partition{{Topic: groups.OffsetsTopic, Partition: partition}},
	})
}
