package wire

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/txn"
)

// InitProducerId, key 22, versions 0 to 5.
//
//	v2 flexible
//	v3 producer id and epoch, for a producer that resumes
//	v4 PRODUCER_FENCED
//	v5 TRANSACTION_ABORTABLE
//
// Version 6 (KIP-939) is unstable in Kafka 4.4 and hidden there.
//
// Idempotent producers get an id of their own, whatever they send along. A transactional id keeps its producer id, and
// with each call gets an epoch that fences what came before; an open transaction is aborted first, and the client asks
// again while that goes on.
//
// Kafka: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.

// initProducerID answers an InitProducerId request.
func (s *Server) initProducerID(r *request, req *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	producer, err := s.newProducer(r, req)
	if err != nil {
		producer = txn.Producer{ID: -1, Epoch: -1}
	}
	resp.ProducerID, resp.ProducerEpoch, resp.ErrorCode = producer.ID, producer.Epoch, fencedCode(err, r.version >= 4)
	return resp, nil
}

// newProducer returns the producer that the caller is from now on, or why it is none, in Kafka's order.
func (s *Server) newProducer(r *request, req *kmsg.InitProducerIDRequest) (txn.Producer, error) {
	if req.TransactionalID != nil {
		if !s.authorize(r, opWrite, resourceTransactionalID, *req.TransactionalID) {
			return txn.Producer{}, kerr.TransactionalIDAuthorizationFailed
		}
	} else if !s.mayDo(r, opIdempotentWrite, resourceCluster, clusterResource) && !s.mayDoToSome(r, opWrite, resourceTopic) {
		return txn.Producer{}, kerr.ClusterAuthorizationFailed
	}
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		return txn.Producer{}, kerr.InvalidRequest
	}
	if req.TransactionalID == nil {
		id, err := s.store.NextProducerID()
		return txn.Producer{ID: id}, err
	}
	init := txn.InitRequest{
		TransactionalID: *req.TransactionalID,
		Timeout:         time.Duration(req.TransactionTimeoutMillis) * time.Millisecond,
	}
	if req.ProducerID != -1 {
		init.Expected = &txn.Producer{ID: req.ProducerID, Epoch: req.ProducerEpoch}
	}
	return s.txns.Init(r.ctx, init)
}

// fencedCode is the code of an answer about a transaction. Clients that do not know PRODUCER_FENCED yet are told of an
// invalid epoch, which they handle in the same way.
func fencedCode(err error, known bool) int16 {
	if !known && errors.Is(err, txn.ErrProducerFenced) {
		return kerr.InvalidProducerEpoch.Code
	}
	return errorCode(err)
}
