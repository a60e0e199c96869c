package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// Heartbeat, key 12, versions 0 to 4.
//
//	1  throttle time
//	3  instance id (KIP-345)
//	4  flexible
//
// Kafka: KafkaApis.handleHeartbeatRequest, GroupCoordinatorService.heartbeat.
func (s *Server) heartbeat(r *request, req *kmsg.HeartbeatRequest) (*kmsg.HeartbeatResponse, error) {
	resp := req.ResponseKind().(*kmsg.HeartbeatResponse)
	if !s.authorize(r, opRead, resourceGroup, req.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil
	}
	resp.ErrorCode = errorCode(s.groups.Heartbeat(r.ctx, &groups.HeartbeatRequest{
		Group: req.Group, Generation: req.Generation, MemberID: req.MemberID, InstanceID: req.InstanceID,
	}))
	return resp, nil
}
