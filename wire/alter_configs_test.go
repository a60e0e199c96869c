package wire

import (
	"maps"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ops parses changes: "name=value" sets, "name+=value" appends, "name-=value" subtracts, "name-" deletes, "name!" sets
// null, "name?" is an operation that nobody knows.
func ops(changes []string) []kmsg.IncrementalAlterConfigsRequestResourceConfig {
	var out []kmsg.IncrementalAlterConfigsRequestResourceConfig
	for _, text := range changes {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		name, value, set := strings.Cut(text, "=")
		switch last := name[len(name)-1]; {
		case set && last == '+':
			c.Name, c.Value, c.Op = name[:len(name)-1], &value, kmsg.IncrementalAlterConfigOpAppend
		case set && last == '-':
			c.Name, c.Value, c.Op = name[:len(name)-1], &value, kmsg.IncrementalAlterConfigOpSubtract
		case set:
			c.Name, c.Value = name, &value
		case last == '-':
			c.Name, c.Op = name[:len(name)-1], kmsg.IncrementalAlterConfigOpDelete
		case last == '?':
			c.Name, c.Value, c.Op = name[:len(name)-1], &value, 9
		default: // '!'
			c.Name = name[:len(name)-1]
		}
		out = append(out, c)
	}
	return out
}

// alter makes changes to one resource and returns the code and the message.
func (b *broker) alter(version int16, kind int8, name string, validateOnly bool, changes ...string) (int16, string) {
	b.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version, req.ValidateOnly = version, validateOnly
	q := kmsg.NewIncrementalAlterConfigsRequestResource()
	q.ResourceType, q.ResourceName, q.Configs = kmsg.ConfigResourceType(kind), name, ops(changes)
	req.Resources = append(req.Resources, q)
	r := ask[*kmsg.IncrementalAlterConfigsResponse](b, req).Resources
	if len(r) != 1 || int8(r[0].ResourceType) != kind || r[0].ResourceName != name {
		b.t.Fatalf("alter %d %q: got %+v, want that resource", kind, name, r)
	}
	if (r[0].ErrorCode == 0) != (r[0].ErrorMessage == nil) {
		b.t.Errorf("alter %d %q %v: code %d with message %s", kind, name, changes, r[0].ErrorCode, text(r[0].ErrorMessage))
	}
	return r[0].ErrorCode, text(r[0].ErrorMessage)
}

// mustAlter makes changes that must be taken.
func (b *broker) mustAlter(kind int8, name string, changes ...string) {
	b.t.Helper()
	if code, message := b.alter(1, kind, name, false, changes...); code != 0 {
		b.t.Fatalf("alter %d %q %v: got code %d %s, want 0", kind, name, changes, code, message)
	}
}

// replace is AlterConfigs.
func (b *broker) replace(version int16, kind int8, name string, validateOnly bool, changes ...string) int16 {
	b.t.Helper()
	req := kmsg.NewPtrAlterConfigsRequest()
	req.Version, req.ValidateOnly = version, validateOnly
	q := kmsg.NewAlterConfigsRequestResource()
	q.ResourceType, q.ResourceName = kmsg.ConfigResourceType(kind), name
	for _, c := range ops(changes) {
		k := kmsg.NewAlterConfigsRequestResourceConfig()
		k.Name, k.Value = c.Name, c.Value
		q.Configs = append(q.Configs, k)
	}
	req.Resources = append(req.Resources, q)
	r := ask[*kmsg.AlterConfigsResponse](b, req).Resources
	if len(r) != 1 || int8(r[0].ResourceType) != kind || r[0].ResourceName != name {
		b.t.Fatalf("replace %d %q: got %+v, want that resource", kind, name, r)
	}
	return r[0].ErrorCode
}

// altered is a change, the code it gets, and what the config is then.
type altered struct {
	name    string // of the resource
	changes []string
	code    int16
	config  string // one to look at, "" for none
	want    string // its rendering
}

// run makes changes one after the other. The codes are those of Apache Kafka 4.4.0.
func (b *broker) run(version int16, kind int8, steps []altered) {
	b.t.Helper()
	for _, s := range steps {
		code, message := b.alter(version, kind, s.name, false, s.changes...)
		if code != s.code {
			b.t.Errorf("alter %d %q %v: got code %d %s, want %d", kind, s.name, s.changes, code, message, s.code)
		}
		if s.config == "" {
			continue
		}
		if got := b.config(kind, s.name, s.config); got != s.want {
			b.t.Errorf("%s of %d %q after %v: got %s, want %s", s.config, kind, s.name, s.changes, got, s.want)
		}
	}
}

func TestAlterTopicConfigs(t *testing.T) {
	const policy = "log.cleanup.policy=delete(5)"
	atVersions(t, "ADM-09", 44, 0, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		b.run(version, kindTopic, []altered{
			{"t", []string{"cleanup.policy=delete"}, 0, "cleanup.policy", "delete 1 type 7: cleanup.policy=delete(1) " + policy},
			{"t", []string{"cleanup.policy-"}, 0, "cleanup.policy", "delete 5 type 7: " + policy},
			{"t", []string{"cleanup.policy-"}, 0, "cleanup.policy", "delete 5 type 7: " + policy},
			{"t", []string{"cleanup.policy+=compact"}, 0, "cleanup.policy", "delete,compact 1 type 7: cleanup.policy=delete,compact(1) " + policy},
			{"t", []string{"cleanup.policy+=compact"}, 0, "cleanup.policy", "delete,compact 1 type 7: cleanup.policy=delete,compact(1) " + policy},
			{"t", []string{"cleanup.policy-=delete"}, 0, "cleanup.policy", "compact 1 type 7: cleanup.policy=compact(1) " + policy},
			{"t", []string{"cleanup.policy-=compact"}, 0, "cleanup.policy", " 1 type 7: cleanup.policy=(1) " + policy},
			{"t", []string{"cleanup.policy-", "retention.ms= 77 "}, 0, "retention.ms", "77 1 type 5: retention.ms=77(1)"},
			{"t", []string{"preallocate=TRUE"}, 0, "preallocate", "true 1 type 1: preallocate=true(1) log.preallocate=false(5)"},
			{"t", []string{"min.cleanable.dirty.ratio=0.10"}, 0, "min.cleanable.dirty.ratio", "0.1 1 type 6: min.cleanable.dirty.ratio=0.1(1) log.cleaner.min.cleanable.ratio=0.5(5)"},
			{"t", nil, 0, "", ""},
		})
	})
	atVersions(t, "ADM-05", 44, 0, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.topic("t", 1)
		const before = "604800000 5 type 5:"
		for _, s := range []altered{
			{"t", []string{"nope=1"}, 40, "", "nope"},
			{"t", []string{"cleanup.policy=shred"}, 40, "", "cleanup.policy"},
			{"t", []string{"retention.ms=x"}, 40, "", "retention.ms"},
			{"t", []string{"retention.ms="}, 40, "", "retention.ms"},
			{"t", []string{"message.timestamp.type=createtime"}, 40, "", "message.timestamp.type"},
			{"t", []string{"retention.ms=5", "segment.ms=0"}, 40, "", "segment.ms"},
			{"t", []string{"min.compaction.lag.ms=10", "max.compaction.lag.ms=5"}, 40, "", "min.compaction.lag.ms"},
			{"t", []string{"remote.storage.enable=true"}, 40, "", "remote.storage.enable"},
			{"t", []string{"retention.ms+=1"}, 40, "", "retention.ms"},
			{"t", []string{"retention.ms-=1"}, 40, "", "retention.ms"},
			{"t", []string{"nope+=1"}, 40, "", "nope"},
			{"t", []string{"nope-"}, 0, "", "null"},
			{"t", []string{"retention.ms!"}, 42, "", "retention.ms"},
			{"t", []string{"retention.ms=1", "retention.ms=2"}, 42, "", "retention.ms"},
			{"t", []string{"retention.ms?"}, 42, "", "retention.ms"},
			{"ghost", []string{"retention.ms=5"}, 3, "", "ghost"},
			{"ghost", []string{"nope=5"}, 40, "", "nope"},
			{"", []string{"retention.ms=5"}, 42, "", "topics"},
			{"a b", []string{"retention.ms=5"}, 17, "", "a b"},
		} {
			code, message := b.alter(version, kindTopic, s.name, false, s.changes...)
			if code != s.code || !strings.Contains(message, s.want) {
				t.Errorf("alter %q %.60v: got code %d %q, want %d naming %s", s.name, s.changes, code, message, s.code, s.want)
			}
			if got := b.config(kindTopic, "t", "retention.ms"); got != before {
				t.Errorf("retention.ms after %.60v: got %s, want %s", s.changes, got, before)
			}
		}
		if version > 0 { // which has room for a longer value
			if code, _ := b.alter(version, kindTopic, "t", false, "leader.replication.throttled.replicas="+strings.Repeat("1:1,", 9000)); code != 40 {
				t.Errorf("a value of 36000 bytes: code %d, want 40", code)
			}
		}
		if code, _ := b.alter(version, kindTopic, "t", true, "retention.ms=5"); code != 0 || b.config(kindTopic, "t", "retention.ms") != before {
			t.Errorf("validate only: code %d, then %s; want 0 and %s", code, b.config(kindTopic, "t", "retention.ms"), before)
		}
		if code, _ := b.alter(version, kindTopic, "t", true, "retention.ms=x"); code != 40 {
			t.Errorf("validate only of a bad value: code %d, want 40", code)
		}
		for _, kind := range []int8{0, 1, 99} {
			if code, _ := b.alter(version, kind, "z", false, "retention.ms=5"); code != 42 {
				t.Errorf("kind %d: code %d, want 42", kind, code)
			}
		}
	})
}

func TestAlteringAResourceTwiceIsRefused(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 1)
	b.topic("u", 1)
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.Version = 1
	for _, name := range []string{"t", "u", "t"} {
		q := kmsg.NewIncrementalAlterConfigsRequestResource()
		q.ResourceType, q.ResourceName, q.Configs = kmsg.ConfigResourceTypeTopic, name, ops([]string{"retention.ms=5"})
		req.Resources = append(req.Resources, q)
	}
	r := ask[*kmsg.IncrementalAlterConfigsResponse](b, req).Resources
	if len(r) != 3 || r[0].ErrorCode != 42 || r[1].ErrorCode != 0 || r[2].ErrorCode != 42 {
		t.Errorf("got %+v, want codes 42, 0 and 42", r)
	}
	b.wantConfigs(kindTopic, "t", "retention.ms", "604800000 5 type 5:")
	b.wantConfigs(kindTopic, "u", "retention.ms", "5 1 type 5: retention.ms=5(1)")
}

func TestAlterConfigsReplacesTheWholeSet(t *testing.T) {
	atVersions(t, "ADM-11", 33, 0, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		topic := b.topic("t", 1, "retention.ms", "5", "flush.messages", "7")
		want := func(configs map[string]string) {
			t.Helper()
			if got := topic.Overrides(); !maps.Equal(got, configs) {
				t.Errorf("got %v, want %v", got, configs)
			}
		}
		for _, x := range []struct {
			kind    int8
			name    string
			changes []string
			code    int16
		}{
			{kindTopic, "t", []string{"retention.ms=x"}, 40},
			{kindTopic, "t", []string{"nope=x"}, 40},
			{kindTopic, "t", []string{"retention.ms!"}, 42},
			{kindTopic, "t", []string{"retention.ms=1", "retention.ms=2"}, 42},
			{kindTopic, "ghost", []string{"retention.ms=1"}, 3},
			{kindBrokerLogger, "1", []string{"root=INFO"}, 42},
			{99, "1", nil, 42},
		} {
			if code := b.replace(version, x.kind, x.name, false, x.changes...); code != x.code {
				t.Errorf("replace %d %q %v: got code %d, want %d", x.kind, x.name, x.changes, code, x.code)
			}
		}
		if code := b.replace(version, kindTopic, "t", true, "retention.ms=6"); code != 0 {
			t.Errorf("validate only: code %d, want 0", code)
		}
		want(map[string]string{"retention.ms": "5", "flush.messages": "7"})
		if code := b.replace(version, kindTopic, "t", false, "retention.ms=6"); code != 0 {
			t.Errorf("replace: code %d, want 0", code)
		}
		want(map[string]string{"retention.ms": "6"})
		if code := b.replace(version, kindTopic, "t", false); code != 0 {
			t.Errorf("replace by nothing: code %d, want 0", code)
		}
		want(map[string]string{})
	})
}

func TestAlterLoggers(t *testing.T) {
	b := newBroker(t, nil)
	b.run(1, kindBrokerLogger, []altered{
		{"1", []string{"root=DEBUG"}, 0, "root", "DEBUG 6 type 0:"},
		{"1", []string{"root=debug"}, 40, "root", "DEBUG 6 type 0:"},
		{"1", []string{"root=zzz"}, 40, "", ""},
		{"1", []string{"root-"}, 42, "", ""},
		{"1", []string{"no.such=INFO"}, 40, "", ""},
		{"1", []string{"no.such-"}, 40, "", ""},
		{"1", []string{"root+=INFO"}, 42, "", ""},
		{"1", []string{"root?"}, 42, "", ""},
		{"2", []string{"root=INFO"}, 42, "", ""},
		{"", []string{"root=INFO"}, 42, "", ""},
		{"1", []string{"root=FATAL"}, 0, "root", "FATAL 6 type 0:"},
	})
	if code, _ := b.alter(1, kindBrokerLogger, "1", true, "root=TRACE"); code != 0 || b.config(kindBrokerLogger, "1", "root") != "FATAL 6 type 0:" {
		t.Errorf("validate only: code %d, then %s; want 0 and FATAL", code, b.config(kindBrokerLogger, "1", "root"))
	}
}
