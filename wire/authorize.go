package wire

import (
	"context"
	"log/slog"
	"net"
	"net/netip"

	"github.com/kaen-log/gateway/auth"
)

// standardAuthorizer is the only authorizer there is, by the name of Kafka's.
const standardAuthorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

// aclOperation is what a principal may do to a resource. The numbers are Kafka's, on the wire and in authorized
// operations bit fields.
type aclOperation = auth.Operation

const (
	opRead            = auth.Read
	opWrite           = auth.Write
	opCreate          = auth.Create
	opDelete          = auth.Delete
	opAlter           = auth.Alter
	opDescribe        = auth.Describe
	opClusterAction   = auth.ClusterAction
	opDescribeConfigs = auth.DescribeConfigs
	opAlterConfigs    = auth.AlterConfigs
	opIdempotentWrite = auth.IdempotentWrite
)

// resourceType is what an operation is done to.
type resourceType = auth.ResourceType

const (
	resourceTopic           = auth.Topic
	resourceGroup           = auth.Group
	resourceCluster         = auth.Cluster
	resourceTransactionalID = auth.TransactionalID
)

// clusterResource is the name of the only cluster resource.
const clusterResource = auth.ClusterName

// noOperations is what an authorized operations field holds when it was not asked for.
const noOperations int32 = -2147483648

// operationsOf lists what can be done to each type of resource. Kafka: AclEntry.supportedOperations.
var operationsOf = map[resourceType][]aclOperation{
	resourceTopic:   {opRead, opWrite, opCreate, opDescribe, opDelete, opAlter, opDescribeConfigs, opAlterConfigs},
	resourceGroup:   {opRead, opDescribe, opDelete, opDescribeConfigs, opAlterConfigs},
	resourceCluster: {opCreate, opClusterAction, opDescribeConfigs, opAlterConfigs, opIdempotentWrite, opAlter, opDescribe},
}

// newAuthorizer returns the authorizer that a config asks for, nil for none.
func newAuthorizer(c *BrokerConfig) *auth.Authorizer {
	if c.String("authorizer.class.name") == "" {
		return nil
	}
	a, err := auth.NewAuthorizer(c.String("super.users"), c.Bool("allow.everyone.if.no.acl.found"))
	if err != nil {
		panic("wire: super.users, which was checked: " + err.Error())
	}
	return a
}

// authorize reports whether the caller may do op to the named resource. It is asked before every check of existence,
// so that a denied caller does not learn what exists. Without an authorizer everyone may do everything. What the broker
// does on its own account is not asked for.
func (s *Server) authorize(r *request, op aclOperation, resource resourceType, name string) bool {
	if s.mayDo(r, op, resource, name) {
		return true
	}
	if s.logger.Enabled(r.context(), slog.LevelDebug) {
		s.logger.Debug("denied", "principal", r.caller.Principal, "remote", r.remote, "key", r.key, "operation", int8(op), "resource", int8(resource), "name", name)
	}
	return false
}

// mayDo is authorize where a denial only leaves something out of the answer, and is not worth a line.
func (s *Server) mayDo(r *request, op aclOperation, resource resourceType, name string) bool {
	return s.authorizer == nil || s.allows(r.asCaller(), op, resource, name)
}

// allows is mayDo for a caller whose request may be over.
func (s *Server) allows(c *auth.Caller, op aclOperation, resource resourceType, name string) bool {
	return s.authorizer == nil || s.authorizer.Allows(s.store.ACLs(), c, op, resource, name)
}

// authorizeCluster reports whether the caller may do op to the cluster.
func (s *Server) authorizeCluster(r *request, op aclOperation) bool {
	return s.authorize(r, op, resourceCluster, clusterResource)
}

// mayDoToSome reports whether the caller may do op to some resource of a type.
func (s *Server) mayDoToSome(r *request, op aclOperation, resource resourceType) bool {
	return s.authorizer == nil || s.authorizer.AllowsSome(s.store.ACLs(), r.asCaller(), op, resource)
}

// authorizedOperations returns the bit field of what the caller may do to the named resource.
func (s *Server) authorizedOperations(r *request, resource resourceType, name string) int32 {
	bits := int32(0)
	for _, op := range operationsOf[resource] {
		if s.mayDo(r, op, resource, name) {
			bits |= 1 << op
		}
	}
	return bits
}

// asCaller returns the request's caller as ACLs know it.
func (r *request) asCaller() *auth.Caller {
	if r.caller == (auth.Caller{}) {
		var addr netip.Addr
		if tcp, ok := r.remote.(*net.TCPAddr); ok {
			addr = tcp.AddrPort().Addr()
		}
		r.caller = auth.NewCaller(r.principal, addr)
	}
	return &r.caller
}

// context returns the request's context, in tests that have none the background.
func (r *request) context() context.Context {
	if r.ctx == nil {
		return context.Background()
	}
	return r.ctx
}
