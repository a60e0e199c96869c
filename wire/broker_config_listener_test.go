package wire

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/auth"
	"github.com/kaen-log/gateway/storage/vfs"
)

const jaasOfAnn = auth.PlainLoginModule + ` required user_ann="hush";`

func TestSASLOfListeners(t *testing.T) {
	c, err := NewBrokerConfig(map[string]string{
		"listener.security.protocol.map":                        "INSIDE:PLAINTEXT, clients:SASL_PLAINTEXT ,OTHERS:SASL_PLAINTEXT,OUTSIDE:SSL,FAR:SASL_SSL,ODD:PLAIN",
		"sasl.enabled.mechanisms":                               " PLAIN , SCRAM-SHA-256,OAUTHBEARER",
		"connections.max.reauth.ms":                             "5000",
		"connection.failed.authentication.delay.ms":             "7",
		"listener.name.clients.plain.sasl.jaas.config":          "  " + jaasOfAnn + " ",
		"listener.name.clients.sasl.server.max.receive.size":    "1000",
		"listener.name.clients.connections.max.reauth.ms":       "3000",
		"listener.name.clients.plain.connections.max.reauth.ms": "-1",
		"listener.name.others.sasl.enabled.mechanisms":          "SCRAM-SHA-512",
		"listener.name.others.ssl.keystore.location":            "/nowhere",
	})
	if err != nil {
		t.Fatal(err)
	}
	l, err := c.SASLOf("CLIENTS")
	if err != nil {
		t.Fatal(err)
	}
	sessions := map[string]time.Duration{"PLAIN": -time.Millisecond, "SCRAM-SHA-256": 3 * time.Second, "OAUTHBEARER": 3 * time.Second}
	if !slices.Equal(l.mechanisms, []string{"PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"}) || !maps.Equal(l.users, map[string]string{"ann": "hush"}) ||
		l.maxFrame != 1000 || l.delay != 7*time.Millisecond || !maps.Equal(l.sessions, sessions) || !slices.Equal(l.NotServed(), []string{"OAUTHBEARER"}) {
		t.Errorf("got %+v", l)
	}
	if l, err = c.SASLOf("OTHERS"); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(l.mechanisms, []string{"SCRAM-SHA-512"}) || l.maxFrame != 524288 || l.sessions["SCRAM-SHA-512"] != 5*time.Second || len(l.users) != 0 || len(l.NotServed()) != 0 {
		t.Errorf("got %+v", l)
	}
	if l, err = c.SASLOf("INSIDE"); l != nil || err != nil {
		t.Errorf("a listener in plain text: %v, %v", l, err)
	}
	for listener, want := range map[string]string{"OUTSIDE": "SSL is not served yet", "FAR": "SASL_SSL is not served yet", "ODD": "ODD:PLAIN", "NEW": "no security protocol for listener NEW"} {
		if _, err := c.SASLOf(listener); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", listener, err, want)
		}
	}
}

func TestSASLFaultsAreAllNamed(t *testing.T) {
	const jaas = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
	for _, c := range []struct {
		config map[string]string
		want   []string
	}{
		{map[string]string{"sasl.enabled.mechanisms": "PLAIN"}, []string{jaas}},
		{map[string]string{"sasl.enabled.mechanisms": ""}, []string{"sasl.enabled.mechanisms is empty"}},
		{map[string]string{"sasl.enabled.mechanisms": "PLAIN", jaas: "x.y.Module required;"}, []string{jaas, "x.y.Module"}},
		{map[string]string{"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256", jaas: "hush", "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": "hush"},
			[]string{jaas, "scram-sha-256.sasl.jaas.config"}},
		{map[string]string{"listener.security.protocol.map": "SASL_PLAINTEXT"}, []string{`"SASL_PLAINTEXT"`, "NAME:PROTOCOL"}},
	} {
		b, err := NewBrokerConfig(c.config)
		if err != nil {
			t.Fatal(err)
		}
		_, err = b.SASLOf("SASL_PLAINTEXT")
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hush") {
				t.Errorf("%v: %v, want %q in it", c.config, err, want)
			}
		}
	}
}

func TestConfigsOfListenersAreKnown(t *testing.T) {
	for name, effect := range map[string]bool{
		"listener.name.clients.plain.sasl.jaas.config":                  true,
		"listener.name.clients.scram-sha-512.sasl.jaas.config":          true,
		"listener.name.clients.sasl.enabled.mechanisms":                 true,
		"listener.name.clients.connections.max.reauth.ms":               true,
		"listener.name.clients.scram-sha-256.connections.max.reauth.ms": true,
		"listener.name.clients.sasl.server.max.receive.size":            true,
		"listener.name.clients.sasl.jaas.config":                        false, // has to name the mechanism
		"listener.name.clients.plain.sasl.enabled.mechanisms":           false,
		"listener.name.clients.ssl.keystore.location":                   false,
		"sasl.enabled.mechanisms":                                       true,
		"sasl.jaas.config":                                              false,
	} {
		if known, _ := KnownBrokerConfig(name); !known || BrokerConfigHasEffect(name) != effect {
			t.Errorf("%s: known %v, effect %v; want effect %v", name, known, BrokerConfigHasEffect(name), effect)
		}
	}
	for _, name := range []string{"listener.name.clients", "listener.name.clients.", "listener.name.clients.no.such", "listener.name.clients.plane.sasl.jaas.config", "plain.sasl.jaas.config"} {
		if known, _ := KnownBrokerConfig(name); known {
			t.Errorf("%s is known", name)
		}
		if _, err := NewBrokerConfig(map[string]string{name: "x"}); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := NewBrokerConfig(map[string]string{"listener.name.clients.connections.max.reauth.ms": "soon"}); err == nil {
		t.Error("a session that lasts soon is taken")
	}
}

func TestUsersAreNotDescribed(t *testing.T) {
	b := newBroker(t, plainOnly())
	req := kmsg.NewPtrDescribeConfigsRequest()
	req.Version, req.IncludeSynonyms = 4, true
	req.Resources = []kmsg.DescribeConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeBroker, ResourceName: "1"}}
	found := false
	for _, e := range ask[*kmsg.DescribeConfigsResponse](b, req).Resources[0].Configs {
		secret := e.Value != nil && strings.Contains(*e.Value, "secret")
		for _, y := range e.ConfigSynonyms {
			secret = secret || y.Value != nil && strings.Contains(*y.Value, "secret")
		}
		if secret {
			t.Errorf("%s tells a password", e.Name)
		}
		if e.Name == "listener.name.sasl_plaintext.plain.sasl.jaas.config" {
			found = e.IsSensitive && e.Value == nil
		}
	}
	if !found {
		t.Error("the users of PLAIN are not described as something sensitive")
	}
}

// TestDynamicSASLHoldsFromTheNextStart changes the configs of a listener as a client does, and starts anew.
func TestDynamicSASLHoldsFromTheNextStart(t *testing.T) {
	fs := vfs.NewMem(vfs.MemOptions{})
	start := func() (*Listener, func()) {
		b := &broker{t: t, dir: "data", fs: fs}
		b.open(plainOnly())
		config, err := NewBrokerConfig(plainOnly())
		if err != nil {
			t.Fatal(err)
		}
		sasl, err := config.SASLOf("SASL_PLAINTEXT") // before the store is open
		if err != nil {
			t.Fatal(err)
		}
		s, err := New(Options{Store: b.store, Config: config, Listeners: []Listener{{Name: "SASL_PLAINTEXT", Listener: newPipeListener(), SASL: sasl}}})
		if err != nil {
			t.Fatal(err)
		}
		return &s.listeners[0], b.stop
	}
	alter := func(mechanisms, jaas string) {
		b := &broker{t: t, dir: "data", fs: fs}
		b.open(plainOnly())
		defer b.stop()
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Version = 1
		r := kmsg.NewIncrementalAlterConfigsRequestResource()
		r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeBroker, "1"
		for name, value := range map[string]string{"sasl.enabled.mechanisms": mechanisms, "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas} {
			c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
			c.Name, c.Value = name, kmsg.StringPtr(value)
			r.Configs = append(r.Configs, c)
		}
		req.Resources = append(req.Resources, r)
		if got := ask[*kmsg.IncrementalAlterConfigsResponse](b, req).Resources[0]; got.ErrorCode != 0 {
			t.Fatalf("alter: code %d, %v", got.ErrorCode, *got.ErrorMessage)
		}
	}
	alter("PLAIN,SCRAM-SHA-256", jaasOfAnn)
	l, stop := start()
	if !slices.Equal(l.SASL.mechanisms, []string{"PLAIN", "SCRAM-SHA-256"}) || !maps.Equal(l.SASL.users, map[string]string{"ann": "hush"}) {
		t.Errorf("mechanisms %v with %d users, want what was set", l.SASL.mechanisms, len(l.SASL.users))
	}
	stop()
	alter("PLAIN", "nonsense")
	l, stop = start()
	if len(l.SASL.users) != 2 {
		t.Errorf("%d users, want those of the file where what was set cannot be read", len(l.SASL.users))
	}
	stop()
}
