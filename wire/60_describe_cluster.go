package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DescribeCluster, key 60, versions 0 to 2.
//
//	1  which kind of endpoint the client means
//	2  fenced brokers; there are none
//
// Kafka: AuthHelper.computeDescribeClusterResponse.
func (s *Server) describeCluster(r *request, req *kmsg.DescribeClusterRequest) (*kmsg.DescribeClusterResponse, error) {
	const brokers, controllers = 1, 2
	resp := req.ResponseKind().(*kmsg.DescribeClusterResponse)
	resp.ClusterAuthorizedOperations, resp.ControllerID, resp.EndpointType = noOperations, -1, brokers
	if req.EndpointType != brokers {
		err := kerr.UnsupportedEndpointType
		if req.EndpointType == controllers {
			err = kerr.MismatchedEndpointType
		}
		resp.ErrorCode = err.Code
		resp.ErrorMessage = kmsg.StringPtr(fmt.Sprintf("endpoint type %d asked of a broker, want %d", req.EndpointType, brokers))
		return resp, nil
	}
	if req.IncludeClusterAuthorizedOperations {
		resp.ClusterAuthorizedOperations = s.clusterOperations(r)
	}
	broker := kmsg.NewDescribeClusterResponseBroker()
	broker.NodeID, broker.Host, broker.Port, broker.Rack = s.store.NodeID(), r.listener.AdvertisedHost, r.listener.AdvertisedPort, s.rack()
	resp.Brokers = []kmsg.DescribeClusterResponseBroker{broker}
	resp.ClusterID, resp.ControllerID = s.store.ClusterID(), s.store.NodeID()
	return resp, nil
}
