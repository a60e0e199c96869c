package wire

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/storage/vfs"
)

// createACLsOf makes a request for bindings.
func createACLsOf(bindings ...auth.Binding) *kmsg.CreateACLsRequest {
	r := kmsg.NewPtrCreateACLsRequest()
	r.Version = 3
	for _, b := range bindings {
		r.Creations = append(r.Creations, kmsg.CreateACLsRequestCreation{
			ResourceType: kmsg.ACLResourceType(b.Resource), ResourceName: b.Name, ResourcePatternType: kmsg.ACLResourcePatternType(b.Pattern),
			Principal: b.Principal, Host: b.Host, Operation: kmsg.ACLOperation(b.Operation), PermissionType: kmsg.ACLPermissionType(b.Permission),
		})
	}
	return r
}

// everyACL asks for all ACLs.
func everyACL() *kmsg.DescribeACLsRequest {
	r := kmsg.NewPtrDescribeACLsRequest()
	r.Version, r.ResourceType, r.ResourcePatternType, r.Operation, r.PermissionType = 3, 1, 1, 1, 1
	return r
}

// described asks for ACLs and returns them as lines.
func (b *broker) describedACLs(req *kmsg.DescribeACLsRequest) (lines []string) {
	b.t.Helper()
	resp := ask[*kmsg.DescribeACLsResponse](b, req)
	if resp.ErrorCode != 0 {
		b.t.Errorf("described with %d", resp.ErrorCode)
	}
	for _, r := range resp.Resources {
		for _, a := range r.ACLs {
			lines = append(lines, fmt.Sprintf("%s %s %s: %s %s %s from %s", r.ResourceType, r.ResourcePatternType, r.ResourceName, a.PermissionType, a.Principal, a.Operation, a.Host))
		}
	}
	return lines
}

// createCodes creates ACLs and returns the code of each.
func (b *broker) createCodes(bindings ...auth.Binding) (codes []int16) {
	b.t.Helper()
	for _, r := range ask[*kmsg.CreateACLsResponse](b, createACLsOf(bindings...)).Results {
		codes = append(codes, r.ErrorCode)
		if r.ErrorMessage == nil || (*r.ErrorMessage == "") != (r.ErrorCode == 0) {
			b.t.Errorf("code %d has the message %v", r.ErrorCode, r.ErrorMessage)
		}
	}
	return codes
}

// administered starts a broker with an authorizer, whose requests are the super user's.
func administered(t *testing.T) *broker {
	b := guarded(t)
	b.r.principal = "User:admin"
	return b
}

func TestACLsAreCreatedDescribedAndDeleted(t *testing.T) {
	b := administered(t)
	x := bindingOf("User:x", opRead, resourceTopic, "orders")
	prefixed, denial := x, x
	prefixed.Name, prefixed.Pattern = "ord", auth.Prefixed
	denial.Permission, denial.Host, denial.Operation = auth.Deny, "10.0.0.0/8", auth.AllOperations
	if got := b.createCodes(x, x, prefixed, denial); !slices.Equal(got, []int16{0, 0, 0, 0}) {
		t.Fatalf("created with %v", got)
	}
	if got := b.createCodes(x); !slices.Equal(got, []int16{0}) {
		t.Errorf("created again with %v, want 0", got)
	}
	want := []string{
		"TOPIC LITERAL orders: ALLOW User:x READ from *",
		"TOPIC LITERAL orders: DENY User:x ALL from 10.0.0.0/8",
		"TOPIC PREFIXED ord: ALLOW User:x READ from *",
	}
	if got := b.describedACLs(everyACL()); !slices.Equal(got, want) {
		t.Errorf("described as %q, want %q", got, want)
	}
	match := everyACL()
	match.ResourceName, match.ResourcePatternType, match.PermissionType = kmsg.StringPtr("orders-eu"), kmsg.ACLResourcePatternType(auth.MatchPattern), kmsg.ACLPermissionType(auth.Allow)
	if got := b.describedACLs(match); !slices.Equal(got, want[2:]) {
		t.Errorf("what means orders-eu: %q, want %q", got, want[2:])
	}
	del := kmsg.NewPtrDeleteACLsRequest()
	del.Version = 3
	del.Filters = []kmsg.DeleteACLsRequestFilter{
		{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: kmsg.ACLPermissionType(auth.Deny)},
		{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1, Host: kmsg.StringPtr("10.0.0.0/8")},
		{ResourceType: 8, ResourcePatternType: 1, Operation: 1, PermissionType: 1},
		{ResourceType: kmsg.ACLResourceType(auth.User), ResourcePatternType: 1, Operation: 1, PermissionType: 1},
	}
	resp := ask[*kmsg.DeleteACLsResponse](b, del)
	for i, want := range []struct{ code, gone int }{{0, 1}, {0, 1}, {42, 0}, {0, 0}} {
		r := resp.Results[i]
		if int(r.ErrorCode) != want.code || len(r.MatchingACLs) != want.gone || (r.ErrorMessage == nil) != (want.code == 0) {
			t.Errorf("filter %d: %+v, want code %d and %d ACLs", i, r, want.code, want.gone)
		}
	}
	if got := b.describedACLs(everyACL()); !slices.Equal(got, []string{want[0], want[2]}) {
		t.Errorf("left are %q", got)
	}
}

// TestBadACLsAreRefusedAlone goes through what cannot be an ACL, each beside one that can.
func TestBadACLsAreRefusedAlone(t *testing.T) {
	b := administered(t)
	good := bindingOf("User:x", opRead, resourceTopic, "orders")
	for does, change := range map[string]func(a *auth.Binding){
		"any resource":              func(a *auth.Binding) { a.Resource = auth.AnyResource },
		"a resource that is none":   func(a *auth.Binding) { a.Resource = 8 },
		"any pattern":               func(a *auth.Binding) { a.Pattern = auth.AnyPattern },
		"a matching pattern":        func(a *auth.Binding) { a.Pattern = auth.MatchPattern },
		"any operation":             func(a *auth.Binding) { a.Operation = auth.AnyOperation },
		"an operation that is none": func(a *auth.Binding) { a.Operation = 16 },
		"any permission":            func(a *auth.Binding) { a.Permission = auth.AnyPermission },
		"no name":                   func(a *auth.Binding) { a.Name = "" },
		"a cluster's other name":    func(a *auth.Binding) { a.Resource = auth.Cluster },
		"a principal without type":  func(a *auth.Binding) { a.Principal = "alice" },
		"no host":                   func(a *auth.Binding) { a.Host = "" },
		"a network that is none":    func(a *auth.Binding) { a.Host = "10.0.0.0/33" },
	} {
		bad := good
		change(&bad)
		if got := b.createCodes(bad, good); !slices.Equal(got, []int16{42, 0}) {
			t.Errorf("%s: %v, want 42 and 0", does, got)
		}
	}
	if got := b.store.ACLs().Len(); got != 1 {
		t.Errorf("%d ACLs, want the good one", got)
	}
	odd := good
	odd.Name, odd.Principal, odd.Host, odd.Operation = " /", "Group:a:b", "no address", auth.DescribeTokens
	if got := b.createCodes(odd); !slices.Equal(got, []int16{0}) {
		t.Errorf("what Kafka takes as well: %v, want 0", got)
	}
}

// TestSEC11UnknownElements sends kinds of number 0, over which Kafka 4.4 ends the connection (measured; the field case
// says INVALID_REQUEST), and kinds that do not exist, which choose nothing.
func TestSEC11UnknownElements(t *testing.T) {
	atVersions(t, "SEC-11", 29, 1, func(t *testing.T, version int16) {
		for _, b := range []*broker{administered(t), withGroups(newBroker(t, nil))} { // with an authorizer and without
			for i, change := range []func(r *kmsg.DescribeACLsRequest, kind int8){
				func(r *kmsg.DescribeACLsRequest, kind int8) { r.ResourceType = kmsg.ACLResourceType(kind) },
				func(r *kmsg.DescribeACLsRequest, kind int8) {
					r.ResourcePatternType = kmsg.ACLResourcePatternType(kind)
				},
				func(r *kmsg.DescribeACLsRequest, kind int8) { r.Operation = kmsg.ACLOperation(kind) },
				func(r *kmsg.DescribeACLsRequest, kind int8) { r.PermissionType = kmsg.ACLPermissionType(kind) },
			} {
				req := everyACL()
				req.Version = version
				change(req, 0)
				_, err := b.dispatch(req)
				if _, ok := errors.AsType[*frameError](err); !ok {
					t.Errorf("filter %d of kind 0: %v, want the connection closed", i, err)
				}
				change(req, 99)
				if b.s.authorizer != nil && len(b.describedACLs(req)) != 0 {
					t.Errorf("filter %d of kind 99 chooses something", i)
				}
			}
			create := createACLsOf(bindingOf("User:x", opRead, resourceTopic, "t"), bindingOf("User:x", auth.UnknownOperation, resourceTopic, "t"))
			if _, err := b.dispatch(create); err == nil || b.store.ACLs().Len() != 0 {
				t.Errorf("create of kind 0: %v and %d ACLs, want the connection closed and none", err, b.store.ACLs().Len())
			}
			del := kmsg.NewPtrDeleteACLsRequest()
			del.Version, del.Filters = version, []kmsg.DeleteACLsRequestFilter{{}}
			if _, err := b.dispatch(del); err == nil {
				t.Error("delete of kind 0 is answered, want the connection closed")
			}
		}
	})
}

func TestNoAuthorizerNoACLs(t *testing.T) {
	b := newBroker(t, nil)
	for v := int16(1); v <= 3; v++ {
		describe, create, del := everyACL(), createACLsOf(bindingOf("User:x", opRead, resourceTopic, "t"), auth.Binding{Resource: 99, Pattern: 1, Operation: 1, Permission: 1}), kmsg.NewPtrDeleteACLsRequest()
		del.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 99, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
		for _, req := range []kmsg.Request{describe, create, del} {
			req.SetVersion(v)
			if got := codesIn(t, asJSON(t, ask[kmsg.Response](b, req))); !slices.Equal(got, []int16{54}) {
				t.Errorf("key %d v%d: codes %v, want SECURITY_DISABLED", req.Key(), v, got)
			}
		}
	}
	if b.store.ACLs().Len() != 0 {
		t.Error("an ACL was made")
	}
}

func TestTooManyACLsInOneRequest(t *testing.T) {
	b := administered(t)
	many := make([]auth.Binding, storage.MaxACLChanges+1)
	for i := range many {
		many[i] = bindingOf("User:x", opRead, resourceTopic, fmt.Sprintf("t%d", i))
	}
	bad, nameless := bindingOf("no type", opRead, resourceTopic, "t"), bindingOf("User:x", opRead, resourceTopic, "")
	got := b.createCodes(append(slices.Clone(many), bad, nameless)...)
	if n := len(many); len(got) != n+2 || got[0] != 44 || !slices.Equal(got[n-1:], []int16{44, 44, 42}) || b.store.ACLs().Len() != 0 {
		t.Errorf("%d answers beginning with %d, ending with %v, want POLICY_VIOLATION for all but the nameless one, and no ACL", len(got), got[0], got[n-1:])
	}
	if err := b.store.CreateACLs(many[:1]); err != nil {
		t.Fatal(err)
	}
	if err := b.store.CreateACLs(many[1:]); err != nil {
		t.Fatal(err)
	}
	del := kmsg.NewPtrDeleteACLsRequest()
	del.Version = 3
	del.Filters = []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}, {ResourceType: 7, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
	for _, r := range ask[*kmsg.DeleteACLsResponse](b, del).Results {
		if r.ErrorCode != 42 || !strings.Contains(*r.ErrorMessage, "10000") {
			t.Errorf("delete: %d %q, want INVALID_REQUEST for every filter", r.ErrorCode, *r.ErrorMessage)
		}
	}
	if got := b.store.ACLs().Len(); got != len(many) {
		t.Errorf("%d ACLs are left, want %d", got, len(many))
	}
}

// TestDeniedACLRequestsChangeNothing asks as callers who may describe the cluster, or alter it.
func TestDeniedACLRequestsChangeNothing(t *testing.T) {
	b := guarded(t)
	b.allow(opDescribe, resourceCluster, clusterResource)
	x := bindingOf("User:x", opRead, resourceTopic, "t")
	if got := b.describedACLs(everyACL()); len(got) != 1 {
		t.Errorf("with DESCRIBE: %q, want the one that allows it", got)
	}
	if got := ask[*kmsg.CreateACLsResponse](b, createACLsOf(x)).Results[0].ErrorCode; got != 31 {
		t.Errorf("create with DESCRIBE: %d, want 31", got)
	}
	b.allow(opAlter, resourceCluster, clusterResource)
	if got := b.createCodes(x); !slices.Equal(got, []int16{0}) {
		t.Errorf("create with ALTER: %v, want 0", got)
	}
}

// TestACLsHoldForLiveConnectionsAndOutliveAKill denies and allows a caller on one connection, by another, and again after
// a kill that keeps nothing that was not synced.
func TestACLsHoldForLiveConnectionsAndOutliveAKill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		live := vfs.NewMem(vfs.MemOptions{Crashable: true})
		config := withAuthorizer("super.users", "", "allow.everyone.if.no.acl.found", "true")
		s := newServerOn(t, live, config)
		s.topic("orders", 1)
		caller, admin := s.dial(t), s.dial(t)
		code := func(c *client) int16 {
			return c.call(metadataOf(12, "orders")).(*kmsg.MetadataResponse).Topics[0].ErrorCode
		}
		if got := code(caller); got != 0 {
			t.Fatalf("with no ACL: %d", got)
		}
		deny := bindingOf(anonymous, opDescribe, resourceTopic, "orders")
		deny.Permission = auth.Deny
		if r := admin.call(createACLsOf(deny)).(*kmsg.CreateACLsResponse).Results[0]; r.ErrorCode != 0 {
			t.Fatalf("create: %d", r.ErrorCode)
		}
		if got := code(caller); got != 29 {
			t.Errorf("on a live connection: %d, want 29", got)
		}
		killed := live.CrashClone(1, 0)
		s.stop()

		s = newServerOn(t, killed, config)
		admin, caller = s.dial(t), s.dial(t)
		if got := code(caller); got != 29 {
			t.Errorf("after a kill: %d, want 29", got)
		}
		del := kmsg.NewPtrDeleteACLsRequest()
		del.Version, del.Filters = 3, []kmsg.DeleteACLsRequestFilter{{ResourceType: 1, ResourcePatternType: 1, Operation: 1, PermissionType: 1}}
		if r := admin.call(del).(*kmsg.DeleteACLsResponse).Results[0]; r.ErrorCode != 0 || len(r.MatchingACLs) != 1 {
			t.Fatalf("delete: %+v", r)
		}
		if got := code(caller); got != 0 {
			t.Errorf("after the denial is gone: %d, want 0", got)
		}
		s.stop()
	})
}
