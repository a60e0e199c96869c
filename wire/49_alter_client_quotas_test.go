package wire

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kaen-log/gateway/storage"
)

// quotaEntry makes an entry of an AlterClientQuotas request. The entity is TYPE=NAME joined by commas, with <> for the
// default; an op is KEY=VALUE, or -KEY to remove one.
func quotaEntry(entity string, ops ...string) kmsg.AlterClientQuotasRequestEntry {
	e := kmsg.NewAlterClientQuotasRequestEntry()
	for part := range strings.SplitSeq(entity, ",") {
		if part == "" {
			continue
		}
		kind, name, _ := strings.Cut(part, "=")
		p := kmsg.NewAlterClientQuotasRequestEntryEntity()
		if p.Type = kind; name != "<>" {
			p.Name = &name
		}
		e.Entity = append(e.Entity, p)
	}
	for _, text := range ops {
		op := kmsg.NewAlterClientQuotasRequestEntryOp()
		if key, ok := strings.CutPrefix(text, "-"); ok {
			op.Key, op.Remove = key, true
		} else {
			key, value, _ := strings.Cut(text, "=")
			v, err := strconv.ParseFloat(value, 64)
			if err != nil {
				panic(err)
			}
			op.Key, op.Value = key, v
		}
		e.Ops = append(e.Ops, op)
	}
	return e
}

// alterQuotas alters the quotas of one entity and returns the answer's code and message.
func (b *broker) alterQuotas(version int16, validateOnly bool, entity string, ops ...string) (int16, *string) {
	b.t.Helper()
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version, req.ValidateOnly = version, validateOnly
	req.Entries = append(req.Entries, quotaEntry(entity, ops...))
	resp := ask[*kmsg.AlterClientQuotasResponse](b, req)
	if len(resp.Entries) != 1 || len(resp.Entries[0].Entity) != len(req.Entries[0].Entity) {
		b.t.Fatalf("answer %+v, want one entity of %d parts", resp, len(req.Entries[0].Entity))
	}
	return resp.Entries[0].ErrorCode, resp.Entries[0].ErrorMessage
}

// allQuotas returns what DescribeClientQuotas tells of everyone.
func (b *broker) allQuotas() []string {
	b.t.Helper()
	_, lines := b.describeQuotas(1, false)
	return lines
}

func TestAlterClientQuotas(t *testing.T) {
	for version := range int16(2) {
		b := newBroker(t, nil)
		for _, c := range []struct {
			validateOnly bool
			entity       string
			ops          string
			code         int16
			want         []string // nil for no change
		}{
			{false, "user=ann", "producer_byte_rate=1000 request_percentage=0.5", 0, []string{"user=ann: producer_byte_rate=1000 request_percentage=0.5"}},
			{true, "user=ann", "producer_byte_rate=2000", 0, nil},
			{false, "user=ann", "-request_percentage -never_there", 0, []string{"user=ann: producer_byte_rate=1000"}},
			{false, "user=ann", "producer_byte_rate=2000 consumer_byte_rate=0", 42, nil},
			{false, "user=ann", "no_such_key=1", 42, nil},
			{false, "user=ann", "connection_creation_rate=1", 42, nil},
			{false, "user=ann", "producer_byte_rate=1.5", 42, nil},
			{false, "user=ann", "producer_byte_rate=-1", 42, nil},
			{false, "user=ann", "producer_byte_rate=1e19", 42, nil},
			{false, "user=ann", "producer_byte_rate=NaN", 42, nil},
			{false, "user=ann", "producer_byte_rate=1 producer_byte_rate=2", 42, nil},
			{false, "user=ann", "producer_byte_rate=1 -producer_byte_rate", 42, nil},
			{false, "", "producer_byte_rate=1", 42, nil},
			{false, "group=g", "producer_byte_rate=1", 42, nil},
			{false, "user=", "producer_byte_rate=1", 42, nil},
			{false, "user=ann,ip=10.0.0.1", "producer_byte_rate=1", 42, nil},
			{false, "ip=no address", "connection_creation_rate=1", 42, nil},
			{false, "ip=10.0.0.1", "producer_byte_rate=1", 42, nil},
			{false, "ip=10.0.0.1", "connection_creation_rate=1.25", 42, nil},
			{false, "ip=10.0.0.1", "connection_creation_rate=2147483648", 42, nil},
			{false, "user=ann", "-producer_byte_rate", 0, []string{}},
			{false, "ip=10.0.0.1", "connection_creation_rate=2147483647", 0, []string{"ip=10.0.0.1: connection_creation_rate=2.147483647e+09"}},
			{false, "ip=10.0.0.1", "-connection_creation_rate", 0, []string{}},
			{false, "client-id=<>,user=<>", "controller_mutation_rate=0.01", 0, []string{"client-id=<>,user=<>: controller_mutation_rate=0.01"}},
			{false, "client-id=<>,user=<>", "controller_mutation_rate=+Inf", 0, []string{"client-id=<>,user=<>: controller_mutation_rate=+Inf"}},
		} {
			before := b.allQuotas()
			code, message := b.alterQuotas(version, c.validateOnly, c.entity, strings.Fields(c.ops)...)
			if code != c.code || (message == nil) != (code == 0) {
				t.Errorf("version %d, %q %s: code %d and message %v, want code %d", version, c.entity, c.ops, code, message, c.code)
			}
			if c.want == nil {
				c.want = before
			}
			if got := b.allQuotas(); !slices.Equal(got, c.want) {
				t.Errorf("version %d, after %q %s: quotas %q, want %q", version, c.entity, c.ops, got, c.want)
			}
		}
	}
}

func TestAlterClientQuotasOfSeveralEntities(t *testing.T) {
	b := newBroker(t, nil)
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = 1
	req.Entries = []kmsg.AlterClientQuotasRequestEntry{
		quotaEntry("user=ann", "producer_byte_rate=1"),
		quotaEntry("user=bob", "producer_byte_rate=-1", "consumer_byte_rate=5"),
		quotaEntry("user=<>,client-id=c", "producer_byte_rate=3"),
		quotaEntry("client-id=c,user=<>", "producer_byte_rate=4"), // the same entity
	}
	var got []string
	for _, e := range ask[*kmsg.AlterClientQuotasResponse](b, req).Entries {
		got = append(got, fmt.Sprintf("%s %d", deref(e.Entity[len(e.Entity)-1].Name), e.ErrorCode))
	}
	if want := []string{"ann 0", "bob 42", " 42"}; !slices.Equal(got, want) {
		t.Errorf("answers %q, want %q", got, want)
	}
	// What was said of an entity first is done, though its answer is that it came again. So it is in Kafka.
	want := []string{"client-id=c,user=<>: producer_byte_rate=3", "user=ann: producer_byte_rate=1"}
	if got := b.allQuotas(); !slices.Equal(got, want) {
		t.Errorf("quotas %q, want %q", got, want)
	}
}

func TestAlterClientQuotasBoundsARequest(t *testing.T) {
	b := newBroker(t, nil)
	req := kmsg.NewPtrAlterClientQuotasRequest()
	req.Version = 1
	for i := range maxQuotaChanges + 1 {
		req.Entries = append(req.Entries, quotaEntry(fmt.Sprint("user=", i), "producer_byte_rate=1"))
	}
	resp := ask[*kmsg.AlterClientQuotasResponse](b, req)
	if len(resp.Entries) != len(req.Entries) || resp.Entries[0].ErrorCode != 44 {
		t.Errorf("%d answers, the first %+v, want code 44 for each", len(resp.Entries), resp.Entries[0])
	}
	if got := b.store.ClientQuotas(); len(got) != 0 {
		t.Errorf("%d entities have quotas, want none", len(got))
	}
}

func TestQuotasOutliveARestart(t *testing.T) {
	b := newBroker(t, nil)
	if code, _ := b.alterQuotas(1, false, "user=ANONYMOUS", "producer_byte_rate=1"); code != 0 {
		t.Fatal(code)
	}
	b.stop()
	b.open(nil)
	want := storage.ClientQuotas{{User: storage.QuotaName{Set: true, Name: "ANONYMOUS"}}: {"producer_byte_rate": 1}}
	if got := b.store.ClientQuotas(); !reflect.DeepEqual(got, want) {
		t.Errorf("quotas %v, want %v", got, want)
	}
	b.topic("orders", 1)
	resp := ask[*kmsg.ProduceResponse](b, b.produceRequest(13, "orders", produced{0, b.batch("a")}))
	if resp.ThrottleMillis <= 0 {
		t.Errorf("throttle time %d ms, want some", resp.ThrottleMillis)
	}
}

func TestCheckQuota(t *testing.T) {
	for _, c := range []struct {
		key   string
		value float64
		ok    bool
	}{
		{producerByteRate, math.MaxInt64, true},
		{producerByteRate, 1, true},
		{producerByteRate, 1.0000001, true}, // as good as whole
		{producerByteRate, 1.00001, false},
		{producerByteRate, 0.5, false},
		{requestPercentage, 0.0001, true},
		{requestPercentage, math.MaxFloat64, true},
		{controllerMutationRate, 0, false},
		{consumerByteRate, math.Inf(1), false},
		{consumerByteRate, math.Inf(-1), false},
	} {
		if err := checkQuota(quotaKeys, c.key, c.value); (err == nil) != c.ok {
			t.Errorf("%s=%g: error %v, want none %v", c.key, c.value, err, c.ok)
		}
	}
}
