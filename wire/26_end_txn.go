package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// EndTxn, key 26, versions 0 to 5.
//
//	v2  PRODUCER_FENCED
//	v3  flexible
//	v4  TRANSACTION_ABORTABLE
//	v5  every end of a transaction bumps the epoch; the answer has the producer to go on with (KIP-890)
//
// The answer comes when the decision is durable. The markers are written afterwards.
//
// Kafka: KafkaApis.handleEndTxnRequest, TransactionVersion.transactionVersionForEndTxn.

// endTxn answers an EndTxn request.
func (s *Server) endTxn(r *request, req *kmsg.EndTxnRequest) (*kmsg.EndTxnResponse, error) {
	resp := req.ResponseKind().(*kmsg.EndTxnResponse) // no producer
	if !s.authorize(r, opWrite, resourceTransactionalID, req.TransactionalID) {
		resp.ErrorCode = kerr.TransactionalIDAuthorizationFailed.Code
		return resp, nil
	}
	next, err := s.txns.End(r.ctx, txn.EndRequest{
		TransactionalID: req.TransactionalID, Producer: txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch},
		Commit: req.Commit, V2: r.version >= 5,
	})
	resp.ErrorCode = fencedCode(err, r.version >= 2)
	if err == nil && r.version >= 5 {
		resp.ProducerID, resp.ProducerEpoch = next.ID, next.Epoch
	}
	return resp, nil
}
