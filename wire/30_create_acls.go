package wire

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
)

// CreateAcls, key 30, versions 1 to 3.
//
//	v2 flexible
//	v3 users as resources, which the others have too
//
// What is there already is created with success, and nothing changes. A bad ACL does not fail its neighbours, but for
// one with a kind of number 0, which ends the connection, as in Kafka. Differs from Kafka: a kind that stands for any in
// filters is refused alone, where Kafka's handler fails over it, and with it the whole request. The ACLs hold for every request that is read
// after the answer, on all connections. Kafka: AclApis.handleCreateAcls, AclControlManager.createAcls.

// createACLs answers a CreateAcls request.
func (s *Server) createACLs(r *request, req *kmsg.CreateACLsRequest) (*kmsg.CreateACLsResponse, error) {
	bindings := make([]auth.Binding, len(req.Creations))
	for i := range req.Creations {
		c := &req.Creations[i]
		b := &bindings[i]
		*b = auth.Binding{
			Resource: auth.ResourceType(c.ResourceType), Name: c.ResourceName, Pattern: auth.PatternType(c.ResourcePatternType),
			Principal: c.Principal, Host: c.Host, Operation: auth.Operation(c.Operation), Permission: auth.Permission(c.PermissionType),
		}
		if err := noKindIsZero(b.Resource, b.Pattern, b.Operation, b.Permission); err != nil {
			return nil, err
		}
	}
	errs := make([]error, len(bindings))
	err := s.mayUseACLs(r, opAlter)
	if err == nil {
		var valid []auth.Binding
		for i := range bindings {
			if errs[i] = checkACL(&bindings[i]); errs[i] == nil {
				valid = append(valid, bindings[i])
			}
		}
		err = s.store.CreateACLs(valid)
	}
	resp := &kmsg.CreateACLsResponse{Version: req.Version, Results: make([]kmsg.CreateACLsResponseResult, len(bindings))}
	for i := range resp.Results {
		result := &resp.Results[i]
		if errs[i] == nil {
			errs[i] = err
		}
		result.ErrorCode, result.ErrorMessage = errorCode(errs[i]), errorMessage(errs[i])
		if result.ErrorMessage == nil {
			result.ErrorMessage = new(string) // as Kafka, which sets none
		}
	}
	return resp, nil
}

// checkACL returns why an ACL cannot be. Kafka: AclControlManager.validateNewAcl.
func checkACL(b *auth.Binding) error {
	invalid := func(format string, args ...any) error {
		return detail(kerr.InvalidRequest, fmt.Sprintf(format, args...))
	}
	switch {
	case b.Resource == auth.Cluster && b.Name != clusterResource:
		return invalid("the cluster is named %s, not %q", clusterResource, b.Name)
	case b.Name == "":
		return invalid("a resource without a name")
	case b.Resource < auth.Topic || b.Resource > auth.User:
		return invalid("resource type %d, want %d to %d", b.Resource, auth.Topic, auth.User)
	case b.Pattern != auth.Literal && b.Pattern != auth.Prefixed:
		return invalid("pattern type %d, want %d or %d", b.Pattern, auth.Literal, auth.Prefixed)
	case b.Operation < auth.AllOperations || b.Operation > auth.TwoPhaseCommit:
		return invalid("operation %d, want %d to %d", b.Operation, auth.AllOperations, auth.TwoPhaseCommit)
	case b.Permission != auth.Deny && b.Permission != auth.Allow:
		return invalid("permission %d, want %d or %d", b.Permission, auth.Deny, auth.Allow)
	case !strings.Contains(b.Principal, ":"):
		return invalid("principal %q, want its type and its name with a colon between, as User:alice", b.Principal)
	case !auth.ValidHost(b.Host):
		return invalid("host %q, want *, an address or a network", b.Host)
	}
	return nil
}
