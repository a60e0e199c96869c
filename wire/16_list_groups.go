package wire

import (
	"github.com/twmb/franz-go/pkg/kmsg"
)

// ListGroups, key 16, versions 0 to 5.
//
//	1  throttle time
//	3  flexible
//	4  a choice of states, and the state of each group
//	5  a choice of types, and the type of each group (KIP-848)
//
// Who may describe the cluster sees every group, others those that they may describe. A partition of groups that is
// still being read fails the whole list. Groups come by name; in Kafka their order means nothing.
//
// Kafka: KafkaApis.handleListGroupsRequest, GroupMetadataManager.listGroups.
func (s *Server) listGroups(r *request, req *kmsg.ListGroupsRequest) (*kmsg.ListGroupsResponse, error) {
	resp := req.ResponseKind().(*kmsg.ListGroupsResponse)
	listed, err := s.groups.List(req.StatesFilter, req.TypesFilter)
	if err != nil {
		resp.ErrorCode = errorCode(err)
		return resp, nil
	}
	all := s.mayDo(r, opDescribe, resourceCluster, clusterResource)
	for _, g := range listed {
		if !all && !s.mayDo(r, opDescribe, resourceGroup, g.ID) {
			continue
		}
		answer := kmsg.NewListGroupsResponseGroup()
		answer.Group, answer.ProtocolType, answer.GroupState, answer.GroupType = g.ID, g.ProtocolType, g.State, string(g.Kind)
		resp.Groups = append(resp.Groups, answer)
		if err := r.answerGrows(12 + len(g.ID) + len(g.ProtocolType) + len(g.State) + len(g.Kind)); err != nil {
			return nil, err
		}
	}
	return resp, nil
}
