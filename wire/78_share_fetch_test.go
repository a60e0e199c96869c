package wire

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/groups/share"
	"github.com/kaen-log/gateway/storage"
)

// shareBroker is a broker with share partitions of the topics orders, of two partitions, and bills, of one, for the
// group "g". Its handlers are asked as the member "m".
type shareBroker struct {
	*broker
	topics map[string]*storage.Topic
}

func newShareBroker(t *testing.T, config map[string]string) *shareBroker {
	t.Helper()
	b := &shareBroker{broker: newBroker(t, config), topics: map[string]*storage.Topic{}}
	b.s.shares = share.New(share.Options{Store: b.store, Now: b.time, Config: b.s.config.Shares(b.store)})
	for _, name := range []string{"orders", "bills"} {
		topic := b.topic(name, int32(len(name)/3)) // 2 and 1
		b.topics[name] = topic
		for p := range topic.Partitions() {
			if err := b.s.shares.Initialize(t.Context(), share.Key{Group: "g", TopicID: topic.ID(), Partition: p}, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return b
}

// shareAPIs are the rows of the handlers.
var shareAPIs = map[int16]api{
	78: route(78, 1, 2, (*Server).shareFetch),
	79: route(79, 1, 2, (*Server).shareAcknowledge),
}

func (b *shareBroker) ask(req kmsg.Request) kmsg.Response {
	b.t.Helper()
	a := shareAPIs[req.Key()]
	resp, err := b.through(&a, req)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp
}

// fetchRequest is a request of the member m for partitions, written as topic:partition.
func (b *shareBroker) fetchRequest(version int16, epoch int32, partitions ...string) *kmsg.ShareFetchRequest {
	req := kmsg.NewPtrShareFetchRequest()
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch = version, kmsg.StringPtr("g"), kmsg.StringPtr("m"), epoch
	req.MinBytes, req.MaxBytes, req.MaxRecords, req.BatchSize = 1, 1<<20, 500, 500
	for _, text := range partitions {
		b.partition(req, text)
	}
	return req
}

// partition adds a partition to a request and returns it.
func (b *shareBroker) partition(req *kmsg.ShareFetchRequest, text string) *kmsg.ShareFetchRequestTopicPartition {
	name, index, _ := strings.Cut(text, ":")
	t := kmsg.NewShareFetchRequestTopic()
	if topic := b.topics[name]; topic != nil {
		t.TopicID = topic.ID()
	} else {
		t.TopicID[0] = 1
	}
	p := kmsg.NewShareFetchRequestTopicPartition()
	_, _ = fmt.Sscan(index, &p.Partition)
	t.Partitions = []kmsg.ShareFetchRequestTopicPartition{p}
	req.Topics = append(req.Topics, t)
	return &req.Topics[len(req.Topics)-1].Partitions[0]
}

// ack says something of records with a fetch.
func ack(p *kmsg.ShareFetchRequestTopicPartition, first, last int64, types ...int8) {
	p.AcknowledgementBatches = append(p.AcknowledgementBatches, kmsg.ShareFetchRequestTopicPartitionAcknowledgementBatch{FirstOffset: first, LastOffset: last, AcknowledgeTypes: types})
}

func (b *shareBroker) name(id storage.TopicID) string {
	for name, t := range b.topics {
		if t.ID() == id {
			return name
		}
	}
	return "unknown"
}

// fetch returns what a fetch was answered, as text.
func (b *shareBroker) fetch(req *kmsg.ShareFetchRequest) string {
	b.t.Helper()
	resp := b.ask(req).(*kmsg.ShareFetchResponse)
	var out []string
	if resp.ErrorCode != 0 {
		out = append(out, kerr.TypedErrorForCode(resp.ErrorCode).Message)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			text := fmt.Sprintf("%s:%d", b.name(t.TopicID), p.Partition)
			for _, a := range p.AcquiredRecords {
				text += fmt.Sprintf(" %d-%d×%d", a.FirstOffset, a.LastOffset, a.DeliveryCount)
			}
			if (len(p.AcquiredRecords) > 0) != (len(p.Records) > 0) {
				text += fmt.Sprintf(" with %d bytes of records", len(p.Records))
			}
			if p.ErrorCode != 0 {
				text += " " + kerr.TypedErrorForCode(p.ErrorCode).Message
			}
			if p.AcknowledgeErrorCode != 0 {
				text += " acknowledged " + kerr.TypedErrorForCode(p.AcknowledgeErrorCode).Message
			}
			out = append(out, text)
		}
	}
	return strings.Join(out, "; ")
}

func (b *shareBroker) want(what, got, want string) {
	b.t.Helper()
	if got != want {
		b.t.Errorf("%s:\n got %q\nwant %q", what, got, want)
	}
}

// write appends a batch of n records to a partition of a topic.
func (b *shareBroker) write(topic string, partition int32, n int) {
	b.t.Helper()
	values := make([]string, n)
	a, err := b.log(topic, partition).Append(b.batch(values...), storage.AppendOptions{})
	if err == nil {
		err = b.log(topic, partition).WaitDurable(b.t.Context(), a)
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// open opens a session that waits for nothing.
func (b *shareBroker) open(version int16, partitions ...string) string {
	b.t.Helper()
	return b.fetch(b.fetchRequest(version, 0, partitions...))
}

// atShareVersions runs a test in a bubble, where synctest.Wait waits for the disk.
func atShareVersions(t *testing.T, f func(t *testing.T, version int16)) {
	for v := int16(1); v <= 2; v++ {
		t.Run(fmt.Sprintf("v%d", v), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, v) })
		})
	}
}

func TestShareFetchAcquiresRecordsOfASession(t *testing.T) {
	atShareVersions(t, func(t *testing.T, v int16) {
		b := newShareBroker(t, nil)
		b.write("orders", 0, 3)
		b.write("bills", 0, 2)
		b.want("first", b.open(v, "orders:0", "bills:0", "orders:1"), "orders:0 0-2×1; orders:1; bills:0 0-1×1")
		b.want("no news", b.fetch(b.fetchRequest(v, 1)), "")
		b.write("orders", 1, 1)
		req := b.fetchRequest(v, 2)
		b.partition(req, "nowhere:0")
		b.want("one added", b.fetch(req), "orders:1 0-0×1; unknown:0 UNKNOWN_TOPIC_ID")
		req = b.fetchRequest(v, 3)
		f := kmsg.NewShareFetchRequestForgottenTopicsData()
		f.TopicID, f.Partitions = [16]byte{1}, []int32{0}
		req.ForgottenTopicsData = append(req.ForgottenTopicsData, f)
		b.want("forgotten again", b.fetch(req), "")
		b.want("an epoch again", b.fetch(b.fetchRequest(v, 3)), "INVALID_SHARE_SESSION_EPOCH")
		b.want("no such partition", b.fetch(b.fetchRequest(v, 4, "orders:9")), "orders:9 UNKNOWN_TOPIC_OR_PARTITION")
		b.want("closed", b.fetch(b.fetchRequest(v, -1)), "")
		b.want("and again", b.fetch(b.fetchRequest(v, -1)), "SHARE_SESSION_NOT_FOUND")
		synctest.Wait()
		b.want("the records came back", b.open(v, "orders:0"), "orders:0 0-2×2")
	})
}

func TestShareFetchRefusesWhatMakesNoSense(t *testing.T) {
	atShareVersions(t, func(t *testing.T, v int16) {
		b := newShareBroker(t, map[string]string{"group.share.max.share.sessions": "1"})
		for _, id := range []*string{nil, kmsg.StringPtr(""), kmsg.StringPtr(strings.Repeat("m", 37))} {
			req := b.fetchRequest(v, 0)
			req.MemberID = id
			b.want("a member id", b.fetch(req), "INVALID_REQUEST")
		}
		req := b.fetchRequest(v, 1)
		req.MemberID = kmsg.StringPtr(strings.Repeat("é", 36)) // counted as Java counts it
		b.want("a member id of 36 letters", b.fetch(req), "SHARE_SESSION_NOT_FOUND")
		req = b.fetchRequest(v, 0)
		req.GroupID = nil
		b.want("no group", b.fetch(req), "INVALID_REQUEST")
		req = b.fetchRequest(v, 0)
		ack(b.partition(req, "orders:0"), 0, 0, 1)
		b.want("acknowledgements with a new session", b.fetch(req), "INVALID_REQUEST")
		b.want("no session", b.fetch(b.fetchRequest(v, 1)), "SHARE_SESSION_NOT_FOUND")
		b.open(v)
		req = b.fetchRequest(v, 0)
		req.MemberID = kmsg.StringPtr("another")
		b.want("too many sessions", b.fetch(req), "SHARE_SESSION_LIMIT_REACHED")
		if v >= 2 {
			req = b.fetchRequest(v, 1)
			req.IsRenewAck = true
			b.want("renewals with a fetch", b.fetch(req), "INVALID_REQUEST")
		}
	})
}

func TestShareFetchAcknowledges(t *testing.T) {
	atShareVersions(t, func(t *testing.T, v int16) {
		b := newShareBroker(t, nil)
		b.write("orders", 0, 10)
		b.want("fetch", b.open(v, "orders:0"), "orders:0 0-9×1")
		req := b.fetchRequest(v, 1)
		ack(b.partition(req, "orders:0"), 0, 3, 1)
		ack(b.partition(req, "nowhere:0"), 0, 0, 1)
		ack(b.partition(req, "bills:0"), 0, 0, 1)
		b.partition(req, "orders:1")
		b.want("acknowledged", b.fetch(req),
			"unknown:0 UNKNOWN_TOPIC_ID acknowledged UNKNOWN_TOPIC_ID; bills:0 acknowledged UNKNOWN_TOPIC_OR_PARTITION; orders:1; orders:0")
	})
}

func TestShareFetchRenewsLocks(t *testing.T) {
	b := newShareBroker(t, nil)
	b.write("orders", 0, 2)
	b.want("fetch", b.open(2, "orders:0"), "orders:0 0-1×1")
	b.advance(20 * time.Second)
	req := b.fetchRequest(2, 1)
	req.MinBytes, req.MaxBytes, req.MaxRecords, req.IsRenewAck = 0, 0, 0, true
	ack(b.partition(req, "orders:0"), 0, 1, 4)
	b.want("renewed", b.fetch(req), "orders:0")
	b.advance(20 * time.Second)
	b.s.shares.Tick()
	req = b.fetchRequest(2, 2)
	ack(b.partition(req, "orders:0"), 0, 1, 1)
	b.want("still held", b.fetch(req), "orders:0")
}

func TestShareFetchLimitsRecords(t *testing.T) {
	b := newShareBroker(t, nil)
	b.write("orders", 0, 10)
	req := b.fetchRequest(2, 0, "orders:0")
	req.MaxRecords, req.ShareAcquireMode = 3, 1
	b.want("exactly", b.fetch(req), "orders:0 0-2×1")
	req = b.fetchRequest(1, 1)
	req.MaxRecords = 3
	b.want("by batches", b.fetch(req), "orders:0 3-9×1")
}

// The encoding by hand is that of the codec.
func TestShareFetchIsEncodedAsByTheCodec(t *testing.T) {
	atShareVersions(t, func(t *testing.T, v int16) {
		b := newShareBroker(t, nil)
		b.write("orders", 0, 3)
		for _, epoch := range []int32{0, 1, 1} {
			req := b.fetchRequest(v, epoch, "orders:0", "bills:0")
			r := b.r
			r.version = v
			got, err := b.s.shareFetch(&r, req)
			if err != nil {
				t.Fatal(err)
			}
			body := got.AppendTo(nil)
			got.release()
			resp := kmsg.NewPtrShareFetchResponse()
			resp.Version = v
			if err := resp.ReadFrom(body); err != nil {
				t.Fatal(err)
			}
			if again := resp.AppendTo(nil); !bytes.Equal(again, body) {
				t.Errorf("epoch %d:\n got %x\nwant %x", epoch, body, again)
			}
			if want := int32(30000); resp.ErrorCode == 0 && resp.AcquisitionLockTimeoutMillis != want {
				t.Errorf("lock of %d ms, want %d", resp.AcquisitionLockTimeoutMillis, want)
			}
		}
	})
}

// A client that gets no session waits for its answer, and holds no memory for what it asked meanwhile.
func TestShareFetchWithoutASessionHoldsNoFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newRunningBroker(t, map[string]string{"group.share.max.share.sessions": "1"})
		b.s.shares = share.New(share.Options{Store: b.store, Now: b.time, Config: b.s.config.Shares(b.store)})
		s := serveBroker(t, b)
		if err := b.s.shares.OpenSession("g", "other", 0, nil); err != nil {
			t.Fatal(err)
		}
		req := (&shareBroker{broker: b}).fetchRequest(2, 0)
		req.MaxWaitMillis = 60_000
		req.Topics = make([]kmsg.ShareFetchRequestTopic, 20_000)
		c := s.dial(t)
		id := c.send(req)
		synctest.Wait()
		if held := b.s.Stats().RequestBytes; held != 0 {
			t.Errorf("the request holds %d bytes, want none", held)
		}
		if resp := c.receive(req, id).(*kmsg.ShareFetchResponse); resp.ErrorCode != kerr.ShareSessionLimitReached.Code {
			t.Errorf("answered by error %d, want %d", resp.ErrorCode, kerr.ShareSessionLimitReached.Code)
		}
	})
}
