package auth

import (
	"fmt"
	"strings"
)

// Authorizer decides by ACLs and by two settings beside them. It is immutable.
type Authorizer struct {
	superUsers map[string]bool
	// silence is the answer where no ACL means the resource.
	silence bool
}

// NewAuthorizer returns an authorizer. superUsers may do everything: principals with semicolons between. allowIfNone
// is whether everyone may do what no ACL speaks of.
func NewAuthorizer(superUsers string, allowIfNone bool) (*Authorizer, error) {
	a := &Authorizer{superUsers: map[string]bool{}, silence: allowIfNone}
	for _, user := range strings.Split(superUsers, ";") {
		user = strings.TrimSpace(user)
		if user == "" {
			continue
		}
		if !strings.Contains(user, ":") {
			return nil, fmt.Errorf("%q is no principal, want its type and its name with a colon between, as User:alice", user)
		}
		a.superUsers[user] = true
	}
	return a, nil
}

// Allows reports whether the caller may do op to the named resource.
func (a *Authorizer) Allows(acls *ACLs, c *Caller, op Operation, resource ResourceType, name string) bool {
	if len(a.superUsers) > 0 && a.superUsers[c.Principal] {
		return true
	}
	v := acls.judge(c, op, resource, name)
	return v == allowed || v == silent && a.silence
}

// AllowsSome reports whether the caller may do op to some resource of a type, which need not exist: whether there is a
// name, or a beginning of names, that is allowed and that no denial covers as a whole. A permission for another
// operation that implies op is none here. Kafka: Authorizer.authorizeByResourceType.
func (a *Authorizer) AllowsSome(acls *ACLs, c *Caller, op Operation, resource ResourceType) bool {
	// Kafka asks for a name out of the blue, so that super users and the setting for silence count.
	if a.Allows(acls, c, op, resource, "hardcode") {
		return true
	}
	s := &acls.sections[resource]
	if s.wildcard != nil {
		switch s.wildcard.judge(c, op, outright) {
		case denied:
			return false
		case allowed:
			return true
		}
	}
	for i := range s.prefixed {
		if s.prefixed[i].judge(c, op, outright) == allowed && !s.deniedFrom(int32(i), c, op) {
			return true
		}
	}
	for i := range s.literal {
		g := &s.literal[i]
		if g.judge(c, op, outright) == allowed && !s.deniedFrom(s.longest(g.name), c, op) {
			return true
		}
	}
	return false
}

// deniedFrom reports whether a prefixed group, or a shorter one of its chain, denies.
func (s *section) deniedFrom(i int32, c *Caller, op Operation) bool {
	for ; i >= 0; i = s.prefixed[i].shorter {
		if s.prefixed[i].judge(c, op, outright) == denied {
			return true
		}
	}
	return false
}
