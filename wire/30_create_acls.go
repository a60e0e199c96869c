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
// filters is refused alone, where Kafka's handler fails over it, and with it the whole request. The ACLs hold for every
// request that is read after the answer, on all connections. Kafka: AclApis.handleCreateAcls,
// AclControlManager.createAcls.

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
	err := s.mayUseACLs(r, opAlter)
	errs := make([]error, len(bindings))
	if err == nil {
		errs, err = s.addACLs(bindings)
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

// addACLs adds those of the bindings that can be ACLs, and returns why the others cannot, or why none was added: that
// holds for all but those with a bad name, which Kafka's controller never sees.
func (s *Server) addACLs(bindings []auth.Binding) ([]error, error) {
	names, all := make([]error, len(bindings)), make([]error, len(bindings))
	var valid []auth.Binding
	for i := range bindings {
		b := &bindings[i]
		names[i] = checkACLName(b)
		if all[i] = names[i]; all[i] == nil {
			all[i] = checkACL(b)
		}
		if all[i] == nil {
			valid = append(valid, *b)
		}
	}
	if err := s.store.CreateACLs(valid); err != nil {
		return names, err
	}
	return all, nil
}

func invalidACL(format string, args ...any) error {
	return detail(kerr.InvalidRequest, fmt.Sprintf(format, args...))
}

// checkACLName returns why there can be no ACLs of a resource of that name. Kafka: AclApis.handleCreateAcls.
func checkACLName(b *auth.Binding) error {
	switch {
	case b.Resource == auth.Cluster && b.Name != clusterResource:
		return invalidACL("the cluster is named %s, not %q", clusterResource, b.Name)
	case b.Name == "":
		return invalidACL("a resource without a name")
	}
	return nil
}

// checkACL returns what else is wrong with an ACL. Kafka: AclControlManager.validateNewAcl.
func checkACL(b *auth.Binding) error {
	switch {
	case b.Resource < auth.Topic || b.Resource > auth.User:
		return invalidACL("resource type %d, want %d to %d", b.Resource, auth.Topic, auth.User)
	case b.Pattern != auth.Literal && b.Pattern != auth.Prefixed:
		return invalidACL("pattern type %d, want %d or %d", b.Pattern, auth.Literal, auth.Prefixed)
	case b.Operation < auth.AllOperations || b.Operation > auth.TwoPhaseCommit:
		return invalidACL("operation %d, want %d to %d", b.Operation, auth.AllOperations, auth.TwoPhaseCommit)
	case b.Permission != auth.Deny && b.Permission != auth.Allow:
		return invalidACL("permission %d, want %d or %d", b.Permission, auth.Deny, auth.Allow)
	case !strings.Contains(b.Principal, ":"):
		return invalidACL("principal %q, want its type and its name with a colon between, as User:alice", b.Principal)
	case !auth.ValidHost(b.Host):
		return invalidACL("host %q, want *, an address or a network", b.Host)
	}
	return nil
}
