package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// LeaveGroup, key 13, versions 0 to 5.
//
//	1  throttle time
//	3  several members, each by member id, instance id or both (KIP-345)
//	4  flexible
//	5  reason
//
// Before version 3 the error of the one member is that of the answer. The reason is not kept.
//
// Kafka: KafkaApis.handleLeaveGroupRequest, GroupCoordinatorService.leaveGroup.
func (s *Server) leaveGroup(r *request, req *kmsg.LeaveGroupRequest) (*kmsg.LeaveGroupResponse, error) {
	resp := req.ResponseKind().(*kmsg.LeaveGroupResponse)
	if !s.authorize(r, opRead, resourceGroup, req.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil
	}
	leave := &groups.LeaveRequest{Group: req.Group}
	if r.version < 3 {
		leave.Members = []groups.LeavingMember{{MemberID: req.MemberID}}
	} else {
		leave.Members = make([]groups.LeavingMember, len(req.Members))
		for i, m := range req.Members {
			leave.Members[i] = groups.LeavingMember{MemberID: m.MemberID, InstanceID: m.InstanceID}
		}
	}
	reply, err := s.groups.LeaveGroup(r.ctx, leave)
	switch {
	case err != nil:
		resp.ErrorCode = errorCode(err)
	case r.version < 3:
		resp.ErrorCode = errorCode(reply[0])
	default:
		resp.Members = make([]kmsg.LeaveGroupResponseMember, len(reply))
		for i, err := range reply {
			resp.Members[i] = kmsg.LeaveGroupResponseMember{MemberID: leave.Members[i].MemberID, InstanceID: leave.Members[i].InstanceID, ErrorCode: errorCode(err)}
		}
	}
	return resp, nil
}
