package wire

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
)

// DescribeAcls, key 29, versions 1 to 3.
//
//	v2 flexible
//	v3 users as resources, which the others have too
//
// A filter with a kind of number 0 ends the connection, as in Kafka, whose codec refuses it; one with a kind that does
// not exist chooses nothing. Resources come sorted, where Kafka's order is that of a hash map. Kafka:
// AclApis.handleDescribeAcls, DescribeAclsRequest, DescribeAclsResponse.aclsResources.

// describeACLs answers a DescribeAcls request.
func (s *Server) describeACLs(r *request, req *kmsg.DescribeACLsRequest) (*kmsg.DescribeACLsResponse, error) {
	filter := auth.Filter{
		Resource: auth.ResourceType(req.ResourceType), Name: req.ResourceName, Pattern: auth.PatternType(req.ResourcePatternType),
		Principal: req.Principal, Host: req.Host, Operation: auth.Operation(req.Operation), Permission: auth.Permission(req.PermissionType),
	}
	if err := noKindIsZero(filter.Resource, filter.Pattern, filter.Operation, filter.Permission); err != nil {
		return nil, err
	}
	resp := &kmsg.DescribeACLsResponse{Version: req.Version, Resources: []kmsg.DescribeACLsResponseResource{}}
	if err := s.mayUseACLs(r, opDescribe); err != nil {
		resp.ErrorCode, resp.ErrorMessage = errorCode(err), errorMessage(err)
		return resp, nil
	}
	resp.ErrorMessage = new(string) // as Kafka, which sets none
	for _, b := range s.store.ACLs().Choose(&filter) {
		n := len(resp.Resources)
		if n == 0 || !ofResource(&resp.Resources[n-1], &b) {
			resource := kmsg.NewDescribeACLsResponseResource()
			resource.ResourceType, resource.ResourceName, resource.ResourcePatternType = kmsg.ACLResourceType(b.Resource), b.Name, kmsg.ACLResourcePatternType(b.Pattern)
			resp.Resources = append(resp.Resources, resource)
			n++
		}
		acl := kmsg.NewDescribeACLsResponseResourceACL()
		acl.Principal, acl.Host, acl.Operation, acl.PermissionType = b.Principal, b.Host, kmsg.ACLOperation(b.Operation), kmsg.ACLPermissionType(b.Permission)
		resp.Resources[n-1].ACLs = append(resp.Resources[n-1].ACLs, acl)
		if err := r.answerGrows(16 + len(b.Name) + len(b.Principal) + len(b.Host)); err != nil {
			return nil, err
		}
	}
	return resp, nil
}

// ofResource reports whether a binding is one of a resource of the answer.
func ofResource(resource *kmsg.DescribeACLsResponseResource, b *auth.Binding) bool {
	return resource.ResourceType == kmsg.ACLResourceType(b.Resource) && resource.ResourceName == b.Name && resource.ResourcePatternType == kmsg.ACLResourcePatternType(b.Pattern)
}

// mayUseACLs returns why the caller may not describe or change ACLs: it is denied op to the cluster, or there is no
// authorizer, which would look at them.
func (s *Server) mayUseACLs(r *request, op aclOperation) error {
	switch {
	case !s.authorizeCluster(r, op):
		return kerr.ClusterAuthorizationFailed
	case s.authorizer == nil:
		return detail(kerr.SecurityDisabled, "no authorizer is configured: see authorizer.class.name")
	}
	return nil
}

// noKindIsZero checks that none of the kinds that a request names is the one that stands for unknown ones. Kafka ends
// the connection of a client that sends it.
func noKindIsZero(resource auth.ResourceType, pattern auth.PatternType, op auth.Operation, permission auth.Permission) error {
	if resource == auth.UnknownResource || pattern == auth.UnknownPattern || op == auth.UnknownOperation || permission == auth.UnknownPermission {
		return frameErrorf("an ACL of resource type %d, pattern type %d, operation %d and permission %d, want none of them to be 0", resource, pattern, op, permission)
	}
	return nil
}
