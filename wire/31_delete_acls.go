package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
)

// DeleteAcls, key 31, versions 1 to 3.
//
//	v2 flexible
//	v3 users as resources, which the others have too
//
// All filters choose among the ACLs that there are before the request, so that one which two of them choose is told in
// both. A filter with a kind that does not exist fails alone; one with a kind of number 0 ends the connection, as in
// Kafka. Kafka: AclApis.handleDeleteAcls, AclControlManager.deleteAcls.

// deleteACLs answers a DeleteAcls request.
func (s *Server) deleteACLs(r *request, req *kmsg.DeleteACLsRequest) (*kmsg.DeleteACLsResponse, error) {
	filters := make([]auth.Filter, len(req.Filters))
	for i := range req.Filters {
		q := &req.Filters[i]
		f := &filters[i]
		*f = auth.Filter{
			Resource: auth.ResourceType(q.ResourceType), Name: q.ResourceName, Pattern: auth.PatternType(q.ResourcePatternType),
			Principal: q.Principal, Host: q.Host, Operation: auth.Operation(q.Operation), Permission: auth.Permission(q.PermissionType),
		}
		if err := noKindIsZero(f.Resource, f.Pattern, f.Operation, f.Permission); err != nil {
			return nil, err
		}
	}
	var deleted [][]auth.Binding
	err := s.mayUseACLs(r, opAlter)
	if err == nil {
		deleted, err = s.store.DeleteACLs(filters) // a filter that is not known chooses nothing
	}
	if errors.Is(err, storage.ErrTooManyACLs) {
		err = detail(kerr.InvalidRequest, err.Error()) // unlike CreateAcls
	}
	resp := &kmsg.DeleteACLsResponse{Version: req.Version, Results: make([]kmsg.DeleteACLsResponseResult, len(filters))}
	for i := range resp.Results {
		result := &resp.Results[i]
		result.MatchingACLs = []kmsg.DeleteACLsResponseResultMatchingACL{}
		failed := err
		if failed == nil && !filters[i].Known() {
			failed = detail(kerr.InvalidRequest, "a filter of a kind that does not exist")
		}
		if result.ErrorCode, result.ErrorMessage = errorCode(failed), errorMessage(failed); failed != nil {
			continue
		}
		for _, b := range deleted[i] {
			acl := kmsg.NewDeleteACLsResponseResultMatchingACL()
			acl.ResourceType, acl.ResourceName, acl.ResourcePatternType = kmsg.ACLResourceType(b.Resource), b.Name, kmsg.ACLResourcePatternType(b.Pattern)
			acl.Principal, acl.Host, acl.Operation, acl.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
			result.MatchingACLs = append(result.MatchingACLs, acl)
			if err := r.answerGrows(16 + len(b.Name) + len(b.Principal) + len(b.Host)); err != nil {
				return nil, err
			}
		}
	}
	return resp, nil
}
