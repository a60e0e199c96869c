package compat_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type configEntry = kmsg.DescribeConfigsResponseResourceConfig

// describeConfigs describes one resource; nil names mean all.
func describeConfigs(c *conn, v int16, kind kmsg.ConfigResourceType, name string, names []string) ([]configEntry, int16) {
	c.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.IncludeSynonyms, req.IncludeDocumentation = true, true
	rr := kmsg.NewDescribeConfigsRequestResource()
	rr.ResourceType, rr.ResourceName, rr.ConfigNames = kind, name, names
	req.Resources = append(req.Resources, rr)
	res := ask[*kmsg.DescribeConfigsResponse](c, v, req)
	if len(res.Resources) != 1 || res.Resources[0].ResourceName != name || res.Resources[0].ResourceType != kind {
		c.t.Fatalf("DescribeConfigs of %s %q answers %+v", kind, name, res.Resources)
	}
	return res.Resources[0].Configs, res.Resources[0].ErrorCode
}

// topicConfig is one config of a topic.
func topicConfig(c *conn, v int16, tp topic, name string) configEntry {
	c.t.Helper()
	got, errorCode := describeConfigs(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, []string{name})
	wantCode(c.t, "describe", errorCode, noError)
	if len(got) != 1 || got[0].Name != name {
		c.t.Fatalf("describing %s of %s gives %+v", name, tp.Name, got)
	}
	return got[0]
}

// wantConfig checks value and source. Sources: 1 topic, 4 server.properties, 5 default.
func wantConfig(t testing.TB, got configEntry, value string, source int8) {
	t.Helper()
	if got.Value == nil || *got.Value != value || int8(got.Source) != source {
		t.Fatalf("%s: got %s from source %d, want %s from %d", got.Name, deref(got.Value), got.Source, value, source)
	}
}

// alter is one op of IncrementalAlterConfigs.
type alter struct {
	name  string
	op    kmsg.IncrementalAlterConfigOp
	value *string
}

func incrementalAlter(c *conn, v int16, kind kmsg.ConfigResourceType, name string, validateOnly bool, alters ...alter) kmsg.IncrementalAlterConfigsResponseResource {
	c.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.ValidateOnly = validateOnly
	rr := kmsg.NewIncrementalAlterConfigsRequestResource()
	rr.ResourceType, rr.ResourceName = kind, name
	for _, a := range alters {
		k := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		k.Name, k.Op, k.Value = a.name, a.op, a.value
		rr.Configs = append(rr.Configs, k)
	}
	req.Resources = append(req.Resources, rr)
	res := ask[*kmsg.IncrementalAlterConfigsResponse](c, v, req)
	if len(res.Resources) != 1 {
		c.t.Fatalf("IncrementalAlterConfigs answers %+v", res.Resources)
	}
	return res.Resources[0]
}

// Operations of IncrementalAlterConfigs.
const (
	opSet      = kmsg.IncrementalAlterConfigOpSet
	opDelete   = kmsg.IncrementalAlterConfigOpDelete
	opAppend   = kmsg.IncrementalAlterConfigOpAppend
	opSubtract = kmsg.IncrementalAlterConfigOpSubtract
)

// await asks until ok. Ours shows a change at once; Kafka takes a moment.
func (s *server) await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for ctx := within(t); !ok(); {
		if !s.External() || ctx.Err() != nil {
			t.Fatalf("not so: %s", what)
		}
	}
}

// topicKeys is every topic config of Apache Kafka 4.4 as DescribeConfigs lists it
// for a topic without overrides: type, default, and the broker config that is
// named as its synonym.
var topicKeys = []struct {
	name    string
	kind    kmsg.ConfigType
	value   string
	synonym string // "" when none has a value
}{
	{"cleanup.policy", kmsg.ConfigTypeList, "delete", "log.cleanup.policy"},
	{"compression.gzip.level", kmsg.ConfigTypeInt, "-1", "compression.gzip.level"},
	{"compression.lz4.level", kmsg.ConfigTypeInt, "9", "compression.lz4.level"},
	{"compression.type", kmsg.ConfigTypeString, "producer", "compression.type"},
	{"compression.zstd.level", kmsg.ConfigTypeInt, "3", "compression.zstd.level"},
	{"delete.retention.ms", kmsg.ConfigTypeLong, "86400000", "log.cleaner.delete.retention.ms"},
	{"errors.deadletterqueue.group.enable", kmsg.ConfigTypeBoolean, "false", ""},
	{"file.delete.delay.ms", kmsg.ConfigTypeLong, "60000", "log.segment.delete.delay.ms"},
	{"flush.messages", kmsg.ConfigTypeLong, "9223372036854775807", "log.flush.interval.messages"},
	{"flush.ms", kmsg.ConfigTypeLong, "9223372036854775807", ""},
	{"follower.replication.throttled.replicas", kmsg.ConfigTypeList, "", ""},
	{"index.interval.bytes", kmsg.ConfigTypeInt, "4096", "log.index.interval.bytes"},
	{"leader.replication.throttled.replicas", kmsg.ConfigTypeList, "", ""},
	{"local.retention.bytes", kmsg.ConfigTypeLong, "-2", "log.local.retention.bytes"},
	{"local.retention.ms", kmsg.ConfigTypeLong, "-2", "log.local.retention.ms"},
	{"max.compaction.lag.ms", kmsg.ConfigTypeLong, "9223372036854775807", "log.cleaner.max.compaction.lag.ms"},
	{"max.decompressed.message.bytes", kmsg.ConfigTypeInt, "2147483639", "max.decompressed.message.bytes"},
	{"max.message.bytes", kmsg.ConfigTypeInt, "1048588", "message.max.bytes"},
	{"message.timestamp.after.max.ms", kmsg.ConfigTypeLong, "3600000", "log.message.timestamp.after.max.ms"},
	{"message.timestamp.before.max.ms", kmsg.ConfigTypeLong, "9223372036854775807", "log.message.timestamp.before.max.ms"},
	{"message.timestamp.type", kmsg.ConfigTypeString, "CreateTime", "log.message.timestamp.type"},
	{"min.cleanable.dirty.ratio", kmsg.ConfigTypeDouble, "0.5", "log.cleaner.min.cleanable.ratio"},
	{"min.compaction.lag.ms", kmsg.ConfigTypeLong, "0", "log.cleaner.min.compaction.lag.ms"},
	{"min.insync.replicas", kmsg.ConfigTypeInt, "1", "min.insync.replicas"},
	{"preallocate", kmsg.ConfigTypeBoolean, "false", "log.preallocate"},
	{"remote.copy.lag.bytes", kmsg.ConfigTypeLong, "-1", "log.remote.copy.lag.bytes"},
	{"remote.copy.lag.ms", kmsg.ConfigTypeLong, "0", "log.remote.copy.lag.ms"},
	{"remote.log.copy.disable", kmsg.ConfigTypeBoolean, "false", ""},
	{"remote.log.delete.on.disable", kmsg.ConfigTypeBoolean, "false", ""},
	{"remote.storage.enable", kmsg.ConfigTypeBoolean, "false", ""},
	{"retention.bytes", kmsg.ConfigTypeLong, "-1", "log.retention.bytes"},
	{"retention.ms", kmsg.ConfigTypeLong, "604800000", ""},
	{"segment.bytes", kmsg.ConfigTypeInt, "1073741824", "log.segment.bytes"},
	{"segment.index.bytes", kmsg.ConfigTypeInt, "10485760", "log.index.size.max.bytes"},
	{"segment.jitter.ms", kmsg.ConfigTypeLong, "0", ""},
	{"segment.ms", kmsg.ConfigTypeLong, "604800000", ""},
	{"unclean.leader.election.enable", kmsg.ConfigTypeBoolean, "false", "unclean.leader.election.enable"},
}

func TestConfigs(t *testing.T) {
	t.Parallel()
	s := newServer(t)

	at(t, "ADM-06 DescribeConfigs lists every topic key with its source", versions(1, 3, 4), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "adm-06", 1, "cleanup.policy", "compact")
		c := s.dial(t)
		plain := s.createTopic(t, "adm-06", 1)
		for _, names := range [][]string{nil, {}} {
			all, errorCode := describeConfigs(c, v, kmsg.ConfigResourceTypeTopic, plain.Name, names)
			wantCode(t, "describe", errorCode, noError)
			got := map[string]configEntry{}
			for _, e := range all {
				got[e.Name] = e
			}
			for _, k := range topicKeys {
				e, ok := got[k.name]
				if !ok {
					t.Errorf("%s is not listed", k.name)
					continue
				}
				delete(got, k.name)
				if deref(e.Value) != k.value || e.ReadOnly || e.IsSensitive {
					t.Errorf("%s: value %s, read only %t, sensitive %t; want %s, false, false", k.name, deref(e.Value), e.ReadOnly, e.IsSensitive, k.value)
				}
				if v >= 3 && (e.ConfigType != k.kind || deref(e.Documentation) == "") {
					t.Errorf("%s: type %s, want %s; documentation %q", k.name, e.ConfigType, k.kind, deref(e.Documentation))
				}
				if k.name == "min.insync.replicas" {
					continue // Kafka writes a dynamic default of 1 when a cluster is formatted
				}
				synonym := ""
				for _, y := range e.ConfigSynonyms {
					synonym += y.Name
				}
				if e.Source != 5 || synonym != k.synonym {
					t.Errorf("%s: source %d, synonyms %q; want 5, %q", k.name, e.Source, synonym, k.synonym)
				}
			}
			for name := range got {
				t.Errorf("%s is listed", name)
			}
		}
		policy := topicConfig(c, v, tp, "cleanup.policy")
		wantConfig(t, policy, "compact", 1)
		if len(policy.ConfigSynonyms) != 2 ||
			policy.ConfigSynonyms[0].Name != "cleanup.policy" || *policy.ConfigSynonyms[0].Value != "compact" || policy.ConfigSynonyms[0].Source != 1 ||
			policy.ConfigSynonyms[1].Name != "log.cleanup.policy" || *policy.ConfigSynonyms[1].Value != "delete" || policy.ConfigSynonyms[1].Source != 5 {
			t.Errorf("synonyms are %+v", policy.ConfigSynonyms)
		}
		wantConfig(t, topicConfig(c, v, tp, "retention.ms"), "604800000", 5)
		wantConfig(t, topicConfig(c, v, tp, "segment.bytes"), "1073741824", 5)
		wantConfig(t, topicConfig(c, v, tp, "max.message.bytes"), "1048588", 5)
		if v >= 3 {
			want(t, "type of retention.ms", topicConfig(c, v, tp, "retention.ms").ConfigType, kmsg.ConfigTypeLong)
			want(t, "type of cleanup.policy", topicConfig(c, v, tp, "cleanup.policy").ConfigType, kmsg.ConfigTypeList)
		}
		got, errorCode := describeConfigs(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, []string{"nope", "preallocate"})
		wantCode(t, "an unknown name among known ones", errorCode, noError)
		want(t, "entries", len(got), 1)
		got, errorCode = describeConfigs(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, []string{"nope"})
		wantCode(t, "an unknown name", errorCode, noError)
		want(t, "entries", len(got), 0)
		_, errorCode = describeConfigs(c, v, kmsg.ConfigResourceTypeTopic, fresh("ghost"), nil)
		wantCode(t, "ghost", errorCode, unknownTopicOrPart)
		_, errorCode = describeConfigs(c, v, kmsg.ConfigResourceTypeTopic, "a b", nil)
		wantCode(t, "illegal name", errorCode, invalidTopic)
		_, errorCode = describeConfigs(c, v, kmsg.ConfigResourceTypeBroker, "77", nil)
		wantCode(t, "another broker", errorCode, invalidRequest)
	})

	at(t, "ADM-09 setting a value equal to the default is remembered", versions(0, 1), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "adm-09", 1)
		c := s.dial(t)
		wantConfig(t, topicConfig(c, 4, tp, "cleanup.policy"), "delete", 5)
		set := incrementalAlter(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, false, alter{"cleanup.policy", opSet, ptr("delete")})
		wantCode(t, "set", set.ErrorCode, noError)
		s.await(t, "source 1", func() bool { return topicConfig(c, 4, tp, "cleanup.policy").Source == 1 })
		wantConfig(t, topicConfig(c, 4, tp, "cleanup.policy"), "delete", 1)
		gone := incrementalAlter(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, false, alter{"cleanup.policy", opDelete, nil})
		wantCode(t, "delete", gone.ErrorCode, noError)
		s.await(t, "source 5", func() bool { return topicConfig(c, 4, tp, "cleanup.policy").Source == 5 })
		wantConfig(t, topicConfig(c, 4, tp, "cleanup.policy"), "delete", 5)
		again := incrementalAlter(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, false, alter{"cleanup.policy", opDelete, nil})
		wantCode(t, "delete what is not set", again.ErrorCode, noError)
	})

	at(t, "ADM-11 legacy AlterConfigs replaces the whole set", versions(0, 2), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "adm-11", 1)
		c := s.dial(t)
		set := incrementalAlter(c, 1, kmsg.ConfigResourceTypeTopic, tp.Name, false,
			alter{"retention.ms", opSet, ptr("1000000")}, alter{"flush.messages", opSet, ptr("7")})
		wantCode(t, "set", set.ErrorCode, noError)
		s.await(t, "flush.messages is set", func() bool { return topicConfig(c, 4, tp, "flush.messages").Source == 1 })
		legacy := func(validateOnly bool, pairs ...string) kmsg.AlterConfigsResponseResource {
			t.Helper()
			req := kmsg.NewPtrAlterConfigsRequest()
			req.ValidateOnly = validateOnly
			rr := kmsg.NewAlterConfigsRequestResource()
			rr.ResourceType, rr.ResourceName = kmsg.ConfigResourceTypeTopic, tp.Name
			for i := 0; i < len(pairs); i += 2 {
				k := kmsg.NewAlterConfigsRequestResourceConfig()
				k.Name, k.Value = pairs[i], &pairs[i+1]
				rr.Configs = append(rr.Configs, k)
			}
			req.Resources = append(req.Resources, rr)
			return ask[*kmsg.AlterConfigsResponse](c, v, req).Resources[0]
		}
		wantCode(t, "validate only", legacy(true, "retention.ms", "5").ErrorCode, noError)
		wantCode(t, "bad value", legacy(false, "retention.ms", "x").ErrorCode, invalidConfig)
		wantConfig(t, topicConfig(c, 4, tp, "retention.ms"), "1000000", 1)
		wantCode(t, "replace", legacy(false, "retention.ms", "2000000").ErrorCode, noError)
		s.await(t, "flush.messages is back", func() bool { return topicConfig(c, 4, tp, "flush.messages").Source == 5 })
		wantConfig(t, topicConfig(c, 4, tp, "retention.ms"), "2000000", 1)
		wantConfig(t, topicConfig(c, 4, tp, "flush.messages"), "9223372036854775807", 5)
	})

	at(t, "IncrementalAlterConfigs: lists, refusals, all or nothing", versions(0, 1), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "incremental", 1)
		c := s.dial(t)
		do := func(alters ...alter) int16 {
			t.Helper()
			return incrementalAlter(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, false, alters...).ErrorCode
		}
		wantCode(t, "append", do(alter{"cleanup.policy", opAppend, ptr("compact")}), noError)
		s.await(t, "delete,compact", func() bool { return *topicConfig(c, 4, tp, "cleanup.policy").Value == "delete,compact" })
		wantCode(t, "append again", do(alter{"cleanup.policy", opAppend, ptr("compact")}), noError)
		wantCode(t, "subtract", do(alter{"cleanup.policy", opSubtract, ptr("delete")}), noError)
		s.await(t, "compact", func() bool { return *topicConfig(c, 4, tp, "cleanup.policy").Value == "compact" })
		wantCode(t, "append to what is no list", do(alter{"retention.ms", opAppend, ptr("1")}), invalidConfig)
		wantCode(t, "one of two is bad", do(alter{"retention.ms", opSet, ptr("5")}, alter{"segment.ms", opSet, ptr("0")}), invalidConfig)
		want(t, "source of retention.ms", topicConfig(c, 4, tp, "retention.ms").Source, 5)
		wantCode(t, "unknown key", do(alter{"nope", opSet, ptr("1")}), invalidConfig)
		wantCode(t, "unknown key deleted", do(alter{"nope", opDelete, nil}), noError)
		wantCode(t, "null value", do(alter{"retention.ms", opSet, nil}), invalidRequest)
		wantCode(t, "key twice", do(alter{"retention.ms", opSet, ptr("1")}, alter{"retention.ms", opSet, ptr("2")}), invalidRequest)
		got := incrementalAlter(c, v, kmsg.ConfigResourceTypeTopic, tp.Name, true, alter{"retention.ms", opSet, ptr("5")})
		wantCode(t, "validate only", got.ErrorCode, noError)
		want(t, "source of retention.ms", topicConfig(c, 4, tp, "retention.ms").Source, 5)
		got = incrementalAlter(c, v, kmsg.ConfigResourceTypeTopic, fresh("ghost"), false, alter{"retention.ms", opSet, ptr("5")})
		wantCode(t, "ghost", got.ErrorCode, unknownTopicOrPart)
	})

	t.Run("a changed config takes effect", func(t *testing.T) {
		tp := s.createTopic(t, "effect", 1)
		c := s.dial(t)
		big := batch{Records: []rec{{Value: incompressible(5000)}}}
		mustProduce(c, tp, 0, big)
		got := incrementalAlter(c, 1, kmsg.ConfigResourceTypeTopic, tp.Name, false, alter{"max.message.bytes", opSet, ptr("1000")})
		wantCode(t, "set", got.ErrorCode, noError)
		s.await(t, "a large batch is refused", func() bool { return produce(c, 9, tp, 0, big.bytes(t)).ErrorCode == messageTooLarge })
	})

	at(t, "ListConfigResources", versions(0, 1), func(t *testing.T, v int16) {
		tp := s.createTopic(t, "resources", 1)
		c := s.dial(t)
		req := kmsg.NewPtrListConfigResourcesRequest()
		if v >= 1 {
			req.ResourceTypes = []int8{2}
		}
		res := ask[*kmsg.ListConfigResourcesResponse](c, v, req)
		wantCode(t, "list", res.ErrorCode, noError)
		found := slices.ContainsFunc(res.ConfigResources, func(r kmsg.ListConfigResourcesResponseConfigResource) bool { return r.Name == tp.Name })
		want(t, "topic is listed", found, v >= 1) // v0 lists client metrics only
		if v < 1 {
			return
		}
		req.ResourceTypes = nil
		res = ask[*kmsg.ListConfigResourcesResponse](c, v, req)
		kinds := map[int8]bool{}
		for _, r := range res.ConfigResources {
			kinds[r.Type] = true
		}
		want(t, "topics", kinds[2], true)
		want(t, "brokers", kinds[4], true)
		req.ResourceTypes = []int8{99}
		wantCode(t, "unknown type", ask[*kmsg.ListConfigResourcesResponse](c, v, req).ErrorCode, unsupportedVersion)
	})
}

func TestBrokerConfigs(t *testing.T) {
	t.Parallel()
	s := newServer(t, "-c", "ssl.keystore.password=hush-hush", "-c", "log.retention.ms=12345678")

	at(t, "ADM-07 sensitive values are hidden", versions(1, 4), func(t *testing.T, v int16) {
		c := s.dial(t)
		all, errorCode := describeConfigs(c, v, kmsg.ConfigResourceTypeBroker, "1", nil)
		wantCode(t, "describe", errorCode, noError)
		var found bool
		for _, e := range all {
			for _, y := range e.ConfigSynonyms {
				if y.Value != nil && *y.Value == "hush-hush" {
					t.Errorf("a synonym of %s shows the password", e.Name)
				}
			}
			if e.Value != nil && *e.Value == "hush-hush" {
				t.Errorf("%s shows the password", e.Name)
			}
			if e.Name == "ssl.keystore.password" {
				found = true
				if !e.IsSensitive || e.Value != nil {
					t.Errorf("sensitive %t, value null %t", e.IsSensitive, e.Value == nil)
				}
				for _, y := range e.ConfigSynonyms {
					if y.Value != nil {
						t.Errorf("synonym %s has value %s", y.Name, *y.Value)
					}
				}
			}
		}
		want(t, "ssl.keystore.password is listed", found, true)
	})

	t.Run("a value of the broker is a topic's default", func(t *testing.T) {
		tp := s.createTopic(t, "broker-value", 1)
		c := s.dial(t)
		got := topicConfig(c, 4, tp, "retention.ms")
		wantConfig(t, got, "12345678", 4)
		want(t, "first synonym", fmt.Sprint(got.ConfigSynonyms[0].Name, " ", *got.ConfigSynonyms[0].Value), "log.retention.ms 12345678")
	})

	t.Run("a dynamic default of the cluster", func(t *testing.T) {
		tp := s.createTopic(t, "cluster-default", 1)
		c := s.dial(t)
		got := incrementalAlter(c, 1, kmsg.ConfigResourceTypeBroker, "", false, alter{"log.retention.ms", opSet, ptr("7654321")})
		wantCode(t, "set", got.ErrorCode, noError)
		s.await(t, "the topic shows it", func() bool { return *topicConfig(c, 4, tp, "retention.ms").Value == "7654321" })
		wantConfig(t, topicConfig(c, 4, tp, "retention.ms"), "7654321", 3)
		got = incrementalAlter(c, 1, kmsg.ConfigResourceTypeBroker, "1", false, alter{"node.id", opSet, ptr("5")})
		wantCode(t, "a config that is not dynamic", got.ErrorCode, invalidRequest)
		got = incrementalAlter(c, 1, kmsg.ConfigResourceTypeBroker, "", false, alter{"log.retention.ms", opDelete, nil})
		wantCode(t, "delete", got.ErrorCode, noError)
	})
}
