package wire

import (
	"bytes"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// SyncGroup, key 14, versions 0 to 5.
//
//	1  throttle time
//	3  instance id (KIP-345)
//	4  flexible
//	5  protocol type and protocol, which must be the group's (KIP-559)
//
// A follower's request is parked until the leader's has come and is durable. Frames are given back before.
//
// Kafka: KafkaApis.handleSyncGroupRequest, GroupCoordinatorService.syncGroup.
func (s *Server) syncGroup(r *request, req *kmsg.SyncGroupRequest) (*kmsg.SyncGroupResponse, error) {
	resp := req.ResponseKind().(*kmsg.SyncGroupResponse)
	if r.version >= 5 && (req.ProtocolType == nil || req.Protocol == nil) {
		resp.ErrorCode = kerr.InconsistentGroupProtocol.Code
		return resp, nil
	}
	if !s.authorize(r, opRead, resourceGroup, req.Group) {
		resp.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return resp, nil
	}
	sync := &groups.SyncRequest{
		Group: req.Group, Generation: req.Generation, MemberID: req.MemberID, InstanceID: req.InstanceID,
		ProtocolType: req.ProtocolType, Protocol: req.Protocol, Assignments: make([]groups.Assignment, len(req.GroupAssignment)),
	}
	for i, a := range req.GroupAssignment {
		sync.Assignments[i] = groups.Assignment{MemberID: a.MemberID, Bytes: bytes.Clone(a.MemberAssignment)}
	}
	r.frameDone()
	ctx, cancel := parked(r)
	defer cancel()
	reply, err := s.groups.SyncGroup(ctx, sync)
	if err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	resp.ProtocolType, resp.Protocol, resp.MemberAssignment = nullable(reply.ProtocolType), nullable(reply.Protocol), reply.Assignment
	if err := r.answerGrows(len(reply.Assignment)); err != nil {
		return nil, err
	}
	return resp, nil
}
