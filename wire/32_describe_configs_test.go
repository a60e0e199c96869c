package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// describeConfigs describes one resource with synonyms and documentation; no names mean all configs.
func (b *broker) describeConfigs(version int16, kind int8, name string, names ...string) kmsg.DescribeConfigsResponseResource {
	b.t.Helper()
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms, req.IncludeDocumentation = version, true, true
	q := kmsg.NewDescribeConfigsRequestResource()
	q.ResourceType, q.ResourceName, q.ConfigNames = kmsg.ConfigResourceType(kind), name, names
	req.Resources = append(req.Resources, q)
	resp := ask[*kmsg.DescribeConfigsResponse](b, req)
	if len(resp.Resources) != 1 || resp.Resources[0].ResourceName != name || int8(resp.Resources[0].ResourceType) != kind {
		b.t.Fatalf("describe %d %q: got %+v, want that resource", kind, name, resp.Resources)
	}
	return resp.Resources[0]
}

// config renders one config as "value source readOnly sensitive type: synonym=value(source) …"; "" when it is not listed.
func (b *broker) config(kind int8, name, config string) string {
	b.t.Helper()
	r := b.describeConfigs(4, kind, name, config)
	if r.ErrorCode != 0 {
		b.t.Fatalf("describe %d %q: error %d %s", kind, name, r.ErrorCode, *r.ErrorMessage)
	}
	if len(r.Configs) == 0 {
		return ""
	}
	return render(r.Configs[0])
}

func render(c describedConfig) string {
	var w strings.Builder
	fmt.Fprintf(&w, "%s %d", text(c.Value), c.Source)
	if c.ReadOnly {
		w.WriteString(" readonly")
	}
	if c.IsSensitive {
		w.WriteString(" sensitive")
	}
	fmt.Fprintf(&w, " type %d:", c.ConfigType)
	for _, y := range c.ConfigSynonyms {
		fmt.Fprintf(&w, " %s=%s(%d)", y.Name, text(y.Value), y.Source)
	}
	return w.String()
}

func text(s *string) string {
	if s == nil {
		return "null"
	}
	return *s
}

// wantConfigs holds rendered configs against what is wanted: pairs of a config's name and its rendering.
func (b *broker) wantConfigs(kind int8, name string, pairs ...string) {
	b.t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if got := b.config(kind, name, pairs[i]); got != pairs[i+1] {
			b.t.Errorf("%s of %d %q: got %s, want %s", pairs[i], kind, name, got, pairs[i+1])
		}
	}
}

func TestDescribeTopicConfigs(t *testing.T) {
	atVersions(t, "ADM-06", 32, 0, func(t *testing.T, version int16) {
		b := newBroker(t, map[string]string{"log.retention.hours": "24", "log.roll.ms": "1000000", "message.max.bytes": "2000"})
		b.topic("t", 1, "cleanup.policy", "compact", "internal.segment.bytes", "1000")
		all := b.describeConfigs(version, kindTopic, "t")
		if all.ErrorCode != 0 || text(all.ErrorMessage) != "" {
			t.Fatalf("error %d %q, want none", all.ErrorCode, text(all.ErrorMessage))
		}
		var names, want []string
		for _, c := range all.Configs {
			names = append(names, c.Name)
			if c.ReadOnly || c.IsSensitive {
				t.Errorf("%s: read only %t, sensitive %t, want neither", c.Name, c.ReadOnly, c.IsSensitive)
			}
			if version >= 3 && (c.ConfigType == 0 || text(c.Documentation) == "null") {
				t.Errorf("%s: type %d, documentation %q", c.Name, c.ConfigType, text(c.Documentation))
			}
		}
		for _, d := range storage.TopicConfigs() {
			want = append(want, d.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("got %v, want %v", names, want)
		}
		b.wantConfigs(kindTopic, "t",
			"cleanup.policy", "compact 1 type 7: cleanup.policy=compact(1) log.cleanup.policy=delete(5)",
			"internal.segment.bytes", "1000 1 type 3: internal.segment.bytes=1000(1)",
			"max.message.bytes", "2000 4 type 3: message.max.bytes=2000(4) message.max.bytes=1048588(5)",
			// Only log.retention.ms is looked at.
			"retention.ms", "86400000 5 type 5:",
			"segment.ms", "1000000 4 type 5: log.roll.ms=1000000(4) log.roll.hours=168(5)",
			"flush.ms", "9223372036854775807 5 type 5:",
			"min.insync.replicas", "1 3 type 3: min.insync.replicas=1(3) min.insync.replicas=1(5)",
			"nope", "")
		b.topic("plain", 1)
		if got := b.config(kindTopic, "plain", "internal.segment.bytes"); got != "" {
			t.Errorf("an internal config that is not set: got %s, want none", got)
		}
		for _, x := range []struct {
			kind  int8
			name  string
			error int16
		}{
			{kindTopic, "ghost", 3}, {kindTopic, "a b", 17}, {kindTopic, "", 17},
			{kindBroker, "77", 42}, {kindBroker, "x", 42}, {kindBroker, "01", 0}, {kindBroker, "", 0},
			{kindBrokerLogger, "", 42}, {kindBrokerLogger, "7", 42}, {kindBrokerLogger, "1", 0},
			{kindClientMetrics, "", 42}, {kindClientMetrics, "any", 0}, {kindGroup, "", 42}, {kindGroup, "any", 0},
			{99, "z", 42}, {0, "z", 42},
		} {
			r := b.describeConfigs(version, x.kind, x.name)
			if r.ErrorCode != x.error || x.error != 0 && len(r.Configs) > 0 || x.error == 0 && len(r.Configs) == 0 {
				t.Errorf("%d %q: got error %d and %d configs, want error %d", x.kind, x.name, r.ErrorCode, len(r.Configs), x.error)
			}
		}
	})
}

func TestDescribeAnswersResourcesOneByOne(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 1)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	for _, name := range []string{"ghost", "t"} {
		q := kmsg.NewDescribeConfigsRequestResource()
		q.ResourceType, q.ResourceName = kmsg.ConfigResourceTypeTopic, name
		req.Resources = append(req.Resources, q)
	}
	r := ask[*kmsg.DescribeConfigsResponse](b, req).Resources
	if len(r) != 2 || r[0].ErrorCode != 3 || r[1].ErrorCode != 0 {
		t.Fatalf("got %+v, want error 3 for the first and the second described", r)
	}
	if c := r[1].Configs[0]; len(c.ConfigSynonyms) != 0 || c.Documentation != nil {
		t.Errorf("got %d synonyms and documentation %q, want none unasked", len(c.ConfigSynonyms), text(c.Documentation))
	}
	// A kind that nobody knows fails all of them.
	q := kmsg.NewDescribeConfigsRequestResource()
	q.ResourceType = 99
	req.Resources = append(req.Resources, q)
	for i, got := range ask[*kmsg.DescribeConfigsResponse](b, req).Resources {
		if got.ErrorCode != 42 || len(got.Configs) > 0 {
			t.Errorf("resource %d beside one of kind 99: error %d and %d configs, want 42 and none", i, got.ErrorCode, len(got.Configs))
		}
	}
}

func TestDescribeBoundsItsAnswer(t *testing.T) {
	b := newBroker(t, nil)
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version = 4
	for range maxDescribed/len(b.s.config.describeBroker()) + 2 {
		q := kmsg.NewDescribeConfigsRequestResource()
		q.ResourceType, q.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		req.Resources = append(req.Resources, q)
	}
	resp, err := b.s.describeConfigs(&b.r, req)
	if err != nil {
		t.Fatal(err)
	}
	first, last := resp.Resources[0], resp.Resources[len(resp.Resources)-1]
	if first.ErrorCode != 0 || last.ErrorCode != 42 || len(last.Configs) != 0 {
		t.Errorf("first error %d, last error %d with %d configs, want 0, then 42 with none", first.ErrorCode, last.ErrorCode, len(last.Configs))
	}
}

func TestDescribeBrokerConfigs(t *testing.T) {
	atVersions(t, "ADM-07", 32, 0, func(t *testing.T, version int16) {
		b := newBroker(t, map[string]string{
			"ssl.keystore.password": "hush-hush", "node.id": "1", "log.retention.hours": "24", "offsets.topic.replication.factor": "1",
		})
		all := b.describeConfigs(version, kindBroker, "1")
		if all.ErrorCode != 0 || len(all.Configs) < 350 {
			t.Fatalf("error %d with %d configs, want none with all of them", all.ErrorCode, len(all.Configs))
		}
		for _, c := range all.Configs {
			if strings.Contains(render(c), "hush-hush") {
				t.Errorf("%s shows the password: %s", c.Name, render(c))
			}
			if d, _ := brokerConfigDef(c.Name); d == nil || d.Internal {
				t.Errorf("%s is listed", c.Name)
			}
		}
		b.wantConfigs(kindBroker, "1",
			"ssl.keystore.password", "null 4 sensitive type 9: ssl.keystore.password=null(4)",
			"ssl.key.password", "null 5 sensitive type 9:",
			"node.id", "1 4 readonly type 3: node.id=1(4)",
			"broker.id", "1 4 readonly type 3: broker.id=1(4) broker.id=-1(5)",
			"log.retention.ms", "null 5 type 5:",
			"log.retention.hours", "24 4 readonly type 3: log.retention.hours=24(4) log.retention.hours=168(5)",
			"offsets.topic.replication.factor", "1 4 readonly type 4: offsets.topic.replication.factor=1(4) offsets.topic.replication.factor=3(5)",
			"gateway.durability", "sync 5 readonly type 2: gateway.durability=sync(5)",
			"log.initial.task.delay.ms", "")
		b.wantConfigs(kindBroker, "", "min.insync.replicas", "1 3 type 3: min.insync.replicas=1(3)", "node.id", "")
	})
}
