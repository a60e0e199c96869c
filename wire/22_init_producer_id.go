package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
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
// Kafka: KafkaApis.handleInitProducerIdRequest, TransactionCoordinator.handleInitProducerId.
//
// Idempotent producers get an id of their own, whatever they send along. There is no transaction coordinator yet: a
// request with a transactional id that passes Kafka's checks of its arguments is answered with
// TRANSACTIONAL_ID_AUTHORIZATION_FAILED, as if nobody had been granted any. Of the codes that could say no, it is the one
// that the Java client, librdkafka and franz-go all take as final at once: they retry COORDINATOR_NOT_AVAILABLE and
// NOT_COORDINATOR until the caller gives up, and librdkafka also UNSUPPORTED_VERSION. Produce answers the same to a
// transactional batch.

// initProducerID answers an InitProducerId request.
func (s *Server) initProducerID(r *request, req *kmsg.InitProducerIDRequest) (*kmsg.InitProducerIDResponse, error) {
	resp := req.ResponseKind().(*kmsg.InitProducerIDResponse)
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	if err := s.checkInitProducerID(r, req); err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	id, err := s.store.NextProducerID()
	if err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return resp, nil
}

// checkInitProducerID returns why the request is refused, in Kafka's order.
func (s *Server) checkInitProducerID(r *request, req *kmsg.InitProducerIDRequest) error {
	if req.TransactionalID != nil {
		if !s.authorize(r, opWrite, resourceTransactionalID, *req.TransactionalID) {
			return kerr.TransactionalIDAuthorizationFailed
		}
	} else if !s.mayDo(r, opIdempotentWrite, resourceCluster, clusterResource) && !s.mayDoToSome(r, opWrite, resourceTopic) {
		return kerr.ClusterAuthorizationFailed
	}
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		return kerr.InvalidRequest
	}
	if req.TransactionalID == nil {
		return nil
	}
	if *req.TransactionalID == "" {
		return kerr.InvalidRequest
	}
	if t := int64(req.TransactionTimeoutMillis); t <= 0 || t > s.config.Int("transaction.max.timeout.ms") {
		return kerr.InvalidTransactionTimeout
	}
	return kerr.TransactionalIDAuthorizationFailed
}
