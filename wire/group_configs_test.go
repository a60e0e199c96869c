package wire

import (
	"math"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups"
	"github.com/kaen-log/gateway/storage"
)

// TestConfigTablesOfGroupsAndClientMetrics holds the tables against themselves and the broker's.
func TestConfigTablesOfGroupsAndClientMetrics(t *testing.T) {
	for _, table := range [][]storage.ConfigDef{groupConfigs, clientMetricsConfigs} {
		for i := range table {
			d := &table[i]
			if i > 0 && table[i-1].Name >= d.Name {
				t.Errorf("%s after %s", d.Name, table[i-1].Name)
			}
			if d.Doc == "" || (d.Valid == nil) != (d.ValidText == "") {
				t.Errorf("%s: documentation %q, valid %q", d.Name, d.Doc, d.ValidText)
			}
			if v, err := d.Canonical(d.Default); d.HasDefault && (err != nil || v != d.Default) {
				t.Errorf("%s: default %q is %q, %v", d.Name, d.Default, v, err)
			}
			for _, y := range d.Synonyms {
				b, ok := brokerConfigDef(y.Name)
				if !ok || d.HasDefault && (b.Type != d.Type || b.Default != d.Default) {
					t.Errorf("%s: synonym %s is not there or differs", d.Name, y.Name)
				}
			}
		}
	}
	for _, b := range groupBounds {
		if _, ok := findConfig(groupConfigs, b.name); !ok {
			t.Errorf("bounds of %s, which is not in the table", b.name)
		}
		for _, name := range []string{b.least, b.most} {
			if d, ok := brokerConfigDef(name); name != "" && (!ok || d.Type != storage.ConfigInt) {
				t.Errorf("bound %s of %s is no number of the broker's", name, b.name)
			}
		}
	}
}

func TestAlterGroupConfigs(t *testing.T) {
	atVersions(t, "codes", 44, 0, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.wantConfigs(kindGroup, "g",
			"consumer.session.timeout.ms", "45000 5 type 3: group.consumer.session.timeout.ms=45000(5)",
			"share.auto.offset.reset", "latest 5 type 2: share.auto.offset.reset=latest(5)",
			"streams.assignor.name", "sticky 5 type 2: group.streams.assignors=sticky(5)",
			"streams.num.warmup.replicas", "")
		const session = "group.consumer.session.timeout.ms=45000(5)"
		b.run(version, kindGroup, []altered{
			{"g", []string{"consumer.session.timeout.ms=50000"}, 0, "consumer.session.timeout.ms", "50000 8 type 3: consumer.session.timeout.ms=50000(8) " + session},
			{"g", []string{"consumer.session.timeout.ms=1"}, 40, "consumer.session.timeout.ms", "50000 8 type 3: consumer.session.timeout.ms=50000(8) " + session},
			{"g", []string{"consumer.session.timeout.ms=x"}, 40, "", ""},
			{"g", []string{"consumer.session.timeout.ms+=1"}, 40, "", ""},
			{"g", []string{"consumer.heartbeat.interval.ms=50000"}, 40, "", ""},
			{"g", []string{"consumer.session.timeout.ms=45000", "consumer.heartbeat.interval.ms=15000"}, 0, "", ""},
			{"g", []string{"consumer.assignment.interval.ms=999999"}, 40, "", ""},
			{"g", []string{"share.auto.offset.reset=earliest"}, 0, "share.auto.offset.reset", "earliest 8 type 2: share.auto.offset.reset=earliest(8) share.auto.offset.reset=latest(5)"},
			{"g", []string{"share.auto.offset.reset=by_duration:PT1H"}, 0, "", ""},
			{"g", []string{"share.auto.offset.reset=by_duration:-PT1H"}, 40, "", ""},
			{"g", []string{"share.auto.offset.reset=EARLIEST"}, 40, "", ""},
			{"g", []string{"share.isolation.level=READ_COMMITTED"}, 40, "", ""},
			{"g", []string{"share.record.lock.duration.ms=1"}, 40, "", ""},
			{"g", []string{"share.delivery.count.limit=3"}, 0, "", ""},
			{"g", []string{"share.delivery.count.limit=30"}, 40, "", ""},
			{"g", []string{"streams.num.standby.replicas=9"}, 40, "", ""},
			{"g", []string{"streams.assignor.name=zzz"}, 40, "", ""},
			{"g", []string{"streams.assignor.name=sticky"}, 0, "", ""},
			{"g", []string{"streams.rack.aware.assignment.tags=a,a"}, 40, "", ""},
			{"g", []string{"streams.rack.aware.assignment.tags=a, b"}, 0, "streams.rack.aware.assignment.tags", "a,b 8 type 7: streams.rack.aware.assignment.tags=a,b(8) group.streams.rack.aware.assignment.tags=(5)"},
			{"g", []string{"streams.rack.aware.assignment.tags+=c"}, 40, "", ""},
			{"g", []string{"streams.task.offset.interval.ms=1"}, 40, "", ""},
			{"g", []string{"streams.num.warmup.replicas=1"}, 0, "streams.num.warmup.replicas", "1 8 type 3: streams.num.warmup.replicas=1(8) group.streams.num.warmup.replicas=2(5)"},
			{"g", []string{"errors.deadletterqueue.topic.name=__x"}, 40, "", ""},
			{"g", []string{"nope=1"}, 40, "", ""},
			{"g", []string{"nope-"}, 0, "", ""},
			{"", []string{"consumer.session.timeout.ms=50000"}, 42, "", ""},
		})
		if code := b.replace(2, kindGroup, "g", false); code != 0 {
			t.Errorf("replace by nothing: code %d, want 0", code)
		}
		if names := b.store.ResourceNames(kindGroup); len(names) > 0 {
			t.Errorf("%q have configs, want none", names)
		}
	})
}

func TestShareReset(t *testing.T) {
	for value, ok := range map[string]bool{
		"earliest": true, "latest": true, "by_duration:PT1H": true, "by_duration:P1DT2H3M4.5S": true, "by_duration:pt0s": true,
		"by_duration:PT2H-1M": true, "by_duration:-PT-1H": true, "by_duration:P1D": true,
		"": false, "none": false, "by_duration:": false, "by_duration:PT": false, "by_duration:P": false, "by_duration:P1DT": false,
		"by_duration:1H": false, "by_duration:PT-1S": false, "by_duration:-PT1S": false, "by_duration:-P1D": false, "PT1H": false,
	} {
		if err := shareReset(value); (err == nil) != ok {
			t.Errorf("%q: got %v, want valid %t", value, err, ok)
		}
	}
}

func TestAlterClientMetrics(t *testing.T) {
	atVersions(t, "codes", 44, 0, func(t *testing.T, version int16) {
		b := newBroker(t, nil)
		b.run(version, kindClientMetrics, []altered{
			{"s", []string{"interval.ms=1000"}, 0, "interval.ms", "1000 7 type 3: interval.ms=1000(7)"},
			{"s", []string{"interval.ms=1"}, 42, "interval.ms", "1000 7 type 3: interval.ms=1000(7)"},
			{"s", []string{"interval.ms=x"}, 40, "", ""},
			{"s", []string{"metrics=a,a"}, 0, "metrics", "a 7 type 7: metrics=a(7)"},
			{"s", []string{"metrics+=c"}, 40, "", ""},
			{"s", []string{"metrics-=a"}, 40, "", ""},
			{"s", []string{"metrics=a,,b"}, 40, "", ""},
			{"s", []string{"metrics="}, 0, "metrics", " 7 type 7: metrics=(7)"},
			{"s", []string{"match=zzz"}, 40, "", ""},
			{"s", []string{"match=client_id="}, 40, "", ""},
			{"s", []string{"match=client_id=[a"}, 40, "", ""},
			{"s", []string{"match=client_id=a=b"}, 40, "", ""},
			{"s", []string{"match=nope=a"}, 40, "", ""},
			{"s", []string{"match=client_id=a, client_software_name = x.*"}, 0, "match", "client_id=a,client_software_name = x.* 7 type 7: match=client_id=a,client_software_name = x.*(7)"},
			{"s", []string{"nope=1"}, 42, "", ""},
			{"s", []string{"nope-"}, 0, "", ""},
			{"s", []string{"interval.ms-"}, 0, "interval.ms", "300000 5 type 3:"},
			{"", []string{"interval.ms=1000"}, 42, "", ""},
		})
	})
}

func TestListConfigResources(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("t", 1)
	b.mustAlter(kindClientMetrics, "s", "interval.ms=1000")
	b.mustAlter(kindGroup, "g", "consumer.session.timeout.ms=50000")
	list := func(version int16, kinds ...int8) ([]string, int16) {
		t.Helper()
		req := kmsg.NewPtrListConfigResourcesRequest()
		req.Version, req.ResourceTypes = version, kinds
		resp := ask[*kmsg.ListConfigResourcesResponse](b, req)
		var out []string
		for _, r := range resp.ConfigResources {
			kind := r.Type
			if version == 0 {
				kind = kindClientMetrics
			}
			out = append(out, string('0'+rune(kind))+" "+r.Name)
		}
		return out, resp.ErrorCode
	}
	metrics, group := string('0'+rune(kindClientMetrics))+" s", string('0'+rune(kindGroup))+" g"
	for _, x := range []struct {
		version int16
		kinds   []int8
		want    []string
		code    int16
	}{
		{0, nil, []string{metrics}, 0},
		{1, nil, []string{group, metrics, "8 1", "4 1", "2 t"}, 0},
		{1, []int8{kindTopic, kindGroup}, []string{group, "2 t"}, 0},
		{1, []int8{kindTopic, 99}, nil, 35},
	} {
		got, code := list(x.version, x.kinds...)
		if code != x.code || !slices.Equal(got, x.want) {
			t.Errorf("version %d, kinds %v: got %q and code %d, want %q and %d", x.version, x.kinds, got, code, x.want, x.code)
		}
	}
}

// A group's configs hold from the next question on, within the broker's bounds.
func TestGroupsGetTheirConfigs(t *testing.T) {
	b := newBroker(t, map[string]string{
		"group.consumer.max.session.timeout.ms": "50000", "group.consumer.migration.policy": "Upgrade",
		"group.coordinator.rebalance.protocols": "classic", "group.min.session.timeout.ms": "10",
		"offsets.retention.minutes": "3", "group.initial.rebalance.delay.ms": "0",
	})
	config := b.s.config.Groups(b.store)
	if config.Migration != groups.MigrateUpgrade || !config.ConsumerProtocolRefused || config.MinSessionTimeout != 10*time.Millisecond ||
		config.OffsetsRetention != 3*time.Minute || config.InitialRebalanceDelay != 0 || config.MaxSize != math.MaxInt32 {
		t.Errorf("got %+v, want what the broker's configs say", config)
	}
	want := groups.DefaultGroupConfig()
	if got := config.Group("g"); got != want {
		t.Errorf("group without configs: got %+v, want %+v", got, want)
	}
	// The session timeout was set when the bound was wider.
	if err := b.store.SetResourceConfigs(kindGroup, "g", map[string]string{"consumer.session.timeout.ms": "60000", "consumer.heartbeat.interval.ms": "6000"}); err != nil {
		t.Fatal(err)
	}
	want.ConsumerSessionTimeout, want.ConsumerHeartbeatInterval = 50*time.Second, 6*time.Second
	if got := config.Group("g"); got != want {
		t.Errorf("group with configs: got %+v, want %+v", got, want)
	}
	if got := config.Group("other"); got != groups.DefaultGroupConfig() {
		t.Errorf("another group: got %+v, want the defaults", got)
	}
}
