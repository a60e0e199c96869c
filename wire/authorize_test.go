package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/groups"
)

// withAuthorizer is the config of an authorizer that lets User:admin do everything and nobody else anything.
func withAuthorizer(more ...string) map[string]string {
	config := map[string]string{"authorizer.class.name": standardAuthorizer, "super.users": "User:admin"}
	for i := 0; i < len(more); i += 2 {
		config[more[i]] = more[i+1]
	}
	return config
}

// guarded starts a broker with an authorizer. Requests are User:low's.
func guarded(t *testing.T, more ...string) *broker {
	b := withGroups(newBroker(t, withAuthorizer(more...)))
	b.r.principal = "User:low"
	return b
}

// allow lets User:low do op to the resource of that name; a name that ends with "+" stands for all that begin so.
func (b *broker) allow(op aclOperation, resource resourceType, name string) auth.Binding {
	b.t.Helper()
	a := bindingOf("User:low", op, resource, name)
	if prefix, ok := strings.CutSuffix(name, "+"); ok {
		a.Name, a.Pattern = prefix, auth.Prefixed
	}
	if err := b.store.CreateACLs([]auth.Binding{a}); err != nil {
		b.t.Fatal(err)
	}
	return a
}

// revoke takes ACLs away.
func (b *broker) revoke(acls ...auth.Binding) {
	b.t.Helper()
	for _, a := range acls {
		f := auth.Filter{Resource: a.Resource, Name: &a.Name, Pattern: a.Pattern, Principal: &a.Principal, Host: &a.Host, Operation: a.Operation, Permission: a.Permission}
		if gone, err := b.store.DeleteACLs([]auth.Filter{f}); err != nil || len(gone[0]) != 1 {
			b.t.Fatalf("delete %+v: %v, %v", a, gone, err)
		}
	}
}

func bindingOf(principal string, op aclOperation, resource resourceType, name string) auth.Binding {
	return auth.Binding{Resource: resource, Name: name, Pattern: auth.Literal, Principal: principal, Host: "*", Operation: op, Permission: auth.Allow}
}

// asAdmin runs f as the super user.
func (b *broker) asAdmin(f func()) {
	who, caller := b.r.principal, b.r.caller
	b.r.principal, b.r.caller = "User:admin", auth.Caller{}
	f()
	b.r.principal, b.r.caller = who, caller
}

// codesIn are the error codes in an answer that are not 0, each once and sorted.
func codesIn(t *testing.T, answer string) []int16 {
	t.Helper()
	var tree any
	if err := json.Unmarshal([]byte(answer), &tree); err != nil {
		t.Fatal(err)
	}
	found := map[int16]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, e := range v {
				if n, ok := e.(float64); ok && strings.HasSuffix(k, "ErrorCode") && n != 0 {
					found[int16(n)] = true
				}
				walk(e)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(tree)
	return slices.Sorted(maps.Keys(found))
}

func asJSON(t *testing.T, resp kmsg.Response) string {
	t.Helper()
	b, err := json.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestWhoMayDoNothingLearnsNothing asks everything that is served, at every version, about a topic and a group that are
// there and about ones that are not: the answers are the same, and the denial's code is all there is in them.
func TestWhoMayDoNothingLearnsNothing(t *testing.T) {
	const there, ghost = "there", "ghost" // of one length
	b := withShareGroups(guarded(t))
	topic := b.topic(there, 3)
	b.asAdmin(func() { b.mustProduce(there, 0, b.batch("v")) })
	if _, err := b.s.groups.CommitOffsets(t.Context(), &groups.CommitRequest{Group: there, Generation: -1, Retention: -1, Commits: []groups.Commit{{Topic: there, TopicID: topic.ID(), Offset: 1}}}); err != nil {
		t.Fatal(err)
	}
	before := b.s.store.TopicsVersion()
	tested := map[int16]bool{17: true, 18: true, 36: true} // they come before there is a principal
	for _, c := range denialCases {
		a := apis.find(c.key)
		if a == nil {
			t.Errorf("key %d is not served", c.key)
			continue
		}
		tested[c.key] = true
		for v := max(a.min, c.from); v <= a.max; v++ {
			req := c.request(b, there, topic.ID())
			if fixed := req.GetVersion(); fixed != 0 && fixed != v { // for some versions only
				continue
			}
			req.SetVersion(v)
			name := fmt.Sprintf("key %d v%d %s", c.key, v, c.does)
			got := asJSON(t, ask[kmsg.Response](b, req))
			want := []int16{c.code}
			if c.code == 0 {
				want = nil
			}
			if codes := codesIn(t, got); !slices.Equal(codes, want) {
				t.Errorf("%s: codes %v, want %v: %s", name, codes, want, got)
			}
			if c.code == 0 && strings.Contains(got, there) {
				t.Errorf("%s tells of what is there: %s", name, got)
			}
			if v >= c.byID {
				continue
			}
			req = c.request(b, ghost, topic.ID())
			req.SetVersion(v)
			if other := strings.ReplaceAll(asJSON(t, ask[kmsg.Response](b, req)), ghost, there); other != got {
				t.Errorf("%s: of what is there\n%s\nof what is not\n%s", name, got, other)
			}
		}
	}
	for _, a := range apis.rows {
		if !tested[a.key] {
			t.Errorf("key %d has no case", a.key)
		}
	}
	if b.s.store.TopicsVersion() != before {
		t.Error("topics changed")
	}
	if o := b.offsets(there, 0); o.End != 1 || o.LogStart != 0 {
		t.Errorf("records changed: %+v", o)
	}
}

// TestSEC08NoTopicExistenceLeak asks Metadata for a topic that is there and one that is not.
func TestSEC08NoTopicExistenceLeak(t *testing.T) {
	atVersions(t, "SEC-08", 3, 1, func(t *testing.T, version int16) {
		b := guarded(t)
		b.topic("there", 1)
		for _, name := range []string{"there", "ghost", "__consumer_offsets"} {
			resp := ask[*kmsg.MetadataResponse](b, metadataOf(version, name))
			got := resp.Topics[0]
			if got.ErrorCode != 29 || got.TopicID != [16]byte{} || got.IsInternal || len(got.Partitions) != 0 || *got.Topic != name {
				t.Errorf("%s: %+v, want 29 and nothing else", name, got)
			}
		}
		all := metadataOf(version)
		all.Topics = nil
		if resp := ask[*kmsg.MetadataResponse](b, all); len(resp.Topics) != 0 {
			t.Errorf("all topics: %+v, want none", resp.Topics)
		}
		b.allow(opRead, resourceTopic, "there")
		if resp := ask[*kmsg.MetadataResponse](b, all); len(resp.Topics) != 1 || *resp.Topics[0].Topic != "there" {
			t.Errorf("all topics after READ of one: %+v, want that one", resp.Topics)
		}
	})
}

// TestSEC10DenialCodes also looks at requests of which a part is allowed.
func TestSEC10DenialCodes(t *testing.T) {
	atVersions(t, "SEC-10", 0, 3, func(t *testing.T, version int16) {
		b := guarded(t)
		b.topic("ok", 1)
		b.topic("denied", 1)
		b.allow(opWrite, resourceTopic, "ok")
		req := b.produceRequest(version, "ok", produced{0, b.batch("v")})
		req.Topics = append(req.Topics, b.produceRequest(version, "denied", produced{0, b.batch("v")}).Topics...)
		resp := ask[*kmsg.ProduceResponse](b, req)
		if got := []int16{resp.Topics[0].Partitions[0].ErrorCode, resp.Topics[1].Partitions[0].ErrorCode}; !slices.Equal(got, []int16{0, 29}) {
			t.Errorf("produce to [ok, denied]: %v, want 0 and 29", got)
		}
		if end := b.offsets("denied", 0).End; end != 0 {
			t.Errorf("the denied topic ends at %d", end)
		}
	})
}

// TestPartsOfAnswersAreHidden goes through the answers that show a part of what there is.
func TestPartsOfAnswersAreHidden(t *testing.T) {
	b := guarded(t)
	ids := map[string][16]byte{}
	for _, name := range []string{"seen", "hidden"} {
		topic := b.topic(name, 1)
		ids[name] = topic.ID()
		if _, err := b.s.groups.CommitOffsets(t.Context(), &groups.CommitRequest{Group: name, Generation: -1, Retention: -1, Commits: []groups.Commit{
			{Topic: "seen", Offset: 1, TopicID: ids["seen"]}, {Topic: name, Offset: 1, TopicID: topic.ID()},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	b.allow(opDescribe, resourceTopic, "seen")
	b.allow(opRead, resourceGroup, "hidden") // a group that has offsets of both topics

	listed := ask[*kmsg.ListGroupsResponse](b, kmsg.NewPtrListGroupsRequest())
	if len(listed.Groups) != 1 || listed.Groups[0].Group != "hidden" {
		t.Errorf("ListGroups: %+v, want the group that may be read", listed.Groups)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version, req.Group, req.Topics = 7, "hidden", nil
	if resp := ask[*kmsg.OffsetFetchResponse](b, req); len(resp.Topics) != 1 || resp.Topics[0].Topic != "seen" {
		t.Errorf("OffsetFetch of all: %+v, want the topic that may be seen", resp.Topics)
	}
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "seen", Partitions: []int32{0}}, {Topic: "hidden", Partitions: []int32{0}}}
	resp := ask[*kmsg.OffsetFetchResponse](b, req)
	if p, q := resp.Topics[0].Partitions[0], resp.Topics[1].Partitions[0]; p.Offset != 1 || p.ErrorCode != 0 || q.Offset != -1 || q.ErrorCode != 29 {
		t.Errorf("OffsetFetch: %+v and %+v", p, q)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version, commit.Group, commit.Generation = 7, "hidden", -1
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "seen", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	if got := ask[*kmsg.OffsetCommitResponse](b, commit); got.Topics[0].Partitions[0].ErrorCode != 29 {
		t.Errorf("OffsetCommit with DESCRIBE of the topic: %d, want 29: it takes READ", got.Topics[0].Partitions[0].ErrorCode)
	}
	describe := kmsg.NewPtrDescribeTopicPartitionsRequest()
	describe.ResponsePartitionLimit = 10
	if got := ask[*kmsg.DescribeTopicPartitionsResponse](b, describe); len(got.Topics) != 1 || *got.Topics[0].Topic != "seen" {
		t.Errorf("DescribeTopicPartitions of all: %+v", got.Topics)
	}
	b.allow(opDescribe, resourceCluster, clusterResource)
	if listed := ask[*kmsg.ListGroupsResponse](b, kmsg.NewPtrListGroupsRequest()); len(listed.Groups) != 2 {
		t.Errorf("ListGroups with DESCRIBE of the cluster: %+v, want both", listed.Groups)
	}
}

// TestAuthorizedOperationsAreTheCallers looks at the bit fields for a caller who may do some things.
func TestAuthorizedOperationsAreTheCallers(t *testing.T) {
	b := guarded(t)
	b.topic("orders", 1)
	b.allow(opRead, resourceTopic, "orders")
	b.allow(opAlterConfigs, resourceTopic, "ord+")
	const want = 1<<opRead | 1<<opDescribe | 1<<opAlterConfigs | 1<<opDescribeConfigs
	req := metadataOf(10, "orders")
	req.IncludeTopicAuthorizedOperations, req.IncludeClusterAuthorizedOperations = true, true
	resp := ask[*kmsg.MetadataResponse](b, req)
	if got := resp.Topics[0].AuthorizedOperations; got != want {
		t.Errorf("operations on the topic %b, want %b", got, want)
	}
	if resp.AuthorizedOperations != 0 {
		t.Errorf("operations on the cluster %b, want none", resp.AuthorizedOperations)
	}
	b.allow(opAlter, resourceCluster, clusterResource)
	if got := ask[*kmsg.MetadataResponse](b, req).AuthorizedOperations; got != 1<<opAlter|1<<opDescribe {
		t.Errorf("operations on the cluster %b, want ALTER and DESCRIBE", got)
	}
}

// TestAutoCreationTakesCreate makes topics by Metadata as callers who may see them, and make them.
func TestAutoCreationTakesCreate(t *testing.T) {
	b := guarded(t)
	req := metadataOf(12, "new", "other")
	req.AllowAutoTopicCreation = true
	codes := func() []int16 {
		resp := ask[*kmsg.MetadataResponse](b, req)
		got := map[string]int16{}
		for _, topic := range resp.Topics {
			got[*topic.Topic] = topic.ErrorCode
		}
		return []int16{got["new"], got["other"]}
	}
	b.allow(opDescribe, resourceTopic, "*")
	if got := codes(); !slices.Equal(got, []int16{29, 29}) {
		t.Errorf("with DESCRIBE: %v, want 29 for both", got)
	}
	b.allow(opCreate, resourceTopic, "new")
	if got := codes(); !slices.Equal(got, []int16{3, 29}) {
		t.Errorf("with CREATE of one: %v, want 3, as one that is being made, and 29", got)
	}
	if _, ok := b.store.Topic("other"); ok {
		t.Error("the other topic was made")
	}
	if _, ok := b.store.Topic("new"); !ok {
		t.Error("the topic was not made")
	}
	b.allow(opCreate, resourceCluster, clusterResource)
	if got := codes(); !slices.Equal(got, []int16{0, 3}) {
		t.Errorf("with CREATE of the cluster: %v, want 0 and 3", got)
	}
}

// TestIdempotentProducersNeedSomeTopic begins producers as callers who may write to a topic that need not exist.
func TestIdempotentProducersNeedSomeTopic(t *testing.T) {
	b := guarded(t)
	req := kmsg.NewPtrInitProducerIDRequest()
	req.Version, req.ProducerID, req.ProducerEpoch = 4, -1, -1
	want := func(does string, code int16) {
		t.Helper()
		if got := ask[*kmsg.InitProducerIDResponse](b, req).ErrorCode; got != code {
			t.Errorf("%s: %d, want %d", does, got, code)
		}
	}
	want("nothing", 31)
	a := b.allow(opWrite, resourceTopic, "not made yet+")
	want("WRITE of a prefix", 0)
	b.revoke(a)
	b.allow(opRead, resourceTopic, "*")
	want("READ of all", 31)
	b.allow(opIdempotentWrite, resourceCluster, clusterResource)
	want("IDEMPOTENT_WRITE", 0)
}

// TestFetchSessionsLookAgain changes what a caller may read while it has a fetch session.
func TestFetchSessionsLookAgain(t *testing.T) {
	b := guarded(t)
	b.topic("orders", 1)
	b.asAdmin(func() { b.mustProduce("orders", 0, b.batch("v")) })
	a := b.allow(opRead, resourceTopic, "orders")
	req := b.fetchRequest(12, asked{topic: "orders"})
	req.SessionEpoch = 0
	resp := ask[*kmsg.FetchResponse](b, req)
	if resp.SessionID == 0 || resp.Topics[0].Partitions[0].ErrorCode != 0 || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Fatalf("the session begins with %+v", resp)
	}
	again := kmsg.NewPtrFetchRequest()
	again.Version, again.ReplicaID, again.SessionID, again.SessionEpoch, again.MaxBytes = 12, -1, resp.SessionID, 1, 1<<20
	b.revoke(a)
	resp = ask[*kmsg.FetchResponse](b, again)
	if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 29 || len(resp.Topics[0].Partitions[0].RecordBatches) != 0 {
		t.Errorf("after the ACL is gone: %+v, want 29", resp.Topics)
	}
	b.allow(opRead, resourceTopic, "orders")
	again.SessionEpoch = 2
	resp = ask[*kmsg.FetchResponse](b, again)
	if len(resp.Topics) != 1 || resp.Topics[0].Partitions[0].ErrorCode != 0 || len(resp.Topics[0].Partitions[0].RecordBatches) == 0 {
		t.Errorf("after it is back: %+v, want records", resp.Topics)
	}
}

// TestBrokersNeedClusterAction fetches as replicas do: it takes no READ, and READ does not do.
func TestBrokersNeedClusterAction(t *testing.T) {
	b := guarded(t)
	topic := b.topic("orders", 1)
	code := func() int16 {
		req := fetchAs(7, "orders", topic.ID())
		req.SetVersion(11)
		return ask[*kmsg.FetchResponse](b, req).Topics[0].Partitions[0].ErrorCode
	}
	a := b.allow(opRead, resourceTopic, "orders")
	if got := code(); got != 29 {
		t.Errorf("with READ: %d, want 29", got)
	}
	b.revoke(a)
	b.allow(opClusterAction, resourceCluster, clusterResource)
	if got := code(); got == 29 {
		t.Error("with CLUSTER_ACTION: 29")
	}
}

// TestHiddenTopicsHideConsumerGroups describes a group with members as a caller who may not see one of its topics.
func TestHiddenTopicsHideConsumerGroups(t *testing.T) {
	b := guarded(t)
	b.topic("orders", 1)
	b.allow(opRead, resourceGroup, "g")
	b.allow(opDescribe, resourceTopic, "orders")
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Version, join.Group, join.MemberID, join.RebalanceTimeoutMillis = 1, "g", "m", 10_000
	join.SubscribedTopicNames, join.Topics = []string{"orders", "secret"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if got := ask[*kmsg.ConsumerGroupHeartbeatResponse](b, join).ErrorCode; got != 29 {
		t.Errorf("a subscription to a topic that may not be seen: %d, want 29", got)
	}
	join.SubscribedTopicNames = []string{"orders"}
	if got := ask[*kmsg.ConsumerGroupHeartbeatResponse](b, join); got.ErrorCode != 0 {
		t.Fatalf("a subscription to one that may: %d", got.ErrorCode)
	}
	describe := kmsg.NewPtrConsumerGroupDescribeRequest()
	describe.Groups = []string{"g"}
	if got := ask[*kmsg.ConsumerGroupDescribeResponse](b, describe).Groups[0]; got.ErrorCode != 0 || len(got.Members) != 1 {
		t.Fatalf("described as %+v", got)
	}
	if err := b.store.CreateACLs([]auth.Binding{{Resource: auth.Topic, Name: "ord", Pattern: auth.Prefixed, Principal: "User:*", Host: "*", Operation: auth.Describe, Permission: auth.Deny}}); err != nil {
		t.Fatal(err)
	}
	if got := ask[*kmsg.ConsumerGroupDescribeResponse](b, describe).Groups[0]; got.ErrorCode != 29 || len(got.Members) != 0 {
		t.Errorf("with a topic that may not be seen: %+v, want 29 and no members", got)
	}
}

// TestHiddenTopicsOfShareGroups asks about a share group as a caller who may see one of two topics.
func TestHiddenTopicsOfShareGroups(t *testing.T) {
	b := withShareGroups(guarded(t))
	b.topic("orders", 1)
	b.topic("secret", 1)
	b.allow(opRead, resourceGroup, "g")
	b.allow(opDelete, resourceGroup, "g")
	seen := b.allow(opRead, resourceTopic, "orders")
	alter := kmsg.NewPtrAlterShareGroupOffsetsRequest()
	alter.GroupID = "g"
	for _, name := range []string{"orders", "secret"} {
		alter.Topics = append(alter.Topics, kmsg.AlterShareGroupOffsetsRequestTopic{Topic: name, Partitions: []kmsg.AlterShareGroupOffsetsRequestTopicPartition{{}}})
	}
	altered := map[string]int16{}
	for _, topic := range ask[*kmsg.AlterShareGroupOffsetsResponse](b, alter).Topics {
		altered[topic.Topic] = topic.Partitions[0].ErrorCode
		if topic.Topic == "secret" && topic.TopicID != [16]byte{} {
			t.Error("AlterShareGroupOffsets tells the id of the topic that may not be read")
		}
	}
	if altered["orders"] != 0 || altered["secret"] != 29 {
		t.Errorf("AlterShareGroupOffsets: %v, want 0 and 29", altered)
	}
	b.asAdmin(func() {
		if got := ask[*kmsg.AlterShareGroupOffsetsResponse](b, alter); len(got.Topics) != 2 || got.ErrorCode != 0 {
			t.Fatalf("AlterShareGroupOffsets by the super user: %+v", got)
		}
	})
	describe := kmsg.NewPtrDescribeShareGroupOffsetsRequest()
	describe.Version, describe.Groups = 1, []kmsg.DescribeShareGroupOffsetsRequestGroup{{GroupID: "g", Topics: nil}}
	if got := ask[*kmsg.DescribeShareGroupOffsetsResponse](b, describe).Groups[0]; len(got.Topics) != 1 || got.Topics[0].Topic != "orders" {
		t.Errorf("DescribeShareGroupOffsets of all: %+v, want the topic that may be seen", got)
	}
	beat := shareHeartbeat("AAAAAAAAAAAAAAAAAAAAAA", 0, "orders", "secret")
	if got := ask[*kmsg.ShareGroupHeartbeatResponse](b, beat).ErrorCode; got != 29 {
		t.Errorf("a subscription to a topic that may not be seen: %d, want 29", got)
	}
	beat.SubscribedTopicNames = []string{"orders"}
	if got := ask[*kmsg.ShareGroupHeartbeatResponse](b, beat); got.ErrorCode != 0 {
		t.Fatalf("a subscription to one that may: %d", got.ErrorCode)
	}
	b.revoke(seen)
	group := kmsg.NewPtrShareGroupDescribeRequest()
	group.Version, group.GroupIDs = 1, []string{"g"}
	if got := ask[*kmsg.ShareGroupDescribeResponse](b, group).Groups[0]; got.ErrorCode != 29 || len(got.Members) != 0 {
		t.Errorf("ShareGroupDescribe with a topic that may not be seen: %+v, want 29 and no members", got)
	}
}

// TestACLsOfHosts lets callers in by their address.
func TestACLsOfHosts(t *testing.T) {
	b := guarded(t)
	b.topic("orders", 1)
	a := bindingOf("User:*", opDescribe, resourceTopic, "orders")
	code := func(ip string) int16 {
		b.r.remote, b.r.caller = &net.TCPAddr{IP: net.ParseIP(ip), Port: 5000}, auth.Caller{}
		return ask[*kmsg.MetadataResponse](b, metadataOf(12, "orders")).Topics[0].ErrorCode
	}
	for _, c := range []struct {
		host     string
		in, out  string
		describe string
	}{
		{"10.0.0.1", "10.0.0.1", "10.0.0.2", "an address"},
		{"10.0.0.0/30", "::ffff:10.0.0.3", "10.0.0.4", "a network, and an IPv4 peer of an IPv6 socket"},
		{"0:0:0:0:0:0:0:1", "::1", "::2", "an IPv6 address, spelled as Java does"},
	} {
		a.Host = c.host
		if err := b.store.CreateACLs([]auth.Binding{a}); err != nil {
			t.Fatal(err)
		}
		if in, out := code(c.in), code(c.out); in != 0 || out != 29 {
			t.Errorf("%s: %d from %s and %d from %s, want 0 and 29", c.describe, in, c.in, out, c.out)
		}
		b.revoke(a)
	}
}

func TestWithoutAnAuthorizerEveryoneMayDoEverything(t *testing.T) {
	b := newBroker(t, map[string]string{"super.users": "User:admin", "allow.everyone.if.no.acl.found": "false"})
	b.topic("orders", 1)
	if err := b.store.CreateACLs([]auth.Binding{{Resource: auth.Topic, Name: "*", Pattern: auth.Literal, Principal: "User:*", Host: "*", Operation: auth.AllOperations, Permission: auth.Deny}}); err != nil {
		t.Fatal(err)
	}
	b.mustProduce("orders", 0, b.batch("v"))
}

func TestAuthorizerConfigs(t *testing.T) {
	for _, c := range []struct {
		config map[string]string
		want   string // in the error
	}{
		{map[string]string{"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer"}, standardAuthorizer},
		{map[string]string{"authorizer.class.name": " " + standardAuthorizer + " "}, ""},
		{map[string]string{"super.users": "User:a;b"}, `"b"`},
		{map[string]string{"super.users": "User:CN=a,O=b;User:c"}, ""},
		{map[string]string{"allow.everyone.if.no.acl.found": "perhaps"}, "allow.everyone.if.no.acl.found"},
	} {
		_, err := NewBrokerConfig(c.config)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.config, err, c.want)
		}
	}
	open := guarded(t, "allow.everyone.if.no.acl.found", "true")
	open.topic("orders", 1)
	open.mustProduce("orders", 0, open.batch("v"))
	open.allow(opDescribe, resourceTopic, "orders")
	if got := open.produce(9, "orders", 0, open.batch("v")).ErrorCode; got != 29 {
		t.Errorf("produce to a topic that an ACL speaks of: %d, want 29", got)
	}
	// Kafka reports them as it does what is in none of its tables.
	var e kmsg.DescribeConfigsResponseResourceConfig
	open.asAdmin(func() {
		resource := open.describeConfigs(4, kindBroker, open.s.brokerName(), "super.users")
		if len(resource.Configs) != 1 {
			t.Fatalf("super.users is described as %+v", resource)
		}
		e = resource.Configs[0]
	})
	if e.Value != nil || !e.IsSensitive || !e.ReadOnly || e.ConfigType != 0 || e.Source != sourceStaticBroker {
		t.Errorf("super.users is described as %+v", e)
	}
	plain := newBroker(t, nil)
	if got := plain.describeConfigs(4, kindBroker, plain.s.brokerName(), "super.users", "allow.everyone.if.no.acl.found"); len(got.Configs) != 0 {
		t.Errorf("what is not set is described as %+v", got.Configs)
	}
}
