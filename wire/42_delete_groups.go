package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteGroups, key 42, versions 0 to 3.
//
//	2  flexible
//	3  error message, which stays null: Kafka only tells failures of plugins with it (KIP-1331)
//
// A group is deleted with its offsets, and answered once. Groups that may not be deleted come last.
//
// Kafka: KafkaApis.handleDeleteGroupsRequest, GroupCoordinatorService.deleteGroups.
func (s *Server) deleteGroups(r *request, req *kmsg.DeleteGroupsRequest) (*kmsg.DeleteGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.DeleteGroupsResponse)
	var allowed, denied []string
	seen := make(map[string]bool, len(req.Groups))
	for _, g := range req.Groups {
		switch {
		case seen[g]:
		case s.authorize(r, opDelete, resourceGroup, g):
			allowed = append(allowed, g)
		default:
			denied = append(denied, g)
		}
		seen[g] = true
	}
	answer := func(group string, code int16) {
		g := kmsg.NewDeleteGroupsResponseGroup()
		g.Group, g.ErrorCode = group, code
		resp.Groups = append(resp.Groups, g)
	}
	for i, err := range s.groups.DeleteGroups(r.ctx, allowed) {
		answer(allowed[i], errorCode(err))
	}
	for _, g := range denied {
		answer(g, kerr.GroupAuthorizationFailed.Code)
	}
	return resp, nil
}
