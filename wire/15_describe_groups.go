package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
)

// DescribeGroups, key 15, versions 0 to 6.
//
//	1  throttle time
//	3  authorized operations
//	4  instance ids
//	5  flexible
//	6  GROUP_ID_NOT_FOUND and its text for a group that is not there; before, it is one in state Dead (KIP-1043)
//
// Groups of another protocol are not there. Groups come in the order of the request; in Kafka those that the caller may
// not see come first, and the others' order means nothing.
//
// Kafka: KafkaApis.handleDescribeGroupsRequest, GroupMetadataManager.describeGroups.
func (s *Server) describeGroups(r *request, req *kmsg.DescribeGroupsRequest) (*kmsg.DescribeGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DescribeGroupsResponse)
	var err error
	resp.Groups, err = describeEach(r, req.Groups, func(name string) kmsg.DescribeGroupsResponseGroup {
		answer := s.describeGroup(r, name)
		if r.version >= 3 && req.IncludeAuthorizedOperations && answer.ErrorCode == 0 {
			answer.AuthorizedOperations = s.authorizedOperations(r, resourceGroup, name)
		}
		return answer
	}, func(g *kmsg.DescribeGroupsResponseGroup) int {
		size := 24 + len(g.Group) + len(deref(g.ErrorMessage)) + len(g.State) + len(g.ProtocolType) + len(g.Protocol)
		for i := range g.Members {
			m := &g.Members[i]
			size += 20 + len(m.MemberID) + len(deref(m.InstanceID)) + len(m.ClientID) + len(m.ClientHost) + len(m.ProtocolMetadata) + len(m.MemberAssignment)
		}
		return size
	}, func(name string) kmsg.DescribeGroupsResponseGroup {
		answer := kmsg.NewDescribeGroupsResponseGroup()
		answer.Group, answer.ErrorCode, answer.ErrorMessage = name, errorCode(errRepeated), errorMessage(errRepeated)
		return answer
	})
	return resp, err
}

// describeGroup answers for one group.
func (s *Server) describeGroup(r *request, name string) kmsg.DescribeGroupsResponseGroup {
	answer := kmsg.NewDescribeGroupsResponseGroup()
	answer.Group = name
	if !s.authorize(r, opDescribe, resourceGroup, name) {
		answer.ErrorCode = kerr.GroupAuthorizationFailed.Code
		return answer
	}
	d, err := s.groups.DescribeGroup(name)
	answer.State, answer.ProtocolType, answer.Protocol = d.State, d.ProtocolType, d.Protocol
	if err != nil && (r.version >= 6 || !errors.Is(err, groups.ErrGroupIDNotFound)) {
		answer.ErrorCode = errorCode(err)
		if errors.Is(err, groups.ErrGroupIDNotFound) {
			answer.ErrorMessage = errorMessage(err)
		}
		return answer
	}
	answer.Members = make([]kmsg.DescribeGroupsResponseGroupMember, len(d.Members))
	for i, m := range d.Members {
		answer.Members[i] = kmsg.DescribeGroupsResponseGroupMember{
			MemberID: m.MemberID, InstanceID: m.InstanceID, ClientID: m.ClientID, ClientHost: m.ClientHost,
			ProtocolMetadata: m.Metadata, MemberAssignment: m.Assignment,
		}
	}
	return answer
}
