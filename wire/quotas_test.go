package wire

import (
	"fmt"
	"math"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage/record"
)

// setQuota sets quotas of an entity that must be taken.
func (b *broker) setQuota(entity string, ops ...string) {
	b.t.Helper()
	if code, message := b.alterQuotas(1, false, entity, ops...); code != 0 {
		b.t.Fatalf("%s %v: code %d, %s", entity, ops, code, *message)
	}
}

// bytesOf returns how many bytes a request counts for.
func bytesOf(req kmsg.Request) float64 { return float64(len(frameOf(req, 0)) - lengthSize) }

// restFor returns for how long a client must rest that used an amount at once. Kafka: QuotaUtils.throttleTime.
func restFor(amount, bound float64) time.Duration {
	const window = 10_000
	return time.Duration(math.Round(max(0, (amount/10-bound)/bound*window))) * time.Millisecond
}

func TestProduceIsThrottled(t *testing.T) {
	for _, version := range []int16{3, 13} {
		b := newBroker(t, nil)
		b.topic("orders", 1)
		req := b.produceRequest(version, "orders", produced{0, b.batch("a")})
		throttle := func() int32 {
			t.Helper()
			resp := ask[*kmsg.ProduceResponse](b, req)
			if code := resp.Topics[0].Partitions[0].ErrorCode; code != 0 {
				t.Errorf("code %d, want the batch taken", code)
			}
			return resp.ThrottleMillis
		}
		if got := throttle(); got != 0 {
			t.Errorf("version %d, without a quota: throttle time %d ms", version, got)
		}
		// Two requests are about what ten seconds allow.
		bound := math.Ceil(bytesOf(req) * 2 / 10)
		b.setQuota("client-id=test", fmt.Sprintf("producer_byte_rate=%g", bound))
		for i := range 4 {
			want := restFor(float64(i+1)*bytesOf(req), bound).Milliseconds()
			if got := throttle(); int64(got) != want || (got > 0) != (i >= 2) {
				t.Errorf("version %d, request %d: throttle time %d ms, want %d", version, i, got, want)
			}
		}
		b.r.clientID = "another"
		if got := throttle(); got != 0 {
			t.Errorf("version %d, another client: throttle time %d ms", version, got)
		}
		b.r.clientID = "test"
		b.setQuota("client-id=test", "-producer_byte_rate")
		if got := throttle(); got != 0 {
			t.Errorf("version %d, without the quota: throttle time %d ms", version, got)
		}
	}
}

func TestThrottledProducerStartsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		for _, acks := range []int16{-1, 0} {
			req := s.produceRequest(9, "orders", produced{0, s.batch("a")})
			req.Acks = acks
			s.setQuota("user=ANONYMOUS", "producer_byte_rate=6")
			rest := restFor(bytesOf(req), 6)
			c := s.dial(t)
			began := time.Now()
			if acks == 0 {
				c.send(req)
			} else if resp := c.call(req).(*kmsg.ProduceResponse); int64(resp.ThrottleMillis) != rest.Milliseconds() || rest < 8*time.Second {
				t.Errorf("throttle time %d ms, want %v", resp.ThrottleMillis, rest)
			}
			if d := time.Since(began); d != 0 {
				t.Errorf("acks=%d: it was answered after %v, want at once", acks, d)
			}
			if n := s.s.Stats().Throttled; n == 0 {
				t.Errorf("acks=%d: %d requests throttled, want some", acks, n)
			}
			c.call(versions())
			if d := time.Since(began); d != rest {
				t.Errorf("acks=%d: the request after it was answered after %v, want %v", acks, d, rest)
			}
			s.setQuota("user=ANONYMOUS", "-producer_byte_rate")
		}
	})
}

// A client that must rest holds no memory for the request that it sent all the same.
func TestThrottledConnectionHoldsNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"connections.max.idle.ms": "60000"})
		s.topic("orders", 1)
		req := s.produceRequest(9, "orders", produced{0, s.batch("a")})
		s.setQuota("user=<>", "producer_byte_rate=1")
		c := s.dial(t)
		c.call(req)
		next := s.produceRequest(9, "orders", produced{0, newBatch(record.BuilderOptions{}, s.nowMs(), string(make([]byte, 100_000)))})
		go func() { _, _ = c.Write(frameOf(next, 2)) }() // fails when the connection is closed
		synctest.Wait()
		if got := s.s.requests.used(); got != 0 {
			t.Errorf("%d bytes of requests are charged, want none", got)
		}
		began := time.Now()
		c.expectClosed("a client that may not send for longer than it may be silent")
		if d := time.Since(began); d < 59*time.Second || d > 61*time.Second {
			t.Errorf("it was closed after %v, want 60s", d)
		}
	})
}

func TestFetchIsThrottled(t *testing.T) {
	for _, version := range []int16{4, 7, 12, 18} {
		b := newBroker(t, nil)
		b.topic("orders", 1)
		for range 4 {
			b.mustProduce("orders", 0, b.batch(string(make([]byte, 10_000))))
		}
		fetch := func(maxBytes int32) *kmsg.FetchResponse {
			t.Helper()
			req := b.fetchRequest(version, asked{"orders", 0, 0})
			req.MaxBytes = maxBytes
			return ask[*kmsg.FetchResponse](b, req)
		}
		records := func(resp *kmsg.FetchResponse) int {
			n := 0
			for _, topic := range resp.Topics {
				for _, p := range topic.Partitions {
					n += len(b.batches(p.RecordBatches))
				}
			}
			return n
		}
		if got := records(fetch(1 << 20)); got != 4 {
			t.Fatalf("version %d: %d batches without a quota, want 4", version, got)
		}
		b.setQuota("user=ANONYMOUS", "consumer_byte_rate=2500")
		// Ten seconds' worth is the most that is read, and that is two batches.
		resp := fetch(1 << 20)
		if got := records(resp); got != 2 || resp.ThrottleMillis != 0 {
			t.Errorf("version %d: %d batches and throttle time %d ms, want 2 and none", version, got, resp.ThrottleMillis)
		}
		resp = fetch(1 << 20)
		if len(resp.Topics) != 0 || resp.ErrorCode != 0 || resp.ThrottleMillis < 6000 || resp.ThrottleMillis > 6500 {
			t.Errorf("version %d: %d topics, code %d and throttle time %d ms, want none and about 6 s", version, len(resp.Topics), resp.ErrorCode, resp.ThrottleMillis)
		}
		again := fetch(1 << 20)
		if again.ThrottleMillis != resp.ThrottleMillis {
			t.Errorf("version %d: throttle time %d ms, then %d, want that nothing was counted", version, resp.ThrottleMillis, again.ThrottleMillis)
		}
		b.advance(12 * time.Second)
		if resp = fetch(1 << 20); records(resp) != 2 || resp.ThrottleMillis != 0 {
			t.Errorf("version %d, 12 s later: %d batches and throttle time %d ms, want 2 and none", version, records(resp), resp.ThrottleMillis)
		}
	}
}

// An incremental session is left as it was by an answer that the client did not get.
func TestThrottledFetchKeepsItsSession(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("orders", 2)
	b.mustProduce("orders", 0, b.batch("a"))
	full := b.fetchRequest(12, asked{"orders", 0, 0}, asked{"orders", 1, 0})
	full.SessionEpoch = 0
	b.setQuota("client-id=<>", "consumer_byte_rate=1")
	resp := ask[*kmsg.FetchResponse](b, full)
	if resp.ThrottleMillis == 0 || resp.SessionID != 0 || len(resp.Topics) != 0 {
		t.Fatalf("answer %+v, want a throttle time and no session", resp)
	}
	if n := b.s.Stats().FetchSessions; n != 0 {
		t.Errorf("%d sessions, want none", n)
	}
	b.setQuota("client-id=<>", "-consumer_byte_rate")
	resp = ask[*kmsg.FetchResponse](b, full)
	id := resp.SessionID
	next := func(epoch int32) *kmsg.FetchResponse {
		req := b.fetchRequest(12)
		req.SessionID, req.SessionEpoch = id, epoch
		return ask[*kmsg.FetchResponse](b, req)
	}
	b.mustProduce("orders", 1, b.batch("b"))
	b.setQuota("client-id=<>", "consumer_byte_rate=1")
	if resp = next(1); resp.ThrottleMillis == 0 || resp.SessionID != id || resp.ErrorCode != 0 || len(resp.Topics) != 0 {
		t.Errorf("answer %+v, want a throttle time and nothing else", resp)
	}
	if resp = next(1); resp.ThrottleMillis == 0 || resp.SessionID != 0 || resp.ErrorCode != 0 {
		t.Errorf("answer to an old epoch %+v, want a throttle time and no error, as in Kafka", resp)
	}
	b.setQuota("client-id=<>", "-consumer_byte_rate")
	resp = next(2)
	if resp.ErrorCode != 0 || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 2 {
		t.Errorf("answer %+v, want both partitions: the first still has its record, the second its first", resp)
	}
}

func TestMutationsAreThrottled(t *testing.T) {
	b := newBroker(t, nil)
	b.setQuota("user=ANONYMOUS", "controller_mutation_rate=1") // 11 at once
	create := func(version int16, name string, partitions int32) (int16, int32) {
		t.Helper()
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.Topics = version, append(req.Topics, newTopic(name, partitions, 1))
		resp := ask[*kmsg.CreateTopicsResponse](b, req)
		if len(resp.Topics) != 1 || resp.Topics[0].ErrorCode == 89 && resp.Topics[0].ErrorMessage != nil {
			t.Fatalf("answer %+v, want one topic, and no message with code 89", resp)
		}
		return resp.Topics[0].ErrorCode, resp.ThrottleMillis
	}
	for _, c := range []struct {
		what       string
		version    int16
		name       string
		partitions int32
		code       int16
		throttle   int32
	}{
		{"within the quota", 7, "a", 11, 0, 0},
		{"with nothing left", 7, "b", 5, 0, 0},
		{"owing 5", 7, "c", 1, 89, 5000},
		{"an old version is only throttled", 5, "d", 1, 0, 6000},
		{"what cannot be made is not counted", 7, "d", 1, 36, 0},
	} {
		if code, throttle := create(c.version, c.name, c.partitions); code != c.code || throttle != c.throttle {
			t.Errorf("%s: code %d and throttle time %d ms, want %d and %d", c.what, code, throttle, c.code, c.throttle)
		}
	}
	if _, ok := b.store.Topic("c"); ok {
		t.Error("the refused topic was made")
	}

	grow := func(version int16, topic string, count int32) (int16, int32) {
		t.Helper()
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version = version
		req.Topics = append(req.Topics, kmsg.CreatePartitionsRequestTopic{Topic: topic, Count: count})
		resp := ask[*kmsg.CreatePartitionsResponse](b, req)
		return resp.Topics[0].ErrorCode, resp.ThrottleMillis
	}
	if code, throttle := grow(3, "a", 13); code != 89 || throttle != 6000 {
		t.Errorf("CreatePartitions version 3: code %d and throttle time %d ms, want 89 and 6000", code, throttle)
	}
	if code, throttle := grow(2, "a", 13); code != 0 || throttle != 8000 {
		t.Errorf("CreatePartitions version 2: code %d and throttle time %d ms, want 0 and 8000", code, throttle)
	}
	ask[*kmsg.MetadataResponse](b, metadataOf(12, "by-metadata"))
	if _, ok := b.store.Topic("by-metadata"); ok {
		t.Error("Metadata made a topic over the quota")
	}
	resp := ask[*kmsg.DeleteTopicsResponse](b, deletion(5, []string{"a"}))
	if resp.Topics[0].ErrorCode != 89 || resp.ThrottleMillis != 8000 {
		t.Errorf("DeleteTopics version 5: code %d and throttle time %d ms, want 89 and 8000", resp.Topics[0].ErrorCode, resp.ThrottleMillis)
	}
	resp = ask[*kmsg.DeleteTopicsResponse](b, deletion(4, []string{"a"}))
	if resp.Topics[0].ErrorCode != 0 || resp.ThrottleMillis != 21000 {
		t.Errorf("DeleteTopics version 4: code %d and throttle time %d ms, want 0 and 21000", resp.Topics[0].ErrorCode, resp.ThrottleMillis)
	}
	b.advance(21 * time.Second)
	if code, throttle := create(7, "c", 1); code != 0 || throttle != 0 {
		t.Errorf("with nothing owed: code %d and throttle time %d ms, want neither", code, throttle)
	}
}

// Who authenticated has the quotas of a user, whatever type of principal that is.
func TestQuotasAreOfThePrincipalsName(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("orders", 1)
	b.setQuota("user=CN=ann:x", "producer_byte_rate=1")
	for principal, throttled := range map[string]bool{"User:CN=ann:x": true, "Robot:CN=ann:x": true, "User:CN=ann": false, anonymous: false} {
		b.r.principal = principal
		resp := ask[*kmsg.ProduceResponse](b, b.produceRequest(13, "orders", produced{0, b.batch("a")}))
		if (resp.ThrottleMillis > 0) != throttled {
			t.Errorf("%s: throttle time %d ms, want some %v", principal, resp.ThrottleMillis, throttled)
		}
	}
}

// A member of a share group has the records that it acquired, and rests after them.
func TestShareFetchIsThrottled(t *testing.T) {
	atShareVersions(t, func(t *testing.T, version int16) {
		b := newShareBroker(t, nil)
		b.mustProduce("orders", 0, b.batch(string(make([]byte, 6_000))))
		b.setQuota("client-id=test", "consumer_byte_rate=500")
		resp := b.ask(b.fetchRequest(version, 0, "orders:0")).(*kmsg.ShareFetchResponse)
		if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions[0].AcquiredRecords) != 1 {
			t.Errorf("answer %+v, want a batch acquired", resp)
		}
		if want := int32(2000); resp.ThrottleMillis < want || resp.ThrottleMillis > want*2 { // 6 kB of 5 in ten seconds
			t.Errorf("throttle time %d ms, want somewhat more than %d", resp.ThrottleMillis, want)
		}
	})
}

// A quota of zero cost: what is not set leaves no trace in what is answered and held.
func TestWithoutQuotasNothingIsCounted(t *testing.T) {
	b := newBroker(t, nil)
	b.topic("orders", 1)
	b.setQuota("user=somebody else", "producer_byte_rate=1", "consumer_byte_rate=1", "controller_mutation_rate=1", "request_percentage=1")
	for range 3 {
		resp := ask[*kmsg.ProduceResponse](b, b.produceRequest(13, "orders", produced{0, b.batch("a")}))
		fetched := ask[*kmsg.FetchResponse](b, b.fetchRequest(13, asked{"orders", 0, 0}))
		if resp.ThrottleMillis != 0 || fetched.ThrottleMillis != 0 {
			t.Errorf("throttle times %d and %d ms, want none", resp.ThrottleMillis, fetched.ThrottleMillis)
		}
	}
	if got := b.create(7, false, newTopic("wide", 100, 1)); got[0].ErrorCode != 0 {
		t.Errorf("code %d, want the topic made", got[0].ErrorCode)
	}
	if got, want := b.allQuotas(), 1; len(got) != want || !slices.Contains(got, "user=somebody else: consumer_byte_rate=1 controller_mutation_rate=1 producer_byte_rate=1 request_percentage=1") {
		t.Errorf("quotas %q, want one line of four", got)
	}
}

// busyHandler replaces the handler of Metadata by one that takes the server's clock so long.
func (s *server) busyHandler(took time.Duration) {
	handlers := *apis
	handlers.byKey = append([]*api(nil), apis.byKey...)
	slow := route(3, 0, 13, func(s *Server, r *request, req *kmsg.MetadataRequest) (*kmsg.MetadataResponse, error) {
		s.pause(took)
		return s.metadata(r, req)
	})
	slow.flexibleFrom = apis.find(3).flexibleFrom
	handlers.byKey[3] = &slow
	s.s.apis = &handlers
}

func TestRequestTimeIsThrottled(t *testing.T) {
	for quota, want := range map[string]time.Duration{
		"request_percentage=0.295": 169 * time.Millisecond, // 30 ms, of 29.5 in ten seconds
		"request_percentage=0.01":  time.Second,            // a window at most
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newServer(t, nil)
			s.busyHandler(30 * time.Millisecond)
			c := s.dial(t)
			c.call(metadataOf(9)) // not counted
			s.setQuota("user=ANONYMOUS", quota)
			began := time.Now()
			resp := c.call(metadataOf(9)).(*kmsg.MetadataResponse)
			if got := time.Duration(resp.ThrottleMillis) * time.Millisecond; got != want {
				t.Errorf("%s: throttle time %v, want %v", quota, got, want)
			}
			answered := time.Now()
			if d := answered.Sub(began); d != 30*time.Millisecond {
				t.Errorf("%s: it was answered after %v, want 30ms", quota, d)
			}
			c.call(versions())
			if d := time.Since(answered); d != want {
				t.Errorf("%s: the next one was answered after %v, want %v", quota, d, want)
			}
		})
	}
}

// A client does not pay for the time that the server waits for something else.
func TestWaitsAreNoRequestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.topic("orders", 1)
		s.setQuota("user=ANONYMOUS", "request_percentage=1")
		s.onSync("orders-0", func() error { s.s.pause(3 * time.Second); return nil })
		c := s.dial(t)
		for _, req := range []kmsg.Request{parkedFetch("orders", 5*time.Second), s.produceRequest(9, "orders", produced{0, s.batch("a")})} {
			began := time.Now()
			resp := c.call(req)
			if took := time.Since(began); took < 3*time.Second {
				t.Errorf("key %d was answered after %v, want that it waited", req.Key(), took)
			}
			if ms, _ := resp.(kmsg.ThrottleResponse).Throttle(); ms != 0 {
				t.Errorf("key %d: throttle time %d ms, want none", req.Key(), ms)
			}
		}
	})
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from net.TCPAddr
}

func (c *addressed) RemoteAddr() net.Addr { return &c.from }

// dialFrom connects from an address; what the server does with it is the test's to see.
func (s *server) dialFrom(t *testing.T, ip string) *client {
	t.Helper()
	near, far := net.Pipe()
	s.listener.conns <- &addressed{far, net.TCPAddr{IP: net.ParseIP(ip), Port: 12345}}
	t.Cleanup(func() { _ = near.Close() })
	return &client{t: t, Conn: near}
}

func TestConnectionsOfAnAddressAreTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.setQuota("ip=10.0.0.1", "connection_creation_rate=1")
		for range 10 {
			s.dialFrom(t, "10.0.0.1").call(versions())
		}
		began := time.Now()
		c := s.dialFrom(t, "10.0.0.1")
		s.dialFrom(t, "10.0.0.2").call(versions()) // nobody else waits
		c.expectClosed("the 11th connection of 10")
		if d := time.Since(began); d != time.Second {
			t.Errorf("it was closed after %v, want 1s", d)
		}
		if got := s.s.Stats().Refused; got != 1 {
			t.Errorf("%d connections refused, want 1", got)
		}
		s.setQuota("ip=10.0.0.1", "connection_creation_rate=100")
		s.dialFrom(t, "10.0.0.1").call(versions())
		s.setQuota("ip=10.0.0.1", "-connection_creation_rate")
		s.setQuota("ip=<>", "connection_creation_rate=1")
		for range 11 {
			c = s.dialFrom(t, "fe80::1")
		}
		c.expectClosed("the 11th connection of an address without a quota of its own")
	})
}

func TestConnectionsTurnedAwayAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, nil)
		s.setQuota("ip=10.0.0.1", "connection_creation_rate=1")
		for range 10 + mostTurnedAway {
			s.dialFrom(t, "10.0.0.1")
		}
		synctest.Wait()
		began := time.Now()
		c := s.dialFrom(t, "10.0.0.1")
		c.expectClosed("one more than are left to wait")
		if d := time.Since(began); d != 0 {
			t.Errorf("it was closed after %v, want at once", d)
		}
	})
}

func TestConnectionsWaitForTheirRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t, map[string]string{"max.connection.creation.rate": "2"})
		began := time.Now()
		for range 20 {
			s.dial(t).call(versions())
		}
		if d := time.Since(began); d != 0 {
			t.Errorf("20 connections of 20 took %v, want no time", d)
		}
		s.dial(t).call(versions())
		if d := time.Since(began); d != 500*time.Millisecond {
			t.Errorf("the 21st was answered after %v, want 500ms", d)
		}
	})
}
