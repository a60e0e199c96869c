package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestDescribeCluster(t *testing.T) { // ADM-17, META-06
	b := newBroker(t, map[string]string{"broker.rack": "r1"})
	for version := range int16(3) {
		for _, operations := range []bool{false, true} {
			req := kmsg.NewPtrDescribeClusterRequest()
			req.Version, req.IncludeClusterAuthorizedOperations = version, operations
			got := ask[*kmsg.DescribeClusterResponse](b, req)
			want := noOperations
			if operations {
				want = b.s.authorizedOperations(&b.r, resourceCluster, clusterResource)
			}
			if got.ErrorCode != 0 || got.ErrorMessage != nil || got.ClusterID != b.store.ClusterID() || got.ControllerID != 1 || got.ClusterAuthorizedOperations != want || got.EndpointType != 1 {
				t.Errorf("version %d: %+v, want cluster %s, controller 1, operations %d", version, got, b.store.ClusterID(), want)
			}
			if len(got.Brokers) != 1 || got.Brokers[0].NodeID != 1 || got.Brokers[0].Host != "gateway.example" || got.Brokers[0].Port != 9092 || deref(got.Brokers[0].Rack) != "r1" || got.Brokers[0].IsFenced {
				t.Errorf("version %d: brokers %+v", version, got.Brokers)
			}
		}
		for endpoint, code := range map[int8]int16{2: 114, 3: 115, 0: 115} {
			if version == 0 {
				continue // cannot say
			}
			req := kmsg.NewPtrDescribeClusterRequest()
			req.Version, req.EndpointType = version, endpoint
			if got := ask[*kmsg.DescribeClusterResponse](b, req); got.ErrorCode != code || got.ErrorMessage == nil || len(got.Brokers) != 0 || got.ControllerID != -1 {
				t.Errorf("version %d, endpoint type %d: %+v, want code %d and no brokers", version, endpoint, got, code)
			}
		}
	}
}
