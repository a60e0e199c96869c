package auth

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// allow and deny make bindings: "topic:foo" is literal, "topic:foo+" is prefixed.
func allow(principal, host string, op Operation, pattern string) Binding {
	kind, name, _ := strings.Cut(pattern, ":")
	b := Binding{
		Resource: map[string]ResourceType{"topic": Topic, "group": Group, "cluster": Cluster, "txn": TransactionalID}[kind],
		Name:     name, Pattern: Literal, Principal: principal, Host: host, Operation: op, Permission: Allow,
	}
	if prefix, ok := strings.CutSuffix(name, "+"); ok {
		b.Name, b.Pattern = prefix, Prefixed
	}
	return b
}

func deny(principal, host string, op Operation, pattern string) Binding {
	b := allow(principal, host, op, pattern)
	b.Permission = Deny
	return b
}

func caller(principal, addr string) Caller { return NewCaller(principal, netip.MustParseAddr(addr)) }

// TestPrecedence goes through the rules of precedence: who, where, what, and which ACL wins.
func TestPrecedence(t *testing.T) {
	const alice, bob, here = "User:alice", "User:bob", "10.1.2.3"
	for _, c := range []struct {
		does  string
		acls  []Binding
		who   string // alice when empty
		op    Operation
		on    string
		want  bool
		super string
		open  bool // allow.everyone.if.no.acl.found
	}{
		{does: "no ACL at all", op: Read, on: "topic:foo", want: false},
		{does: "no ACL at all, and open", op: Read, on: "topic:foo", want: true, open: true},
		{does: "an ACL of another topic leaves it open", acls: []Binding{allow(bob, "*", Read, "topic:bar")}, op: Read, on: "topic:foo", want: true, open: true},
		{does: "an ACL of somebody else closes it", acls: []Binding{allow(bob, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false, open: true},
		{does: "an ACL of another operation closes it", acls: []Binding{allow(alice, "*", Write, "topic:foo")}, op: Read, on: "topic:foo", want: false, open: true},
		{does: "a prefixed ACL of somebody else closes it", acls: []Binding{allow(bob, "*", Read, "topic:fo+")}, op: Read, on: "topic:foo", want: false, open: true},
		{does: "a wildcard of somebody else closes it", acls: []Binding{allow(bob, "*", Read, "topic:*")}, op: Read, on: "topic:foo", want: false, open: true},
		{does: "an ACL of a group of that name leaves it open", acls: []Binding{allow(bob, "*", Read, "group:foo")}, op: Read, on: "topic:foo", want: true, open: true},
		{does: "literal", acls: []Binding{allow(alice, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: true},
		{does: "literal is not a prefix", acls: []Binding{allow(alice, "*", Read, "topic:foo")}, op: Read, on: "topic:foobar", want: false},
		{does: "prefixed", acls: []Binding{allow(alice, "*", Read, "topic:foo+")}, op: Read, on: "topic:foobar", want: true},
		{does: "prefixed means its own name too", acls: []Binding{allow(alice, "*", Read, "topic:foo+")}, op: Read, on: "topic:foo", want: true},
		{does: "prefixed does not mean a part of itself", acls: []Binding{allow(alice, "*", Read, "topic:foo+")}, op: Read, on: "topic:fo", want: false},
		{does: "a longer prefix in between that is none", acls: []Binding{allow(alice, "*", Read, "topic:foo+"), allow(bob, "*", Read, "topic:fooa+")}, op: Read, on: "topic:foob", want: true},
		{does: "wildcard", acls: []Binding{allow(alice, "*", Read, "topic:*")}, op: Read, on: "topic:foo", want: true},
		{does: "a prefixed star is no wildcard", acls: []Binding{allow(alice, "*", Read, "topic:*+")}, op: Read, on: "topic:foo", want: false},
		{does: "an empty name is meant by the wildcard only", acls: []Binding{allow(alice, "*", Read, "group:*")}, op: Read, on: "group:", want: true},
		{does: "everyone", acls: []Binding{allow(Everyone, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: true},
		{does: "another principal", acls: []Binding{allow(bob, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "principals have case", acls: []Binding{allow("user:alice", "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "from here", acls: []Binding{allow(alice, here, Read, "topic:foo")}, op: Read, on: "topic:foo", want: true},
		{does: "from elsewhere", acls: []Binding{allow(alice, "10.1.2.4", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "from this network", acls: []Binding{allow(alice, "10.0.0.0/8", Read, "topic:foo")}, op: Read, on: "topic:foo", want: true},
		{does: "from another network", acls: []Binding{allow(alice, "11.0.0.0/8", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "a host name is no address", acls: []Binding{allow(alice, "localhost", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "all operations", acls: []Binding{allow(alice, "*", AllOperations, "topic:foo")}, op: AlterConfigs, on: "topic:foo", want: true},

		{does: "read shows it", acls: []Binding{allow(alice, "*", Read, "topic:foo")}, op: Describe, on: "topic:foo", want: true},
		{does: "write shows it", acls: []Binding{allow(alice, "*", Write, "topic:foo")}, op: Describe, on: "topic:foo", want: true},
		{does: "delete shows it", acls: []Binding{allow(alice, "*", Delete, "topic:foo")}, op: Describe, on: "topic:foo", want: true},
		{does: "alter shows it", acls: []Binding{allow(alice, "*", Alter, "topic:foo")}, op: Describe, on: "topic:foo", want: true},
		{does: "create does not show it", acls: []Binding{allow(alice, "*", Create, "topic:foo")}, op: Describe, on: "topic:foo", want: false},
		{does: "configs do not show it", acls: []Binding{allow(alice, "*", AlterConfigs, "topic:foo")}, op: Describe, on: "topic:foo", want: false},
		{does: "altering configs shows them", acls: []Binding{allow(alice, "*", AlterConfigs, "topic:foo")}, op: DescribeConfigs, on: "topic:foo", want: true},
		{does: "alter does not show configs", acls: []Binding{allow(alice, "*", Alter, "topic:foo")}, op: DescribeConfigs, on: "topic:foo", want: false},
		{does: "seeing is not reading", acls: []Binding{allow(alice, "*", Describe, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "a denial of reading does not hide it", acls: []Binding{deny(alice, "*", Read, "topic:foo"), allow(alice, "*", Describe, "topic:foo")}, op: Describe, on: "topic:foo", want: true},
		{does: "a denial alone allows nothing", acls: []Binding{deny(alice, "*", Read, "topic:foo")}, op: Describe, on: "topic:foo", want: false, open: true},

		{does: "deny beats allow", acls: []Binding{allow(alice, "*", Read, "topic:foo"), deny(alice, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "deny for everyone beats allow for one", acls: []Binding{allow(alice, "*", Read, "topic:foo"), deny(Everyone, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "deny of all operations beats allow of one", acls: []Binding{allow(alice, "*", Read, "topic:foo"), deny(alice, "*", AllOperations, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "prefixed deny beats literal allow", acls: []Binding{allow(alice, "*", Read, "topic:foo"), deny(alice, "*", Read, "topic:f+")}, op: Read, on: "topic:foo", want: false},
		{does: "wildcard deny beats literal allow", acls: []Binding{allow(alice, "*", Read, "topic:foo"), deny(alice, "*", Read, "topic:*")}, op: Read, on: "topic:foo", want: false},
		{does: "literal deny beats wildcard allow", acls: []Binding{allow(alice, "*", Read, "topic:*"), deny(alice, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "literal deny leaves the others", acls: []Binding{allow(alice, "*", Read, "topic:*"), deny(alice, "*", Read, "topic:foo")}, op: Read, on: "topic:bar", want: true},
		{does: "a shorter prefix denies", acls: []Binding{allow(alice, "*", Read, "topic:foo+"), deny(alice, "*", Read, "topic:f+")}, op: Read, on: "topic:foobar", want: false},
		{does: "deny from elsewhere", acls: []Binding{allow(alice, "*", Read, "topic:foo"), deny(alice, "10.9.9.9", Read, "topic:foo")}, op: Read, on: "topic:foo", want: true},
		{does: "deny from this network", acls: []Binding{allow(alice, "*", Read, "topic:foo"), deny(alice, "10.1.0.0/16", Read, "topic:foo")}, op: Read, on: "topic:foo", want: false},
		{does: "super users may do what is denied", acls: []Binding{deny(alice, "*", Read, "topic:foo")}, op: Read, on: "topic:foo", want: true, super: "User:bob; User:alice"},
		{does: "others are no super users", op: Read, on: "topic:foo", want: false, super: "User:bob"},
		{does: "User:* is no super user", op: Read, on: "topic:foo", want: false, super: "User:*"},
	} {
		a, err := NewAuthorizer(c.super, c.open)
		if err != nil {
			t.Fatal(err)
		}
		who := caller(alice, here)
		on := allow("", "", 0, c.on)
		if got := a.Allows(NewACLs(c.acls), &who, c.op, on.Resource, on.Name); got != c.want {
			t.Errorf("%s: %t, want %t; ACLs %v", c.does, got, c.want, c.acls)
		}
	}
}

func TestSuperUsersAreChecked(t *testing.T) {
	if _, err := NewAuthorizer("User:alice;bob", false); err == nil || !strings.Contains(err.Error(), `"bob"`) {
		t.Errorf("a super user without a type: %v", err)
	}
	for _, text := range []string{"", " ; ", "User:CN=a,O=b;User:c:d "} {
		if _, err := NewAuthorizer(text, false); err != nil {
			t.Errorf("super.users %q: %v", text, err)
		}
	}
}

// TestAllowsSome goes through Kafka's own cases for idempotent producers.
func TestAllowsSome(t *testing.T) {
	const alice = "User:alice"
	for _, c := range []struct {
		does string
		acls []Binding
		want bool
		open bool
	}{
		{does: "none", want: false},
		{does: "none, and open", want: true, open: true},
		{does: "one topic", acls: []Binding{allow(alice, "*", Write, "topic:foo")}, want: true},
		{does: "one topic, of all", acls: []Binding{allow(alice, "*", AllOperations, "topic:foo")}, want: true},
		{does: "another operation", acls: []Binding{allow(alice, "*", Read, "topic:foo")}, want: false},
		{does: "from elsewhere", acls: []Binding{allow(alice, "1.1.1.1", Write, "topic:foo")}, want: false},
		{does: "somebody else", acls: []Binding{allow("User:bob", "*", Write, "topic:foo")}, want: false},
		{does: "another type", acls: []Binding{allow(alice, "*", Write, "txn:foo")}, want: false},
		{does: "literal denied", acls: []Binding{allow(alice, "*", Write, "topic:foo"), deny(alice, "*", Write, "topic:foo")}, want: false},
		{does: "literal denied to everyone", acls: []Binding{allow(alice, "*", Write, "topic:foo"), deny(Everyone, "*", Write, "topic:foo")}, want: false},
		{does: "literal denied by its prefix", acls: []Binding{allow(alice, "*", Write, "topic:foo"), deny(alice, "*", Write, "topic:fo+")}, want: false},
		{does: "literal denied from elsewhere", acls: []Binding{allow(alice, "*", Write, "topic:foo"), deny(alice, "1.1.1.1", Write, "topic:fo+")}, want: true},
		{does: "prefix denied at one name", acls: []Binding{allow(alice, "*", Write, "topic:foo+"), deny(alice, "*", Write, "topic:foo")}, want: true},
		{does: "prefix denied by a longer one", acls: []Binding{allow(alice, "*", Write, "topic:foo+"), deny(alice, "*", Write, "topic:foobar+")}, want: true},
		{does: "prefix denied by itself", acls: []Binding{allow(alice, "*", Write, "topic:foo+"), deny(alice, "*", Write, "topic:foo+")}, want: false},
		{does: "prefix denied by a shorter one", acls: []Binding{allow(alice, "*", Write, "topic:foo+"), deny(alice, "*", Write, "topic:f+")}, want: false},
		{does: "all denied", acls: []Binding{allow(alice, "*", Write, "topic:foo+"), allow(alice, "*", Write, "topic:bar"), deny(alice, "*", Write, "topic:*")}, want: false},
		{does: "all allowed, one prefix denied", acls: []Binding{allow(alice, "*", Write, "topic:*"), deny(alice, "*", Write, "topic:hard+")}, want: true},
		{does: "two, one of them denied", acls: []Binding{allow(alice, "*", Write, "topic:foo"), allow(alice, "*", Write, "topic:bar"), deny(alice, "*", Write, "topic:b+")}, want: true},
	} {
		a, _ := NewAuthorizer("", c.open)
		who := caller(alice, "10.1.2.3")
		if got := a.AllowsSome(NewACLs(c.acls), &who, Write, Topic); got != c.want {
			t.Errorf("%s: %t, want %t", c.does, got, c.want)
		}
	}
	super, _ := NewAuthorizer("User:alice", false)
	who := caller(alice, "10.1.2.3")
	if !super.AllowsSome(NewACLs([]Binding{deny(alice, "*", Write, "topic:*")}), &who, Write, Topic) {
		t.Error("a super user may not write to any topic")
	}
}

// naive is the matcher as the rules read, over all bindings.
func naive(bindings []Binding, c *Caller, op Operation, resource ResourceType, name string) verdict {
	v := silent
	for _, b := range bindings {
		if b.Resource != resource || !b.means(name) {
			continue
		}
		v = max(v, nothing)
		if b.Principal != c.Principal && b.Principal != "User:*" {
			continue
		}
		if network, err := netip.ParsePrefix(b.Host); b.Host != "*" && b.Host != c.host && (err != nil || !network.Contains(c.addr)) {
			continue
		}
		covers := b.Operation == op || b.Operation == AllOperations
		if b.Permission == Allow && op == Describe {
			covers = covers || slices.Contains([]Operation{Read, Write, Delete, Alter}, b.Operation)
		}
		if b.Permission == Allow && op == DescribeConfigs {
			covers = covers || b.Operation == AlterConfigs
		}
		switch {
		case covers && b.Permission == Deny:
			v = max(v, denied)
		case covers:
			v = max(v, allowed)
		}
	}
	return v
}

// naiveSome is Kafka's default Authorizer.authorizeByResourceType as it reads, without its question for "hardcode".
func naiveSome(bindings []Binding, c *Caller, op Operation, resource ResourceType) bool {
	denies, allows := map[PatternType]map[string]bool{Literal: {}, Prefixed: {}}, map[PatternType]map[string]bool{Literal: {}, Prefixed: {}}
	for _, b := range bindings {
		r := rule{Binding: b}
		r.network, _ = parseNetwork(b.Host)
		if b.Resource != resource || !r.holdsAt(c) || b.Principal != c.Principal && b.Principal != "User:*" || b.Operation != op && b.Operation != AllOperations {
			continue
		}
		if b.Permission == Deny {
			denies[b.Pattern][b.Name] = true
		} else {
			allows[b.Pattern][b.Name] = true
		}
	}
	if denies[Literal]["*"] {
		return false
	}
	if allows[Literal]["*"] {
		return true
	}
	for pattern, names := range allows {
		for name := range names {
			dominated := pattern == Literal && denies[Literal][name]
			for i := 1; i <= len(name); i++ {
				dominated = dominated || denies[Prefixed][name[:i]]
			}
			if !dominated {
				return true
			}
		}
	}
	return false
}

// aclsOf makes a set in several steps and returns what it has to hold.
func aclsOf(r *rand.Rand) (*ACLs, []Binding) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	random := func() Binding {
		b := Binding{
			Resource: Topic + ResourceType(r.IntN(2)), Pattern: Literal + PatternType(r.IntN(2)),
			Name:      pick("*", "a", "aa", "ab", "aba", "abb", "b", "ba", "abab", "c", "!"),
			Principal: pick("User:x", "User:y", "User:*"), Host: pick("*", "*", "1.2.3.4", "9.9.9.9", "1.0.0.0/8", "0:0:0:0:0:0:0:1"),
			Operation: pick2(r, AllOperations, Read, Write, Create, Delete, Alter, Describe, DescribeConfigs, AlterConfigs), Permission: Deny,
		}
		if r.IntN(4) > 0 {
			b.Permission = Allow
		}
		return b
	}
	want := map[Binding]bool{}
	acls := new(ACLs)
	for range 1 + r.IntN(4) {
		var added, removed []Binding
		for range r.IntN(12) {
			added = append(added, random())
		}
		for b := range want {
			if r.IntN(4) == 0 {
				removed = append(removed, b)
			}
		}
		acls = acls.With(added, removed)
		for _, b := range added {
			want[b] = true
		}
		for _, b := range removed {
			delete(want, b)
		}
	}
	var bindings []Binding
	for b := range want {
		bindings = append(bindings, b)
	}
	return acls, bindings
}

func pick2[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// checkAgainstNaive holds one seed's set against the naive matcher.
func checkAgainstNaive(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	acls, bindings := aclsOf(r)
	if acls.Len() != len(bindings) {
		t.Fatalf("seed %d: %d bindings, want %d", seed, acls.Len(), len(bindings))
	}
	for _, b := range bindings {
		if !acls.Has(b) {
			t.Fatalf("seed %d: %+v is missing", seed, b)
		}
	}
	for range 40 {
		c := caller(pick2(r, "User:x", "User:y", "User:z", "User:*"), pick2(r, "1.2.3.4", "1.9.9.9", "9.9.9.9", "::1"))
		op, resource := pick2(r, Read, Write, Create, Describe, DescribeConfigs, ClusterAction), pick2(r, Topic, Group, Cluster)
		name := pick2(r, "a", "aa", "ab", "aba", "abab", "abac", "b", "bab", "c", "", "*", "!", "!x", "z")
		if got, want := acls.judge(&c, op, resource, name), naive(bindings, &c, op, resource, name); got != want {
			t.Fatalf("seed %d: %+v doing %d to %d %q: %d, want %d; %+v", seed, c, op, resource, name, got, want, bindings)
		}
		closed, _ := NewAuthorizer("", false)
		want := naive(bindings, &c, op, resource, "hardcode") == allowed || naiveSome(bindings, &c, op, resource)
		if got := closed.AllowsSome(acls, &c, op, resource); got != want {
			t.Fatalf("seed %d: %+v doing %d to some %d: %t, want %t; %+v", seed, c, op, resource, got, want, bindings)
		}
	}
}

func TestMatcherIsAsTheNaiveOne(t *testing.T) {
	for seed := range uint64(3000) {
		checkAgainstNaive(t, seed)
	}
}

func FuzzMatcherIsAsTheNaiveOne(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(func(t *testing.T, seed uint64) { checkAgainstNaive(t, seed) })
}

func TestFilterChooses(t *testing.T) {
	text := func(s string) *string { return &s }
	acls := NewACLs([]Binding{
		allow("User:a", "*", Read, "topic:foo"), allow("User:a", "*", Read, "topic:f+"), allow("User:a", "*", Read, "topic:*"),
		deny("User:b", "1.1.1.1", Write, "topic:foo"), allow("User:a", "*", Read, "group:foo"),
	})
	all := Filter{Resource: AnyResource, Pattern: AnyPattern, Operation: AnyOperation, Permission: AnyPermission}
	for _, c := range []struct {
		does   string
		change func(f *Filter)
		want   int
	}{
		{"all", func(*Filter) {}, 5},
		{"topics", func(f *Filter) { f.Resource = Topic }, 4},
		{"of a name", func(f *Filter) { f.Name = text("foo") }, 3},
		{"literal ones of a name", func(f *Filter) { f.Name, f.Pattern = text("foo"), Literal }, 3},
		{"all that mean foo", func(f *Filter) { f.Name, f.Pattern = text("foo"), MatchPattern }, 5},
		{"all that mean fx", func(f *Filter) { f.Name, f.Pattern = text("fx"), MatchPattern }, 2},
		{"matching without a name", func(f *Filter) { f.Pattern = MatchPattern }, 5},
		{"prefixed ones", func(f *Filter) { f.Pattern = Prefixed }, 1},
		{"prefixed ones of a longer name", func(f *Filter) { f.Name, f.Pattern = text("foo"), Prefixed }, 0},
		{"the wildcard", func(f *Filter) { f.Name = text("*") }, 1},
		{"of a principal", func(f *Filter) { f.Principal = text("User:b") }, 1},
		{"of the host *", func(f *Filter) { f.Host = text("*") }, 4},
		{"of an operation", func(f *Filter) { f.Operation = Write }, 1},
		{"of all operations is no wildcard", func(f *Filter) { f.Operation = AllOperations }, 0},
		{"denials", func(f *Filter) { f.Permission = Deny }, 1},
		{"of an unknown pattern", func(f *Filter) { f.Pattern = UnknownPattern }, 0},
		{"of an unknown operation", func(f *Filter) { f.Operation = 99 }, 0},
	} {
		f := all
		c.change(&f)
		if got := acls.Choose(&f); len(got) != c.want {
			t.Errorf("%s: %v, want %d", c.does, got, c.want)
		}
	}
	if f := (Filter{Resource: Topic, Pattern: UnknownPattern, Operation: Read, Permission: Allow}); f.Known() {
		t.Error("a filter of an unknown pattern is known")
	}
	if !all.Known() {
		t.Error("a filter of all is not known")
	}
}

// TestNetworks holds the networks against Kafka's CidrUtils of 4.4.0, which made the table: a pattern, whether it is
// one, and which of the addresses lie in it.
func TestNetworks(t *testing.T) {
	addresses := []string{"10.0.0.0", "10.1.2.3", "10.255.255.255", "11.0.0.0", "0.0.0.0", "127.0.0.1", "2001:db8::1", "::1", "fe80::1%eth0", "::", "::ffff:10.0.0.1"}
	for _, c := range []struct {
		pattern string
		valid   bool
		in      string
	}{
		{"10.0.0.0/8", true, "11100000001"},
		{"10.1.2.3/8", true, "11100000001"},
		{"010.0.0.0/8", true, "11100000001"},
		{"10.0.0.0/33", false, ""},
		{"10.0.0.0/32", true, "10000000000"},
		{"10.0.0.0/31", true, "10000000001"},
		{"0.0.0.0/0", true, "11110100001"},
		{"10.0.0.0/", false, ""},
		{"/8", false, ""},
		{"10.0.0/8", false, ""},
		{"10.0.0.0/08", true, "11100000001"},
		{"10.0.0.256/8", false, ""},
		{" 10.0.0.0/8", false, ""},
		{"10.0.0.0/8 ", false, ""},
		{"10.0.0.0/-1", false, ""},
		{"2001:db8::/32", true, "00000010000"},
		{"2001:db8::1/32", true, "00000010000"},
		{"::/0", true, "00000011110"},
		{"::1/128", true, "00000001000"},
		{"::1/129", false, ""},
		{"2001:db8::/032", true, "00000010000"},
		{"::ffff:10.0.0.0/104", false, ""},
		{"fe80::%lo/10", false, ""},
		{"fe80::/10", true, "00000000100"},
		{"[::1]/128", true, "00000001000"},
		{"2001:db8::/", false, ""},
		{"2001:db8::g/32", false, ""},
		{"x:y/3", false, ""},
		{"10.0.0.0/8/8", false, ""},
		{"::/0/0", false, ""},
		{"localhost/8", false, ""},
		{"10.0.0.0/+8", false, ""},
		{"::/+8", true, "00000001010"},
		{"::/ 8", false, ""},
	} {
		if got := ValidHost(c.pattern); got != c.valid {
			t.Errorf("%q is valid: %t, want %t", c.pattern, got, c.valid)
			continue
		}
		if !c.valid {
			continue
		}
		for i, address := range addresses {
			r := rule{Binding: Binding{Host: c.pattern}}
			r.network, _ = parseNetwork(c.pattern)
			who := caller("User:a", address)
			if got := r.holdsAt(&who); got != (c.in[i] == '1') {
				t.Errorf("%s in %q: %t, want %c", address, c.pattern, got, c.in[i])
			}
		}
	}
	for _, host := range []string{"*", "1.2.3.4", "::1", "not an address"} {
		if !ValidHost(host) {
			t.Errorf("host %q is refused", host)
		}
	}
	if ValidHost("") {
		t.Error("an empty host is accepted")
	}
}

// TestHostsAreSpelledAsJavaDoes: an ACL for an IPv6 address has to be written as Kafka sees the peer.
func TestHostsAreSpelledAsJavaDoes(t *testing.T) {
	for address, want := range map[string]string{
		"10.1.2.3": "10.1.2.3", "::ffff:10.1.2.3": "10.1.2.3", "::1": "0:0:0:0:0:0:0:1",
		"2001:db8::ab:0": "2001:db8:0:0:0:0:ab:0", "fe80::1%eth0": "fe80:0:0:0:0:0:0:1%eth0",
	} {
		if got := caller("User:a", address).host; got != want {
			t.Errorf("%s is %s, want %s", address, got, want)
		}
	}
	if got := NewCaller("User:a", netip.Addr{}); got.host != "" {
		t.Errorf("no address is %q", got.host)
	}
}

func TestValidBindings(t *testing.T) {
	good := allow("User:a", "*", Read, "topic:foo")
	for does, change := range map[string]func(b *Binding){
		"any resource": func(b *Binding) { b.Resource = AnyResource }, "resource 8": func(b *Binding) { b.Resource = 8 },
		"any pattern": func(b *Binding) { b.Pattern = AnyPattern }, "match": func(b *Binding) { b.Pattern = MatchPattern },
		"any operation": func(b *Binding) { b.Operation = AnyOperation }, "operation 16": func(b *Binding) { b.Operation = 16 },
		"any permission": func(b *Binding) { b.Permission = AnyPermission }, "no name": func(b *Binding) { b.Name = "" },
		"no type": func(b *Binding) { b.Principal = "alice" }, "no host": func(b *Binding) { b.Host = "" },
		"no network": func(b *Binding) { b.Host = "10/8" },
	} {
		b := good
		change(&b)
		if b.Valid() {
			t.Errorf("%s is valid: %+v", does, b)
		}
	}
	if !good.Valid() {
		t.Errorf("%+v is not valid", good)
	}
}

func BenchmarkAllows(b *testing.B) {
	var bindings []Binding
	for i := range 2500 {
		user := fmt.Sprintf("User:u%d", i)
		bindings = append(bindings,
			allow(user, "*", Read, fmt.Sprintf("topic:orders-%d", i)), allow(user, "*", Write, fmt.Sprintf("topic:team-%d-+", i)),
			allow(user, "*", Describe, "topic:*"), allow(user, "*", Read, fmt.Sprintf("group:g-%d-+", i)))
	}
	acls := NewACLs(bindings)
	a, _ := NewAuthorizer("User:admin", false)
	who := caller("User:u1234", "10.1.2.3")
	for _, c := range []struct {
		does, name string
		op         Operation
	}{{"literal", "orders-1234", Read}, {"prefixed", "team-1234-x", Write}, {"denied", "team-999-x", Write}} {
		b.Run(fmt.Sprintf("acls=%d/%s", len(bindings), c.does), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				a.Allows(acls, &who, c.op, Topic, c.name)
			}
		})
	}
	b.Run(fmt.Sprintf("acls=%d/some", len(bindings)), func(b *testing.B) {
		for b.Loop() {
			a.AllowsSome(acls, &who, Write, Topic)
		}
	})
	b.Run(fmt.Sprintf("acls=%d/with", len(bindings)), func(b *testing.B) {
		for b.Loop() {
			acls.With(bindings[:1], nil)
		}
	})
}
