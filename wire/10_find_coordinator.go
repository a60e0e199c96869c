package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/txn"
)

// FindCoordinator, key 10, versions 0 to 6.
//
//	1  key type, throttle time, error message
//	3  flexible
//	4  several keys
//	5  (clients know TRANSACTION_ABORTABLE)
//	6  share groups
//
// There is one broker, so that it is the coordinator of everything. Differs from Kafka: __consumer_offsets and
// __transaction_state are made before the answer, and not after a first one of COORDINATOR_NOT_AVAILABLE. Share
// coordinator keys, which only brokers look up, are refused.
//
// Kafka: KafkaApis.getCoordinator.
func (s *Server) findCoordinator(r *request, req *kmsg.FindCoordinatorRequest) (*kmsg.FindCoordinatorResponse, error) {
	resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
	if req.Version < 4 {
		err := s.checkCoordinator(r, req.Version, req.CoordinatorType, req.CoordinatorKey)
		resp.NodeID, resp.Host, resp.Port = s.coordinator(r, err)
		resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
		if err == nil {
			resp.ErrorMessage = kmsg.StringPtr("NONE")
		}
		return resp, nil
	}
	for _, key := range req.CoordinatorKeys {
		err := s.checkCoordinator(r, req.Version, req.CoordinatorType, key)
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.ErrorCode, c.ErrorMessage = key, errorCode(err), kmsg.StringPtr("")
		if c.ErrorCode == kerr.InvalidRequest.Code && req.CoordinatorType != coordinatorOfShare || c.ErrorCode == kerr.ClusterAuthorizationFailed.Code {
			c.ErrorMessage = errorMessage(err) // Kafka: FindCoordinatorRequest.getErrorResponse
		}
		c.NodeID, c.Host, c.Port = s.coordinator(r, err)
		resp.Coordinators = append(resp.Coordinators, c)
	}
	return resp, nil
}

// What a coordinator coordinates. Kafka: FindCoordinatorRequest.CoordinatorType.
const (
	coordinatorOfGroup       = 0
	coordinatorOfTransaction = 1
	coordinatorOfShare       = 2
)

// checkCoordinator says why there is no coordinator for key, nil when there is.
func (s *Server) checkCoordinator(r *request, version int16, kind int8, key string) error {
	switch kind {
	case coordinatorOfGroup:
		if !s.authorize(r, opDescribe, resourceGroup, key) {
			return kerr.GroupAuthorizationFailed
		}
		if _, err := s.groups.EnsureTopic(); err != nil {
			return groups.ErrNotAvailable
		}
		// A coordinator that is loading is named all the same; its own answers say so.
		if err := s.groups.Available(key); errors.Is(err, groups.ErrNotCoordinator) {
			return groups.ErrNotAvailable // the partition has no leader
		}
		return nil
	case coordinatorOfTransaction:
		if !s.authorize(r, opDescribe, resourceTransactionalID, key) {
			return kerr.TransactionalIDAuthorizationFailed
		}
		if _, err := s.txns.EnsureTopic(); err != nil {
			return txn.ErrNotAvailable
		}
		if err := s.txns.Available(key); errors.Is(err, txn.ErrNotCoordinator) {
			return txn.ErrNotAvailable
		}
		return nil
	case coordinatorOfShare:
		if version >= 6 && !s.authorizeCluster(r, opClusterAction) {
			return kerr.ClusterAuthorizationFailed
		}
		return kerr.InvalidRequest
	}
	return kerr.InvalidRequest // Kafka: CoordinatorType.forId throws it
}

// coordinator returns the node to name: this one, or none when there is an error.
func (s *Server) coordinator(r *request, err error) (id int32, host string, port int32) {
	if err != nil {
		return -1, "", -1
	}
	return s.store.NodeID(), r.listener.AdvertisedHost, r.listener.AdvertisedPort
}
