package wire

// aclOperation is what a principal may do to a resource. The numbers are Kafka's, on the wire and in authorized
// operations bit fields. Kafka: AclOperation.
type aclOperation int8

const (
	opRead            aclOperation = 3
	opWrite           aclOperation = 4
	opCreate          aclOperation = 5
	opDelete          aclOperation = 6
	opAlter           aclOperation = 7
	opDescribe        aclOperation = 8
	opClusterAction   aclOperation = 9
	opDescribeConfigs aclOperation = 10
	opAlterConfigs    aclOperation = 11
	opIdempotentWrite aclOperation = 12
	opCreateTokens    aclOperation = 13
	opDescribeTokens  aclOperation = 14
	opTwoPhaseCommit  aclOperation = 15
)

// resourceType is what an operation is done to. The numbers are Kafka's. Kafka: ResourceType.
type resourceType int8

const (
	resourceTopic           resourceType = 2
	resourceGroup           resourceType = 3
	resourceCluster         resourceType = 4
	resourceTransactionalID resourceType = 5
	resourceDelegationToken resourceType = 6
	resourceUser            resourceType = 7
)

// clusterResource is the name of the only cluster resource. Kafka: Resource.CLUSTER_NAME.
const clusterResource = "kafka-cluster"

// noOperations is what an authorized operations field holds when it was not asked for.
const noOperations int32 = -2147483648

// operationsOf lists what can be done to each type of resource. Kafka: AclEntry.supportedOperations.
var operationsOf = map[resourceType][]aclOperation{
	resourceTopic:   {opRead, opWrite, opCreate, opDescribe, opDelete, opAlter, opDescribeConfigs, opAlterConfigs},
	resourceGroup:   {opRead, opDescribe, opDelete, opDescribeConfigs, opAlterConfigs},
	resourceCluster: {opCreate, opClusterAction, opDescribeConfigs, opAlterConfigs, opIdempotentWrite, opAlter, opDescribe},
}

// authorize reports whether the caller may do op to the named resource. It is asked before every check of existence,
// so that a denied caller does not learn what exists. There is no authorizer yet: everyone may do everything.
func (s *Server) authorize(r *request, op aclOperation, resource resourceType, name string) bool {
	return true
}

// authorizedOperations returns the bit field of what the caller may do to the named resource.
func (s *Server) authorizedOperations(r *request, resource resourceType, name string) int32 {
	bits := int32(0)
	for _, op := range operationsOf[resource] {
		if s.authorize(r, op, resource, name) {
			bits |= 1 << op
		}
	}
	return bits
}
