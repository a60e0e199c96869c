package wire

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kaen-log/gateway/storage"
	"github.com/kaen-log/gateway/txn"
)

func TestBrokerConfigTable(t *testing.T) {
	if !slices.IsSortedFunc(brokerConfigs, func(a, b brokerDef) int { return strings.Compare(a.Name, b.Name) }) {
		t.Error("the table is not sorted")
	}
	for i := range brokerConfigs {
		d := &brokerConfigs[i]
		if i > 0 && brokerConfigs[i-1].Name == d.Name {
			t.Errorf("%s is there twice", d.Name)
		}
		if d.Doc == "" || (d.Valid == nil) != (d.ValidText == "") {
			t.Errorf("%s: documentation %q, valid %q", d.Name, d.Doc, d.ValidText)
		}
		if d.Sensitive != (d.Type == storage.ConfigPassword) {
			t.Errorf("%s: sensitive %t with type %s", d.Name, d.Sensitive, d.Type)
		}
		if !d.HasDefault {
			continue
		}
		if got := canonicalBroker(d.Name, d.Default); got != d.Default {
			t.Errorf("%s: default %q, canonical %q", d.Name, d.Default, got)
		}
	}
	// What gives topics their defaults may be changed while running, but for the old units.
	for _, topic := range storage.TopicConfigs() {
		for i, y := range topic.Synonyms {
			d, ok := brokerConfigDef(y.Name)
			if !ok || (d.dynamic == clusterWide) != (i == 0) {
				t.Errorf("%s, synonym %d of %s: found %t, or the wrong class", y.Name, i, topic.Name, ok)
			}
			if ok && d.effect != honoured {
				t.Errorf("%s is said to have no effect", y.Name)
			}
		}
	}
}

func TestBrokerConfigFaults(t *testing.T) {
	for _, x := range []struct {
		static map[string]string
		want   string // in the error; "" for none
	}{
		{map[string]string{"num.partitions": " 3 "}, ""},
		{map[string]string{"num.partitons": "3"}, "num.partitions"}, // the nearest
		{map[string]string{"num.partitions": "x"}, "num.partitions"},
		{map[string]string{"gateway.nope": "1"}, "gateway.nope"},
		{map[string]string{"broker.id": "5"}, ""},
		{map[string]string{"broker.id": "5", "node.id": "6"}, "broker.id"},
	} {
		c, err := NewBrokerConfig(x.static)
		if (err != nil) != (x.want != "") || err != nil && !strings.Contains(err.Error(), x.want) {
			t.Errorf("%v: got %v, want an error naming %q", x.static, err, x.want)
		}
		if err == nil && x.static["broker.id"] != "" && c.Int("node.id") != 5 {
			t.Errorf("%v: node.id is %d, want 5", x.static, c.Int("node.id"))
		}
	}
}

func TestTopicDefaultsOfABroker(t *testing.T) {
	for _, x := range []struct {
		static map[string]string
		want   map[string]string // nil for an error
	}{
		{nil, map[string]string{}},
		{map[string]string{"log.retention.hours": "24"}, map[string]string{"retention.ms": "86400000"}},
		{map[string]string{"log.retention.hours": "24", "log.retention.minutes": "1"}, map[string]string{"retention.ms": "60000"}},
		{map[string]string{"log.retention.hours": "24", "log.retention.ms": "-5"}, map[string]string{"retention.ms": "-1"}},
		{map[string]string{"log.retention.hours": "-1"}, map[string]string{"retention.ms": "-1"}},
		{map[string]string{"log.retention.ms": "0"}, nil},
		{map[string]string{"log.roll.ms": "0"}, nil},
		{map[string]string{"log.cleanup.policy": "compact , delete"}, map[string]string{"cleanup.policy": "compact,delete"}},
		{map[string]string{"log.flush.scheduler.interval.ms": "9"}, map[string]string{"flush.ms": "9"}},
	} {
		c, err := NewBrokerConfig(x.static)
		if err != nil {
			t.Fatalf("%v: %v", x.static, err)
		}
		got, err := c.TopicDefaults()
		if (err != nil) != (x.want == nil) || err == nil && !maps.Equal(got, x.want) {
			t.Errorf("%v: got %v, %v; want %v", x.static, got, err, x.want)
		}
	}
}

func TestDynamicBrokerConfigs(t *testing.T) {
	atVersions(t, "layers", 44, 0, func(t *testing.T, version int16) {
		b := newBroker(t, map[string]string{"log.retention.hours": "24", "num.io.threads": "3"})
		b.topic("t", 1)
		const file = "log.retention.hours=24(4) log.retention.hours=168(5)"
		topic := func(want string) {
			t.Helper()
			b.wantConfigs(kindTopic, "t", "retention.ms", want)
		}
		topic("86400000 5 type 5:")
		b.run(version, kindBroker, []altered{
			{"", []string{"log.retention.ms= 7654321"}, 0, "log.retention.ms", " 7654321 3 type 5: log.retention.ms= 7654321(3)"},
		})
		topic("7654321 3 type 5: log.retention.ms= 7654321(3) " + file)
		b.run(version, kindBroker, []altered{
			{"1", []string{"log.retention.ms=111111"}, 0, "log.retention.ms", "111111 2 type 5: log.retention.ms=111111(2) log.retention.ms= 7654321(3) " + file},
		})
		topic("111111 2 type 5: log.retention.ms=111111(2) log.retention.ms= 7654321(3) " + file)
		tt, _ := b.store.Topic("t")
		if got := tt.Config().RetentionMs; got != 111111 {
			t.Errorf("the log follows retention.ms %d, want 111111", got)
		}
		b.wantConfigs(kindBroker, "1", "log.retention.hours", "168 4 readonly type 3: "+file)
		b.run(version, kindBroker, []altered{
			{"", []string{"log.retention.ms-"}, 0, "log.retention.ms", ""},
			{"01", []string{"log.retention.ms-"}, 0, "", ""},
			{"1", []string{"nope=5"}, 0, "nope", "null 2 readonly sensitive type 0: nope=null(2)"},
			{"", []string{"nope=5"}, 0, "nope", "null 3 readonly sensitive type 0: nope=null(3)"},
			{"1", []string{"leader.replication.throttled.rate=1000"}, 0, "leader.replication.throttled.rate", "1000 2 type 5: leader.replication.throttled.rate=1000(2)"},
			{"1", []string{"listener.name.plaintext.ssl.keystore.location=/x"}, 0, "", ""},
			{"1", []string{"listener.security.protocol.map=CLIENTS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT"}, 0, "", ""},
			{"", []string{"num.io.threads=6"}, 0, "num.io.threads", "6 3 type 3: num.io.threads=6(3)"},
			{"", []string{"log.cleanup.policy+=compact"}, 0, "log.cleanup.policy", "delete,compact 3 type 7: log.cleanup.policy=delete,compact(3)"},
			{"", []string{"max.connections.per.ip.overrides=127.0.0.1:4"}, 0, "", ""},
			{"", []string{"min.insync.replicas=2"}, 0, "min.insync.replicas", "2 3 type 3: min.insync.replicas=2(3)"},
		})
		topic("86400000 5 type 5:")
		b.wantConfigs(kindTopic, "t", "min.insync.replicas", "2 3 type 3: min.insync.replicas=2(3) min.insync.replicas=1(5)")
	})
	atVersions(t, "refusals", 44, 0, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.run(version, kindBroker, []altered{
			{"1", []string{"node.id=5"}, 42, "", ""},
			{"", []string{"node.id=5"}, 42, "", ""},
			{"", []string{"node.id-"}, 0, "", ""},
			{"", []string{"node.id+=5"}, 40, "", ""},
			{"", []string{"nope+=5"}, 40, "", ""},
			{"", []string{"log.retention.hours=12"}, 42, "", ""},
			{"2", []string{"log.retention.ms=5"}, 42, "", ""},
			{"x", []string{"log.retention.ms=5"}, 42, "", ""},
			{"", []string{"listeners=PLAINTEXT://127.0.0.1:1"}, 42, "", ""},
			{"1", []string{"listeners=PLAINTEXT://127.0.0.1:1"}, 42, "", ""},
			{"1", []string{"ssl.keystore.password=x"}, 42, "", ""},
			{"", []string{"listener.name.plaintext.ssl.keystore.location=/x"}, 42, "", ""},
			{"", []string{"log.retention.ms=x"}, 42, "", ""},
			{"", []string{"log.retention.ms=0"}, 42, "", ""},
			{"", []string{"log.cleanup.policy=shred"}, 42, "", ""},
			{"", []string{"num.io.threads=100"}, 42, "", ""},
			{"", []string{"max.connections=0"}, 42, "", ""},
			{"", []string{"max.connection.creation.rate=0"}, 42, "", ""},
			{"", []string{"log.cleanup.policy=compact,compact"}, 42, "", ""},
			{"", []string{"max.connections=x"}, 42, "", ""},
			{"", []string{"min.insync.replicas-"}, 40, "", ""},
			{"1", []string{"min.insync.replicas=1"}, 40, "", ""},
			{"1", []string{"log.retention.ms!"}, 42, "", ""},
			{"1", []string{"log.retention.ms=1", "log.retention.ms=2"}, 42, "", ""},
			{"1", []string{"log.retention.ms?"}, 42, "", ""},
			{"1", []string{"log.retention.ms+=2"}, 40, "", ""},
			{"1", []string{"log.segment.bytes=5"}, 42, "", ""},
			{"1", []string{"cordoned.log.dirs=/nope"}, 42, "", ""},
			{"", []string{"cordoned.log.dirs="}, 42, "", ""},
			{"1", []string{"metric.reporters=org.nope.X"}, 42, "", ""},
			{"1", []string{"listener.security.protocol.map=PLAINTEXT:SASL_PLAINTEXT"}, 42, "", ""},
			{"1", []string{"listener.security.protocol.map=CLIENTS:PLAINTEXT"}, 42, "", ""},
			{"1", []string{"listener.security.protocol.map=PLAINTEXT"}, 42, "", ""},
			{"", []string{"log.local.retention.ms=99999999999"}, 42, "", ""},
			{"", []string{"max.connections.per.ip.overrides=zzz"}, 42, "", ""},
			{"", []string{"log.cleaner.min.compaction.lag.ms=100", "log.cleaner.max.compaction.lag.ms=10"}, 42, "", ""},
			{"1", []string{"gateway.durability=async"}, 42, "", ""},
			{"1", []string{"gateway.nope=1"}, 42, "", ""},
		})
		if got := b.store.ResourceNames(kindBroker); len(got) > 0 {
			t.Errorf("configs are kept for %q, want none", got)
		}
		if code := b.replace(0, kindBroker, "", false, "log.retention.ms=5"); code != 40 {
			t.Errorf("replacing what all brokers have, without min.insync.replicas: code %d, want 40", code)
		}
		if code := b.replace(2, kindBroker, "", false, "log.retention.ms=5", "min.insync.replicas=1"); code != 0 {
			t.Errorf("replacing what all brokers have: code %d, want 0", code)
		}
		if code := b.replace(2, kindBroker, "1", false); code != 0 {
			t.Errorf("replacing what this broker has: code %d, want 0", code)
		}
	})
}

func TestConfigsHoldAfterARestart(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 1)
	b.mustAlter(kindTopic, "t", "flush.messages=7")
	b.mustAlter(kindBroker, "", "log.retention.ms=5000", "nope=1")
	b.mustAlter(kindBroker, "1", "message.max.bytes=2000")
	b.mustAlter(kindClientMetrics, "sub", "interval.ms=1000")
	b.mustAlter(kindGroup, "g", "consumer.session.timeout.ms=50000")
	b.stop()
	b.open(nil)
	b.wantConfigs(kindTopic, "t",
		"flush.messages", "7 1 type 5: flush.messages=7(1) log.flush.interval.messages=9223372036854775807(5)",
		"retention.ms", "5000 3 type 5: log.retention.ms=5000(3) log.retention.hours=168(5)",
		"max.message.bytes", "2000 2 type 3: message.max.bytes=2000(2) message.max.bytes=1048588(5)")
	tt, _ := b.store.Topic("t")
	if c := tt.Config(); c.RetentionMs != 5000 || c.MaxMessageBytes != 2000 {
		t.Errorf("the log follows retention.ms %d and max.message.bytes %d, want 5000 and 2000", c.RetentionMs, c.MaxMessageBytes)
	}
	b.wantConfigs(kindClientMetrics, "sub", "interval.ms", "1000 7 type 3: interval.ms=1000(7)")
	b.wantConfigs(kindGroup, "g", "consumer.session.timeout.ms", "50000 8 type 3: consumer.session.timeout.ms=50000(8) group.consumer.session.timeout.ms=45000(5)")
}

func TestDynamicConfigsThatAreNotValidAreIgnored(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 1)
	// As another version of the program may have left them.
	if err := b.store.SetResourceConfigs(kindBroker, "", map[string]string{"log.retention.ms": "x", "message.max.bytes": "2000"}); err != nil {
		t.Fatal(err)
	}
	b.stop()
	b.open(nil)
	b.wantConfigs(kindTopic, "t", "retention.ms", "604800000 5 type 5:", "max.message.bytes", "2000 3 type 3: message.max.bytes=2000(3) message.max.bytes=1048588(5)")
}

func TestConfigsOfTransactions(t *testing.T) {
	c, err := NewBrokerConfig(map[string]string{
		"transaction.state.log.num.partitions": "3", "transaction.state.log.segment.bytes": "2000000", "transaction.state.log.min.isr": "2",
		"transaction.max.timeout.ms": "4000", "transactional.id.expiration.ms": "5000",
		"transaction.abort.timed.out.transaction.cleanup.interval.ms": "6000", "transaction.remove.expired.transaction.cleanup.interval.ms": "7000",
	})
	if err != nil {
		t.Fatal(err)
	}
	want := txn.Config{
		Partitions: 3, SegmentBytes: 2_000_000, MinInSyncReplicas: 2, MaxTimeout: 4 * time.Second,
		IDExpiration: 5 * time.Second, TimeoutInterval: 6 * time.Second, ExpirationInterval: 7 * time.Second,
	}
	if got := c.Transactions(); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if c.Unverified() {
		t.Error("transactions are not verified by default")
	}
	c.SetDynamic(map[string]string{"transaction.partition.verification.enable": "false"}, nil)
	if !c.Unverified() {
		t.Error("transactions are verified after a change to transaction.partition.verification.enable")
	}
}
