package compat_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

const saslPort = 1 // of newSASLServer's listeners, the one with SASL

// newSASLServer starts a gateway with a listener without SASL and one with all mechanisms, on which PLAIN lets alice in.
func newSASLServer(t testing.TB, args ...string) *server {
	t.Helper()
	return newServer(t, append([]string{
		"-c", "listeners=PLAINTEXT://127.0.0.1:0,CLIENTS://127.0.0.1:0",
		"-c", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
		"-c", "sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"-c", `listener.name.clients.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="alice's secret";`,
	}, args...)...)
}

// saslClient is a client of the listener with SASL.
func (s *server) saslClient(t testing.TB, m sasl.Mechanism, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	return s.client(t, append([]kgo.Opt{kgo.SeedBrokers(s.Listeners[saslPort]), kgo.SASL(m)}, opts...)...)
}

// setPassword makes a user of SCRAM over the listener without SASL.
func (s *server) setPassword(t testing.TB, m kadm.ScramMechanism, user, password string) {
	t.Helper()
	r, err := kadm.NewClient(s.client(t)).AlterUserSCRAMs(within(t), nil, []kadm.UpsertSCRAM{{User: user, Mechanism: m, Iterations: 4096, Password: password}})
	if err == nil {
		err = r.Error()
	}
	if err != nil {
		t.Fatalf("set the password of %s: %v", user, err)
	}
}

var alice = plain.Auth{User: "alice", Pass: "alice's secret"}.AsMechanism()

func scram256(user, password string) sasl.Mechanism {
	return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
}

func scram512(user, password string) sasl.Mechanism {
	return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
}

func TestSASLClientsRoundTrip(t *testing.T) {
	t.Parallel()
	s := newSASLServer(t)
	s.setPassword(t, kadm.ScramSha256, "bob", "bob's secret")
	s.setPassword(t, kadm.ScramSha512, "cal,=", "cal's secret")
	for name, m := range map[string]sasl.Mechanism{
		"PLAIN": alice, "SCRAM-SHA-256": scram256("bob", "bob's secret"), "SCRAM-SHA-512": scram512("cal,=", "cal's secret"),
	} {
		t.Run(name, func(t *testing.T) {
			topic := fresh("orders")
			cl := s.saslClient(t, m, kgo.DefaultProduceTopic(topic))
			if _, err := kadm.NewClient(cl).CreateTopic(within(t), 1, 1, nil, topic); err != nil {
				t.Fatal(err)
			}
			mustProduceSync(t, cl, kgo.StringRecord("a"), kgo.StringRecord("b"))
			consume(t, s.saslClient(t, m, fromStart(topic)), 2)
			// The broker tells the address of the listener that the client came in by.
			meta, err := kadm.NewClient(cl).BrokerMetadata(within(t))
			if err != nil {
				t.Fatal(err)
			}
			host, port, _ := net.SplitHostPort(s.Listeners[saslPort])
			if b := meta.Brokers[0]; b.Host != host || port != fmt.Sprint(b.Port) {
				t.Errorf("clients are told %s:%d, want %s", b.Host, b.Port, s.Listeners[saslPort])
			}
		})
	}
}

func TestSASLClientsAreRefused(t *testing.T) { // SEC-04
	t.Parallel()
	s := newSASLServer(t)
	s.setPassword(t, kadm.ScramSha256, "bob", "bob's secret")
	texts := map[string]string{}
	for _, c := range []struct {
		name, like string // like is a case whose text is the same
		m          sasl.Mechanism
	}{
		{"PLAIN, a wrong password", "", plain.Auth{User: "alice", Pass: "x"}.AsMechanism()},
		{"PLAIN, nobody", "PLAIN, a wrong password", plain.Auth{User: "nobody", Pass: "x"}.AsMechanism()},
		{"SCRAM, a wrong password", "", scram256("bob", "x")},
		{"SCRAM, nobody", "SCRAM, a wrong password", scram256("nobody", "x")},
		{"SCRAM, a user of another mechanism", "", scram512("bob", "bob's secret")},
	} {
		err := s.saslClient(t, c.m).Ping(within(t))
		if !errors.Is(err, kerr.SaslAuthenticationFailed) {
			t.Errorf("%s: %v, want %v", c.name, err, kerr.SaslAuthenticationFailed)
			continue
		}
		texts[c.name] = err.Error()
		if c.like != "" && err.Error() != texts[c.like] {
			t.Errorf("%s: %q; %s: %q", c.name, err, c.like, texts[c.like])
		}
	}
	if err := s.client(t, kgo.SeedBrokers(s.Listeners[saslPort]), kgo.RequestRetries(0)).Ping(within(t)); err == nil {
		t.Error("a client without SASL is served")
	}
}

// handshakes counts the handshakes and the connections of a client.
type handshakes struct{ shaken, connected atomic.Int32 }

func (h *handshakes) OnBrokerWrite(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, err error) {
	if key == 17 && err == nil {
		h.shaken.Add(1)
	}
}

func (h *handshakes) OnBrokerConnect(kgo.BrokerMetadata, time.Duration, net.Conn, error) {
	h.connected.Add(1)
}

// TestSASLSessionsAreRenewed lets a client produce until it has authenticated again on connections that it had.
func TestSASLSessionsAreRenewed(t *testing.T) {
	t.Parallel()
	s := newSASLServer(t, "-c", "connections.max.reauth.ms=2200")
	s.setPassword(t, kadm.ScramSha256, "bob", "bob's secret")
	var h handshakes
	cl := s.saslClient(t, scram256("bob", "bob's secret"), kgo.WithHooks(&h), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(fresh("orders")))
	ctx := within(t)
	for h.shaken.Load() < h.connected.Load()+2 {
		if err := cl.ProduceSync(ctx, kgo.StringRecord("a")).FirstErr(); err != nil {
			t.Fatalf("produce after %d handshakes on %d connections: %v", h.shaken.Load(), h.connected.Load(), err)
		}
	}
}

// TestScramUsersOutliveKills kills the gateway after each change of its users.
func TestScramUsersOutliveKills(t *testing.T) {
	t.Parallel()
	s := newSASLServer(t)
	restart := func() {
		s.Kill9(t)
		s.args = append(s.args[:1:1], append([]string{"listeners=PLAINTEXT://" + s.Listeners[0] + ",CLIENTS://" + s.Listeners[1]}, s.args[2:]...)...)
		s.Start(t)
	}
	s.setPassword(t, kadm.ScramSha256, "bob", "first")
	restart()
	s.setPassword(t, kadm.ScramSha256, "bob", "second")
	s.setPassword(t, kadm.ScramSha512, "bob", "third")
	restart()
	ping := func(m sasl.Mechanism) error { return s.saslClient(t, m).Ping(within(t)) }
	if err := ping(scram256("bob", "first")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("the password before the last: %v", err)
	}
	if err := errors.Join(ping(scram256("bob", "second")), ping(scram512("bob", "third"))); err != nil {
		t.Error(err)
	}
	r, err := kadm.NewClient(s.client(t)).AlterUserSCRAMs(within(t), []kadm.DeleteSCRAM{{User: "bob", Mechanism: kadm.ScramSha256}}, nil)
	if err = errors.Join(err, r.Error()); err != nil {
		t.Fatal(err)
	}
	restart()
	if err := ping(scram256("bob", "second")); !errors.Is(err, kerr.SaslAuthenticationFailed) {
		t.Errorf("a user who was taken away: %v", err)
	}
	if err := ping(scram512("bob", "third")); err != nil {
		t.Error(err)
	}
}

// TestSecretsStayInside looks for passwords in all that the gateway says.
func TestSecretsStayInside(t *testing.T) {
	t.Parallel()
	s := newSASLServer(t, "--log-level", "debug")
	if s.External() {
		t.Skip("needs a gateway's log")
	}
	s.setPassword(t, kadm.ScramSha256, "bob", "hush")
	if err := errors.Join(s.saslClient(t, alice).Ping(within(t)), s.saslClient(t, scram256("bob", "hush")).Ping(within(t))); err != nil {
		t.Fatal(err)
	}
	_ = s.saslClient(t, plain.Auth{User: "alice", Pass: "hush hush"}.AsMechanism()).Ping(within(t))
	configs, err := kadm.NewClient(s.client(t)).DescribeBrokerConfigs(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	jaas := false
	for _, c := range configs[0].Configs {
		jaas = jaas || strings.HasSuffix(c.Key, "plain.sasl.jaas.config")
		for _, y := range c.Synonyms {
			if y.Value != nil && strings.Contains(*y.Value, "secret") {
				t.Errorf("a synonym of config %s tells %q", c.Key, *y.Value)
			}
		}
		if strings.Contains(c.MaybeValue(), "secret") {
			t.Errorf("config %s tells %q", c.Key, c.MaybeValue())
		}
	}
	if !jaas {
		t.Error("no config says that there are users of PLAIN")
	}
	s.Stop(t)
	said := s.out.tail(1 << 20)
	if !strings.Contains(said, "not authenticated") {
		t.Errorf("the log does not tell of the client that failed:\n%s", said)
	}
	for _, secret := range []string{"secret", "hush"} {
		if strings.Contains(said, secret) {
			t.Errorf("the log has %q in it", secret)
		}
	}
}

func TestSecurityThatIsNotServedIsRefused(t *testing.T) {
	t.Parallel()
	newStoppedServer(t, "unused") // skips when there is no binary
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"listeners=SSL://127.0.0.1:0"}, "SSL is not served yet"},
		{[]string{"listeners=SASL_SSL://127.0.0.1:0"}, "SASL_SSL is not served yet"},
		{[]string{"listeners=CLIENTS://127.0.0.1:0"}, "no security protocol for listener CLIENTS"},
		{[]string{"listeners=CLIENTS://127.0.0.1:0", "listener.security.protocol.map=CLIENTS:PLAIN"}, "CLIENTS:PLAIN"},
		{[]string{"listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN"}, "listener.name.sasl_plaintext.plain.sasl.jaas.config"},
		{[]string{"listeners=SASL_PLAINTEXT://127.0.0.1:0", "sasl.enabled.mechanisms=PLAIN", "listener.name.sasl_plaintext.plain.sasl.jaas.config=Hush required"}, "semicolon"},
		{[]string{"listener.name.sasl_plaintext.plain.sasl.jass.config=Hush"}, "unknown config"},
	} {
		args := []string{"serve", "--memory"}
		for _, a := range c.args {
			args = append(args, "-c", a)
		}
		code, out := fails(t, args...)
		if code != 2 || !strings.Contains(out, c.want) || strings.Contains(out, "Hush") {
			t.Errorf("%v: exit %d, %q; want 2 and %q", c.args, code, out, c.want)
		}
	}
}
