package storage

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestTopicConfigTable prints the table, so that a change of it is seen in the diff. Names, types, defaults, valid
// values and broker-level names were compared with what Apache Kafka 4.4.0 prints of its own table:
//
//	java -cp 'libs/*' org.apache.kafka.storage.internals.log.LogConfig
func TestTopicConfigTable(t *testing.T) {
	datadriven.RunTest(t, "testdata/topic_configs", func(t *testing.T, d *datadriven.TestData) string {
		var b strings.Builder
		for _, c := range TopicConfigs() {
			def := "null"
			if c.HasDefault {
				def = fmt.Sprintf("%q", c.Default)
			}
			fmt.Fprintf(&b, "%s: %s, default %s", c.Name, c.Type, def)
			if c.ValidText != "" {
				fmt.Fprintf(&b, ", valid %s", c.ValidText)
			}
			for i, s := range c.Synonyms {
				sep := ", else "
				if i == 0 {
					sep = ", from "
				}
				unit := ""
				if s.Convert != nil {
					one, err := s.Convert("1")
					unit = fmt.Sprintf(" (1 is %s)", one)
					if err != nil {
						t.Errorf("%s converts 1: %v", s.Name, err)
					}
				}
				b.WriteString(sep + s.Name + unit)
			}
			if c.Internal {
				b.WriteString(", internal")
			}
			b.WriteString("\n")
		}
		return b.String()
	})
}

func TestTopicConfigTableIsSound(t *testing.T) {
	names := make([]string, 0, len(topicConfigs))
	for i := range topicConfigs {
		d := &topicConfigs[i]
		names = append(names, d.Name)
		if got, ok := TopicConfigDef(d.Name); !ok || got != d {
			t.Errorf("TopicConfigDef(%q) = %v, %v, want its row", d.Name, got, ok)
		}
		if d.Doc == "" {
			t.Errorf("%s has no doc", d.Name)
		}
		if (d.Valid == nil) != (d.ValidText == "") {
			t.Errorf("%s has a check without a text, or the other way round", d.Name)
		}
		if !d.HasDefault {
			continue
		}
		if v, err := d.Canonical(d.Default); err != nil || v != d.Default {
			t.Errorf("%s: default %q is %q in canonical text, error %v", d.Name, d.Default, v, err)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("the table is not sorted by name: %v", names)
	}
	if _, ok := TopicConfigDef("message.format.version"); ok {
		t.Error("message.format.version is in the table, it went with Kafka 4.0")
	}
}

func TestConfigValuesAsKafkaReadsThem(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"retention.ms", " 100 ", "100"},
		{"retention.ms", "+5", "5"},
		{"retention.ms", "-1", "-1"},
		{"retention.ms", "-2", "error"},
		{"retention.ms", "100x", "error"},
		{"retention.ms", "1e3", "error"},
		{"retention.ms", "", "error"},
		{"retention.ms", "9223372036854775808", "error"},
		{"segment.bytes", "1048575", "error"},
		{"segment.bytes", "1048576", "1048576"},
		{"segment.bytes", "2147483648", "error"},
		{"internal.segment.bytes", "100", "100"},
		{"preallocate", "TRUE", "true"},
		{"preallocate", "yes", "error"},
		{"cleanup.policy", "compact , delete", "compact,delete"},
		{"cleanup.policy", "compact,compact", "compact"},
		{"cleanup.policy", "", ""},
		{"cleanup.policy", "  ", ""},
		{"cleanup.policy", "compact,", "error"},
		{"cleanup.policy", "Compact", "error"},
		{"compression.type", "gzip ", "gzip"},
		{"compression.type", "none", "error"},
		{"compression.gzip.level", "-1", "-1"},
		{"compression.gzip.level", "0", "error"},
		{"compression.gzip.level", "9", "9"},
		{"compression.zstd.level", "23", "error"},
		{"message.timestamp.type", "LogAppendTime", "LogAppendTime"},
		{"message.timestamp.type", "logappendtime", "error"},
		{"min.cleanable.dirty.ratio", "0", "0.0"},
		{"min.cleanable.dirty.ratio", "1", "1.0"},
		{"min.cleanable.dirty.ratio", ".01", "0.01"},
		{"min.cleanable.dirty.ratio", "1e-5", "1.0E-5"},
		{"min.cleanable.dirty.ratio", "1.1", "error"},
		{"min.cleanable.dirty.ratio", "NaN", "error"},
		{"leader.replication.throttled.replicas", "*", "*"},
		{"leader.replication.throttled.replicas", "0:1, 1:2", "0:1,1:2"},
		{"leader.replication.throttled.replicas", "0-1", "error"},
		{"leader.replication.throttled.replicas", "*,0:1", "error"},
	} {
		d, ok := TopicConfigDef(c.name)
		if !ok {
			t.Fatalf("%s is not in the table", c.name)
		}
		got, err := d.Canonical(c.value)
		if err != nil {
			got = "error"
			if e, ok := errors.AsType[*ConfigError](err); !ok || e.Name != c.name || e.Value != c.value {
				t.Errorf("%s=%q: error %#v, want a ConfigError of the two", c.name, c.value, err)
			}
		}
		if got != c.want {
			t.Errorf("%s=%q: got %q (%v), want %q", c.name, c.value, got, err, c.want)
		}
	}
}

func TestTopicConfigsAreCheckedTogether(t *testing.T) {
	for _, c := range []struct {
		what                string
		overrides, defaults map[string]string
		wrong               string // name in the error; "" for none
	}{
		{"nothing set", nil, nil, ""},
		{"unknown name", map[string]string{"retention": "1"}, nil, "retention"},
		{"removed name", map[string]string{"message.downconversion.enable": "true"}, nil, "message.downconversion.enable"},
		{"lags in order", map[string]string{"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "5"}, nil, ""},
		{"lags crossed", map[string]string{"min.compaction.lag.ms": "6", "max.compaction.lag.ms": "5"}, nil, "min.compaction.lag.ms"},
		{"lags crossed by a default", map[string]string{"min.compaction.lag.ms": "6"}, map[string]string{"max.compaction.lag.ms": "5"}, "min.compaction.lag.ms"},
		{"tiered storage", map[string]string{"remote.storage.enable": "true"}, nil, "remote.storage.enable"},
		{"no tiered storage", map[string]string{"remote.storage.enable": "false", "local.retention.ms": "-1"}, nil, ""},
	} {
		_, err := checkTopicConfigs(c.overrides, c.defaults)
		e, ok := errors.AsType[*ConfigError](err)
		if (c.wrong == "") != (err == nil) || err != nil && (!ok || e.Name != c.wrong) {
			t.Errorf("%s: error %v, want one of %q", c.what, err, c.wrong)
		}
	}
}

func TestEveryConfigFaultIsReported(t *testing.T) {
	_, err := checkTopicConfigs(map[string]string{"retention.ms": "x", "segment.ms": "0", "nothing": "1"}, nil)
	for _, name := range []string{"nothing", "retention.ms", "segment.ms"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("error %q does not name %s", err, name)
		}
	}
}

func TestEffectiveTopicConfig(t *testing.T) {
	defaults, err := newTopicDefaults(map[string]string{"retention.ms": "5000", "segment.bytes": "2097152"})
	if err != nil {
		t.Fatal(err)
	}
	if d := defaults.effective(nil); d != defaults.config {
		t.Error("a topic without overrides does not share the default config")
	}
	c := defaults.effective(map[string]string{
		"segment.bytes": "3145728", "cleanup.policy": "compact", "max.compaction.lag.ms": "1000",
		"message.timestamp.type": "LogAppendTime", "compression.type": "zstd",
	})
	if c.RetentionMs != 5000 || c.SegmentBytes != 3145728 || !c.Compact || c.Delete || !c.LogAppendTime || c.CompressionType != "zstd" ||
		c.MaxMessageBytes != 1048588 || c.MinCleanableDirtyRatio != 0.5 {
		t.Errorf("effective config %+v", c)
	}
	if got := c.MaxSegmentMs(); got != 1000 {
		t.Errorf("segment ms of a compacted topic with a lag of 1000: got %d, want 1000", got)
	}
	c = newTopicConfig(map[string]string{"internal.segment.bytes": "100"}, nil)
	if c.SegmentBytes != 100 || !c.Delete || c.Compact || c.MaxSegmentMs() != 604800000 {
		t.Errorf("effective config %+v", c)
	}
	c = newTopicConfig(map[string]string{"cleanup.policy": ""}, nil)
	if c.Delete || c.Compact {
		t.Errorf("with an empty policy delete is %v and compact %v", c.Delete, c.Compact)
	}
}

func TestSynonymUnits(t *testing.T) {
	for _, c := range []struct {
		convert func(string) (string, error)
		in      string
		want    string
	}{
		{hoursToMs, "168", "604800000"}, {hoursToMs, " 1 ", "3600000"}, {hoursToMs, "-1", "-3600000"},
		{hoursToMs, "", "0"}, {hoursToMs, "x", "error"}, {minutesToMs, "10", "600000"},
	} {
		got, err := c.convert(c.in)
		if err != nil {
			got = "error"
		}
		if got != c.want {
			t.Errorf("%q: got %q (%v), want %q", c.in, got, err, c.want)
		}
	}
}
