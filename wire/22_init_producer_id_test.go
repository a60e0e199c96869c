package wire

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestInitProducerIDFieldCases(t *testing.T) {
	atVersions(t, "TXN-03", 22, 0, func(t *testing.T, v int16) {
		b := newBroker(t, nil)
		id, empty := "tx", ""
		for _, c := range []struct {
			what    string
			id      *string
			timeout int32
			code    int16
		}{
			{"empty id", &empty, 60_000, 42},
			{"timeout above the maximum", &id, 900_001, 50},
			{"timeout 0", &id, 0, 50},
			{"good", &id, 60_000, 53},
		} {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.Version, req.TransactionalID, req.TransactionTimeoutMillis = v, c.id, c.timeout
			resp := ask[*kmsg.InitProducerIDResponse](b, req)
			if resp.ErrorCode != c.code || resp.ProducerID != -1 || resp.ProducerEpoch != -1 {
				t.Errorf("%s: got error %d, id %d, epoch %d; want %d, -1, -1", c.what, resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch, c.code)
			}
		}
		last := int64(-1)
		for range 3 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.Version = v
			resp := ask[*kmsg.InitProducerIDResponse](b, req)
			if resp.ErrorCode != 0 || resp.ProducerID <= last || resp.ProducerEpoch != 0 {
				t.Errorf("got error %d, id %d, epoch %d; want 0, above %d, 0", resp.ErrorCode, resp.ProducerID, resp.ProducerEpoch, last)
			}
			last = resp.ProducerID
		}
		if v >= 3 {
			req := kmsg.NewPtrInitProducerIDRequest()
			req.Version, req.ProducerID, req.ProducerEpoch = v, 4, -1
			if resp := ask[*kmsg.InitProducerIDResponse](b, req); resp.ErrorCode != 42 {
				t.Errorf("id without an epoch: got error %d, want 42", resp.ErrorCode)
			}
		}
	})
}
