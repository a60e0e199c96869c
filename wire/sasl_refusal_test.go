package wire

import (
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fillLists puts an element into every list of a request.
func fillLists(v reflect.Value) {
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() != reflect.Slice || !f.CanSet() {
			continue
		}
		f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		if e := f.Index(0); e.Kind() == reflect.Struct {
			fillLists(e)
		}
	}
}

// TestEveryRequestIsRefused makes the answer of an error for every version of every request, empty and with lists, since
// it is a stranger who asks for it.
func TestEveryRequestIsRefused(t *testing.T) {
	for i := range apis.rows {
		a := &apis.rows[i]
		for version := a.min; version <= a.max; version++ {
			for _, filled := range []bool{false, true} {
				req := a.newRequest()
				req.SetVersion(version)
				if filled {
					fillLists(reflect.ValueOf(req).Elem())
				}
				if p, ok := req.(*kmsg.ProduceRequest); ok {
					p.Acks = -1
				}
				c := &call{api: a, message: req}
				c.version = version
				resp := refusalOf(c, kerr.IllegalSaslState)
				if resp == nil {
					t.Fatalf("key %d version %d: no answer", a.key, version)
				}
				back := req.ResponseKind()
				back.SetVersion(version)
				if err := back.ReadFrom(resp.AppendTo(nil)); err != nil {
					t.Errorf("key %d version %d: the answer cannot be read: %v", a.key, version, err)
				}
				elsewhere := a.key == 9 || a.key == 10 // whose last versions have their codes in lists
				if r := reflect.ValueOf(back).Elem().FieldByName("ErrorCode"); version == a.max && r.IsValid() && !elsewhere && r.Int() != 34 {
					t.Errorf("key %d version %d: code %d", a.key, version, r.Int())
				}
			}
		}
	}
}

// TestRefusalsNameWhatWasAsked looks at answers that have codes in their lists.
func TestRefusalsNameWhatWasAsked(t *testing.T) {
	refusal := func(req kmsg.Request) response {
		c := &call{api: apis.find(req.Key()), message: req}
		c.version = req.GetVersion()
		return refusalOf(c, kerr.IllegalSaslState)
	}
	meta := refusal(metadataOf(9, "orders", "bills")).(*kmsg.MetadataResponse)
	if len(meta.Topics) != 2 || *meta.Topics[1].Topic != "bills" || meta.Topics[1].ErrorCode != 34 || meta.ControllerID != -1 {
		t.Errorf("Metadata: %+v", meta)
	}
	commit := kmsg.NewPtrOffsetCommitRequest()
	commit.Version = 8
	commit.Topics = []kmsg.OffsetCommitRequestTopic{{Topic: "orders", Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: 7}}}}
	if r := refusal(commit).(*kmsg.OffsetCommitResponse); r.Topics[0].Topic != "orders" || r.Topics[0].Partitions[0].Partition != 7 || r.Topics[0].Partitions[0].ErrorCode != 34 {
		t.Errorf("OffsetCommit: %+v", r)
	}
	unacked := kmsg.NewPtrProduceRequest()
	unacked.Version = 9
	if r := refusal(unacked); r != nil {
		t.Errorf("Produce without acks: %+v, want no answer", r)
	}
	unread := &call{api: apis.find(apiVersionsKey)}
	unread.version = 99
	if r := refusalOf(unread, kerr.IllegalSaslState).(*kmsg.ApiVersionsResponse); r.ErrorCode != 34 || r.Version != 0 {
		t.Errorf("ApiVersions: %+v", r)
	}
}
