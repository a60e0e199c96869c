package auth

import (
	"cmp"
	"strings"
)

// Operation is what a principal may do to a resource. The numbers are Kafka's. Kafka: AclOperation.
type Operation int8

// Operations. AnyOperation stands in filters only; AllOperations is every one of those below it.
const (
	UnknownOperation Operation = iota
	AnyOperation
	AllOperations
	Read
	Write
	Create
	Delete
	Alter
	Describe
	ClusterAction
	DescribeConfigs
	AlterConfigs
	IdempotentWrite
	CreateTokens
	DescribeTokens
	TwoPhaseCommit
)

// ResourceType is what an operation is done to. The numbers are Kafka's. Kafka: ResourceType.
type ResourceType int8

// Types of resources. AnyResource stands in filters only.
const (
	UnknownResource ResourceType = iota
	AnyResource
	Topic
	Group
	Cluster
	TransactionalID
	DelegationToken
	User
)

// PatternType is how a pattern means resources. The numbers are Kafka's. Kafka: PatternType.
type PatternType int8

// Types of patterns. AnyPattern and MatchPattern stand in filters only.
const (
	UnknownPattern PatternType = iota
	AnyPattern
	MatchPattern // every pattern that means a resource of the filter's name
	Literal      // the resource of that name, or every resource for the name "*"
	Prefixed     // every resource whose name begins so
)

// Permission is what an ACL says of an operation. The numbers are Kafka's. Kafka: AclPermissionType.
type Permission int8

// Permissions. AnyPermission stands in filters only.
const (
	UnknownPermission Permission = iota
	AnyPermission
	Deny
	Allow
)

const (
	// Wildcard is the name of the literal pattern that means every resource, and the host that means every host.
	Wildcard = "*"
	// Everyone is the principal of an ACL that holds for all.
	Everyone = "User:*"
	// ClusterName is the name of the only resource of type Cluster.
	ClusterName = "kafka-cluster"
)

// Binding is one ACL. Bindings are equal when all of their fields are: a set holds each once.
type Binding struct {
	Resource   ResourceType
	Name       string // of the resource, or what it begins with
	Pattern    PatternType
	Principal  string // type and name with a colon between, as "User:alice"
	Host       string // "*", the text of an address, or a network as "10.0.0.0/8"
	Operation  Operation
	Permission Permission
}

// Valid reports whether the binding can be in a set: it has a type of resource, a pattern, an operation and a
// permission that filters alone do not have, a name, and a principal with a colon.
func (b *Binding) Valid() bool {
	return Topic <= b.Resource && b.Resource <= User &&
		(b.Pattern == Literal || b.Pattern == Prefixed) &&
		AllOperations <= b.Operation && b.Operation <= TwoPhaseCommit &&
		(b.Permission == Deny || b.Permission == Allow) &&
		b.Name != "" && strings.Contains(b.Principal, ":") && ValidHost(b.Host)
}

// Compare orders bindings by what they mean, then by whom they are for.
func (b *Binding) Compare(other *Binding) int {
	return cmp.Or(
		cmp.Compare(b.Resource, other.Resource),
		cmp.Compare(b.Pattern, other.Pattern),
		cmp.Compare(b.Name, other.Name),
		cmp.Compare(b.Principal, other.Principal),
		cmp.Compare(b.Host, other.Host),
		cmp.Compare(b.Operation, other.Operation),
		cmp.Compare(b.Permission, other.Permission),
	)
}

// Filter chooses bindings. A nil text chooses every one.
type Filter struct {
	Resource   ResourceType
	Name       *string
	Pattern    PatternType
	Principal  *string
	Host       *string
	Operation  Operation
	Permission Permission
}

// Known reports whether all of the filter's kinds are ones that exist. Others choose nothing.
func (f *Filter) Known() bool {
	return AnyResource <= f.Resource && f.Resource <= User &&
		AnyPattern <= f.Pattern && f.Pattern <= Prefixed &&
		AnyOperation <= f.Operation && f.Operation <= TwoPhaseCommit &&
		AnyPermission <= f.Permission && f.Permission <= Allow
}

// Chooses reports whether the filter chooses a binding. Texts are compared as they are: a filter for the host "*"
// chooses the bindings for every host, not those for any one. Kafka: ResourcePatternFilter, AccessControlEntryFilter.
func (f *Filter) Chooses(b *Binding) bool {
	return (f.Resource == AnyResource || f.Resource == b.Resource) && f.choosesPattern(b) &&
		(f.Principal == nil || *f.Principal == b.Principal) &&
		(f.Host == nil || *f.Host == b.Host) &&
		(f.Operation == AnyOperation || f.Operation == b.Operation) &&
		(f.Permission == AnyPermission || f.Permission == b.Permission)
}

func (f *Filter) choosesPattern(b *Binding) bool {
	switch f.Pattern {
	case AnyPattern:
		return f.Name == nil || *f.Name == b.Name
	case MatchPattern:
		return f.Name == nil || b.means(*f.Name)
	}
	return f.Pattern == b.Pattern && (f.Name == nil || *f.Name == b.Name)
}

// means reports whether the binding's pattern means the resource of that name.
func (b *Binding) means(name string) bool {
	if b.Pattern == Prefixed {
		return strings.HasPrefix(name, b.Name)
	}
	return b.Name == name || b.Name == Wildcard
}
