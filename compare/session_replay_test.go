package compare_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/kaen-log/gateway/compare"
)

// recordSession runs clients through a proxy to upstream and returns the session.
func recordSession(t *testing.T, upstream string, clients func(addr string)) []byte {
	t.Helper()
	var session bytes.Buffer
	p, err := compare.ListenProxy(t.Context(), "127.0.0.1:0", upstream, &session, func(line string) { t.Log(line) })
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- p.Run(ctx) }()
	clients(p.Addr())
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return session.Bytes()
}

func newClient(t *testing.T, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

// talk does what an application does: a topic, records of two producers at once, and a consumer that reads them all. It
// wants only the proxy to be spoken to.
func talk(t *testing.T, addr string) {
	t.Helper()
	dialed := &dials{}
	admin := newClient(t, kgo.SeedBrokers(addr), kgo.Dialer(dialed.dial))
	defer admin.Close()
	if _, err := kadm.NewClient(admin).CreateTopic(t.Context(), 2, 1, map[string]*string{"retention.ms": kadm.StringPtr("-1")}, "orders"); err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	for i := range 2 {
		both.Go(func() {
			cl := newClient(t, kgo.SeedBrokers(addr), kgo.Dialer(dialed.dial), kgo.DefaultProduceTopic("orders"), kgo.RecordPartitioner(kgo.ManualPartitioner()),
				kgo.ProducerBatchCompression(kgo.ZstdCompression()))
			defer cl.Close()
			for n := range 20 {
				r := &kgo.Record{Partition: int32(i), Key: fmt.Appendf(nil, "key %d", n), Value: fmt.Appendf(nil, "value %d", n)}
				if err := cl.ProduceSync(t.Context(), r).FirstErr(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	both.Wait()
	cl := newClient(t, kgo.SeedBrokers(addr), kgo.Dialer(dialed.dial), kgo.ConsumeTopics("orders"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	for n := 0; n < 40; {
		fetches := cl.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		n += fetches.NumRecords()
	}
	for _, other := range dialed.others(addr) {
		t.Errorf("a client dialed %s, want only the proxy %s", other, addr)
	}
}

// dials notes where clients connect to.
type dials struct {
	mu    sync.Mutex
	addrs []string
}

func (d *dials) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d.mu.Lock()
	d.addrs = append(d.addrs, addr)
	d.mu.Unlock()
	var dialer net.Dialer
	return dialer.DialContext(ctx, network, addr)
}

func (d *dials) others(addr string) []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var out []string
	for _, a := range d.addrs {
		if a != addr {
			out = append(out, a)
		}
	}
	return out
}

// usedGateway is a gateway that has given out producer ids before, so that it gives others than a fresh one.
func usedGateway(t *testing.T) string {
	t.Helper()
	addr := newGateway(t)
	for range 3 {
		cl := newClient(t, kgo.SeedBrokers(addr), kgo.AllowAutoTopicCreation())
		if err := cl.ProduceSync(t.Context(), &kgo.Record{Topic: "before"}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		cl.Close()
	}
	return addr
}

func wantSame(t *testing.T, what string, r *compare.Report, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if _, steps := r.Counts(); r.Differs() || steps < 40 {
		var text strings.Builder
		if err := r.Write(&text, "table", true); err != nil {
			t.Fatal(err)
		}
		t.Errorf("%s: got %d steps, want at least 40 that are all the same:\n%s", what, steps, text.String())
	}
}

// TestRecordedSessionReplaysWithoutDifferences replays what franz-go did onto gateways that give other ids.
func TestRecordedSessionReplaysWithoutDifferences(t *testing.T) {
	session := recordSession(t, newGateway(t), func(addr string) { talk(t, addr) })
	r, err := compare.Replay(t.Context(), bytes.NewReader(session), compare.ReplayOptions{A: usedGateway(t), Name: "s"})
	wantSame(t, "against the recording", r, err)
	r, err = compare.Replay(t.Context(), bytes.NewReader(session), compare.ReplayOptions{A: usedGateway(t), B: newGateway(t), Name: "s"})
	wantSame(t, "against another gateway", r, err)
	var out strings.Builder
	if err := compare.PrintFrames(&out, bytes.NewReader(session), compare.FramesOptions{Deep: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"> CreateTopics v", "< Produce v", "batch of ", "zstd", `key "key 19", value "value 19"`, "opened to ", "closed by the client"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("frames: %q is not printed", want)
		}
	}
	if strings.Contains(out.String(), "does not decode") || strings.Contains(out.String(), "left over") {
		t.Errorf("frames: something does not decode")
	}
}

// TestReplayFindsWrongAnswers seeds one wrong field into one answer at a time.
func TestReplayFindsWrongAnswers(t *testing.T) {
	session := recordSession(t, newGateway(t), func(addr string) { talk(t, addr) })
	for api, field := range map[string]string{
		"CreateTopics": "numPartitions", "Produce": "baseOffset", "Fetch": "highWatermark", "ListOffsets": "offset", "InitProducerId": "errorCode", "Metadata": "isInternal",
	} {
		for _, b := range []string{"", newGateway(t)} {
			seeded := 0
			r, err := compare.ReplayMutated(t.Context(), bytes.NewReader(session), compare.ReplayOptions{A: newGateway(t), B: b, Name: "s"},
				func(side int, e *compare.Event, root *compare.Node) {
					if side == 0 && seeded == 0 {
						if n := find(root, field); n != nil {
							compare.Flip(n)
							seeded = e.Number
						}
					}
				})
			if err != nil {
				t.Fatal(err)
			}
			var found []int
			for _, c := range r.Cases {
				for _, s := range c.Steps {
					if s.Verdict() == compare.Different {
						found = append(found, s.Step)
					}
				}
			}
			if seeded == 0 || len(found) != 1 || found[0] != seeded {
				t.Errorf("%s of %s changed at event %d, against %q: got differences at %v, want there", field, api, seeded, b, found)
			}
		}
	}
}

// find is the first leaf of a name.
func find(n *compare.Node, name string) *compare.Node {
	for _, c := range n.Children {
		if c.Name == name && c.Kind == compare.Leaf {
			return c
		}
		if got := find(c, name); got != nil {
			return got
		}
	}
	return nil
}

// TestTornSessionIsReplayedAsFarAsItGoes cuts a session in its last block.
func TestTornSessionIsReplayedAsFarAsItGoes(t *testing.T) {
	session := recordSession(t, newGateway(t), func(addr string) { talk(t, addr) })
	var said []string
	r, err := compare.Replay(t.Context(), bytes.NewReader(session[:len(session)-1]),
		compare.ReplayOptions{A: newGateway(t), Name: "s", Log: func(line string) { said = append(said, line) }})
	wantSame(t, "torn", r, err)
	if text := strings.Join(said, "\n"); !strings.Contains(text, "torn") {
		t.Errorf("got remarks %q, want one of the torn end", text)
	}
}
