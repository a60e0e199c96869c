package auth

import (
	"net/netip"
	"slices"
	"sort"
	"strings"
)

// ACLs is an immutable set of ACLs with the indexes to match them quickly: whoever changes it makes a new one, and those
// who read the old one are not disturbed. The zero value is the empty set.
//
// An ACL allows or denies one principal, from one host, one operation on a pattern of resource names. A denial beats
// every permission, whatever their patterns. Kafka: StandardAuthorizerData.
//
// All bindings lie in one sorted slice. A group is the run of those with the same pattern and name, in the order of
// their principals. A resource is meant by at most one literal group of its name, the literal group "*", and by the
// prefixed groups whose names its own begins with. Each of those begins with the shorter ones, so they form a chain:
// the longest is found by a search, and every group knows the next shorter one.
type ACLs struct {
	rules    []rule // sorted by Binding.Compare
	sections [User + 1]section
}

// rule is a binding and what its host means when it is a network.
type rule struct {
	Binding
	network netip.Prefix
}

// section is the groups of one type of resource, each list sorted by name.
type section struct {
	literal, prefixed []group
	wildcard          *group // of literal; nil when there is none
}

// group is the rules of one pattern, sorted by principal.
type group struct {
	name  string
	rules []rule
	// shorter is the place among the prefixed groups of the longest other one that the name begins with, -1 for none.
	shorter int32
}

// NewACLs returns the set of bindings, which have to be valid. It does not keep the slice.
func NewACLs(bindings []Binding) *ACLs { return new(ACLs).With(bindings, nil) }

// With returns a set that has the added bindings too and lacks the removed ones. The bindings have to be valid; those
// added that are there already, and those removed that are not, change nothing. A binding in both is removed.
func (a *ACLs) With(added, removed []Binding) *ACLs {
	news := make([]rule, len(added))
	for i := range added {
		news[i].Binding = added[i]
		news[i].network, _ = parseNetwork(added[i].Host)
	}
	slices.SortFunc(news, compareRules)
	gone := make(map[Binding]bool, len(removed))
	for _, b := range removed {
		gone[b] = true
	}
	merged := make([]rule, 0, len(a.rules)+len(news))
	keep := func(r *rule) {
		if n := len(merged); (n == 0 || merged[n-1].Binding != r.Binding) && (len(gone) == 0 || !gone[r.Binding]) {
			merged = append(merged, *r)
		}
	}
	i, j := 0, 0
	for i < len(a.rules) || j < len(news) {
		if j == len(news) || i < len(a.rules) && a.rules[i].Compare(&news[j].Binding) <= 0 {
			keep(&a.rules[i])
			i++
		} else {
			keep(&news[j])
			j++
		}
	}
	out := &ACLs{rules: merged}
	out.index()
	return out
}

func compareRules(a, b rule) int { return a.Compare(&b.Binding) }

// index makes the sections of the rules.
func (a *ACLs) index() {
	for from := 0; from < len(a.rules); {
		first := &a.rules[from]
		to := from + 1
		for to < len(a.rules) && a.rules[to].Name == first.Name && a.rules[to].Pattern == first.Pattern && a.rules[to].Resource == first.Resource {
			to++
		}
		g := group{name: first.Name, rules: a.rules[from:to:to], shorter: -1}
		s := &a.sections[first.Resource]
		if first.Pattern == Literal {
			s.literal = append(s.literal, g)
		} else {
			// The chain of the group before is the only one that this name can lengthen.
			for i := int32(len(s.prefixed)) - 1; i >= 0; i = s.prefixed[i].shorter {
				if strings.HasPrefix(g.name, s.prefixed[i].name) {
					g.shorter = i
					break
				}
			}
			s.prefixed = append(s.prefixed, g)
		}
		from = to
	}
	for i := range a.sections {
		s := &a.sections[i]
		s.wildcard = find(s.literal, Wildcard)
	}
}

// find returns the group of that very name, nil when there is none.
func find(groups []group, name string) *group {
	i := sort.Search(len(groups), func(i int) bool { return groups[i].name >= name })
	if i < len(groups) && groups[i].name == name {
		return &groups[i]
	}
	return nil
}

// Len returns the number of bindings.
func (a *ACLs) Len() int { return len(a.rules) }

// Has reports whether a binding is in the set.
func (a *ACLs) Has(b Binding) bool {
	_, ok := slices.BinarySearchFunc(a.rules, rule{Binding: b}, compareRules)
	return ok
}

// Choose returns the bindings that a filter chooses, in an order that depends on nothing else.
func (a *ACLs) Choose(f *Filter) []Binding {
	var out []Binding
	for i := range a.rules {
		if f.Chooses(&a.rules[i].Binding) {
			out = append(out, a.rules[i].Binding)
		}
	}
	return out
}

// verdict is what ACLs say of a question.
type verdict int8

const (
	silent  verdict = iota // no ACL means the resource
	nothing                // some mean it, none of them holds for the caller and the operation
	allowed
	denied
)

// judge returns what the ACLs say of the caller doing op to a resource.
func (a *ACLs) judge(c *Caller, op Operation, resource ResourceType, name string) verdict {
	s := &a.sections[resource]
	v := silent
	if g := find(s.literal, name); g != nil {
		v = max(v, g.judge(c, op, implied))
	}
	if s.wildcard != nil && v != denied && name != Wildcard {
		v = max(v, s.wildcard.judge(c, op, implied))
	}
	for i := s.longest(name); i >= 0 && v != denied; i = s.prefixed[i].shorter {
		v = max(v, s.prefixed[i].judge(c, op, implied))
	}
	return v
}

// longest returns the place of the longest prefixed group that a name begins with, -1 for none.
func (s *section) longest(name string) int32 {
	// The last group that is not above the name either is the one, or begins with it.
	i := int32(sort.Search(len(s.prefixed), func(i int) bool { return s.prefixed[i].name > name })) - 1
	for i >= 0 && !strings.HasPrefix(name, s.prefixed[i].name) {
		i = s.prefixed[i].shorter
	}
	return i
}

// reach says whether a permission for one operation is one for those that it implies.
type reach bool

const (
	outright reach = false
	implied  reach = true
)

// judge returns what the rules of one group say: never silent.
func (g *group) judge(c *Caller, op Operation, how reach) verdict {
	v := judge(of(g.rules, c.Principal), c, op, how)
	if v != denied && c.Principal != Everyone {
		v = max(v, judge(of(g.rules, Everyone), c, op, how))
	}
	return v
}

// of returns the rules of one principal.
func of(rules []rule, principal string) []rule {
	i := sort.Search(len(rules), func(i int) bool { return rules[i].Principal >= principal })
	n := i
	for n < len(rules) && rules[n].Principal == principal {
		n++
	}
	return rules[i:n]
}

func judge(rules []rule, c *Caller, op Operation, how reach) verdict {
	v := nothing
	for i := range rules {
		r := &rules[i]
		if !r.covers(op, how) || !r.holdsAt(c) {
			continue
		}
		if r.Permission == Deny {
			return denied
		}
		v = allowed
	}
	return v
}

// holdsAt reports whether the rule holds for callers from where c is.
func (r *rule) holdsAt(c *Caller) bool {
	return r.Host == Wildcard || r.Host == c.host || r.network.IsValid() && c.inNetwork(r.network)
}

// covers reports whether the rule speaks of op. Who is allowed to do something to a resource may also see it; a denial
// reaches no further than it says.
func (r *rule) covers(op Operation, how reach) bool {
	if r.Operation == op || r.Operation == AllOperations {
		return true
	}
	if how == outright || r.Permission != Allow {
		return false
	}
	switch op {
	case Describe:
		return r.Operation == Read || r.Operation == Write || r.Operation == Delete || r.Operation == Alter
	case DescribeConfigs:
		return r.Operation == AlterConfigs
	}
	return false
}
