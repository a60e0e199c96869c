package wire

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// acknowledge returns what an acknowledgement was answered, as text. What is said is written as in
// "orders:0 0-3=1,1,2,1".
func (b *shareBroker) acknowledge(version int16, epoch int32, renews bool, said ...string) string {
	b.t.Helper()
	req := kmsg.NewPtrShareAcknowledgeRequest()
	req.Version, req.GroupID, req.MemberID, req.ShareSessionEpoch, req.IsRenewAck = version, kmsg.StringPtr("g"), kmsg.StringPtr("m"), epoch, renews
	for _, text := range said {
		name, rest, _ := strings.Cut(text, ":")
		t := kmsg.NewShareAcknowledgeRequestTopic()
		t.TopicID[0] = 1
		if topic := b.topics[name]; topic != nil {
			t.TopicID = topic.ID()
		}
		p := kmsg.NewShareAcknowledgeRequestTopicPartition()
		fields := strings.Fields(rest)
		_, _ = fmt.Sscan(fields[0], &p.Partition)
		for _, f := range fields[1:] {
			var batch kmsg.ShareAcknowledgeRequestTopicPartitionAcknowledgementBatch
			offsets, types, _ := strings.Cut(f, "=")
			_, _ = fmt.Sscanf(offsets, "%d-%d", &batch.FirstOffset, &batch.LastOffset)
			for _, one := range strings.FieldsFunc(types, func(r rune) bool { return r == ',' }) {
				var n int8
				_, _ = fmt.Sscan(one, &n)
				batch.AcknowledgeTypes = append(batch.AcknowledgeTypes, n)
			}
			p.AcknowledgementBatches = append(p.AcknowledgementBatches, batch)
		}
		t.Partitions = append(t.Partitions, p)
		req.Topics = append(req.Topics, t)
	}
	resp := b.ask(req).(*kmsg.ShareAcknowledgeResponse)
	var out []string
	if resp.ErrorCode != 0 {
		out = append(out, kerr.TypedErrorForCode(resp.ErrorCode).Message)
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			text := fmt.Sprintf("%s:%d", b.name(t.TopicID), p.Partition)
			if p.ErrorCode != 0 {
				text += " " + kerr.TypedErrorForCode(p.ErrorCode).Message
			}
			out = append(out, text)
		}
	}
	if want := int32(30000); version >= 2 && resp.ErrorCode == 0 && resp.AcquisitionLockTimeoutMillis != want {
		b.t.Errorf("lock of %d ms, want %d", resp.AcquisitionLockTimeoutMillis, want)
	}
	return strings.Join(out, "; ")
}

func TestShareAcknowledgeAtEveryVersion(t *testing.T) {
	atShareVersions(t, func(t *testing.T, v int16) {
		b := newShareBroker(t, nil)
		b.write("orders", 0, 10)
		b.write("bills", 0, 4)
		b.want("no session", b.acknowledge(v, 1, false), "SHARE_SESSION_NOT_FOUND")
		b.open(v, "orders:0", "bills:0", "orders:1")
		b.want("the epoch of a new session", b.acknowledge(v, 0, false), "INVALID_SHARE_SESSION_EPOCH")
		b.want("an epoch ahead", b.acknowledge(v, 2, false), "INVALID_SHARE_SESSION_EPOCH")
		b.want("some", b.acknowledge(v, 1, false, "orders:0 0-3=1 5-6=2,3", "bills:0 0-0=0", "orders:1"), "orders:0; orders:1; bills:0")
		b.want("some again", b.acknowledge(v, 2, false, "orders:0 0-0=1 5-6=1"), "orders:0 INVALID_RECORD_STATE")
		b.want("elsewhere", b.acknowledge(v, 3, false, "orders:9 0-0=1", "nowhere:0 0-0=1"), "orders:9 UNKNOWN_TOPIC_OR_PARTITION; unknown:0 UNKNOWN_TOPIC_ID")
		b.want("nothing", b.acknowledge(v, 4, false, "orders:0"), "")
		for i, odd := range []string{"2-1=1", "7-8=1 4-4=1", "7-7=", "7-8=1,1,1", "7-7=5", "7-7=-1", "7-7=4"} {
			b.want(odd, b.acknowledge(v, int32(5+i), false, "orders:0 "+odd), "orders:0 INVALID_REQUEST")
		}
		want := map[int16]string{1: "orders:0 INVALID_REQUEST", 2: "orders:0"}[v]
		b.want("renewal", b.acknowledge(v, 12, v >= 2, "orders:0 7-7=4"), want)
		b.want("closed", b.acknowledge(v, -1, false, "orders:0 7-7=1"), "orders:0")
		b.want("and again", b.acknowledge(v, -1, false), "SHARE_SESSION_NOT_FOUND")
		synctest.Wait()
		b.want("what is left", b.open(v, "orders:0"), "orders:0 4-5×2 8-9×2")
	})
}
